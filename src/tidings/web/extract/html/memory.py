"""The memory of a look at a page: its blocks, and which of them were chosen.

The model weighs each block by the whole page, so an advertisement more or a list of related pages that differs each
time can move doubtful blocks across the cut, though nothing happened to them. So the choice of the last look is the
prior of the next one: a block that was there keeps what was decided about it, and counts as gone only when it is gone
from the page. The model decides about new blocks. One that stands where the last look chose all blocks, or none, or
between chosen ones, is moved in that direction. New blocks that stand beside the content by name, as advertisements and
lists of related pages do, are left out.

A block is known by its text, in which numbers count as equal: a counter or a price that moves on stays what it was. Its
place is the names of the elements around it.
"""

import base64
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Final

from tidings.web.extract.html.blocks import Node, PageBlock

_SURE: Final = 8.0  # the odds of a block that is known
_LIKE_ITS_PLACE: Final = 2.0  # added to the odds of a new block, or taken from them
_MOST: Final = 20_000  # blocks that are remembered
_NUMBER: Final = re.compile(r"\d+(?:[.,'\u00a0\u202f]\d+)*")
_TEXT, _PLACE = 5, 3  # bytes of a fingerprint
_AROUND: Final = 4  # elements
_SHORT: Final = 8  # words of a title
_CAMEL: Final = re.compile(r"([a-z])([A-Z])")
# Names and titles of what differs with each look on many pages: advertisements, and lists of other pages.
_BESIDE_NAME: Final = re.compile(
    r"(?<![a-z])(?:ads?|adverts?|advertis\w*|adslot|sponsor\w*|promo(?:ted|tions?)?|related|recommend\w*|recirc\w*"
    r"|trending|most-?(?:read|popular)|popular|teasers?|also-?(?:like|read)|more-?(?:from|stories)|read-?next|outbrain"
    r"|taboola|newsletter)(?![a-z])"
)
_BESIDE_TITLE: Final = re.compile(
    r"(?:related|recommended|sponsored|advertisement|promoted|trending|popular|most (?:read|popular|viewed)"
    r"|you (?:may|might)|more (?:from|stories|articles|posts|news)|also (?:read|like)|read (?:next|also)|up next"
    r"|anzeige|werbung|publicité|publicidad|mehr zum thema|das könnte|à lire aussi|te puede interesar)\b",
    re.IGNORECASE,
)


def remembered(blocks: Sequence[PageBlock], chosen: Collection[int]) -> str:
    """Returns the memory of a look that chose the blocks with these numbers."""
    marks = bytearray()
    for number, (text, place) in enumerate(_fingerprints(blocks[:_MOST])):
        marks += text + bytes([place[0] | (number in chosen)]) + place[1:]
    return base64.b85encode(bytes(marks)).decode("ascii")


class Prior:
    """The choice of the last look. Nothing is known of a page that has no memory."""

    def __init__(self, memory: str = "") -> None:
        # By text and place, and by text alone: the choice for each block in the order of the page.
        self._known: defaultdict[bytes, list[bool]] = defaultdict(list)
        self._places: defaultdict[bytes, set[bool]] = defaultdict(set)
        try:
            marks = base64.b85decode(memory)
        except ValueError:
            return
        for start in range(0, len(marks) - _TEXT - _PLACE + 1, _TEXT + _PLACE):
            text, place = marks[start : start + _TEXT], marks[start + _TEXT : start + _TEXT + _PLACE]
            chosen, place = bool(place[0] & 1), _even(place)
            self._known[text + place].append(chosen)
            self._known[text].append(chosen)
            self._places[place].add(chosen)

    def weighed(self, blocks: Sequence[PageBlock], odds: Sequence[float]) -> tuple[list[float], set[int], set[int]]:
        """Returns the odds of the blocks with what is known of them; the blocks to keep, and those to leave out."""
        moved, keep, leave = list(odds), set[int](), set[int]()
        if not self._known:
            return moved, keep, leave
        seen: Counter[bytes] = Counter()
        beside: set[Node] = set()
        new: list[int] = []
        for number, (block, (text, place)) in enumerate(zip(blocks, _fingerprints(blocks), strict=True)):
            there = self._places.get(place, set())
            key = text + place
            if key not in self._known and there != {True}:
                if block.words <= _SHORT and _BESIDE_TITLE.match(block.text):
                    beside.update(_within(block.node.parent or block.node, blocks))
                if block.node in beside or _named_beside(block.node):
                    leave.add(number)
                    continue
                key = text
            if known := self._known.get(key):
                # Of equal blocks, the first is the first of the last look, and so on.
                chosen = known[min(seen[key], len(known) - 1)]
                seen[key] += 1
                (keep if chosen else leave).add(number)
                moved[number] = _SURE if chosen else -_SURE
            elif len(there) == 1:
                moved[number] += _LIKE_ITS_PLACE if True in there else -_LIKE_ITS_PLACE
            else:
                new.append(number)
        for number in new:
            if {number - 1, number + 1} & keep and not {number - 1, number + 1} & leave:
                moved[number] += _LIKE_ITS_PLACE
        return moved, keep, leave


def _named_beside(node: Node | None) -> bool:
    """Returns whether a name around a block says that it stands beside the content."""
    for _ in range(2 * _AROUND):
        if node is None or node.tag == "body":
            break
        if _BESIDE_NAME.search(_CAMEL.sub(r"\1-\2", node.key[len(node.tag) :]).lower()):
            return True
        node = node.parent
    return False


def _within(node: Node, blocks: Sequence[PageBlock]) -> Iterator[Node]:
    """Yields the nodes of the blocks in `node`, unless that is most of the page."""
    for block in blocks if 2 * node.words < sum(each.words for each in blocks) else ():
        above: Node | None = block.node
        while above is not None and above is not node:
            above = above.parent
        if above is not None:
            yield block.node


def _even(place: bytes) -> bytes:
    return bytes([place[0] & 0xFE]) + place[1:]


def _fingerprints(blocks: Iterable[PageBlock]) -> Iterator[tuple[bytes, bytes]]:
    """Yields the text and the place of each block; the last bit of a place is free."""
    places: dict[tuple[str, ...], bytes] = {}  # Many blocks have the same names around them.
    for block in blocks:
        keys = tuple(_keys_around(block.node))
        if (place := places.get(keys)) is None:
            place = places[keys] = _even(_digest("/".join(keys), _PLACE))
        yield _digest(block.text, _TEXT), place


def _keys_around(node: Node | None) -> Iterator[str]:
    for _ in range(_AROUND):
        if node is None:
            return
        yield node.key
        node = node.parent


def _digest(text: str, size: int) -> bytes:
    return blake2b(_NUMBER.sub("0", text).encode("utf-8", "replace"), digest_size=size).digest()
