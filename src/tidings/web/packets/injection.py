"""Text that gives instructions to the model that reads it: found and named, never obeyed, never silently dropped.

    look_for(text, hidden=..., where=..., known=...) -> list[Unsafe]
    disarm(text) -> str             without the characters that nobody sees (see `invisible`)

Three things raise the alarm: characters that hide a message, markup of chats and tool calls, and words spoken to a
model (`phrases`). What readers see has to be clear to be an alarm; what is hidden from them, and what stands in a title
or an error, less so. Code may hold the markup of chats. A text that speaks of models may quote what is said to them, in
code, in quotes, in lists and tables; what it says itself counts.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from tidings.web.packets.blocks import Span, blocks_of
from tidings.web.packets.disguises import plain, undressed
from tidings.web.packets.invisible import disarm, hidden_in
from tidings.web.packets.model import Unsafe
from tidings.web.packets.phrases import ABOUT, ENGLISH, OVERRIDE, STRONG, TAGS, Sign
from tidings.web.packets.phrases_abroad import ABROAD

__all__ = [
    "CLEAR",
    "MOST",
    "SUSPICIOUS",
    "TOO_MANY",
    "Hit",
    "Looked",
    "disarm",
    "look_for",
    "named",
    "unlinked",
    "words_of",
]

_SIGNS = (*ENGLISH, *ABROAD, *TAGS)
CLEAR, SUSPICIOUS = 3, 2
"""The sum of weights that is an alarm: in what readers see, and elsewhere."""
_TOGETHER = 160
"""Characters between two signs that belong together."""
MOST = 20
TOO_MANY = Unsafe(text="", reason="has more words of commands than can be looked at")
_SHOWN = 300
_HITS, _TRIES, _CHARACTERS_A_TRY = 20_000, 50_000, 10
"""Signs that are weighed, and places that are looked at: so many, and one more for some characters each. Ordinary
writing has far fewer; a text with more is made of them."""

_LINKED = re.compile(r"!?\[([^\[\]]{0,500})\]\([^()\s]{1,2000}\)")
_WORDS = re.compile(r"[^\W_]+")
_CAPTION = re.compile(r"[A-Za-z]{0,30}[ ]?[A-Za-z]{0,30}[.:]?")
"""One or two plain words, such as half of what pages hide: no order is as short."""
_APART = "\n" + " " * 200 + "\n"
"""Between two hidden parts, so that nothing is taken for one sentence that is not."""
_OPENING = frozenset("“„«「『")
_CLOSING = frozenset("”»」』")


class Hit(NamedTuple):
    """A sign, and where it stands."""

    start: int
    end: int
    weight: int
    said: str
    sign: Sign


def look_for(
    text: str, *, hidden: Sequence[str] = (), where: str = "content", known: set[str] | None = None
) -> list[Unsafe]:
    """What in `text`, or in the parts of its page that readers do not see, speaks to a model, and why it seems so.

    Orders all of whose words are `known` are not told again; the words of those that are told come to be known.
    """
    known = set() if known is None else known
    seen = Looked(text)
    found = _in_hidden(hidden, seen, known) if hidden else []
    found += [named(one, where) for one in hidden_in(text)]
    enough = CLEAR if where == "content" else SUSPICIOUS
    said = _new(seen, enough, known)
    if not said and "](" in text:
        # An address between two words parts them in markdown, not for those who see the page.
        said = _new(Looked(unlinked(text)), enough, known)
    found.extend(named(one, where) for one in said)
    if seen.too_many:
        found.append(named(TOO_MANY, where))
    return list({(one["text"], one["reason"]): one for one in found}.values())[:MOST]


def _in_hidden(parts: Sequence[str], seen: "Looked", known: set[str]) -> list[Unsafe]:
    if seen.about is not None:
        # A tab of an article on models may be hidden and shown by turns.
        letters = _letters(seen.text)
        parts = [part for part in parts if _letters(plain(part)) not in letters]
    text = _APART.join(part for part in parts if not _CAPTION.fullmatch(part))
    found = [*hidden_in(text), *_new(Looked(text), SUSPICIOUS, known)]
    return [named(one, "hidden text") for one in found]


def _letters(text: str) -> str:
    """The letters alone: what is left of a text however it is marked up."""
    return "".join(_WORDS.findall(unlinked(text)))


def unlinked(text: str) -> str:
    """Markdown without the addresses of links and pictures; its lines stay as they are."""
    return _LINKED.sub(r"\1", text)


def _new(looked: "Looked", enough: int, known: set[str]) -> list[Unsafe]:
    """What is alarming and not known yet."""
    new = list(islice((one for one in looked.alarming(enough) if not words_of(one) <= known), MOST))
    known.update(*map(words_of, new))
    return [looked.told(one) for one in new]


def words_of(cluster: "Iterable[Hit]") -> set[str]:
    """The words that made a cluster, to know it by."""
    return {" ".join(_WORDS.findall(hit.said)) or hit.said for hit in cluster}


def named(one: Unsafe, where: str) -> Unsafe:
    """An alarm that says where it was found, if that is not the content."""
    return one if where == "content" else Unsafe(text=one["text"], reason=f"in {where}: {one['reason']}")


class Looked:
    """A text as it is looked at: nothing invisible in it, letters in disguise made plain."""

    def __init__(self, text: str) -> None:
        self.text = plain(text)
        self.small = _small(self.text)
        self.too_many = False

    @cached_property
    def about(self) -> tuple[int, int] | None:
        """The first and the last place where it speaks of models; None if it does not."""
        places = [place for word in ABOUT for place in (self.small.find(word), self.small.rfind(word)) if place >= 0]
        return (min(places), max(places)) if places else None

    def alarming(self, enough: int) -> Iterator[list[Hit]]:
        """Signs that stand together and are enough for an alarm, without those that are examples."""
        for cluster in self._clusters():
            if sum(_weights(cluster)) >= enough:
                bounds = cluster[0].start, max(hit.end for hit in cluster)
                meant = [hit for hit in cluster if not self._excused(hit, *bounds)]
                if sum(_weights(meant)) >= enough:
                    yield meant

    def _clusters(self) -> list[list[Hit]]:
        hits, self.too_many = _hits(self.small)
        if (letters := undressed(self.small)) is not None:
            hits += _hits(letters)[0]
        clusters: list[list[Hit]] = []
        end = 0
        for hit in sorted(hits, key=lambda hit: hit.start):
            if not clusters or hit.start > end + _TOGETHER:
                clusters.append([])
                end = hit.end
            clusters[-1].append(hit)
            end = max(end, hit.end)
        return clusters

    def _excused(self, hit: Hit, start: int, end: int) -> bool:
        """Whether this is markup in code, or an example in a text that speaks of models elsewhere too."""
        if hit.sign.tag and self._in_code(hit):
            return True
        if self.about is None or (self.about[0] >= start and self.about[1] < end):
            return False
        return self._quoted(hit)

    def told(self, cluster: Sequence[Hit], within: tuple[int, int] | None = None) -> Unsafe:
        """The words of a cluster and a few beside it, and what they do; `within` bounds what is beside it."""
        least, most = within or (0, len(self.text))
        start = max(least, cluster[0].start - 20)
        start = start if start == least else self.text.find(" ", start, cluster[0].start) + 1 or cluster[0].start
        end = min(cluster[-1].end + 80, start + 2 * _SHOWN, most)
        text = " ".join(self.text[start:end].split())
        reasons = dict.fromkeys(hit.sign.reason for hit in sorted(cluster, key=lambda hit: -hit.weight))
        return Unsafe(text=text if len(text) <= _SHOWN else text[:_SHOWN] + "…", reason="; ".join(list(reasons)[:3]))

    @cached_property
    def _blocks(self) -> list[Span]:
        return blocks_of(self.text)

    def _block(self, place: int) -> Span:
        # There is one: only space and rules stand between blocks, and no sign begins with those.
        return self._blocks[bisect_right(self._blocks, place, key=lambda span: span.start) - 1]

    def _in_code(self, hit: Hit) -> bool:
        block = self._block(hit.start)
        return block.kind == "code" or self._before(block, hit).count("`") % 2 == 1

    def _quoted(self, hit: Hit) -> bool:
        block = self._block(hit.start)
        before = self._before(block, hit)
        opened = sum(before.count(one) for one in _OPENING) > sum(before.count(one) for one in _CLOSING)
        return (
            block.kind in {"code", "quote", "list", "table", "heading"}
            or opened
            or before.count('"') % 2 == 1
            or before.count("`") % 2 == 1
            or before.rstrip()[-1:] == "'"
        )

    def _before(self, block: Span, hit: Hit) -> str:
        # Quotes do not go on for pages.
        return self.text[max(block.start, hit.start - 2_000) : hit.start]


def _weights(cluster: Sequence[Hit]) -> Iterable[int]:
    """What each kind of sign adds; markup of different names counts each, words of one kind once."""
    best: dict[str, int] = {}
    for hit in cluster:
        key = hit.said if hit.sign.tag else hit.sign.reason
        best[key] = max(best.get(key, 0), hit.weight)
    return best.values()


def _small(text: str) -> str:
    small = text.lower()
    if len(small) == len(text):
        return small
    # A few capitals become two letters; places have to stay the same.
    return "".join(one.lower() if len(one.lower()) == 1 else one for one in text)


def _hits(small: str) -> tuple[list[Hit], bool]:
    """The signs in `small`, and whether there are too many places to look at."""
    hits: list[Hit] = []
    tries = _TRIES + len(small) // _CHARACTERS_A_TRY
    for sign in _SIGNS:
        for place in _places(small, sign.stems):
            found = sign.pattern.match(small, place)
            tries -= 1
            if found:
                sure = sign.reason == OVERRIDE and sign.weight < CLEAR and STRONG.search(found[0])
                hits.append(Hit(place, found.end(), CLEAR if sure else sign.weight, found[0], sign))
            if len(hits) >= _HITS or tries <= 0:
                return hits, True
    return hits, False


def _places(small: str, stems: Sequence[str]) -> Iterator[int]:
    for stem in stems:
        place = small.find(stem)
        while place >= 0:
            if _begins(small, place, stem):
                yield place
            place = small.find(stem, place + len(stem))


def _begins(small: str, place: int, stem: str) -> bool:
    """Whether a word begins here; scripts without spaces do not show it."""
    return not stem[0].isalpha() or stem[0] >= "\u0900" or place == 0 or not small[place - 1].isalnum()
