"""The inspector: the observable session, its HTTP API, the built page and the terminal app.

May import: `client`, `server`, `bus`, `changes`, `errors`.
"""
