"""The inspector in the terminal: a Textual app that reads a `Session`'s views and drives its servers.

The screen is updated from the view at most `RATE` times a second (`app.py`), whatever arrives meanwhile. Every list is
one widget that draws only the visible rows (`widgets/lists.py`).

| file                | contents                                                    |
|---------------------|-------------------------------------------------------------|
| `app.py`            | the app: the session, the clock, the keys and their actions |
| `frame.py`          | around every screen: servers, facts, tabs, numbers          |
| `theme.py`          | the two color schemes                                       |
| `dialogs.py`        | one line, the keys, a request, a server, saved sessions     |
| `screens/`          | one file for each tab, and the questions                    |
| `widgets/`          | lists, texts, forms, bars                                   |
"""
