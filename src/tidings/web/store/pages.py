"""Pages in the database: what is known of them, whatever becomes of their versions.

May import: `limits`, `model`, `moment`, `rows`.
"""

from typing import Any, Final

from tidings.web.store import rows
from tidings.web.store.limits import ALIASES
from tidings.web.store.model import Entry, News, Page, PageFacts, Version
from tidings.web.store.moment import Moment

_NOTE: Final = """INSERT OR REPLACE INTO pages
    (page_id, canonical_url, url, content_hash, checked_at, etag, last_modified, options, variant, seen,
    changed, changed_by, untold) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""

_LAST_HASH: Final = "SELECT content_hash FROM entries WHERE page_id = ? AND variant = ? ORDER BY no DESC LIMIT 1"

_FIND: Final = """SELECT page_id, canonical_url, url, content_hash, checked_at, etag, last_modified, options,
    EXISTS (SELECT 1 FROM watchers w WHERE w.page_id = p.page_id), untold
    FROM pages p WHERE page_id IN (SELECT :wanted UNION ALL SELECT page_id FROM aliases WHERE url = :wanted)"""

_VERSIONS: Final = """SELECT source_id, retrieved_at, content_hash, title, size, options FROM entries
    WHERE page_id = ? AND (expires_at > ? OR pinned) ORDER BY no DESC"""


def note(at: Moment, entry: Entry, facts: PageFacts) -> bool:
    """Keep what a fetch says of the page; whether it says something else, read in the same way."""
    content_hash, variant = entry.packet["hashes"]["content_hash"], rows.variant_of(facts.options)
    known, last, url, *changed_by = at.do(
        "SELECT content_hash, variant, url, changed, changed_by, untold FROM pages WHERE page_id = ?", entry.page_id
    ).fetchone() or ("", "", None, 0, "", 0)
    if last != variant:
        # What was read in another way differs for that reason. What it was in this way, an entry may know.
        known = at.one(_LAST_HASH, entry.page_id, variant) or ""
    number = at.number()
    differs = known not in {"", content_hash}
    canonical_url = rows.clean(entry.packet["canonical_url"])
    at.do(
        _NOTE,
        entry.page_id,
        canonical_url,
        # A page that was fetched once can be, even if somebody then gave its bytes.
        rows.clean(facts.url) or url,
        content_hash,
        at.now if facts.checked_at is None else facts.checked_at,
        rows.clean(facts.etag),
        rows.clean(facts.last_modified),
        rows.options_text(facts.options),
        variant,
        number,
        *((number, at.owner.name, 1) if differs else changed_by),
    )
    if facts.url is not None:
        _note_aliases(at, entry.page_id, {canonical_url, facts.url, *facts.aliases}, number)
    return differs


def _note_aliases(at: Moment, page_id: str, urls: set[str | None], number: int) -> None:
    at.do_each("INSERT OR REPLACE INTO aliases VALUES (?, ?, ?)", [(rows.clean(url), page_id, number) for url in urls])
    at.do(
        """DELETE FROM aliases WHERE page_id = :page_id AND url NOT IN (
            SELECT url FROM aliases WHERE page_id = :page_id ORDER BY no DESC, url LIMIT :most)""",
        page_id=page_id,
        most=ALIASES,
    )


def find(at: Moment, url_or_page_id: str) -> Page | None:
    """The page of that id, or that the URL leads to."""
    row = at.do(_FIND, wanted=rows.clean(url_or_page_id)).fetchone()
    if row is None:
        return None
    page_id, canonical_url, url, content_hash, checked_at, etag, last_modified, options, watched, untold = row
    return Page(
        page_id=page_id,
        canonical_url=canonical_url,
        url=url,
        versions=tuple(_version(*version) for version in at.do(_VERSIONS, page_id, at.now)),
        content_hash=content_hash,
        checked_at=checked_at,
        etag=etag,
        last_modified=last_modified,
        options=rows.options_of(options),
        watched=bool(watched),
        untold=bool(untold),
    )


def _version(*row: Any) -> Version:
    *version, options = row
    return Version(*version, options=rows.options_of(options))


def page_ids(at: Moment, prefix: str, limit: int) -> list[str]:
    """The page_ids that begin so, last seen first."""
    return at.column(
        "SELECT page_id FROM pages WHERE substr(page_id, 1, length(:prefix)) = :prefix ORDER BY seen DESC LIMIT :most",
        prefix=rows.clean(prefix),
        most=limit,
    )


def checked(
    at: Moment, page_id: str, etag: str | None, last_modified: str | None, when: float, *, of: Page | None = None
) -> bool:
    """The page is what it was: its newest version, if it is still there, lives on for as long as a new one."""
    now = at.do("SELECT content_hash, variant FROM pages WHERE page_id = ?", rows.clean(page_id)).fetchone()
    if of is not None and now != (of.content_hash, rows.variant_of(of.options)):
        return False
    at.do(
        "UPDATE pages SET etag = ?, last_modified = ?, checked_at = ? WHERE page_id = ?",
        rows.clean(etag),
        rows.clean(last_modified),
        when,
        rows.clean(page_id),
    )
    newest = at.one(
        """SELECT no FROM entries WHERE page_id = :page_id AND (expires_at > :now OR pinned)
           AND no = (SELECT max(no) FROM entries WHERE page_id = :page_id)""",
        page_id=rows.clean(page_id),
        now=at.now,
    )
    at.do("UPDATE entries SET expires_at = ? + ttl WHERE no = ?", at.now, newest)
    return newest is not None


def told(at: Moment, page_id: str, content_hash: str) -> None:
    """Everybody was told that the page has this content, if it still has."""
    known = rows.clean(page_id), content_hash
    at.do("UPDATE pages SET untold = 0 WHERE page_id = ? AND content_hash = ?", *known)


def news(at: Moment, since: int | None) -> News:
    """What others did since the mark."""
    mark, listed, listed_by = at.do("SELECT no, listed, listed_by FROM counters").fetchone()
    if since is None:
        return News(mark)
    # A mark that is yet to come is of another file, which this one took the place of.
    since = since if since <= mark else 0
    changed = at.column(
        "SELECT page_id FROM pages WHERE changed > ? AND changed_by <> ? ORDER BY changed", since, at.owner.name
    )
    return News(mark, tuple(changed), listed > since and listed_by != at.owner.name)
