"""`tidings demo`: a sample vault, a small site, the servers of both, the inspector on them, and a tour.

    show.py        the whole: what is started, in which order, and how it ends
    stage.py       what is shown: notes, site, servers, and the session that is connected to them
    tour.py        the steps, done for whoever asks, and ticked off by what the session's records say
    steps.py       the words of the steps
    seeing.py      what a record shows of a step, with its times
    talk.py        the same in a terminal: what is told there, and what is typed
    kept.py        a server as a process that is started again when it ends
    tether.py      what such a process runs in: it ends when this one does, however that ended
    folder.py      where everything is written, and that it is removed
    sample.py      the notes, and what happens to them (vault/)
    site.py        the site, and what happens to it (pages/)

May import: `inspector`, `vault`, `web` (only for what packages they need), and below.
"""
