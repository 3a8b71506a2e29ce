"""What changed between two texts, two JSON values, or two versions of a resource: lines, with the changed words marked.

It is computed when somebody looks, and is bounded: a text of a hundred megabytes costs no more than a fraction of a
second, and what is left out is said (`Diff.cut`). JSON is written out with its keys in order first, so that only what
it says can differ, not how it was written.

A resource that is a difference itself (`text/x-diff`), shown as what it says, not as how it differs from the last.

What no program that knows patches would understand is compared like any other text.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from tidings._kit.bounded_json import as_dict, as_text, head_of, plain
from tidings.inspector.alignment import Block, differences
from tidings.inspector.view.items import ContentVersion

_WORDS: Final = re.compile(r"\w+|\s+|[^\w\s]")
_LONGEST_LINE: Final = 2_000
_MOST_TEXT: Final = 4 * 2**20
"""Characters of a text that are looked at."""
_MOST_JSON: Final = 2 * 2**20
_ALIKE: Final = 0.3
"""How much of two lines must be the same for their words to be compared."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line."""

    text: str
    changed: bool


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line that was there before (`-`), is there now (`+`), or both."""

    sign: Literal[" ", "-", "+"]
    old: int | None
    """Its number in the old text, and in the new; the first is 1."""
    new: int | None
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        """The whole line."""
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that changed, and a few around them."""

    lines: tuple[DiffLine, ...]

    @property
    def title(self) -> str:
        """Where it is: "@@ -12,3 +12,5 @@"."""
        old = [line.old for line in self.lines if line.old is not None]
        new = [line.new for line in self.lines if line.new is not None]
        return f"@@ -{old[0] if old else 0},{len(old)} +{new[0] if new else 0},{len(new)} @@"


@dataclass(frozen=True, slots=True)
class Diff:
    """What changed."""

    hunks: tuple[Hunk, ...]
    added: int
    """How many lines are new, and how many are gone."""
    removed: int
    cut: bool = False
    """Whether some of it is not shown, because it is too much."""
    note: str | None = None
    """What else there is to say: that there was nothing before, or that the content is binary."""

    @property
    def same(self) -> bool:
        """Whether nothing changed."""
        return not self.added and not self.removed

    @property
    def words(self) -> str:
        """How much changed: "3 lines added, 1 removed"."""
        if self.same:
            return "nothing changed"
        parts = [f"{self.added:,} {'line' if self.added == 1 else 'lines'} added"] if self.added else []
        if self.removed:
            lines = "" if parts else " line" if self.removed == 1 else " lines"
            parts.append(f"{self.removed:,}{lines} removed")
        return ", ".join(parts) + ("; not all of it is shown" if self.cut else "")

    def unified(self) -> Iterator[str]:
        """The lines as tools that know patches write them."""
        for hunk in self.hunks:
            yield hunk.title
            for line in hunk.lines:
                yield line.sign + line.text


def diff_texts(old: str, new: str, *, context: int = 3, most_lines: int = 2_000, note: str | None = None) -> Diff:
    """What changed between two texts."""
    cut = len(old) > _MOST_TEXT or len(new) > _MOST_TEXT
    a, b = old[:_MOST_TEXT].splitlines(), new[:_MOST_TEXT].splitlines()
    blocks = differences(a, b)
    added, removed = sum(j2 - j1 for _, _, j1, j2 in blocks), sum(i2 - i1 for i1, i2, _, _ in blocks)
    if not blocks and old != new:
        note = note or "Only the ends of lines differ, or what is beyond the part that is compared."
    hunks: list[Hunk] = []
    left = most_lines
    for group in _grouped(blocks, context):
        lines = _hunk(a, b, group, context, left)
        left -= len(lines)
        hunks.append(Hunk(tuple(lines[: left + len(lines)])))
        if left <= 0:
            cut = True
            break
    return Diff(tuple(hunk for hunk in hunks if hunk.lines), added, removed, cut, note)


def diff_values(old: Any, new: Any, *, context: int = 3) -> Diff:
    """What changed between two JSON values."""
    return diff_texts(pretty(old), pretty(new), context=context)


def diff_versions(old: ContentVersion | None, new: ContentVersion, *, context: int = 3) -> Diff:
    """What changed from one version of a resource to another. With none before, all of it is new."""
    before = "" if old is None else content_text(old.contents)
    note = "This is the first version that was read." if old is None else None
    if new.cut or (old is not None and old.cut):
        note = "The content is too large to be kept: only its beginning is compared."
    return diff_texts(before, content_text(new.contents), context=context, note=note)


def content_text(contents: Sequence[Any] | dict[str, Any]) -> str:
    """The contents of a resource as a text to read and to compare. Binary content is described."""
    if isinstance(contents, dict):
        return as_text(contents.get("head")) or ""
    parts = [as_dict(part) for part in contents]
    texts = [_part_text(part) for part in parts]
    if len(parts) == 1:
        return texts[0]
    return "\n".join(f"── {part.get('uri')}\n{text}" for part, text in zip(parts, texts, strict=True))


def _part_text(part: dict[str, Any]) -> str:
    kind = as_text(part.get("mimeType")) or ""
    blob, text = as_text(part.get("blob")), as_text(part.get("text")) or ""
    if blob is not None:
        return f"{kind or 'binary content'}, {len(blob) * 3 // 4:,} bytes, begins {blob[:32]}, ends {blob[-32:]}"
    if "json" in kind or text.lstrip()[:1] in ("{", "["):
        return pretty_text(text)
    return text


def pretty_text(text: str) -> str:
    """A text that is JSON, written out with its keys in order; any other as it is."""
    if len(text) > _MOST_JSON:
        return text
    try:
        return pretty(json.loads(text))
    except (ValueError, RecursionError):
        return text


def pretty(value: Any) -> str:
    """A JSON value, written out with its keys in order."""
    try:
        return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(plain(value), indent=2, sort_keys=True, ensure_ascii=False)


def _grouped(blocks: list[Block], context: int) -> Iterator[list[Block]]:
    group: list[Block] = []
    for block in blocks:
        if group and block[0] - group[-1][1] > 2 * context:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _hunk(a: list[str], b: list[str], blocks: list[Block], context: int, most: int) -> list[DiffLine]:
    lines: list[DiffLine] = []
    at = max(blocks[0][0] - context, 0)
    shift = blocks[0][2] - blocks[0][0]
    for i1, i2, j1, j2 in blocks:
        lines += (_line(" ", a[i], i, i + shift) for i in range(at, i1))
        lines += _replaced(a[i1:i2][:most], b[j1:j2][:most], i1, j1)
        at, shift = i2, j2 - i2
        if len(lines) > most:
            return lines[:most]
    lines += (_line(" ", a[i], i, i + shift) for i in range(at, min(at + context, len(a))))
    return lines


def _line(sign: Literal[" ", "-", "+"], text: str, old: int | None, new: int | None) -> DiffLine:
    return DiffLine(
        sign, None if old is None else old + 1, None if new is None else new + 1, (Piece(_short(text), False),)
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else head_of(text, _LONGEST_LINE) + "…"


def _replaced(old: list[str], new: list[str], i1: int, j1: int) -> list[DiffLine]:
    gone = [_line("-", text, i1 + number, None) for number, text in enumerate(old)]
    come = [_line("+", text, None, j1 + number) for number, text in enumerate(new)]
    for number, (before, after) in enumerate(zip(old[:200], new[:200], strict=False)):
        if (marked := mark_words(before, after)) is not None:
            gone[number] = DiffLine("-", gone[number].old, None, marked[0])
            come[number] = DiffLine("+", None, come[number].new, marked[1])
    return [*gone, *come]


def mark_words(old: str, new: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]] | None:
    """Two lines, in pieces: those that changed, and those that did not. None if they have too little in common."""
    if len(old) > _LONGEST_LINE or len(new) > _LONGEST_LINE:
        return None
    a, b = _WORDS.findall(old), _WORDS.findall(new)
    blocks = differences(a, b, 20_000)
    changed = sum(len("".join(a[i1:i2])) + len("".join(b[j1:j2])) for i1, i2, j1, j2 in blocks)
    if changed > (1 - _ALIKE) * (len(old) + len(new)):
        return None
    return (
        _pieces(a, [(i1, i2) for i1, i2, _, _ in blocks]),
        _pieces(b, [(j1, j2) for _, _, j1, j2 in blocks]),
    )


def _pieces(words: list[str], changed: list[tuple[int, int]]) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    at = 0
    for start, end in changed:
        pieces.append(Piece("".join(words[at:start]), False))
        pieces.append(Piece("".join(words[start:end]), True))
        at = end
    pieces.append(Piece("".join(words[at:]), False))
    return tuple(piece for piece in pieces if piece.text)


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
    parts = [_patch_hunk(*each) for each in _hunks((as_text(part.get("text")) or "").splitlines())]
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


def _patch_hunk(old_at: int, new_at: int, lines: list[str]) -> Diff:
    old = [line[1:] for line in lines if not line.startswith("+")]
    new = [line[1:] for line in lines if not line.startswith("-")]
    diff = diff_texts("\n".join(old), "\n".join(new), context=_MOST_CONTEXT)
    hunks = (Hunk(tuple(_moved(line, old_at - 1, new_at - 1) for line in hunk.lines)) for hunk in diff.hunks)
    return replace(diff, hunks=tuple(hunks))


def _moved(line: DiffLine, old: int, new: int) -> DiffLine:
    return replace(
        line, old=None if line.old is None else line.old + old, new=None if line.new is None else line.new + new
    )
