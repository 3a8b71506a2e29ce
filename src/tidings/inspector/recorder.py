"""The recorder: makes records of the events of a `LiveClient`, and of what goes over its wire.

The client's events say what a message means: the state, lists, changes, contents, requests, questions. The messages and
HTTP exchanges themselves are recorded by `WireRecorder`, which is the client's tap. Liveness checks are not recorded as
messages while they succeed: at one a second they would push out everything else. Each becomes an `answer-time`, which
is not stored. The HTTP exchange of a check that fails is recorded.
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any, Final

from mcp_types import ElicitResult, ErrorData
from pydantic import BaseModel

from tidings._kit.bounded_json import as_dict, as_dict_or_none, as_text, cut, plain, weigh
from tidings.changes import PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged
from tidings.client import events
from tidings.client.config import State
from tidings.client.live import LiveClient
from tidings.client.queue import QueueEntry, Status
from tidings.client.tasks import RemoteTask
from tidings.client.transports.tap import Exchange, Message
from tidings.errors import AnswerTimedOut, MalformedMessage, TidingsError
from tidings.inspector.records import (
    CHANGE_METHODS,
    LISTS,
    LIVENESS_CHECKS,
    ChangeName,
    ListKind,
    Record,
    SessionLimits,
)
from tidings.inspector.view.error_report import error_view
from tidings.inspector.view.view import ServerView

_UPDATED: Final = "notifications/resources/updated"
_MOST_HEADER_BYTES: Final = 65_536

# Makes a record of a kind with this data. Returns None if the server was removed from the session.
MakeRecord = Callable[[str, dict[str, Any]], Record | None]


class WireRecorder:
    """A tap that makes records."""

    def __init__(self, record: MakeRecord, limits: SessionLimits, clock: Callable[[], float]) -> None:
        self._record, self._limits, self._clock = record, limits, clock
        self._connected, self._shown_checks = False, 0
        self._checks: dict[str | int, tuple[float, Message]] = {}
        self._begun: dict[int, Exchange] = {}  # Exchanges that are not recorded yet: their message decides.
        self._quiet: set[int] = set()  # The exchanges of liveness checks.
        self._base = 0  # Added to the ids of exchanges: every client counts from 1.
        self._highest = 0

    def show_check(self) -> None:
        """Records the messages of the next liveness check: the user asked for it."""
        self._shown_checks += 1

    def begin(self) -> None:
        """Expects liveness checks from now on: the handshake is done."""
        self._connected = True

    def end(self) -> None:
        """Forgets the requests of a connection that ended."""
        self._connected = False
        self._checks.clear()
        self._begun.clear()
        self._quiet.clear()

    def start_client(self) -> None:
        self.end()
        self._base = self._highest

    def message(self, message: Message) -> None:
        if not (self._arrived(message) if message.incoming else self._sent(message)):
            return
        body = message.body
        shown = body
        if message.cut or message.size > self._limits.record_bytes:
            outer = {key: body[key] for key in ("jsonrpc", "id", "method") if key in body}
            shown = {**outer, **cut({} if message.cut else body, message.size)}
        exchange = None if message.exchange is None else message.exchange + self._base
        data = {"incoming": message.incoming, "body": shown, "size": message.size, "exchange": exchange}
        self._record("message", data)
        method: Any = body.get("method")
        if message.incoming and isinstance(method, str) and "id" not in body:
            self._notification(method, as_dict_or_none(body.get("params")), message.size)

    def _sent(self, message: Message) -> bool:
        """Returns whether to record a message that goes out."""
        body, exchange = message.body, message.exchange
        known: Any = body.get("id")
        begun = None if exchange is None else self._begun.pop(exchange, None)
        if self._connected and body.get("method") in LIVENESS_CHECKS and isinstance(known, str | int):
            if not self._shown_checks:
                self._checks[known] = self._clock(), message
                if exchange is not None:
                    self._quiet.add(exchange)
                return False
            self._shown_checks -= 1
        if begun is not None:
            self._record_exchange(begun, whole=True)
        return True

    def _arrived(self, message: Message) -> bool:
        body = message.body
        known: Any = body.get("id")
        is_answer = not isinstance(body.get("method"), str) and isinstance(known, str | int)
        if not is_answer or (check := self._checks.pop(known, None)) is None:
            return True
        asked_at, asked = check
        sizes = {"size": asked.size, "answer_size": message.size}
        answer = body if message.size <= _LARGEST_MESSAGE else cut(body, message.size)
        ms = round((self._clock() - asked_at) * 1000, 3)
        self._record("answer-time", {"ms": ms, "body": asked.body, "answer": answer, **sizes})
        return False

    def _notification(self, method: str, params: dict[str, Any] | None, size: int) -> None:
        def bounded(value: Any) -> Any:
            return cut(value, size) if size > self._limits.record_bytes else value

        given = params or {}
        if method == "notifications/message":
            level, logger = as_text(given.get("level")) or "info", as_text(given.get("logger"))
            data = {"level": level, "logger": logger, "data": bounded(given.get("data")), "size": size}
            self._record("log", data)
        elif method not in CHANGE_METHODS or (method == _UPDATED and not isinstance(given.get("uri"), str)):
            # The client announces valid changes.
            self._record("notification", {"method": method, "params": bounded(params), "size": size})

    def exchange(self, exchange: Exchange) -> None:
        """Records that an HTTP exchange began, was answered, or ended."""
        begins = exchange.answered is None and exchange.ended is None and exchange.error is None
        if begins and exchange.method == "POST":
            self._begun[exchange.id] = exchange
            return
        if exchange.id in self._quiet:
            failed = exchange.error is not None or (exchange.status or 0) >= 400
            if exchange.ended is not None or failed:
                self._quiet.discard(exchange.id)
            if not failed:
                return
            self._begun[exchange.id] = exchange
        self._record_exchange(exchange, whole=begins or self._begun.pop(exchange.id, None) is not None)

    def _record_exchange(self, exchange: Exchange, *, whole: bool) -> None:
        self._highest = max(self._highest, exchange.id + self._base)
        data: dict[str, Any] = {"id": exchange.id + self._base}
        if whole:
            data |= {"method": exchange.method, "url": exchange.url, "began": exchange.began}
            data["request_headers"] = _bounded(exchange.request_headers)
        if exchange.answered is not None and (whole or exchange.ended is None):
            data |= {"status": exchange.status, "is_stream": exchange.is_stream, "answered": exchange.answered}
            data["response_headers"] = _bounded(exchange.response_headers or {})
        if exchange.ended is not None or exchange.error is not None:
            data |= {"ended": exchange.ended, "error": exchange.error, "received": exchange.received}
        self._record("exchange", data)


def _bounded(headers: Mapping[str, str]) -> dict[str, Any]:
    kept: dict[str, Any] = dict(headers)
    return kept if (size := weigh(kept, _MOST_HEADER_BYTES)) <= _MOST_HEADER_BYTES else cut(kept, size)


_LARGEST_MESSAGE: Final = 65_536  # Bytes that are kept of a question's text, or of a malformed item.
_MOST_UNREAD: Final = 10_000
_MOST_ANSWERS: Final = 50  # Messages among which the answer to a request is looked for: it has just arrived.
_CHANGES: Final[dict[type, ChangeName]] = {
    ResourceUpdated: "resource-updated",
    ToolsListChanged: "tools-list-changed",
    ResourcesListChanged: "resources-list-changed",
    PromptsListChanged: "prompts-list-changed",
}


@dataclass(slots=True)
class RequestOrigin:
    """The id of a request that is about to be made."""

    id: str
    aside: bool
    taken: bool = False


_current_origin: ContextVar[RequestOrigin | None] = ContextVar("_current_origin", default=None)


class KnownServer:
    """The records of a server, whichever client is connected to it. `wire` is the tap that each client gets."""

    def __init__(self, record: MakeRecord, view: ServerView) -> None:
        self.record = record
        self.view = view
        self.lists = {name: _KnownList(kind, view.limits.record_bytes) for name, kind in LISTS.items()}
        self.wire = WireRecorder(record, view.limits, view.clock)


class Recorder:
    """Makes records of the events of one client."""

    def __init__(
        self, client: LiveClient, server: KnownServer, next_id: Callable[[], str], mask: Callable[[Any], Any]
    ) -> None:
        self._client, self._next_id, self._mask = client, next_id, mask
        self._record, self._view, self._lists, self.wire = server.record, server.view, server.lists, server.wire
        self._limits = server.view.limits
        self.is_command = client.transport == "stdio"
        self._ids: dict[QueueEntry, str] = {}
        self.entries: dict[str, QueueEntry] = {}  #: The client's entries of the requests that wait or run.
        self._asides: set[str] = set()
        self._changes: dict[events.ChangeReceived, int] = {}
        self._is_new = True
        client.on(events.StateChanged, self._state)
        client.on(events.ListLoaded, self._list)
        client.on(events.ChangeReceived, self._change)
        client.on(events.ChangesMissed, lambda _: self._record("changes-missed", {}))
        client.on(events.ReadCompleted, self._content)
        client.on(events.RequestChanged, lambda event: self._request(event.entry))
        client.on(events.ProgressMade, self._progress)
        client.on(events.TaskChanged, self._task)
        client.on(events.PendingAdded, self._question)
        client.on(events.PendingSettled, self._answered)
        most = self._limits.record_bytes
        client.on(events.StderrReceived, lambda event: self._record("stderr", {"text": event.line[:most]}))
        client.on(events.GarbageReceived, lambda event: self._record("garbage", {"text": event.text[:most]}))
        client.on(events.SubscriptionsChanged, lambda event: self._record("subscriptions", {"uris": list(event.uris)}))
        client.on(events.SubscriptionFailed, lambda event: self._failed("subscription-failed", event.uri, event.error))
        client.on(events.RefreshFailed, lambda event: self._failed("content-failed", event.uri, event.error))

    def expect(self, request_id: str, *, aside: bool = False) -> None:
        """Gives this id to the next request of the calling task. `aside`: the inspector makes it by itself."""
        _current_origin.set(RequestOrigin(request_id, aside))

    # The connection and the lists.

    def _state(self, event: events.StateChanged) -> None:
        if self._is_new:
            self._is_new = False
            return  # The link recorded that a new client connects.
        if event.new is State.CONNECTED:
            names = "transport", "era", "protocol_version", "server_info", "capabilities", "instructions", "pid"
            hello = {name: _dumped(getattr(self._client, name)) for name in names}
            self._record("hello", self._within(hello, self._limits.record_bytes)[0])
            self.wire.begin()
        elif event.old is State.CONNECTED:
            self.wire.end()
        data: dict[str, Any] = {"state": event.new.value, "old": event.old.value, "signal": event.signal.value}
        data |= {"tries": event.tries, "error": None if event.error is None else self._error(event.error)}
        data["next_retry"] = None if event.next_retry is None else event.next_retry.timestamp()
        self._record("state", data)

    def _list(self, event: events.ListLoaded) -> None:
        if event.error is not None:
            self._record("list", {"list": event.name, "error": self._error(event.error)})
            return
        bad = [(self._within(_dumped(each.item), _LARGEST_MESSAGE)[0], each.reason) for each in event.malformed]
        malformed = [{"item": item, "reason": reason} for item, reason in bad]
        self._record("list", self._lists[event.name].load(event.items, malformed))

    # Changes and contents.

    def _change(self, event: events.ChangeReceived) -> None:
        times = {"source": event.source, "published": event.published, "received": event.received}
        data: dict[str, Any] = {
            "change": _CHANGES[type(event.change)],
            "times": {name: at for name, at in times.items() if at is not None},
            "size": 200,
        }
        if isinstance(event.change, ResourceUpdated):
            uri = str(event.change.uri)[:8192]
            data |= {"uri": uri, "merged": event.unread, "size": min(200 + len(uri), 2_000)}
        if event.cursor is not None:
            data["cursor"] = event.cursor[:200]
        record = self._record("change", data)
        if record is not None and "uri" in data:
            self._changes[event] = record.seq
            if len(self._changes) > _MOST_UNREAD:
                del self._changes[next(iter(self._changes))]

    def _content(self, event: events.ReadCompleted) -> None:
        contents, size = self._within(_dumped(event.read.result).get("contents", []), self._limits.content_bytes)
        took = (event.entry.completed_at or 0.0) - (event.entry.started_at or 0.0)
        data = {
            "uri": event.read.uri,
            "contents": contents,
            "hash": event.read.digest,
            "size": size,
            "took": round(took, 6),
            "change": None if event.change is None else self._changes.pop(event.change, None),
            "changes": event.changes,
        }
        self._record("content", data)

    def _failed(self, kind: str, uri: str, error: TidingsError) -> None:
        self._record(kind, {"uri": uri, "error": self._error(error)})

    # Requests.

    def _request(self, entry: QueueEntry) -> None:
        known, is_new = self._ids.get(entry), False
        if known is None:
            known, is_new = self._identify(entry)
            self._ids[entry], self.entries[known] = known, entry
        data: dict[str, Any] = {"id": known, "status": entry.status.value}
        if is_new:
            params, _ = self._within(plain(entry.params), self._limits.record_bytes)
            aside = known in self._asides
            data |= {"method": entry.method, "params": params, "created_at": entry.created_at, "aside": aside}
        if entry.status is Status.IN_PROGRESS:
            data["started_at"] = entry.started_at
        if entry.over:
            data |= {"completed_at": entry.completed_at, "attempts": entry.attempts}
            if entry.error is not None:
                data["error"] = self._error(entry.error, entry.method)
            malformed = isinstance(entry.error, MalformedMessage) and known not in self._asides
            if malformed or (entry.error is None and known not in self._asides):
                # Of a malformed result, the user wants to see what the server really sent.
                result = self._raw_answer(entry) if malformed else _dumped(entry.result)
                data["result"], data["result_size"] = self._within(result, self._limits.content_bytes)
            if (task := entry.task) is not None:  # If the client still has it, it goes on.
                followed = {each.id for each in self._client.tasks}
                self._record_task(known, task, pending=not task.over and task.id in followed)
            self._asides.discard(known)
            del self._ids[entry], self.entries[known]
        self._record("request", data)

    def _identify(self, entry: QueueEntry) -> tuple[str, bool]:
        """Returns the id of a new request, and whether nothing of it is recorded yet."""
        origin = _current_origin.get()
        # Tasks that a request starts inherit its origin: requests that the client makes by itself must not take it.
        # A tool call is never one of them: one beside the queue follows a task.
        if origin is None or origin.taken or (entry.aside and entry.method != "tools/call"):
            known = self._next_id()
            self._asides.add(known)
            return known, True
        origin.taken = True
        if origin.aside:
            self._asides.add(origin.id)
        return origin.id, origin.aside

    def _raw_answer(self, entry: QueueEntry) -> Any:
        """Returns the answer to a request as it arrived; None if it is not among the last messages."""
        messages, names = self._view.messages, ("name", "arguments", "uri")
        for message in messages[-_MOST_ANSWERS:][::-1]:
            asked = None if message.partner is None or not message.incoming else messages.get(message.partner)
            if asked is not None and asked.method == entry.method:
                params = as_dict(asked.body.get("params"))
                if all((params.get(name) or {}) == (entry.params.get(name) or {}) for name in names):
                    return message.body.get("result")
        return None

    def _progress(self, event: events.ProgressMade) -> None:
        if (known := self._ids.get(event.entry)) is not None:
            message = None if event.message is None else event.message[:10_000]
            data = {"id": known, "progress": event.progress, "total": event.total, "message": message}
            self._record("progress", data)

    # Tasks.

    def _task(self, event: events.TaskChanged) -> None:
        call = event.task.call
        if call is not None and (known := self._ids.get(call.entry)) is not None:
            self._record_task(known, event.task, pending=not event.task.over)

    def _record_task(self, known: str, task: RemoteTask, *, pending: bool) -> None:
        data = {
            "request": known,
            "id": task.id,
            "status": task.status,
            "message": task.message and self._mask(task.message[:10_000]),
            "created_at": task.created_at and task.created_at.timestamp(),
            "updated_at": task.updated_at and task.updated_at.timestamp(),
            "ttl": task.ttl,
            "poll_interval": task.poll_interval,
            "listening": task.listening,
            "pending": pending,
        }
        self._record("task", data)

    # Questions.

    def _question(self, event: events.PendingAdded) -> None:
        request = event.request
        timeout = self._client.pending.timeout
        params, _ = self._within(_dumped(request.request), self._limits.record_bytes)
        message = self._mask(request.message[:_LARGEST_MESSAGE])
        deadline = None if timeout is None else request.created_at.timestamp() + timeout
        data = {"id": request.id, "kind": request.kind, "params": params, "message": message, "deadline": deadline}
        self._record("question", {**data, "request": request.call and self._ids.get(request.call)})

    def _answered(self, event: events.PendingSettled) -> None:
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
        self._record("answered", {"id": event.request.id, "outcome": words, "answer": answer})

    def _error(self, error: BaseException, method: str | None = None) -> dict[str, Any]:
        return asdict(error_view(error, is_command=self.is_command, method=method))

    def _within(self, value: Any, most: int) -> tuple[Any, int]:
        """Returns the value without secrets, cut if it is too large, and its size."""
        size = weigh(value, most)
        return self._mask(cut(value, size) if size > most else value), size


class _KnownList:
    """A list as it was recorded last, to record only differences: 10,000 resources are not repeated."""

    def __init__(self, kind: ListKind, most_bytes: int) -> None:
        self._name, self._key = kind.word, kind.id
        self._most_bytes = most_bytes
        self._items: dict[str, Mapping[str, Any]] = {}
        self._had: set[str] = set()

    def load(self, items: Sequence[Mapping[str, Any]], malformed: list[dict[str, Any]]) -> dict[str, Any]:
        """Returns the data of the record for a load of the list."""
        before = self._items
        now: dict[str, Mapping[str, Any]] = {}
        duplicates: list[Mapping[str, Any]] = []
        for item in items:
            key = as_text(item.get(self._key)) or ""
            if key in now:
                duplicates.append(item)
            else:
                now[key] = item
        data: dict[str, Any] = {
            "list": self._name,
            "added": [self._within(key, item) for key, item in now.items() if key not in before],
            "changed": [self._within(key, item) for key, item in now.items() if before.get(key, item) != item],
            "removed": [key for key in before if key not in now],
            "total": len(items),
        }
        if [*(key for key in before if key in now), *(key for key in now if key not in before)] != list(now):
            data["order"] = list(now)
        self._items = now
        for what, found in (("duplicates", duplicates), ("malformed", malformed)):
            if found or what in self._had:
                data[what] = found
            (self._had.add if found else self._had.discard)(what)
        return data

    def _within(self, key: str, item: Mapping[str, Any]) -> Mapping[str, Any]:
        size = weigh(item, self._most_bytes)
        return item if size <= self._most_bytes else {self._key: key, **cut(item, size)}


def _dumped(value: Any) -> Any:
    is_model = isinstance(value, BaseModel)
    return value.model_dump(mode="json", by_alias=True, exclude_none=True) if is_model else value
