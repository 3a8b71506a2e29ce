"""The vocabulary of change: four change types, `Filter` for subscribers, and `Cursor` for positions in a log.

The change types are the SDK's own, so that a `ResourceUpdated` is the same value from the file watcher to the page. A
change is a level trigger ("this is different now, read it again"): two equal changes may always be merged into the
later one.

A subscription to resources is a string: a URI, or a prefix that ends in `*` and matches every URI that begins with it.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final, Literal, Self
from urllib.parse import quote

from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from tidings._kit.text import quoted
from tidings.errors import InvalidUri

__all__ = [
    "BEHIND_KEY",
    "CURSOR_KEY",
    "FEATURES",
    "FEATURE_OF",
    "KEEP_ALIVE_HEADER",
    "MAX_URI_LENGTH",
    "RECOVERED_KEY",
    "SINCE_KEY",
    "TIMES_KEY",
    "Change",
    "Cursor",
    "Feature",
    "Filter",
    "PromptsListChanged",
    "ResourceUpdated",
    "ResourcesListChanged",
    "ToolsListChanged",
    "change_from_key",
    "change_key",
    "check_subscription",
    "check_uri",
]

Change = ServerEvent
"""One of the four change types."""

Feature = Literal["tools", "prompts", "resources"]
"""One of the lists that can be subscribed to."""

FEATURES: Final[dict[Feature, Change]] = {
    "tools": ToolsListChanged(),
    "prompts": PromptsListChanged(),
    "resources": ResourcesListChanged(),
}
FEATURE_OF: Final[dict[Change, Feature]] = {change: feature for feature, change in FEATURES.items()}

BEHIND_KEY: Final = "dev.tidings/behind"
"""In `_meta` of an acknowledgment: true if changes follow that the listener missed; of their last notification: false.
"""

CURSOR_KEY: Final = "dev.tidings/cursor"
"""In `_meta` of an acknowledgment or a notification: the cursor of a receiver that has it, opaque to everyone else."""

RECOVERED_KEY: Final = "dev.tidings/recovered"
"""In `_meta` of an acknowledgment: true if everything since the listener's cursor follows."""

SINCE_KEY: Final = "dev.tidings/since"
"""In `_meta` of a listen request: the cursor of the sender; of a sender with several streams, one of each, in lines."""

TIMES_KEY: Final = "dev.tidings/times"
"""In `_meta` of a notification: when the change happened at its source (`source`, if it is known) and when it was
published (`published`), in seconds since the epoch.
"""

KEEP_ALIVE_HEADER: Final = "tidings-keep-alive"
"""The HTTP header of a stream of changes: the seconds between two keep-alives."""

MAX_URI_LENGTH: Final = 8192
"""Longer URIs are refused: no server in use needs them, and each is kept in memory while it is subscribed to."""

_MAX_VERSION: Final = 2**63 - 1  # The largest that every engine can store. No server of ours has a greater one.
_CURSOR = re.compile(r"(?P<epoch>.+):(?P<version>[0-9]{1,19})(-(?P<term>[0-9a-z]{1,16}))?", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A position in a log of changes: after the change numbered `version`, in the log's lifetime named `epoch`.

    Cursors of one epoch are ordered by version. Cursors of two epochs cannot be compared, because the log was lost in
    between. `term` names the part of the log to which the change belongs. It shows whether the log still has this
    change, or was rolled back and has another change under the same version. As a string, a cursor is
    `epoch:version-term`, or `epoch:version` without a term. To everyone but its server, it is opaque. The server seals
    it if some changes are private.
    """

    epoch: str
    version: int
    term: str = ""

    def __str__(self) -> str:
        return f"{self.epoch}:{self.version}" + (f"-{self.term}" if self.term else "")

    @classmethod
    def parse(cls, text: object) -> Self | None:
        """Returns the cursor that `text` contains, or None if it is not a cursor."""
        if not isinstance(text, str):
            return None
        found = _CURSOR.fullmatch(text)
        if found is None or int(found["version"]) > _MAX_VERSION:
            return None
        return cls(found["epoch"], int(found["version"]), found["term"] or "")


@dataclass(frozen=True, slots=True)
class Filter:
    """The lists, URIs and prefixes that one subscriber wants."""

    tools: bool = False
    prompts: bool = False
    resources: bool = False
    uris: frozenset[str] = frozenset()
    prefixes: frozenset[str] = frozenset()
    """Each without its `*`."""
    # The prefixes that no other covers, sorted. At most one matches a URI: the last that is not after it.
    _shortest: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        shortest: list[str] = []
        for prefix in sorted(self.prefixes):
            if not (shortest and prefix.startswith(shortest[-1])):
                shortest.append(prefix)
        object.__setattr__(self, "_shortest", tuple(shortest))

    @classmethod
    def of(
        cls, subscriptions: Iterable[str] = (), *, tools: bool = False, prompts: bool = False, resources: bool = False
    ) -> Self:
        """Returns a filter for `subscriptions` (URIs, and prefixes ending in `*`) and lists.

        Raises:
            InvalidUri: A subscription is neither a URI nor a prefix.
        """
        texts = [check_subscription(text) for text in subscriptions]
        return cls(
            tools=tools,
            prompts=prompts,
            resources=resources,
            uris=frozenset(text for text in texts if not text.endswith("*")),
            prefixes=frozenset(text[:-1] for text in texts if text.endswith("*")),
        )

    @property
    def subscriptions(self) -> frozenset[str]:
        """The URIs and prefixes as a client writes them."""
        return self.uris | {prefix + "*" for prefix in self.prefixes}

    @property
    def bounded(self) -> bool:
        """The filter can match a limited number of distinct changes only."""
        return not self.prefixes

    def wants(self, change: Change) -> bool:
        """Returns whether the subscriber wants `change`."""
        if not isinstance(change, ResourceUpdated):
            return getattr(self, FEATURE_OF[change])
        place = bisect_right(self._shortest, change.uri)
        return change.uri in self.uris or (place > 0 and change.uri.startswith(self._shortest[place - 1]))

    def __bool__(self) -> bool:
        return bool(self.tools or self.prompts or self.resources or self.uris or self.prefixes)


def check_uri(uri: object) -> str:
    """Returns `uri` if it is the URI of a resource.

    Raises:
        InvalidUri: It is not a string, has no scheme, is too long, or has spaces or control characters.
    """
    if not isinstance(uri, str):
        cure = "Use the path's as_uri()." if isinstance(uri, PurePath) else "Convert a URL object with str()."
        raise InvalidUri(f"A URI must be a string such as 'note://today', not {type(uri).__name__}. {cure}")
    if len(uri) > MAX_URI_LENGTH:
        has = f"and this one has {len(uri)}: {quoted(uri, 80)}"
        raise InvalidUri(f"A URI may have at most {MAX_URI_LENGTH} characters, {has}")
    if not _SCHEME.match(uri):
        has = f"and this one does not: {quoted(uri, 80)}"
        raise InvalidUri(f"A URI must begin with a scheme, as in 'note://today', {has}")
    if bad := _UNPRINTABLE.search(uri):
        encoded = _UNPRINTABLE.sub(lambda found: quote(found.group(), errors="replace"), uri)
        raise InvalidUri(
            f"A URI must not have spaces or control characters, and this one has {bad.group()!a} "
            f"at position {bad.start()}: {quoted(uri, 80)}. Percent-encode it: {quoted(encoded, 80)}"
        )
    return uri


def check_subscription(text: object) -> str:
    """Returns `text` if it is a subscription: a URI, or a prefix that ends in `*` (`*` alone matches all URIs).

    Raises:
        InvalidUri: It is neither.
    """
    if isinstance(text, str) and text.endswith("*") and len(text) <= MAX_URI_LENGTH and not _SCHEME.match(text):
        if not re.fullmatch(r"([A-Za-z][A-Za-z0-9+.\-]*)?\*", text):
            raise InvalidUri(f"A prefix must begin as a URI does, and end in '*': {quoted(text, 80)} does not.")
        return text
    return check_uri(text)


def change_key(change: Change) -> str:
    """Returns the key under which a log keeps a change: equal for equal changes, and different for others."""
    return "resource " + change.uri if isinstance(change, ResourceUpdated) else FEATURE_OF[change]


def change_from_key(key: str) -> Change:
    """Returns the change with this key of `change_key`. Raises `ValueError` if there is none."""
    if key in FEATURES:
        return FEATURES[key]
    kind, space, uri = key.partition(" ")
    if kind == "resource" and space:
        return ResourceUpdated(uri)
    raise ValueError(f"No change has the key {quoted(key, 80)}")
