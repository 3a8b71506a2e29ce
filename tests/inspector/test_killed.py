"""A server that is killed with `kill -9`: the inspector shows it, and shows its return.

`tests/client/test_killed_noticed.py` checks how soon; here it is the text that people read.
"""

import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.client.killing import ROOT, Files, zygote
from tests.client.ways import environment
from tests.inspector.watching import watched
from tests.server.serving import eventually
from tidings.inspector.records import Record
from tidings.inspector.server import InspectedServer
from tidings.inspector.session import Session
from tidings.inspector.view.fold import replay

pytestmark = pytest.mark.anyio

SECONDS = 30
WAYS = [
    ("auto", "/mcp"),
    pytest.param("legacy", "/mcp", marks=pytest.mark.thorough),
    pytest.param("legacy", "/sse", marks=pytest.mark.thorough),
    ("auto", "stdio"),
    pytest.param("legacy", "stdio", marks=pytest.mark.thorough),
]


def _is_listening(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


@asynccontextmanager
async def _victim(
    era: str, way: str, folder: Path
) -> AsyncGenerator[tuple[Session, InspectedServer, Callable[[], object], Callable[[], object]]]:
    if way == "stdio":
        command = [sys.executable, "-m", "tests.client.programs", "stdio", str(folder)]
        async with watched(command, era=era, env=environment(), cwd=ROOT) as (session, server):
            yield session, server, lambda: os.kill(server.view.pid or 0, signal.SIGKILL), lambda: None
        return
    with zygote(folder) as process:
        process.order("start")
        await eventually(lambda: _is_listening(process.port), within=SECONDS)
        async with watched(f"http://127.0.0.1:{process.port}{way}", era=era) as (session, server):
            yield session, server, lambda: process.order("kill"), lambda: process.order("start")


@pytest.mark.parametrize(("era", "way"), WAYS, ids=lambda each: each.strip("/"))
async def test_a_kill_is_shown_and_the_return_and_nothing_is_lost(era: str, way: str, tmp_path: Path) -> None:
    files = Files(tmp_path / "files", 2, seed=1)
    uri = "file:///f0"
    async with _victim(era, way, files.folder) as (session, server, kill, start):
        view = server.view
        records: list[Record] = []
        # What came before this test listened is still known.
        records += session.since(0) or []
        session.listen(records.append)
        assert view.words.startswith("connected")
        await server.subscribe(uri)
        await eventually(lambda: len(view.subscriptions[uri].versions) == 1, within=SECONDS)

        kill()
        await eventually(lambda: view.state != "connected", within=SECONDS)
        assert view.words.startswith("lost; trying again")
        assert view.error is not None
        assert view.error.who == ("the server" if way == "stdio" else "the network")
        files.write("f0", "changed while nobody was there")
        start()
        await eventually(lambda: view.state == "connected", within=SECONDS)
        assert view.error is None
        versions = view.subscriptions[uri].versions
        await eventually(
            lambda: versions.last and versions.last.text == "changed while nobody was there", within=SECONDS
        )
        assert view.faults == 0
    assert replay(records) == session.view


@pytest.mark.parametrize(("era", "way"), [each for each in WAYS if "stdio" not in str(each)], ids=str)
async def test_what_changed_is_shown_even_if_the_server_is_back_before_anybody_noticed(
    era: str, way: str, tmp_path: Path
) -> None:
    files = Files(tmp_path / "files", 2, seed=1)
    uri = "file:///f0"
    async with _victim(era, way, files.folder) as (_, server, kill, start):
        view = server.view
        await server.subscribe(uri)
        await eventually(lambda: len(view.subscriptions[uri].versions) == 1, within=SECONDS)
        kill()  # Without a pause in which this loop could hear of it.
        files.write("f0", "changed in that moment")
        start()
        await eventually(lambda: len(view.subscriptions[uri].versions) == 2, within=SECONDS)
        (change,) = view.changes
        assert (change.uri, change.away, change.content) == (uri, True, view.subscriptions[uri].versions[-1].seq)
