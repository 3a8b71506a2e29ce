"""The headings of a content: the outline, and which headings a place stands below."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from tidings.web.packets.blocks import Span, heading_text
from tidings.web.packets.model import OutlineItem

_LONGEST = 300
"""Characters of a heading that are given."""

Path = tuple[str, ...]
"""Headings from the outermost to the innermost."""


def shown(path: Path) -> str:
    """A path as it is read: `Like > This`."""
    return " > ".join(path)


def outline_of(content: str, blocks: Sequence[Span]) -> list[OutlineItem]:
    """Every heading that says something, with those above it."""
    return [
        OutlineItem(level=block.level, text=text, path=shown(path))
        for block, text, path in _walk(content, blocks)
        if text
    ]


class Sections:
    """Where each section begins. A section is what stands below one heading, up to the next one of any level."""

    def __init__(self, content: str, blocks: Sequence[Span], above: Path = ()) -> None:
        """`above` are the headings of what comes before the first heading."""
        found = list(_walk(content, blocks))
        self.starts = [0, *(block.start for block, _, _ in found)]
        self.paths: list[Path] = [above, *(path for _, _, path in found)]

    def at(self, place: int) -> int:
        """The number of the section that `place` is in; 0 is what comes before the first heading."""
        return bisect_right(self.starts, place, lo=1) - 1


def common(paths: Sequence[Path]) -> Path:
    """The headings that all of `paths` begin with."""
    if not paths:
        return ()
    # The smallest and the largest differ the earliest.
    first, last = min(paths), max(paths)
    same = 0
    while same < len(first) and first[same] == last[same]:
        same += 1
    return first[:same]


def _walk(content: str, blocks: Sequence[Span]) -> Iterator[tuple[Span, str, Path]]:
    above: list[tuple[int, str]] = []
    for block in blocks:
        if block.kind == "heading":
            while above and above[-1][0] >= block.level:
                above.pop()
            text = heading_text(content[block.start : block.end])
            text = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
            if text:
                above.append((block.level, text))
            yield block, text, tuple(one for _, one in above)
