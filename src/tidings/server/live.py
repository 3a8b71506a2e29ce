"""`Live`: what makes a server live. `attach()` puts one on a server that exists, `LiveServer` is born with one."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar, cast

import anyio
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel.server import Server
from mcp_types import SubscribeRequestParams, SubscriptionsListenRequestParams, UnsubscribeRequestParams
from pydantic import ValidationError

from tidings.bus import Bus
from tidings.bus.memory import MemoryBus
from tidings.server.adapters import Adapter
from tidings.server.borrowed_stream import ASGIApp, BorrowedStream, Borrowing
from tidings.server.coalesce import Coalescer
from tidings.server.config import Coalesce, CoalesceSetting, Limits, check_decorated
from tidings.server.core import Core, invalid_params
from tidings.server.hooks import Hook
from tidings.server.legacy import LegacyEra
from tidings.server.modern import ModernEra
from tidings.server.notify import Notifier
from tidings.server.policy import Authorize, RequestContext, SubscriptionPolicy
from tidings.server.stdio import serve_stdio
from tidings.server.stop import BUS, DRAIN, END, FLUSH, HOOKS, StopBudget, StopSignals
from tidings.server.subscriber import FEATURES, Subscriber

logger = logging.getLogger(__name__)

HookT = TypeVar("HookT", bound=Hook)

_SUBSCRIPTION_METHODS = frozenset({"subscriptions/listen", "resources/subscribe", "resources/unsubscribe"})
_LOOK_SECONDS = 0.02


class Live:
    """Subscriptions and change notifications for one server, in both eras and on every transport."""

    def __init__(
        self,
        adapter: Adapter,
        *,
        bus: Bus | None = None,
        coalesce: CoalesceSetting = Coalesce(),  # noqa: B008 - a frozen value
        limits: Limits = Limits(),  # noqa: B008 - a frozen value
        authorize: Authorize | None = None,
        subscribable: Sequence[str] | None = None,
        notifier: type[Notifier] = Notifier,
    ) -> None:
        self._server = adapter.lowlevel
        self._bus = bus if bus is not None else MemoryBus()
        self._coalesce = coalesce
        policy = SubscriptionPolicy(
            limits=limits, authorize=authorize, subscribable=subscribable, missing=adapter.missing
        )
        self._core = Core(self._bus, policy)
        self._legacy = LegacyEra(self._core, self)
        self._modern = ModernEra(self._core)
        self._coalescer: Coalescer | None = None
        self._signals = StopSignals(self._begin_close)
        self._core.on_unwrapped = partial(self._signals.install, only_if_handled=True)
        self._users = 0
        self._turn = anyio.Lock()
        self._unsubscribe: Callable[[], None] = lambda: None
        self._closing: asyncio.Task[None] | None = None
        self._budget: StopBudget
        self.notify: Notifier = notifier(self._core.hub, self._core.times)
        """Says that something changed, and sees who listens."""
        self._take_over(self._server)
        adapter.watch(self.notify.soon)

    def _take_over(self, server: Server[Any]) -> None:
        """Serve the subscription methods of `server`, and run for as long as it does."""
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self._modern.listen)
        server.add_request_handler("resources/subscribe", SubscribeRequestParams, self._legacy.subscribe)
        server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self._legacy.unsubscribe)
        server.middleware.append(self._middleware)
        theirs = server.lifespan

        @asynccontextmanager
        async def lifespan(server: Server[Any]) -> AsyncGenerator[Any]:
            async with self.running(), theirs(server) as state:
                yield state

        server.lifespan = lifespan

    async def _middleware(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        try:
            result = await call_next(ctx)
        except ValidationError as error:
            if ctx.method in _SUBSCRIPTION_METHODS:
                raise invalid_params(ctx.method, error) from error
            raise
        if ctx.method == "initialize":
            self._legacy.advertise(ctx, cast("dict[str, Any]", result))
        elif ctx.method == "notifications/initialized":
            self._legacy.initialized(ctx)
        return result

    # For users

    def on_first_subscriber(self, pattern: str) -> Callable[[HookT], HookT]:
        """Call what this decorates when somebody begins to listen to a resource that nobody listened to.

        It is called with the variables of `pattern` (a URI, a prefix or a template), and with the subscription itself
        if it has a parameter `uri`. It may be async. The subscriber is told that it is subscribed when the call is
        over, so nothing is missed that is watched from then on. If it raises, the subscription is refused; of what it
        raises, only `ResourceNotFound`, `NotSubscribable` and `SourceUnavailable` of `tidings.errors` are shown to
        the subscriber. A prefix arrives as it is: `feed://*` matches `feed://{id}` as `id="*"`.
        """
        check_decorated("on_first_subscriber", pattern)

        def register(hook: HookT) -> HookT:
            self._core.hooks.on_first(pattern, hook)
            return hook

        return register

    def on_last_subscriber(self, pattern: str) -> Callable[[HookT], HookT]:
        """Call what this decorates when nobody listens any more to a resource that somebody listened to.

        It is called also after an `on_first_subscriber` that raised: to tidy up what that had begun.
        """
        check_decorated("on_last_subscriber", pattern)

        def register(hook: HookT) -> HookT:
            self._core.hooks.on_last(pattern, hook)
            return hook

        return register

    def also_serves(self, owns: Callable[[str], bool]) -> None:
        """Let those URIs and prefixes be subscribed to, too, of which `owns` says that they are served."""
        policy = self._core.policy
        registered = policy.missing

        def missing(subscriptions: Sequence[str]) -> list[str]:
            return [text for text in registered(subscriptions) if not owns(text)]

        policy.missing = missing

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """`app`, which serves this server over HTTP, with its streams borrowed: quicker, and no change is lost."""
        return Borrowing(app, self)

    async def run_stdio_async(self) -> None:
        """Serve over standard input and output until the input ends or the process is asked to stop."""
        await serve_stdio(self._server, self.aclose)

    async def aclose(self) -> None:
        """Publish what is held back, write what waits, and end every stream with its result. Twice is once.

        Whoever does not read is cut off: this takes less than a second. New subscribers are refused, and told to come
        back, until the server runs again.
        """
        await asyncio.shield(self._begin_close())

    # The server's life

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Live while somebody is in here: the SDK, once for an HTTP app and once for each other connection."""
        async with self._turn:
            if self._users == 0:
                await self._start()
            self._users += 1
        try:
            yield
        finally:
            # Shielded: whoever leaves because it was cancelled still has to leave everything in order.
            with anyio.CancelScope(shield=True):
                async with self._turn:
                    self._users -= 1
                    if self._users == 0:
                        await self._stop()

    async def _start(self) -> None:
        await self._bus.__aenter__()
        self._closing = None
        self._unsubscribe = self._core.start()
        self._coalescer = Coalescer(
            self._core.publish,
            self._coalesce,
            clock=asyncio.get_running_loop(),
            merged=self._core.telemetry.merged,
        )
        if self._bus.head.version:
            # Whoever was here before a restart has a cursor; that the program now has other lists is news to it.
            for change in FEATURES.values():
                await self._core.publish(change)
        self.notify.start(self._coalescer.submit)

    async def _stop(self) -> None:
        await self.aclose()
        self._signals.uninstall()
        self._unsubscribe()
        await self._core.hooks.finish(self._budget.left(HOOKS))
        await _at_most(self._budget.left(BUS), self._leave_bus(), "the bus does not let go")

    async def _leave_bus(self) -> None:
        await self._core.aclose()
        await self._bus.__aexit__(None, None, None)

    def _begin_close(self) -> asyncio.Task[None]:
        if self._closing is None:
            loop = asyncio.get_running_loop()
            self._budget = StopBudget(loop.time)
            self._closing = loop.create_task(self._close(self._budget))
        return self._closing

    async def _close(self, budget: StopBudget) -> None:
        core = self._core
        core.begin_stop()
        await _at_most(budget.left(FLUSH), self._flush(), "the bus does not take what is held back")
        subscribers = tuple(core.hub)
        # Noted now: the SDK ends some by itself at a stop, and the rest of those has to be read too.
        streams = [subscriber.stream for subscriber in subscribers if subscriber.stream is not None]
        busy = [subscriber for subscriber in subscribers if subscriber.busy]
        # Whoever has everything is let go at once: a web server that stops may not wait for the others.
        for subscriber in set(subscribers).difference(busy):
            subscriber.end()
        try:
            async with asyncio.timeout(budget.left(DRAIN)):
                await asyncio.gather(*map(_end_drained, busy))
        except TimeoutError:
            for subscriber in busy:
                _cut_short(subscriber)
        await self._end(subscribers, streams, budget)

    async def _flush(self) -> None:
        await self.notify.stop()
        if self._coalescer is not None:
            await self._coalescer.flush()

    async def _end(
        self, subscribers: Sequence[Subscriber], streams: Sequence[BorrowedStream], budget: StopBudget
    ) -> None:
        for subscriber in subscribers:
            subscriber.end()
        try:
            async with asyncio.timeout(budget.left(END)):
                await self._core.streams_ended.wait()
                # No event says that the system has taken the last of it.
                while any(stream.unsent for stream in streams):  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            logger.warning("some streams did not end in time: their readers do not read")
            # A web server that waits for them to be read would wait for ever.
            for stream in streams:
                stream.drop()

    # For the wrapper: see `borrow.Lender`

    def stream_started(self, stream: BorrowedStream) -> None:
        self._signals.install(only_if_handled=True)
        stream.give_up_after(self._core.policy.limits.liveness)

    def stream_opened(self, session_id: str, stream: BorrowedStream) -> None:
        self._legacy.stream_opened(session_id, stream)

    def stream_closed(self, stream: BorrowedStream) -> None:
        self._legacy.stream_closed(stream)


async def _end_drained(subscriber: Subscriber) -> None:
    await subscriber.drain()
    subscriber.end()


def _cut_short(subscriber: Subscriber) -> None:
    """End the stream of a reader that has not taken everything in time."""
    if subscriber.busy:
        stream = subscriber.stream
        subscriber.cut("the server stops, and it does not read")
        if stream is not None:
            stream.drop()  # The SDK may have ended it meanwhile, so that there was nothing to cut.


async def _at_most(seconds: float, work: Coroutine[Any, Any, None], otherwise: str) -> None:
    """Do `work`, and wait for it for `seconds`; what takes longer goes on by itself."""
    task = asyncio.get_running_loop().create_task(work)
    _, late = await asyncio.wait([task], timeout=seconds)
    if late:
        logger.warning("%s; the stop does not wait for it", otherwise)
    else:
        task.result()
