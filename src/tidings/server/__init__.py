"""The live server: `LiveServer` and `attach()`.

Here live the hub (who wants what), coalescing, one file for each era of the protocol (`legacy.py`, `modern.py`), the
borrowed stream and telemetry.

May import: `bus`, `changes`, `errors`. Never `client`.
"""
