"""Sends requests from the queue: with timeouts, repeated where that is safe, and with named failures.

A request whose connection was lost is sent again on the next one if that is harmless: it never arrived, it only reads,
or its tool is marked as idempotent or read-only. Any other fails with `EffectUnknown`.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import anyio
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from tidings import errors
from tidings._kit.bounded_json import as_dict
from tidings._kit.telemetry import measure
from tidings.client.config import Timeouts
from tidings.client.connection import Connection
from tidings.client.events import EventHub, ProgressMade
from tidings.client.failures import AWAY, is_broken_off, is_lost_session
from tidings.client.link import Link
from tidings.client.pending import Kind, Params
from tidings.client.queue import QueueEntry, RequestQueue
from tidings.client.task_wire import related_task
from tidings.client.transports.http import current_call
from tidings.errors import TidingsError

ResultT = TypeVar("ResultT")
Send = Callable[[Link, QueueEntry], Awaitable[ResultT]]
OnProgress = Callable[[float, float | None, str | None], Any]

# The names of what is asked for, by OpenTelemetry's conventions.
_NAMED: Final = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}
_WITHOUT_ANSWER: Final = (errors.NoConnection, errors.TransportError, errors.MalformedMessage)
_ATTEMPTS: Final = 5  # Attempts for one request: one that crashes the server must not do so forever.


@dataclass(eq=False, repr=False)
class Requests:
    """Sends the requests of one client."""

    connection: Connection
    queue: RequestQueue
    timeouts: Timeouts
    events: EventHub

    def __post_init__(self) -> None:
        self._unanswered_on: Link | None = None  # Where a request was given up last. The server may still work on it.

    async def run(
        self,
        entry: QueueEntry,
        send: Send[ResultT],
        *,
        safe: bool,
        timeout: float | None = None,  # noqa: ASYNC109 - a limit that progress moves
        on_progress: OnProgress | None = None,
        finish: Callable[[ResultT], Awaitable[ResultT]] | None = None,
    ) -> ResultT:
        """Sends a request of the queue. `safe`: it may be sent twice. `finish` turns its answer into its result."""
        began = _now()

        async def made(progress: float, total: float | None, message: str | None) -> None:
            if entry.scope is not None and not entry.holds:
                entry.scope.deadline = min(_now() + entry.seconds, entry.until)
            entry.progress = ProgressMade(entry, progress, total, message)
            self.events.emit(entry.progress)
            if on_progress is not None:
                on_progress(progress, total, message)

        entry.on_progress = made
        try:
            self.connection.check()
            await self.queue.turn(entry, self.timeouts.total)
            result = await self._attempt(entry, send, safe, timeout or self.timeouts.request, began)
            entry.result = result = result if finish is None else await finish(result)
        except BaseException as error:
            if isinstance(error, TidingsError):
                error.method, error.elapsed = error.method or entry.method, _now() - began
                error.server = error.server or self.connection.name
            self.queue.end(entry, error)
            raise
        self.queue.end(entry)
        return result

    async def run_aside(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Sends one of the client's own requests, which bypass the queue and may be sent twice."""
        entry = self.queue.add(method, params, aside=True)
        return await self.run(entry, lambda link, _: link.send_raw(method, dict(params)), safe=True)

    async def _attempt(
        self, entry: QueueEntry, send: Send[ResultT], safe: bool, seconds: float, began: float
    ) -> ResultT:
        until = began + self.timeouts.total
        while True:
            if entry.cancel_reason is not None:
                raise entry.cancel_reason
            link = self.connection.link
            if link is None or link.over:
                with anyio.CancelScope(deadline=until) as entry.scope:
                    link = await self.connection.ready()
                if link is None or entry.scope.cancelled_caught:
                    raise entry.cancel_reason or self._late(entry, None, "no connection came back in that time")
            try:
                return await self._measured(entry, self._send(link, entry, send, seconds, until))
            except errors.NoConnection as lost:
                if entry.may_have_arrived and not safe:
                    how = f"The connection was lost while {entry.method} ran ({lost.message.rstrip('.')})."
                    cure = "It may have taken effect or not: check the server before you repeat it."
                    raise errors.EffectUnknown(f"{how} {cure}", method=entry.method) from lost
                if entry.attempts >= _ATTEMPTS:
                    raise
                if not link.over:  # A proxy says that the server is away: repeated, but not at once.
                    with anyio.CancelScope(deadline=until) as entry.scope:
                        await anyio.sleep(max(min(0.25 * 2**entry.attempts, 5.0), lost.retry_after or 0))

    @staticmethod
    async def _measured(entry: QueueEntry, answer: Awaitable[ResultT]) -> ResultT:
        began, outcome = _now(), {"mcp.method.name": entry.method}
        if (kind := _NAMED.get(entry.method)) is not None:
            outcome[kind] = str(entry.params.get("name"))
        try:
            result = await answer
            if getattr(result, "is_error", False):
                outcome["error.type"] = "tool_error"
        except BaseException as error:
            outcome["error.type"] = error.code if isinstance(error, TidingsError) else type(error).__qualname__
            code = as_dict(getattr(error, "data", None)).get("rpc_code")
            # Without an answer, the SDK makes up a code.
            if code is not None and not isinstance(error, _WITHOUT_ANSWER):
                outcome["error.type"] = outcome["rpc.response.status_code"] = str(code)
            raise
        finally:
            measure("mcp.client.operation.duration", _now() - began, outcome)
        return result

    async def _send(self, link: Link, entry: QueueEntry, send: Send[ResultT], seconds: float, until: float) -> ResultT:
        entry.attempts += 1
        entry.may_have_arrived, entry.http_status, entry.is_sent = True, None, True
        token = current_call.set(entry)
        deadline = math.inf if entry.holds else min(_now() + seconds, until)
        entry.scope, entry.seconds, entry.until = anyio.CancelScope(deadline=deadline), seconds, until
        try:
            with entry.scope:
                return await send(link, entry)
        except MCPError as error:
            raise await self._failure(link, entry, error) from None  # The cause may quote a secret.
        except TidingsError:
            raise
        except asyncio.CancelledError:
            self._unanswered_on = link
            raise
        except Exception as error:
            if link.over:
                raise link.gone() from error
            # A ValidationError may quote a secret of the server's answer.
            cause = None if isinstance(error, ValidationError) else error
            raise link.explain(error, entry.method, entry.http_status) from cause
        finally:
            current_call.reset(token)
            entry.is_sent = False
        # The scope was cancelled: by the caller, by the clock, or because the connection was lost.
        self._unanswered_on = link
        if entry.cancel_reason is None and link.over:
            raise link.gone()
        # A person's answer extends `entry.until`: then the request's own limit was reached.
        is_total = entry.scope.deadline >= entry.until == until
        raise entry.cancel_reason or self._late(entry, None if is_total else seconds, "the connection stays open")

    async def _failure(self, link: Link, entry: QueueEntry, error: MCPError) -> TidingsError:
        if entry.http_status == 503:
            entry.may_have_arrived = False
        in_doubt = is_broken_off(error) or entry.http_status in AWAY
        if link.over or (in_doubt and not await self.connection.answers(link)):
            return link.gone()
        if entry.http_status in (400, 404) and is_lost_session(error):
            entry.may_have_arrived = False
            link.lose(errors.SessionExpired(f"{link.name} no longer knows this session.", server=link.name))
            return link.gone()
        return link.explain(error, entry.method, entry.http_status)

    def _late(self, entry: QueueEntry, seconds: float | None, rest: str) -> errors.RequestTimedOut:
        """Returns the error for the limit that was reached: `seconds` for an answer, or None for the total."""
        if seconds is None:
            limit, cure = f"{self.timeouts.total:g} s in all", "Timeouts(total=...)."
        else:
            limit, cure = f"{seconds:g} s", "timeout=... or Timeouts(request=...), or cancel earlier."
        if entry.method == "ping":
            cure = "Timeouts(ping=...)."
        text = f"No answer to {entry.method} within {limit}; {rest}. Give it longer with {cure}"
        return errors.RequestTimedOut(text, method=entry.method, server=self.connection.name)

    def cause(self, kind: Kind, params: Params) -> QueueEntry | None:
        """Returns the request that led to the question that has just arrived. None if that is not certain.

        It comes with the answer to the request or on its HTTP stream; or, in the legacy era, on a stream of the whole
        session. There, the cause is certain only if nothing else runs, and a server may ask for roots at any time. A
        question that names its task belongs to the call that became it.
        """
        if (task_id := related_task(params)) is not None:
            return self.queue.of_task(task_id)
        running, call = list(self.queue.running()), current_call.get()
        if call is not None:
            return call if call in running else None
        is_certain = len(running) == 1 and kind != "roots" and self._unanswered_on is not self.connection.link
        return running[0] if is_certain else None

    def hold(self, entry: QueueEntry | None) -> list[QueueEntry]:
        """Stops the clock of a request while a person is asked; of all, if it is not known which. Returns them."""
        running = list(self.queue.running())
        held = [each for each in running if not each.aside]
        if entry is not None:  # The answer to a request about its task may wait for the same person.
            held = [entry, *(each for each in running if each.on_behalf_of is entry and not each.routine)]
        for each in held:
            each.asked_user = True
            each.hold()
        return held

    def release_waiting(self) -> None:
        """Cancels requests that wait for a person: the connection was lost, so the answer would be in vain."""
        for entry in self.queue.running():
            if entry.holds and entry.scope is not None:
                entry.scope.cancel()


def _now() -> float:
    """Returns the clock of scopes. AnyIO's own function would find out the kind of event loop with each call."""
    return asyncio.get_running_loop().time()
