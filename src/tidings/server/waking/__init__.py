"""Waking: tools whose end a client hears of, so that its model goes on by itself.

`extension.py` has the methods of the tasks extension, `store.py` the tasks on the bus, and `looks.py` a quick way for
those who look at them. `running.py` has the tools that run as tasks.
`tool.py` is the tool `wait_for_change` as models see it, `waiting.py` serves it, and `texts.py` has the texts of the
resources that are waited for. `changes.py` is the tool that answers what changed lately.
"""
