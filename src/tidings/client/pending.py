"""Questions of the server to the user, from asked to answered, in both eras.

A question waits until a person answers it (`resolve`, `reject`, `decline`, `cancel`), a responder does, the time is up,
or the request that led to it has ended. docs/client.md has the forms of answers, and the outcomes.
"""

import inspect
import itertools
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, cast

import anyio
import mcp_types as types
from mcp.client import ClientRequestContext
from mcp_types import ElicitResult, ErrorData
from pydantic import ValidationError

from tidings.client.queue import QueueEntry
from tidings.client.schema import fill_in
from tidings.errors import AnswerTimedOut, Disconnected, RequestCancelled, TidingsError

logger = logging.getLogger(__name__)

Kind = Literal["sampling", "elicitation", "roots"]
METHODS: Final[dict[Kind, str]] = {
    "sampling": "sampling/createMessage",
    "elicitation": "elicitation/create",
    "roots": "roots/list",
}

Params = types.CreateMessageRequestParams | types.ElicitRequestParams | None


@dataclass(slots=True)
class PendingRequest:
    """A question of the server to the user."""

    id: str
    kind: Kind
    request: Params = None
    """The parameters of the server's request. None for roots."""
    server: str = ""
    created_at: datetime = field(default_factory=partial(datetime.now, UTC))
    call: QueueEntry | None = None
    """The request that led to the question, such as a tool call. None if this is not certain."""
    outcome: Any = None
    """The answer, the refusal, or the reason why there is no answer: see docs/client.md. None while it waits."""
    settled: anyio.Event = field(default_factory=anyio.Event, init=False, repr=False, compare=False)

    @property
    def age(self) -> float:
        """Seconds since the question arrived."""
        return max(0.0, (datetime.now(UTC) - self.created_at).total_seconds())

    @property
    def message(self) -> str:
        """The question in words: the message of an elicitation, or the last message to sample from."""
        match self.request:
            case types.CreateMessageRequestParams(messages=[*_, last]):
                return "\n".join(part.text for part in last.content_as_list if isinstance(part, types.TextContent))
            case types.ElicitRequestFormParams() | types.ElicitRequestURLParams():
                return self.request.message
            case _:
                return ""

    @property
    def mode(self) -> Literal["form", "url"] | None:
        """The mode of an elicitation; None for the other kinds."""
        return "url" if self.url is not None else "form" if self.schema is not None else None

    @property
    def schema(self) -> dict[str, Any] | None:
        """The form to fill in, as JSON Schema, if there is one."""
        return self.request.requested_schema if isinstance(self.request, types.ElicitRequestFormParams) else None

    @property
    def url(self) -> str | None:
        """The URL to open, if there is one."""
        return self.request.url if isinstance(self.request, types.ElicitRequestURLParams) else None


class Ask(Enum):
    """The type of `ASK`."""

    ASK = "ask"


ASK: Final = Ask.ASK
"""A responder returns this to leave a question to the person."""
Responder = Callable[[PendingRequest], Awaitable[Any] | Any]
"""Answers a question: with a result of the SDK, a plain value as for `resolve`, `refusal(reason)`, or `ASK`. It is
called on the event loop: make it async if it is slow. A person may still answer first."""


class PassedAnswer(ElicitResult):
    """An answer that is sent as it is, for a form that the server checks itself."""


Answer = types.CreateMessageResult | types.CreateMessageResultWithTools | ElicitResult | types.ListRootsResult
Outcome = Answer | ErrorData | Exception

_CODES: Final[dict[type[Exception], int]] = {
    AnswerTimedOut: types.REQUEST_TIMEOUT,
    Disconnected: types.CONNECTION_CLOSED,
    RequestCancelled: -1,  # The specification's code for a person's refusal.
}


def answer_to(request: Params, value: object) -> Answer:
    """Returns an answer, given as one or plainly, as a value of the SDK. Raises `ValueError` if it does not fit."""
    match request, value:
        case (None, types.ListRootsResult()) | (
            types.CreateMessageRequestParams(),
            types.CreateMessageResult() | types.CreateMessageResultWithTools(),
        ):
            return value
        case None, list() | tuple():
            return types.ListRootsResult(roots=[_root(each) for each in cast("list[Any]", value)])
        case None, _:
            raise ValueError(f"Roots are a list of paths and file:// URIs, or a ListRootsResult, not {_kind(value)}.")
        case types.CreateMessageRequestParams(), str():
            content = types.TextContent(text=value)
            return types.CreateMessageResult(role="assistant", content=content, model="tidings", stop_reason="endTurn")
        case types.CreateMessageRequestParams(), _:
            raise ValueError(f"Sampling is answered with a string or a CreateMessageResult, not with {_kind(value)}.")
        case _, PassedAnswer():
            return value
        case _, ElicitResult():
            content = _content(request, value.content or {}) if value.action == "accept" else None
            return value.model_copy(update={"content": content})
        case _, Mapping():
            return ElicitResult(action="accept", content=_content(request, cast("Mapping[str, Any]", value)))
        case _:
            raise ValueError(f"Elicitation is answered with a dict or an ElicitResult, not with {_kind(value)}.")


def _content(request: types.ElicitRequestParams, content: Mapping[str, Any]) -> dict[str, Any] | None:
    if isinstance(request, types.ElicitRequestFormParams):
        return dict(fill_in(request.requested_schema, content))
    if content:
        raise ValueError("The question is to open a URL. Accept it without content ({}), decline or cancel.")
    return None


def _root(value: object) -> types.Root:
    match value:
        case types.Root():
            return value
        case str() if "://" in value:
            try:
                return types.Root.model_validate({"uri": value})
            except ValidationError:
                raise ValueError(f"{value!r} cannot be a root: the protocol allows only file:// URIs.") from None
        case str() | os.PathLike() if value:
            path = Path(cast("str | os.PathLike[str]", value)).expanduser().absolute()
            return types.Root.model_validate({"uri": path.as_uri()})
        case _:
            raise ValueError(f"A root is a path or a file:// URI, not {_kind(value)}.")


def refusal(reason: str) -> ErrorData:
    """Returns the value with which a responder refuses to answer. The server gets the reason."""
    return refused(RequestCancelled(reason))


def refused(error: Exception) -> ErrorData:
    """Returns the error that the server gets instead of an answer, without details of a program's own failures."""
    code = _CODES.get(type(error))
    if not isinstance(error, TidingsError) or code is None:
        return ErrorData(code=types.INTERNAL_ERROR, message="The client failed to answer")
    # In the modern era, the SDK raises it to the caller of the tool, who finds the name of the error in its data.
    return ErrorData(code=code, message=error.message, data={"code": error.code, "retryable": error.retryable})


def _kind(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__!r}" if value != "" else "an empty text"


class NotPending(LookupError):
    """No request with this id waits for an answer: it never existed, or it is settled."""


class Pending:
    """The requests that wait for an answer, oldest first. Use it on the event loop of its client.

    `timeout` is in seconds, for responders and person together. None waits as long as the server does. `responder` is
    tried for every question; for roots, `roots` is tried first. `cause` finds the request that led to a question.
    `asking` is entered while a question is open.
    """

    def __init__(
        self,
        *,
        timeout: float | None = 300.0,
        responder: Responder | None = None,
        roots: Responder | None = None,
        server: str = "",
        cause: Callable[[Kind, Params], QueueEntry | None] = lambda kind, params: None,
        asking: Callable[[PendingRequest], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self.timeout = timeout
        self._responder = responder
        self._roots_responder = roots
        self.server = server
        self._cause = cause
        self._asking = asking
        self._waiting: dict[str, PendingRequest] = {}
        self._numbers = itertools.count(1)

    @property
    def asks(self) -> bool:
        """True if there is somebody to answer questions of all kinds."""
        return self._responder is not None

    @property
    def has_roots(self) -> bool:
        """True if questions for roots are answered without a person."""
        return self._roots_responder is not None

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[PendingRequest]:
        return iter(list(self._waiting.values()))

    def __getitem__(self, request_id: str) -> PendingRequest:
        try:
            return self._waiting[request_id]
        except KeyError:
            ids = ", ".join(self._waiting) or "none"
            raise NotPending(f"No request {request_id!r} waits for an answer. Waiting: {ids}.") from None

    def resolve(self, request_id: str, result: object) -> None:
        """Answers with a result of the SDK or with a plain value: see docs/client.md.

        Raises:
            NotPending: There is no such request waiting.
            ValueError: The answer does not fit the question. The request continues to wait.
        """
        entry = self[request_id]
        self._settle(entry, answer_to(entry.request, result))

    def reject(self, request_id: str, reason: str = "The user rejected the request") -> None:
        """Refuses to answer. The server gets the reason."""
        self._settle(self[request_id], refusal(reason))

    def decline(self, request_id: str) -> None:
        """Answers an elicitation with an explicit no."""
        self._act(request_id, "decline")

    def cancel(self, request_id: str) -> None:
        """Dismisses an elicitation without a choice."""
        self._act(request_id, "cancel")

    def close(self, reason: str = "The client disconnected") -> None:
        """Rejects all waiting requests, because the connection ends."""
        for entry in self:
            self._settle(entry, Disconnected(reason, server=self.server or None))

    async def ask(self, context: ClientRequestContext, params: Params = None) -> Any:
        """The SDK's callback for all three kinds of questions."""
        return await self._ask(params)

    async def answer(self, request: types.InputRequest, call: QueueEntry | None = None) -> Answer | ErrorData:
        """Asks a question that `call` led to, and that did not come as a request of the server."""
        return await self._ask(None if isinstance(request, types.ListRootsRequest) else request.params, call)

    def _act(self, request_id: str, action: Literal["decline", "cancel"]) -> None:
        entry = self[request_id]
        if entry.kind != "elicitation":
            raise ValueError(f"{request_id} asks for {entry.kind}, and only an elicitation can {action}. Reject it.")
        self._settle(entry, ElicitResult(action=action))

    def _settle(self, entry: PendingRequest, outcome: Outcome) -> None:
        """Ends a question. The first outcome counts."""
        # Removed at once: the task that waits wakes up later, and nobody may answer again until then.
        self._waiting.pop(entry.id, None)
        if entry.outcome is None:
            entry.outcome = outcome
            entry.settled.set()

    async def _ask(self, params: Params, call: QueueEntry | None = None) -> Answer | ErrorData:
        is_sample = isinstance(params, types.CreateMessageRequestParams)
        kind: Kind = "roots" if params is None else "sampling" if is_sample else "elicitation"
        cause = call or self._cause(kind, params)
        entry = PendingRequest(f"ask-{next(self._numbers)}", kind, params, self.server, call=cause)
        about: dict[str, Any] = {"server": self.server or None, "method": METHODS[kind]}
        outcome: Outcome = RequestCancelled("The request that asked for this was ended.", **about)
        self._waiting[entry.id] = entry
        with self._asking(entry):
            try:
                with anyio.move_on_after(self.timeout):
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(self._respond, entry)
                        await entry.settled.wait()
                        tasks.cancel_scope.cancel()
                late = "Request timed out waiting for user response"
                self._settle(entry, AnswerTimedOut(late, elapsed=self.timeout, **about))
                outcome = entry.outcome
            finally:  # An answer that was given in the moment in which the request ended reaches nobody.
                self._waiting.pop(entry.id, None)
                entry.outcome = outcome
        return refused(outcome) if isinstance(outcome, Exception) else outcome

    async def _respond(self, entry: PendingRequest) -> None:
        first = self._roots_responder if entry.kind == "roots" else None
        try:
            for responder in (first, self._responder):
                answer = ASK if responder is None else responder(entry)
                if inspect.isawaitable(answer):
                    answer = await answer
                if answer is not ASK:
                    self._settle(entry, answer if isinstance(answer, ErrorData) else answer_to(entry.request, answer))
                    return
        except Exception as error:
            logger.exception("the responder failed to answer %s (%s)", entry.id, entry.kind)
            self._settle(entry, error)
