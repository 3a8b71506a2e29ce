"""The inspector: what a server does, recorded, folded into a view, shown by three faces, kept and compared.

| room | what is in it |
|---|---|
| `records`, `record_data`, `bounds`, `reading` | everything that happens, as values of one kind; JSON within bounds |
| `views`, `view_*`, `rings`, `limits` | what is known about a server: a fold over its records. What the faces read |
| `session`, `inspected`, `opening`, `watches`, `rereading`, `masks` | several servers, and what can be done with each |
| `observer`, `observer_wire`, `listing`, `errors_seen` | from a `LiveClient` and its wire to records |
| `diffs`, `alignment` | what changed between two versions |
| `journal`, `journal_file`, `journal_sessions` | records kept in SQLite; sessions listed, loaded, deleted |
| `transfer`, `compare` | sessions exported, imported, replayed; two side by side |
| `mock`, `recording` | an MCP server that answers from a recorded session |
| `catalog`, `catalog_*` | the servers that one knows, and those that other programs know |
| `schemas` | forms from JSON Schemas, values from what is typed, and what is wrong with them |
| `tui`, `web`, `static` | the faces: in the terminal, and as a page |

One change's way through it: the tap (`observer_wire`) hears a notification and makes a `change` record; the session
numbers it, `view_contents` folds it in, the journal's thread writes it down, listeners are told; the client reads the
resource again, `observer` makes a `content` record of that, and the view knows both versions and each hop's time.

May import: `client`, `bus`, `changes`, `errors`. Never `server`, `vault`, `web`.
"""
