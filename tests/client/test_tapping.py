"""Reading along, part by part: events of a stream, and bodies with secrets in them."""

import json
import logging
from collections.abc import AsyncGenerator
from itertools import pairwise
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.client.test_tap import Tape
from tidings.client.targets import CommandTarget, HttpTarget
from tidings.client.transports.tap import BoundedTransport, SseParser, TapReporter

STREAM = (
    b": a comment\r\n\r\nevent: endpoint\ndata: /messages\n\nid: 1\ndata: {one}\n\n"
    b"event: message\rdata:{two\rdata: more}\r\rretry: 3\r\n\r\n"
    b'event:\r\ndata: {"t\xc3\xb6": 3}\r\n\r\ndata: unfinished\n'
)


@given(st.lists(st.integers(1, len(STREAM)), max_size=30))
def test_events_are_the_same_however_the_stream_is_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    events = SseParser(1000)
    pieces = [STREAM[start:end] for start, end in pairwise(places)]
    assert [event for piece in pieces for event in events.feed(piece)] == [
        b"{one}",
        b"{two\nmore}",
        '{"tö": 3}'.encode(),
    ]


@pytest.mark.parametrize("piece", [1, 7, 1000])
@pytest.mark.parametrize("data", [b"data: " + b"x" * 200, (b"data: " + b"x" * 30 + b"\n") * 6])
def test_of_an_event_beyond_the_limit_only_its_size_is_told_and_once(data: bytes, piece: int) -> None:
    stream = b"data: before\n\n" + data + b"\n\ndata: after\n\n"
    events = SseParser(100)
    told = [each for start in range(0, len(stream), piece) for each in events.feed(stream[start : start + piece])]
    assert told[0] == b"before"
    assert told[-1] == b"after"
    [size] = told[1:-1]
    assert isinstance(size, int)
    assert size > 100


def _told(body: Any, target: Any) -> dict[str, Any]:
    tape = Tape()
    TapReporter(tape, target).message(json.dumps(body), incoming=True)
    return tape.messages[0].body


def test_a_secret_is_masked_wherever_it_is_and_the_message_stays_one() -> None:
    target = CommandTarget("run", env={"A": "result", "B": "12345678", "C": "two\nlines here", "D": "käse-secret"})
    body = {
        "jsonrpc": "2.0",
        "id": 12345678,
        "result": {"result": ["the result is", 12345678, 0.5, True, None], "lines": "two\nlines here, käse-secret"},
    }
    assert _told(body, target) == {
        "jsonrpc": "2.0",
        "id": "***",
        "result": {"***": ["the *** is", "***", 0.5, True, None], "lines": "***, ***"},
    }
    assert _told({"jsonrpc": "2.0", "method": "ping"}, target) == {"jsonrpc": "2.0", "method": "ping"}


def test_a_secret_that_is_written_with_escapes_is_masked_too() -> None:
    tape = Tape()
    TapReporter(tape, CommandTarget("run", env={"A": "sesame-open"})).message(
        b'{"jsonrpc": "2.0", "method": "x", "params": {"a": "\\u0073esame-open"}}', incoming=False
    )
    assert tape.messages[0].body["params"] == {"a": "***"}


def test_what_is_no_message_is_passed_over() -> None:
    tape = Tape()
    teller = TapReporter(tape, HttpTarget("http://host/"))
    for raw in (b"", b"<html>", b"[1]", b'{"access_token": "abc"}', b'{"jsonrpc": "2.0", "a": "\\ud800"}', b"\xff"):
        teller.message(raw, incoming=True)
    assert tape.told == []


def test_headers_show_what_helps_and_hide_what_is_secret() -> None:
    tape = Tape()
    teller = TapReporter(tape, HttpTarget("http://host/mcp?key=0123456789"))
    sent = {"authorization": "Bearer abcdefgh", "X-Api-Key": "k", "Proxy-Authorization": "p", "mcp-session-id": "one"}
    exchange = teller.begin("POST", "http://host/mcp?key=0123456789", sent)
    answer = {"set-cookie": "a=b", "location": "http://host/x?code=1", "www-authenticate": "Bearer abcdefgh realm=x"}
    exchange = teller.answered(exchange, 401, answer, is_stream=False)
    teller.ended(exchange, ValueError("0123456789 is wrong"), received=3)
    last = tape.exchanges[-1]
    assert last.url == "http://host/mcp"
    assert last.request_headers == {
        "authorization": "***",
        "X-Api-Key": "***",
        "Proxy-Authorization": "***",
        "mcp-session-id": "one",
    }
    assert last.response_headers == {
        "set-cookie": "***",
        "location": "http://host/x",
        "www-authenticate": "*** realm=x",
    }
    assert last.error == "ValueError: *** is wrong"
    assert last.received == 3


def test_a_message_too_deep_to_be_looked_through_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    deep = '{"jsonrpc": "2.0", "params": ' + "[" * 100_000 + "]" * 100_000 + "}"
    with caplog.at_level(logging.CRITICAL):
        TapReporter(Tape(), CommandTarget("run", env={"A": "sesame-open"})).message(deep, incoming=True)


@pytest.mark.anyio
async def test_a_request_that_is_sent_piece_by_piece_is_left_as_it_is() -> None:
    async def pieces() -> AsyncGenerator[bytes]:
        yield b"one"
        yield b"two"

    async def answer(request: httpx2.Request) -> httpx2.Response:
        assert await request.aread() == b"onetwo"
        return httpx2.Response(200, content=pieces())

    tape = Tape()
    tap = TapReporter(tape, HttpTarget("http://h/"))
    async with httpx2.AsyncClient(transport=BoundedTransport(httpx2.MockTransport(answer), 1000, tap)) as web:
        response = await web.post("http://h/token", content=pieces())
    assert response.text == "onetwo"
    assert [each.status for each in tape.exchanges] == [None, 200, 200]
    assert tape.exchanges[-1].received == 6
    assert tape.messages == []
