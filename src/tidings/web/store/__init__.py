"""What was fetched, kept for a while: versions of pages, who watches them, and what changed from one to the next.

    model.py    what goes in and what comes out, and what can go wrong
    store.py    Store: one thread, one database, in memory or in a file that several processes share
    diffs.py    the difference of two texts; feeds.py: of two states of a feed

    file.py     the database: opened, found damaged, made anew; schema.py: its tables; errors.py: causes and cures
    entries.py, pages.py, watches.py, limits.py, clock.py: what is done in it, each in one transaction

May import: `packets.model`, `extract.model`.
"""

from tidings.web.store.model import (
    BadCursor,
    Entry,
    EntryTooLarge,
    News,
    Page,
    PageFacts,
    Part,
    PartKind,
    Put,
    StoreError,
    Summary,
    Version,
    Watch,
)

__all__ = [
    "BadCursor",
    "Entry",
    "EntryTooLarge",
    "News",
    "Page",
    "PageFacts",
    "Part",
    "PartKind",
    "Put",
    "StoreError",
    "Summary",
    "Version",
    "Watch",
]
