"""What a server answers to nonsense, to what it does not have, and to too much: the right error for its era, with words
that help, and nothing left behind.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest

from tests.server import wire
from tests.server.serving import eventually, live, notes, sockets, tasks
from tests.server.wire import JSON, Era, Response, Session, both_eras, changed, http, listen_request, message, subscribe
from tidings.server import Limits

pytestmark = pytest.mark.anyio

INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, INTERNAL = -32602, -32600, -32601, -32700, -32603
NOT_FOUND = {"modern": -32602, "legacy": -32002}
LONG = "note://" + "x" * 9_000
TOO_MANY = [f"note://{number}" for number in range(10_001)]
MILLION = ["note://a"] * 1_000_000


@dataclass(frozen=True)
class Case:
    """A request, and what its answer has: the status, the code (None where there is no JSON-RPC), and these words."""

    name: str
    request: Callable[[Session], bytes]
    status: int
    code: int | None
    words: tuple[str, ...] = ()


def asks(name: str, subscriptions: Any, *words: str, status: int = 400, code: int | None = INVALID_PARAMS) -> Case:
    """A listen for these subscriptions."""
    return Case(name, lambda _: listen_request({"resourceSubscriptions": subscriptions}), status, code, words)


def filters(name: str, filter: Any, *words: str) -> Case:  # noqa: A002 - what the protocol calls it
    return Case(name, lambda _: listen_request(filter), 400, INVALID_PARAMS, words)


def posts(name: str, body: bytes, status: int, code: int | None, *words: str, **headers: str) -> Case:
    """A modern POST with this body, and these headers in place of the usual."""
    usual = wire.modern_headers("subscriptions/listen")
    return Case(name, lambda _: http("POST", usual | _named(headers), body), status, code, words)


def says(name: str, method: str, params: Any, code: int, *words: str) -> Case:
    """A legacy request within a session."""
    return Case(name, lambda it: http("POST", JSON | it.headers, message(method, params, 5)), 200, code, words)


def sends(name: str, body: bytes, status: int, code: int | None, *words: str, **headers: str) -> Case:
    """A legacy POST within a session, with these headers in place of the usual."""
    return Case(name, lambda it: http("POST", JSON | it.headers | _named(headers), body), status, code, words)


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


GOOD_LISTEN = message(
    "subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": wire.modern_meta()}, 1
)
NO_ID = message("subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": wire.modern_meta()})
GOOD_SUBSCRIBE = message("resources/subscribe", {"uri": "note://a"}, 1)

MODERN = [
    asks("a URI without a scheme", ["today"], "scheme", "today"),
    asks("an empty URI", [""], "scheme"),
    asks("a URI with a space", ["note://a b"], "spaces", "position 8"),
    asks("a URI with a line break", ["note://a\r\ndata: {}"], "control characters"),
    asks("a URI with half a character", ["note://\ud800"], "control characters"),
    asks("a URI that is too long", [LONG], "9007", "8192"),
    asks("a prefix that is none", ["a b*"], "prefix"),
    asks("one bad URI among good ones", ["note://a", "today", "note://b"], "today"),
    asks("a resource that is not there", ["other://x"], "not found", "other://x"),
    asks("a prefix of nothing", ["other://*"], "not found", "other://*"),
    asks("too many subscriptions", TOO_MANY, "10001", "at most 10000", status=429, code=INTERNAL),
    asks("a million subscriptions", MILLION, "too large", status=413, code=None),
    asks("a text for a list", "note://a", "resourceSubscriptions"),
    asks("numbers for URIs", [1, 2], "resourceSubscriptions"),
    asks("nothing for a URI", [None], "resourceSubscriptions"),
    asks("an object for a list", {"note://a": True}, "resourceSubscriptions"),
    filters("a number for a flag", {"toolsListChanged": 7}, "toolsListChanged"),
    filters("an object for a flag", {"toolsListChanged": {}}, "toolsListChanged"),
    filters("a list for a filter", [], "notifications"),
    filters("a text for a filter", "note://a", "notifications"),
    filters("nothing for a filter", None, "notifications"),
    posts(
        "no filter",
        message("subscriptions/listen", {"_meta": wire.modern_meta()}, 1),
        400,
        INVALID_PARAMS,
        "notifications",
    ),
    posts("no parameters", message("subscriptions/listen", None, 1), 400, INVALID_PARAMS),
    posts("a list for parameters", message("subscriptions/listen", [1], 1), 400, INVALID_REQUEST),
    posts("no id", NO_ID, 202, None),
    posts("nothing for an id", GOOD_LISTEN.replace(b'"id":1', b'"id":null'), 400, INVALID_REQUEST),
    posts("a list for an id", GOOD_LISTEN.replace(b'"id":1', b'"id":[1]'), 400, INVALID_REQUEST),
    posts("two at once", b"[" + GOOD_LISTEN + b"]", 400, INVALID_REQUEST, "single"),
    posts("broken JSON", GOOD_LISTEN[:-2], 400, PARSE_ERROR, "Parse error"),
    posts("no JSON at all", b"\xff\xfe", 400, PARSE_ERROR, "Parse error"),
    posts("no body", b"", 400, PARSE_ERROR, "Parse error"),
    posts("an answer that it does not take", GOOD_LISTEN, 406, None, Accept="text/html"),
    posts("an answer that cannot stream", GOOD_LISTEN, 406, None, Accept="application/json"),
    posts("another type of content", GOOD_LISTEN, 400, None, "Content-Type", Content_Type="text/plain"),
    posts("a header of another method", GOOD_LISTEN, 400, -32020, "Mcp-Method", Mcp_Method="tools/list"),
    posts("a header of another version", GOOD_LISTEN, 400, -32020, "version", MCP_Protocol_Version="2099-01-01"),
    posts(
        "an unknown version",
        GOOD_LISTEN.replace(b"2026-07-28", b"2099-01-01"),
        400,
        -32022,
        "version",
        MCP_Protocol_Version="2099-01-01",
    ),
    Case(
        "the legacy era's method",
        lambda _: http(
            "POST",
            wire.modern_headers("resources/subscribe"),
            message("resources/subscribe", {"uri": "note://a", "_meta": wire.modern_meta()}, 1),
        ),
        404,
        METHOD_NOT_FOUND,
        ("not found",),
    ),
]

SUBSCRIBE = "resources/subscribe"
LEGACY = [
    says("a URI without a scheme", SUBSCRIBE, {"uri": "today"}, INVALID_PARAMS, "scheme", "today"),
    says("an empty URI", SUBSCRIBE, {"uri": ""}, INVALID_PARAMS, "scheme"),
    says("a URI with a space", SUBSCRIBE, {"uri": "note://a b"}, INVALID_PARAMS, "spaces", "position 8"),
    says("a URI with a line break", SUBSCRIBE, {"uri": "note://a\r\n"}, INVALID_PARAMS, "control characters"),
    says("a URI that is too long", SUBSCRIBE, {"uri": LONG}, INVALID_PARAMS, "9007", "8192"),
    says("a prefix that is none", SUBSCRIBE, {"uri": "a b*"}, INVALID_PARAMS, "prefix"),
    says("a resource that is not there", SUBSCRIBE, {"uri": "other://x"}, -32002, "not found", "other://x"),
    says("a prefix of nothing", SUBSCRIBE, {"uri": "other://*"}, -32002, "not found", "other://*"),
    says("a number for a URI", SUBSCRIBE, {"uri": 7}, INVALID_PARAMS, "uri"),
    says("a list for a URI", SUBSCRIBE, {"uri": ["note://a"]}, INVALID_PARAMS, "uri"),
    says("nothing for a URI", SUBSCRIBE, {"uri": None}, INVALID_PARAMS, "uri"),
    says("no URI", SUBSCRIBE, {}, INVALID_PARAMS, "uri"),
    says("no parameters", SUBSCRIBE, None, INVALID_PARAMS),
    says("a bad URI to unsubscribe from", "resources/unsubscribe", {"uri": "today"}, INVALID_PARAMS, "scheme"),
    says("a number to unsubscribe from", "resources/unsubscribe", {"uri": 7}, INVALID_PARAMS, "uri"),
    says("the modern era's method", "subscriptions/listen", {"notifications": {}}, METHOD_NOT_FOUND, "not found"),
    sends("a list for parameters", message(SUBSCRIBE, [1], 1), 400, INVALID_PARAMS),
    sends("no id", message(SUBSCRIBE, {"uri": "note://a"}), 202, None),
    sends("nothing for an id", GOOD_SUBSCRIBE.replace(b'"id":1', b'"id":null'), 202, None),
    sends("a batch", b"[" + GOOD_SUBSCRIBE + b"]", 400, INVALID_PARAMS),
    sends("broken JSON", GOOD_SUBSCRIBE[:-2], 400, PARSE_ERROR, "Parse error"),
    sends("no body", b"", 400, PARSE_ERROR, "Parse error"),
    sends("an answer that it does not take", GOOD_SUBSCRIBE, 406, INVALID_REQUEST, "accept", Accept="text/html"),
    sends("another type of content", GOOD_SUBSCRIBE, 400, None, "Content-Type", Content_Type="text/plain"),
    sends("an unknown session", GOOD_SUBSCRIBE, 404, INVALID_REQUEST, "Session not found", Mcp_Session_Id="0" * 32),
    Case("no session", lambda _: http("POST", JSON, GOOD_SUBSCRIBE), 400, INVALID_REQUEST, ("session",)),
    Case(
        "a stream of an unknown session",
        lambda _: http("GET", {"Accept": "text/event-stream", "Mcp-Session-Id": "0" * 32}),
        404,
        INVALID_REQUEST,
        ("Session not found",),
    ),
    Case(
        "a stream that is no stream",
        lambda it: http("GET", it.headers | {"Accept": "application/json"}),
        406,
        INVALID_REQUEST,
        ("text/event-stream",),
    ),
    Case(
        "a body that is too large",
        lambda it: http("POST", JSON | it.headers, message(SUBSCRIBE, {"uri": "note://" + "x" * 5_000_000}, 1)),
        413,
        None,
        ("too large",),
    ),
]


def check(case: Case, response: Response) -> None:
    assert response.status == case.status, response.body[:500]
    if case.code is None:
        text = response.body.decode()
    else:
        error = response.error
        assert error["code"] == case.code, error
        text = error["message"]
        assert len(json.dumps(error)) < 3_000, "an answer does not repeat all that was asked"
    for word in case.words:
        assert word.lower() in text.lower(), text
    assert "Traceback" not in text


@pytest.mark.parametrize("case", MODERN, ids=lambda case: case.name)
async def test_the_modern_era_answers(case: Case) -> None:
    mcp = notes()
    async with live(mcp) as port:
        check(case, await wire.once(port, case.request(Session(port))))
        assert mcp.notify.subscribers() == []
        assert mcp.notify.counts() == {"tools": 0, "prompts": 0, "resources": 0, "unreachable": 0}


@pytest.mark.parametrize("case", LEGACY, ids=lambda case: case.name)
async def test_the_old_era_answers(case: Case) -> None:
    mcp = notes()
    async with live(mcp) as port:
        session = await Session.start(port)
        check(case, await wire.once(port, case.request(session)))
        # The session itself is well, and hears of lists; of resources it hears of none.
        assert (await session.request("ping")).json["result"] == {}
        assert mcp.notify.counts() == {"tools": 0, "prompts": 0, "resources": 0, "unreachable": 1}


async def test_nothing_is_left_of_any_of_this() -> None:
    mcp = notes()
    async with live(mcp) as port:
        await (await subscribe("legacy", port)).leave()  # What the SDK sets up once, and keeps.
        await eventually(lambda: mcp.notify.subscribers() == [] and sockets() == 1)
        before = tasks(), sockets()
        session = await Session.start(port)
        for case in MODERN + LEGACY:
            check(case, await wire.once(port, case.request(session)))
        await session.delete()
        await eventually(lambda: mcp.notify.subscribers() == [] and tasks() <= before[0] and sockets() == before[1])
        assert mcp.notify.counts() == {"tools": 0, "prompts": 0, "resources": 0, "unreachable": 0}
        assert mcp._live._core.streams_ended.is_set()


async def test_keys_that_nobody_knows_are_ignored() -> None:
    mcp = notes()
    async with live(mcp) as port:
        filter = {"toolsListChanged": True, "moonPhaseChanged": True, "resourceSubscriptions": ["note://a"], "x": []}  # noqa: A001
        stream = await wire.listen(port, filter, **{"dev.example/mood": "curious"})
        acknowledged = await stream.next()
        assert acknowledged["params"]["notifications"] == {
            "toolsListChanged": True,
            "resourceSubscriptions": ["note://a"],
        }
        session = await Session.start(port)
        answer = await session.request(SUBSCRIBE, {"uri": "note://a", "mood": "curious"})
        assert answer.json["result"] == {}


@pytest.mark.parametrize("since", ["", "nonsense", "epoch:-1", "epoch:99999999999999999999", 7, None, {"a": 1}])
async def test_a_cursor_that_is_none_means_that_the_past_is_unknown(since: Any) -> None:
    mcp = notes()
    async with live(mcp) as port:
        stream = await wire.listen(port, wire.wanted(["note://a"], []), **{"dev.tidings/since": since})
        acknowledged = await stream.next()
        assert acknowledged["params"]["_meta"]["dev.tidings/recovered"] is False


async def test_an_empty_filter_is_a_stream_that_hears_of_nothing() -> None:
    mcp = notes()
    async with live(mcp) as port:
        stream = await wire.listen(port, {})
        acknowledged = await stream.next()
        assert acknowledged["params"]["notifications"] == {}
        await mcp.notify.resource_updated("note://a")
        await mcp.aclose()
        assert await stream.over() == "result"
        assert len(stream.frames) == 2


async def test_unsubscribing_from_what_was_never_subscribed_to_is_no_error() -> None:
    mcp = notes()
    async with live(mcp) as port:
        session = await Session.start(port)
        assert (await session.unsubscribe("note://a")).json["result"] == {}
        assert (await session.unsubscribe("other://x")).json["result"] == {}


async def test_a_server_without_sessions_says_that_it_serves_no_old_era_subscriptions() -> None:
    mcp = notes()
    async with live(mcp, stateless_http=True) as port:
        session = Session(port)
        await session.initialize()
        assert session.capabilities["resources"] == {"subscribe": False, "listChanged": False}
        error = (await session.subscribe("note://a")).error
        assert error["code"] == INVALID_REQUEST
        assert "stateless_http" in error["message"]
        assert "2026-07-28" in error["message"]
        assert mcp.notify.subscribers() == []
        modern = await subscribe("modern", port, ["note://a"])
        await mcp.notify.resource_updated("note://a")
        assert changed(await modern.next()) == "note://a"


async def test_a_listen_without_an_id_over_a_stream_is_dropped() -> None:
    """No answer can be given to it, so nothing may be done for it."""
    mcp = notes()
    meta = wire.modern_meta()
    async with (
        create_client_server_memory_streams() as ((read, write), server_streams),
        anyio.create_task_group() as group,
    ):
        server = mcp._lowlevel_server
        group.start_soon(server.run, *server_streams, server.create_initialization_options())
        params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
        no_id = JSONRPCNotification(jsonrpc="2.0", method="subscriptions/listen", params=params)
        await write.send(SessionMessage(no_id))
        await write.send(
            SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/list", params={"_meta": meta}))
        )
        with anyio.fail_after(5):
            answer = await read.receive()
        assert isinstance(answer, SessionMessage)
        assert "result" in answer.message.model_dump()
        assert mcp.notify.subscribers() == []
        group.cancel_scope.cancel()


# Too much


@both_eras
async def test_one_subscription_more_than_the_limit_is_refused(era: Era) -> None:
    mcp = notes(limits=Limits(subscriptions=2))
    async with live(mcp) as port:
        subscription = await subscribe(era, port, ["note://a", "note://b", "note://a"])
        if subscription.session:
            error = (await subscription.session.subscribe("note://c")).error
        else:
            error = await refused(era, port, "note://a", "note://b", "note://c")
        assert "3 subscriptions" in error["message"]
        assert "prefix" in error["message"]
        assert "retryable" in error["data"]
        assert mcp.notify.subscribers("note://c") == []
        if subscription.session:
            # What it has already it may ask for again, and what it gives up makes room.
            assert (await subscription.session.subscribe("note://a")).json["result"] == {}
            await subscription.session.unsubscribe("note://a")
            assert (await subscription.session.subscribe("note://c")).json["result"] == {}


async def refused(era: Era, port: int, *uris: str) -> wire.Json:
    """The error that subscribing is answered with."""
    if era == "modern":
        with pytest.raises(wire.Refused) as refusal:
            await wire.listen(port, wire.wanted(uris, []))
        return refusal.value.response.error
    session = await Session.start(port)
    error = (await session.subscribe(uris[0])).error
    await session.delete()
    return error


# Not for everyone


def not_secret(_: Any, uri: str) -> bool:
    return "secret" not in uri


async def test_what_is_refused_is_left_out_of_the_acknowledgment() -> None:
    mcp = notes(authorize=not_secret)
    async with live(mcp) as port:
        asked = ["note://a", "note://secret", "other://missing", "note://*"]
        subscription = await subscribe("modern", port, asked)
        honoured = subscription.acknowledged["params"]["notifications"]["resourceSubscriptions"]
        assert sorted(honoured) == ["note://*", "note://a"]
        for uri in ("note://secret", "note://secret-too", "note://b"):
            await mcp.notify.resource_updated(uri)
        assert await subscription.until("note://b") == ["note://b"]


async def test_the_old_era_cannot_tell_what_is_refused_from_what_is_not_there() -> None:
    mcp = notes(authorize=not_secret)
    async with live(mcp) as port:
        session = await Session.start(port)
        secret = await session.subscribe("note://secret")
        missing = await session.subscribe("none://secret")  # As long as the other one, as are then their answers.
        assert secret.error["code"] == -32002
        assert mask(secret, "note://secret") == mask(missing, "none://secret")
        assert mcp.notify.counts() == {"tools": 0, "prompts": 0, "resources": 0, "unreachable": 1}


def mask(response: Response, uri: str) -> tuple[int, dict[str, str], str]:
    """All that a response gives away, but for what the client itself has said."""
    headers = {name: value for name, value in response.headers.items() if name not in ("date", "mcp-session-id")}
    return response.status, headers, json.dumps(response.error).replace(uri, "URI")


@both_eras
async def test_what_is_not_subscribable_is_answered_with_what_is(era: Era) -> None:
    mcp = notes(subscribable=["note://public-{name}", "note://news*"])
    async with live(mcp) as port:
        await subscribe(era, port, ["note://public-a", "note://newsroom"])
        error = await refused(era, port, "note://private")
        assert error["code"] == INVALID_PARAMS
        for word in ("note://private", "note://public-{name}", "note://news*"):
            assert word in error["message"]
        assert error["data"]["allowed"] == ["note://public-{name}", "note://news*"]
        assert mcp.notify.subscribers("note://private") == []
