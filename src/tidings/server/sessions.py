"""`SharedSessions`: legacy sessions over HTTP that every replica of a shared bus serves.

A replica that is asked for a session which it does not hold *adopts* it: it replays the handshake, from its record on
the bus, into its own app with the headers of the request, so that all checks of the app apply, and gets a session with
an id of its own. The replica through which the event stream was opened last writes to it; the others change the record
and publish a notice. Messages for a call on another replica are passed on as *letters*: records that the session's
record names. With the SSE transport, a session stays on the replica that holds its stream.
"""

import asyncio
import json
import logging
import re
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote

from mcp.server.connection import Connection

from tidings._kit.tasks import Background, SingleFlight
from tidings.bus import Bus, Records
from tidings.changes import Cursor, ResourceUpdated
from tidings.errors import LimitReached, TransportError
from tidings.server.adapters import number_questions
from tidings.server.http_exchange import EXCHANGE_KEY, SESSION_ID, ASGIApp, LegacyExchange, Message, Scope, header_of
from tidings.server.notify import NOTICE
from tidings.server.policy import RequestContext, owner_of
from tidings.server.session_records import SessionEnded, SessionRecord, SessionRecords

logger = logging.getLogger(__name__)

SHARED_KEY: Final = "tidings.session"  # In the state of a connection: its `SharedSession`.
GATE_KEY: Final = "tidings.gate"  # In the scope of a request: the `Front` of its gate, and its scope there.
ADOPTED_KEY: Final = "tidings.adopted"  # In the scope of a replica's own requests: the session that is adopted, if any.

REFUSED: Final = (SessionEnded, LimitReached, TransportError)
_OF_ONE_REQUEST: Final = {SESSION_ID, b"content-length", b"content-type", b"accept", b"last-event-id"}
_ASK_SECONDS: Final = 30.0
_ID: Final = re.compile(r"[!-~]{1,128}")
_RETRY_SECONDS: Final = 1.0
_QUESTIONS: Final = 1 << 20  # Ids for the questions of one replica in one session.


class Front:
    """The app of this replica that `sessions` are served through, for requests of the replica itself."""

    def __init__(self, app: ASGIApp, sessions: "SharedSessions") -> None:
        self._app = app
        self.sessions = sessions

    async def ask(
        self,
        scope: Scope,
        message: Any = None,
        *,
        method: str = "POST",
        session_id: str | None = None,
        endpoint: bytes = b"",
        adopted: tuple[str, SessionRecord] | None = None,
    ) -> tuple[int, str | None]:
        """Makes a request that looks like the one with `scope`. Returns its status, and the session's id, if any."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        headers = [(name, value) for name, value in scope["headers"] if name not in _OF_ONE_REQUEST]
        headers += [(b"accept", b"application/json, text/event-stream"), (b"content-type", b"application/json")]
        headers += [(b"content-length", b"%d" % len(body))]
        request = {**scope, "method": method, "headers": headers, GATE_KEY: (self, scope), ADOPTED_KEY: adopted}
        named = (session_id or "").encode()
        if endpoint:
            request |= {
                "path": unquote(endpoint.decode()),
                "raw_path": endpoint,
                "query_string": b"session_id=" + named,
            }
        elif named:
            headers.append((SESSION_ID, named))
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        status, opened = 503, None

        async def receive() -> Message:
            return messages.pop() if messages else await asyncio.get_running_loop().create_future()  # It never leaves.

        async def take(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)

        request[EXCHANGE_KEY] = answer = LegacyExchange(receive, take, is_handshake=adopted is not None)

        async def send(message: Message) -> None:
            nonlocal opened
            opened = header_of(message, SESSION_ID) or opened
            await answer.send(message)

        with suppress(TimeoutError):
            async with asyncio.timeout(_ASK_SECONDS):
                await self._app(request, answer.receive, send)
        return status, opened.decode("latin-1") if opened else None


class SharedSession:
    """A session on this replica."""

    def __init__(self, session_id: str, local_id: str, record: SessionRecord, front: Front, scope: Scope) -> None:
        self.id = session_id  # As its client knows it, on every replica.
        self.local_id = local_id  # As the SDK knows it here.
        self.record = record  # As it was read or written last.
        self.front, self.scope = front, scope  # Of its latest request that the app has let in.
        self.endpoint = b""  # The path of its messages, with the SSE transport.
        # Makes it equal to its record. True: changes may have been lost on an earlier stream.
        self.follow: Callable[[SessionRecord, bool], Awaitable[None]]
        self.turn = asyncio.Lock()
        self.streams = 0  # Event streams that are open here.
        self.used = True  # Since its record was last kept alive.
        self.over = False
        self.looking = False
        self.completing = False
        self.next_completion = 0.0  # At the earliest, by the clock of the event loop.
        self.seen = tuple(record.letters)  # Not a set: an empty one takes memory.
        self.first_question = (secrets.randbelow(2**31) + 1) * _QUESTIONS
        self._first = self.translated

    @property
    def translated(self) -> bool:
        """It was adopted, and has another id here."""
        return self.id != self.local_id

    def stream_over(self) -> None:
        self.streams -= 1

    def take_first(self) -> bool:
        """Returns true once for a session that was adopted: changes since its handshake may be due."""
        first, self._first = self._first, False
        return first

    def asked(self, question: object) -> bool:
        return isinstance(question, int) and 0 < question - self.first_question <= _QUESTIONS


class SharedSessions:
    """The sessions that this replica holds, and their records. One that is not used for `idle` seconds ends."""

    def __init__(self, bus: Bus, records: Records, *, idle: float, position: Callable[[], Cursor]) -> None:
        self._bus = bus
        self._records = SessionRecords(records, idle)
        self.record_of = self._records.get
        self._idle = idle
        self._position = position
        self._replica = secrets.token_hex(4)
        self._held: dict[str, SharedSession] = {}
        self._near: dict[str, tuple[SharedSession, ...]] = {}  # Those that a notice is about.
        self._unshared: set[str] = set()  # Ids of sessions whose handshake the bus could not store.
        self._background = Background()
        self._keeper: asyncio.Task[None] | None = None
        self._adoptions: SingleFlight[SharedSession | None] = SingleFlight()

    def start(self) -> None:
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def aclose(self) -> None:
        for session in tuple(self._held.values()):
            self.forget(session)
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        self._background.cancel()  # A bus that is away may take long.
        await self._background.finished()

    async def _keep(self) -> None:
        await self._records.work()
        while True:
            await asyncio.sleep(self._idle / 4)
            for session in tuple(self._held.values()):
                if session.used or session.streams:
                    session.used = False
                    try:
                        await self._edit(session)
                    except REFUSED:
                        session.used = True  # The next time is soon enough.

    async def begin(self, ctx: RequestContext, connection: Connection, server: list[Any]) -> SharedSession | None:
        """Begins a session, or adopts one; None if it cannot be shared. Raises `SessionEnded` if it is another's."""
        request, local_id = ctx.request, connection.session_id
        if request is None or local_id is None or (came := request.scope.get(GATE_KEY)) is None:
            return None
        if (known := connection.state.get(SHARED_KEY)) is not None:
            return known  # Its client has sent the handshake again.
        adopted: tuple[str, SessionRecord] | None = request.scope.get(ADOPTED_KEY)
        owner = owner_of(request.scope)
        if adopted is not None and (adopted[1].owner, adopted[1].server) != (owner, server):
            raise SessionEnded
        since, handshake = str(self._position()), dict(ctx.params or {})
        new = SessionRecord(owner, since, handshake, server, replicas=[self._replica])
        session_id, record = adopted or (local_id, new)
        if adopted is None and not await self._records.create(session_id, record):
            self._unshared.add(local_id)
            connection.exit_stack.callback(self._unshared.discard, local_id)
            return None
        session = SharedSession(session_id, local_id, record, *came)
        number_questions(connection, session.first_question)
        connection.state[SHARED_KEY] = session
        self._hold(session)
        connection.exit_stack.callback(self.forget, session)
        return session

    async def begin_sse(self, session_id: str, front: Front, scope: Scope, endpoint: bytes) -> SharedSession | None:
        path = unquote(endpoint.decode())
        since, me = str(self._position()), self._replica
        record = SessionRecord(owner_of(scope), since, endpoint=path, stream=me, replicas=[me])
        if not await self._records.create(session_id, record):
            return None
        session = SharedSession(session_id, session_id, record, front, scope)
        session.endpoint, session.streams = endpoint, 1
        self._hold(session)
        return session

    def _hold(self, session: SharedSession) -> None:
        self._held[session.id] = session
        start = _start(session.id)
        self._near[start] = (*self._near.get(start, ()), session)

    def forget(self, session: SharedSession) -> None:
        session.over = True
        if self._held.get(session.id) is session:
            del self._held[session.id]
        start = _start(session.id)
        if near := tuple(each for each in self._near.pop(start, ()) if each is not session):
            self._near[start] = near

    async def end(self, session: SharedSession) -> None:
        self.forget(session)
        record = await self.record_of(session.id)
        has_others = record is not None and self._has_others(record)
        await self._records.end(session.id, has_others=has_others)
        if has_others:
            await self._notify(session.id)

    def end_soon(self, session: SharedSession) -> None:
        """Ends a session without waiting. If the bus is away, its record expires later."""

        async def end() -> None:
            with suppress(TransportError):
                await self.end(session)

        self.forget(session)
        self._background.start(end())

    async def find(self, session_id: str, front: Front, scope: Scope) -> SharedSession | None:
        """Returns a session, adopted if need be; None if the sender may use none. Raises one of `REFUSED`."""
        session = self._held.get(session_id)
        may_exist = session_id not in self._unshared and _ID.fullmatch(session_id)
        if session is None and may_exist and await self._records.work():
            # Those who ask together with the right credential do not wait for others.
            key = (session_id, header_of(scope, b"authorization"))
            session = await self._adoptions.share(key, lambda _: self._adopt(session_id, front, scope))
        return session

    async def _adopt(self, session_id: str, front: Front, scope: Scope) -> SharedSession | None:
        record = await self.record_of(session_id)
        if record is None or not record.handshake:
            return None
        opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": record.handshake}
        status, local_id = await front.ask(scope, opening, adopted=(session_id, record))
        session = self._held.get(session_id)
        if session is None:
            if local_id is not None:  # The SDK has opened one, and `begin` has refused it.
                await front.ask(scope, method="DELETE", session_id=local_id)
            if status == 429 or status >= 500:
                text = "This replica cannot serve the session now. Try again in a moment."
                whose = "client" if status == 429 else "server"
                raise LimitReached(text, data={"limit": "sessions", "scope": whose})
            return None
        await front.ask(scope, {"jsonrpc": "2.0", "method": "notifications/initialized"}, session_id=session.local_id)
        if record.level:
            await front.ask(scope, _set_level(record.level), session_id=session.local_id)
        try:
            await self._edit(session, is_known=False)
        except REFUSED:  # The others would not tell this replica of letters, or of the end.
            self.forget(session)
            await front.ask(scope, method="DELETE", session_id=session.local_id)
            raise
        return session

    async def _edit(
        self,
        session: SharedSession,
        change: Callable[[SessionRecord], object] = lambda record: None,
        *,
        is_known: bool = True,
    ) -> SessionRecord:
        def change_and_join(record: SessionRecord) -> None:
            record.complete(session.record)
            record.edition += 1
            change(record)
            record.joined_by(self._replica)

        async with session.turn:
            record = await self._records.change(session.id, session.record if is_known else None, change_and_join)
            if record.life != session.record.life:  # The others add what they know.
                await self._notify(session.id)
            session.record = record
            return record

    def _has_others(self, record: SessionRecord) -> bool:
        return any(replica != self._replica for replica in record.replicas)

    async def subscribed(self, session: SharedSession, subscription: str, check: Callable[[int], object]) -> None:
        """Adds a subscription to the record. `check` is called with the number of others, and may raise."""
        since = str(self._position())

        def add(record: SessionRecord) -> None:
            check(len(record.subscriptions) - (subscription in record.subscriptions))
            record.subscriptions.setdefault(subscription, since)

        try:
            record = await self._edit(session, add)
        except ValueError as error:  # The record is too large.
            text = "The subscriptions of this session take more space than its bus keeps. Subscribe to a prefix."
            raise LimitReached(text, data={"limit": "subscriptions"}) from error
        await self._tell_writer(record, session.id)

    async def unsubscribed(self, session: SharedSession, subscription: str) -> None:
        record = await self._edit(session, lambda record: record.subscriptions.pop(subscription, None))
        await self._tell_writer(record, session.id)

    async def _tell_writer(self, record: SessionRecord, session_id: str) -> None:
        if record.stream not in ("", self._replica):
            await self._notify(session_id)

    async def opening_stream(self, session: SharedSession) -> None:
        """Prepares this replica to write to the event stream that the client opens."""
        before = ""

        def take(record: SessionRecord) -> None:
            nonlocal before
            before, record.stream = record.stream, self._replica

        await self._edit(session, take)
        async with session.turn:  # A notice may have come first, and brought a newer record.
            await session.follow(session.record, before not in ("", self._replica))

    async def _notify(self, session_id: str) -> None:
        # One entry of the log for many sessions, so that they do not fill it.
        await self._bus.publish(ResourceUpdated(NOTICE + _start(session_id)))

    def noticed(self, uri: str | None) -> None:
        """Looks at the sessions that a notice is about; None if the bus lost its log: then records may be lost, too."""
        for session in self._held.values() if uri is None else self._near.get(uri.removeprefix(NOTICE), ()):
            if not session.looking:
                session.looking = True
                self._background.start(self._look(session))

    async def _look(self, session: SharedSession) -> None:
        """Follows the record of a session. Completes it first, if it was lost or is an older copy."""
        completes = False
        while not session.over:
            try:
                if completes:
                    await self._complete(session)
                    completes = False
                async with session.turn:
                    session.looking = False
                    record = await self.record_of(session.id)
                    if record is not None and not record.is_older_than(session.record):
                        session.record = record
                        await self._read_letters(session, record)
                        if session.streams and not session.endpoint:
                            await session.follow(record, False)
                        return
                if session.completing:
                    return  # It is looked at again after that.
                completes = session.completing = True
            except SessionEnded:
                self.forget(session)
                await session.front.ask(session.scope, method="DELETE", session_id=session.local_id)
            except (LimitReached, TransportError):
                await asyncio.sleep(_RETRY_SECONDS)

    async def _complete(self, session: SharedSession) -> None:
        """Adds what this replica knows to a record that was lost. Pauses: the other replicas do the same, and tell."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(session.next_completion - loop.time(), 0.0))
        session.next_completion = loop.time() + _RETRY_SECONDS
        session.completing = False
        await self._edit(session)

    async def send(self, session_id: str, message: bytes) -> None:
        """Sends a message of a client to the other replicas that hold its session. Raises one of `REFUSED`."""
        letter = secrets.token_hex(8)
        if (session := self._held.get(session_id)) is not None:
            session.seen += (letter,)
        await self._records.put_letter(letter, message)
        await self._records.change(session_id, None, lambda record: record.add_letter(letter))
        await self._notify(session_id)

    async def _read_letters(self, session: SharedSession, record: SessionRecord) -> None:
        session.seen = tuple(letter for letter in session.seen if letter in record.letters)
        for letter in record.letters:
            if letter not in session.seen:
                message = await self._records.letter(letter)
                session.seen += (letter,)
                if message is None:
                    continue
                status, _ = await session.front.ask(
                    session.scope, message, session_id=session.local_id, endpoint=session.endpoint
                )
                if status >= 400:
                    logger.warning("A message that another replica passed on was refused with HTTP %d.", status)

    async def forward(self, session: SharedSession, body: bytes) -> None:
        """Passes an answer or a cancellation on, if the call that it belongs to may be on another replica."""
        with suppress(ValueError):
            match json.loads(body):
                case {"method": "notifications/cancelled"}:
                    pass
                case {"id": question, **rest} if "method" not in rest and not session.asked(question):
                    pass
                case _:
                    return
            record = await self.record_of(session.id)
            if record is not None and self._has_others(record):
                await self.send(session.id, body)

    async def set_level(self, session: SharedSession, level: str) -> None:
        if session.record.level != level:

            def change(record: SessionRecord) -> None:
                record.level = level

            record = await self._edit(session, change)
            if self._has_others(record):
                await self.send(session.id, json.dumps(_set_level(level)).encode())


def _start(session_id: str) -> str:
    return session_id[:3]


def _set_level(level: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": f"level {level}", "method": "logging/setLevel", "params": {"level": level}}
