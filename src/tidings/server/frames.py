"""A change as it goes over the wire, encoded once for everyone who hears of it.

Both eras name a change by the same method and parameters. The modern era adds to each copy the id of the listen
request it answers; it stands last, so that a copy is what all have in common, the id, and the end.
"""

import json
from collections.abc import Iterable
from typing import Any, Final, Literal

from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from tidings.changes import (
    CURSOR_KEY,
    TIMES_KEY,
    Change,
    Cursor,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from tidings.server.webserver import as_chunk

Feature = Literal["tools", "prompts", "resources"]
"""One of the lists whose changes can be heard of."""

FEATURES: Final[dict[Feature, Change]] = {
    "tools": ToolsListChanged(),
    "prompts": PromptsListChanged(),
    "resources": ResourcesListChanged(),
}

_METHODS: Final[dict[type[Change], str]] = {
    ResourceUpdated: "notifications/resources/updated",
    ToolsListChanged: "notifications/tools/list_changed",
    PromptsListChanged: "notifications/prompts/list_changed",
    ResourcesListChanged: "notifications/resources/list_changed",
}

_SSE_HEAD: Final = "data: "
"""An event without a name is a message: to leave it out saves each stream a tenth of what is copied for it."""

FRAME_END: Final = b"}}}\r\n\r\n"
"""What every frame ends with: the end of `_meta`, of `params`, of the message and of the event."""

_quoted = json.JSONEncoder().encode


class Frame:
    """One change at one place in the log, as it goes over the wire.

    Of several that stand at the same place, only the last tells the place: whoever knows it has all of them.
    """

    __slots__ = ("_legacy_chunk", "_meta", "change", "cursor", "legacy", "modern")

    def __init__(
        self, cursor: Cursor, change: Change, *, more_follow: bool = False, times: dict[str, float] | None = None
    ) -> None:
        self.cursor: Cursor = cursor
        self.change: Change = change
        self._meta: dict[str, Any] = {} if more_follow else {CURSOR_KEY: str(cursor)}
        place = "" if more_follow else f'"{CURSOR_KEY}":{_quoted(str(cursor))}'
        if times is not None:
            self._meta[TIMES_KEY] = times
            place += f'{"," if place else ""}"{TIMES_KEY}":{_quoted(times)}'
        uri = f'"uri":{_quoted(change.uri)},' if isinstance(change, ResourceUpdated) else ""
        # Put together by hand: every published change comes through here, and to build a dict and dump it costs more.
        common = f'{_SSE_HEAD}{{"jsonrpc":"2.0","method":"{self.method}","params":{{{uri}"_meta":{{{place}'
        self.legacy: bytes = common.encode() + FRAME_END
        """The whole event for an old-era stream, the same for all."""
        self._legacy_chunk: bytes | None = None
        self.modern: bytes = f'{common}{"," if place else ""}"{SUBSCRIPTION_ID_META_KEY}":'.encode()
        """The event for a modern stream up to its subscription id; the id and `FRAME_END` follow."""

    @property
    def legacy_chunk(self) -> bytes:
        """`legacy` as one chunk of an HTTP response: made for the first stream that needs it, for all."""
        if self._legacy_chunk is None:
            self._legacy_chunk = as_chunk(self.legacy)
        return self._legacy_chunk

    @property
    def method(self) -> str:
        return _METHODS[type(self.change)]

    def params(self, **meta: Any) -> dict[str, Any]:
        """The notification's parameters, with `meta` beside the cursor."""
        params: dict[str, Any] = {"uri": self.change.uri} if isinstance(self.change, ResourceUpdated) else {}
        params["_meta"] = {**self._meta, **meta}
        return params


def in_order(frames: Iterable[Frame]) -> list[Frame]:
    """`frames` by rising version: whoever has one of them has heard of all before it."""
    return sorted(frames, key=lambda frame: frame.cursor.version)
