"""Questions of the server to the user, from asked to answered, in both eras.

The SDK calls `sampling`, `elicitation` and `roots` of a `Pending`. Each makes an entry that waits until a person
answers it (`resolve`, `reject`, `decline`, `cancel`), a responder does, the time is up, or the request has ended:

| outcome                            | the server gets                 | `on_settled` gets    |
|------------------------------------|---------------------------------|----------------------|
| answered                           | the answer                      | the answer           |
| rejected                           | an error with the reason        | the same `ErrorData` |
| not answered in time               | an error with `timeout_message` | `AnswerTimedOut`     |
| the connection was closed          | an error, if it still listens   | `Disconnected`       |
| the responder failed               | an error without details        | what it raised       |
| the request that asked was ended   | nothing                         | `RequestCancelled`   |
"""

import inspect
import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, Literal, TypeVar

import anyio
from mcp.client import ClientRequestContext
from mcp_types import CreateMessageRequestParams, ElicitRequestParams, ElicitResult, ErrorData, ListRootsResult

from tidings.client.questions import (
    ASK,
    METHODS,
    Answer,
    Kind,
    Params,
    PendingRequest,
    Responder,
    Sampled,
    elicited,
    refusal,
    refused,
    rooted,
    sampled,
)
from tidings.errors import AnswerTimedOut, Disconnected, RequestCancelled

__all__ = ["ASK", "TIMEOUT_MESSAGE", "NotPending", "Outcome", "Pending", "PendingRequest", "Responder", "refusal"]

logger = logging.getLogger(__name__)

TIMEOUT_MESSAGE: Final = "Request timed out waiting for user response"

Outcome = Answer | ErrorData | Exception
AnswerT = TypeVar("AnswerT", bound=Answer)


class NotPending(LookupError):
    """No request with this id waits for an answer: it never existed, or it is settled."""


@dataclass(eq=False)
class _Waiting(Generic[AnswerT]):
    entry: PendingRequest
    convert: Callable[[object], AnswerT]
    settled: anyio.Event = field(default_factory=anyio.Event)
    outcome: AnswerT | ErrorData | Exception | None = None

    def settle(self, outcome: AnswerT | ErrorData | Exception) -> None:
        if self.outcome is None:
            self.outcome = outcome
            self.settled.set()


class Pending:
    """The requests that wait for an answer, oldest first. Use it on the event loop of its client.

    `timeout` is in seconds, for responders and person together; None waits as long as the server does. `responder` is
    tried on every question, `roots` before it on questions for roots.
    """

    def __init__(
        self,
        *,
        timeout: float | None = 300.0,
        timeout_message: str = TIMEOUT_MESSAGE,
        responder: Responder | None = None,
        roots: Responder | None = None,
        server: str = "",
        on_added: Callable[[PendingRequest], object] | None = None,
        on_settled: Callable[[PendingRequest, Outcome], object] | None = None,
    ) -> None:
        self.timeout = timeout
        self.timeout_message = timeout_message
        self._responder = responder
        self._roots_responder = roots
        self.server = server
        self._on_added = on_added
        self._on_settled = on_settled
        self._waiting: dict[str, _Waiting[Any]] = {}
        self._numbers = itertools.count(1)

    @property
    def has_roots(self) -> bool:
        """True if questions for roots are answered without a person."""
        return self._roots_responder is not None

    def set_roots(self, roots: Responder) -> None:
        """Sets what answers questions for roots."""
        self._roots_responder = roots

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[PendingRequest]:
        return iter([waiting.entry for waiting in self._waiting.values()])

    def __getitem__(self, request_id: str) -> PendingRequest:
        return self._find(request_id).entry

    def resolve(self, request_id: str, result: object) -> None:
        """Answers with a result of the SDK or with a plain value: see `tidings.client.questions`.

        Raises:
            NotPending: No such request waits.
            ValueError: The answer does not fit the question. The request goes on waiting.
        """
        waiting = self._find(request_id)
        self._settle(waiting, waiting.convert(result))

    def reject(self, request_id: str, reason: str = "The user rejected the request") -> None:
        """Refuses to answer. The server gets the reason."""
        self._settle(self._find(request_id), refusal(reason))

    def decline(self, request_id: str) -> None:
        """Answers an elicitation with an explicit no."""
        self._act(request_id, "decline")

    def cancel(self, request_id: str) -> None:
        """Dismisses an elicitation without a choice."""
        self._act(request_id, "cancel")

    def close(self, reason: str = "The client disconnected") -> None:
        """Rejects everything that waits, because the connection ends."""
        for waiting in list(self._waiting.values()):
            self._settle(waiting, Disconnected(reason, server=self.server or None))

    async def sampling(self, context: ClientRequestContext, params: CreateMessageRequestParams) -> Sampled | ErrorData:
        """The SDK's `sampling_callback`."""
        return await self._ask("sampling", params, sampled)

    async def elicitation(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """The SDK's `elicitation_callback`."""
        return await self._ask("elicitation", params, partial(elicited, params))

    async def roots(self, context: ClientRequestContext) -> ListRootsResult | ErrorData:
        """The SDK's `list_roots_callback`."""
        return await self._ask("roots", None, rooted)

    def _find(self, request_id: str) -> _Waiting[Any]:
        try:
            return self._waiting[request_id]
        except KeyError:
            ids = ", ".join(self._waiting) or "none"
            raise NotPending(f"No request {request_id!r} waits for an answer. Waiting: {ids}.") from None

    def _act(self, request_id: str, action: Literal["decline", "cancel"]) -> None:
        waiting = self._find(request_id)
        if waiting.entry.kind != "elicitation":
            raise ValueError(
                f"{request_id} asks for {waiting.entry.kind}, and only an elicitation can {action}. Reject it."
            )
        self._settle(waiting, ElicitResult(action=action))

    def _settle(self, waiting: _Waiting[Any], outcome: Outcome) -> None:
        # Removed at once: the task that waits wakes up later, and nobody may answer again until then.
        self._waiting.pop(waiting.entry.id, None)
        waiting.settle(outcome)

    async def _ask(self, kind: Kind, params: Params, convert: Callable[[object], AnswerT]) -> AnswerT | ErrorData:
        entry = PendingRequest(f"ask-{next(self._numbers)}", kind, params, self.server)
        waiting = _Waiting(entry, convert)
        outcome: AnswerT | ErrorData | Exception = RequestCancelled(
            "The request that asked for this was ended.", server=self.server or None, method=METHODS[kind]
        )
        self._waiting[entry.id] = waiting
        try:
            self._tell(self._on_added, entry)
            outcome = await self._outcome(waiting)
        finally:
            self._waiting.pop(entry.id, None)
            self._tell(self._on_settled, entry, outcome)
        return refused(outcome) if isinstance(outcome, Exception) else outcome

    async def _outcome(self, waiting: _Waiting[AnswerT]) -> AnswerT | ErrorData | Exception:
        with anyio.move_on_after(self.timeout):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._respond, waiting)
                await waiting.settled.wait()
                tasks.cancel_scope.cancel()
        if waiting.outcome is not None:
            return waiting.outcome
        return AnswerTimedOut(
            self.timeout_message, server=self.server or None, method=METHODS[waiting.entry.kind], elapsed=self.timeout
        )

    async def _respond(self, waiting: _Waiting[Any]) -> None:
        first = self._roots_responder if waiting.entry.kind == "roots" else None
        try:
            for responder in (first, self._responder):
                answer = ASK if responder is None else responder(waiting.entry)
                if inspect.isawaitable(answer):
                    answer = await answer
                if answer is not ASK:
                    self._settle(waiting, answer if isinstance(answer, ErrorData) else waiting.convert(answer))
                    return
        except Exception as error:
            logger.exception("the responder failed to answer %s (%s)", waiting.entry.id, waiting.entry.kind)
            self._settle(waiting, error)

    def _tell(self, hook: Callable[..., object] | None, *args: object) -> None:
        try:
            if hook is not None:
                hook(*args)
        except Exception:
            logger.exception("a hook of the pending requests failed; the answer is passed on")
