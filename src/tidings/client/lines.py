"""Messages as lines of JSON, of bounded length: what a program writes, cut into lines and understood."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, RequestId, jsonrpc_message_adapter
from pydantic import TypeAdapter

_ENDS: Final = 1024
"""Bytes of the beginning and of the end of a line that are kept when the rest of it is skipped."""

_READABLE: Final = 64 * 2**10
_SHOWN: Final = 4096
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{}\[\]]|[^"{}\[\]\s,:]++')
_KEY: Final = re.compile(rb"\s*:\s*")
_LAST_ID: Final = re.compile(rb'[,{]\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|\d+)\s*\}\s*$')
_id_adapter: Final = TypeAdapter[RequestId](RequestId)


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line that was skipped: how long it was, and how it began and ended."""

    size: int
    head: bytes
    tail: bytes

    def answers(self) -> RequestId | None:
        """The id of the request that the line would have answered, if it can be told.

        A line may also be a request of the server's, whose ids are its own: that is none of ours.
        """
        keys = _outer_keys(self.head)
        if not keys.keys().isdisjoint((b'"method"', b'"params"')):
            return None
        found = keys.get(b'"id"')
        if not found and not keys.keys().isdisjoint((b'"result"', b'"error"')):
            # Many servers put the id last. The brace that ends the line is the outermost one.
            last = _LAST_ID.search(self.tail)
            found = last[1] if last else None
        try:
            return None if not found else _id_adapter.validate_json(found, strict=True)
        except ValueError:
            return None

    def refusal(self, limit: int) -> SessionMessage | None:
        """The error answer that is delivered instead, so that only that request fails."""
        request = self.answers()
        if request is None:
            return None
        error = ErrorData(code=PARSE_ERROR, message=f"Message too large: {self.size:,} bytes, the limit is {limit:,}.")
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request, error=error))


def _outer_keys(head: bytes) -> dict[bytes, bytes]:
    """The keys of the outermost object, as far as `head` shows them, with the first token of their values."""
    keys: dict[bytes, bytes] = {}
    depth = 0
    key: bytes | None = None
    for found in _TOKEN.finditer(head):
        token = found[0]
        if depth == 1 and key is not None:
            # A number at the very end may have been cut.
            keys[key] = token if found.end() < len(head) else b""
            key = None
        elif depth == 1 and token.startswith(b'"') and _KEY.match(head, found.end()):
            key = token
            continue
        if token in b"{[":
            depth += 1
        elif token in b"}]":
            depth -= 1
    return keys


class Lines:
    """Cuts what is fed into lines. A line of more than `limit` bytes is skipped, whatever its length."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._head = b""
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes | TooLong]:
        """The lines that `data` completes."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._add(data[start:end])
            yield self.rest()
            start = end + 1
        self._add(data[start:])

    def rest(self) -> bytes | TooLong:
        """What is there of the line that has begun, as if it ended here."""
        kept, size, head = bytes(self._kept), self._size, self._head
        self._kept.clear()
        self._size, self._head = 0, b""
        return TooLong(size, head, kept[-_ENDS:]) if size > self._limit else kept

    def _add(self, piece: bytes) -> None:
        if len(self._head) < _ENDS:
            self._head += piece[: _ENDS - len(self._head)]
        self._size += len(piece)
        self._kept += piece
        if self._size > self._limit:
            del self._kept[:-_ENDS]


def parsed(line: bytes) -> SessionMessage | None:
    """The message that a line is, if it is one."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


def shown(line: bytes, clean: Callable[[str], str]) -> str:
    """A line for people. Cut after it was cleaned, so that half a secret does not remain."""
    return clean(line[:_READABLE].decode(errors="replace")).rstrip()[:_SHOWN]
