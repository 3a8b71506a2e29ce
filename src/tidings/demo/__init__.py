"""`tidings demo`: a sample vault, a small site, a server for each, the inspector on both, and a tour.

show.py        starts everything in order, and ends it
stage.py       the notes, the site, the servers, and the session that is connected to them
tour.py        the steps of the tour: their texts, doing them, ticking them off
step_check.py  the effect of a step, found in the session's records
terminal.py    the tour in a terminal
servers.py     a server process that is restarted when it ends, and ends with its parent
sample.py      the sample vault in its temporary folder
"""
