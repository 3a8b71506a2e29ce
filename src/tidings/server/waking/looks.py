"""`QuickLooks`: looks at tasks in which nothing has happened, answered without the SDK.

Hosts ask for each of their tasks every second. A look goes the whole way once. For some seconds after that, a request
that differs in nothing but its JSON-RPC id and its trace gets the same answer, as long as the task is unchanged.
"""

import json
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tidings.server.http_exchange import ASGIApp, Message, Receive, Scope, Send, header_of
from tidings.server.waking.store import TaskRecord

LOOK_KEY: Final = "tidings.look"  # In the scope of a request: its `Look`.

_METHOD: Final = (b"mcp-method", b"tasks/get")
_ID: Final = re.compile(rb'0|[1-9][0-9]{0,17}|"[ !#-\[\]-~]{0,256}"')  # Those that are the same in every JSON.
_MOST: Final = 20_000  # Answers that are kept.
_LONGER: Final = 4  # Times as long, an answer to nobody in particular may be repeated.
_LARGEST: Final = 16_384  # Bytes of one. Tasks that are not over have short ones.
# The length differs with the id.
_DIFFERING: Final = frozenset({b"content-length", b"traceparent", b"tracestate", b"baggage"})
_OWN_TO_A_RESPONSE: Final = frozenset({b"set-cookie", b"content-encoding", b"transfer-encoding"})


@dataclass(slots=True)
class Look:
    """One look at a task, for the handler to say what it has found."""

    key: str = ""
    record: TaskRecord | None = None
    expires: float | None = None  # The end of the caller's token, in seconds since the epoch.
    signed_in: bool = False  # The caller has rights, which may be revoked.


@dataclass(slots=True)
class _Answer:
    """The answer to a request, of which everything around its id is known."""

    before: bytes
    after: bytes
    asked_with: tuple[object, ...]
    key: str
    record: TaskRecord
    headers: list[tuple[bytes, bytes]]
    result: bytes
    until: float

    def id_in(self, body: bytes) -> bytes | None:
        """Returns the id in the same request as this was the answer to; None if it is another one."""
        start, end = len(self.before), len(body) - len(self.after)
        same = start < end and body.startswith(self.before) and body.endswith(self.after)
        return body[start:end] if same and _ID.fullmatch(body, start, end) else None

    async def send(self, send: Send, request_id: bytes) -> None:
        body = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (request_id, self.result)
        headers = [*self.headers, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class QuickLooks:
    """The answers to looks that may be repeated for `seconds`, to nobody in particular for longer, while unchanged."""

    def __init__(self, is_unchanged: Callable[[str, TaskRecord], bool], seconds: float) -> None:
        self._is_unchanged = is_unchanged
        self._seconds = seconds
        self._answers: OrderedDict[bytes, _Answer] = OrderedDict()  # By the id of the task.

    def forget(self) -> None:
        self._answers.clear()

    def wrap(self, app: ASGIApp) -> ASGIApp:

        async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
            is_look = scope["type"] == "http" and _METHOD in scope["headers"] and LOOK_KEY not in scope
            # Everything that identifies the sender is in the request: nothing outside has found it out.
            if is_look and "user" not in scope and "tls" not in (scope.get("extensions") or ()):
                await self._look(app, scope, receive, send)
            else:
                await app(scope, receive, send)

        return wrapped

    async def _look(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        received = [await receive()]
        body: bytes = b"" if received[0].get("more_body", False) else received[0].get("body", b"")  # As a whole.
        task = header_of(scope, b"mcp-name") or b""
        if (answer := self._find(task, scope)) is not None and (request_id := answer.id_in(body)) is not None:
            await answer.send(send, request_id)
            return
        scope[LOOK_KEY] = look = Look()
        start: Message = {}
        bodies: list[Message] = []

        async def again() -> Message:
            return received.pop() if received else await receive()

        async def pass_on(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
            elif message["type"] == "http.response.body":
                bodies.append(message)
            await send(message)

        await app(scope, again, pass_on)
        record, result = look.record, _repeatable(start, bodies)
        if record is None or record.is_final or result is None or (around := _around_id(body)) is None:
            return
        seconds = self._seconds if look.signed_in else self._seconds * _LONGER
        if look.expires is not None:
            seconds = min(seconds, look.expires - time.time())
        until = time.monotonic() + seconds
        headers = [each for each in start["headers"] if each[0] != b"content-length"]
        self._answers[task] = _Answer(*around, _surroundings(scope), look.key, record, headers, result, until)
        if len(self._answers) > _MOST:
            self._answers.popitem(last=False)

    def _find(self, task: bytes, scope: Scope) -> _Answer | None:
        answer = self._answers.get(task)
        if answer is None or answer.asked_with != _surroundings(scope):
            return None
        if time.monotonic() >= answer.until or not self._is_unchanged(answer.key, answer.record):
            del self._answers[task]
            return None
        self._answers.move_to_end(task)
        return answer


def _repeatable(start: Message, bodies: list[Message]) -> bytes | None:
    """Returns the result in a response; None if it is something else than a result as JSON that may be repeated."""
    body: bytes = bodies[0].get("body", b"") if len(bodies) == 1 and not bodies[0].get("more_body", False) else b""
    names = {name for name, _ in start.get("headers", ())}
    if start.get("status") != 200 or not 0 < len(body) <= _LARGEST or names & _OWN_TO_A_RESPONSE:
        return None
    if header_of(start, b"content-type") != b"application/json":
        return None
    answer = json.loads(body)
    return json.dumps(answer["result"], separators=(",", ":")).encode() if "result" in answer else None


def _around_id(body: bytes) -> tuple[bytes, bytes] | None:
    """Returns what is before and behind the id of a request."""
    probe = secrets.token_hex(8)
    for found in re.finditer(rb'"id" *: *(%b)(?=[ ,}])' % _ID.pattern, body):
        before, after = body[: found.start(1)], body[found.end(1) :]
        # Something within the parameters may have the same name.
        with suppress(ValueError):
            if json.loads(b'%b"%b"%b' % (before, probe.encode(), after)).get("id") == probe:
                return before, after
    return None


def _surroundings(scope: Scope) -> tuple[object, ...]:
    """Returns everything that surrounds the body of a request, but its trace."""
    headers = [each for each in scope["headers"] if each[0] not in _DIFFERING]
    return headers, scope["path"], scope.get("query_string"), (scope.get("client") or ("",))[0]
