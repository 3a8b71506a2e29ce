"""`EventCatalogue`: the types of events of one server, what publishes them, and readers of them.

Events for changes of resources and lists are read from the compacted log, so that one may stand for several equal
changes. The events of authors have payloads, and each is kept: see `tidings.bus.streams`.
"""

import re
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from tidings._kit import event_wire
from tidings._kit.suggest import did_you_mean, there_are
from tidings._kit.tasks import Background
from tidings._kit.text import size_text
from tidings.bus.streams import Retention, parse_cursor
from tidings.changes import FEATURES, Cursor, Filter, ResourceUpdated, check_uri
from tidings.errors import EventNotFound, TidingsError, TransportError
from tidings.server.adapters import Adapter
from tidings.server.config import Events
from tidings.server.core import Core, rpc_error, rpc_errors
from tidings.server.events import messages
from tidings.server.events.messages import Event, EventType, Json
from tidings.server.events.reading import (
    ChangeReader,
    EventReader,
    HeardTimes,
    Listener,
    Reader,
    StreamSource,
    encoded,
)
from tidings.server.notify import EVENTS
from tidings.server.policy import RequestContext

ModelT = TypeVar("ModelT", bound=type[BaseModel])
_LARGEST: Final = event_wire.MOST_BYTES - 2_000  # Data of an event: the rest is for what stands around it.
_LONGEST_ID: Final = 200
_ID: Final = re.compile(rf"[!-~]{{1,{_LONGEST_ID}}}")
_SEAL_WIDTH: Final = 40  # The length of a seal shows.


@dataclass(frozen=True, slots=True)
class Selection:
    """The selection of a subscriber: a type, and its arguments."""

    kind: EventType
    arguments: BaseModel
    filter: Filter | None  # The changes of the log, for a type that stands for those.


class EventCatalogue:
    """The events of one server."""

    def __init__(self, core: Core, adapter: Adapter, settings: Events) -> None:
        self.core = core
        self._server = adapter.lowlevel
        self._settings = settings
        self._declared: dict[str, EventType] = {}
        self._sources: dict[str, StreamSource] = {}
        self._times = HeardTimes()
        self._background = Background()

    def start(self) -> None:
        self._times = HeardTimes()
        self.core.bus.subscribe(self._times.heard)

    def noticed(self, uri: str | None) -> None:
        """Hears a notice of the log; None if the log was lost."""

        async def follow(source: StreamSource) -> None:
            with suppress(TransportError):  # Its readers look again by themselves.
                await source.follow()

        for name, source in self._sources.items():
            if uri in (None, EVENTS + name):
                self._background.start(follow(source))

    async def aclose(self) -> None:
        self._background.cancel()
        await self._background.finished()

    def declare(
        self, name: str, *, description: str | None, arguments: type[BaseModel] | None, retention: Retention | None
    ) -> Callable[[ModelT], ModelT]:

        def declared(payload: ModelT) -> ModelT:
            given: Any = payload
            if not (isinstance(given, type) and issubclass(given, BaseModel)):
                raise TypeError(f"event({name!r}) decorates a pydantic model, the payload of the event.")
            if name in self._types():
                raise ValueError(f"There is already an event {name!r}.")
            kept = retention or self._settings.retention
            text = description or (payload.__doc__ or "").strip() or name
            kind = EventType(name, text, payload, arguments or messages.NoArguments, kept)
            self._declared[name] = kind
            self._sources[name] = StreamSource(self.core.records, kind)
            return payload

        return declared

    async def publish(
        self,
        name: str,
        payload: BaseModel | Mapping[str, Any],
        *,
        event_id: str | None = None,
        happened_at: float | None = None,
        about: str | None = None,
    ) -> str:
        kind = self._declared.get(name)
        if kind is None:
            hint = did_you_mean(name, self._declared) or there_are(self._declared)
            raise ValueError(f"There is no event {name!r}: declare it with event({name!r}) before.{hint}")
        event_id = f"evt_{secrets.token_hex(16)}" if event_id is None else event_id
        if not _ID.fullmatch(event_id):
            raise ValueError(f"An event id has at most {_LONGEST_ID} visible ASCII characters, not {event_id!r}")
        about = "" if about is None else check_uri(about)
        event = encoded(event_id, time.time() if happened_at is None else happened_at, kind.dumped(payload), about)
        if len(event) > _LARGEST:
            raise ValueError(
                f"An event takes at most {size_text(_LARGEST)}, and this one takes {size_text(len(event))}. Put the "
                "content into a resource, and its URI into the event."
            )
        await self._sources[name].stream.append(event)
        with suppress(TransportError):  # The notice is kept, and published when the bus is back.
            await self.core.publish(ResourceUpdated(EVENTS + name))
        return event_id

    def _types(self) -> dict[str, EventType]:
        """Returns all types by name. What the server offers may still grow: its handlers come one by one."""
        handler = self._server.get_request_handler
        offered = {each: handler(f"{each}/list") is not None for each in FEATURES}
        kinds = messages.log_types(offered, self.core.policy.names)
        return {kind.name: kind for kind in kinds} | self._declared

    async def visible(self, ctx: RequestContext) -> dict[str, EventType]:
        allows = self.core.policy.allows
        return {
            name: kind for name, kind in self._types().items() if kind.change is not None or await allows(ctx, kind.uri)
        }

    async def select(self, ctx: RequestContext, name: str, arguments: Json) -> Selection:
        kinds, policy = await self.visible(ctx), self.core.policy
        if (kind := kinds.get(name)) is None:
            hint = did_you_mean(name, kinds) or there_are(kinds)
            raise EventNotFound(f"There is no event {name!r}.{hint}", data={"kind": "event"})
        checked = kind.checked(arguments)
        if kind.change is None:
            return Selection(kind, checked, None)
        wanted = messages.filter_of(kind, checked)
        for subscription in policy.check(wanted.subscriptions):
            await policy.require(ctx, subscription)
        return Selection(kind, checked, wanted)

    def cursor_text(self, kind: EventType, cursor: str) -> str:
        """Returns a cursor as clients get it: sealed where permission is asked for, as it counts the events of all."""
        core = self.core
        if kind.change is not None and (place := Cursor.parse(cursor)) is not None:
            return core.cursor_text(place)
        return core.seals.seal(kind.uri, cursor.ljust(_SEAL_WIDTH)) if core.policy.asks else cursor

    async def cursor_from(self, kind: EventType, text: str) -> str:
        """Returns the cursor of a client. Raises `MCPError` if it was not given out by this server."""
        with suppress(ValueError):
            if kind.change is not None:
                if (place := await self.core.cursor_from(text)) is not None:
                    return str(place)
            else:
                asks = self.core.policy.asks
                opened = await self.core.seals.open(kind.uri, text) if asks else text
                parse_cursor(cursor := (opened or "").rstrip())
                return cursor
        raise messages.invalid("This cursor was not given out by this server for this event.", field="cursor")

    @asynccontextmanager
    async def reading(self, selection: Selection, listener: Listener, cursor: str | None) -> AsyncGenerator[Reader]:
        core, kind = self.core, selection.kind
        if selection.filter is not None:
            await core.watched(selection.filter.subscriptions)
            at = str(core.bus.head) if cursor is None else cursor
            yield ChangeReader(core, selection.filter, self._times, listener, at)
            return
        source = self._sources[kind.name]
        at = await source.stream.end() if cursor is None else cursor
        reader = EventReader(source, kind, kind.matcher(selection.arguments), listener, at)
        try:
            await source.join(reader)
            yield reader
        finally:
            source.leave(reader)

    def body(self, kind: EventType, event: Event) -> Json:
        body: Json = {"eventId": event.id, "name": kind.name, "timestamp": messages.iso(event.at), "data": event.data}
        return {**body, "cursor": self.cursor_text(kind, event.cursor)}

    @contextmanager
    def errors(self, ctx: RequestContext) -> Generator[None]:
        with rpc_errors(ctx):
            try:
                yield
            except TidingsError as error:
                if (named := messages.event_error(error, self._settings.error_codes)) is None:
                    raise
                raise named from error

    def as_json(self, error: TidingsError) -> Json:
        named = messages.event_error(error, self._settings.error_codes)
        return (named or rpc_error(error)).error.model_dump(exclude_none=True)
