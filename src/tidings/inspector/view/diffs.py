"""Differences between two texts, JSON values or versions of a resource: lines, with the changed words marked.

A difference is computed when it is shown, in bounded work: a text of a hundred megabytes takes a fraction of a second,
and `Diff.cut` says that something is left out. JSON is formatted with sorted keys first, so that only values differ.
A resource that is itself a patch (`text/x-diff`) is shown as the changes it lists, if it is a valid patch.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from tidings._kit.bounded_json import as_dict, as_text, plain
from tidings._kit.diff import DiffLine, Hunk, Sign, differing, grouped, make_hunk
from tidings._kit.text import counted, shortened
from tidings.inspector.view.items import ContentVersion

_LONGEST_LINE: Final = 2_000
_MOST_TEXT: Final = 4 * 2**20  # Characters of a text that are compared.
_MOST_JSON: Final = 2 * 2**20
_WORK: Final = 400_000  # About a tenth of a second.
_PATCH_TYPES: Final = frozenset({"text/x-diff", "text/x-patch"})
_PATCH_PLACE: Final = re.compile(r"@@ -(\d{1,9})(?:,\d+)? \+(\d{1,9})(?:,\d+)? @@")


@dataclass(frozen=True, slots=True)
class Diff:
    """The differences between two texts."""

    hunks: tuple[Hunk, ...]
    added: int
    removed: int
    cut: bool = False  # True if some of it is left out because it is too much.
    note: str | None = None  # A remark: for example that only a part is compared.

    @property
    def same(self) -> bool:
        return not self.added and not self.removed

    @property
    def words(self) -> str:
        """The amount of change: "3 lines added, 1 removed"."""
        if self.same:
            return "nothing changed"
        parts = [f"{counted(self.added, 'line')} added"] if self.added else []
        if self.removed:
            parts.append(f"{self.removed:,} removed" if parts else f"{counted(self.removed, 'line')} removed")
        return ", ".join(parts) + ("; not all of it is shown" if self.cut else "")

    def unified(self) -> Iterator[str]:
        for hunk in self.hunks:
            yield hunk.title
            for line in hunk.lines:
                yield line.sign + line.text


def diff_texts(old: str, new: str, *, context: int = 3, most_lines: int = 2_000, note: str | None = None) -> Diff:
    """Compares two texts."""
    cut = len(old) > _MOST_TEXT or len(new) > _MOST_TEXT
    old_lines, new_lines = old[:_MOST_TEXT].splitlines(), new[:_MOST_TEXT].splitlines()
    changes = differing(old_lines, new_lines, _WORK).changes
    if not changes and old != new:
        note = note or "Only line endings differ, or text beyond the part that is compared."
    left = most_lines

    def keep(lines: Iterator[DiffLine]) -> Iterator[DiffLine]:
        nonlocal left
        for line in islice(lines, left):
            left -= 1
            yield line if len(line.text) <= _LONGEST_LINE else replace(line, text=shortened(line.text, _LONGEST_LINE))

    hunks: list[Hunk] = []
    for group in grouped(changes, context):
        if left <= 0:
            cut = True
            break
        hunks.append(make_hunk(old_lines, new_lines, group, context=context, keep=keep))
        cut = cut or hunks[-1].left_out > 0
    removed = sum(each.end - each.start for each in changes)
    added = sum(each.new_end - each.new_start for each in changes)
    return Diff(tuple(hunks), added, removed, cut, note)


def diff_values(old: Any, new: Any) -> Diff:
    """Compares two JSON values."""
    return diff_texts(pretty(old), pretty(new))


def change_shown(old: ContentVersion, new: ContentVersion, *, context: int = 3) -> Diff:
    """Returns the changes from one version of a resource to another, or those that the new one lists as a patch."""
    if (patch := _patch(new)) is not None:
        return patch
    note = "The content is too large to be kept: only its beginning is compared." if old.cut or new.cut else None
    return diff_texts(content_text(old.contents), content_text(new.contents), context=context, note=note)


def content_text(contents: Sequence[Any] | dict[str, Any]) -> str:
    """Returns the contents of a resource as text to read and to compare. Binary content is described."""
    if isinstance(contents, dict):
        return as_text(contents.get("head")) or ""
    texts: list[str] = []
    for part in map(as_dict, contents):
        kind, blob, text = (as_text(part.get(key)) or "" for key in ("mimeType", "blob", "text"))
        if isinstance(part.get("blob"), str):
            size = f"{len(blob) * 3 // 4:,} bytes"
            text = f"{kind or 'binary content'}, {size}, begins {blob[:32]}, ends {blob[-32:]}"
        elif "json" in kind or text.lstrip()[:1] in ("{", "["):
            text = pretty_text(text)
        texts.append(text if len(contents) == 1 else f"── {part.get('uri')}\n{text}")
    return "\n".join(texts)


def pretty_text(text: str) -> str:
    """Returns JSON text formatted with sorted keys; any other text unchanged."""
    try:
        return text if len(text) > _MOST_JSON else pretty(json.loads(text))
    except (ValueError, RecursionError):
        return text


def pretty(value: Any) -> str:
    """Returns a JSON value formatted with sorted keys."""
    try:
        return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(plain(value), indent=2, sort_keys=True, ensure_ascii=False)


def _patch(version: ContentVersion) -> Diff | None:
    """Returns the changes that a patch lists; None if the content is not one."""
    part = as_dict(version.contents[0]) if isinstance(version.contents, list) and len(version.contents) == 1 else {}
    if (as_text(part.get("mimeType")) or "").partition(";")[0].strip().lower() not in _PATCH_TYPES:
        return None
    found: list[tuple[int, int, list[DiffLine]]] = []  # The first line of a hunk in both texts, and its lines.
    old = new = 0
    for text in (as_text(part.get("text")) or "").splitlines():
        if (place := _PATCH_PLACE.match(text)) is not None:
            old, new = int(place[1]), int(place[2])
            found.append((old, new, []))
        elif found and text[:1] in ("", " ", "-", "+"):
            sign: Sign = "+" if text[:1] == "+" else "-" if text[:1] == "-" else " "
            numbers = None if sign == "+" else old, None if sign == "-" else new
            found[-1][2].append(DiffLine(sign, shortened(text[1:], _LONGEST_LINE), *numbers))
            old, new = old + (sign != "+"), new + (sign != "-")
    hunks: list[Hunk] = []
    for start, new_start, lines in found:
        count, new_count = (sum(getattr(line, side) is not None for line in lines) for side in ("old", "new"))
        hunks.append(Hunk(start, count, new_start, new_count, tuple(lines)))
    signs = [line.sign for _, _, lines in found for line in lines]
    added, removed = signs.count("+"), signs.count("-")
    return Diff(tuple(hunks), added, removed, note="As the server describes it.") if added or removed else None
