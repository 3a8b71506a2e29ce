"""The memory of a look at a page: its blocks, and which of them were chosen; the prior of the next look.

Without it, an advertisement more could move doubtful blocks across the cut. A known block keeps what was decided about
it; a new one takes over what was decided about the one in its place. New prose is chosen, except in the frame of a
page; what stands beside the content by name, as advertisements do, is not. A block is known by its text, in which
numbers count as equal, and by its place, the names of the elements around it.
"""

import base64
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final

from tidings.web.extract.html.blocks import Node, PageBlock
from tidings.web.extract.html.vocabulary import ASIDE, DIALOG, FOOTER, FORM, HEADER, NAV

_SURE: Final = 8.0  # the odds of a block that is known
_LIKE_ITS_PLACE: Final = 2.0  # added to the odds of a new block, or taken from them
_FRAMES: Final = NAV | HEADER | FOOTER | ASIDE | FORM | DIALOG
_MOST: Final = 20_000  # blocks that are remembered
_DIGITS: Final = b"0123456789.,'"
_NUMBER: Final = re.compile(r"[\d.,'\u00a0\u202f]+")
_MARK, _TEXT, _EVEN = 8, 40, 0xFFFFFE  # the bytes of a mark; the bits of its text; those of its place, after these
_AROUND: Final = 4  # elements
_SMALL: Final = 5  # the part of a page that its advertisements take at most, each
_SHORT: Final = 8  # words of a title
_PROSE: Final = 8  # words of a block that is more than a label
_LABELLED: Final = 80  # words of an advertisement with its label
_CAMEL: Final = re.compile(r"([a-z])([A-Z])")
# Names and titles of what differs with each look on many pages: advertisements, and lists of other pages.
_SURELY_BESIDE_NAME: Final = re.compile(
    r"(?<![a-z])(?:ads?|adverts?|advertis\w*|adslot|adsbygoogle|gpt-ad|sponsored|related-?(?:posts?|articles?|stories)"
    r"|recommendations?|recirc\w*|also-?(?:like|read)|more-?(?:from|stories)|read-?next|outbrain|taboola)(?![a-z])"
)
_BESIDE_NAME: Final = re.compile(
    rf"{_SURELY_BESIDE_NAME.pattern}|(?<![a-z])(?:sponsor\w*|promo(?:ted|tions?)?|related|recommend\w*|trending"
    r"|most-?(?:read|popular)|popular|teasers?|newsletter)(?![a-z])"
)
_LABEL: Final = re.compile(
    r"\W*(?:advertisement|advertorial|sponsored(?: (?:content|post|by.{0,40}))?|promoted|paid content|ad|anzeige"
    r"|werbung|publicité|publicidad)\W*",
    re.IGNORECASE,
)
_BESIDE_TITLE: Final = re.compile(
    r"(?:related|recommended|sponsored|advertisement|promoted|trending|popular|most (?:read|popular|viewed)"
    r"|you (?:may|might)|more (?:from|stories|articles|posts|news|in)|also (?:read|like|in|on)|read (?:next|also|more)"
    r"|up next|keep reading|what to read|picked for you|don.t miss|editor.?s.? picks|latest (?:news|stories|posts)"
    r"|anzeige|werbung|publicité|publicidad|mehr zum thema|das könnte|à lire aussi|te puede interesar)\b",
    re.IGNORECASE,
)


def remembered(blocks: Sequence[PageBlock], chosen: Collection[int]) -> str:
    """Returns the memory of a look that chose the blocks with these numbers."""
    fingerprints = enumerate(_fingerprints(blocks[:_MOST]))
    marks = [text | (place | (number in chosen)) << _TEXT for number, (text, place) in fingerprints]
    return base64.b64encode(b"".join(mark.to_bytes(_MARK, "little") for mark in marks)).decode("ascii")


class Prior:
    """The choice of the last look. Nothing is known of a page that has no memory."""

    def __init__(self, memory: str = "") -> None:
        # By text and place, and by text alone: the choice for each block in the order of the page.
        self._known: defaultdict[tuple[int, int | None], list[bool]] = defaultdict(list)
        self._places: defaultdict[int, set[bool]] = defaultdict(set)
        self._order: list[tuple[int, bool]] = []  # the text of each block, and its choice
        try:
            marks = base64.b64decode(memory, validate=True)
        except ValueError:
            return
        for start in range(0, len(marks) - _MARK + 1, _MARK):
            mark = int.from_bytes(marks[start : start + _MARK], "little")
            text, place, chosen = mark % (1 << _TEXT), mark >> _TEXT & _EVEN, bool(mark >> _TEXT & 1)
            self._known[text, place].append(chosen)
            self._known[text, None].append(chosen)
            self._places[place].add(chosen)
            self._order.append((text, chosen))

    def weighed(self, blocks: Sequence[PageBlock], odds: Sequence[float]) -> tuple[list[float], set[int], set[int]]:
        """Returns the odds of the blocks with what is known of them; the blocks to keep, and those to leave out."""
        moved, keep, leave = list(odds), set[int](), set[int]()
        if not self._known:
            return moved, keep, _beside(blocks, certain=True)
        seen: Counter[tuple[int, int | None]] = Counter()
        marks = list(_fingerprints(blocks))
        beside = _beside(blocks, certain=False)
        new: list[int] = []
        for number, (text, place) in enumerate(marks):
            key: tuple[int, int | None] = (text, place)
            if key not in self._known and self._places.get(place, set()) != {True}:
                if number in beside:
                    leave.add(number)
                    continue
                key = (text, None)
            if known := self._known.get(key):
                # Of equal blocks, the first is the first of the last look, and so on.
                chosen = known[min(seen[key], len(known) - 1)]
                seen[key] += 1
                (keep if chosen else leave).add(number)
                moved[number] = _SURE if chosen else -_SURE
            else:
                new.append(number)
        instead = self._replaced([text for text, _ in marks])
        for number in new:
            there = self._places.get(marks[number][1], set())
            chosen = instead.get(number)
            block = blocks[number]
            near = [blocks[place].node.parent for place in (number - 1, number + 1) if place in keep]
            # Prose that stands in one container with a chosen block.
            added = chosen is None and block.words >= _PROSE and block.node.parent in near
            if chosen or there == {True} or added or _is_prose(block):
                keep.add(number)
                moved[number] = _SURE
            elif there == {False} or chosen is False:
                moved[number] -= _LIKE_ITS_PLACE
        return moved, keep, leave

    def _replaced(self, texts: Sequence[int]) -> dict[int, bool]:
        """Returns what was decided about the block that stood in the place of each one between the same neighbours."""
        counts = Counter(text for text, _ in self._order)
        places = {text: number for number, (text, _) in enumerate(self._order) if counts[text] == 1}
        found: dict[int, bool] = {}
        for number in range(1, len(texts) - 1):
            before, after = places.get(texts[number - 1]), places.get(texts[number + 1])
            if before is not None and after == before + 2:
                found[number] = self._order[before + 1][1]
        return found


def _is_prose(block: PageBlock) -> bool:
    """Returns whether a block is prose that could be content: rather an alarm than a change that nobody hears of."""
    prose = block.words >= _PROSE and 3 * block.links < block.words
    return prose and not any(node.semantics & _FRAMES for node in block.node.upwards())


def _beside(blocks: Sequence[PageBlock], *, certain: bool) -> set[int]:
    """Returns the blocks that stand beside the content by a name or a title; `certain`: those without a doubt."""
    name = _SURELY_BESIDE_NAME if certain else _BESIDE_NAME
    most = sum(block.words for block in blocks) // (_SMALL if certain else 2)  # words of a part that is not the page
    nodes: set[Node] = set()
    for block in blocks:
        around = block.node if block.node.words > block.words else block.node.parent
        if block.words > _SHORT or around is None or around.words > most:
            continue
        titled = (not certain or 2 * around.links > around.words) and _BESIDE_TITLE.match(block.text)
        if titled or (around.words <= _LABELLED and _LABEL.fullmatch(block.text)):
            nodes.add(around)

    known: dict[Node, bool] = {}

    def is_beside(node: Node | None) -> bool:
        within: list[Node] = []
        found = False
        while not found and node is not None and node.tag != "body" and node.words <= most:
            if node in known:
                found = known[node]
                break
            within.append(node)
            # Most nodes have no name.
            found = node in nodes or (node.key is not node.tag and _is_named(name, node.key[len(node.tag) :]))
            node = node.parent
        known.update(dict.fromkeys(within, found))
        return found

    for node in dict.fromkeys(block.node for block in blocks):
        if node not in known:
            is_beside(node)
    return {number for number, block in enumerate(blocks) if known.get(block.node)}


@lru_cache(50_000)
def _is_named(pattern: re.Pattern[str], names: str) -> bool:
    return pattern.search(names if names.islower() else _CAMEL.sub(r"\1-\2", names).lower()) is not None


def _fingerprints(blocks: Iterable[PageBlock]) -> Iterator[tuple[int, int]]:
    """Yields the text and the place of each block; the last bit of a place is free."""
    places: dict[Node, int] = {}
    for block in blocks:
        if (place := places.get(block.node)) is None:
            keys = "/".join(node.key for node in islice(block.node.upwards(), _AROUND))
            place = places[block.node] = _digest(keys) & _EVEN
        yield _digest(block.text), place


def _digest(text: str) -> int:
    # A regular expression would take a tenth of the time of a whole page.
    plain = text.encode().translate(None, _DIGITS) if text.isascii() else _NUMBER.sub("", text).encode(errors="replace")
    return zlib.crc32(plain) | (len(plain) & 0xFF) << 32
