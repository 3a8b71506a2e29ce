"""`EventReceiver`: an ASGI app that receives webhooks of MCP Events, and hands each event on once.

    app = EventReceiver("whsec_...", handle, state="handed.db")

Only messages with a valid signature and a timestamp of the last five minutes are taken. They are handed on one at a
time, in the order in which they come. One whose id was handed on before is only acknowledged.
"""

import asyncio
import hashlib
import inspect
import json
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from tidings._kit import event_wire
from tidings._kit.bounded_json import as_dict, as_text
from tidings._kit.sqlite import Database, Schema
from tidings._kit.sqlite_errors import Wording
from tidings.client.server_events import EventsTruncated, ServerEvent, parse_event
from tidings.errors import MalformedMessage, StateUnusable

logger = logging.getLogger(__name__)

Handle = Callable[[ServerEvent | EventsTruncated], Awaitable[object] | object]

_SCHEMA: Final = Schema(
    application_id=0x54494552, version=1, tables=("CREATE TABLE handed (id BLOB PRIMARY KEY, at REAL) WITHOUT ROWID",)
)
_WORDING: Final = Wording("file of received events", start_over="Delete it, or choose another path.")
_REMEMBERED: Final = 7 * 86_400.0  # Seconds. Servers give up long before.


class EventReceiver:
    """Receives webhooks, and calls `handle` with each event. If `handle` raises, the server sends the event again.

    Args:
        secrets: The secret that was given to the server with the subscription, or several while you replace one.
        handle: A function, which may be async. It gets `EventsTruncated` if some events are lost.
        state: A file that records the events that were handled. Without it, they are forgotten at a restart.
        clock: Returns the time in seconds since 1970.

    Raises:
        ValueError: A secret has the wrong form.
    """

    def __init__(
        self,
        secrets: str | Sequence[str],
        handle: Handle,
        *,
        state: Path | str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        given = [secrets] if isinstance(secrets, str) else secrets
        self._keys = [event_wire.secret_key(secret) for secret in given]
        self._handle = handle
        self._clock = clock
        self._turn = asyncio.Lock()
        self._handed = Database(
            None if state is None else Path(state),
            _SCHEMA,
            wording=_WORDING,
            error=lambda _, text: StateUnusable(text),
            timeout=5.0,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                answer = JSONResponse(await self._answer(Request(scope, receive)))
            except HTTPException as refusal:
                answer = JSONResponse({"error": refusal.detail}, refusal.status_code)
            except ClientDisconnect:
                return
            await answer(scope, receive, send)

    async def _answer(self, request: Request) -> dict[str, Any]:
        if request.method != "POST":
            raise HTTPException(405, "This address receives webhooks: send them with POST.")
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > event_wire.MOST_BYTES:
                raise HTTPException(413, f"A webhook has at most {event_wire.MOST_BYTES} bytes.")
        if (wrong := event_wire.complaint(request.headers, body, self._keys, self._clock())) is not None:
            logger.warning("A webhook was refused: %s.", wrong)
            raise HTTPException(401, f"It is refused: {wrong}.")
        try:
            message = as_dict(json.loads(body))
            kind = message.get("type")
            event = parse_event(message) if kind is None else EventsTruncated("", as_text(message.get("cursor")))
        except (ValueError, RecursionError, MalformedMessage):
            raise HTTPException(400, "This is neither an event nor a message about events.") from None
        if kind == "verification":
            logger.info("A challenge was answered.")
            return {"challenge": message.get("challenge")}
        if kind in (None, "gap"):  # Others belong to a later draft.
            known_as = event.id if isinstance(event, ServerEvent) else request.headers[event_wire.ID_HEADER]
            await self._hand_on(hashlib.sha256(known_as.encode()).digest(), event)
        return {}

    async def _hand_on(self, mark: bytes, event: ServerEvent | EventsTruncated) -> None:
        find, now = "SELECT 1 FROM handed WHERE id = ?", self._clock()

        def note(database: Connection) -> None:
            database.execute("INSERT OR REPLACE INTO handed VALUES (?, ?)", (mark, now))
            database.execute("DELETE FROM handed WHERE at < ?", (now - _REMEMBERED,))

        async with self._turn:  # A repetition waits for what becomes of the first.
            try:
                read = self._handed.read
                if await asyncio.to_thread(read, lambda database: database.execute(find, (mark,)).fetchone()):
                    return
                handled = self._handle(event)
                if inspect.isawaitable(handled):
                    await handled
                await asyncio.to_thread(self._handed.write, note)
            except Exception:
                logger.exception("An event could not be handled. The server sends it again.")
                raise HTTPException(500, "The event could not be handled. Send it again later.") from None
