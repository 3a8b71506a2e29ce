"""The vocabulary of MCP Events: its types of events, and its messages as this server reads and writes them.

Names, numbers and signatures are in `_kit.event_wire`. Where SEP-3415 and the sketch that ChatGPT follows differ, both
are served, or `Events.error_codes` chooses.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tidings._kit import event_wire
from tidings._kit.suggest import did_you_mean, there_are
from tidings.bus.streams import Retention
from tidings.changes import FEATURES, Change, Filter, ResourceUpdated
from tidings.errors import CallbackFailed, EventNotFound, LimitReached, NotAuthorized, NotSupported, TidingsError
from tidings.server.core import problems
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
_LONGEST_NAME: Final = 100


def with_capability(result: Json) -> Json:
    """Returns the answer to `server/discover` or `initialize` with the capability, where each draft has it."""
    capabilities: Json = result.get("capabilities") or {}
    extensions: Json = {**(capabilities.get("extensions") or {}), event_wire.EXTENSION: {}}
    return {**result, "capabilities": {**capabilities, event_wire.CAPABILITY: {}, "extensions": extensions}}


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


def stream_message(method: str, request_id: types.RequestId, params: Mapping[str, Any]) -> Any:
    """Returns a notification of `events/stream`."""
    return types.Notification[dict[str, Any], str](method=method, params={**params, **stream_result(request_id)})


def stream_result(request_id: types.RequestId) -> Json:
    """Returns the result of a stream that ends in good order."""
    return {"_meta": {SUBSCRIPTION_ID_META_KEY: request_id}}


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


_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_\-]*(\.[A-Za-z0-9_\-]+)*")


@dataclass(frozen=True, slots=True)
class Event:
    """An event at its place: its reader has everything up to `cursor`."""

    id: str
    at: float
    data: Any
    cursor: str
    about: str = ""  # The URI for which permission is asked, beside that for the type.


class NoArguments(BaseModel):
    """The arguments of a type that has none."""

    model_config = ConfigDict(extra="forbid")


class _ResourceArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    uri: str = Field(description="The URI of a resource, or a prefix of URIs that ends in '*'.")


class _ResourcePayload(BaseModel):
    uri: str = Field(description="The URI of the resource that has changed. Read it to see its content now.")


class _NoPayload(BaseModel):
    pass


@dataclass(frozen=True, slots=True)
class EventType:
    """The name of an event, its payload, and the arguments that a subscriber may give."""

    name: str
    description: str
    payload: type[BaseModel]
    arguments: type[BaseModel] = NoArguments
    retention: Retention = field(default_factory=Retention)
    change: Change | None = None  # The change of the log that it stands for, if it is not an author's.

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.name) > _LONGEST_NAME:
            raise ValueError(
                f"{self.name!r} is not a valid name of an event. Use letters, digits, '_', '-' and dots, "
                f"for example 'order.created', at most {_LONGEST_NAME} characters."
            )

    @property
    def uri(self) -> str:
        """The URI for which permission is asked: `authorize(ctx, "event:order.created")`."""
        return f"event:{self.name}"

    def described(self) -> Json:
        return {
            "name": self.name,
            "description": self.description,
            "delivery": ["poll", "push", "webhook"],
            "inputSchema": _schema(self.arguments),
            "payloadSchema": _schema(self.payload),
        }

    def checked(self, arguments: Json) -> BaseModel:
        fields = self.arguments.model_fields
        known = [each.alias or name for name, each in fields.items()]
        unknown = [name for name in arguments if name not in known]
        if unknown and self.arguments.model_config.get("extra") != "allow":
            hint = did_you_mean(unknown[0], known) or there_are(known)
            raise invalid(f"The event {self.name!r} has no argument {unknown[0]!r}.{hint}")
        try:
            return self.arguments.model_validate(arguments)
        except ValidationError as error:
            raise invalid(f"Invalid arguments for the event {self.name!r}: {problems(error)}") from None

    def dumped(self, payload: BaseModel | Mapping[str, Any]) -> Json:
        given = payload.model_dump(by_alias=True) if isinstance(payload, BaseModel) else payload
        try:
            return self.payload.model_validate(given).model_dump(mode="json", by_alias=True)
        except ValidationError as error:
            raise ValueError(f"This is not a payload of the event {self.name!r}: {problems(error)}") from error

    def matcher(self, arguments: BaseModel) -> Callable[[Event], bool]:
        """Returns the function that decides whether a subscriber wants an event: see `Live.event`."""
        decide, model = getattr(arguments, "matches", None), self.payload
        if callable(decide):
            return lambda event: bool(decide(model.model_validate(event.data)))
        wanted = arguments.model_dump(mode="json", by_alias=True, exclude_none=True).items()
        if not wanted:
            return lambda event: True
        return lambda event: all(event.data.get(name) == value for name, value in wanted)


def _schema(model: type[BaseModel]) -> Json:
    schema = model.model_json_schema()
    return {"type": "object", "properties": {}, **{key: each for key, each in schema.items() if key != "title"}}


def log_types(offered: Mapping[str, bool], templates: list[str]) -> list[EventType]:
    """Returns the types that stand for changes in the log, for what a server offers: resources, tools, prompts."""
    found: list[EventType] = []
    if offered["resources"]:
        of = f" Resources: {', '.join(templates[:20])}." if templates else ""
        text = f"A resource has changed. Changes of one resource that follow each other may be one event.{of}"
        any_resource = ResourceUpdated("*")
        found.append(EventType("resource.updated", text, _ResourcePayload, _ResourceArguments, change=any_resource))
    for feature, change in FEATURES.items():
        if offered[feature]:
            text = f"The list of {feature} has changed."
            found.append(EventType(f"{feature}.list_changed", text, _NoPayload, change=change))
    return found


def filter_of(kind: EventType, arguments: BaseModel) -> Filter:
    """Returns the changes of the log that a subscriber wants. Raises `InvalidUri`."""
    if isinstance(arguments, _ResourceArguments):
        return Filter.of([arguments.uri])
    tools, prompts, resources = (change == kind.change for change in FEATURES.values())
    return Filter(tools=tools, prompts=prompts, resources=resources)
