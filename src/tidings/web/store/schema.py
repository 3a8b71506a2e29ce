"""The tables of the store, which are in `schema.sql`.

`entries` are versions of pages, in few bytes; their texts, bytes and screenshots are in `parts`. `no` numbers all
events in their order, from one counter for all tables: clocks may step back, the counter does not.

A page is watched as long as it has a row in `watchers`: one with the owner '' for the explicit watch, and one for each
process that has subscribers. `owners` says until when such a process counts as alive.

Whatever lasts for a time has that time beside its end (`ttl`, `wait`, `lease`, `alive`). An end that is further ahead
than that must have been computed before the clock stepped back.
"""

import re
from pathlib import Path
from typing import Final

from tidings._kit.sqlite import Schema, statements_in

APPLICATION_ID: Final = 0x54494457  # marks a database as a store of web pages of Tidings ("TIDW")

_STATEMENTS: Final = statements_in(Path(__file__).with_name("schema.sql"))
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

SCHEMA: Final = Schema(
    APPLICATION_ID,
    # Raised with every change of the tables. A store of an older version is set aside: all of it can be fetched again.
    version=2,
    tables=(*_STATEMENTS, *_TRIGGERS),
    fill=lambda connection: connection.execute("INSERT INTO counters VALUES (1, 0, 0, '')"),
    # Damage is noticed now rather than later.
    checked=[found[1] for each in _STATEMENTS if (found := re.match(r"\s*CREATE (?:TABLE|VIEW) (\w+)", each))],
    # Unused pages are given back to the disk, a few at a time (`Database.free`).
    pragmas=("PRAGMA auto_vacuum = INCREMENTAL", f"PRAGMA journal_size_limit = {16 * 2**20}"),
)
