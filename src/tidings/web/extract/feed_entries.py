"""What a feed becomes, whichever sort it is: entries, each with an id of its own, and their markdown."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from tidings.web.extract.model import Caps, Entry, Extracted, Link, Warning_
from tidings.web.extract.plain import plain_text
from tidings.web.extract.written import bounded, left_out

_MARKUP = re.compile(r"<[a-zA-Z/!][^<>]{0,5000}>|&(?:[a-zA-Z]{2,20}|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});")
_SPECIAL = re.compile(r"([\\`*_\[\]])")
_LINE_START = re.compile(r"^(\s*)(#{1,6}\s|[-+]\s|>|\d{1,9}[.)]\s)", re.MULTILINE)


@dataclass(frozen=True)
class Feed:
    """A feed before it is written. The summaries are whole, and may be HTML no more."""

    method: str
    title: str | None = None
    author: str | None = None
    language: str | None = None
    description: str | None = None
    published_at: str | None = None
    updated_at: str | None = None
    entries: Sequence[Entry] = ()
    """At most one more than the caps allow."""
    total: int = 0
    warnings: tuple[Warning_, ...] = ()


def as_extracted(feed: Feed, caps: Caps) -> Extracted:
    """The feed, its first entries and their text."""
    warnings = list(feed.warnings)
    entries, cut = _shortened(_told_apart(feed.entries[: caps.entries]), caps.summary)
    if feed.total > len(entries):
        warnings.append(left_out("the feed", len(entries), feed.total, "entries"))
    if cut:
        warnings.append(
            Warning_("truncated", f"the text of {cut:,} entries is cut at {caps.summary:,} characters: see their links")
        )
    if not entries:
        warnings.append(Warning_("empty", "the feed has no entries at present"))
    markdown, over = bounded(_markdown(feed, entries), caps.characters, "the feed")
    text, _ = bounded(_text(feed, entries), caps.characters, "the feed")
    return Extracted(
        kind="feed",
        method=feed.method,
        markdown=markdown,
        text=text,
        title=feed.title,
        author=feed.author,
        published_at=feed.published_at,
        modified_at=feed.updated_at,
        language=feed.language,
        site_name=feed.title,
        description=feed.description,
        links=tuple(dict.fromkeys(Link(entry.title or entry.url, entry.url) for entry in entries if entry.url)),
        warnings=(*warnings, *over),
        entries=entries,
        empty=None if text else "empty",
    )


def plain(text: str | None) -> str:
    """What a feed gives as HTML, or as text, as text. Only what holds tags or references is taken for HTML."""
    text = (text or "").strip()
    if not _MARKUP.search(text):
        return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))
    return plain_text(text.encode("utf-8", "replace"))


def line(text: str | None) -> str:
    """The same, in one line: a title, a name."""
    return " ".join(plain(text).split())[:500]


def named(id_: str | None, url: str, title: str, when: str | None, summary: str) -> str:
    """The id of an entry: its own, its address, or one made of what it says."""
    if id_ or url:
        return (id_ or url)[:1_000]
    return sha256(f"{title}\0{when or ''}\0{summary if not title else ''}".encode("utf-8", "replace")).hexdigest()[:16]


def _told_apart(entries: Iterable[Entry]) -> list[Entry]:
    """With ids that differ: some feeds give the same to many."""
    seen: dict[str, int] = {}
    apart: list[Entry] = []
    for entry in entries:
        number = seen[entry.id] = seen.get(entry.id, 0) + 1
        apart.append(entry if number == 1 else replace(entry, id=f"{entry.id}#{number}"))
    return apart


def _shortened(entries: Iterable[Entry], most: int) -> tuple[tuple[Entry, ...], int]:
    """With summaries of at most `most` characters, and how many were longer."""
    cut = 0
    short: list[Entry] = []
    for entry in entries:
        if len(entry.summary) > most:
            cut += 1
            kept = entry.summary[:most].rsplit(None, 1)[0] + " …"
            short.append(replace(entry, summary=kept))
        else:
            short.append(entry)
    return tuple(short), cut


def _markdown(feed: Feed, entries: Iterable[Entry]) -> str:
    parts = [f"# {_escaped(feed.title)}"] if feed.title else []
    if feed.description and feed.description != feed.title:
        parts.append(_body(feed.description))
    for entry in entries:
        title = _escaped(entry.title or entry.url or entry.id)
        address = entry.url.replace(" ", "%20").replace("(", "%28").replace(")", "%29")
        parts.append(f"## [{title}]({address})" if address else f"## {title}")
        if about := _about(entry):
            parts.append(_escaped(about))
        if entry.summary:
            parts.append(_body(entry.summary))
    return "\n\n".join(parts)


def _text(feed: Feed, entries: Iterable[Entry]) -> str:
    parts = [feed.title or "", feed.description or "" if feed.description != feed.title else ""]
    for entry in entries:
        parts += ("\n".join(filter(None, (entry.title or entry.url or entry.id, _about(entry)))), entry.summary)
    return "\n\n".join(filter(None, parts))


def _about(entry: Entry) -> str:
    return " · ".join(filter(None, (entry.published_at or entry.updated_at, entry.author)))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def _body(text: str) -> str:
    return _LINE_START.sub(r"\1\\\2", _escaped(text)).replace("\n", "\n\n")
