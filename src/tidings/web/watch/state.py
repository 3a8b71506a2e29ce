"""What is kept of a watch, as values: what somebody wishes, and how far it has come.

Both are JSON in the store, shared by every process on it; what an older or newer server wrote is understood as far as
it goes.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, cast

from tidings.web.ignore import BadRule, IgnoreRules
from tidings.web.page_options import FetchOptions
from tidings.web.pages import last_request, newest_of
from tidings.web.refresh import Refreshed, Validators
from tidings.web.store.model import StoredPage

PAGE: Final = "webfetch://page/"
DIFF: Final = "webfetch://diff/"


@dataclass(frozen=True)
class SeenVersion:
    """A version that whoever watches the page knows of."""

    source_id: str
    content_hash: str

    @staticmethod
    def of(refreshed: Refreshed) -> "SeenVersion":
        """The one that a look found."""
        return SeenVersion(refreshed.source_id, refreshed.content_hash)


NOTHING: Final = SeenVersion("", "")
"""No version at all."""


@dataclass(frozen=True)
class Wish:
    """How a page is to be watched."""

    url: str
    options: FetchOptions
    ignore: IgnoreRules = field(default_factory=IgnoreRules)
    every: float | None = None
    """The seconds between two looks that somebody asked for."""
    since: SeenVersion | None = None
    """The version that was the newest when the watch began: the first look compares with it."""

    @staticmethod
    def begun(page: StoredPage, url: str, ignore: IgnoreRules, every: float | None) -> "Wish":
        """A wish for the page as it is known now, to be fetched as it was fetched last."""
        url, options = last_request(page, url)
        options = options.without(ignore.selectors)
        newest = newest_of(page, options.variant(url))
        # Where nothing is kept of the page, nobody could read it: whatever is there next is news.
        since = SeenVersion(newest.source_id, newest.content_hash) if newest else None if page.versions else NOTHING
        return Wish(url, options, ignore, every, since)

    def to_json(self) -> dict[str, Any]:
        """As it is kept."""
        return {
            "fetch": self.options.to_json(self.url),
            "ignore": self.ignore.to_json(),
            "every": self.every,
            "since": asdict(self.since) if self.since else None,
        }

    @staticmethod
    def from_json(said: Mapping[str, Any], url: str) -> "Wish":
        """The wish that was kept; `url` is that of the page, where none was."""
        fetch = cast("Mapping[str, Any]", said.get("fetch", {}))
        try:
            ignore = IgnoreRules.from_json(said.get("ignore"))
        except BadRule:  # Of a server that knows more kinds of rules: better too many changes than none.
            ignore = IgnoreRules()
        options = FetchOptions.from_json(fetch)
        return Wish(str(fetch.get("url", url)), options, ignore, said.get("every"), _seen(said.get("since")))


@dataclass(frozen=True)
class WatchState:
    """How far the watch of a page has come."""

    interval: float | None = None
    """The one that its history gave; None before the first look."""
    seen: SeenVersion | None = None
    """The last version that was told of, or that there was nothing to tell of."""
    validators: Validators | None = None
    doubt: str | None = None
    """What the last look found that is believed the second time only: "404", "empty"."""
    problem: str | None = None
    """Why the last look failed."""

    def to_json(self) -> dict[str, Any]:
        """As it is kept: what there is to say."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @staticmethod
    def from_json(said: Mapping[str, Any]) -> "WatchState":
        """The state that was kept."""
        return WatchState(
            said.get("interval"),
            _seen(said.get("seen")),
            _validators(said.get("validators")),
            said.get("doubt"),
            said.get("problem"),
        )


def _seen(said: Mapping[str, str] | None) -> SeenVersion | None:
    return SeenVersion(said["source_id"], said["content_hash"]) if said else None


def _validators(said: Mapping[str, str | None] | None) -> Validators | None:
    if not said or not (source_id := said.get("source_id")):
        return None
    return Validators(source_id, said.get("etag"), said.get("last_modified"), said.get("url"))


def uris_of(page_id: str) -> tuple[str, str]:
    """What is different when this page is."""
    return PAGE + page_id, DIFF + page_id
