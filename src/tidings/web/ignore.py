"""Rules for what does not count as a change of a watched page: parts of it, and patterns in its text.

The extracted text is compared, not the bytes; feeds entry by entry: a new or different entry is a change, one that has
fallen off the end is not. A caller's pattern is bounded: one that takes too long is skipped on both sides, so the worst
that a bad pattern does is to report a change too many.
"""

import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tidings._kit import patterns
from tidings._kit.patterns import BadPattern, users_pattern
from tidings._kit.text import expanded, quoted
from tidings.web.documents.model import version_hash
from tidings.web.extract.html.selectors import BadSelector, paths
from tidings.web.extract.model import LISTS, FeedEntry
from tidings.web.store.model import StoredVersion

logger = logging.getLogger(__name__)

_DATA: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("ignore.json").read_text("utf-8"))
# Patterns of text that changes on many pages by itself, by name.
READY: Final = {
    name: tuple(expanded(pattern, _DATA["macros"]) for pattern in patterns) for name, patterns in _DATA["ready"].items()
}

MOST_RULES = 50
SECONDS = 0.5  # for one pattern on one text
# The default: "5 minutes ago", "1,204 views", "updated at 10:15" and session ids in links are others in a minute.
USUAL = ("relative-times", "counters", "stamps", "link-tokens")
_HEAD: Final = re.compile(r"[\s>]*(?:(?:[-*+]|\d+\.|#+)\s+)?\[.*\)\s*")  # a line that is only a link
_CARD, _BRIEF = 4, 200  # the lines of a teaser, and the characters of one of them, at most
_LINK: Final = re.compile(r"\[[^\[\]\n]{0,500}+\]\([^()\s]{0,2000}+\)")
_LINKS: Final = re.compile(rf"{_LINK.pattern}(?: {_LINK.pattern}){{2,}}")  # a list in a line, as of a cell
_plain = partial(re.sub, r"\d+", "")

_ready = partial(patterns.compiled, syntax="python", multiline=True, longest=5_000, most_repeated=2**62)


class BadRule(ValueError):
    """A rule cannot be used. The message says why, and what to do."""


@dataclass(frozen=True)
class IgnoreRules:
    """The rules of one watched page. Raises `BadRule` if one of them cannot be used."""

    selectors: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()  # regular expressions in Python's syntax; `^` and `$` match at each line
    ready: tuple[str, ...] = USUAL

    def __post_init__(self) -> None:
        if len(self.selectors) + len(self.patterns) > MOST_RULES:
            raise BadRule(f"at most {MOST_RULES} ignore rules are allowed. Join some of them with a comma or |")
        for selector in self.selectors:
            try:
                paths(selector)
            except BadSelector as error:
                raise BadRule(str(error)) from error
        for pattern in self.patterns:
            try:
                matches_nothing = users_pattern(pattern).fullmatch("", timeout=SECONDS) is not None
            except (BadPattern, TimeoutError) as error:
                raise BadRule(f"the pattern {quoted(pattern, 81)} cannot be used: {error}") from error
            if matches_nothing:
                what = f"the pattern {quoted(pattern, 81)} matches an empty text"
                raise BadRule(f"{what}. Let it match what is to be ignored")
        for name in self.ready:
            if name not in READY:
                raise BadRule(f"there is no ready pattern {name!r}. Use {', '.join(READY)}")

    @staticmethod
    def from_json(stored: Mapping[str, Any] | None) -> "IgnoreRules":
        """Returns the rules that were stored; the default if there are none."""
        names = ("selectors", "patterns", "ready")
        return IgnoreRules(**{name: tuple(stored[name]) for name in names if name in stored} if stored else {})


def _in_order(text: str) -> str:
    """Returns a text with its teasers, links and short lines after them, sorted at its end: they come in any order."""
    text = _LINKS.sub(lambda run: " ".join(sorted(_LINK.findall(run[0]))), text)
    found: list[str] = []
    teasers: list[str] = []
    since = _CARD  # lines after the last one that is a link
    for line in filter(str.strip, text.splitlines()):
        since = 0 if _HEAD.fullmatch(line) else since + 1
        (teasers if since < _CARD and (not since or len(line) <= _BRIEF) else found).append(line)
    return "\n".join(found + sorted(teasers))


def _texts(entry: StoredVersion, other: StoredVersion, names: Iterable[str] | None) -> list[str]:
    """Returns what is compared: the content, the title, these facts, and what the choice of blocks left out."""
    packet = entry.packet
    content = packet["content"]
    kinds = {kind for each in (entry, other) for kind in each.memory.split("\n", 2)[1:2]}
    if kinds and kinds <= LISTS:  # Their order does not count, except in tables.
        lines = sorted(content.splitlines(), key=lambda line: "" if line.startswith("|") else line)
        content = "\n".join(sorted(lines, key=lambda line: "|" if line.startswith("|") else _plain(line)))
    if names is None:  # It was stored before there were facts, and its title may have been found in another way.
        return [content]
    facts = packet.get("facts", {})
    # A page may count as modified once a day.
    values = (facts.get(name, "")[: 10 if name == "modified" else None] for name in names)
    # The order of what was left out does not count, and numbers decide last about it.
    left_out = sorted(sorted(entry.beside(other).splitlines()), key=_plain)
    return [content, packet["metadata"].get("title", ""), *values, "\n".join(left_out)]


def same_content(before: StoredVersion, after: StoredVersion, ignore: IgnoreRules) -> bool:
    """Returns whether two versions of a page are the same except for what is ignored.

    It takes a while: call it in another thread.
    """
    if version_hash(before.packet) == version_hash(after.packet):
        return True
    ready = [pattern for name in ignore.ready for pattern in READY[name]]
    patterns = [*map(_ready, ready), *map(users_pattern, ignore.patterns)]

    def cleaned(text: str) -> str:
        for pattern in list(patterns):
            try:
                text = pattern.sub("", text, timeout=SECONDS, concurrent=True)
            except TimeoutError:
                patterns.remove(pattern)
                logger.warning(
                    "an ignore rule takes too long and is skipped for %s: %r", after.page_id, pattern.pattern
                )
        return " ".join(_in_order(text).split())

    def of_entry(entry: FeedEntry) -> str:
        return cleaned("\n".join((entry.title, entry.url, entry.updated_at or "", entry.summary)))

    old, new = (each.packet.get("facts") for each in (before, after))
    names = None if old is None else {} if new is None else {**old, **new}

    # Compared again without each pattern that proves too slow, so that both sides are cleaned alike.
    while True:
        used = len(patterns)
        if before.entries and after.entries:
            known = {entry.id: of_entry(entry) for entry in before.entries}
            same = all(known.get(entry.id) == of_entry(entry) for entry in after.entries)
        else:
            pairs = zip(_texts(before, after, names), _texts(after, before, names), strict=True)
            same = all(cleaned(one) == cleaned(other) for one, other in pairs)
        if len(patterns) == used:
            return same
