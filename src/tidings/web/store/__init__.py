"""What was fetched, kept for a while: versions of pages, who watches them, and what changed from one to the next.

    model.py      what goes in and what comes out, and what can go wrong
    store.py      Store: one thread, one database, in memory or in a file that several processes share
    diffs.py      the difference of two texts; feed_diffs.py: of two states of a feed

    entries.py, pages.py, watches.py      what is done in the database, each in one transaction (moment.py)
    limits.py, clock.py                   what goes when there is too much of it; clocks that step back
    database.py, schema.py, locks.py      the database: its tables, opened, found damaged, made anew
    rows.py, errors.py                    how an entry is written; what is wrong, and what to do

May import: `packets.model`, `extract.model`.
"""

from tidings.web.store.model import (
    EntryTooLarge,
    PageFacts,
    PartKind,
    PutOutcome,
    StoreChanges,
    StoreCursorInvalid,
    StoredPage,
    StoredVersion,
    StoredWatch,
    StoreError,
    Summary,
    Version,
    VersionPart,
)

__all__ = [
    "EntryTooLarge",
    "PageFacts",
    "PartKind",
    "PutOutcome",
    "StoreChanges",
    "StoreCursorInvalid",
    "StoreError",
    "StoredPage",
    "StoredVersion",
    "StoredWatch",
    "Summary",
    "Version",
    "VersionPart",
]
