"""A resource that is a difference itself (`text/x-diff`), shown as what it says, not as how it differs from the last.

What no program that knows patches would understand is compared like any other text.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tidings.inspector.diffs import Diff, DiffLine, Hunk, diff_texts, diff_versions
from tidings.inspector.reading import as_dict, as_text
from tidings.inspector.view_items import ContentVersion

_KINDS: Final = frozenset({"text/x-diff", "text/x-patch"})
_PLACE: Final = re.compile(r"@@ -(\d{1,9})(?:,\d+)? \+(\d{1,9})(?:,\d+)? @@")
_MOST_CONTEXT: Final = 1_000
_NOTE: Final = "As the server tells it."


def change_shown(old: ContentVersion | None, new: ContentVersion, *, context: int = 3) -> Diff:
    """What changed from one version of a resource to another, or what the new one says that changed."""
    told = _told(new)
    return diff_versions(old, new, context=context) if told is None else told


def _told(version: ContentVersion) -> Diff | None:
    contents = version.contents
    if not isinstance(contents, list) or len(contents) != 1:
        return None
    part = as_dict(contents[0])
    if (as_text(part.get("mimeType")) or "").partition(";")[0].strip().lower() not in _KINDS:
        return None
    parts = [_hunk(*each) for each in _hunks((as_text(part.get("text")) or "").splitlines())]
    hunks = tuple(hunk for each in parts for hunk in each.hunks)
    if not hunks:
        return None
    added, removed = sum(each.added for each in parts), sum(each.removed for each in parts)
    return Diff(hunks, added, removed, any(each.cut for each in parts), _NOTE)


def _hunks(lines: list[str]) -> Iterator[tuple[int, int, list[str]]]:
    """Each hunk: where it begins in the old text and in the new, and its lines."""
    found: tuple[int, int, list[str]] | None = None
    for line in lines:
        if (place := _PLACE.match(line)) is not None:
            if found is not None:
                yield found
            found = int(place[1]), int(place[2]), []
        elif found is not None and line[:1] in ("", " ", "-", "+"):
            found[2].append(line)
    if found is not None:
        yield found


def _hunk(old_at: int, new_at: int, lines: list[str]) -> Diff:
    old = [line[1:] for line in lines if not line.startswith("+")]
    new = [line[1:] for line in lines if not line.startswith("-")]
    diff = diff_texts("\n".join(old), "\n".join(new), context=_MOST_CONTEXT)
    hunks = (Hunk(tuple(_moved(line, old_at - 1, new_at - 1) for line in hunk.lines)) for hunk in diff.hunks)
    return replace(diff, hunks=tuple(hunks))


def _moved(line: DiffLine, old: int, new: int) -> DiffLine:
    return replace(
        line, old=None if line.old is None else line.old + old, new=None if line.new is None else line.new + new
    )
