"""A watch as values: its plan, its condition, its state, and the wait until the next look.

Plan and state are JSON in the store. What an older or newer server wrote is understood as far as possible. A condition
is one of the following. Subscribers are notified when it begins to hold; a page that is gone has disappeared.

    price below 50        rating >= 4.5        availability is InStock        below 100 (the first number of the part)
    contains TEXT         lacks TEXT           appears [TEXT]                 disappears [TEXT]

The interval of a page follows its history: half as long after a change, half as long again after a look that found
none. `Cache-Control` and `Expires` can only make the wait longer. Failures in a row double the wait, and so do looks
that find that the page is gone. An interval that a caller set is kept through all of this; only `Retry-After` goes
before it.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, cast

from tidings._kit.text import mail_date
from tidings.web.documents.model import LLMPacket
from tidings.web.ignore import BadRule, IgnoreRules
from tidings.web.page_options import FetchOptions
from tidings.web.pages import Validators, newest_of
from tidings.web.store.model import StoredPage

PAGE: Final = "webfetch://page/"
DIFF: Final = "webfetch://diff/"


@dataclass(frozen=True)
class SeenVersion:
    """A version that subscribers know."""

    source_id: str
    content_hash: str


NOTHING: Final = SeenVersion("", "")  # stands for no version at all


@dataclass(frozen=True)
class WatchPlan:
    """The way in which a page is watched."""

    url: str
    options: FetchOptions
    ignore: IgnoreRules = field(default_factory=IgnoreRules)
    every: float | None = None  # seconds between two looks, if a caller chose them
    since: SeenVersion | None = None  # the newest version when the watch began: the first look compares with it
    when: str = ""  # the condition under which a change is announced, see `condition`
    held: bool = False  # true if it held when the watch began

    @staticmethod
    def begun(page: StoredPage, url: str, ignore: IgnoreRules, every: float | None) -> "WatchPlan":
        """Returns the plan for a page as it is known now, fetched as it was fetched last."""
        url = str(page.options.get("url", url))
        # Without headers, which are not kept.
        options = FetchOptions.from_json(page.options).without(ignore.selectors)
        newest = newest_of(page, options.variant(url))
        # If no version of the page is kept, nobody could read it: whatever is there next is a change.
        since = SeenVersion(newest.source_id, newest.content_hash) if newest else None if page.versions else NOTHING
        return WatchPlan(url, options, ignore, every, since)

    def to_json(self) -> dict[str, Any]:
        since = asdict(self.since) if self.since else None
        plain = {"every": self.every, "since": since, "when": self.when, "held": self.held}
        return {"fetch": self.options.to_json(self.url), "ignore": asdict(self.ignore), **plain}

    @staticmethod
    def from_json(stored: Mapping[str, Any], url: str) -> "WatchPlan":
        """Returns the plan that was stored; `url` is that of the page, if the plan has none."""
        fetch = cast("Mapping[str, Any]", stored.get("fetch", {}))
        try:
            ignore = IgnoreRules.from_json(stored.get("ignore"))
        except BadRule:  # From a server that knows more kinds of rules: better too many changes than none.
            ignore = IgnoreRules()
        options = FetchOptions.from_json(fetch)
        since, when, held = _seen(stored.get("since")), str(stored.get("when", "")), bool(stored.get("held"))
        return WatchPlan(str(fetch.get("url", url)), options, ignore, stored.get("every"), since, when, held)


@dataclass(frozen=True)
class WatchState:
    """The progress of a watch."""

    interval: float | None = None  # the interval that its history gives; None before the first look
    seen: SeenVersion | None = None  # the last version that was announced, or that was no change
    validators: Validators | None = None
    doubt: str | None = None  # a finding that is believed only the second time: "404", "empty"
    problem: str | None = None  # the reason why the last look failed
    held: bool | None = None  # true if the condition held at the last look

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> "WatchState":
        marks: Mapping[str, Any] = stored.get("validators") or {}
        validators: dict[str, Any] = {name: marks.get(name) for name in ("source_id", "etag", "last_modified", "url")}
        return WatchState(
            **{name: stored.get(name) for name in ("interval", "doubt", "problem", "held")},
            seen=_seen(stored.get("seen")),
            validators=Validators(**validators) if marks.get("source_id") else None,
        )


def _seen(stored: Mapping[str, str] | None) -> SeenVersion | None:
    return SeenVersion(stored["source_id"], stored["content_hash"]) if stored else None


def uris_of(page_id: str) -> tuple[str, str]:
    """Returns the URIs of the resources that change when a page does."""
    return PAGE + page_id, DIFF + page_id


_NUMBER: Final = re.compile(r"-?\d[\d,' \u00a0]*(?:\.\d+)?")
_ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    **dict.fromkeys(("below", "under", "<"), operator.lt),
    **dict.fromkeys(("above", "over", ">"), operator.gt),
    "<=": operator.le,
    ">=": operator.ge,
}
_SAID: Final = re.compile(r"(contains|lacks|appears|disappears)\b\s*(.*)", re.IGNORECASE | re.DOTALL)
_COMPARED: Final = re.compile(r"(?:([a-z][a-z ]*?)\s*)??(below|under|above|over|<=|>=|<|>|is)\s*(\S.*)", re.IGNORECASE)


class BadCondition(ValueError):
    """A condition is not understood. The message says what is."""


def _parsed(when: str) -> tuple[str, str, str] | None:
    """Returns the name of a fact, the comparison and the value; None if the condition is not understood."""
    if said := _SAID.fullmatch(when.strip()):
        how, what = said[1].lower(), said[2].strip()
        return ("", how, what) if what or how in ("appears", "disappears") else None
    compared = _COMPARED.fullmatch(when.strip())
    if compared is None:
        return None
    name, how, what = (compared[1] or "").strip().lower(), compared[2].lower(), compared[3].strip()
    return (name, how, what) if how == "is" or _NUMBER.fullmatch(what) else None


def check_condition(when: str) -> None:
    """Raises `BadCondition` if a condition is not understood."""
    if len(when) > 300 or _parsed(when) is None:
        raise BadCondition(
            f"{when[:80]!r} is not understood as a condition. Write for example 'price below 50', 'contains TEXT', "
            "'lacks TEXT', 'appears' or 'disappears'"
        )


def of_part(when: str) -> str:
    """Returns a condition for a part of a page, which has no facts: "price below 50" is about its number."""
    name, how, what = _parsed(when) or ("", "", "")
    return f"{how} {what}" if name else when


def holds(when: str, packet: LLMPacket) -> bool:
    """Returns whether a condition holds for a version of a page."""
    name, how, what = _parsed(when) or ("", "", "")
    there = packet["status"] < 400
    content = packet["content"] if there else ""
    if how in ("contains", "lacks", "appears", "disappears"):
        title = packet["metadata"].get("title", "")
        found = what.strip("\"'").casefold() in f"{title}\n{content}".casefold() if what else bool(content.strip())
        return (there and found) is (how in ("contains", "appears"))
    value = packet.get("facts", {}).get(name) if name and name not in ("number", "value") else content
    if not there or not how or value is None:
        return False
    if how == "is":
        return value.strip().casefold() == what.strip("\"'").casefold()
    numbers = [_number(each) for each in _NUMBER.findall(value)]
    return any(_ORDERS[how](each, _number(what)) for each in (numbers if name else numbers[:1]))


def _number(text: str) -> float:
    return float(re.sub(r"[^\d.-]", "", text))


DAY = 86_400.0
LONGEST_RETRY = 3600.0  # seconds between two looks at a page that fails or is gone, unless the site asks for more
LONGEST_RETRY_AFTER = 7 * DAY  # a site that says "in ten years" means no; a watched page is still looked at once a week


@dataclass(frozen=True)
class Intervals:
    """The limits of the wait between two looks, in seconds."""

    first: float = 300.0
    least: float = 60.0
    most: float = DAY
    jitter: float = 0.1  # the largest random addition, a share of the wait: many pages must not come due at once

    def within(self, seconds: float) -> float:
        return min(max(seconds, self.least), self.most)

    def after_look(
        self, interval: float | None, *, changed: bool, fresh: float | None, fixed: float | None = None
    ) -> tuple[float, float]:
        """Returns the interval after a look that worked, and the wait. `fixed`, the caller's, goes before all else.

        `interval` is the one so far, None at the first look; `fresh` the seconds for which the site's answer is fresh.
        """
        if fixed is not None:
            asked = self.within(fixed)
            return asked, asked
        known = self.first if interval is None else interval
        following = self.within(known * (0.5 if changed else 1.0 if interval is None else 1.5))
        return following, self.within(max(following, fresh or 0.0))

    def after_failure(self, failures: int, *, retry_after: float | None, fixed: float | None = None) -> float:
        """Returns the wait after `failures` failed looks in a row. The interval stays."""
        doubled = min(self.least * 2.0 ** min(max(failures, 1), 30), max(LONGEST_RETRY, self.least))
        wait = self.within(doubled if fixed is None else fixed)
        return max(wait, min(retry_after or 0.0, LONGEST_RETRY_AFTER))


def fresh_for(headers: Mapping[str, str], now: float) -> float | None:
    """Returns for how many seconds from `now` an answer with these headers is fresh; None if they do not say."""
    parts = (part.partition("=") for part in headers.get("cache-control", "").split(","))
    directives = {name.strip().lower(): argument.strip().strip('"') for name, _, argument in parts}
    if "no-store" in directives or "no-cache" in directives:
        return None
    # What a site's own caches hold until then is what everyone gets.
    lifetime = _seconds(directives.get("s-maxage"))
    if lifetime is None:
        lifetime = _seconds(directives.get("max-age"))
    if lifetime is None and (expires := _moment(headers.get("expires"))) is not None:
        lifetime = expires - (_moment(headers.get("date")) or now)
    if lifetime is None:
        return None
    # Zero says nothing about when a page changes, only that it may not be cached.
    left = lifetime - (_seconds(headers.get("age")) or 0.0)
    return left if left > 0 else None


def _seconds(value: str | None) -> float | None:
    text = (value or "").strip()
    # Only digits, and not too many of them.
    return float(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _moment(value: str | None) -> float | None:
    moment = mail_date(value) if value and len(value) <= 100 else None
    return moment and moment.timestamp()
