"""The handshake era (2024-11-05 to 2025-11-25): `resources/subscribe`, and notifications on the session's own stream.

Every session hears of list changes from its handshake on, and of the resources it subscribes to. Over HTTP its
notifications travel on an event stream that the client opens beside its requests, loses and opens again. While there
is no stream, what changes is kept, the newest for each thing. When a stream comes back, nobody knows how much of the
old one arrived, so the session is told of everything it subscribed to.

A session that has had no stream for `Limits.liveness` seconds is *parked*: it is no longer a subscriber. It is
remembered until the SDK ends it, and joins again, as above, when its client opens a stream.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from mcp.server.connection import Connection
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST, EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from tidings._kit.tasks import Background
from tidings.errors import LimitReached, TidingsError
from tidings.server.borrowed_stream import WRAPPED_KEY, BorrowedStream
from tidings.server.core import Core, client_name, rpc_errors
from tidings.server.hooks import TOLD
from tidings.server.policy import RequestContext
from tidings.server.subscriber import FEATURES, Frame, Subscriber

logger = logging.getLogger(__name__)

RESOURCE_NOT_FOUND: Final = -32002
"""This era's code for a resource that is not there."""

_ALL: Final = frozenset(FEATURES)


class LegacySession(Subscriber):
    """One old-era connection. Over HTTP it is written to through its borrowed stream, elsewhere through the SDK."""

    era = "legacy"
    __slots__ = ("_connection", "_liveness", "_may_have_missed", "_register", "key")

    def __init__(self, key: str, connection: Connection, register: "LegacyEra", **details: Any) -> None:
        super().__init__(features=_ALL, subscriptions=(), **details)
        self.key = key
        self._register = register
        self._connection = connection
        self._may_have_missed = False
        self._liveness: asyncio.TimerHandle | None = None

    @property
    def can_cut(self) -> bool:
        """Only a stream of its own can be cut; a pipe that carries everything else too is waited for."""
        return self.stream is not None

    def _encode(self, frame: Frame) -> bytes:
        return frame.legacy

    def _encode_chunk(self, frame: Frame) -> bytes:
        return frame.legacy_chunk

    async def _notify(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            await self._connection.notify(frame.method, frame.params())

    def _cut(self) -> None:
        if self.stream is not None:
            self.stream.abort()

    def end(self) -> None:
        if self.stream is not None:
            self.close()
            self.stream.finish()

    def held_beside(self, subscription: str) -> int:
        """How many other subscriptions there are."""
        return len(self.subscriptions) - (subscription in self.subscriptions)

    def begin(self, stream: BorrowedStream) -> bool:
        """Take over a stream. True if something may have been lost before: on an earlier stream, or while parked."""
        self._stop_waiting()
        may_have_missed, self._may_have_missed = self._may_have_missed, True
        self.stream = stream
        return may_have_missed

    def missed(self) -> None:
        """What changed for a while was not kept for this session."""
        self._may_have_missed = True

    def wait(self, seconds: float, park: Any) -> None:
        """There is no stream to write to; call `park` if none comes within `seconds`."""
        self.close()
        self._stop_waiting()
        self._liveness = asyncio.get_running_loop().call_later(seconds, park, self)

    def over(self, *_: object) -> None:
        """The connection is over: what the SDK calls when it is."""
        self._register.remove(self)

    def gone(self) -> None:
        self._stop_waiting()
        super().gone()

    def _stop_waiting(self) -> None:
        if self._liveness is not None:
            self._liveness.cancel()
            self._liveness = None


class LegacyEra:
    """Serves the old way of subscribing, and keeps the register of its sessions."""

    def __init__(self, core: Core, lender: object) -> None:
        self._core = core
        self._lender = lender
        self._sessions: dict[str, LegacySession] = {}
        self._spare: dict[str, tuple[BorrowedStream, ...]] = {}
        """Open streams that no session is written to through, by the id of their session."""
        self._background = Background()

    # The handshake

    def advertise(self, ctx: RequestContext, result: dict[str, Any]) -> None:
        """Say in the answer to `initialize` what is served: nothing, where a connection cannot be written to, or there
        is no room for another.
        """
        served = _connection(ctx).has_standalone_channel and self._core.has_room()
        capabilities: dict[str, dict[str, Any]] = result["capabilities"]
        for feature in FEATURES:
            if feature in capabilities:
                capabilities[feature]["listChanged"] = served
        if "resources" in capabilities:
            capabilities["resources"]["subscribe"] = served

    def initialized(self, ctx: RequestContext) -> None:
        """A client has completed its handshake: it hears of list changes from now on."""
        connection = _connection(ctx)
        if connection.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS or not connection.has_standalone_channel:
            return
        try:
            self._register(ctx, connection)
        except TidingsError as error:
            logger.warning("%s does not hear of changes: %s", client_name(ctx), error)

    def _register(self, ctx: RequestContext, connection: Connection) -> LegacySession:
        key = _key(ctx, connection)
        if (session := self._sessions.get(key)) is not None:
            return session
        core = self._core
        core.check_room()
        session = LegacySession(
            key,
            connection,
            self,
            client=client_name(ctx),
            transport=_transport(ctx, connection),
            limits=core.policy.limits,
            telemetry=core.telemetry,
            screen=core.policy.screen(ctx),
        )
        self._sessions[key] = session
        connection.exit_stack.push(session.over)
        core.join(session)
        if not self._has_stream_of_its_own(ctx):
            session.open()
        elif (stream := self._take_spare(key)) is not None:
            self._begin(session, stream)
        else:
            session.wait(core.policy.limits.liveness, self._park)
        return session

    def _has_stream_of_its_own(self, ctx: RequestContext) -> bool:
        if ctx.request is None:
            return False
        if ctx.request.scope.get(WRAPPED_KEY) is self._lender:
            return True
        self._core.unwrapped()
        return False

    def remove(self, session: LegacySession) -> None:
        """Forget a session whose connection is over."""
        self._sessions.pop(session.key, None)
        self._core.leave(session)
        session.gone()

    # Requests

    async def subscribe(self, ctx: RequestContext, params: SubscribeRequestParams) -> EmptyResult:
        """Serve `resources/subscribe`. Twice is once."""
        with rpc_errors(not_found=RESOURCE_NOT_FOUND):
            session = self._session(ctx)
            [subscription] = self._core.policy.check([params.uri], held=session.held_beside(params.uri))
            await self._core.policy.require(ctx, subscription)
            if session.key in self._sessions:  # The connection may have ended while somebody was asked.
                self._core.policy.check([subscription], held=session.held_beside(subscription))
                self._unpark(session)
                await self._core.subscribe(session, subscription)
        return EmptyResult()

    async def unsubscribe(self, ctx: RequestContext, params: UnsubscribeRequestParams) -> EmptyResult:
        """Serve `resources/unsubscribe`. What was not subscribed to is no error."""
        with rpc_errors(not_found=RESOURCE_NOT_FOUND):
            [subscription] = self._core.policy.check([params.uri])
            session = self._session(ctx)
            self._core.unsubscribe(session, subscription)
        return EmptyResult()

    def _session(self, ctx: RequestContext) -> LegacySession:
        connection = _connection(ctx)
        if not connection.has_standalone_channel:
            raise MCPError(
                INVALID_REQUEST,
                "Subscriptions need a session, and this server runs without (stateless_http=True). "
                "Use a client of the 2026-07-28 protocol, or a server with sessions.",
            )
        return self._register(ctx, connection)

    # Streams

    def stream_opened(self, session_id: str, stream: BorrowedStream) -> None:
        """The SDK has opened an event stream of a session. There can be several: a client may resume, on a stream of
        its own, the answer to a call that was broken off. The first that is open is written to.
        """
        session = self._sessions.get(session_id)
        if session is not None:
            session_id = stream.session_id = session.key  # One text for all, and not one for each.
        if session is not None and session.stream is None:
            self._begin(session, stream)
        else:
            self._spare[session_id] = (*self._spare.get(session_id, ()), stream)

    def _take_spare(self, session_id: str) -> BorrowedStream | None:
        """The newest of a session's open streams that is not in use."""
        *others, newest = self._spare.pop(session_id, (None,))
        if others:
            self._spare[session_id] = tuple(others)
        return newest

    def _begin(self, session: LegacySession, stream: BorrowedStream) -> None:
        self._unpark(session)
        if session.begin(stream):
            self._background.start(self._return(session, stream))
        else:
            session.open()

    async def _return(self, session: LegacySession, stream: BorrowedStream) -> None:
        """Open the stream of a session that may have missed something, once its sources are watched again."""
        try:
            await self._core.watched(tuple(session.subscriptions))
        except LimitReached:
            return  # The server stops.
        except TOLD as error:
            logger.warning("%s hears again of its subscriptions, but not all are watched: %s", session.client, error)
        if session.stream is stream:
            session.deliver_everything(self._core.position)
            session.open()

    def stream_closed(self, stream: BorrowedStream) -> None:
        """A stream is over; if it was that of a session, another may follow."""
        if stream.session_id is None:
            return
        session = self._sessions.get(stream.session_id)
        if session is not None and session.stream is stream:
            session.stream = None
            session.wait(self._core.policy.limits.liveness, self._park)
            if (other := self._take_spare(session.key)) is not None:
                self._begin(session, other)
        elif others := tuple(each for each in self._spare.pop(stream.session_id, ()) if each is not stream):
            self._spare[stream.session_id] = others

    def _park(self, session: LegacySession) -> None:
        logger.info("%s has had no event stream for a while, and no longer counts as a subscriber", session.client)
        self._core.leave(session)

    def _unpark(self, session: LegacySession) -> None:
        """Let a session join again if it is parked. Its next stream begins with everything it subscribed to."""
        if session not in self._core.hub:
            session.missed()
            self._core.join(session)
            session.wait(self._core.policy.limits.liveness, self._park)


def _connection(ctx: RequestContext) -> Connection:
    # The SDK shows handlers everything of their connection but the connection, which alone says when it ends.
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001


def _key(ctx: RequestContext, connection: Connection) -> str:
    """What names a session. Over HTTP it names its event stream too; with the SSE transport, each request tells it."""
    if connection.session_id is not None:
        return connection.session_id
    named = ctx.request.query_params.get("session_id") if ctx.request is not None else None
    return named or f"connection {id(connection)}"


def _transport(ctx: RequestContext, connection: Connection) -> str:
    if ctx.request is None:
        return "stream"
    return "sse" if connection.session_id is None else "streamable-http"
