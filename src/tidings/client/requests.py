"""Sending requests: each in its turn, within its time, again where that is safe, and failing by name.

A request whose connection was lost is sent again on the next one if that cannot do harm: it never arrived, or it only
reads, or its tool is marked as idempotent or read-only. Of any other it is said that its effect is unknown.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import anyio
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from tidings.client.config import Timeouts
from tidings.client.connection import Connection
from tidings.client.events import EventHub, ProgressMade
from tidings.client.failures import AWAY, is_broken_off, is_lost_session
from tidings.client.link import Link
from tidings.client.queue import QueueEntry, RequestQueue
from tidings.client.transports.http import current_call
from tidings.errors import ConnectionLost, EffectUnknown, NoConnection, RequestTimedOut, SessionExpired, TidingsError

ResultT = TypeVar("ResultT")
Send = Callable[[Link, QueueEntry], Awaitable[ResultT]]
OnProgress = Callable[[float, float | None, str | None], Any]

_ATTEMPTS: Final = 5
"""How often one request is sent: one that brings the server down each time must not do so for ever."""


class Requests:
    """Sends the requests of one client."""

    def __init__(self, connection: Connection, queue: RequestQueue, timeouts: Timeouts, events: EventHub) -> None:
        self._connection = connection
        self._queue = queue
        self._timeouts = timeouts
        self._events = events
        self.ping_seconds = timeouts.ping

    async def run(
        self,
        method: str,
        params: Mapping[str, Any],
        send: Send[ResultT],
        *,
        safe: bool,
        aside: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - a limit that progress moves
        on_progress: OnProgress | None = None,
    ) -> tuple[ResultT, QueueEntry]:
        """Send a request; return its result, and what is known about it. `safe` says that twice does no harm.

        Whatever it asks for, the server may tell how far it is: that starts its clock anew, and is told as an event.

        Raises:
            TidingsError: What went wrong, by its name.
        """
        began = _now()
        self._connection.check()
        entry = await self._queue.enter(method, params, aside=aside, within=self._timeouts.total)

        async def made(progress: float, total: float | None, message: str | None) -> None:
            self._progress(entry, progress, total, message)
            if on_progress is not None:
                on_progress(progress, total, message)

        entry.on_progress = made
        try:
            entry.result = result = await self._attempt(entry, send, safe, timeout or self._timeouts.request, began)
        except TidingsError as error:
            error.method, error.elapsed = error.method or method, _now() - began
            error.server = error.server or self._connection.name
            self._queue.end(entry, error)
            raise
        except BaseException as error:
            self._queue.end(entry, error)
            raise
        self._queue.end(entry)
        return result, entry

    async def _attempt(
        self, entry: QueueEntry, send: Send[ResultT], safe: bool, seconds: float, began: float
    ) -> ResultT:
        """Send it until it is answered, or must not be sent again."""
        until = began + self._timeouts.total
        while True:
            if entry.cancel_reason is not None:
                raise entry.cancel_reason
            link = self._connection.link
            if link is None or link.over:
                link = await self._connected(entry, until)
            try:
                return await self._send(link, entry, send, seconds, until)
            except NoConnection as lost:
                if entry.may_have_arrived and not safe:
                    raise EffectUnknown(
                        f"The connection was lost while {entry.method} ran ({lost.message.rstrip('.')}): whether it "
                        "took effect is not known. Look at the server before you repeat it.",
                        method=entry.method,
                    ) from lost
                if entry.attempts >= _ATTEMPTS:
                    raise
                await self._breathe(link, entry, until)

    async def _breathe(self, link: Link, entry: QueueEntry, until: float) -> None:
        """Where something before the server says that it is away, the link itself lives: ask again, but not at once."""
        if not link.over:
            with anyio.CancelScope(deadline=until) as entry.scope:
                await anyio.sleep(min(0.25 * 2**entry.attempts, 5.0))

    async def _connected(self, entry: QueueEntry, until: float) -> Link:
        """Wait for a connection; the time for the whole request runs meanwhile."""
        with anyio.CancelScope(deadline=until) as entry.scope:
            return await self._connection.ready()
        raise entry.cancel_reason or self._late(entry, self._timeouts.total, "no connection came back in that time")

    async def _send(self, link: Link, entry: QueueEntry, send: Send[ResultT], seconds: float, until: float) -> ResultT:
        entry.attempts += 1
        entry.may_have_arrived, entry.http_status = True, None
        token = current_call.set(entry)
        deadline = math.inf if entry.holds else min(_now() + seconds, until)
        entry.scope, entry.seconds, entry.until = anyio.CancelScope(deadline=deadline), seconds, until
        try:
            with entry.scope:
                return await send(link, entry)
        except MCPError as error:
            raise await self._failure(link, entry, error) from None  # Which may quote a secret.
        except TidingsError:
            raise
        except Exception as error:
            if link.over:
                raise self._lost(link) from error
            # What the server sent may quote a secret, and is of no interest. What else went wrong is.
            cause = None if isinstance(error, ValidationError) else error
            raise link.explain(error, entry.method, entry.http_status) from cause
        finally:
            current_call.reset(token)
        # Only a cancelled scope leads here: by whoever asked for it, by the clock, or for want of a connection.
        if entry.cancel_reason is None and link.over:
            raise self._lost(link)
        raise entry.cancel_reason or self._late(entry, seconds, "the connection stays open")

    async def _failure(self, link: Link, entry: QueueEntry, error: MCPError) -> TidingsError:
        if entry.http_status == 503:
            entry.may_have_arrived = False
        in_doubt = is_broken_off(error.error.code, error.error.message) or entry.http_status in AWAY
        if link.over or (in_doubt and not await self._connection.answers(link)):
            return self._lost(link)
        if entry.http_status in (400, 404) and is_lost_session(error):
            entry.may_have_arrived = False
            link.lose(SessionExpired(f"{link.name} no longer knows this session.", server=link.name))
            return self._lost(link)
        return link.explain(error, entry.method, entry.http_status)

    @staticmethod
    def _lost(link: Link) -> TidingsError:
        return link.error or ConnectionLost(f"{link.name} went away.", server=link.name)

    def _late(self, entry: QueueEntry, seconds: float, rest: str) -> RequestTimedOut:
        return RequestTimedOut(
            f"No answer to {entry.method} within {seconds:g} s; {rest}. Give it longer with timeout=... or "
            "Timeouts(request=...), or cancel earlier.",
            method=entry.method,
            server=self._connection.name,
        )

    def _progress(self, entry: QueueEntry, progress: float, total: float | None, message: str | None) -> None:
        """The server tells how far it is: the clock of this request starts anew."""
        if self._timeouts.progress_resets and entry.scope is not None and not entry.holds:
            entry.scope.deadline = min(_now() + entry.seconds, entry.until)
        self._events.emit(ProgressMade(entry, progress, total, message))

    def hold(self, entry: QueueEntry | None) -> list[QueueEntry]:
        """A person was asked on behalf of a request: its clock stands still until they answer. Where it is not known
        which request that is, every one of the user's is meant.
        """
        held = [entry] if entry is not None else [each for each in self._queue.running() if not each.aside]
        for each in held:
            each.asked_user = True
            each.hold()
        return held

    def release_waiting(self) -> None:
        """The connection was lost. What waits for a person would not notice before they answered, in vain."""
        for entry in self._queue.running():
            if entry.holds and entry.scope is not None:
                entry.scope.cancel()

    def release(self, held: list[QueueEntry]) -> None:
        """The person has answered, or need not any more."""
        for each in held:
            each.release()


def _now() -> float:
    """The clock of scopes. AnyIO would first look for the event loop's kind, with each request anew."""
    return asyncio.get_running_loop().time()
