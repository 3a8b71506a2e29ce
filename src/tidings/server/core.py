"""What both eras share: the log of changes, the hub, and who may join it.

Named errors as JSON-RPC errors.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from pydantic import ValidationError

from tidings.bus import Bus
from tidings.changes import Change, Cursor, ResourceUpdated
from tidings.errors import (
    InvalidUri,
    LimitReached,
    NotSubscribable,
    ResourceNotFound,
    SourceUnavailable,
    TidingsError,
    TransportError,
)
from tidings.server.hooks import TOLD, Hooks
from tidings.server.hub import Hub
from tidings.server.notify import Times
from tidings.server.policy import RequestContext, SubscriptionPolicy
from tidings.server.subscriber import FEATURES, Frame, Subscriber
from tidings.server.telemetry import Telemetry

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 0.5
_FEATURE_OF = {change: feature for feature, change in FEATURES.items()}


class Core:
    """The subscribers of one server process, and the bus they hear from."""

    def __init__(self, bus: Bus, policy: SubscriptionPolicy) -> None:
        self.bus = bus
        self.policy = policy
        self.hooks = Hooks()
        self.telemetry = Telemetry()
        self.times = Times()
        self.hub = Hub(on_first=self.hooks.first, on_last=self.hooks.last)
        self.position = bus.head
        self.stopping = False
        self._stop: asyncio.Future[None] | None = None
        self.streams_ended = asyncio.Event()
        """Set while no listen stream is open."""
        self._streams_of: Counter[str] = Counter()
        self._asking: dict[tuple[Subscriber, str], set[object]] = {}
        """Of each subscription that nobody was told of yet: the requests that wait to be."""
        self.on_unwrapped: Callable[[], None] = lambda: None
        """Called for each stream that came without the wrapper."""
        self._warned = False
        # Each failure has an object of its own: it tells whether an equal change has failed since.
        self._unsent: dict[Change, object] = {}
        self._sender: asyncio.Task[None] | None = None

    # Changes

    def start(self) -> Callable[[], None]:
        """The bus is entered: hear of what it carries from now on. What this returns ends that."""
        self.position = self.bus.head
        self.stopping = False
        self._stop = asyncio.get_running_loop().create_future()
        self.streams_ended = asyncio.Event()
        self.streams_ended.set()
        if self._unsent:
            self._start_sender()
        return self.bus.subscribe(self.heard)

    def begin_stop(self) -> None:
        """Take on nobody from now on; whoever waits to be taken on is told to come back."""
        self.stopping = True
        if self._stop is not None and not self._stop.done():
            self._stop.set_result(None)

    def heard(self, cursor: Cursor, change: Change | None) -> None:
        """The bus has `change`: hand it to those who asked for it."""
        self.position = cursor
        if change is None:
            logger.warning("the log of changes was lost; %d subscribers are told to read again", len(self.hub))
            self.hub.deliver_everything(cursor)
            return
        with self._span(change) as delivered:
            delivered(self.hub.deliver(Frame(cursor, change, times=self.times.take(change))))

    def _span(self, change: Change) -> AbstractContextManager[Callable[[int], None]]:
        if isinstance(change, ResourceUpdated):
            return self.telemetry.delivering("notify_resource_updated", uri=change.uri)
        return self.telemetry.delivering("notify_list_changed", feature=_FEATURE_OF[change])

    async def publish(self, change: Change) -> None:
        """Give `change` to the bus. If the bus is out of reach, it is kept and given to it later."""
        self.times.publishing(change)
        try:
            await self.bus.publish(change)
        except TransportError as error:
            if not self._unsent:
                logger.warning("changes wait, and are published when the bus is back: %s", error)
            self._keep(change)
        except asyncio.CancelledError:
            self._keep(change)  # It may be in the log or not; to publish it twice does no harm.
            raise

    def _keep(self, change: Change) -> None:
        self._unsent[change] = object()
        self._start_sender()

    def _start_sender(self) -> None:
        if self._sender is None or self._sender.done():
            self._sender = asyncio.get_running_loop().create_task(self._send_later())

    async def _send_later(self) -> None:
        while self._unsent:
            await asyncio.sleep(_RETRY_SECONDS)
            for change, failure in tuple(self._unsent.items()):
                try:
                    await self.bus.publish(change)
                except TransportError:
                    break
                if self._unsent[change] is failure:
                    del self._unsent[change]
        logger.warning("the bus is back, and has all the changes that waited")

    async def since(self, cursor: Cursor, wanted: Callable[[Change], bool] = lambda change: True) -> list[Frame] | None:
        """What changed after `cursor` and is `wanted`, or None if that cannot be known."""
        try:
            entries = await self.bus.since(cursor)
        except TransportError as error:
            logger.warning("cannot say what changed since %s: %s", cursor, error)
            return None
        return None if entries is None else [Frame(place, change) for place, change in entries if wanted(change)]

    async def aclose(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])
        if self._unsent:
            logger.error("%d changes could not be published before the stop", len(self._unsent))

    def unwrapped(self) -> None:
        """An HTTP app serves this server without the wrapper that lends its streams."""
        self.on_unwrapped()
        if not self._warned:
            self._warned = True
            logger.warning(
                "this app is not wrapped: changes cost more, and old-era clients miss what changes while their event "
                "stream is not open. Serve attach(server).wrap(app), or the app as asgi() made it."
            )

    # Subscribers

    def check_room(self, client_key: str | None = None) -> None:
        """Whether one more subscriber is taken on now.

        Raises:
            LimitReached: Not now.
        """
        if self.stopping:
            raise _stopping()
        self.policy.check_room(len(self.hub), self._streams_of[client_key] if client_key else 0)

    def has_room(self) -> bool:
        """Whether one more subscriber would be taken on now."""
        try:
            self.check_room()
        except LimitReached:
            return False
        return True

    def join(self, subscriber: Subscriber) -> None:
        """Register `subscriber`; from now on it hears of what it asked for."""
        self.hub.add(subscriber)
        self.telemetry.joined()
        self._tell("subscribe", subscriber, subscriber.subscriptions)
        for feature in subscriber.features:
            self.telemetry.span("subscribe", client=subscriber.client, feature=feature, subscriber_count=len(self.hub))

    def leave(self, subscriber: Subscriber) -> None:
        """Forget `subscriber`. Twice is once."""
        if self.hub.remove(subscriber):
            self.telemetry.left()
            self.telemetry.span("cleanup_client", client=subscriber.client, subscriber_count=len(self.hub))

    async def subscribe(self, subscriber: Subscriber, subscription: str) -> None:
        """Let a registered `subscriber` hear of one more thing.

        Raises:
            SourceUnavailable: What it would hear of cannot be watched.
            LimitReached: The server stops.
        """
        is_new = self.hub.subscribe(subscriber, subscription)
        self._tell("subscribe", subscriber, [subscription])
        with self._asking_for(subscriber, subscription, is_new=is_new):
            await self.watched([subscription])

    @contextmanager
    def _asking_for(self, subscriber: Subscriber, subscription: str, *, is_new: bool) -> Generator[None]:
        """A request for `subscription` waits in here. If it is refused or cancelled, it takes the subscription back,
        unless that stands without it: it was there before, or an equal request has succeeded, or still waits.
        """
        key, me = (subscriber, subscription), object()
        asking = self._asking.setdefault(key, set()) if is_new else self._asking.get(key, set())
        asking.add(me)
        try:
            yield
        except BaseException:
            asking.discard(me)
            if not asking and self._asking.get(key) is asking:
                del self._asking[key]
                self.unsubscribe(subscriber, subscription)
            raise
        if self._asking.get(key) is asking:
            del self._asking[key]

    def unsubscribe(self, subscriber: Subscriber, subscription: str) -> None:
        """Let `subscriber`, which may have left meanwhile, hear of one thing less."""
        if subscriber not in self.hub:
            subscriber.subscriptions.discard(subscription)
        elif self.hub.unsubscribe(subscriber, subscription):
            self._tell("unsubscribe", subscriber, [subscription])

    def _tell(self, what: str, subscriber: Subscriber, subscriptions: Iterable[str]) -> None:
        for uri in subscriptions:
            self.telemetry.span(what, client=subscriber.client, uri=uri, subscriber_count=len(self.hub))

    async def watched(self, subscriptions: Iterable[str]) -> None:
        """Wait until the sources of `subscriptions` are watched, where a hook does that.

        Raises:
            SourceUnavailable: A hook failed. It was logged; the client learns only that it may try again.
            ResourceNotFound, NotSubscribable: A hook says so.
            LimitReached: The server stops, and does not wait for hooks.
        """
        try:
            settled = await self.hooks.settled(subscriptions, unless=self._stop)
        except TOLD:
            raise
        except Exception as error:
            raise SourceUnavailable("This resource cannot be watched at present. Try again later.") from error
        if not settled:
            raise _stopping()

    @asynccontextmanager
    async def joined(self, subscriber: Subscriber, client_key: str) -> AsyncGenerator[None]:
        """`subscriber` is registered in here, and counts for the client named by `client_key`.

        Raises:
            LimitReached: There is no room for it.
        """
        self.check_room(client_key)
        self._streams_of[client_key] += 1
        self.streams_ended.clear()
        self.join(subscriber)
        try:
            yield
        finally:
            self.leave(subscriber)
            subscriber.gone()
            self._streams_of[client_key] -= 1
            if not self._streams_of[client_key]:
                del self._streams_of[client_key]
            if not self._streams_of:
                self.streams_ended.set()


def _stopping() -> LimitReached:
    return LimitReached("This server is stopping. Connect again in a moment.", data={"limit": "stopping"})


def client_name(ctx: RequestContext) -> str:
    """What to call the sender of a request, for people: its name and version, and where it is."""
    params = ctx.session.client_params
    name = f"{params.client_info.name} {params.client_info.version}".strip() if params else "unnamed client"
    address = ctx.request.client if ctx.request is not None else None
    return f"{name} at {address.host}:{address.port}" if address else name


def client_key(ctx: RequestContext) -> str:
    """What tells clients apart for limits: who is signed in, else the network address. Pipes are one client."""
    if ctx.request is None:
        return "a pipe"
    user = ctx.request.scope.get("user")
    if isinstance(user, AuthenticatedUser):
        return repr(authorization_context(user))
    return ctx.request.client.host if ctx.request.client else "unknown address"


@contextmanager
def rpc_errors(*, not_found: int) -> Generator[None]:
    """Turn named errors into JSON-RPC errors; `not_found` is the era's code for a resource that is not there."""
    try:
        yield
    except TidingsError as error:
        raise MCPError(code=_code(error, not_found), message=error.message, data=_data(error)) from error


def _code(error: TidingsError, not_found: int) -> int:
    match error:
        case ResourceNotFound():
            return not_found
        case InvalidUri() | NotSubscribable():
            return INVALID_PARAMS
        case _:
            return INTERNAL_ERROR


def _data(error: TidingsError) -> dict[str, Any]:
    return {"code": error.code, "retryable": error.retryable, **(error.data or {})}


def invalid_params(method: str, error: ValidationError) -> MCPError:
    """The error for parameters of the wrong shape, which says what is wrong with which. The values are not repeated."""
    details = [f"{'.'.join(map(str, item['loc'])) or 'params'}: {item['msg']}" for item in error.errors()[:5]]
    return MCPError(code=INVALID_PARAMS, message=f"Invalid parameters for {method}: {'; '.join(details)}")
