"""Fetched pages, kept for a while: versions of pages, and the watches on them.

store.py         `Store`: one thread, one database, in memory or in a file that several processes share
pages.py         pages and their versions: put, found, listed
watches.py       watches: who wants them, when each is due, who looks
transaction.py   one transaction: its time, its owner, its bounds; making room
model.py         the types that go in and come out, and the errors
"""
