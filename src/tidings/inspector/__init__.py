"""The inspector: everything that servers do, recorded, folded into a view, shown, stored and compared.

Client events become records (`recorder`), records are folded into a view (`view`), and the page (`http`) and the
terminal app (`tui`) read the view. `session` holds the servers; `sessions` stores, exports and mocks.

A change of a resource, from the wire to the screen: the client announces it (`ChangeReceived`), `recorder` makes a
`change` record, the session numbers it, `view.fold` adds it to the view, the journal stores it, and listeners get it.
The client reads the resource again (`ReadCompleted`), which becomes a `content` record; the view then has both versions
and the time of each hop.
"""
