"""The observer: from what a `LiveClient` does and what goes over its wire to records.

Requests, questions, contents, lists and states are taken from the client's events, because the client knows what they
mean; what goes over the wire from the tap (`observer_wire`).

Whose a request is: said by whoever is about to make it, seen by who observes it.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from mcp_types import ElicitResult, ErrorData, ReadResourceResult
from pydantic import BaseModel

from tidings._kit.bounded_json import cut, plain, weigh
from tidings.client.cache import digest
from tidings.client.events import (
    GarbageReceived,
    PendingAdded,
    PendingSettled,
    ProgressMade,
    PromptsChanged,
    RefreshFailed,
    RequestChanged,
    ResourcesChanged,
    ResourceTemplatesChanged,
    StateChanged,
    StderrReceived,
    SubscriptionFailed,
    SubscriptionsChanged,
    ToolsChanged,
)
from tidings.client.live import LiveClient
from tidings.client.mirrors import Malformed
from tidings.client.queue import QueueEntry, Status
from tidings.client.states import State
from tidings.errors import AnswerTimedOut, MalformedMessage, TidingsError
from tidings.inspector.listing import ListKeeper
from tidings.inspector.records import ListName, SessionLimits
from tidings.inspector.view.error_report import seen
from tidings.inspector.wire_recorder import Tell, WireRecorder


@dataclass(slots=True)
class RequestOrigin:
    """The id under which a request that is about to be made is known. The first of the client's entries takes it."""

    id: str
    aside: bool = False
    """Whether the inspector makes it by itself."""
    taken: bool = False


current_claim: ContextVar[RequestOrigin | None] = ContextVar("current_claim", default=None)


_MASKED: Final = 65_536


class Recorder:
    """Makes the records of one server, whichever client talks to it. `wire` is the tap that the client is made with."""

    def __init__(
        self,
        tell: Tell,
        next_id: Callable[[], str],
        *,
        limits: SessionLimits,
        clock: Callable[[], float],
        mask: Callable[[Any], Any],
    ) -> None:
        self._tell = tell
        self._next_id = next_id
        self._limits = limits
        self._clock = clock
        self._mask = mask
        self._lists = ListKeeper(limits.record_bytes)
        self.wire = WireRecorder(tell, self._lists, limits, clock)
        self._ids: dict[QueueEntry, str] = {}
        self._entries: dict[str, QueueEntry] = {}
        self._asides: set[str] = set()
        self._answering: dict[str, tuple[int, int]] = {}
        self._malformed: dict[str, list[Malformed]] = {}
        self._is_new = True
        self.is_command = False

    def attach(self, client: LiveClient) -> None:
        """Listen to this client."""
        self._client = client
        self.is_command = client.transport == "stdio"
        self.wire.another_client()
        self._ids.clear()
        self._entries.clear()
        self._malformed.clear()
        self._asides.clear()
        self._is_new = True
        client.on(StateChanged, self._state)
        client.on(RequestChanged, lambda event: self._request(event.entry))
        client.on(ProgressMade, self._progress)
        client.on(PendingAdded, self._asked)
        client.on(PendingSettled, self._answered)
        client.on(StderrReceived, lambda event: self._line("stderr", event.line))
        client.on(GarbageReceived, lambda event: self._line("garbage", event.text))
        client.on(SubscriptionsChanged, lambda event: self._tell("subscriptions", {"uris": list(event.uris)}))
        client.on(SubscriptionFailed, lambda event: self._failed("subscription-failed", event.uri, event.error))
        client.on(RefreshFailed, lambda event: self._failed("content-failed", event.uri, event.error))
        client.on(ToolsChanged, lambda event: self._list("tools", event.tools, event.error))
        client.on(ResourcesChanged, lambda event: self._list("resources", event.resources, event.error))
        client.on(
            ResourceTemplatesChanged, lambda event: self._list("templates", event.resource_templates, event.error)
        )
        client.on(PromptsChanged, lambda event: self._list("prompts", event.prompts, event.error))

    def entry(self, request_id: str) -> QueueEntry | None:
        """The client's entry for a request that waits or runs."""
        return self._entries.get(request_id)

    def _error(self, error: BaseException, method: str | None = None) -> Any:
        return seen(error, is_command=self.is_command, method=method)

    # The connection.

    def _state(self, event: StateChanged) -> None:
        client = self._client
        if self._is_new:
            self._is_new = False
            return  # That a new client is to connect was told when somebody asked for it.
        if event.new is State.CONNECTED:
            self._hello(client)
            self.wire.connected = True
        elif event.old is State.CONNECTED:
            self.wire.ended()
        data: dict[str, Any] = {
            "state": event.new.value,
            "old": event.old.value,
            "signal": event.signal.value,
            "tries": event.tries,
            "error": None if event.error is None else self._error(event.error),
            "next_retry": None if event.next_retry is None else event.next_retry.timestamp(),
        }
        self._tell("state", data)

    def _hello(self, client: LiveClient) -> None:
        data = {
            "transport": client.transport,
            "protocol_version": client.protocol_version,
            "server_info": _dumped(client.server_info),
            "capabilities": _dumped(client.capabilities),
            "instructions": client.instructions,
            "pid": client.pid,
        }
        self._tell("hello", self._within(data, self._limits.record_bytes)[0])

    def _list(self, name: ListName, items: Sequence[BaseModel], error: TidingsError | None) -> None:
        if error is not None:
            self._tell("list", {"list": name, "error": self._error(error)})
            return
        elsewhere = {id(each) for other, found in self._malformed.items() if other != name for each in found}
        # A list that was loaded has new objects for what is malformed in it; the others have the same as before.
        mine = self._malformed[name] = [each for each in self._client.malformed if id(each) not in elsewhere]
        malformed = [{"item": self._within(_dumped(each.item), _MASKED)[0], "reason": each.reason} for each in mine]
        self._tell("list", self._lists.loaded(name, items, malformed))

    def _line(self, kind: str, text: str) -> None:
        self._tell(kind, {"text": text[: self._limits.record_bytes]})

    def _failed(self, kind: str, uri: str, error: TidingsError) -> None:
        self._tell(kind, {"uri": uri, "error": self._error(error)})

    # Requests.

    def _request(self, entry: QueueEntry) -> None:
        known, is_new = self._ids.get(entry), False
        if known is None:
            known, is_new = self._known(entry)
            self._ids[entry], self._entries[known] = known, entry
        data: dict[str, Any] = {"id": known, "status": entry.status.value}
        if is_new:
            params, _ = self._within(plain(entry.params), self._limits.record_bytes)
            aside = known in self._asides
            data |= {"method": entry.method, "params": params, "created_at": entry.created_at, "aside": aside}
        if entry.status is Status.IN_PROGRESS:
            data["started_at"] = entry.started_at
            self._read_begins(entry, known)
        if entry.over:
            data |= {"completed_at": entry.completed_at, "attempts": entry.attempts}
            self._result(entry, known, data)
            self._asides.discard(known)
            del self._ids[entry], self._entries[known]
        self._tell("request", data)
        if entry.over:
            self._read_ended(entry, known)

    def _known(self, entry: QueueEntry) -> tuple[str, bool]:
        """The id of a request that is seen for the first time, and whether nothing was told of it yet."""
        claim = current_claim.get()
        # Tasks that a request starts inherit its claim: what the client does by itself must not take it.
        if claim is None or claim.taken or entry.aside:
            known = self._next_id()
            self._asides.add(known)
            return known, True
        claim.taken = True
        if claim.aside:
            self._asides.add(claim.id)
        return claim.id, claim.aside

    def _result(self, entry: QueueEntry, known: str, data: dict[str, Any]) -> None:
        if entry.error is not None:
            data["error"] = self._error(entry.error, entry.method)
            if isinstance(entry.error, MalformedMessage) and entry.method == "tools/call":
                # Whoever looks at a server wants to see what it really said.
                answer = self.wire.answer_to(entry.params)
                data["result"], data["result_size"] = self._within(answer, self._limits.content_bytes)
        elif known not in self._asides:
            data["result"], data["result_size"] = self._within(_dumped(entry.result), self._limits.content_bytes)

    def _read_begins(self, entry: QueueEntry, known: str) -> None:
        """Whatever changed up to now, this read answers; what changes from now on, it may not."""
        uri = entry.params.get("uri")
        if entry.method == "resources/read" and isinstance(uri, str) and uri in self.wire.changes:
            self._answering[known] = self.wire.changes.pop(uri)

    def _read_ended(self, entry: QueueEntry, known: str) -> None:
        answers = self._answering.pop(known, None)
        uri = entry.params.get("uri")
        if entry.method != "resources/read" or not isinstance(uri, str):
            return
        if entry.error is not None or not isinstance(entry.result, ReadResourceResult):
            if answers is not None:
                seq, number = self.wire.changes.pop(uri, (0, 0))
                self.wire.changes[uri] = (max(seq, answers[0]), number + answers[1])
            return
        contents, size = self._within(_dumped(entry.result).get("contents", []), self._limits.content_bytes)
        seq, number = answers or (None, 0)
        took = (entry.completed_at or 0.0) - (entry.started_at or 0.0)
        self._tell(
            "content",
            {
                "uri": uri,
                "contents": contents,
                "hash": digest(entry.result),
                "size": size,
                "took": round(took, 6),
                "change": seq,
                "changes": number,
            },
        )

    def _progress(self, event: ProgressMade) -> None:
        if (known := self._ids.get(event.entry)) is not None:
            message = None if event.message is None else event.message[:10_000]
            self._tell("progress", {"id": known, "progress": event.progress, "total": event.total, "message": message})

    # Questions.

    def _asked(self, event: PendingAdded) -> None:
        request = event.request
        timeout = self._client.pending.timeout
        asked_at = request.created_at.timestamp()
        params, _ = self._within(_dumped(request.request), self._limits.record_bytes)
        data: dict[str, Any] = {
            "id": request.id,
            "kind": request.kind,
            "params": params,
            "message": self._mask(request.message[:_MASKED]),
            "deadline": None if timeout is None else asked_at + timeout,
        }
        self._tell("question", data)

    def _answered(self, event: PendingSettled) -> None:
        outcome: Any = event.outcome
        answer: Any = _dumped(outcome) if isinstance(outcome, BaseModel) else None
        match outcome:
            case ErrorData():
                words, answer = "refused", outcome.message
            case ElicitResult(action="accept"):
                words = "answered"
            case ElicitResult():
                words = "declined" if outcome.action == "decline" else "cancelled"
            case AnswerTimedOut():
                words, answer = "timed out", outcome.message
            case Exception():
                words, answer = "no longer wanted", str(outcome)
            case _:
                words = "answered"
        answer, _ = self._within(answer, self._limits.record_bytes)
        self._tell("answered", {"id": event.request.id, "outcome": words, "answer": answer})

    def _within(self, value: Any, most: int) -> tuple[Any, int]:
        """The value without secrets, or what is left of it if it is too large; and its size."""
        size = weigh(value, most)
        if size > most:
            return self._mask(cut(value, size)), size
        return self._mask(value), size


def _dumped(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return value
