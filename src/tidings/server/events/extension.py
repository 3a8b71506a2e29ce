"""`EventsExtension`: the events of one server: list, poll and stream, and the publishing of those of authors.

Every live server has events for the changes of its resources and lists: they are read from the compacted log, so that
an event may stand for several equal changes. The events of authors have payloads, and each is kept: see
`tidings.bus.streams`.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import mcp_types as types
from mcp.server.context import HandlerResult
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from tidings._kit import event_wire
from tidings._kit.suggest import did_you_mean, there_are
from tidings._kit.tasks import Background
from tidings._kit.text import size_text
from tidings.bus import Records
from tidings.bus.memory import MemoryRecords
from tidings.bus.streams import Retention, parse_cursor
from tidings.changes import Cursor, Filter, ResourceUpdated, check_uri
from tidings.errors import EventNotFound, NotAuthorized, TidingsError, TransportError
from tidings.server.adapters import Adapter
from tidings.server.budget import SDK_STREAM_BYTES, subscription_bytes
from tidings.server.config import Events
from tidings.server.core import RIGHTS_CHANGED, Core, rpc_error, rpc_errors, scope_of
from tidings.server.events import messages
from tidings.server.events.messages import Json, event_error, invalid
from tidings.server.events.reading import (
    Batch,
    ChangeReader,
    EventReader,
    HeardTimes,
    Listener,
    Permits,
    Reader,
    StreamSource,
    encoded,
)
from tidings.server.events.types import Event, EventType, NoArguments, filter_of, is_model, log_types
from tidings.server.events.webhooks import NOTICE, Webhooks
from tidings.server.notify import EVENTS
from tidings.server.policy import RequestContext
from tidings.server.principals import client_key, client_name, expiry_of, principal_of

ModelT = TypeVar("ModelT", bound=type[BaseModel])

_MOST: Final = 100  # Events of one answer.
_MOST_BYTES: Final = 500_000  # The clients of the Python SDK take no message above 1 MiB.
_LARGEST: Final = event_wire.MOST_BYTES - 2_000  # Data of an event: the rest is for what stands around it.
_HEARTBEAT_SECONDS: Final = event_wire.HEARTBEAT_SECONDS / 2
_RETRY_SECONDS: Final = 1.0
_LONGEST_ID: Final = 200
_SEAL_WIDTH: Final = 40  # The length of a seal shows.


@dataclass(frozen=True, slots=True)
class Selection:
    """What a subscriber wants: a type, and its arguments."""

    kind: EventType
    arguments: BaseModel
    filter: Filter | None
    """The changes of the log, for a type that stands for those."""


class EventsExtension:
    """Serves the events of one server."""

    def __init__(self, core: Core, adapter: Adapter, settings: Events) -> None:
        self._core = core
        self._server = adapter.lowlevel
        self._settings = settings
        records: Records | None = getattr(core.bus, "records", None)
        self.records: Records = records if records is not None else MemoryRecords(time.monotonic)
        self._declared: dict[str, EventType] = {}
        self._sources: dict[str, StreamSource] = {}
        self._times = HeardTimes()
        self._background = Background()
        server = self._server
        server.add_request_handler(event_wire.LIST, messages.ListParams, self._list)
        server.add_request_handler(event_wire.POLL, messages.PollParams, self._poll)
        server.add_request_handler(event_wire.STREAM, messages.StreamParams, self._stream)
        hooks = self._webhooks = Webhooks(core, self, settings.webhooks)
        server.add_request_handler(event_wire.SUBSCRIBE, messages.SubscribeParams, hooks.subscribe)
        server.add_request_handler(event_wire.UNSUBSCRIBE, messages.UnsubscribeParams, hooks.unsubscribe)
        server.add_request_handler(event_wire.DELIVERIES, messages.DeliveriesParams, hooks.deliveries)
        server.add_request_handler(event_wire.REDELIVER, messages.RedeliverParams, hooks.redeliver)

    def start(self) -> None:
        """Begins to serve. The bus has been entered, and forgets its listeners when it is left."""
        self._times = HeardTimes()
        self._core.bus.subscribe(self._times.heard)
        self._webhooks.start()

    def noticed(self, uri: str | None) -> None:
        """Hears a notice of the log; None if the log was lost."""
        if uri is None or uri.startswith(EVENTS + NOTICE):
            self._webhooks.noticed(None if uri is None else uri.removeprefix(EVENTS + NOTICE))
        names = list(self._sources) if uri is None else [uri.removeprefix(EVENTS)] if uri.startswith(EVENTS) else []
        for name in names:
            if name in self._sources:
                self._background.start(self._follow(self._sources[name]))

    async def _follow(self, source: StreamSource) -> None:
        with suppress(TransportError):  # Its readers look again by themselves.
            await source.follow()

    async def aclose(self) -> None:
        await self._webhooks.aclose()
        self._background.cancel()
        await self._background.finished()

    def with_capability(self, result: HandlerResult) -> HandlerResult:
        """Adds the capability to the answer to `server/discover` or `initialize`.

        The SDK drops what it does not know of the capabilities that a handler returns, so this comes after it.
        """
        return messages.with_capability(result) if isinstance(result, dict) else result

    # The events of authors

    def declare(
        self,
        name: str,
        *,
        description: str | None,
        arguments: type[BaseModel] | None,
        retention: Retention | None,
    ) -> Callable[[ModelT], ModelT]:
        """See `Live.event`."""

        def declared(payload: ModelT) -> ModelT:
            if not is_model(payload):
                raise TypeError(f"event({name!r}) decorates a pydantic model, the payload of the event.")
            if name in self._types():
                raise ValueError(f"There is an event {name!r} already.")
            kept = retention or self._settings.retention
            text = description or (payload.__doc__ or "").strip() or name
            kind = EventType(name, text, payload, arguments or NoArguments, kept)
            self._declared[name] = kind
            self._sources[name] = StreamSource(self.records, kind)
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
        """See `Notifier.event`."""
        kind = self._declared.get(name)
        if kind is None:
            hint = did_you_mean(name, self._declared) or there_are(self._declared)
            raise ValueError(f"There is no event {name!r}: declare it with event({name!r}) before.{hint}")
        event_id = f"evt_{secrets.token_hex(16)}" if event_id is None else event_id
        if not (
            event_id.isascii() and event_id.isprintable() and 0 < len(event_id) <= _LONGEST_ID and " " not in event_id
        ):
            raise ValueError(f"An event id has at most {_LONGEST_ID} visible ASCII characters, not {event_id!r}")
        about = "" if about is None else check_uri(about)
        event = encoded(event_id, time.time() if happened_at is None else happened_at, kind.dumped(payload), about)
        if len(event) > _LARGEST:
            raise ValueError(
                f"An event takes at most {size_text(_LARGEST)}, and this one takes {size_text(len(event))}. Put the "
                "content into a resource, and its URI into the event."
            )
        await self._sources[name].append(event)
        with suppress(TransportError):  # The notice is kept, and published when the bus is back.
            await self._core.publish(ResourceUpdated(EVENTS + name))
        return event_id

    # What there is

    def _types(self) -> dict[str, EventType]:
        """Returns all types by name. What the server offers may still grow: its handlers come one by one."""
        handler = self._server.get_request_handler
        offered = {each: handler(f"{each}/list") is not None for each in ("resources", "tools", "prompts")}
        kinds = log_types(offered, self._core.policy.names)
        return {kind.name: kind for kind in kinds} | self._declared

    async def _visible(self, ctx: RequestContext) -> dict[str, EventType]:
        allows = self._core.policy.allows
        return {
            name: kind for name, kind in self._types().items() if kind.change is not None or await allows(ctx, kind.uri)
        }

    async def select(self, ctx: RequestContext, name: str, arguments: Json) -> Selection:
        """Returns what a request selects. Raises `MCPError` or a named error."""
        kinds, policy = await self._visible(ctx), self._core.policy
        if (kind := kinds.get(name)) is None:
            hint = did_you_mean(name, kinds) or there_are(kinds)
            raise EventNotFound(f"There is no event {name!r}.{hint}", data={"kind": "event"})
        checked = kind.checked(arguments)
        if kind.change is None:
            return Selection(kind, checked, None)
        wanted = filter_of(kind, checked)
        for subscription in policy.check(wanted.subscriptions):
            await policy.require(ctx, subscription)
        return Selection(kind, checked, wanted)

    # Cursors

    def cursor_text(self, kind: EventType, cursor: str) -> str:
        """Returns a cursor as clients get it: sealed where permission is asked for, as it counts the events of all."""
        core = self._core
        if kind.change is not None and (place := Cursor.parse(cursor)) is not None:
            return core.cursor_text(place)
        return core.seals.seal(kind.uri, cursor.ljust(_SEAL_WIDTH)) if core.policy.asks else cursor

    async def cursor_from(self, kind: EventType, text: str) -> str:
        """Returns the cursor of a client. Raises `MCPError` if it was not given out by this server."""
        with suppress(ValueError):
            if kind.change is not None:
                if (place := await self._core.cursor_from(text)) is not None:
                    return str(place)
            else:
                asks = self._core.policy.asks
                opened = await self._core.seals.open(kind.uri, text) if asks else text
                parse_cursor(cursor := (opened or "").rstrip())
                return cursor
        raise invalid("This cursor was not given out by this server for this event.", field="cursor")

    # Reading

    def listener(self, permits: Permits, selection: Selection, **who: Any) -> Listener:
        return Listener(self._core, permits, wanted=selection.filter, **who)

    async def reader(self, selection: Selection, listener: Listener, cursor: str | None) -> Reader:
        """Returns a reader behind `cursor`, or behind everything there is. It has to be closed."""
        core, kind = self._core, selection.kind
        if selection.filter is not None:
            await core.watched(selection.filter.subscriptions)
            at = str(core.bus.head) if cursor is None else cursor
            return ChangeReader(core, selection.filter, self._times, listener, at)
        source = self._sources[kind.name]
        at = await source.end() if cursor is None else cursor
        reader = EventReader(source, kind, kind.matcher(selection.arguments), listener, at)
        try:
            await source.join(reader)
        except BaseException:
            reader.close()
            raise
        return reader

    def body(self, kind: EventType, event: Event) -> Json:
        return messages.event_body(event.id, kind.name, event.at, event.data, self.cursor_text(kind, event.cursor))

    @contextmanager
    def errors(self, ctx: RequestContext) -> Generator[None]:
        """Turns refusals and named errors into those of the extension."""
        with rpc_errors(ctx, not_found=types.INVALID_PARAMS):
            try:
                yield
            except TidingsError as error:
                if (named := event_error(error, self._settings.error_codes)) is None:
                    raise
                raise named from error

    def _as_json(self, error: TidingsError) -> Json:
        named = event_error(error, self._settings.error_codes)
        return (named or rpc_error(error, not_found=types.INVALID_PARAMS)).error.model_dump(exclude_none=True)

    @asynccontextmanager
    async def _reading(
        self, ctx: RequestContext, params: messages.StreamParams, transport: str
    ) -> AsyncGenerator[tuple[EventType, Listener, Reader]]:
        core, scope = self._core, scope_of(ctx)
        began = asyncio.get_running_loop().time()
        core.check_bus()
        memory = SDK_STREAM_BYTES + subscription_bytes(map(str, params.arguments.values()))
        place = core.admit(client_key(scope), streams=1, memory=memory)
        try:
            selection = await self.select(ctx, params.name, params.arguments)
            kind = selection.kind
            cursor = None if params.cursor is None else await self.cursor_from(kind, params.cursor)
            permits = Permits(core.policy.screen(ctx), core.policy.limits.permission)
            listener = self.listener(
                permits, selection, client=client_name(ctx), principal=principal_of(scope), transport=transport
            )
            async with core.joined(listener):
                listener.expire_at(expiry_of(scope))
                if core.last_revoked >= began:
                    raise NotAuthorized(RIGHTS_CHANGED)
                reader = await self.reader(selection, listener, cursor)
                try:
                    yield kind, listener, reader
                finally:
                    reader.close()
        finally:
            place.release()

    # The methods

    async def _list(self, ctx: RequestContext, params: messages.ListParams) -> Json:
        with self.errors(ctx):
            if params.cursor is not None:
                raise invalid("This list has one page: ask for it without a cursor.", field="cursor")
            return {"events": [kind.described() for kind in (await self._visible(ctx)).values()]}

    async def _poll(self, ctx: RequestContext, params: messages.PollParams) -> Json:
        most, loop = min(params.max_events or _MOST, _MOST), asyncio.get_running_loop()
        until = loop.time() + min((params.timeout_ms or 0) / 1000, self._settings.longest_poll)
        with self.errors(ctx):
            async with self._reading(ctx, params, "poll") as (kind, listener, reader):
                oldest = _oldest(params)
                batch = await reader.next(most, oldest=oldest)
                truncated = batch.truncated
                while not batch.events and not truncated and not listener.over:
                    if not batch.more:
                        try:
                            async with asyncio.timeout_at(until):
                                await listener.news.wait()
                        except TimeoutError:
                            break
                    listener.news.clear()
                    batch = await reader.next(most, oldest=oldest)
                    truncated = batch.truncated
                if isinstance(listener.reason, NotAuthorized):
                    raise listener.reason
                return self._answer(kind, batch)

    def _answer(self, kind: EventType, batch: Batch) -> Json:
        bodies: list[Json] = []
        size, cursor = 0, batch.cursor
        for event in batch.events:
            bodies.append(self.body(kind, event))
            size += len(messages.canonical(bodies[-1]))
            if size > _MOST_BYTES:
                cursor = event.cursor
                break
        more = batch.more or len(bodies) < len(batch.events)
        text = self.cursor_text(kind, cursor)
        return messages.poll_result(bodies, text, truncated=batch.truncated, more=more, wait=self._settings.poll)

    async def _stream(self, ctx: RequestContext, params: messages.StreamParams) -> Json:
        request_id = ctx.request_id
        if request_id is None or len(str(request_id)) > _LONGEST_ID:
            raise MCPError(
                types.INVALID_REQUEST, f"{event_wire.STREAM} needs an id of at most {_LONGEST_ID} characters."
            )
        with self.errors(ctx):
            async with self._reading(ctx, params, "events") as (kind, listener, reader):
                sending = _Sending(ctx, request_id, self._core.policy.limits.write_deadline)
                try:
                    await self._send(kind, listener, reader, sending, _oldest(params))
                except NotAuthorized as error:
                    listener.reason = error
                if listener.reason is not None:
                    await sending(event_wire.TERMINATED, {"error": self._as_json(listener.reason)})
        return messages.stream_result(request_id)

    async def _send(
        self, kind: EventType, listener: Listener, reader: Reader, sending: "_Sending", oldest: float
    ) -> None:
        loop = asyncio.get_running_loop()
        is_active, beat = False, loop.time() + _HEARTBEAT_SECONDS
        while not listener.over:
            listener.news.clear()
            more, retry = False, None
            try:
                batch = await reader.next(_MOST, oldest=oldest)
            except NotAuthorized:
                raise
            except TransportError as error:
                await sending(event_wire.ERROR, {"error": self._as_json(error)})
                retry = loop.time() + _RETRY_SECONDS
            else:
                if not is_active or batch.truncated:
                    is_active = True
                    start = self.cursor_text(kind, batch.start)
                    await sending(event_wire.ACTIVE, {"cursor": start, "truncated": batch.truncated})
                for event in batch.events:
                    await sending(event_wire.EVENT, self.body(kind, event))
                more = batch.more
            if loop.time() >= beat:
                beat = loop.time() + _HEARTBEAT_SECONDS
                await sending(event_wire.HEARTBEAT, {"cursor": self.cursor_text(kind, reader.cursor)})
            if not more:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(min(beat, retry or beat)):
                        await listener.news.wait()


class _Sending:
    """Sends the messages of one stream. A reader that does not read is cut off."""

    def __init__(self, ctx: RequestContext, request_id: types.RequestId, deadline: float) -> None:
        self._ctx = ctx
        self._request_id = request_id
        self._deadline = deadline

    async def __call__(self, method: str, params: Json) -> None:
        message = messages.stream_message(method, self._request_id, params)
        try:
            async with asyncio.timeout(self._deadline):
                await self._ctx.session.send_notification(message, related_request_id=self._request_id)
        except TimeoutError:
            text = f"This stream was cut off: its reader read nothing for {self._deadline:g} s."
            raise MCPError(types.INTERNAL_ERROR, text) from None


def _oldest(params: messages.StreamParams) -> float:
    return 0.0 if params.max_age_ms is None else time.time() - params.max_age_ms / 1000
