"""The inspector's page: its assets, its stream and its HTTP API.

| file | what |
|---|---|
| `serving` | a server for the page, first, and a session for it, right after |
| `app` | the routes |
| `gate` | who may come in: every request goes through it |
| `assets` | the built page |
| `feed`, `notes`, `rows`, `facts` | what happened, and what is known, as the page keeps it |
| `stream` | the same as it happens |
| `answers` | bodies in, JSON and errors out |
| `api_*` | the endpoints, by noun |

Importing it imports neither the SDK nor the session: the page is served before they are there.

May import: the rest of `inspector`.
"""
