"""The wire recorder: makes records of the messages and HTTP exchanges of one client, as its tap.

Liveness checks are not recorded as messages while they succeed: at one a second they would push out everything else.
Each becomes an `answer-time`. The HTTP exchange of a check that fails is recorded.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tidings._kit.bounded_json import as_dict_or_none, as_text, cut, weigh
from tidings.client.transports.tap import Exchange, Message
from tidings.inspector.records import CHANGE_METHODS, LIVENESS_CHECKS, Record, SessionLimits

_UPDATED: Final = "notifications/resources/updated"
_MOST_HEADER_BYTES: Final = 65_536

# Makes a record of a kind with this data. Returns None if the server was removed from the session.
MakeRecord = Callable[[str, dict[str, Any]], Record | None]


class WireRecorder:
    """A tap that makes records."""

    def __init__(self, record: MakeRecord, limits: SessionLimits, clock: Callable[[], float]) -> None:
        self._record = record
        self._limits = limits
        self._clock = clock
        self._connected = False
        self._shown_checks = 0
        self._checks: dict[str | int, float] = {}
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
        """Prepares for the exchanges of a new client."""
        self.end()
        self._base = self._highest

    def message(self, message: Message) -> None:
        """Records a message that is about to be sent, or has arrived."""
        if not (self._arrived(message.body) if message.incoming else self._sent(message.body, message.exchange)):
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

    def _sent(self, body: dict[str, Any], exchange: int | None) -> bool:
        """Returns whether to record a message that goes out."""
        known: Any = body.get("id")
        begun = None if exchange is None else self._begun.pop(exchange, None)
        if self._connected and body.get("method") in LIVENESS_CHECKS and isinstance(known, str | int):
            if not self._shown_checks:
                self._checks[known] = self._clock()
                if exchange is not None:
                    self._quiet.add(exchange)
                return False
            self._shown_checks -= 1
        if begun is not None:
            self._record_exchange(begun, whole=True)
        return True

    def _arrived(self, body: dict[str, Any]) -> bool:
        """Returns whether to record a message that came in."""
        known: Any = body.get("id")
        if isinstance(body.get("method"), str) or not isinstance(known, str | int):
            return True
        if (asked_at := self._checks.pop(known, None)) is None:
            return True
        self._record("answer-time", {"ms": round((self._clock() - asked_at) * 1000, 3)})
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
