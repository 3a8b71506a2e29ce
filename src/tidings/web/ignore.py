"""What does not count as a change of a watched page: parts of it, and patterns in its text.

Compared is what was extracted, not bytes. Before that, parts named by CSS selectors are left out (the extraction does
that), and whatever a pattern matches: one of those in `READY`, or a regular expression of the caller's. Feeds are
compared entry by entry: one that is new or different is a change, one that has fallen off the end is not.

A pattern comes from anybody, so it is bounded: its length, what its repetitions expand to, and the time it may take.
One that takes too long is left out on both sides: the worst that a bad pattern does is to tell of a change too many.

What changes on many pages without anybody having changed them, as patterns with names.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import regex

from tidings.web.extract.html.selectors import BadSelector, remove
from tidings.web.extract.model import FeedEntry
from tidings.web.store.model import StoredVersion

if TYPE_CHECKING:
    from tidings.web.extract.html.tree import Element


_MONTH = (
    r"(?:jan(?:uary|uar|vier|\.)?|feb(?:ruary|ruar|rero|\.)?|f[ée]v(?:rier|\.)?|mar(?:ch|s|zo|\.)?|märz|apr(?:il|\.)?|"
    r"avr(?:il|\.)?|abril|ma[iy]o?|june?|juni|juin|junio|juil(?:let|\.)?|jul(?:y|i|io|\.)?|aug(?:ust|\.)?|août|"
    r"ago(?:sto)?|sept?(?:ember|embre|iembre|\.)?|oct(?:ober|obre|ubre|\.)?|okt(?:ober|\.)?|enero|"
    r"nov(?:ember|embre|iembre|\.)?|de[cz](?:ember|\.)?|d[ée]c(?:embre|\.)?|dic(?:iembre)?)"
)
_CLOCK = (
    r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,6})?)?(?:\s?[ap]\.?m\b\.?)?"
    r"(?:\s?(?:Z|UTC|GMT|CES?T|[ECMP][SD]T)\b|[+-]\d{2}:?\d{2})?"
)
_UNIT = (
    r"(?:s(?:ec(?:ond)?s?)?|min(?:ute)?s?|m|h(?:ours?|rs?)?|d(?:ays?)?|w(?:eeks?)?|mo(?:nth)?s?|y(?:ears?|rs?)?|"
    r"sekunden?|minuten?|stunden?|tag(?:en?)?|wochen?|monat(?:en?)?|jahr(?:en?)?|"
    r"secondes?|heures?|jours?|semaines?|mois|ans?|segundos?|minutos?|horas?|d[ií]as?|semanas?|mes(?:es)?|años?)"
)
_SOME = r"(?:\d{1,4}|an?|one|einer?m?|einem|une?|un)"
_COUNTED = (
    r"(?:views?|reads?|comments?|replies|reply|likes?|shares?|retweets?|reposts?|followers?|points?|(?:up)?votes?|"
    r"downloads?|stars?|forks?|watch(?:ers|ing)|visitors?|visits?|hits?|online|members?|users?|guests?|reactions?|"
    r"claps?|subscribers?|ratings?|reviews?|sold|aufrufe|kommentare?|antworten|vues?|commentaires?|visitas?|"
    r"comentarios?)"
)
_NUMBER = r"\d{1,3}(?:[.,' \u00a0\u202f]?\d{3})*(?:[.,]\d{1,2})?\s?[km]?"
_IN_QUERY = (
    r"(?i)(?<=[?&;])(?:utm_\w+|s?id|sess(?:ion)?(?:_?id)?|phpsessid|jsessionid|csrf\w*|nonce|token|ts|t|_|v|ver|cb|"
    r"cache\w*|rnd|rand|fbclid|gclid)=[^&#\s)\"'>]*"
)

READY: Mapping[str, tuple[str, ...]] = {
    "dates": (
        rf"\b\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]{_CLOCK})?",
        r"\b\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d{2})\b",
        rf"(?i)\b\d{{1,2}}(?:st|nd|rd|th|\.)?\s(?:of\s|de\s)?{_MONTH}\b\.?(?:,?\s(?:de\s)?\d{{4}})?",
        rf"(?i)\b{_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s\d{{4}})?",
        rf"(?i)\b{_CLOCK}",
    ),
    "counters": (
        rf"(?i)\b{_COUNTED}\s?[:\uff1a]\s?{_NUMBER}(?!\w)",
        rf"(?i)\b{_COUNTED}\s?\(\s?{_NUMBER}\s?\)",
        rf"(?i)\b{_NUMBER}\+?\s{_COUNTED}\b",
    ),
    "relative-times": (
        rf"(?i)\b(?:about |over |almost |more than )?{_SOME}\s?{_UNIT}\s(?:ago|earlier)\b",
        rf"(?i)\b(?:vor|il y a|hace)\s{_SOME}\s?{_UNIT}\b",
        r"(?i)\b(?:just now|moments? ago|a moment ago|gerade eben|à l'instant|ahora mismo)\b",
        r"(?i)\b(?:updated|published|posted|edited|modified|last seen|active)\s(?:today|yesterday)\b",
    ),
    "tokens": (
        r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b",
        r"\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{16,}\b",
        r"(?<![\w+/=-])(?=[\w+/-]*\d)(?=[\w+/-]*[a-z])(?=[\w+/-]*[A-Z])[\w+/-]{24,}={0,2}",
        _IN_QUERY,
    ),
}
"""What changes on many pages without anybody having changed them, and patterns of it."""


MOST_RULES = 50
MOST_CHARACTERS = 500
MOST_REPEATED = 2_000
SECONDS = 0.5
"""For one pattern on one text."""

USUAL = ("relative-times",)
"""Left out unless the caller says otherwise: "5 minutes ago" is another text in a minute."""


class _Nothing:
    """A page in which nothing is found, for selectors that are only to be understood."""

    def xpath(self, path: str) -> list[Any]:
        return []


_NOTHING = _Nothing()


class BadRule(ValueError):
    """A rule that cannot be used; the text says why, and what to do."""


@dataclass(frozen=True)
class IgnoreRules:
    """The rules of one watched page.

    Raises:
        BadRule: One of them cannot be used.
    """

    selectors: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    ready: tuple[str, ...] = USUAL

    def __post_init__(self) -> None:
        if len(self.selectors) + len(self.patterns) > MOST_RULES:
            raise BadRule(f"there may be {MOST_RULES} ignore rules; join some of them with a comma or |")
        for selector in self.selectors:
            try:
                remove(cast("Element", _NOTHING), (selector,))
            except BadSelector as error:
                raise BadRule(str(error)) from error
        for pattern in self.patterns:
            compiled(pattern)
        for name in self.ready:
            if name not in READY:
                raise BadRule(f"there is no ready pattern {name!r}: use {', '.join(READY)}")

    def to_json(self) -> dict[str, Any]:
        """The rules, as they are kept with the watch."""
        return {"selectors": list(self.selectors), "patterns": list(self.patterns), "ready": list(self.ready)}

    @staticmethod
    def from_json(said: Mapping[str, Any] | None) -> "IgnoreRules":
        """The rules that were kept; the usual ones where none were."""
        if said is None:
            return IgnoreRules()
        lists = cast("Mapping[str, list[str]]", said)
        return IgnoreRules(
            tuple(lists.get("selectors", ())), tuple(lists.get("patterns", ())), tuple(lists.get("ready", USUAL))
        )

    def all_patterns(self) -> list["regex.Pattern[str]"]:
        """The patterns, ready to run."""
        ready = [pattern for name in self.ready for pattern in READY[name]]
        return [*map(_ready, ready), *map(compiled, self.patterns)]


@dataclass(frozen=True)
class Judged:
    """Whether two versions say the same, and which patterns took too long to be asked."""

    same: bool
    too_slow: tuple[str, ...] = field(default=())


def judge(before: StoredVersion, after: StoredVersion, ignore: IgnoreRules) -> Judged:
    """Compare two versions of a page. Takes a while: to be called in another thread."""
    if before.packet["hashes"]["content_hash"] == after.packet["hashes"]["content_hash"]:
        return Judged(same=True)
    cleaner = _Cleaner(ignore.all_patterns())
    if before.entries and after.entries:
        return cleaner.verdict(lambda: _nothing_new(before.entries, after.entries, cleaner))
    old, new = before.packet["content"], after.packet["content"]
    return cleaner.verdict(lambda: cleaner.clean(old) == cleaner.clean(new))


@lru_cache(maxsize=256)
def compiled(pattern: str) -> "regex.Pattern[str]":
    """A caller's regular expression, ready to run: Python's language; `^` and `$` at each line.

    Raises:
        BadRule: It is not one, or could not be run safely.
    """
    shown = repr(pattern if len(pattern) <= 80 else pattern[:80] + "…")
    if len(pattern) > MOST_CHARACTERS:
        raise BadRule(f"the pattern {shown} has more than {MOST_CHARACTERS} characters: use several shorter ones")
    try:
        # Python's own engine first: it knows nothing of the other's recursion, and expands nothing.
        re.compile(pattern)
        if _expands_to(pattern) > MOST_REPEATED:
            raise BadRule(f"the pattern {shown} repeats too often: keep counts such as {{1,100}} small, or use + or *")
        found = regex.compile(pattern, regex.MULTILINE | regex.VERSION0)
        matches_nothing = found.fullmatch("", timeout=SECONDS) is not None
    except (re.error, regex.error, RecursionError, OverflowError, TimeoutError) as error:
        raise BadRule(f"the pattern {shown} is no regular expression: {error}") from error
    if matches_nothing:
        raise BadRule(
            f"the pattern {shown} matches an empty text, so it says nothing: let it match what is to be ignored"
        )
    return found


@lru_cache(maxsize=64)
def _ready(pattern: str) -> "regex.Pattern[str]":
    return regex.compile(pattern, regex.MULTILINE | regex.VERSION0)


def _expands_to(pattern: str) -> int:
    """No more than this many copies of anything are made when the pattern is compiled."""
    product = 1
    for least, most in re.findall(r"\{(\d*)(?:,(\d*))?\}", pattern):
        product *= max(1, int(least or 0), int(most or 0))
    return product


class _Cleaner:
    """Takes out of texts what the patterns match; those that took too long are left alone from then on."""

    def __init__(self, patterns: list["regex.Pattern[str]"]) -> None:
        self._patterns = patterns
        self._too_slow: list[str] = []

    def verdict(self, question: Callable[[], bool]) -> Judged:
        # Asked again without each pattern that proves too slow, so that both sides are cleaned alike.
        while True:
            asked = len(self._too_slow)
            same = question()
            if len(self._too_slow) == asked:
                return Judged(same, tuple(self._too_slow))

    def clean(self, text: str) -> str:
        for pattern in list(self._patterns):
            try:
                text = pattern.sub("", text, timeout=SECONDS, concurrent=True)
            except TimeoutError:
                self._patterns.remove(pattern)
                self._too_slow.append(pattern.pattern)
        return " ".join(text.split())


def _nothing_new(before: Iterable[FeedEntry], after: Iterable[FeedEntry], cleaner: _Cleaner) -> bool:
    known = {entry.id: _said(entry, cleaner) for entry in before}
    return all(known.get(entry.id) == _said(entry, cleaner) for entry in after)


def _said(entry: FeedEntry, cleaner: _Cleaner) -> str:
    return cleaner.clean("\n".join((entry.title, entry.url, entry.updated_at or "", entry.summary)))
