"""What goes over the wire, as records: the tap of one client.

Notifications, log messages and changes are taken from here, where they arrive first and in order.

Liveness checks are not told as messages as long as they go well: at one a second they would push out everything else.
Each is an `answer-time` instead. The HTTP exchange of one that fails is told.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from tidings._kit.bounded_json import as_dict, as_dict_or_none, as_float, as_text, cut, weigh
from tidings.client.transports.tap import Exchange, Message
from tidings.inspector.listing import ListKeeper
from tidings.inspector.records import CHANGE_METHODS, Record, SessionLimits

_MOST: Final = 10_000
"""How much is remembered of what is under way."""
_ANSWERS: Final = 8
"""How many answers to calls are remembered: a client says that one is malformed right after it came."""
_CHECKS: Final = ("ping", "server/discover")
_CURSOR: Final = "dev.tidings/cursor"
_TIMES: Final = "dev.tidings/times"

Tell = Callable[[str, dict[str, Any]], Record | None]
"""Makes a record of a kind, with this data. None if nobody wants it any more."""


class WireRecorder:
    """A tap that makes records."""

    def __init__(self, tell: Tell, lists: ListKeeper, limits: SessionLimits, clock: Callable[[], float]) -> None:
        self._tell = tell
        self._lists = lists
        self._limits = limits
        self._clock = clock
        self.connected = False
        """Whether the handshake is done: what looks like a liveness check before it is none."""
        self.changes: dict[str, tuple[int, int]] = {}
        """For each URI: the change that was not read yet, and how many there were."""
        self._shown_checks = 0
        self._checks: dict[str | int, float] = {}
        self._methods: dict[str | int, str] = {}
        self._calls: dict[str | int, dict[str, Any]] = {}
        self._answers: deque[tuple[dict[str, Any], Any]] = deque(maxlen=_ANSWERS)
        self._begun: dict[int, Exchange] = {}
        self._quiet: set[int] = set()
        self._base = 0
        self._highest = 0

    def show_check(self) -> None:
        """The next liveness check is the user's own: tell its messages."""
        self._shown_checks += 1

    def ended(self) -> None:
        """The connection is over: nothing that was asked on it will be answered."""
        self.connected = False
        self._checks.clear()
        self._methods.clear()
        self._calls.clear()
        self._answers.clear()
        self._begun.clear()
        self._quiet.clear()

    def another_client(self) -> None:
        """A new client counts its exchanges from 1."""
        self.ended()
        self._base = self._highest

    def message(self, message: Message) -> None:
        """A message is about to be sent, or has arrived."""
        body = message.body
        told = self._arrived(body) if message.incoming else self._sent(body, message.exchange)
        if not told:
            return
        self._tell_message(message)
        self._remember_call(message)
        method: Any = body.get("method")
        if message.incoming and isinstance(method, str) and "id" not in body:
            self._notified(method, as_dict_or_none(body.get("params")), message.size)

    def answer_to(self, call: Mapping[str, Any]) -> Any:
        """What was answered to a call of a tool, as it came: for one that the client does not take. None: not known."""
        wanted = _called(call)
        return next((result for params, result in reversed(self._answers) if _called(params) == wanted), None)

    def _remember_call(self, message: Message) -> None:
        body = message.body
        known: Any = body.get("id")
        if not isinstance(known, str | int):
            return
        if not message.incoming and body.get("method") == "tools/call":
            self._calls[known] = as_dict(body.get("params"))
            if len(self._calls) > _MOST:
                del self._calls[next(iter(self._calls))]
        elif message.incoming and "method" not in body:
            call, is_whole = self._calls.pop(known, None), not message.cut and message.size <= self._limits.record_bytes
            if call is not None and is_whole and "result" in body:
                self._answers.append((call, body["result"]))

    def _sent(self, body: dict[str, Any], exchange: int | None) -> bool:
        """A message goes out; whether it is to be told."""
        known: Any = body.get("id")
        method: Any = body.get("method")
        begun = None if exchange is None else self._begun.pop(exchange, None)
        if self._is_check(method, known):
            self._checks[known] = self._clock()
            if exchange is not None:
                self._quiet.add(exchange)
            return False
        if begun is not None:
            self._tell_exchange(begun, whole=True)
        if isinstance(method, str) and isinstance(known, str | int):
            self._methods[known] = method
            self._lists.asked(method, as_dict(body.get("params")))
            if len(self._methods) > _MOST:
                del self._methods[next(iter(self._methods))]
        return True

    def _arrived(self, body: dict[str, Any]) -> bool:
        """A message came in; whether it is to be told."""
        known: Any = body.get("id")
        if isinstance(body.get("method"), str) or not isinstance(known, str | int):
            return True
        if (asked_at := self._checks.pop(known, None)) is not None:
            self._tell("answer-time", {"ms": round((self._clock() - asked_at) * 1000, 3)})
            return False
        if (asked := self._methods.pop(known, None)) is not None:
            self._lists.answered(asked, as_dict(body.get("result")))
        return True

    def _is_check(self, method: object, known: object) -> bool:
        if not self.connected or method not in _CHECKS or not isinstance(known, str | int):
            return False
        if self._shown_checks:
            self._shown_checks -= 1
            return False
        return True

    def _tell_message(self, message: Message) -> None:
        body: dict[str, Any] = message.body
        if message.cut or message.size > self._limits.record_bytes:
            outer = {key: body[key] for key in ("jsonrpc", "id", "method") if key in body}
            body = {**outer, **cut({} if message.cut else body, message.size)}
        exchange = None if message.exchange is None else message.exchange + self._base
        self._tell("message", {"incoming": message.incoming, "body": body, "size": message.size, "exchange": exchange})

    def _notified(self, method: str, params: dict[str, Any] | None, size: int) -> None:
        told = params or {}
        if method in CHANGE_METHODS:
            self._changed(method, told, size)
        elif method == "notifications/message":
            level, logger = as_text(told.get("level")) or "info", as_text(told.get("logger"))
            data = told.get("data")
            if size > self._limits.record_bytes:
                data = cut(data, size)
            self._tell("log", {"level": level, "logger": logger, "data": data, "size": size})
        else:
            if size > self._limits.record_bytes:
                params = cut(params, size)
            self._tell("notification", {"method": method, "params": params, "size": size})

    def _changed(self, method: str, params: dict[str, Any], size: int) -> None:
        meta = as_dict(params.get("_meta"))
        found = as_dict(meta.get(_TIMES))
        times = {key: at for key in ("source", "published") if (at := as_float(found.get(key))) is not None}
        times["received"] = self._clock()
        data: dict[str, Any] = {"change": CHANGE_METHODS[method], "times": times, "size": min(size, 2_000)}
        uri = as_text(params.get("uri"))
        before = (0, 0)
        if uri is not None:
            before = self.changes.pop(uri, before)
            data["uri"], data["merged"] = uri[:8192], before[1]
        if (cursor := as_text(meta.get(_CURSOR))) is not None:
            data["cursor"] = cursor[:200]
        record = self._tell("change", data)
        if uri is not None and record is not None:
            self.changes[uri] = (record.seq, before[1] + 1)
            if len(self.changes) > _MOST:
                del self.changes[next(iter(self.changes))]

    def exchange(self, exchange: Exchange) -> None:
        """An HTTP exchange began, was answered, or ended."""
        begins = exchange.answered is None and exchange.ended is None and exchange.error is None
        if begins and exchange.method == "POST":
            # What it carries is told next, and says whether it is worth telling.
            self._begun[exchange.id] = exchange
            return
        if exchange.id in self._quiet:
            failed = exchange.error is not None or (exchange.status or 0) >= 400
            if exchange.ended is not None or failed:
                self._quiet.discard(exchange.id)
            if not failed:
                return
            self._begun[exchange.id] = exchange
        self._tell_exchange(exchange, whole=begins or self._begun.pop(exchange.id, None) is not None)

    def _tell_exchange(self, exchange: Exchange, *, whole: bool) -> None:
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
        self._tell("exchange", data)


def _bounded(headers: Mapping[str, str]) -> dict[str, Any]:
    kept: dict[str, Any] = dict(headers)
    return kept if (size := weigh(kept, 65_536)) <= 65_536 else cut(kept, size)


def _called(params: Mapping[str, Any]) -> tuple[Any, Any]:
    return params.get("name"), params.get("arguments") or {}
