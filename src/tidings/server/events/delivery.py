"""`Delivery`: posts the events of one webhook subscription, one after the other, on the replica that has its lease.

After the last try, an event that the receiver refused (most codes of 4xx; 410 and 413 at once) is parked, and the next
follows. If the receiver is in trouble, the subscription is parked at this event until its subscriber refreshes it; if
the same event fails again after that, the event is. A parked event is among the deliveries, and can be delivered again.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakValueDictionary

import anyio
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from starlette.requests import Request

from tidings._kit import event_wire
from tidings._kit.backoff import jittered
from tidings.bus.streams import Lease, parse_cursor
from tidings.changes import Cursor
from tidings.errors import TidingsError, TransportError
from tidings.server.config import Webhooks
from tidings.server.events.catalogue import EventCatalogue, Selection
from tidings.server.events.grants import Grant, GrantStore, Progress
from tidings.server.events.messages import EventType, Json, canonical, iso
from tidings.server.events.reading import Listener, Reader
from tidings.server.policy import RequestContext

if TYPE_CHECKING:
    from tidings.server.events.posting import Answer, Poster

_AT_ONCE: Final = 10  # Events that are read ahead: each may take 256 KiB.
_SAVE_SECONDS: Final = 0.5  # Between two writes of progress. What was delivered since is delivered again after a crash.
_IDLE_SAVE_SECONDS: Final = 60.0  # Until progress is written that only passed over events for others.
_RETRY_SECONDS: Final = 1.0  # While the bus is away.
_POSTS_AT_ONCE: Final = 16  # For one principal, so that slow receivers do not delay the others.
_MOST_SHOWN: Final = 1_000
_JITTER: Final = 0.2


class _Parked(Exception):
    """The subscription is parked."""


class _Superseded(Exception):
    """Another replica has written the progress: it has the lease now."""


class Means:
    """The means by which a replica delivers."""

    def __init__(self, events: EventCatalogue, settings: Webhooks) -> None:
        self.core = events.core
        self.events = events
        self.store = GrantStore(events.core.records)
        self.settings = settings
        self._poster: Poster | None = None
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @property
    def poster(self) -> "Poster":
        if self._poster is None:
            from tidings.server.events.posting import Poster  # noqa: PLC0415 - only servers with webhooks need it

            self._poster = Poster(seconds=self.settings.timeout, local=self.settings.local)
        return self._poster

    async def post(self, grant: Grant, message_id: str, body: bytes) -> "tuple[Answer, dict[str, str]]":
        sealed = [text for text, until in grant.secrets if until > time.time()]
        opened = [await self.core.seals.open(grant.id, text) for text in sealed]
        keys = [event_wire.secret_key(secret) for secret in dict.fromkeys(opened) if secret is not None]
        if (turn := self._turns.get(grant.owner)) is None:
            turn = self._turns[grant.owner] = asyncio.Semaphore(_POSTS_AT_ONCE)
        async with turn:
            return await self.poster.post(grant.url, message_id, grant.id, body, keys)

    async def aclose(self) -> None:
        if self._poster is not None:
            await self._poster.aclose()
            self._poster = None


def context_of(grant: Grant) -> RequestContext:
    """Returns a context for `authorize`, like that of a request by the subscriber."""
    scope: Json = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}
    if grant.user is not None:
        scope["user"] = AuthenticatedUser(AccessToken(token="", **grant.user))
    nobody: Any = cast("ServerSession", None)  # It has no session at this time.
    return RequestContext(
        session=nobody, lifespan_context={}, protocol_version="", method=event_wire.SUBSCRIBE, request=Request(scope)
    )


class Delivery:
    """Delivers for one grant until that ends or its lease is lost."""

    def __init__(self, means: Means, lease: Lease, grant: Grant) -> None:
        self._means = means
        self._lease = lease
        self.grant = grant
        self._news = asyncio.Event()
        self._progress: Progress
        self._revision: int = 0
        self._saved_at = 0.0
        self._saved_cursor: str = ""
        self._unsaved = False

    def renew(self, grant: Grant) -> None:
        self.grant = grant
        self._news.set()

    async def run(self) -> None:
        while self.grant.seconds_left > 0:
            try:
                self._progress, self._revision = await self._means.store.progress(self.grant)
                self._saved_cursor = self._progress.cursor
                while self.grant.seconds_left > 0:
                    await self._live()
            except TransportError:
                await asyncio.sleep(_RETRY_SECONDS)
            except _Superseded:
                return

    async def stop(self) -> None:
        if self._unsaved and self._lease.is_held:
            await self._means.store.save(self.grant, self._progress, self._revision)

    async def _live(self) -> None:
        grant, context = self.grant, context_of(self.grant)
        auth_context_var.set(None if context.request is None else context.request.scope.get("user"))
        try:
            if self._progress.parked == grant.edition:
                self._news.clear()
                await self._wait(grant.seconds_left)
                return
            selection = await self._means.events.select(context, grant.name, grant.arguments)
            cursor, who = self._progress.cursor, {"client": grant.id, "principal": grant.principal, "news": self._news}
            async with webhook_reading(self._means.events, context, selection, cursor, **who) as (listener, reader):
                await self._deliver(selection, listener, reader)
                if listener.reason is not None:
                    raise listener.reason
            if listener.over:
                raise _Superseded  # The server stops.
        except _Parked:
            pass
        except TransportError:
            raise
        except (TidingsError, MCPError) as error:
            if isinstance(error, TidingsError) and error.retryable:
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                await self._park(str(error))

    async def _deliver(self, selection: Selection, listener: Listener, reader: Reader) -> None:
        progress, kind = self._progress, selection.kind
        while not listener.over and self.grant.seconds_left > 0:
            self._news.clear()
            await self._deliver_again(selection, listener)
            batch = await reader.next(_AT_ONCE, oldest=self.grant.oldest)
            if batch.truncated:
                progress.truncated = self.grant.edition
                gap = {"type": "gap", "cursor": self._means.events.cursor_text(kind, batch.start)}
                mark = self._means.core.seals.digest("gap", f"{self.grant.id} {batch.start}")
                if not await self._send(f"msg_gap_{mark}", kind.name, gap, batch.start, listener):
                    return
            for event in batch.events:
                body = self._means.events.body(kind, event)
                if not await self._send(event.id, kind.name, body, event.cursor, listener):
                    return
                progress.cursor = event.cursor
            progress.cursor = batch.cursor
            await self._save()
            if not batch.more:
                due = _SAVE_SECONDS if self._unsaved else jittered(_IDLE_SAVE_SECONDS, below=0.5)
                await self._wait(min(due, self.grant.seconds_left))
                progress.cursor = reader.cursor  # It may have passed over events for others.
                await self._save()

    async def _send(
        self, message_id: str, name: str, message: Json, cursor: str, listener: Listener, *, once: bool = False
    ) -> bool:
        """Returns True once a message was received or parked, False if the subscription ends. Raises `_Parked`."""
        progress, delays = self._progress, self._means.settings.retries
        body = canonical(message).encode()
        at, is_again = time.time(), progress.trying == message_id
        tries = progress.tries if is_again and not once else 0
        if is_again and not once:
            await self._wait_until(progress.next_try, listener)
        while not listener.over and self.grant.seconds_left > 0:
            while not self._lease.is_held:  # noqa: ASYNC110 - its part takes it again, or ends this task
                await asyncio.sleep(0.05)
            answer, headers = await self._means.post(self.grant, message_id, body)
            tries += 1
            is_last = once or tries > len(delays)
            gives_up = answer.is_final or (
                is_last and (once or answer.is_about_event or progress.was_parked == message_id)
            )
            state = "delivered" if not answer.error else "parked" if gives_up or is_last else "retrying"
            pause = 0.0 if state != "retrying" else jittered(delays[tries - 1], below=_JITTER, above=_JITTER)
            next_try = time.time() + pause
            shown = {"headers": headers, "body": body[:_MOST_SHOWN].decode(errors="replace")}
            got = {"status": answer.status, "body": answer.body[:_MOST_SHOWN].decode(errors="replace")}
            later = {"seconds": round(answer.seconds, 3), "nextTry": iso(next_try) if pause else None}
            told = {"tries": tries, "mostTries": len(delays) + 1, "reason": answer.reason, **later}
            about = {"subscriptionId": self.grant.id, "eventId": message_id, "name": name, "cursor": cursor}
            progress.note({**about, "at": iso(at), "state": state, **told, "request": shown, "response": got})
            self._unsaved = True
            if answer.error:
                progress.error, progress.failed_since = answer.error, progress.failed_since or time.time()
            else:
                progress.delivered += 1
                progress.error, progress.failed_since, progress.last_at = "", 0.0, time.time()
            if once:
                return True
            if gives_up or not answer.error:
                progress.trying, progress.tries, progress.next_try, progress.was_parked = "", 0, 0.0, ""
                return True
            if is_last:
                progress.trying, progress.tries, progress.next_try = message_id, 0, 0.0
                progress.was_parked = message_id
                await self._park(answer.reason)
                raise _Parked
            progress.trying, progress.tries, progress.next_try = message_id, tries, next_try
            await self._save(now=True)
            await self._wait_until(next_try, listener)
        return False

    async def _deliver_again(self, selection: Selection, listener: Listener) -> None:
        progress, events, kind = self._progress, self._means.events, selection.kind
        for edition, event_id, cursor in self.grant.again:
            if edition > progress.redelivered:
                async with events.reading(selection, listener, one_before(kind, cursor)) as reader:
                    batch = await reader.next(1)
                for event in batch.events:
                    if event.id == event_id:
                        await self._send(event.id, kind.name, events.body(kind, event), cursor, listener, once=True)
                progress.redelivered, self._unsaved = edition, True

    async def _park(self, reason: str) -> None:
        self._progress.parked, self._progress.reason = self.grant.edition, reason
        self._progress.failed_since = self._progress.failed_since or time.time()
        self._unsaved = True
        await self._save(now=True)

    async def _save(self, *, now: bool = False) -> None:
        progress, clock = self._progress, time.monotonic()
        idle = clock - self._saved_at > _IDLE_SAVE_SECONDS / 2 and progress.cursor != self._saved_cursor
        if not (idle or (self._unsaved and (now or clock - self._saved_at >= _SAVE_SECONDS))):
            return
        revision = await self._means.store.save(self.grant, progress, self._revision)
        if revision is None:
            raise _Superseded
        self._revision, self._saved_at, self._saved_cursor, self._unsaved = revision, clock, progress.cursor, False

    async def _wait_until(self, at: float, listener: Listener) -> None:
        """Waits for a time, for the end of the listener, or for a refresh."""
        edition = self.grant.edition
        while not listener.over and self.grant.edition == edition and (left := at - time.time()) > 0:
            self._news.clear()
            if self.grant.seconds_left <= 0:
                break
            await self._wait(min(left, self.grant.seconds_left))
        self._news.set()  # Whatever was heard meanwhile was not read yet.

    async def _wait(self, seconds: float) -> None:
        with anyio.move_on_after(max(seconds, 0.0)):
            await self._news.wait()


@asynccontextmanager
async def webhook_reading(
    events: EventCatalogue, context: RequestContext, selection: Selection, cursor: str | None, **who: Any
) -> AsyncGenerator[tuple[Listener, Reader]]:
    """Registers a subscriber, and yields it with its reader behind `cursor`, or behind everything there is."""
    core = events.core
    ask = partial(core.policy.allows, context) if core.policy.asks else None
    listener = Listener(core, ask, selection.filter, transport="webhook", **who)
    core.join(listener)
    try:
        async with events.reading(selection, listener, cursor) as reader:
            yield listener, reader
    finally:
        core.leave(listener)
        listener.gone()


def one_before(kind: EventType, cursor: str) -> str:
    """Returns the cursor before the event that ends at `cursor`."""
    if kind.change is None:
        epoch, number, _ = parse_cursor(cursor)
        return f"{epoch}.{number - 1}."
    place = Cursor.parse(cursor)
    return cursor if place is None else str(Cursor(place.epoch, max(place.version - 1, 0), place.term))


def status_of(grant: Grant, progress: Progress) -> Json:
    """Returns `deliveryStatus`."""
    error = "connection_refused" if progress.error == "address_refused" else progress.error
    return {
        "active": progress.parked != grant.edition,
        "lastDeliveryAt": iso(progress.last_at) if progress.last_at else None,
        "lastError": error or None,
        **({"failedSince": iso(progress.failed_since)} if progress.failed_since else {}),
    }
