r"""Instructions to models in text: found and named, never followed, never silently dropped.

Three things are reported: characters that hide a message, markup of chats and tool calls, and words addressed to a
model (`phrases.json`). Visible text has to be clear to be reported; hidden text, titles and errors less so. A text
about models may quote what is said to them, in code, in quotes, in lists and tables; what it says itself counts.

Signs are matched in lower case and without invisible characters, only where one of their stems occurs: long texts cost
little. One sign alone rarely proves anything; signs that stand together add up. In `phrases.json`, `{{NAME}}` stands
for a macro, and `\w*` for a bounded rest of a word. All is bounded, so that there is one way to match, or none.
"""

import json
import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidings._kit.text import applied, expanded
from tidings.web.documents.invisible import hidden_in, stripped
from tidings.web.documents.markdown import BlockSpan, blocks_of
from tidings.web.documents.model import Unsafe

OVERRIDE: Final = "tells a model to drop its instructions"

_DATA: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("phrases.json").read_text("utf-8"))
_OVERRIDE: Final = (
    "(?:VERBS){{GAP}}{{WORD}}{0,4}?"
    "(?:(?:EARLIER){{GAP}}{{WORD}}{0,2}?(?:NOUNS)|(?:NOUNS){{GAP}}{{WORD}}{0,3}?(?:EARLIER))(?![^\\W_])"
)


class Sign(NamedTuple):
    """A phrase that instructions to models use."""

    reason: str
    stems: tuple[str, ...]  # It begins with one of these.
    pattern: re.Pattern[str]
    weight: int
    tag: bool = False  # True if it is markup of a chat.


def _sign(row: dict[str, Any]) -> Sign:
    pattern: str = row.get("pattern", _OVERRIDE)
    for part, words in row.get("override", {}).items():
        pattern = pattern.replace(part.upper(), words)
    pattern = expanded(pattern, _DATA["macros"]).replace(r"\w*", r"[^\W_]{0,12}")
    return Sign(row["reason"], tuple(row["stems"]), re.compile(pattern), row["weight"], row.get("tag", False))


SIGNS: Final = tuple(map(_sign, _DATA["signs"]))
STRONG: Final = re.compile(_DATA["strong"])  # Words that make an override certain: all of them, yours, the prompt.
ABOUT: Final = tuple[str, ...](_DATA["about"])  # A text with these words is about models: what it quotes is an example.

CLEAR, SUSPICIOUS = 3, 2  # The sum of weights that is reported: in visible text, and elsewhere.
_TOGETHER = 160  # The most characters between two signs that belong together.
MOST = 20
TOO_MANY = Unsafe(text="", reason="has more words of commands than can be checked")
_SHOWN = 300
# Limits of the signs that are weighed and of the places that are tried; the latter grows with the text. Ordinary
# writing has far fewer.
_HITS, _TRIES, _CHARACTERS_A_TRY = 20_000, 50_000, 10

_LINKED = re.compile(r"!?\[([^\[\]]{0,500})\]\([^()\s]{1,2000}\)")
_WORDS = re.compile(r"[^\W_]+")
# One or two plain words, such as half of what pages hide: no instruction is that short.
_CAPTION = re.compile(r"[A-Za-z]{0,30}[ ]?[A-Za-z]{0,30}[.:]?")
APART = "\n" + " " * 200 + "\n"  # Separates parts, so that two of them are not taken for one sentence.
_OPENING = frozenset("“„«「『")
_CLOSING = frozenset("”»」』")
NOTE = "[hidden text left out]"
_WHOLE = 1_000  # Hidden parts up to this many characters are removed as a whole.
_MARKERS = re.compile(r"(?:[ \t]{0,20}(?:>|[-*+]|\d{1,9}[.)])[ ])*+")
_FENCE = re.compile(r"\s*(?:`{3}|~{3})")

Place = tuple[int, int]

_ESCAPED = re.compile(r"\\([\\`*_\[\]])")
_WITHIN_WORDS = re.compile(r"(?<=[^\W_])(?:\*{1,3}|~~|</?(?:[abius]|em|span|strong|wbr)>)(?=[^\W_])")
_MARKS = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]+")
_APOSTROPHES = re.compile("[\u2018\u2019\u02bc]")
_LOOKALIKES = str.maketrans("аеорсухіјѕԁһтвкмнοαενιρτυχκ", "aeopcyxijsdhtbkmhoaeviptuxk")  # Cyrillic and Greek
_MIXED = re.compile(f"[a-z][{''.join(map(chr, _LOOKALIKES))}]|[{''.join(map(chr, _LOOKALIKES))}][a-z]")


class _PlainCharacters(dict[int, str]):
    """Plain characters for those that are wide, raised, in circles or with accents; others stay as they are."""

    def __missing__(self, code: int) -> str:
        inner = unicodedata.normalize("NFKD", chr(code)).lower()
        found = "".join(filter(str.isalpha, inner)) or inner
        found = found if len(found) == 1 and found.isascii() else chr(code)
        if code < 0x20000:  # Bounds what is kept.
            self[code] = found
        return found


_PLAIN = _PlainCharacters(
    {
        **dict(zip(map(ord, "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ"), "abcdefghijklmnoprstuvwyz", strict=True)),
        # In black circles and squares, and those of flags.
        **{first + number: chr(97 + number) for first in (0x1F150, 0x1F170, 0x1F1E6) for number in range(26)},
    }
)


def plain(text: str) -> str:
    """Returns a text for matching: visible characters only, no emphasis inside of words."""
    text = _WITHIN_WORDS.sub("", _ESCAPED.sub(r"\1", stripped(text)))
    if text.isascii():
        return text
    if _MARKS.search(text):
        # Marks that form a letter of a language are composed with it; those that are left are only obstacles.
        text = _MARKS.sub("", unicodedata.normalize("NFC", text))
    return _APOSTROPHES.sub("'", text)


def plain_letters(lower: str) -> str | None:
    """Returns a lower-case text of the same length with plain letters for lookalikes; None if it has none."""
    if lower.isascii():
        return None
    found = (lower.translate(_LOOKALIKES) if _MIXED.search(lower) else lower).translate(_PLAIN)
    return None if found == lower else found


class InjectionHit(NamedTuple):
    """A sign and its place."""

    start: int
    end: int
    weight: int
    text: str
    sign: Sign


def look_for(
    text: str, *, hidden: Sequence[str] = (), where: str = "content", known: set[str] | None = None
) -> list[Unsafe]:
    """Returns instructions to a model in a text and in hidden parts of its page, except those in `known`."""
    known = set() if known is None else known
    seen = InjectionReport(text)
    found: list[Unsafe] = []
    if hidden:
        # A tab of an article about models may be shown and hidden.
        letters = _letters(seen.text) if seen.about is not None else ""
        parts = (part for part in hidden if not letters or _letters(plain(part)) not in letters)
        unseen = APART.join(part for part in parts if not _CAPTION.fullmatch(part))
        found += [*hidden_in(unseen), *_new(InjectionReport(unseen), SUSPICIOUS, known)]
        found = [located(one, "hidden text") for one in found]
    found += [located(one, where) for one in hidden_in(text)]
    enough = CLEAR if where == "content" else SUSPICIOUS
    visible = _new(seen, enough, known)
    if not visible and "](" in text:
        # The address of a link separates words in Markdown, not for people who see the page.
        visible = _new(InjectionReport(unlinked(text)), enough, known)
    found.extend(located(one, where) for one in visible)
    if seen.too_many:
        found.append(located(TOO_MANY, where))
    return list({(one["text"], one["reason"]): one for one in found}.values())[:MOST]


def _letters(text: str) -> str:
    """Returns the letters alone, which are the same however a text is marked up."""
    return "".join(_WORDS.findall(unlinked(text)))


def unlinked(text: str) -> str:
    """Returns Markdown without the addresses of links and pictures; its lines stay as they are."""
    return _LINKED.sub(r"\1", text)


def _new(report: "InjectionReport", enough: int, known: set[str]) -> list[Unsafe]:
    """Returns what is suspicious enough and not known yet."""
    new = list(islice((one for one in report.clusters(enough) if not words_of(one) <= known), MOST))
    known.update(*map(words_of, new))
    return [report.described(one) for one in new]


def words_of(cluster: "Iterable[InjectionHit]") -> set[str]:
    """Returns the words of a cluster, to recognise it."""
    return {" ".join(_WORDS.findall(hit.text)) or hit.text for hit in cluster}


def located(one: Unsafe, where: str) -> Unsafe:
    """Returns a finding with its location, if that is not the content."""
    return one if where == "content" else Unsafe(text=one["text"], reason=f"in {where}: {one['reason']}")


class InjectionReport:
    """The signs in one text, which is searched without invisible characters and with plain letters."""

    def __init__(self, text: str) -> None:
        self.text = plain(text)
        self.lower = self.text.lower()
        if len(self.lower) != len(self.text):
            # A few capitals become two letters in lower case; places have to stay the same.
            self.lower = "".join(one.lower() if len(one.lower()) == 1 else one for one in self.text)
        self.too_many = False

    @cached_property
    def about(self) -> tuple[int, int] | None:
        """The first and the last place where the text mentions models; None if it does not."""
        places = [place for word in ABOUT for place in (self.lower.find(word), self.lower.rfind(word)) if place >= 0]
        return (min(places), max(places)) if places else None

    def clusters(self, enough: int) -> Iterator[list[InjectionHit]]:
        """Yields signs that stand together and weigh `enough`, without those that are examples."""
        hits, self.too_many = _hits(self.lower)
        if (letters := plain_letters(self.lower)) is not None:
            hits += _hits(letters)[0]
        clusters: list[list[InjectionHit]] = []
        end = -math.inf
        for hit in sorted(hits, key=lambda hit: hit.start):
            if hit.start > end + _TOGETHER:
                clusters.append([])
            clusters[-1].append(hit)
            end = max(end, hit.end)
        for cluster in clusters:
            if _weight(cluster) >= enough:
                bounds = cluster[0].start, max(hit.end for hit in cluster)
                meant = [hit for hit in cluster if not self._excused(hit, *bounds)]
                if _weight(meant) >= enough:
                    yield meant

    def _excused(self, hit: InjectionHit, start: int, end: int) -> bool:
        """Returns whether this is markup in code, or an example in a text that mentions models elsewhere, too."""
        elsewhere = self.about is not None and (self.about[0] < start or self.about[1] >= end)
        if not elsewhere and not hit.sign.tag:
            return False
        # There is a block: between blocks are only space and rules, and no sign begins with those.
        block = self._blocks[bisect_right(self._blocks, hit.start, key=lambda span: span.start) - 1]
        before = self.text[max(block.start, hit.start - 2_000) : hit.start]  # Quotations are not longer.
        if block.kind == "code" or before.count("`") % 2 == 1:
            return True
        opened = sum(before.count(one) for one in _OPENING) > sum(before.count(one) for one in _CLOSING)
        quoted = opened or before.count('"') % 2 == 1 or before.rstrip()[-1:] == "'"
        return elsewhere and (quoted or block.kind in {"quote", "list", "table", "heading"})

    @cached_property
    def _blocks(self) -> list[BlockSpan]:
        return blocks_of(self.text)

    def described(self, cluster: Sequence[InjectionHit], within: tuple[int, int] | None = None) -> Unsafe:
        """Returns the words of a cluster with a few around them, `within` these places, and the reasons."""
        least, most = within or (0, len(self.text))
        start = max(least, cluster[0].start - 20)
        start = start if start == least else self.text.find(" ", start, cluster[0].start) + 1 or cluster[0].start
        end = min(cluster[-1].end + 80, start + 2 * _SHOWN, most)
        text = " ".join(self.text[start:end].split())
        reasons = dict.fromkeys(hit.sign.reason for hit in sorted(cluster, key=lambda hit: -hit.weight))
        return Unsafe(text=text if len(text) <= _SHOWN else text[:_SHOWN] + "…", reason="; ".join(list(reasons)[:3]))


def _weight(cluster: Sequence[InjectionHit]) -> int:
    """Returns the weight of signs together: each markup name counts, and words of one kind count once."""
    best: dict[str, int] = {}
    for hit in cluster:
        key = hit.text if hit.sign.tag else hit.sign.reason
        best[key] = max(best.get(key, 0), hit.weight)
    return sum(best.values())


def _hits(lower: str) -> tuple[list[InjectionHit], bool]:
    """Returns the signs in a lower-case text, and whether there are too many places to try."""
    hits: list[InjectionHit] = []
    tries = _TRIES + len(lower) // _CHARACTERS_A_TRY
    for sign in SIGNS:
        for place in _places(lower, sign.stems):
            found = sign.pattern.match(lower, place)
            tries -= 1
            if found:
                certain = sign.reason == OVERRIDE and sign.weight < CLEAR and STRONG.search(found[0])
                hits.append(InjectionHit(place, found.end(), CLEAR if certain else sign.weight, found[0], sign))
            if len(hits) >= _HITS or tries <= 0:
                return hits, True
    return hits, False


def _places(lower: str, stems: Sequence[str]) -> Iterator[int]:
    for stem in stems:
        place = lower.find(stem)
        while place >= 0:
            # Only where a word begins; scripts without spaces do not show it.
            if not stem[0].isalpha() or stem[0] >= "\u0900" or place == 0 or not lower[place - 1].isalnum():
                yield place
            place = lower.find(stem, place + len(stem))


class KeptText(NamedTuple):
    """A content without hidden instructions."""

    markdown: str
    found: list[Unsafe]
    words: set[str]  # The words of the instructions, to recognise them.


def without_hidden_instructions(markdown: str, concealed: Iterable[Place]) -> KeptText:
    """Returns `markdown` without the instructions to models in its hidden places."""
    places: list[Place] = []
    at = 0
    for start, end in sorted(concealed):  # Those that are not empty, without overlaps.
        if max(start, at) < min(end, len(markdown)):
            places.append((max(start, at), min(end, len(markdown))))
            at = end
    if not places:
        return KeptText(markdown, [], set())
    parts = [markdown[start:end] for start, end in places]
    report = InjectionReport(unlinked("\n".join(parts)))
    suspicious = next(report.clusters(SUSPICIOUS), None) is not None
    if report.too_many:
        # Such a text is not content.
        cuts = [(start + _markers(part), end, NOTE) for (start, end), part in zip(places, parts, strict=True)]
        return KeptText(applied(markdown, cuts), [located(TOO_MANY, "hidden text")], set())
    if not suspicious:
        return KeptText(markdown, [], set())
    # As above: such a tab may be shown, too.
    about = InjectionReport(markdown).about is not None
    report.about = (-1, -1) if about else None
    clusters = list(report.clusters(CLEAR if about else SUSPICIOUS))
    # Where each line of all hidden text begins, with its part and its number there; and where each part begins. Making
    # letters plain does not change line ends.
    starts = [0, *(found.end() for found in re.finditer("\n", report.text))]
    lines = [(number, line) for number, part in enumerate(parts) for line in range(part.count("\n") + 1)]
    edges = [start for start, (_, line) in zip(starts, lines, strict=False) if line == 0] + [len(report.text)]
    touched: dict[int, set[int]] = {}
    found: list[Unsafe] = []
    for cluster in clusters:
        first, last = cluster[0].start, max(hit.end for hit in cluster)
        within = lines[bisect_right(starts, first) - 1 : bisect_right(starts, last - 1)]
        for part, line in within:
            touched.setdefault(part, set()).add(line)
        around = edges[within[0][0]], edges[within[-1][0] + 1]
        found.append(located(report.described(cluster, around), "hidden text"))
    cuts = sorted((*cut, NOTE) for part, those in touched.items() for cut in _cuts(places[part], parts[part], those))
    words = {one for cluster in clusters for one in words_of(cluster)}
    return KeptText(applied(markdown, cuts), found[:MOST], words)


def _cuts(place: Place, part: str, lines: set[int]) -> Iterator[Place]:
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
    """Returns the length of the list and quote markers at the beginning of a line; they stay."""
    found = _MARKERS.match(line)
    return found.end() if found else 0
