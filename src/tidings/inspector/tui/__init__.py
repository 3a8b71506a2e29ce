"""The inspector in the terminal: a Textual app that reads a `Session`'s views and drives its servers.

The screen is updated from the view at most `RATE` times a second (`app.py`), whatever arrives meanwhile. Every list is
one widget that draws only the visible rows (`widgets/lists.py`).
"""
