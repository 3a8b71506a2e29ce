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
    Change,
    Cursor,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)

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

_SSE_HEAD: Final = b"event: message\r\ndata: "
_SSE_END: Final = b"\r\n\r\n"
MODERN_END: Final = b"}}}" + _SSE_END
"""What stands behind the subscription id in a modern frame."""


class Frame:
    """One change at one place in the log, and its encodings, each made when it is first needed."""

    __slots__ = ("_legacy", "_modern", "change", "cursor")

    def __init__(self, cursor: Cursor, change: Change) -> None:
        self.cursor = cursor
        self.change = change
        self._legacy: bytes | None = None
        self._modern: bytes | None = None

    @property
    def method(self) -> str:
        return _METHODS[type(self.change)]

    def params(self, **meta: Any) -> dict[str, Any]:
        """The notification's parameters, with `meta` beside the cursor."""
        params: dict[str, Any] = {"uri": self.change.uri} if isinstance(self.change, ResourceUpdated) else {}
        params["_meta"] = {CURSOR_KEY: str(self.cursor), **meta}
        return params

    def _message(self) -> bytes:
        message = {"jsonrpc": "2.0", "method": self.method, "params": self.params()}
        return json.dumps(message, separators=(",", ":")).encode()

    @property
    def legacy(self) -> bytes:
        """The whole event for an old-era stream, the same for all."""
        if self._legacy is None:
            self._legacy = _SSE_HEAD + self._message() + _SSE_END
        return self._legacy

    @property
    def modern(self) -> bytes:
        """The event for a modern stream up to its subscription id; the id and `MODERN_END` follow."""
        if self._modern is None:
            # Without the three braces that close `_meta`, `params` and the message.
            self._modern = _SSE_HEAD + self._message()[:-3] + f',"{SUBSCRIPTION_ID_META_KEY}":'.encode()
        return self._modern


def in_order(frames: Iterable[Frame]) -> list[Frame]:
    """`frames` by rising version: whoever has one of them has heard of all before it."""
    return sorted(frames, key=lambda frame: frame.cursor.version)
