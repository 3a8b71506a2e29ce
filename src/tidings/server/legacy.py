"""The legacy era (2024-11-05 to 2025-11-25): `resources/subscribe`, and notifications on the session's own stream.

Over HTTP, the client opens that stream beside its requests, loses and opens it again. Meanwhile the newest change of
each resource and list is kept. When it comes back, it is not known how much of the old one arrived, so the session is
notified of everything it subscribed to. A session without a stream for `Limits.liveness` seconds is *parked*: it no
longer counts as a subscriber, until its client opens one. Sessions on a shared bus: see `sessions.py`.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from tidings._kit.tasks import Background
from tidings._kit.telemetry import measure
from tidings.changes import FEATURES, Cursor, Filter
from tidings.errors import LimitReached, NotAuthorized, TidingsError
from tidings.server.adapters import connection_of, lighten, standalone_channel
from tidings.server.borrowed_stream import COME_BACK, WRAPPED_KEY, BorrowedStream
from tidings.server.budget import SDK_STREAM_BYTES, SESSION_BYTES, STREAM_BYTES, Place, subscription_bytes
from tidings.server.core import Core, rpc_errors, scope_of, weight_of
from tidings.server.hooks import TOLD
from tidings.server.http_exchange import Scope, header_of
from tidings.server.policy import RequestContext, client_key, client_name, expiry_of, principal_of
from tidings.server.session_records import SessionEnded, SessionRecord
from tidings.server.sessions import ADOPTED_KEY, SHARED_KEY, SharedSession, SharedSessions
from tidings.server.subscriber import Frame, Subscriber

logger = logging.getLogger(__name__)

RESOURCE_NOT_FOUND: Final = -32002  # This era's code for a missing resource.
_PLACE_KEY: Final = "tidings.place"  # In the state of a connection: its place in the budget.
_FIRST_MESSAGES: Final = 9  # That the SDK keeps of an SSE connection until its end.
_SMALL_MESSAGE: Final = 65_536  # Bytes.
_SMALL_HANDSHAKE: Final = 2_000  # Characters.
_ALL: Final = frozenset(FEATURES)  # One object for all sessions, which saves memory.


class LegacySession(Subscriber):
    """One connection. Over HTTP it is written to through its borrowed stream, elsewhere through the SDK."""

    era = "legacy"
    __slots__ = ("_connection", "_liveness", "_register", "key", "may_have_missed", "place", "shared")

    def __init__(
        self,
        key: str,
        connection: Connection,
        register: "LegacyEra",
        shared: SharedSession | None,
        place: Place,
        **details: Any,
    ) -> None:
        super().__init__(features=_ALL, subscriptions=set(), **details)
        self.key = key
        self.place = place
        self.shared = shared  # Its part on the bus, if other replicas may serve it too.
        self._register = register
        self._connection = connection
        self.may_have_missed = False  # Changes may have been lost: on an earlier stream, or while parked.
        self._liveness: asyncio.TimerHandle | None = None

    @property
    def can_cut(self) -> bool:
        """False for a pipe, which carries everything else too and so is waited for."""
        return self.stream is not None

    @property
    def reachable(self) -> bool:
        return self._liveness is None

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

    def end(self, reason: TidingsError | None = None) -> None:
        if isinstance(reason, NotAuthorized):
            self.forget_permissions()
        if self.stream is not None:
            self.close()
            self.stream.finish()

    def _forbidden(self, subscription: str) -> None:
        self._register.forbid(self, subscription)

    def ask_with(self, screen: Any, subscription: str) -> None:
        """Asks for permission with the latest request that was let in, which has permitted `subscription`."""
        self.screen = screen
        self.permitted(subscription)

    async def permits(self, subscription: str) -> bool:
        permitted = self.screen is None or await self.screen(subscription)
        if permitted:
            self.permitted(subscription)
        return permitted

    def add(self, subscription: str) -> None:
        self.place.grow(memory=self._bytes_of(subscription))
        super().add(subscription)

    def discard(self, subscription: str) -> None:
        if subscription in self.subscriptions:
            self.place.grow(memory=-self._bytes_of(subscription))
        super().discard(subscription)

    def _bytes_of(self, subscription: str) -> int:
        copies = 1 if self.shared is None else 2  # The record has one.
        return copies * subscription_bytes([subscription])

    def wait(self, seconds: float, park: Any) -> None:
        self.close()
        self.stop_waiting()
        self._liveness = asyncio.get_running_loop().call_later(seconds, park, self)

    def gone(self) -> None:
        self.stop_waiting()
        super().gone()

    def stop_waiting(self) -> None:
        if self._liveness is not None:
            self._liveness.cancel()
            self._liveness = None


class LegacyEra:
    """Serves `resources/subscribe`, and keeps the register of the sessions."""

    def __init__(self, core: Core, server: Server[Any], shared: SharedSessions | None) -> None:
        self._core = core
        self._server = server
        self._shared = shared
        self._sessions: dict[str, LegacySession] = {}
        # Open streams that are not written to, by the id of their session.
        self._spare: dict[str, tuple[BorrowedStream, ...]] = {}
        self._initialized: anyio.Event | None = None  # One for all sessions: it is never unset.
        self._handshakes: WeakValueDictionary[str, types.InitializeRequestParams] = WeakValueDictionary()
        self._background = Background()

    def admit(self, ctx: RequestContext) -> None:
        """Gives a session a place in the budget, at the first message of its handshake."""
        if (connection := connection_of(ctx)).has_standalone_channel:
            with rpc_errors(ctx, not_found=RESOURCE_NOT_FOUND):
                self._place(ctx, connection).keep("handshake", weight_of(ctx))
            lighten(self._server, connection)

    def _place(self, ctx: RequestContext, connection: Connection) -> Place:
        place: Place | None = connection.state.get(_PLACE_KEY)
        if place is None:
            place = self._place_of_stream(_key_of(ctx, connection))
            if place is None:
                scope, sessions = scope_of(ctx), int(connection.session_id is not None)
                memory = SESSION_BYTES + STREAM_BYTES
                place = self._core.admit(client_key(scope), streams=1, sessions=sessions, memory=memory)
            connection.state[_PLACE_KEY] = place
            connection.exit_stack.callback(place.release)
        return place

    def _place_of_stream(self, session_id: str) -> Place | None:
        """Returns the place of the stream with which a session of the SSE transport begins."""
        return next((each.place for each in self._spare.get(session_id, ()) if each.place is not None), None)

    def sse_message_came(self, session_id: str, weight: int) -> None:
        session = self._sessions.get(session_id)
        place = self._place_of_stream(session_id) if session is None else session.place
        if place is not None:
            # Whoever has too much can still call tools and unsubscribe.
            place.keep_message(weight if weight > _SMALL_MESSAGE else 0, first=_FIRST_MESSAGES)

    def advertise(self, ctx: RequestContext, result: dict[str, Any]) -> None:
        """Writes into the answer to `initialize` if subscriptions are served: if the connection can be written to."""
        served = connection_of(ctx).has_standalone_channel
        capabilities: dict[str, dict[str, Any]] = result["capabilities"]
        for feature in FEATURES:
            if feature in capabilities:
                capabilities[feature]["listChanged"] = served
        if "resources" in capabilities:
            capabilities["resources"]["subscribe"] = served

    async def begin(self, ctx: RequestContext, result: dict[str, Any]) -> None:
        """Registers a session over streamable HTTP at its handshake: the rest may reach other replicas."""
        connection = connection_of(ctx)
        if connection.session_id is None or not self._is_wrapped(ctx):
            return
        if self._shared is not None:
            server = [result["serverInfo"]["name"], result["protocolVersion"], sorted(result["capabilities"])]
            await self._shared.begin(ctx, connection, server)
        self._register(ctx, connection)

    def _is_wrapped(self, ctx: RequestContext) -> bool:
        return ctx.request is not None and ctx.request.scope.get(WRAPPED_KEY) is self

    def initialized(self, ctx: RequestContext) -> None:
        """Registers a client that has completed its handshake: it receives list changes from now on."""
        connection = connection_of(ctx)
        if connection.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS or not connection.has_standalone_channel:
            return
        # Sessions share what is equal and does not change, which saves memory: many clients are one program.
        if connection.initialized.is_set():
            self._initialized = connection.initialized = self._initialized or connection.initialized
        if (mine := connection.client_params) is not None:
            text = mine.model_dump_json()
            if len(text) <= _SMALL_HANDSHAKE and (one := self._handshakes.setdefault(text, mine)) == mine:
                connection.client_params = one
        try:
            self._register(ctx, connection)
        except LimitReached as error:  # A notification has no answer.
            logger.warning("%s does not receive changes: %s", client_name(ctx), error)

    def _register(self, ctx: RequestContext, connection: Connection) -> LegacySession:
        shared: SharedSession | None = connection.state.get(SHARED_KEY)
        key, core, request = shared.id if shared else _key_of(ctx, connection), self._core, ctx.request
        if (session := self._sessions.get(key)) is not None:
            return session
        over_http = "sse" if connection.session_id is None else "streamable-http"
        session = LegacySession(
            key,
            connection,
            self,
            shared,
            self._place(ctx, connection),
            client=client_name(ctx),
            principal=principal_of(request.scope if request is not None else None),
            transport="stream" if request is None else over_http,
            limits=core.policy.limits,
            screen=core.policy.screen(ctx),
        )
        self._sessions[key] = session
        if shared is not None:
            shared.follow = partial(self._follow, session)
        measure("tidings.sessions", +1)
        connection.exit_stack.callback(self._remove, session)
        core.join(session)
        if not self._is_wrapped(ctx):
            if request is not None:
                core.unwrapped()
            session.open()
        elif (stream := self._take_spare(key)) is not None:
            self._begin(session, stream)
        else:
            session.wait(core.policy.limits.liveness, self._park)
        return session

    def _remove(self, session: LegacySession) -> None:
        if self._sessions.pop(session.key, None) is not None:
            measure("tidings.sessions", -1)
        self._core.leave(session)
        session.gone()

    def forbid(self, session: LegacySession, subscription: str) -> None:
        """Ends a subscription that is no longer permitted, and the stream: its client reads again what it may."""
        self._core.unsubscribe(session, subscription)
        if session.shared is not None:
            self._background.start(self._forget_subscription(session.shared, subscription))
        session.end()

    async def _forget_subscription(self, shared: SharedSession, subscription: str) -> None:
        with suppress(TidingsError, SessionEnded):
            await shared.front.sessions.unsubscribed(shared, subscription)

    async def subscribe(self, ctx: RequestContext, params: types.SubscribeRequestParams) -> types.EmptyResult:
        with rpc_errors(ctx, not_found=RESOURCE_NOT_FOUND):
            session, check = self._session(ctx), self._core.policy.check
            [subscription] = check([params.uri], held=len(session.subscriptions - {params.uri}))
            await self._core.unless_stopping(self._core.policy.require(ctx, subscription))
            if session.key in self._sessions:  # The connection may have ended while permission was asked.
                check([subscription], held=len(session.subscriptions - {subscription}))
                if self._core.policy.asks:
                    session.place.keep("request", weight_of(ctx))  # It is asked with.
                session.ask_with(self._core.policy.screen(ctx), subscription)
                self._unpark(session)
                async with self._recorded(session, subscription):
                    await self._core.subscribe(session, subscription)
        return types.EmptyResult()

    async def unsubscribe(self, ctx: RequestContext, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        with rpc_errors(ctx, not_found=RESOURCE_NOT_FOUND):
            [subscription] = self._core.policy.check([params.uri])
            session = self._session(ctx)
            if session.shared is not None:
                await session.shared.front.sessions.unsubscribed(session.shared, subscription)
            self._core.unsubscribe(session, subscription)
        return types.EmptyResult()

    @asynccontextmanager
    async def _recorded(self, session: LegacySession, subscription: str) -> AsyncGenerator[None]:
        """Adds a subscription to the record of a shared session, and removes it again if it is refused."""
        if (shared := session.shared) is None:
            yield
            return
        is_new = subscription not in session.subscriptions
        check = partial(self._core.policy.check, [subscription])
        await shared.front.sessions.subscribed(shared, subscription, lambda others: check(held=others))
        try:
            yield
        except BaseException:
            if is_new:
                with anyio.CancelScope(shield=True):
                    await self._forget_subscription(shared, subscription)
            raise

    async def set_level(self, ctx: RequestContext) -> None:
        shared: SharedSession | None = connection_of(ctx).state.get(SHARED_KEY)
        passed_on = ctx.request is not None and ADOPTED_KEY in ctx.request.scope  # By a replica that has noted it.
        if shared is not None and not passed_on:
            await shared.front.sessions.set_level(shared, (ctx.params or {}).get("level", ""))

    async def _follow(self, session: LegacySession, record: SessionRecord, missed: bool) -> None:
        """Makes a session equal to its record, which other replicas may have written."""
        core = self._core
        for subscription in session.subscriptions.difference(record.subscriptions):
            core.unsubscribe(session, subscription)
        new = [each for each in record.subscriptions if each not in session.subscriptions]
        for subscription in new:
            await self._follow_subscription(session, subscription)
        position = core.position  # Read last: the hub has no earlier change for those that it got last.
        first = session.shared is not None and session.shared.take_first()
        if missed:
            session.may_have_missed = True  # Everything is sent when its stream opens.
            return
        starts = [Cursor.parse(record.subscriptions[each]) for each in new] + [Cursor.parse(record.since)] * first
        if not starts:
            return
        known = [start for start in starts if start is not None and start.epoch == position.epoch]
        wanted = Filter.of(new, tools=first, prompts=first, resources=first)
        entries = await core.since(min(known), wanted.wants) if len(known) == len(starts) else None
        if entries is None:
            core.deliver_everything(session)
        for place, change in entries or ():
            if place <= position:  # Later ones come through the hub.
                session.deliver(Frame(place, change))

    async def _follow_subscription(self, session: LegacySession, subscription: str) -> None:
        if not await self._core.unless_stopping(self._core.policy.honoured([subscription], session.permits)):
            logger.warning("%s subscribed to %s, which is missing or refused here.", session.client, subscription)
        elif session not in self._core.hub:
            session.add(subscription)
        else:
            self._core.hub.subscribe(session, subscription)  # It stays if the hook fails: other replicas may watch.
            try:
                await self._core.subscribe(session, subscription)
            except TidingsError as error:
                said = "%s subscribed to %s, which is not watched here: %s"
                logger.warning(said, session.client, subscription, error)

    def _session(self, ctx: RequestContext) -> LegacySession:
        connection = connection_of(ctx)
        if not connection.has_standalone_channel:
            raise MCPError(
                types.INVALID_REQUEST,
                "Subscriptions need a session, and this server runs without sessions (stateless_http=True). "
                "Use a client of the 2026-07-28 protocol, or a server with sessions.",
            )
        return self._register(ctx, connection)

    def admit_stream(self, session_id: str | None, stream: BorrowedStream, scope: Scope) -> None:
        """Gives a place to an event stream, which may begin a session. Raises `LimitReached`."""
        session = None if session_id is None else self._sessions.get(session_id)
        if session is None or session.stream is not None:  # The place of a session is one for its first stream, too.
            memory = SDK_STREAM_BYTES + stream.header_weight + (SESSION_BYTES if session_id is None else 0)
            stream.place = self._core.admit(client_key(scope), streams=1, memory=memory)

    def stream_opened(self, session_id: str, stream: BorrowedStream, scope: Scope, *, begins: bool) -> None:
        """Takes a stream that the SDK has opened. Of several of one session, the first that is open is written to."""
        if begins and (session_id in self._sessions or session_id in self._spare):
            logger.warning("A stream claims to begin a session that exists. It carries no changes.")
            stream.session_id = None
            return
        stream.expires_at, stream.principal = expiry_of(scope), principal_of(scope)
        if self._core.cut_off or self._core.last_revoked >= stream.began:
            _send_away(stream)
            return
        session = self._sessions.get(session_id)
        if session is not None:
            session_id = stream.session_id = session.key  # One string object for all, which saves memory.
        if session is not None and session.stream is None:
            resumes = header_of(scope, b"last-event-id") is not None
            deadline = self._core.policy.limits.write_deadline
            is_plain = not (begins or resumes)
            local_id = session.key if session.shared is None else session.shared.local_id
            channel = standalone_channel(self._server, deadline, local_id) if is_plain else None
            self._begin(session, stream, is_held=channel is not None)
            if channel is not None:
                stream.hold(channel)
            return
        try:
            if stream.place is None:  # Another one was opened while this one began.
                self.admit_stream(session_id, stream, scope)
        except LimitReached:
            _send_away(stream)
        else:
            self._spare[session_id] = (*self._spare.get(session_id, ()), stream)

    def _take_spare(self, session_id: str) -> BorrowedStream | None:
        streams = [each for each in self._spare.pop(session_id, ()) if not each.ended]
        *others, newest = streams or (None,)
        if others:
            self._spare[session_id] = tuple(others)
        return newest

    def revoked(self, principal: str) -> None:
        for stream in [each for streams in self._spare.values() for each in streams]:
            if principal in ("", stream.principal):
                stream.finish()

    def _begin(self, session: LegacySession, stream: BorrowedStream, *, is_held: bool = False) -> None:
        if stream.expires_at is not None and stream.expires_at <= time.time():
            stream.finish()
            return
        try:
            self._unpark(session)
            if stream.place is not session.place:
                more = 0 if is_held else SDK_STREAM_BYTES - STREAM_BYTES
                session.place.keep("stream", stream.header_weight + more)
                stream.leave_place()
        except LimitReached as error:
            logger.warning("%s cannot have its event stream now: %s", session.client, error)
            _send_away(stream)
            return
        session.stop_waiting()
        session.stream = stream
        session.expire_at(stream.expires_at)
        may_have_missed, session.may_have_missed = session.may_have_missed, True
        if may_have_missed:
            self._background.start(self._return(session, stream))
        else:
            session.open()

    async def _return(self, session: LegacySession, stream: BorrowedStream) -> None:
        """Opens the stream of a session that may have missed changes, once its sources are watched again."""
        try:
            await self._core.watched(tuple(session.subscriptions))
        except LimitReached:
            return  # The server stops.
        except TOLD as error:
            logger.warning("%s is subscribed again, but not everything is watched: %s", session.client, error)
        if session.stream is stream:
            self._core.deliver_everything(session)
            session.open()

    def stream_closed(self, stream: BorrowedStream) -> None:
        """Takes note that a stream is over. If a session was written to through it, another may follow."""
        if stream.session_id is None:
            return
        session = self._sessions.get(stream.session_id)
        if session is not None and session.stream is stream:
            session.stream = None
            session.place.keep("stream", 0)
            session.wait(self._core.policy.limits.liveness, self._park)
            if (other := self._take_spare(session.key)) is not None:
                self._begin(session, other)
        elif others := tuple(each for each in self._spare.pop(stream.session_id, ()) if each is not stream):
            self._spare[stream.session_id] = others

    def _park(self, session: LegacySession) -> None:
        logger.info("%s has had no event stream for a while, and no longer counts as a subscriber.", session.client)
        if session in self._core.hub:
            self._core.leave(session)
            session.forget_waiting()  # Everything is sent when it joins again.
            session.place.grow(streams=-1, memory=-STREAM_BYTES)

    def _unpark(self, session: LegacySession) -> None:
        """Lets a parked session join again. Its next stream begins with everything it subscribed to."""
        if session not in self._core.hub:
            session.place.grow(streams=1, memory=STREAM_BYTES)
            session.may_have_missed = True
            session.forget_permissions()
            self._core.join(session)
            session.wait(self._core.policy.limits.liveness, self._park)


def _send_away(stream: BorrowedStream) -> None:
    """Ends a stream that was just opened. Its client opens it again later, which it would not do after a refusal."""
    stream.write(COME_BACK)
    stream.finish()


def _key_of(ctx: RequestContext, connection: Connection) -> str:
    # Over HTTP the session's event stream has its id too; with the SSE transport, each request has.
    named = ctx.request.query_params.get("session_id") if ctx.request is not None else None
    return connection.session_id or named or f"connection {id(connection)}"
