"""Sentences and other units that a summary picks from, and how much each says.

Units are sentences, items of lists, rows of tables, blocks of code. Each is a slice of the content, so that a summary
quotes the page word for word. The score of a unit comes from the words that it shares with the text, its place, and
what the caller asked for.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tidings.web.documents.markdown import BlockSpan, Sections
from tidings.web.documents.model import BlockKind

# Only the first mark of a run begins a match: a line of dots is looked at once.
_END = re.compile(
    r"(?<![.!?…])[.!?…]++['\"”’»)\]*_]{0,4}+\s++|[\u3002\uff01\uff1f]++[”」』\uff09]{0,2}+\s*+"  # noqa: RUF001
)
_WORD_BEFORE = re.compile(r"[^\W\d_][\w.]{0,12}$")
_ABBREVIATIONS = frozenset(
    word
    for words in (
        "mr mrs ms dr prof st no vs etc e.g i.e cf fig al jr sr inc ltd co dept approx est vol pp gen rev hon u.s",
        "ca bzw z.b usw d.h ggf nr abs art mme ex sra dra av núm pág",
        "jan feb mar apr jun jul aug sep sept oct nov dec",
    )
    for word in words.split()
)
_ITEM = re.compile(r"[ \t]*+(?:[-+*]|\d{1,9}[.)])[ \t]")
_LONGEST, _PART = 1_200, 600  # Longer sentences, in characters, are cut into parts of the second length.
_WORDS = re.compile(r"\w+")
_UNSPACED = "\u2e80"  # The first character of scripts that do not separate words.
_ENDINGS = ("ings", "ing", "edly", "ies", "ed", "es", "ly", "s")
_CAPITAL = "[A-Z\u00c0-\u00de\u0391-\u03a9\u0410-\u042f]"
_MONTHS = (
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?\s\d{1,4}|\d{1,2}\.?(?:\sde)?\s(?:jan|f[eé]b|f[eé]v|"
    r"m[aä]r|abr|avr|apr|ma[iy]|jui?n|jui?l|ao[uû]|ag|aug|se[pt]|o[ckt]t|out|nov|d[eéi][czs])[a-zéû]{0,7}"
)
PRESERVED: dict[str, re.Pattern[str]] = {  # The kinds of facts that a caller can ask to keep, and their patterns.
    "numbers": re.compile(r"^(?:\s{0,8}\d{1,3}[.)]\s)?+.*?\d", re.DOTALL),
    "dates": re.compile(
        rf"\b(?:1[5-9]|20)\d\d\b|\b\d{{1,2}}[./-]\d{{1,2}}[./-]\d{{2,4}}\b|\b(?:{_MONTHS})|\d{{1,4}}[年月日년월일]",
        re.IGNORECASE,
    ),
    "names": re.compile(
        rf"\b{_CAPITAL}[\w'’.-]{{1,30}} (?:(?:of|de|van|von|der|la|bin|al) )?{_CAPITAL}[\w'’-]{{1,30}}"  # noqa: RUF001
        rf"|(?<=[\w,;(] ){_CAPITAL}[\w'’-]{{2,30}}"  # noqa: RUF001
    ),
    "definitions": re.compile(
        r"\b(?:is|are|was) (?:an?|the|defined|called|known)\b|\b(?:means|denotes|refers? to|stands for|defined as)\b|"
        r"\*\*[^*]{1,60}\*\*\s?[:–—-]|\b(?:ist eine?|sind|bezeichnet|bedeutet|heißt|est une?|désigne|signifie|"  # noqa: RUF001
        r"es una?|significa|se define|é uma?|è una?)\b|是指|指的是|定义为|とは|이란",
        re.IGNORECASE,
    ),
    "procedures": re.compile(
        r"^\s{0,8}\d{1,3}[.)]\s|^(?:[-+*] )?(?:\*\*)?(?:step \d|first|second|then|next|finally|after that|click|run|"
        r"install|open|select|press|enter|type|choose|go to|create|download|add|remove|set|make sure|use)\b|"
        r"\bstep \d|^(?:schritt|zuerst|dann|klicken|öffnen|étape|d'abord|ensuite|cliquez|paso|primero|luego)\b",
        re.IGNORECASE,
    ),
}
_KEPT, _KEPT_MOST = 0.8, 1.6  # The bonus for each of these, and the largest; without it a sentence scores about 1.


class Sentence(NamedTuple):
    """`content[start:end]`."""

    start: int
    end: int
    kind: BlockKind
    section: int
    block: int  # The number of its block.
    rank: int  # Its number within the block, from 0.


def sentences_of(content: str, blocks: Sequence[BlockSpan], sections: Sections) -> Iterator[Sentence]:
    """Yields all units of `content` in their order, without headings and meta."""
    for number, block in enumerate(blocks):
        if block.kind in {"heading", "meta"}:
            continue
        units: Iterable[tuple[int, int]] = [(block.start, block.end)]
        if block.kind in {"paragraph", "quote"}:
            units = _sentences(content, block)
        elif block.kind == "list":
            units = _items(content, block)
        elif block.kind == "table":
            units = ((start, end) for start, end in _lines(content, block) if content[start:end].strip("|-: \t"))
        section = sections.at(block.start)
        for rank, (start, end) in enumerate(units):
            yield Sentence(start, end, block.kind, section, number, rank)


def _lines(content: str, block: BlockSpan) -> Iterator[tuple[int, int]]:
    start = block.start
    for line in content[start : block.end].split("\n"):
        yield start, start + len(line)
        start += len(line) + 1


def _items(content: str, block: BlockSpan) -> Iterator[tuple[int, int]]:
    """Yields each item with what is indented below it."""
    first = block.start
    for start, _ in _lines(content, block):
        if start > first and _ITEM.match(content, start, block.end):
            yield from _trimmed(content, first, start)
            first = start
    yield from _trimmed(content, first, block.end)


def _sentences(content: str, block: BlockSpan) -> Iterator[tuple[int, int]]:
    start = block.start
    for found in _END.finditer(content, start, block.end):
        if found.end() < block.end and not _goes_on(content, found):
            yield from _trimmed(content, start, found.end())
            start = found.end()
    yield from _trimmed(content, start, block.end)


def _goes_on(content: str, end: re.Match[str]) -> bool:
    """Returns whether a sentence goes on: in a link, after an abbreviation or an initial, or in lower case."""
    near = max(0, end.start() - 300)
    if content.rfind("[", near, end.start()) > content.rfind("]", near, end.start()):
        return True  # within the text of a link
    if end[0][0] != ".":
        return False
    word = _WORD_BEFORE.search(content, max(0, end.start() - 14), end.start())
    abbreviated = word is not None and (len(word[0]) == 1 or word[0].lower() in _ABBREVIATIONS)
    return abbreviated or content[end.end()].islower()


def _trimmed(content: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields the place without space around it; a long one is cut between words."""
    end = start + len(content[start:end].rstrip())
    while start < end:
        if content[start].isspace():
            start += 1
            continue
        cut = end
        if end - start > _LONGEST:
            cut = max(content.rfind(" ", start, start + _PART), content.rfind("\n", start, start + _PART))
            cut = cut if cut > start else start + _PART
        yield start, cut
        start = cut


def terms(text: str) -> list[str]:
    """Returns the stems of the words of a text; pairs of characters where words are not separated."""
    found: list[str] = []
    for word in _WORDS.findall(text.lower()):
        if word[0] >= _UNSPACED:
            found.extend(word[at : at + 2] for at in range(max(1, len(word) - 1)))
        elif len(word) > 2 or word.isdigit():
            found.append(stem(word))
    return found


def stem(word: str) -> str:
    """Returns an English word without its ending; close enough for other languages."""
    if len(word) > 4 and word.isascii():
        for ending in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                return word[: -len(ending)]
    return word


class Salience:
    """The scores of the sentences of a text, about 0 to 1 without what is kept. Words in `about` matter more."""

    def __init__(
        self, content: str, sentences: Sequence[Sentence], about: str = "", preserve: Iterable[str] = ()
    ) -> None:
        self.terms = [frozenset(terms(content[one.start : one.end])) for one in sentences]
        asked = frozenset(terms(about))
        # Words count that recur, not those that occur once or everywhere.
        counts = Counter(word for words in self.terms for word in words)
        weights = {
            word: (0.1 + math.log(count) * (1 - count / len(sentences)) ** 3) * (1.5 if word in asked else 1.0)
            for word, count in counts.items()
        }
        # Long sentences share more words without saying more.
        shared = [
            sum(weights[word] for word in words) / (len(words) + 8) if len(words) > 3 else 0.0 for words in self.terms
        ]
        most = max(shared, default=0.0) or 1.0
        preserved = [PRESERVED[name] for name in preserve]
        self.scores = [
            score / most + self._place(number, one, len(sentences)) + _kept(content[one.start : one.end], preserved)
            for number, (one, score) in enumerate(zip(sentences, shared, strict=True))
        ]
        self.best = sorted(range(len(sentences)), key=lambda number: -self.scores[number])  # The best score first.

    def _place(self, number: int, one: Sentence, count: int) -> float:
        early = 0.3 / (1 + 20 * number / count)
        first = 0.15 if one.rank == 0 and one.kind == "paragraph" else 0.0
        few = 0.5 if len(self.terms[number]) <= 3 else 0.0
        return early + first - few - (0.5 if one.kind in {"code", "table"} else 0.0)


def _kept(text: str, preserved: Sequence[re.Pattern[str]]) -> float:
    # Menus consist of links; a colon or a question says nothing without what follows.
    less = -min(0.6, 40 * text.count("](") / (len(text) + 1)) - (0.3 if text[-1] in ":?\uff1f\uff1a" else 0.0)
    return less + min(_KEPT_MOST, _KEPT * sum(1 for pattern in preserved if pattern.search(text)))
