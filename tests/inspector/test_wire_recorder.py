"""Messages and HTTP exchanges become records."""

from typing import Any

from tidings.client.transports.tap import Exchange, Message
from tidings.inspector.recorder import WireRecorder
from tidings.inspector.records import Record, SessionLimits


class Ear:
    """A tap whose records are written down."""

    def __init__(self, **limits: int) -> None:
        self.records: list[Record] = []
        self.wire = WireRecorder(self.tell, SessionLimits(**limits), lambda: 50.0)

    def tell(self, kind: str, data: dict[str, Any]) -> Record:
        self.records.append(Record(len(self.records) + 1, 1.0, "it", kind, data))
        return self.records[-1]

    def hear(self, method: str, params: Any, size: int = 100) -> list[Record]:
        body = {"jsonrpc": "2.0", "method": method, "params": params}
        start = len(self.records)
        self.wire.message(Message(True, body, size))
        return self.records[start:]

    @property
    def kinds(self) -> list[str]:
        return [record.kind for record in self.records]


def test_a_log_message_is_told_as_one() -> None:
    _, log = Ear().hear("notifications/message", {"level": "warning", "logger": "db", "data": {"x": 1}})
    assert (log.kind, log.data) == ("log", {"level": "warning", "logger": "db", "data": {"x": 1}, "size": 100})


def test_one_that_is_not_as_the_protocol_says_is_told_all_the_same() -> None:
    ear = Ear()
    for params in (None, [], "x", {"level": 7, "logger": [], "data": None}):
        _, log = ear.hear("notifications/message", params)
        assert (log.data["level"], log.data["logger"]) == ("info", None)


def test_what_is_too_large_is_cut() -> None:
    ear = Ear(record_bytes=1_000)
    message, log = ear.hear("notifications/message", {"data": "x" * 5_000}, 5_100)
    assert message.data["body"]["method"] == "notifications/message"
    assert message.data["body"]["cut"] is log.data["data"]["cut"] is True
    assert log.data["data"]["head"] == "x" * 5_000
    _, other = ear.hear("notifications/odd", {"data": "x" * 5_000}, 5_100)
    assert other.data["params"]["cut"] is True


def test_changes_are_left_to_the_client_unless_they_are_malformed() -> None:
    ear = Ear()
    for method in ("notifications/resources/list_changed", "notifications/tools/list_changed"):
        assert [record.kind for record in ear.hear(method, None)] == ["message"]
    (message,) = ear.hear("notifications/resources/updated", {"uri": "a://1"})
    assert message.kind == "message"
    _, other = ear.hear("notifications/resources/updated", {"uri": 7})
    assert (other.kind, other.data["params"]) == ("notification", {"uri": 7})


def test_a_check_that_fails_is_told_with_its_exchange() -> None:
    ear = Ear()
    ear.wire.begin()
    begun = Exchange(1, "POST", "http://h/mcp", {}, began=1.0)
    ear.wire.exchange(begun)
    ear.wire.message(Message(False, {"jsonrpc": "2.0", "id": 1, "method": "ping"}, 50, 1))
    assert ear.records == []
    ear.wire.exchange(Exchange(1, "POST", "http://h/mcp", {}, began=1.0, ended=2.0, error="ConnectError"))
    (record,) = ear.records
    assert (record.kind, record.data["method"], record.data["error"]) == ("exchange", "POST", "ConnectError")


def test_an_exchange_without_a_message_is_told_when_it_is_answered() -> None:
    ear = Ear()
    ear.wire.exchange(Exchange(1, "POST", "http://h/token", {}, began=1.0))
    assert ear.kinds == []
    ear.wire.exchange(Exchange(1, "POST", "http://h/token", {}, 200, {"a": "b"}, began=1.0, answered=1.5))
    ear.wire.exchange(Exchange(1, "POST", "http://h/token", {}, 200, {"a": "b"}, False, 1.0, 1.5, 2.0))
    first, second = (record.data for record in ear.records)
    assert (first["url"], first["status"]) == ("http://h/token", 200)
    assert second == {"id": 1, "ended": 2.0, "error": None, "received": 0}


def test_before_the_handshake_is_done_nothing_is_taken_for_a_check() -> None:
    ear = Ear()
    ear.wire.message(Message(False, {"jsonrpc": "2.0", "id": 1, "method": "server/discover"}, 50))
    ear.wire.message(Message(True, {"jsonrpc": "2.0", "id": 1, "result": {}}, 50))
    assert ear.kinds == ["message", "message"]
    ear.wire.begin()
    ear.wire.message(Message(False, {"jsonrpc": "2.0", "id": 2, "method": "server/discover"}, 50))
    ear.wire.message(Message(True, {"jsonrpc": "2.0", "id": 2, "result": {}}, 50))
    assert ear.kinds == ["message", "message", "answer-time"]
