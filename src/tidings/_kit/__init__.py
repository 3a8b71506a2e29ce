"""Mechanisms that exist once and serve every room. What differs between two users is a parameter.

A kit file imports `errors` and the standard library; third-party packages only late, in the seams, except that
`telemetry` imports the OpenTelemetry API, and `address_guard` httpcore.
"""
