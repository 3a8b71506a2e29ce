"""What changed from one state of a feed to the next, entry by entry.

A feed is a window on what was published: entries at its end fall out of it in the course of time, which is no news.
They are counted, not listed.

May import: `extract.model`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tidings.web.extract.model import Entry

MAX_CHARS: Final = 20_000
"""How long the text of a diff is, if nobody says otherwise."""
_FIELDS: Final = ("title", "url", "published_at", "updated_at", "author", "summary")
_MAX_VALUE: Final = 300
"""How much is shown of a title or a summary."""

_Key = tuple[str, int]


@dataclass(frozen=True)
class EntryChange:
    """An entry that says something else than before."""

    before: Entry
    after: Entry
    fields: tuple[str, ...]
    """In what it differs."""


@dataclass(frozen=True)
class FeedDiff:
    """The difference of two states of a feed, in the order of the feed."""

    added: tuple[Entry, ...]
    removed: tuple[Entry, ...]
    """Taken out from among others that are still there."""
    changed: tuple[EntryChange, ...]
    fallen_out: int = 0
    """How many are gone because they were the last, and newer ones came."""

    @property
    def same(self) -> bool:
        """Whether there is nothing new; entries that fell out are not."""
        return not (self.added or self.removed or self.changed)

    def text(self, max_chars: int | None = MAX_CHARS) -> str:
        """For people and models to read, in about so many characters; what is left out is counted."""
        paragraphs = [*_paragraphs(self)]
        shown: list[str] = []
        room = max_chars
        for paragraph in paragraphs:
            if room is not None and len(paragraph) > room:
                shown.append(f"[{len(paragraphs) - len(shown)} more of {len(paragraphs)} changes are left out]\n")
                break
            shown.append(paragraph)
            room = None if room is None else room - len(paragraph)
        if self.fallen_out:
            shown.append(f"[{self.fallen_out} old entries fell out at the end of the feed]\n")
        return "".join(shown)


def diff_feeds(before: Sequence[Entry], after: Sequence[Entry]) -> FeedDiff:
    """What changed from `before` to `after`. An entry is known by its id, else by its URL, else by its title."""
    old, new = _keyed(before), _keyed(after)
    gone = [key for key in old if key not in new]
    fallen = _at_the_end(list(old), new) if any(key not in old for key in new) else 0
    changed = (_compared(old[key], entry) for key, entry in new.items() if key in old)
    return FeedDiff(
        added=tuple(entry for key, entry in new.items() if key not in old),
        removed=tuple(old[key] for key in gone[: len(gone) - fallen]),
        changed=tuple(change for change in changed if change.fields),
        fallen_out=fallen,
    )


def _keyed(entries: Sequence[Entry]) -> dict[_Key, Entry]:
    keyed: dict[_Key, Entry] = {}
    count: dict[str, int] = {}
    for entry in entries:
        name = entry.id or entry.url or entry.title
        # Feeds are not always right in calling an id unique.
        count[name] = count.get(name, 0) + 1
        keyed[name, count[name]] = entry
    return keyed


def _at_the_end(old: list[_Key], new: dict[_Key, Entry]) -> int:
    """How many of the old ones are gone behind the last that is still there; none if no old one is."""
    for count, key in enumerate(reversed(old)):
        if key in new:
            return count
    return 0


def _compared(before: Entry, after: Entry) -> EntryChange:
    return EntryChange(
        before, after, tuple(field for field in _FIELDS if getattr(before, field) != getattr(after, field))
    )


def _paragraphs(diff: FeedDiff) -> Iterator[str]:
    for entry in diff.added:
        yield f"+ {_named(entry)}\n" + (f"  {_short(entry.summary)}\n" if entry.summary else "")
    for change in diff.changed:
        lines = [f"~ {_named(change.after)}"]
        for field in change.fields:
            before, after = (_short(getattr(entry, field) or "") for entry in (change.before, change.after))
            lines += [f"  - {field}: {before}", f"  + {field}: {after}"]
        yield "\n".join(lines) + "\n"
    for entry in diff.removed:
        yield f"- {_named(entry)}\n"


def _named(entry: Entry) -> str:
    when = f" ({entry.published_at})" if entry.published_at else ""
    return f"{_short(entry.title or entry.id)}{when} {_short(entry.url)}".rstrip()


def _short(value: str) -> str:
    line = " ".join(value[: 4 * _MAX_VALUE].split())
    missing = len(value) - _MAX_VALUE
    return line if len(line) <= _MAX_VALUE else f"{line[:_MAX_VALUE]} [{missing:,} characters]"
