"""Text that gives instructions to the model that reads it: found and named, never obeyed, never silently dropped.

    look_for(text, hidden=..., where=..., known=...) -> list[Unsafe]
    disarm(text) -> str             without the characters that nobody sees (see `invisible`)

Three things raise the alarm: characters that hide a message, markup of chats and tool calls, and words spoken to a
model (`phrases`). What readers see has to be clear to be an alarm; what is hidden from them, and what stands in a title
or an error, less so. Code may hold the markup of chats. A text that speaks of models may quote what is said to them, in
code, in quotes, in lists and tables; what it says itself counts.

Letters and words in disguise, made plain for looking at them: what a reader sees, as a pattern can match it.

plain(text)      without what nobody sees, without emphasis inside of words, letters of other widths made plain
undressed(small) the same length, each letter with something on or around it as the letter; None if there is none

Orders to models in text that no reader sees: taken out of the content, a note in their place.

    without_orders(markdown, concealed) -> Kept     what is left, what was taken out and why

What is hidden is content as a rule: tabs, answers that unfold, the rest behind "more". So it stays, unless it speaks to
a model. All hidden parts are read as one text, as a model would: an order in pieces is an order. A short part goes as a
whole; of a long one, the lines with the order and those beside them.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, islice
from typing import NamedTuple

from tidings.web.documents.invisible import disarm, hidden_in, stripped
from tidings.web.documents.markdown import BlockSpan, blocks_of
from tidings.web.documents.model import Unsafe
from tidings.web.documents.phrases import ABOUT, ABROAD, ENGLISH, OVERRIDE, STRONG, TAGS, Sign

_ESCAPED = re.compile(r"\\([\\`*_\[\]])")
_WITHIN_WORDS = re.compile(r"(?<=[^\W_])(?:\*{1,3}|~~|</?(?:[abius]|em|span|strong|wbr)>)(?=[^\W_])")
_MARKS = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]+")
_WIDE = re.compile("[\uff01-\uff5e\U0001d400-\U0001d7ff\u2018\u2019\u02bc]")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_PLAIN: dict[int, int | str] = {
    **{code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys(map(ord, "\u2018\u2019\u02bc"), "'"),
    **{0x1D400 + number: (_LETTERS.upper() + _LETTERS)[number % 52] for number in range(13 * 52)},
}
_LOOKALIKES = str.maketrans(
    "аеорсухіјѕԁһтвкмнοαενιρτυχκ",  # Cyrillic and Greek
    "aeopcyxijsdhtbkmhoaeviptuxk",
)
_MIXED = re.compile(f"[a-z][{''.join(map(chr, _LOOKALIKES))}]|[{''.join(map(chr, _LOOKALIKES))}][a-z]")


def _dresses() -> Iterable[tuple[int, str]]:
    """Letters with accents, in circles, raised: each with the letter in it."""
    for first, last in (
        (0xC0, 0x24F),
        (0x2B0, 0x2E4),
        (0x1D2C, 0x1DBF),
        (0x1E00, 0x1EFF),
        (0x2071, 0x214F),
        (0x249C, 0x24E9),
    ):
        for code in range(first, last + 1):
            inner = [one for one in unicodedata.normalize("NFKD", chr(code)).lower() if one.isalpha()]
            if len(inner) == 1 and inner[0].isascii():
                yield code, inner[0]
    for first in (0x1F110, 0x1F130, 0x1F150, 0x1F170, 0x1F1E6):
        yield from ((first + number, letter) for number, letter in enumerate(_LETTERS))
    yield from zip(map(ord, "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ"), "abcdefghijklmnoprstuvwyz", strict=True)


_DRESSES = dict(_dresses())
_DRESSED = re.compile(f"[{''.join(map(chr, _DRESSES))}]")


def plain(text: str) -> str:
    """`text` as it is looked at."""
    text = _WITHIN_WORDS.sub("", _ESCAPED.sub(r"\1", stripped(text)))
    if text.isascii():
        return text
    if _MARKS.search(text):
        # Those that make a letter of a language stay with it; those that are left are only there to be in the way.
        text = _MARKS.sub("", unicodedata.normalize("NFC", text))
    return text.translate(_PLAIN) if _WIDE.search(text) else text


def undressed(small: str) -> str | None:
    """`small`, a text in small letters, with plain letters for those that only look like them."""
    if small.isascii():
        return None
    mixed, dressed = _MIXED.search(small), _DRESSED.search(small)
    if mixed:
        small = small.translate(_LOOKALIKES)
    return small.translate(_DRESSES) if dressed else small if mixed else None


__all__ = [
    "CLEAR",
    "MOST",
    "SUSPICIOUS",
    "TOO_MANY",
    "InjectionHit",
    "InjectionReport",
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


class InjectionHit(NamedTuple):
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
    seen = InjectionReport(text)
    found = _in_hidden(hidden, seen, known) if hidden else []
    found += [named(one, where) for one in hidden_in(text)]
    enough = CLEAR if where == "content" else SUSPICIOUS
    said = _new(seen, enough, known)
    if not said and "](" in text:
        # An address between two words parts them in markdown, not for those who see the page.
        said = _new(InjectionReport(unlinked(text)), enough, known)
    found.extend(named(one, where) for one in said)
    if seen.too_many:
        found.append(named(TOO_MANY, where))
    return list({(one["text"], one["reason"]): one for one in found}.values())[:MOST]


def _in_hidden(parts: Sequence[str], seen: "InjectionReport", known: set[str]) -> list[Unsafe]:
    if seen.about is not None:
        # A tab of an article on models may be hidden and shown by turns.
        letters = _letters(seen.text)
        parts = [part for part in parts if _letters(plain(part)) not in letters]
    text = _APART.join(part for part in parts if not _CAPTION.fullmatch(part))
    found = [*hidden_in(text), *_new(InjectionReport(text), SUSPICIOUS, known)]
    return [named(one, "hidden text") for one in found]


def _letters(text: str) -> str:
    """The letters alone: what is left of a text however it is marked up."""
    return "".join(_WORDS.findall(unlinked(text)))


def unlinked(text: str) -> str:
    """Markdown without the addresses of links and pictures; its lines stay as they are."""
    return _LINKED.sub(r"\1", text)


def _new(looked: "InjectionReport", enough: int, known: set[str]) -> list[Unsafe]:
    """What is alarming and not known yet."""
    new = list(islice((one for one in looked.alarming(enough) if not words_of(one) <= known), MOST))
    known.update(*map(words_of, new))
    return [looked.told(one) for one in new]


def words_of(cluster: "Iterable[InjectionHit]") -> set[str]:
    """The words that made a cluster, to know it by."""
    return {" ".join(_WORDS.findall(hit.said)) or hit.said for hit in cluster}


def named(one: Unsafe, where: str) -> Unsafe:
    """An alarm that says where it was found, if that is not the content."""
    return one if where == "content" else Unsafe(text=one["text"], reason=f"in {where}: {one['reason']}")


class InjectionReport:
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

    def alarming(self, enough: int) -> Iterator[list[InjectionHit]]:
        """Signs that stand together and are enough for an alarm, without those that are examples."""
        for cluster in self._clusters():
            if sum(_weights(cluster)) >= enough:
                bounds = cluster[0].start, max(hit.end for hit in cluster)
                meant = [hit for hit in cluster if not self._excused(hit, *bounds)]
                if sum(_weights(meant)) >= enough:
                    yield meant

    def _clusters(self) -> list[list[InjectionHit]]:
        hits, self.too_many = _hits(self.small)
        if (letters := undressed(self.small)) is not None:
            hits += _hits(letters)[0]
        clusters: list[list[InjectionHit]] = []
        end = 0
        for hit in sorted(hits, key=lambda hit: hit.start):
            if not clusters or hit.start > end + _TOGETHER:
                clusters.append([])
                end = hit.end
            clusters[-1].append(hit)
            end = max(end, hit.end)
        return clusters

    def _excused(self, hit: InjectionHit, start: int, end: int) -> bool:
        """Whether this is markup in code, or an example in a text that speaks of models elsewhere too."""
        if hit.sign.tag and self._in_code(hit):
            return True
        if self.about is None or (self.about[0] >= start and self.about[1] < end):
            return False
        return self._quoted(hit)

    def told(self, cluster: Sequence[InjectionHit], within: tuple[int, int] | None = None) -> Unsafe:
        """The words of a cluster and a few beside it, and what they do; `within` bounds what is beside it."""
        least, most = within or (0, len(self.text))
        start = max(least, cluster[0].start - 20)
        start = start if start == least else self.text.find(" ", start, cluster[0].start) + 1 or cluster[0].start
        end = min(cluster[-1].end + 80, start + 2 * _SHOWN, most)
        text = " ".join(self.text[start:end].split())
        reasons = dict.fromkeys(hit.sign.reason for hit in sorted(cluster, key=lambda hit: -hit.weight))
        return Unsafe(text=text if len(text) <= _SHOWN else text[:_SHOWN] + "…", reason="; ".join(list(reasons)[:3]))

    @cached_property
    def _blocks(self) -> list[BlockSpan]:
        return blocks_of(self.text)

    def _block(self, place: int) -> BlockSpan:
        # There is one: only space and rules stand between blocks, and no sign begins with those.
        return self._blocks[bisect_right(self._blocks, place, key=lambda span: span.start) - 1]

    def _in_code(self, hit: InjectionHit) -> bool:
        block = self._block(hit.start)
        return block.kind == "code" or self._before(block, hit).count("`") % 2 == 1

    def _quoted(self, hit: InjectionHit) -> bool:
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

    def _before(self, block: BlockSpan, hit: InjectionHit) -> str:
        # Quotes do not go on for pages.
        return self.text[max(block.start, hit.start - 2_000) : hit.start]


def _weights(cluster: Sequence[InjectionHit]) -> Iterable[int]:
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


def _hits(small: str) -> tuple[list[InjectionHit], bool]:
    """The signs in `small`, and whether there are too many places to look at."""
    hits: list[InjectionHit] = []
    tries = _TRIES + len(small) // _CHARACTERS_A_TRY
    for sign in _SIGNS:
        for place in _places(small, sign.stems):
            found = sign.pattern.match(small, place)
            tries -= 1
            if found:
                sure = sign.reason == OVERRIDE and sign.weight < CLEAR and STRONG.search(found[0])
                hits.append(InjectionHit(place, found.end(), CLEAR if sure else sign.weight, found[0], sign))
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


NOTE = "[hidden text left out]"
_WHOLE = 1_000
"""Characters up to which a hidden part goes as a whole."""
_MARKERS = re.compile(r"(?:[ \t]{0,20}(?:>|[-*+]|\d{1,9}[.)])[ ])*+")
_FENCE = re.compile(r"\s*(?:`{3}|~{3})")

Place = tuple[int, int]


class KeptText(NamedTuple):
    """A content without hidden orders."""

    markdown: str
    found: list[Unsafe]
    words: set[str]
    """Of the orders, to know them again."""


def without_orders(markdown: str, concealed: Iterable[Place]) -> KeptText:
    """`markdown`, of which the places given are hidden, without what speaks to models in them."""
    places = list(_in_order(concealed, len(markdown)))
    if not places:
        return KeptText(markdown, [], set())
    parts = [markdown[start:end] for start, end in places]
    looked = InjectionReport(unlinked("\n".join(parts)))
    if next(looked.alarming(SUSPICIOUS), None) is None and not looked.too_many:
        return KeptText(markdown, [], set())
    if looked.too_many:
        # No tab is made of commands.
        cuts = [(start + _markers(part), end) for (start, end), part in zip(places, parts, strict=True)]
        return KeptText(_without(markdown, cuts), [named(TOO_MANY, "hidden text")], set())
    # A tab of an article on models may be hidden and shown by turns.
    about = InjectionReport(markdown).about is not None
    looked.about = (-1, -1) if about else None
    clusters = list(looked.alarming(CLEAR if about else SUSPICIOUS))
    lines = _HiddenLines(looked.text, parts)
    touched: dict[int, set[int]] = {}
    found: list[Unsafe] = []
    for cluster in clusters:
        first, last = cluster[0].start, max(hit.end for hit in cluster)
        for line in range(lines.at(first), lines.at(last - 1) + 1):
            touched.setdefault(lines.part(line), set()).add(line)
        found.append(named(looked.told(cluster, lines.around(first, last)), "hidden text"))
    cuts = [cut for part, those in touched.items() for cut in _cuts(places[part], parts[part], lines.own(part, those))]
    return KeptText(
        _without(markdown, sorted(cuts)), found[:MOST], {one for hits in clusters for one in words_of(hits)}
    )


class _HiddenLines:
    """Which line of all hidden text belongs to which part. Looking at a text changes letters, and no ends of lines."""

    def __init__(self, text: str, parts: Sequence[str]) -> None:
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self._length = len(text)
        self._first = [0, *accumulate(part.count("\n") + 1 for part in parts)]

    def at(self, place: int) -> int:
        return bisect_right(self._starts, place) - 1

    def part(self, line: int) -> int:
        return bisect_right(self._first, line) - 1

    def own(self, part: int, lines: Iterable[int]) -> set[int]:
        """The lines, counted from the beginning of their part."""
        return {line - self._first[part] for line in lines}

    def around(self, first: int, last: int) -> Place:
        """Where the parts begin and end that these places are in."""
        end = self._first[self.part(self.at(last - 1)) + 1]
        return (
            self._starts[self._first[self.part(self.at(first))]],
            self._starts[end] if end < len(self._starts) else self._length,
        )


def _in_order(concealed: Iterable[Place], most: int) -> Iterator[Place]:
    """The places that are some, without what they have in common."""
    at = 0
    for start, end in sorted(concealed):
        if max(start, at) < min(end, most):
            yield max(start, at), min(end, most)
            at = end


def _cuts(place: Place, part: str, lines: set[int]) -> Iterator[Place]:
    """What goes of a part that has orders in these lines."""
    start, end = place
    if len(part) <= _WHOLE:
        yield start + _markers(part), end
        return
    goes = {near for line in lines for near in (line - 1, line, line + 1)}
    at, since = start, -1
    for number, line in enumerate(part.split("\n")):
        # A fence stays, or all that follows would be code.
        if number in goes and not _FENCE.match(line):
            since = at + _markers(line) if since < 0 else since
        elif since >= 0:
            yield since, at - 1
            since = -1
        at += len(line) + 1
    if since >= 0:
        yield since, end


def _markers(line: str) -> int:
    """How long the marks of a list or a quote are at the beginning of a line; they stay."""
    found = _MARKERS.match(line)
    return found.end() if found else 0


def _without(markdown: str, cuts: Sequence[Place]) -> str:
    kept: list[str] = []
    at = 0
    for start, end in cuts:
        kept += (markdown[at:start], NOTE)
        at = end
    return "".join([*kept, markdown[at:]])
