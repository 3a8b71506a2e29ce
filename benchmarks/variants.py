"""The servers that are measured: each an ASGI app and a way to publish that a URI changed.

The stock SDK's are what an author writes today; its limits are raised where they would refuse the measurement.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from mcp.server import MCPServer
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp_types import EmptyResult, SubscribeRequestParams, SubscriptionsListenRequestParams

SESSIONS: Final = 20_000
SERVED: Final = "bench://{+name}"
LEAVING: Final = "bench://leaving"

Publish = Callable[[str], Awaitable[object]]


@dataclass(frozen=True)
class Variant:
    """A server under test."""

    app: Any
    publish: Publish
    asked: Callable[[], int] = lambda: 0
    """How often the records of its bus were asked for something."""


def _read(name: str) -> str:
    return name


def sdk_modern() -> Variant:
    """The SDK's own bus and listen handler."""
    bus = InMemorySubscriptionBus()
    server = MCPServer("bench", subscriptions=bus, log_level="ERROR")
    server.resource(SERVED)(_read)
    # MCPServer has no setting for the number of streams; 1,024 is the handler's own.
    server._lowlevel_server.add_request_handler(  # pyright: ignore[reportPrivateUsage]
        "subscriptions/listen", SubscriptionsListenRequestParams, ListenHandler(bus, max_subscriptions=SESSIONS)
    )
    app = server.streamable_http_app(max_sessions=SESSIONS)
    return Variant(app, lambda uri: bus.publish(ResourceUpdated(uri)))


def sdk_legacy() -> Variant:
    """The SDK has no subscribers of the legacy era; this is the registry that one writes by hand."""
    server = MCPServer("bench", log_level="ERROR")
    server.resource(SERVED)(_read)
    subscribers: dict[str, set[ServerSession]] = {}

    async def subscribe(ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams) -> EmptyResult:
        subscribers.setdefault(str(params.uri), set()).add(ctx.session)
        return EmptyResult()

    async def publish(uri: str) -> None:
        for session in list(subscribers.get(uri, ())):
            await session.send_resource_updated(uri)

    server._lowlevel_server.add_request_handler(  # pyright: ignore[reportPrivateUsage]
        "resources/subscribe", SubscribeRequestParams, subscribe
    )
    return Variant(server.streamable_http_app(max_sessions=SESSIONS), publish)


def tidings(
    *, merging: bool = False, hindered: bool = False, write_deadline: float = 30, bus: str | None = None
) -> Variant:
    """Tidings serves both eras from one app. Unless `merging`, each publish is its own delivery, as the SDK's is.

    When it is `hindered`, each change but the first is held back, and the source of `LEAVING` is slow to be let go.
    """
    # Imported here: the SDK's servers must not carry it.
    from tidings import LiveServer
    from tidings.bus.memory import MemoryBus
    from tidings.bus.urls import bus_from_url
    from tidings.server import Coalesce, Limits, Waking

    most = 2 * SESSIONS  # All readers have one address, which gets at most half.
    used = bus_from_url(bus) if bus is not None else MemoryBus()
    server = LiveServer(
        "bench",
        bus=used,
        coalesce=Coalesce(30, 30) if hindered else Coalesce() if merging else Coalesce(window=0, max_wait=0),
        limits=Limits(
            streams=most, streams_per_client=most, sessions=most, memory=8_000_000_000, write_deadline=write_deadline
        ),
        waking=Waking(waits_per_client=most),
        log_level="ERROR",
    )
    server.resource(SERVED)(_read)
    if hindered:
        server.on_last_subscriber(LEAVING)(lambda: asyncio.sleep(60))

    async def publish_soon(uri: str) -> None:
        server.notify.soon(ResourceUpdated(uri))  # The bus is locked, and whoever waited for it would wait for long.

    publish = publish_soon if hindered else server.notify.resource_updated
    return Variant(server.asgi(max_sessions=SESSIONS), publish, _counting(used))


def _counting(bus: Any) -> Callable[[], int]:
    """Counts what the records of a bus are asked for."""
    asked = 0
    records = bus.records

    def counting(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal asked
            asked += 1
            return call(*arguments, **options)

        return counted

    for name in ("get", "put", "delete"):
        setattr(records, name, counting(getattr(records, name)))
    return lambda: asked


def callee() -> Variant:
    """What clients call."""
    from benchmarks.callee import Callee

    called = Callee()
    return Variant(called.mcp.asgi(), called.change)


VARIANTS: Final[dict[str, Callable[..., Variant]]] = {
    "sdk-modern": sdk_modern,
    "sdk-legacy": sdk_legacy,
    "tidings": tidings,
    "callee": callee,
}
