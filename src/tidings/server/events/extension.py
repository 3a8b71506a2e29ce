"""`EventsExtension`: serves events by list, poll and stream, and webhooks with `WebhookSubscriptions`."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError

from tidings._kit import event_wire
from tidings.errors import NotAuthorized, TransportError
from tidings.server.adapters import Adapter
from tidings.server.budget import SDK_STREAM_BYTES, subscription_bytes
from tidings.server.config import Events
from tidings.server.core import Core, scope_of
from tidings.server.events import messages
from tidings.server.events.catalogue import EventCatalogue
from tidings.server.events.messages import EventType, Json, invalid
from tidings.server.events.reading import Batch, Listener, Reader
from tidings.server.events.webhooks import NOTICE, WebhookSubscriptions
from tidings.server.notify import EVENTS
from tidings.server.policy import RequestContext, client_key, client_name, expiry_of, principal_of

_MOST: Final = 100  # Events of one answer.
_MOST_BYTES: Final = 500_000  # The clients of the Python SDK take no message above 1 MiB.
_HEARTBEAT_SECONDS: Final = event_wire.HEARTBEAT_SECONDS / 2
_RETRY_SECONDS: Final = 1.0
_LONGEST_ID: Final = 200

Send = Callable[[str, Json], Awaitable[None]]


class EventsExtension:
    """Serves the events of one server."""

    def __init__(self, core: Core, adapter: Adapter, settings: Events) -> None:
        self._core = core
        self._settings = settings
        catalogue = self._catalogue = EventCatalogue(core, adapter, settings)
        self.declare = catalogue.declare
        self.publish = catalogue.publish
        hooks = self._webhooks = WebhookSubscriptions(core, catalogue, settings.webhooks)
        server = adapter.lowlevel
        server.add_request_handler(event_wire.LIST, types.PaginatedRequestParams, self._list)
        server.add_request_handler(event_wire.POLL, messages.PollParams, self._poll)
        server.add_request_handler(event_wire.STREAM, messages.StreamParams, self._stream)
        server.add_request_handler(event_wire.SUBSCRIBE, messages.SubscribeParams, hooks.subscribe)
        server.add_request_handler(event_wire.UNSUBSCRIBE, messages.UnsubscribeParams, hooks.unsubscribe)
        server.add_request_handler(event_wire.DELIVERIES, messages.DeliveriesParams, hooks.deliveries)
        server.add_request_handler(event_wire.REDELIVER, messages.RedeliverParams, hooks.redeliver)

    def start(self) -> None:
        self._catalogue.start()
        self._webhooks.start()

    def noticed(self, uri: str | None) -> None:
        if uri is None or uri.startswith(EVENTS + NOTICE):
            self._webhooks.noticed(None if uri is None else uri.removeprefix(EVENTS + NOTICE))
        self._catalogue.noticed(uri)

    async def aclose(self) -> None:
        await self._webhooks.aclose()
        await self._catalogue.aclose()

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
            selection = await self._catalogue.select(ctx, params.name, params.arguments)
            kind = selection.kind
            cursor = None if params.cursor is None else await self._catalogue.cursor_from(kind, params.cursor)
            who: dict[str, Any] = {"client": client_name(ctx), "principal": principal_of(scope), "transport": transport}
            listener = Listener(core, core.policy.screen(ctx), selection.filter, **who)
            async with core.joined(listener):
                listener.expire_at(expiry_of(scope))
                core.check_rights(began)
                async with self._catalogue.reading(selection, listener, cursor) as reader:
                    yield kind, listener, reader
        finally:
            place.release()

    async def _list(self, ctx: RequestContext, params: types.PaginatedRequestParams) -> Json:
        with self._catalogue.errors(ctx):
            if params.cursor is not None:
                raise invalid("This list has one page: ask for it without a cursor.", field="cursor")
            return {"events": [kind.described() for kind in (await self._catalogue.visible(ctx)).values()]}

    async def _poll(self, ctx: RequestContext, params: messages.PollParams) -> Json:
        most, loop = min(params.max_events or _MOST, _MOST), asyncio.get_running_loop()
        until = loop.time() + min((params.timeout_ms or 0) / 1000, self._settings.longest_poll)
        with self._catalogue.errors(ctx):
            async with self._reading(ctx, params, "poll") as (kind, listener, reader):
                oldest = _oldest(params)
                batch = await reader.next(most, oldest=oldest)
                while not batch.events and not batch.truncated and not listener.over:
                    if not batch.more:
                        try:
                            async with asyncio.timeout_at(until):
                                await listener.news.wait()
                        except TimeoutError:
                            break
                    listener.news.clear()
                    batch = await reader.next(most, oldest=oldest)
                if isinstance(listener.reason, NotAuthorized):
                    raise listener.reason
                return self._answer(kind, batch)

    def _answer(self, kind: EventType, batch: Batch) -> Json:
        bodies: list[Json] = []
        size, cursor = 0, batch.cursor
        for event in batch.events:
            bodies.append(self._catalogue.body(kind, event))
            size += len(messages.canonical(bodies[-1]))
            if size > _MOST_BYTES:
                cursor = event.cursor
                break
        more = batch.more or len(bodies) < len(batch.events)
        return {
            "events": bodies,
            "cursor": self._catalogue.cursor_text(kind, cursor),
            "truncated": batch.truncated,
            "hasMore": more,
            "nextPollMs": 0 if more else round(self._settings.poll * 1000),
        }

    async def _stream(self, ctx: RequestContext, params: messages.StreamParams) -> Json:
        request_id = ctx.request_id
        if request_id is None or len(str(request_id)) > _LONGEST_ID:
            raise MCPError(
                types.INVALID_REQUEST, f"{event_wire.STREAM} needs an id of at most {_LONGEST_ID} characters."
            )
        with self._catalogue.errors(ctx):
            async with self._reading(ctx, params, "events") as (kind, listener, reader):
                deadline = self._core.policy.limits.write_deadline

                async def sending(method: str, params: Json) -> None:
                    message = messages.stream_message(method, request_id, params)
                    try:
                        async with asyncio.timeout(deadline):
                            await ctx.session.send_notification(message, related_request_id=request_id)
                    except TimeoutError:
                        text = f"This stream was cut off: its reader read nothing for {deadline:g} s."
                        raise MCPError(types.INTERNAL_ERROR, text) from None

                try:
                    await self._send(kind, listener, reader, sending, _oldest(params))
                except NotAuthorized as error:
                    listener.reason = error
                if listener.reason is not None:
                    await sending(event_wire.TERMINATED, {"error": self._catalogue.as_json(listener.reason)})
        return messages.stream_result(request_id)

    async def _send(self, kind: EventType, listener: Listener, reader: Reader, sending: Send, oldest: float) -> None:
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
                await sending(event_wire.ERROR, {"error": self._catalogue.as_json(error)})
                retry = loop.time() + _RETRY_SECONDS
            else:
                if not is_active or batch.truncated:
                    is_active = True
                    start = self._catalogue.cursor_text(kind, batch.start)
                    await sending(event_wire.ACTIVE, {"cursor": start, "truncated": batch.truncated})
                for event in batch.events:
                    await sending(event_wire.EVENT, self._catalogue.body(kind, event))
                more = batch.more
            if loop.time() >= beat:
                beat = loop.time() + _HEARTBEAT_SECONDS
                await sending(event_wire.HEARTBEAT, {"cursor": self._catalogue.cursor_text(kind, reader.cursor)})
            if not more:
                with anyio.move_on_after(min(beat, retry or beat) - loop.time()):
                    await listener.news.wait()


def _oldest(params: messages.StreamParams) -> float:
    return 0.0 if params.max_age_ms is None else time.time() - params.max_age_ms / 1000
