"""What answers before the server is there: what it says, what it leaves to the server, and that nobody notices."""

import json
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from tidings.cli.front import Front, Wire
from tidings.cli.front_answers import LONGEST, Answers, parse

OLD, NEW = "2025-06-18", "2026-07-28"
TABLE = {
    OLD: {"initialize": '{"hello":"old"}', "ping": "{}", "tools/list": '{"tools":["old"]}'},
    NEW: {"server/discover": '{"hello":"new"}', "tools/list": '{"tools":["new"]}'},
}
INFO = {"name": "somebody", "version": "1"}
HELLO = {"protocolVersion": OLD, "capabilities": {}, "clientInfo": INFO}
KEY = "io.modelcontextprotocol/"
META = {f"{KEY}protocolVersion": NEW, f"{KEY}clientCapabilities": {}, f"{KEY}clientInfo": INFO}


def request(id_: Any, method: str, params: Any = None, **more: Any) -> dict[str, Any]:
    given = {} if params is None else {"params": params}
    return {"jsonrpc": "2.0", "id": id_, "method": method, **given, **more}


def line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


def said(*messages: dict[str, Any] | None) -> list[Any]:
    """The results that are given to messages, one after the other; None where the server has to answer."""
    answers = Answers(TABLE)
    return [json.loads(given.line)["result"] if (given := answers.answer(each)) else None for each in messages]


# What is answered


def test_a_client_of_the_old_era_gets_its_handshake_and_the_lists_of_its_version() -> None:
    messages = [
        request(0, "initialize", HELLO),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request("a", "tools/list"),
        request(2, "ping", {}),
    ]
    assert said(*messages) == [{"hello": "old"}, None, {"tools": ["old"]}, {}]


def test_a_client_of_the_modern_era_gets_what_its_envelope_asks_for() -> None:
    bare = {key: value for key, value in META.items() if "clientInfo" not in key}
    messages = [request(1, "server/discover", {"_meta": META}), request(2, "tools/list", {"_meta": bare})]
    assert said(*messages) == [{"hello": "new"}, {"tools": ["new"]}]


def test_what_is_not_known_waits_for_the_server_and_others_do_not_wait_for_it() -> None:
    messages = [request(0, "initialize", HELLO), request(1, "resources/list"), request(2, "tools/list")]
    assert said(*messages) == [{"hello": "old"}, None, {"tools": ["old"]}]


@pytest.mark.parametrize(
    "capabilities",
    [
        {"roots": {"listChanged": True}, "sampling": {}},
        {"elicitation": {"form": {}, "url": {}}, "tasks": {"requests": {"sampling": {"createMessage": {}}}}},
        {"experimental": {"x": {"any": [1, "thing"]}}, "extensions": {"org.example/ui": {"mimeTypes": ["text/html"]}}},
    ],
)
def test_what_clients_say_they_can_is_no_reason_for_silence(capabilities: dict[str, Any]) -> None:
    assert said(request(0, "initialize", {**HELLO, "capabilities": capabilities})) == [{"hello": "old"}]


# What is not


@pytest.mark.parametrize(
    "hello",
    [
        {**HELLO, "protocolVersion": "1999-01-01"},
        {**HELLO, "protocolVersion": NEW},
        {**HELLO, "protocolVersion": 1},
        {**HELLO, "capabilities": None},
        {**HELLO, "capabilities": {"roots": {"listChanged": 1}}},
        {**HELLO, "capabilities": {"roots": []}},
        {**HELLO, "capabilities": {"sampling": {"tools": True}}},
        {**HELLO, "capabilities": {"experimental": {"x": 1}}},
        {**HELLO, "capabilities": {"unheard": {}}},
        {**HELLO, "clientInfo": {"name": "x"}},
        {**HELLO, "clientInfo": {**INFO, "icons": []}},
        {**HELLO, "clientInfo": {**INFO, "title": 1}},
        {**HELLO, "_meta": {}},
        {"protocolVersion": OLD},
        [],
        None,
    ],
)
def test_an_unusual_handshake_is_left_to_the_server_with_all_that_follows(hello: Any) -> None:
    assert said(request(0, "initialize", hello), request(1, "tools/list"), request(2, "ping")) == [None, None, None]


@pytest.mark.parametrize(
    "params",
    [
        {"_meta": {**META, f"{KEY}protocolVersion": "2030-01-01"}},
        {"_meta": {**META, f"{KEY}protocolVersion": OLD}},
        {"_meta": {**META, f"{KEY}clientCapabilities": None}},
        {"_meta": {**META, "progressToken": 1}},
        {"_meta": {**META, f"{KEY}clientInfo": None}},
        {"_meta": META, "cursor": "x"},
        {"_meta": None},
        {},
    ],
)
def test_an_unusual_envelope_is_left_to_the_server(params: Any) -> None:
    assert said(request(0, "tools/list", params)) == [None]


def test_a_list_with_parameters_is_left_to_the_server() -> None:
    hello = request(0, "initialize", HELLO)
    asked = [request(1, "tools/list", {"cursor": "x"}), request(2, "tools/list", {"_meta": {}}), request(3, "ping")]
    assert said(hello, *asked) == [{"hello": "old"}, None, None, {}]


def test_nothing_is_answered_before_the_handshake() -> None:
    assert said(request(0, "ping"), request(1, "initialize", HELLO)) == [None, None]


def test_a_second_handshake_is_the_servers() -> None:
    twice = [request(0, "initialize", HELLO), request(1, "initialize", HELLO), request(2, "ping")]
    assert said(*twice) == [{"hello": "old"}, None, None]


@pytest.mark.parametrize(
    "odd",
    [
        None,
        request(0, "ping"),
        request(True, "ping"),
        request(1.5, "ping"),
        request(None, "ping"),
        request(2**60, "ping"),
        request(1, "ping", extra=1),
        {"jsonrpc": "2.0", "id": 5, "result": {}},
        {"jsonrpc": "1.0", "id": 5, "method": "ping"},
        {"jsonrpc": "2.0", "id": 5, "method": 7},
    ],
)
def test_after_something_odd_all_is_the_servers(odd: Any) -> None:
    assert said(request(0, "initialize", HELLO), odd, request(9, "ping")) == [{"hello": "old"}, None, None]


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"",
        b"[]",
        b"1",
        b"\xff{}",
        b'{"a": NaN}',
        b'{"a": "\\uD800"}',
        b"[" * 60_000,
        b'{"a": "' + b"x" * LONGEST + b'"}',
    ],
)
def test_a_line_that_not_everybody_reads_alike_is_none(text: bytes) -> None:
    assert parse(text) is None


# What goes to the client


@contextmanager
def wired() -> Generator[tuple[Wire, int]]:
    readable, writable = os.pipe()
    try:
        yield Wire(writable), readable
    finally:
        os.close(readable)
        os.close(writable)


def answered(id_: int | str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "result": {"hello": "old"}}


def test_the_servers_own_answer_is_dropped_once_and_nothing_else_is() -> None:
    answers = Answers(TABLE)
    given = answers.answer(request(1, "initialize", HELLO))
    assert given
    told = {"jsonrpc": "2.0", "method": "notifications/x"}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}
    with wired() as (wire, client):
        assert wire.give(given)
        wire.write(line(told) + line(asked) + line(answered("1")))
        wire.write(line(answered(1))[:10])
        wire.write(line(answered(1))[10:] + b'{"half":')
        wire.write(b"1}\n")
        wire.write(line(answered(1)))
        expected = [given.line, line(told), line(asked), line(answered("1")), b'{"half":1}\n', line(answered(1))]
        assert os.read(client, 10_000) == b"".join(expected)


def test_with_the_servers_first_word_the_front_is_silent() -> None:
    given = Answers(TABLE).answer(request(1, "initialize", HELLO))
    assert given
    with wired() as (wire, client):
        wire.write(b"{}\n")
        assert wire.silent
        assert not wire.give(given)
        assert os.read(client, 100) == b"{}\n"


def test_an_answer_that_is_not_the_servers_is_not_kept_quiet(caplog: pytest.LogCaptureFixture) -> None:
    given = Answers(TABLE).answer(request(1, "initialize", HELLO))
    assert given
    with wired() as (wire, _):
        wire.give(given)
        wire.write(line({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}}))
    assert "is not what it answers" in caplog.text


def test_a_client_that_is_gone_is_the_servers_to_meet() -> None:
    given = Answers(TABLE).answer(request(1, "initialize", HELLO))
    assert given
    readable, writable = os.pipe()
    os.close(readable)
    wire = Wire(writable)
    assert not wire.give(given)
    with pytest.raises(BrokenPipeError):
        wire.write(line(answered(1)))
    os.close(writable)


# All of it


class Passed:
    """A front between two pipes: what the server gets, and what the client does."""

    def __init__(self) -> None:
        self._source, self.client = os.pipe()
        self.server, target = os.pipe()
        self.heard, self._sink = os.pipe()
        self.wire = Wire(self._sink)
        Front(Answers(TABLE), self._source, self.wire, target).start()

    def close(self) -> None:
        for file in (self._source, self.server, self.heard, self._sink):
            os.close(file)


@pytest.fixture
def passed() -> Generator[Passed]:
    made = Passed()
    yield made
    made.close()


def rest_of(file: int) -> bytes:
    found = b""
    while more := os.read(file, 65_536):
        found += more
    return found


def test_the_server_gets_the_whole_input_as_it_was(passed: Passed) -> None:
    text = line(request(1, "initialize", HELLO)) + b"no json\r\n\n" + line(request(2, "ping")) + b"the end"
    for begin in range(0, len(text), 7):
        os.write(passed.client, text[begin : begin + 7])
    os.close(passed.client)
    assert rest_of(passed.server) == text
    assert json.loads(os.read(passed.heard, 10_000)) == answered(1)


def test_what_was_answered_cannot_be_taken_back(passed: Passed) -> None:
    hello = line(request(1, "initialize", HELLO))
    back = [
        line({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}}) for id_ in (1, 2)
    ]
    os.write(passed.client, hello + back[0] + back[1])
    os.close(passed.client)
    assert rest_of(passed.server) == hello + back[1]


def test_a_long_line_passes_through_and_nothing_is_answered_after_it(passed: Passed) -> None:
    text = line(request(1, "initialize", HELLO)) + b"x" * 300_000 + b"\n" + line(request(2, "ping"))
    got: list[bytes] = []
    reading = threading.Thread(target=lambda: got.append(rest_of(passed.server)))
    reading.start()
    for begin in range(0, len(text), 50_000):
        os.write(passed.client, text[begin : begin + 50_000])
    os.close(passed.client)
    reading.join(10)
    assert got == [text]
    assert json.loads(os.read(passed.heard, 10_000))["id"] == 1
    assert passed.wire.was_given(1)
    assert not passed.wire.was_given(2)


def test_once_the_server_speaks_all_is_passed_on_as_it_comes(passed: Passed) -> None:
    passed.wire.write(b"{}\n")
    os.write(passed.client, b"half a li")
    assert os.read(passed.server, 100) == b"half a li"
    os.close(passed.client)
    assert rest_of(passed.server) == b""


def test_an_end_before_anything_is_the_end(passed: Passed) -> None:
    os.close(passed.client)
    assert rest_of(passed.server) == b""
