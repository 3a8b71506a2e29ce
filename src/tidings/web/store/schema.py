"""The tables of the store.

`entries` are versions of pages, in few bytes; their texts, bytes and screenshots are in `parts`. `no` numbers all
events in their order, from one counter for all tables: clocks may step back, the counter does not.

A page is watched as long as it has a row in `watchers`: one with the owner '' for the explicit watch, and one for each
process that has subscribers. `owners` says until when such a process counts as alive.

Whatever lasts for a time has that time beside its end (`ttl`, `wait`, `lease`, `alive`). An end that is further ahead
than that must have been computed before the clock stepped back.
"""

from typing import Final

from tidings._kit.sqlite import Schema

APPLICATION_ID: Final = 0x54494457  # marks a database as a store of web pages of Tidings ("TIDW")

TABLES: Final = {
    "counters": """(
        id INTEGER PRIMARY KEY CHECK (id = 1),
        no INTEGER NOT NULL,
        listed INTEGER NOT NULL,  -- no longer used, like `listed_by`
        listed_by TEXT NOT NULL
    )""",
    "pages": """(
        page_id TEXT PRIMARY KEY,
        canonical_url TEXT NOT NULL,
        url TEXT,                    -- NULL: it cannot be fetched
        content_hash TEXT NOT NULL,  -- of its newest content; '' if that is not known
        checked_at REAL NOT NULL,
        etag TEXT,
        last_modified TEXT,
        options TEXT NOT NULL,
        variant TEXT NOT NULL,       -- of its newest content and its validators
        seen INTEGER NOT NULL,       -- when it was last put or watched
        changed INTEGER NOT NULL,    -- no longer used, like `changed_by`
        changed_by TEXT NOT NULL,
        untold INTEGER NOT NULL DEFAULT 0  -- whether its last change was not announced yet
    ) WITHOUT ROWID""",
    "aliases": "(url TEXT PRIMARY KEY, page_id TEXT NOT NULL, no INTEGER NOT NULL) WITHOUT ROWID",
    "entries": """(
        no INTEGER PRIMARY KEY,
        source_id TEXT NOT NULL UNIQUE,
        page_id TEXT NOT NULL,
        canonical_url TEXT NOT NULL,
        title TEXT,
        site_name TEXT,
        retrieved INTEGER NOT NULL,  -- in microseconds since 1970
        retrieved_at TEXT NOT NULL,
        content_type TEXT NOT NULL,
        content_hash TEXT NOT NULL,
        raw_hash TEXT NOT NULL,
        raw_type TEXT,
        options TEXT NOT NULL,
        variant TEXT NOT NULL,       -- only versions of the same variant are compared
        size INTEGER NOT NULL,
        expires_at REAL NOT NULL,
        ttl REAL NOT NULL,
        pinned INTEGER NOT NULL DEFAULT 0
    )""",
    "parts": """(
        id INTEGER PRIMARY KEY,
        source_id TEXT NOT NULL,
        kind TEXT NOT NULL,  -- head (the packet without its content), content, raw, screenshot, feed
        data BLOB NOT NULL,
        UNIQUE (source_id, kind)
    )""",
    "watches": """(
        page_id TEXT PRIMARY KEY,
        next_at REAL NOT NULL,
        wait REAL NOT NULL,
        failures INTEGER NOT NULL,
        state TEXT NOT NULL,
        leased_by TEXT,
        lease_until REAL NOT NULL,
        lease REAL NOT NULL
    ) WITHOUT ROWID""",
    "watchers": """(
        page_id TEXT NOT NULL,
        owner TEXT NOT NULL,
        options TEXT NOT NULL,
        variant TEXT NOT NULL,
        no INTEGER NOT NULL,
        PRIMARY KEY (page_id, owner)
    ) WITHOUT ROWID""",
    "owners": "(owner TEXT PRIMARY KEY, alive_until REAL NOT NULL, alive REAL NOT NULL) WITHOUT ROWID",
}

_PIN: Final = """UPDATE entries SET pinned = page_id IN (SELECT page_id FROM watchers) AND variant IN (
        SELECT variant FROM watchers w WHERE w.page_id = entries.page_id
        UNION ALL
        SELECT variant FROM entries n WHERE n.no = (SELECT max(no) FROM entries v WHERE v.page_id = entries.page_id)
    ) AND no IN (
        SELECT max(no) FROM entries v WHERE v.page_id = entries.page_id AND v.variant = entries.variant
        UNION ALL
        SELECT max(no) FROM entries v WHERE v.page_id = entries.page_id AND v.variant = entries.variant
        AND v.content_hash <> (
            SELECT content_hash FROM entries n WHERE n.page_id = entries.page_id AND n.variant = entries.variant
            ORDER BY n.no DESC LIMIT 1)
    ) WHERE page_id = {page_id}"""
"""Pins two versions of a watched page: the newest, and the newest with another content, which is the other side of its
diff. Both are of one variant: the one that was fetched last, and each that is watched."""

_TRIGGERS: Final = tuple(
    f"CREATE TRIGGER {table}_{event} AFTER {event} ON {table} BEGIN {_PIN.format(page_id=page_id)}; END"
    for table in ("entries", "watchers")
    for event, page_id in (("insert", "new.page_id"), ("delete", "old.page_id"))
)

_VIEWS: Final = (
    """CREATE VIEW watched AS SELECT w.page_id, p.url, p.canonical_url,
        EXISTS (SELECT 1 FROM watchers a WHERE a.page_id = w.page_id AND a.owner = '') AS explicit,
        (SELECT count(*) FROM watchers a WHERE a.page_id = w.page_id AND a.owner <> '') AS subscribers,
        (SELECT options FROM watchers a WHERE a.page_id = w.page_id ORDER BY a.owner <> '', a.no DESC LIMIT 1)
            AS options,
        w.next_at, w.failures, w.state FROM watches w JOIN pages p USING (page_id)""",
)

_INDICES: Final = (
    "CREATE INDEX aliases_by_page ON aliases (page_id, no)",
    "CREATE INDEX entries_by_page ON entries (page_id, no)",
    "CREATE INDEX entries_by_variant ON entries (page_id, variant, no, content_hash)",
    "CREATE INDEX entries_by_expiry ON entries (pinned, expires_at)",
    "CREATE INDEX entries_by_arrival ON entries (pinned, no, source_id)",
    "CREATE INDEX entries_by_age ON entries (retrieved, no)",
    "CREATE INDEX pages_by_change ON pages (changed)",
    "CREATE INDEX pages_by_seen ON pages (seen)",
    "CREATE INDEX watches_by_time ON watches (next_at)",
)

SCHEMA: Final = Schema(
    APPLICATION_ID,
    # Raised with every change of the tables. A store of an older version is set aside: all of it can be fetched again.
    version=2,
    tables=(*(f"CREATE TABLE {name} {columns}" for name, columns in TABLES.items()), *_VIEWS, *_TRIGGERS, *_INDICES),
    fill=lambda connection: connection.execute("INSERT INTO counters VALUES (1, 0, 0, '')"),
    # Damage is noticed now rather than later.
    checked=(*TABLES, "watched"),
    # Unused pages are given back to the disk, a few at a time (`Database.free`).
    pragmas=("PRAGMA auto_vacuum = INCREMENTAL", f"PRAGMA journal_size_limit = {16 * 2**20}"),
)
