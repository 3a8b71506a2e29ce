"""The part that both eras share: the log of changes, the hub, joining it, and errors as JSON-RPC errors."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final, TypeGuard, TypeVar

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from tidings import errors
from tidings._kit.telemetry import measure, safely, start_span, trace_of
from tidings.bus import Bus, BusState, Entry, Records
from tidings.bus.memory import MemoryRecords
from tidings.changes import FEATURE_OF, TIMES_KEY, Change, Cursor, ResourceUpdated
from tidings.server.borrowed_stream import BorrowedStream
from tidings.server.budget import Budget, Place
from tidings.server.config import Coalesce, CoalesceSetting
from tidings.server.hooks import TOLD, Hooks
from tidings.server.http_exchange import EXCHANGE_KEY, HttpExchange, Scope, error_data, stopping
from tidings.server.hub import Coalescer, Hub
from tidings.server.notify import EVERYTHING, NOTICE, Times, add_waiting
from tidings.server.policy import RequestContext, SubscriptionPolicy
from tidings.server.seals import Seals
from tidings.server.stop import BrokenOff
from tidings.server.subscriber import Frame, Subscriber

logger = logging.getLogger(__name__)

T = TypeVar("T")

_COUNT: Final = "tidings.subscriber_count"
_NAMES: Final = {"uri": "mcp.resource.uri", "feature": "tidings.feature"}
_RIGHTS_CHANGED: Final = "Rights have changed. Sign in again if need be, and listen again."
_CURSOR: Final = "cursor"  # The purpose of its seal.
_RETRY_SECONDS = 0.5
_LOOK_SECONDS = 1.0  # Between two looks at the state of the bus.


class Core:
    """The subscribers of one server process, and the bus that brings them changes."""

    def __init__(
        self,
        bus: Bus,
        policy: SubscriptionPolicy,
        *,
        coalesce: CoalesceSetting = Coalesce(window=0, max_wait=0),  # noqa: B008 - a frozen value
        on_unwrapped: Callable[[], None] = lambda: None,
        on_notice: Callable[[str | None], None] = lambda uri: None,
    ) -> None:
        self.bus = bus
        self.policy = policy
        records: Records | None = getattr(bus, "records", None)
        self.records: Records = MemoryRecords(time.monotonic) if records is None else records
        self.seals = Seals(self.records)
        self.budget = Budget(policy.limits)
        self.hooks = Hooks()
        self.times = Times()
        self.hub = Hub(self.hooks.want)
        self._coalescer = Coalescer(self._deliver, coalesce, start=bus.head, merged=partial(measure, "tidings.merges"))
        self.stopping = False
        self.cut_off = ""  # The reason why this process has been without its bus for too long.
        self._without_bus_since: float | None = None
        self._look: asyncio.TimerHandle | None = None
        self._stop: asyncio.Future[None] | None = None
        self.broken_off = BrokenOff()
        self.streams_ended = asyncio.Event()  # Set while no listen stream is open.
        self._streams = 0  # Listen streams that are open.
        # The requests that wait for each subscription which is not acknowledged to anybody yet.
        self._asking: dict[tuple[Subscriber, str], set[object]] = {}
        self._on_unwrapped = on_unwrapped
        self._on_notice = on_notice  # Called with the URI of a notice, and with None if the log was lost.
        self._warned = False
        # Each failure has its own error, which shows whether an equal change has failed since.
        self._unsent: dict[Change, errors.TransportError] = {}
        self._sender: asyncio.Task[None] | None = None
        self.last_revoked = 0.0  # When rights were revoked last: a request from before is not let in after it.
        self._closed = False  # What could not be stored waits for the next start.

    def start(self) -> Callable[[], None]:
        """Listens to the bus, which has been entered. Returns the function that ends this."""
        self._coalescer.begin(self.bus.head)
        self.stopping = self._closed = False
        self.cut_off, self._without_bus_since = "", None
        self._stop = asyncio.get_running_loop().create_future()
        self.streams_ended = asyncio.Event()
        self.streams_ended.set()
        if self._unsent:
            self._start_sender()
        unsubscribe = self.bus.subscribe(self.heard)
        self._look_at_bus()

        def end() -> None:
            unsubscribe()
            if self._look is not None:
                self._look.cancel()

        return end

    @property
    def position(self) -> Cursor:
        """The cursor of a subscriber that has everything delivered so far."""
        return self._coalescer.position

    def begin_stop(self) -> None:
        """Refuses new subscribers from now on. Requests that wait are answered that the server stops."""
        self.stopping = True
        if self._stop is not None and not self._stop.done():
            self._stop.set_result(None)

    async def unless_stopping(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns what `work` returns, which asks for permission. Raises `LimitReached` if the server stops first."""
        if self._stop is None or not self.policy.asks:
            return await work  # Nobody is asked, so nothing takes time.
        task = asyncio.get_running_loop().create_task(work)
        try:
            await asyncio.wait([task, self._stop], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done():
            task.cancel()
            self.broken_off.add([task])
            raise stopping()
        return task.result()

    def heard(self, cursor: Cursor, change: Change | None) -> None:
        """Takes a change that the bus brings. None means that the log was lost."""
        if _is_notice(change):
            self._on_notice(change.uri)
            return
        if change is not None and change != EVERYTHING:
            self._coalescer.hear(cursor, change)
            return
        self._on_notice(None)
        why = "The log of changes was lost" if change is None else "More changes waited for the bus than are kept"
        logger.warning("%s: %d subscribers are told to read again.", why, len(self.hub))
        self._coalescer.begin(cursor)
        self.times.forget()
        for subscriber in self.hub:
            subscriber.forget_permissions()  # A revocation may be lost, too.
        self.hub.deliver_everything(cursor, self.cursor_text(cursor))

    def deliver_everything(self, subscriber: Subscriber) -> None:
        subscriber.deliver_everything(self.position, self.cursor_text(self.position))

    def flush(self) -> None:
        self._coalescer.flush()

    def _deliver(self, place: Cursor, change: Change) -> None:
        meta = self.times.take(change)
        origin, before = self.times.unsent(change)

        def deliver() -> int:
            cursor = self.cursor_text(self.position)
            return self.hub.deliver(Frame(place, change, cursor, meta, origin=origin, before=before))

        record_delivery(deliver, change, meta)

    def deliver_here(self, change: Change) -> None:
        """Delivers a change to the subscribers of this process, without the log."""
        self._deliver(self.position, change)

    async def publish(self, change: Change) -> None:
        """Stores `change` in the log. Raises `TransportError` if the bus cannot now: it is given to it later."""
        self.times.publishing(change)
        try:
            await self.bus.publish(change)
        except errors.TransportError as error:
            if not self._unsent:
                logger.warning("Changes wait, and are published when the bus is back: %s", error)
            self._keep(change, error)
            if _is_notice(change):
                self._on_notice(change.uri)  # This replica obeys at once.
            kept = "The change is not stored yet. This server keeps it, and publishes it when the bus is back."
            raise type(error)(f"{kept} {error}") from error
        except asyncio.CancelledError:
            # It may be in the log or not. Publishing it twice does no harm.
            self._keep(change, errors.BusUnavailable("A publisher was cancelled before its change was stored."))
            raise

    def _keep(self, change: Change, error: errors.TransportError) -> None:
        add_waiting(self._unsent, change, error.with_traceback(None))
        self._start_sender()

    def _start_sender(self) -> None:
        if not self._closed and (self._sender is None or self._sender.done()):
            self._sender = asyncio.get_running_loop().create_task(self._send_later())

    async def _send_later(self) -> None:
        while self._unsent:
            self._look_at_bus()
            await asyncio.sleep(_RETRY_SECONDS)
            for change, failure in tuple(self._unsent.items()):
                try:
                    await self.bus.publish(change)
                except errors.TransportError:
                    break
                if self._unsent.get(change) is failure:
                    del self._unsent[change]
        logger.warning("The bus is back, and has all changes that waited.")
        self._look_at_bus()

    def _look_at_bus(self) -> None:
        """Ends all streams if the bus has been away for too long. Accepts new ones once it is back."""
        loop = asyncio.get_running_loop()
        state: BusState | None = getattr(self.bus, "state", None)
        if state is not None:  # Else only a failed publish shows that it is away.
            if self._look is not None:
                self._look.cancel()
            self._look = loop.call_later(min(self.policy.limits.without_bus / 4, _LOOK_SECONDS), self._look_at_bus)
        reason = state.reason if state is not None and not state.connected else ""
        if not reason and self._unsent:
            reason = str(next(iter(self._unsent.values())))
        if not reason:
            if self.cut_off:
                logger.warning("The bus is back: subscribers are accepted again.")
            self.cut_off, self._without_bus_since = "", None
        elif self._without_bus_since is None:
            self._without_bus_since = loop.time()
        elif not self.cut_off and loop.time() - self._without_bus_since >= self.policy.limits.without_bus:
            self.cut_off = f"This server is cut off from its bus, so it cannot tell what changes. {reason}"
            logger.error("%s %d subscribers are sent away until it is back.", self.cut_off, len(self.hub))
            for subscriber in self.hub:
                subscriber.end(self._unavailable())

    def _unavailable(self) -> errors.BusUnavailable:
        return errors.BusUnavailable(f"{self.cut_off} Try again in a moment, or at another replica.")

    def cursor_text(self, cursor: Cursor) -> str:
        """Returns a cursor as clients get it. Where permission is asked for, it is sealed.

        A plain cursor counts the changes of everybody. The seal is not bound to its reader: one frame goes to many, and
        whoever sends a cursor back gets what their own filter and rights let through.
        """
        if not self.policy.asks:
            return str(cursor)
        # In a fixed width: the length of a seal shows.
        return self.seals.seal(_CURSOR, f"{cursor.epoch}:{cursor.version:019}-{cursor.term}".rstrip("-"))

    async def cursor_from(self, text: object) -> Cursor | None:
        """Returns the earliest cursor in `text`, one a line (sealed, if `policy.asks`); None if one is unknown."""
        lines = text.split("\n") if isinstance(text, str) else []
        if len(lines) > self.policy.limits.streams_per_client:
            return None
        found = [Cursor.parse(await self.seals.open(_CURSOR, line) if self.policy.asks else line) for line in lines]
        known = [cursor for cursor in found if cursor is not None]
        if len(known) < len(lines) or len({cursor.epoch for cursor in known}) != 1:
            return None
        return min(known)

    async def since(self, cursor: Cursor, wanted: Callable[[Change], bool] = lambda change: True) -> list[Entry] | None:
        """Returns the changes after `cursor` that are `wanted`; None if that cannot be known."""
        try:
            return await self.entries_since(cursor, wanted)
        except errors.TransportError as error:
            logger.warning("The changes since %s cannot be read: %s", cursor, error)
            return None

    async def entries_since(self, cursor: Cursor, wanted: Callable[[Change], bool]) -> list[Entry] | None:
        """Returns the same. Raises `TransportError` if the bus cannot be asked now."""
        entries = await self.bus.since(cursor)
        if entries is None or any(change == EVERYTHING for _, change in entries):
            return None
        return [(place, change) for place, change in entries if wanted(change) and not _is_notice(change)]

    async def catch_up(
        self, subscriber: Subscriber, since: Cursor, wanted: Callable[[Change], bool]
    ) -> list[Entry] | None:
        """Puts what was missed at the front of a stream. Returns None if that is lost, or too much."""
        missed = await self.since(since, wanted)
        if missed is None or len(missed) > max(self.policy.limits.backlog, len(subscriber.subscriptions)):
            return None
        subscriber.replay(Frame(place, change, self.cursor_text(place)) for place, change in missed)
        return missed

    def revoked(self, principal: str) -> None:
        self.last_revoked = asyncio.get_running_loop().time()
        for subscriber in self.hub:
            if principal in ("", subscriber.principal):
                subscriber.end(errors.NotAuthorized(_RIGHTS_CHANGED))

    async def aclose(self) -> None:
        """Stops giving changes to the bus. Those that fail from now on are kept, too."""
        self._closed = True
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])
        if self._unsent:
            logger.error("%d changes could not be published before the stop.", len(self._unsent))

    def unwrapped(self) -> None:
        """Notes that a stream came through an HTTP app that is not wrapped. Warns once."""
        self._on_unwrapped()
        if not self._warned:
            self._warned = True
            logger.warning(
                "This app is not wrapped: changes cost more, legacy clients miss what changes while their event stream "
                "is not open, and their streams do not end with their rights. Serve attach(server).wrap(app), or the "
                "app that asgi() returns."
            )

    def admit(self, client_key: str, **amounts: int) -> Place:
        """Returns a place in the budget for somebody new. Raises `LimitReached`."""
        if self.stopping:
            raise stopping()
        return self.budget.take(client_key, **amounts)

    @property
    def trouble(self) -> str:
        """The reason why no subscribers are accepted now; empty if they are."""
        return stopping().message if self.stopping else self.cut_off

    def check_bus(self) -> None:
        if self.cut_off:
            raise self._unavailable()

    def check_rights(self, began: float) -> None:
        """Raises `NotAuthorized` if rights were revoked since a request began, by the clock of the event loop."""
        if self.last_revoked >= began:
            raise errors.NotAuthorized(_RIGHTS_CHANGED)

    def join(self, subscriber: Subscriber) -> None:
        self.hub.add(subscriber)
        measure("tidings.subscribers", +1)
        self._span_each("subscribe", subscriber, subscriber.subscriptions)
        for feature in subscriber.features:
            _record_span("subscribe", self.hub.count(feature), client=subscriber.client, feature=feature)

    def leave(self, subscriber: Subscriber) -> None:
        if self.hub.remove(subscriber):
            measure("tidings.subscribers", -1)
            _record_span("cleanup_client", len(self.hub), client=subscriber.client)

    async def subscribe(self, subscriber: Subscriber, subscription: str) -> None:
        """Adds a subscription, and waits until it is `watched`. Removes it if that fails and no other has it."""
        is_new = self.hub.subscribe(subscriber, subscription)
        self._span_each("subscribe", subscriber, [subscription])
        key, me = (subscriber, subscription), object()
        asking = self._asking.setdefault(key, set()) if is_new else self._asking.get(key, set())
        asking.add(me)
        try:
            await self.watched([subscription])
        except BaseException:
            asking.discard(me)
            if not asking and self._asking.get(key) is asking:
                del self._asking[key]
                self.unsubscribe(subscriber, subscription)
            raise
        if self._asking.get(key) is asking:
            del self._asking[key]

    def unsubscribe(self, subscriber: Subscriber, subscription: str) -> None:
        if subscriber not in self.hub:
            subscriber.discard(subscription)
        elif self.hub.unsubscribe(subscriber, subscription):
            self._span_each("unsubscribe", subscriber, [subscription])

    def _span_each(self, what: str, subscriber: Subscriber, subscriptions: Iterable[str]) -> None:
        for uri in subscriptions:
            _record_span(what, self.hub.count(uri), client=subscriber.client, uri=uri)

    async def watched(self, subscriptions: Iterable[str]) -> None:
        """Waits until the hooks have run. Raises one of `TOLD`, or `LimitReached` if the server stops."""
        try:
            settled = await self.hooks.settled(subscriptions, unless=self._stop)
        except TOLD:
            raise
        except Exception as error:
            raise errors.SourceUnavailable("This resource cannot be watched at present. Try again later.") from error
        if not settled:
            raise stopping()

    @asynccontextmanager
    async def joined(self, subscriber: Subscriber, *, until: BorrowedStream | None = None) -> AsyncGenerator[None]:
        """Registers the subscriber of a listen stream until the context ends, or the stream `until` is over."""
        if self.stopping:
            raise stopping()
        self._streams += 1
        self.streams_ended.clear()
        self.join(subscriber)
        if until is not None:
            until.when_over(partial(self._gone, subscriber))
        try:
            yield
        finally:
            if until is None:
                self._gone(subscriber)

    def _gone(self, subscriber: Subscriber) -> None:
        self.leave(subscriber)
        subscriber.gone()
        self._streams -= 1
        if not self._streams:
            self.streams_ended.set()


def _record_span(name: str, count: int, *, client: str, **attributes: str) -> None:
    """Records something that has just been done, which leaves `count` subscribers (in all, or of what it names)."""
    about = {_NAMES[key]: value for key, value in attributes.items()}
    span = start_span(f"change_notifier.{name}", {"tidings.client": client, **about, _COUNT: count})
    if span is not None:
        safely(name, span.end)


def record_delivery(deliver: Callable[[], int], change: Change, meta: Mapping[str, Any] | None) -> None:
    """Calls `deliver`, and records it: with the `meta` of a change, in the trace of its publisher."""
    if isinstance(change, ResourceUpdated):
        name, about = "change_notifier.notify_resource_updated", {_NAMES["uri"]: change.uri}
    else:
        name, about = "change_notifier.notify_list_changed", {_NAMES["feature"]: FEATURE_OF[change]}
    span = start_span(name, about, None if meta is None else trace_of(meta))
    began = time.perf_counter()
    try:
        count = deliver()
        measure("tidings.deliveries", count)
        measure("tidings.delivery.duration", time.perf_counter() - began)
        if count and meta is not None:
            measure("tidings.delivery.lag", max(time.time() - meta[TIMES_KEY]["published"], 0.0))
        if span is not None:
            safely(name, span.set_attribute, _COUNT, count)
    finally:
        if span is not None:
            safely(name, span.end)


def _is_notice(change: Change | None) -> TypeGuard[ResourceUpdated]:
    return isinstance(change, ResourceUpdated) and change.uri.startswith(NOTICE)


@contextmanager
def rpc_errors(ctx: RequestContext, *, not_found: int = types.INVALID_PARAMS) -> Generator[None]:
    """Turns named errors into JSON-RPC errors: see `rpc_error`. If there is no room at present, HTTP says so, too."""
    try:
        yield
    except errors.TidingsError as error:
        exchange = _exchange_of(ctx)
        if exchange is not None and isinstance(error, errors.LimitReached | errors.BusUnavailable):
            exchange.refuse(error, ctx.request_id)
        raise rpc_error(error, not_found=not_found) from error


def rpc_error(error: errors.TidingsError, *, not_found: int = types.INVALID_PARAMS) -> MCPError:
    """Returns a named error as a JSON-RPC error. `not_found` is the era's code for a missing resource."""
    is_invalid = isinstance(error, errors.InvalidUri | errors.NotSubscribable)
    code = types.INVALID_PARAMS if is_invalid else types.INTERNAL_ERROR
    code = not_found if isinstance(error, errors.ResourceNotFound) else code
    return MCPError(code=code, message=error.message, data=error_data(error))


def scope_of(ctx: RequestContext) -> Scope | None:
    """Returns the scope of a request, if it came over HTTP."""
    return None if ctx.request is None else ctx.request.scope


def weight_of(ctx: RequestContext) -> int:
    """Returns the bytes that a request takes for as long as it is kept, if it came through the wrapper."""
    exchange = _exchange_of(ctx)
    return 0 if exchange is None else exchange.weight


def _exchange_of(ctx: RequestContext) -> HttpExchange | None:
    return (scope_of(ctx) or {}).get(EXCHANGE_KEY)


def invalid_params(method: str, error: ValidationError) -> MCPError:
    """Returns the error for parameters of the wrong shape. It names them, and does not repeat their values."""
    return MCPError(types.INVALID_PARAMS, f"Invalid parameters for {method}: {problems(error, 'params')}")


def problems(error: ValidationError, unnamed: str = "value", depth: int | None = None) -> str:
    """Returns what is wrong, without the values that were given."""
    found = error.errors(include_url=False, include_input=False)[:5]
    return "; ".join(f"{'.'.join(map(str, item['loc'][:depth])) or unnamed}: {item['msg']}" for item in found)
