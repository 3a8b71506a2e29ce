"""Where in what is written the words stand that no reader sees.

A block that is partly hidden is written once more with two marks around each hidden part, and the marks are looked for
in the result: however it was written, as an item, a cell or a link, the places are right, and the text itself is not
touched by this.
"""

import re
from collections.abc import Sequence
from copy import copy

from tidings.web.extract.blocks import Block
from tidings.web.extract.tree import Element

Place = tuple[int, int]
"""From the first character on, to behind the last."""

# No character of any text: Unicode keeps these two for such purposes.
_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
_APART = 10_000
"""Hidden places that are told of one by one; more of them are put together where they touch."""
_LINK_END = re.compile(r"[*\s]{0,5}\]\([^()\s]*\)")
_MARKS = re.compile(f"([{_OPEN}{_CLOSE}])")


class Places:
    """The hidden places of a text, collected while it is put together."""

    def __init__(self) -> None:
        self.found: list[Place] = []
        self._end = 0
        self._veil: Element | None = None
        """What hides all of the part that came last."""

    def add(self, gap: str, text: str, hidden: Sequence[Place], veil: Element | None) -> None:
        """Another part comes, `gap` behind the last; `veil` is what hides all of it, if one thing does."""
        start = self._end + len(gap)
        for first, last in hidden:
            touching = first == 0 and bool(self.found) and self.found[-1][1] == self._end
            if touching and ((veil is not None and veil is self._veil) or len(self.found) >= _APART):
                self.found[-1] = (self.found[-1][0], start + last)
            else:
                self.found.append((start + first, start + last))
        self._end, self._veil = start + len(text), veil

    def moved(self, by: int, most: int) -> list[Place]:
        """The places in a text that lost `by` characters at its beginning, and has `most`."""
        found = [(max(0, start - by), min(end - by, most)) for start, end in self.found]
        return [(start, end) for start, end in found if start < end]


def veil_of(blocks: Sequence[Block]) -> Element | None:
    """The one element that hides all of these blocks, if one does."""
    first = blocks[0].veils[0][2] if blocks[0].veils else None
    whole = first is not None and all(
        len(one.veils) == 1 and one.veils[0] == (0, len(one.pieces), first) for one in blocks
    )
    return first if whole else None


def marked(block: Block) -> Block:
    """The block with marks around what is hidden in it."""
    pieces = list(block.pieces)
    for start, end, _ in block.veils:
        # Spaces at its ends belong to what is around.
        said = [place for place in range(start, end) if pieces[place].strip()]
        if said:
            first, last = said[0], said[-1]
            pieces[last] = pieces[last].rstrip() + _CLOSE + pieces[last][len(pieces[last].rstrip()) :]
            text = pieces[first].lstrip()
            pieces[first] = pieces[first][: len(pieces[first]) - len(text)] + _OPEN + text
    other = copy(block)
    other.pieces = pieces
    return other


def places(written: str, with_marks: str) -> list[Place]:
    """Where in `written` the marked parts are; all of it, where marks made a difference beside themselves."""
    found: list[Place] = []
    at = start = 0
    for part in _MARKS.split(with_marks):
        if part == _OPEN:
            start = at
        elif part == _CLOSE:
            found.append((start, at))
        else:
            at += len(part)
    same = _MARKS.sub("", with_marks) == written
    return [_links_whole(written, *place) for place in found] if same else [(0, len(written))]


def _links_whole(written: str, start: int, end: int) -> Place:
    """The place with the rest of a link that begins or ends in it."""
    inner = written[start:end]
    begun, ended = inner.count("[") - inner.count("\\["), inner.count("](")
    if begun > ended and (rest := _LINK_END.match(written, end)):
        return start, rest.end()
    return (max(0, written.rfind("[", 0, start)), end) if ended > begun else (start, end)


def places_of(pieces: Sequence[tuple[str, bool]], start: int, least: int, most: int) -> list[Place]:
    """Where the hidden ones of pieces stand that follow each other from `start` on; between `least` and `most`."""
    found: list[Place] = []
    for text, hidden in pieces:
        if hidden and text.strip():
            found.append((max(start, least), min(start + len(text), most)))
        start += len(text)
    return found
