""" "Changed since you last read", in the results of other tools."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.server import wire
from tests.server.serving import AT_ONCE, serving
from tests.server.waking.tasking import ask, call
from tests.server.wire import Json
from tidings import LiveServer
from tidings.bus import Bus
from tidings.bus.memory import MemoryBus
from tidings.bus.sqlite import SqliteBus
from tidings.server import Waking
from tidings.server.waking import changes as hints
from tidings.server.waking.changes import Hints, shown_resources

pytestmark = pytest.mark.anyio
A, B = "note://a", "note://b"
HINT = "Changed since you last read"


def hinting(**options: Any) -> LiveServer[Any]:
    mcp: LiveServer[Any] = LiveServer("notes", coalesce=AT_ONCE, **{"waking": Waking(hints=True), **options})

    @mcp.resource("note://{name}")
    def note(name: str) -> str:
        return name

    @mcp.tool()
    def nothing() -> str:
        return "done"

    @mcp.tool(structured_output=False)
    async def write(uri: str) -> str:
        await mcp.notify.resource_updated(uri)
        return "written"

    return mcp


class Modern:
    def __init__(self, port: int) -> None:
        self._port = port

    async def read(self, uri: str) -> None:
        assert (await ask(self._port, "resources/read", name=uri, uri=uri)).json["result"]["contents"]

    async def call(self, tool: str, **arguments: Any) -> list[Json]:
        return (await call(self._port, tool, **arguments))["content"]


class Legacy:
    def __init__(self, session: wire.Session) -> None:
        self._session = session

    async def read(self, uri: str) -> None:
        assert (await self._session.request("resources/read", {"uri": uri})).json["result"]["contents"]

    async def call(self, tool: str, **arguments: Any) -> list[Json]:
        answer = await self._session.request("tools/call", {"name": tool, "arguments": arguments})
        return answer.json["result"]["content"]


@asynccontextmanager
async def client(era: str, mcp: LiveServer[Any]) -> AsyncGenerator[Modern | Legacy]:
    async with serving(mcp.asgi()) as port:
        yield Modern(port) if era == "modern" else Legacy(await wire.Session.start(port))


ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


def in_file(folder: Path) -> Bus:
    return SqliteBus(folder / "bus.db")


def in_memory(_: Path) -> Bus:
    return MemoryBus()


@ERAS
@pytest.mark.parametrize("bus", [in_memory, in_file])
async def test_a_resource_that_was_read_and_has_changed_is_named_once(
    tmp_path: Path, era: str, bus: Callable[[Path], Bus]
) -> None:
    mcp = hinting(bus=bus(tmp_path))
    async with client(era, mcp) as agent:
        await mcp.notify.resource_updated(A)
        await agent.read(A)
        await agent.read(B)
        assert len(await agent.call("nothing")) == 1
        await mcp.notify.resource_updated(A)
        await mcp.notify.resource_updated(A)
        await mcp.notify.resource_updated("note://others")
        done, hint, *links = await agent.call("nothing")
        assert done["text"] == "done"
        assert hint["text"].startswith(HINT)
        assert A in hint["text"]
        assert B not in hint["text"]
        assert [link["uri"] for link in links] == [A]  # The result has structured content.
        assert len(await agent.call("nothing")) == 1
        await mcp.notify.resource_updated(B)
        assert B in (await agent.call("nothing"))[1]["text"]


@ERAS
async def test_what_is_read_again_is_not_named(era: str) -> None:
    mcp = hinting()
    async with client(era, mcp) as agent:
        await agent.read(A)
        await mcp.notify.resource_updated(A)
        await agent.read(A)
        assert len(await agent.call("nothing")) == 1


@ERAS
@pytest.mark.parametrize("bus", [in_memory, in_file])
async def test_what_the_client_changes_itself_is_not_named(
    tmp_path: Path, era: str, bus: Callable[[Path], Bus]
) -> None:
    mcp = hinting(bus=bus(tmp_path))
    async with client(era, mcp) as agent:
        await agent.read(A)
        assert len(await agent.call("write", uri=A)) == 1
        assert len(await agent.call("nothing")) == 1
        await mcp.notify.resource_updated(A)
        assert A in (await agent.call("nothing"))[1]["text"]


async def test_sessions_of_the_legacy_era_have_read_what_each_has_read() -> None:
    mcp = hinting()
    async with serving(mcp.asgi()) as port:
        one, other = [Legacy(await wire.Session.start(port)) for _ in range(2)]
        await one.read(A)
        await mcp.notify.resource_updated(A)
        assert len(await other.call("nothing")) == 1
        assert A in (await one.call("nothing"))[1]["text"]


async def test_without_the_setting_nothing_is_added() -> None:
    mcp = hinting(waking=Waking())
    async with serving(mcp.asgi()) as port:
        agent = Modern(port)
        await agent.read(A)
        await mcp.notify.resource_updated(A)
        assert len(await agent.call("nothing")) == 1


def test_when_the_log_is_lost_everything_that_was_read_may_have_changed() -> None:
    found = Hints(shown_resources)
    found.read("me", [A, B])
    found.heard(None, None)  # type: ignore[arg-type]
    assert set(found._clients["me"].changed) == {A, B}


def test_little_is_remembered_of_clients_that_read_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "_MOST_CLIENTS", 5)
    monkeypatch.setattr(hints, "_MOST_READ", 10)
    found = Hints(shown_resources)
    for number in range(20):
        found.read(f"client {number}", [f"note://{number}/{each}" for each in range(50)])
    assert len(found._clients) == 5
    assert len(found._readers) == 50
    assert {key.rpartition("/")[0] for key in found._readers} == {f"note://{number}" for number in range(15, 20)}


def test_a_long_list_is_cut() -> None:
    result = hints._with_hint({"content": []}, [f"note://{'x' * 1000}{each}" for each in range(100)], links=True)
    assert "and 90 more" in result["content"][0]["text"]
    assert len(result["content"][0]["text"]) < 4_000


def test_resources_in_a_result_are_shown() -> None:
    block = {"type": "resource", "resource": {"uri": A, "text": "a"}}
    assert shown_resources("any", {"content": [{"type": "text", "text": "x"}, block]}) == [A]


@pytest.mark.parametrize("value", [1, "yes", None])
def test_the_setting_is_yes_or_no(value: Any) -> None:
    with pytest.raises(TypeError, match="Waking needs True or False for hints"):
        Waking(hints=value)
