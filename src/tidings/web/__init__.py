"""The web-fetch server: the guard, fetching, extraction, the store, watching pages, its resources and tools.

May import: `client`, `server`, `bus`, `changes`, `errors`.
"""
