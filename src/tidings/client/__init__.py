"""The live client: `connect()` and `LiveClient`.

Here live the connection (a state machine), one feed for each era of the protocol (`legacy.py`, `modern.py`), the
cache, the mirrors of the server's lists, the queue of requests and the requests that wait for a person.

May import: `bus`, `changes`, `errors`. Never `server`.
"""
