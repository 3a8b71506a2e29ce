"""The inspector's page: its files, its stream of events and its HTTP API.

`serve` runs it; every request passes the `gate` and is answered by an endpoint in `api`, or by `app` with a file of the
page. Importing this package imports no part of the SDK, so the page is served before a server is connected to.
"""
