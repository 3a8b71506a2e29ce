"""Waking: tools whose end a client hears of, so that its model goes on by itself.

`extension.py` has the methods of the tasks extension, `store.py` the tasks on the bus, `waiting.py` the tool
`wait_for_change`, and `running.py` the tools that run as tasks.
"""
