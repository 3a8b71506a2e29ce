"""A mock says and answers what the recorded server did."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.client.ways import environment
from tests.inspector.recorded import Writer, export_session
from tests.inspector.watching import watched
from tests.server.serving import ROOT, serving
from tidings.inspector.http.api.saved_sessions import compare_sessions
from tidings.inspector.records import Record
from tidings.inspector.sessions.mock import Mock, Recording, asgi
from tidings.inspector.view.fold import replay

pytestmark = pytest.mark.anyio
ERAS = pytest.mark.parametrize("era", ["auto", "legacy"], ids=["modern", "legacy"])
WAYS = pytest.mark.parametrize("way", ["memory", "http", "stdio"])

SCRIPT = """
import anyio, sys
from pathlib import Path
from tidings.inspector.sessions.mock import serve_stdio
from tidings.inspector.sessions.saved import import_session
anyio.run(lambda: serve_stdio(import_session(Path(sys.argv[1])).records))
"""


def recorded() -> list[Record]:
    """A session with a server of weather."""
    tell = Writer("weather")
    tell("server", what="added", entry={})
    capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "prompts": {}, "completions": {}}
    info = {"name": "weather", "version": "1.2", "title": "Weather"}
    tell("hello", protocol_version="2026-07-28", server_info=info, capabilities=capabilities, instructions="Ask.")
    tell("list", list="tools", added=[{"name": "add", "inputSchema": {"type": "object"}}], total=1)
    tell("list", list="resources", added=[{"name": "Oslo", "uri": "weather://oslo"}], total=1)
    tell("list", list="templates", added=[{"name": "City", "uriTemplate": "weather://{city}"}], total=1)
    tell("list", list="prompts", added=[{"name": "greet"}], total=1)
    tell("subscriptions", uris=["weather://oslo"])
    for number, text in enumerate(["cold", "mild", "warm"]):
        change = tell("change", change="resource-updated", uri="weather://oslo", times={}) if number else None
        contents = [{"uri": "weather://oslo", "text": text}]
        seq = None if change is None else change.seq
        tell("content", uri="weather://oslo", contents=contents, hash=text, size=4, change=seq)

    def asked(method: str, params: dict[str, Any], **outcome: Any) -> None:
        known = f"r{len(tell.records)}"
        tell("request", id=known, method=method, params=params, status="pending")
        tell("request", id=known, status="completed", **outcome) if "error" not in outcome else tell(
            "request", id=known, status="error", **outcome
        )

    def add(value: int) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": str(value)}], "isError": False}

    asked("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, result=add(3))
    asked("tools/call", {"name": "add", "arguments": {"b": 2, "a": 1}}, result=add(4))
    asked("tools/call", {"name": "huge", "arguments": {}}, result={"cut": True, "size": 9_000_000, "head": "…"})
    payload = {"rpc_code": -32099, "rpc_data": {"why": "x"}}
    asked("prompts/get", {"name": "greet"}, error={"code": "request-failed", "message": "No.", "payload": payload})
    asked("tools/call", {"name": "add"}, error={"code": "connection-lost", "message": "gone"})
    content = {"uri": "weather://rome", "blob": "AAAA", "mimeType": "image/png"}
    asked("resources/read", {"uri": "weather://rome"}, result={"contents": [content]})
    tell("change", change="tools-list-changed", times={})
    tell("list", list="tools", added=[{"name": "sub", "inputSchema": {"type": "object"}}], total=2)
    return tell.records


@asynccontextmanager
async def mocked(way: str, tmp_path: Path) -> AsyncGenerator[Any]:
    """What to connect to."""
    if way == "memory":
        yield Mock(Recording(recorded())).server
    elif way == "http":
        async with serving(asgi(recorded())) as port:
            yield f"http://127.0.0.1:{port}/mcp"
    else:
        export_session(recorded(), tmp_path / "session.jsonl")
        yield [sys.executable, "-c", SCRIPT, str(tmp_path / "session.jsonl")]


@WAYS
@ERAS
async def test_a_mock_is_the_recorded_server_again(way: str, era: str, tmp_path: Path) -> None:
    options = {"env": environment(), "cwd": ROOT} if way == "stdio" else {}
    async with mocked(way, tmp_path) as target, watched(target, era=era, **options) as (_, server):
        view = server.view
        assert view.server_info == {"name": "weather", "version": "1.2", "title": "Weather"}
        assert view.instructions == "Ask."
        assert view.capabilities is not None
        assert view.capabilities["resources"] == {"subscribe": True}
        assert list(view.tools) == ["add", "sub"]
        assert list(view.resources) == ["weather://oslo"]
        assert list(view.templates) == ["weather://{city}"]
        assert list(view.prompts) == ["greet"]
        for value in ("3", "4", "4"):
            done = await server.wait(server.call("add", {"a": 1, "b": 2}))
            assert done.result["content"] == [{"type": "text", "text": value}]
        other = await server.wait(server.call("add", {"a": 5}))
        assert other.result["isError"] is True
        assert 'recorded with: {"a": 1, "b": 2}' in other.result["content"][0]["text"]
        unknown = await server.wait(server.call("none"))
        assert "These were: add, huge" in unknown.result["content"][0]["text"]
        huge = await server.wait(server.call("huge"))
        assert huge.error is not None
        assert "too large" in huge.error.message
        refused = await server.wait(server.get_prompt("greet"))
        assert refused.error is not None
        assert refused.error.payload["rpc_code"] == -32099
        blob = await server.wait(server.read("weather://rome"))
        assert blob.result["contents"][0]["blob"] == "AAAA"
        missing = await server.wait(server.read("weather://paris"))
        assert missing.error is not None
        assert missing.error.code == "resource-not-found"
        assert await server.complete("prompt", "greet", "name", "A") == []


async def test_it_is_as_it_was_at_the_end() -> None:
    async with watched(Mock(Recording(recorded())).server) as (session, server):
        assert list(server.view.tools) == ["add", "sub"]
        assert (await server.wait(server.read("weather://oslo"))).result["contents"][0]["text"] == "warm"
        (compared,) = compare_sessions(replay(recorded()), session.view)["servers"]
        assert compared["facts"] == {}
        assert not any(each["added"] or each["removed"] or each["changed"] for each in compared["lists"].values())


def test_the_server_must_be_known() -> None:
    records = recorded()
    with pytest.raises(LookupError, match="no server 'x'"):
        Recording(records, "x")
    with pytest.raises(LookupError, match="connected: none"):
        Recording([])
    other = [Record(record.seq, record.at, "other", record.kind, record.data) for record in records]
    with pytest.raises(LookupError, match="connected: weather, other"):
        Recording([*records, *other])
    assert Recording([*records, *other], "other").server == "other"
