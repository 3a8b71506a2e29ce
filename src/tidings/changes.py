"""The vocabulary of change: what can change, who wants to hear of it, and how far somebody has heard.

The four change types are the SDK's own, so that a `ResourceUpdated` is the same value from the file watcher to the
page. A change is a level trigger ("this is different now, read it again"): two equal changes may always be merged
into the later one.

A subscription to resources is a text: a URI, which wants that URI, or a prefix that ends in `*`, which wants every
URI that begins with what stands before the `*`.

May import: `errors`, the SDK's vocabulary.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final, Self
from urllib.parse import quote

from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from tidings.errors import InvalidUri

__all__ = [
    "CURSOR_KEY",
    "MAX_URI_LENGTH",
    "RECOVERED_KEY",
    "SINCE_KEY",
    "TIMES_KEY",
    "UNTIL_KEY",
    "Change",
    "Cursor",
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
"""Something that changed: one of the four types above."""

CURSOR_KEY: Final = "dev.tidings/cursor"
"""In `_meta` of an acknowledgment or a notification: how far its receiver has heard once it has this."""

RECOVERED_KEY: Final = "dev.tidings/recovered"
"""In `_meta` of an acknowledgment: whether everything since the listener's cursor follows."""

SINCE_KEY: Final = "dev.tidings/since"
"""In `_meta` of a listen request: the cursor up to which its sender has heard."""

TIMES_KEY: Final = "dev.tidings/times"
"""In `_meta` of a notification: when the source changed (`source`, if that is known) and when that was published
(`published`), in seconds since the epoch.
"""

UNTIL_KEY: Final = "dev.tidings/until"
"""In `_meta` of an acknowledgment: the cursor of the last change that follows because the listener missed it."""

MAX_URI_LENGTH: Final = 8192
"""Longer URIs are refused: no server in use needs them, and each is kept in memory while it is subscribed to."""

_MAX_VERSION: Final = 2**63 - 1
"""The largest number that every engine can hold. A greater one was made up, and an engine would choke on it."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A place in a log of changes: after the change numbered `version`, in the life of the log named `epoch`.

    Cursors of one epoch are ordered by version. Those of two epochs say nothing about each other: the log was lost
    in between. On the wire a cursor is the text `epoch:version`, opaque to everyone but its server.
    """

    epoch: str
    version: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.version}"

    @classmethod
    def parse(cls, text: object) -> Self | None:
        """The cursor that `text` stands for; None if it is no cursor of ours, which means: unknown past."""
        if not isinstance(text, str):
            return None
        epoch, _, version = text.rpartition(":")
        if not (epoch and version.isascii() and version.isdigit() and len(version) <= 19):
            return None
        number = int(version)
        return cls(epoch, number) if number <= _MAX_VERSION else None


@dataclass(frozen=True, slots=True)
class Filter:
    """What one subscriber wants to hear of."""

    tools: bool = False
    prompts: bool = False
    resources: bool = False
    uris: frozenset[str] = frozenset()
    prefixes: frozenset[str] = frozenset()
    """Each without its `*`."""
    _shortest: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The prefixes that no other of them covers, sorted: at most one matches a URI, the last that is not after it."""

    def __post_init__(self) -> None:
        shortest: list[str] = []
        for prefix in sorted(self.prefixes):
            if not (shortest and prefix.startswith(shortest[-1])):
                shortest.append(prefix)
        object.__setattr__(self, "_shortest", tuple(shortest))

    @classmethod
    def of(
        cls,
        subscriptions: Iterable[str] = (),
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
    ) -> Self:
        """A filter for `subscriptions` (URIs, and prefixes ending in `*`) and the lists that are named.

        Raises:
            InvalidUri: One of the subscriptions is neither a URI nor a prefix of one.
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
        """The URIs and prefixes, as a client writes them."""
        return self.uris | {prefix + "*" for prefix in self.prefixes}

    @property
    def bounded(self) -> bool:
        """Whether the number of distinct changes that this filter can match is known beforehand."""
        return not self.prefixes

    def wants(self, change: Change) -> bool:
        """Whether `change` is for this subscriber."""
        match change:
            case ResourceUpdated(uri):
                place = bisect_right(self._shortest, uri)
                return uri in self.uris or (place > 0 and uri.startswith(self._shortest[place - 1]))
            case ToolsListChanged():
                return self.tools
            case PromptsListChanged():
                return self.prompts
            case ResourcesListChanged():
                return self.resources

    def __bool__(self) -> bool:
        return bool(self.tools or self.prompts or self.resources or self.uris or self.prefixes)


def check_uri(uri: object) -> str:
    """`uri` as a text that can stand for a resource.

    Raises:
        InvalidUri: It is not a text, has no scheme, is too long, or holds spaces or control characters.
    """
    if not isinstance(uri, str):
        cure = "take the path's as_uri()" if isinstance(uri, PurePath) else "a URL object becomes one with str()"
        raise InvalidUri(f"A URI is a text, not {type(uri).__name__}, as in 'note://today'; {cure}.")
    if len(uri) > MAX_URI_LENGTH:
        raise InvalidUri(f"This URI has {len(uri)} characters; at most {MAX_URI_LENGTH} are allowed: {_short(uri)}")
    if not _SCHEME.match(uri):
        raise InvalidUri(f"A URI begins with a scheme, as in 'note://today'; this one does not: {_short(uri)}")
    if bad := _UNPRINTABLE.search(uri):
        raise InvalidUri(
            f"A URI has no spaces or control characters; this one has {bad.group()!a} at position {bad.start()}: "
            f"{_short(uri)}. Write it percent-encoded: {_encoded(uri)}"
        )
    return uri


def check_subscription(text: object) -> str:
    """`text` as a subscription: a URI, or a prefix of URIs that ends in `*` (`*` alone wants them all).

    Raises:
        InvalidUri: It is neither.
    """
    if isinstance(text, str) and text.endswith("*") and len(text) <= MAX_URI_LENGTH and not _SCHEME.match(text):
        if not re.fullmatch(r"([A-Za-z][A-Za-z0-9+.\-]*)?\*", text):
            raise InvalidUri(f"A prefix begins as a URI does and ends in '*'; this one does not: {_short(text)}")
        return text
    return check_uri(text)


def change_key(change: Change) -> str:
    """A text that is equal for equal changes and different for others: the key under which a log keeps the newest."""
    match change:
        case ResourceUpdated(uri):
            return "resource " + uri
        case ToolsListChanged():
            return "tools"
        case PromptsListChanged():
            return "prompts"
        case ResourcesListChanged():
            return "resources"


_LISTS: Final[dict[str, Change]] = {
    "tools": ToolsListChanged(),
    "prompts": PromptsListChanged(),
    "resources": ResourcesListChanged(),
}


def change_from_key(key: str) -> Change:
    """The change that `change_key` made `key` of.

    Raises:
        ValueError: No change has this key.
    """
    if key in _LISTS:
        return _LISTS[key]
    kind, space, uri = key.partition(" ")
    if kind == "resource" and space:
        return ResourceUpdated(uri)
    raise ValueError(f"No change has the key {_short(key)}")


def _encoded(uri: str) -> str:
    """`uri` as it should have been written, of a length that can be shown."""
    return _short(_UNPRINTABLE.sub(lambda bad: quote(bad.group(), errors="replace"), uri))


def _short(text: str) -> str:
    return ascii(text if len(text) <= 80 else text[:77] + "...")
