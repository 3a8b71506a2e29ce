"""The messages of MCP Events as this server reads and writes them. Names, numbers and signatures: `_kit.event_wire`.

Where SEP-3415 and the sketch that ChatGPT follows differ, both are served, or `Events.error_codes` chooses.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from pydantic import BaseModel, ConfigDict, Field

from tidings._kit import event_wire
from tidings.errors import CallbackFailed, EventNotFound, LimitReached, NotAuthorized, NotSupported, TidingsError
from tidings.server.http_exchange import error_data

Json = dict[str, Any]

METHODS: Final = frozenset({
    event_wire.LIST,
    event_wire.POLL,
    event_wire.STREAM,
    event_wire.SUBSCRIBE,
    event_wire.UNSUBSCRIBE,
    event_wire.DELIVERIES,
    event_wire.REDELIVER,
})  # fmt: skip
MODES: Final = ("poll", "push", "webhook")
_LONGEST_NAME: Final = 100


def with_capability(result: Json) -> Json:
    """Returns the answer to `server/discover` or `initialize` with the capability, where each draft has it."""
    capabilities: Json = result.get("capabilities") or {}
    extensions: Json = {**(capabilities.get("extensions") or {}), event_wire.EXTENSION: {}}
    return {**result, "capabilities": {**capabilities, event_wire.CAPABILITY: {}, "extensions": extensions}}


# Errors

ErrorCodes = Literal["sketch", "sep-3415"]
_CODES: Final[dict[type[TidingsError], tuple[int, int]]] = {
    EventNotFound: event_wire.NOT_FOUND,
    NotAuthorized: event_wire.FORBIDDEN,
    LimitReached: event_wire.EXHAUSTED,
    NotSupported: event_wire.UNSUPPORTED,
    CallbackFailed: event_wire.CALLBACK_FAILED,
}


def invalid(message: str, **data: Any) -> MCPError:
    """Returns the error for an argument, cursor, URL or secret that is not valid."""
    return MCPError(types.INVALID_PARAMS, message, data or None)


def event_error(error: TidingsError, codes: ErrorCodes) -> MCPError | None:
    """Returns a named error as the extension has it; None if it has no number for it."""
    numbers = _CODES.get(type(error))
    return None if numbers is None else MCPError(numbers[codes == "sep-3415"], error.message, error_data(error))


# Requests


class ListParams(types.RequestParams):
    """The parameters of `events/list`."""

    cursor: str | None = None


class Wanted(types.RequestParams):
    """An event type, and what is wanted of it."""

    name: str = Field(max_length=_LONGEST_NAME)
    arguments: Json = Field(default_factory=dict[str, Any])


class StreamParams(Wanted):
    """The parameters of `events/stream`."""

    cursor: str | None = None
    max_age_ms: int | None = Field(default=None, ge=0)


class PollParams(StreamParams):
    """The parameters of `events/poll`."""

    max_events: int | None = Field(default=None, ge=1)
    timeout_ms: int | None = Field(default=None, ge=0)


class Callback(BaseModel):
    """The receiver of a webhook."""

    model_config = ConfigDict(hide_input_in_errors=True)

    mode: str = "webhook"
    url: str
    secret: str = Field(default="", repr=False)


class SubscribeParams(StreamParams):
    """The parameters of `events/subscribe`. Without `ttl_ms` the server chooses; None asks for no expiry."""

    delivery: Callback
    ttl_ms: int | None = Field(default=None, ge=1)


class UnsubscribeParams(Wanted):
    """The parameters of `events/unsubscribe`."""

    delivery: Callback


class DeliveriesParams(types.RequestParams):
    """The parameters of the method that lists deliveries: of one subscription, or of all that the sender has."""

    subscription_id: str | None = None
    limit: int = Field(default=100, ge=1)


class RedeliverParams(types.RequestParams):
    """The parameters of the method that delivers an event again."""

    subscription_id: str
    event_id: str


# Answers and messages


def event_body(event_id: str, name: str, at: float, data: Any, cursor: str) -> Json:
    """Returns an event as clients get it."""
    return {"eventId": event_id, "name": name, "timestamp": iso(at), "data": data, "cursor": cursor}


def stream_message(method: str, request_id: types.RequestId, params: Mapping[str, Any]) -> Any:
    """Returns a notification of `events/stream`."""
    return types.Notification[dict[str, Any], str](method=method, params={**params, **stream_result(request_id)})


def stream_result(request_id: types.RequestId) -> Json:
    """Returns the result of a stream that ends in good order."""
    return {"_meta": {SUBSCRIPTION_ID_META_KEY: request_id}}


def poll_result(events: Sequence[Json], cursor: str, *, truncated: bool, more: bool, wait: float) -> Json:
    """Returns the result of a poll, which may be repeated after `wait` seconds."""
    return {
        "events": list(events),
        "cursor": cursor,
        "truncated": truncated,
        "hasMore": more,
        "nextPollMs": 0 if more else round(wait * 1000),
    }


def iso(at: float) -> str:
    """Returns a time, in seconds since the epoch, as ISO 8601."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def canonical(value: Any) -> str:
    """Returns a value as JSON: equal ones as the same text, in ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def subscription_id(principal: str, url: str, name: str, arguments: Json) -> str:
    """Returns the id of a subscription: the same for the same four, whenever and wherever it is made."""
    key = canonical([principal, url, name, arguments])
    return "sub_" + hashlib.sha256(key.encode()).hexdigest()[:32]
