"""A watch as values: its plan and its state.

Both are JSON in the store, shared by every process on it. What an older or newer server wrote is understood as far as
possible.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, cast

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
        """Returns the plan for the store."""
        return {
            "fetch": self.options.to_json(self.url),
            "ignore": asdict(self.ignore),
            "every": self.every,
            "since": asdict(self.since) if self.since else None,
            "when": self.when,
            "held": self.held,
        }

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
        """Returns the state for the store, without what is None."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> "WatchState":
        """Returns the state that was stored."""
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
