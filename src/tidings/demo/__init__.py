"""`tidings demo`: a sample vault, a small site, a server for each, the inspector on both, and a tour.

show.py     starts everything in order, and ends it; the site, the agent, the tour in a terminal
tour.py     the steps of the tour: their texts, doing them, their effects in the records, ticking them off
servers.py  a server process that is restarted when it ends, and ends with its parent
sample.py   the sample vault in its temporary folder
"""
