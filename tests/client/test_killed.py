"""A server that is killed again and again, while what it serves changes: in the end every copy equals the truth."""

import asyncio
import contextlib
import gc
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.client.killing import ROOT, Files, programs, zygote
from tests.server.serving import eventually
from tidings.client import Backoff, ClientConfig, LiveClient, Timeouts, connect
from tidings.errors import EffectUnknown

RESOURCES = 100
SECONDS = 200
CONFIG = ClientConfig(
    backoff=Backoff(delays=(0.02, 0.05, 0.1), tries=None), timeouts=Timeouts(connect=10, request=10, ping_interval=1)
)


async def _keep_copies(client: LiveClient, uris: list[str], copies: dict[str, str]) -> None:
    async for read in client.watch(uris):
        copies[read.uri] = read.text


async def _until_equal(client: LiveClient, files: Files, copies: dict[str, str]) -> None:
    await eventually(lambda: copies == files.truth, within=60)
    async with asyncio.timeout(10):
        await client.wait_fresh()
    assert copies == files.truth
    cached = {uri: client.cache.get_resource(uri) for uri in files.truth}
    assert {uri: read.text for uri, read in cached.items() if read is not None} == files.truth


def _resources() -> dict[str, Any]:
    me = psutil.Process()
    return {
        "tasks": len(asyncio.all_tasks()),
        "children": len(me.children(recursive=True)),
        "sockets": len([each for each in me.net_connections() if each.status != psutil.CONN_NONE]),
        "files": me.num_fds(),
    }


async def _settled(before: dict[str, Any]) -> None:
    def back() -> bool:
        gc.collect()
        return all(now <= then for now, then in zip(_resources().values(), before.values(), strict=True))

    await eventually(back, within=10)


async def _suffer(target: Any, era: str, files: Files, kill_and_start: Any, *, kills: int, **options: Any) -> None:
    copies: dict[str, str] = {}
    async with connect(target, era=era, config=CONFIG, **options) as client:
        keeping = asyncio.create_task(_keep_copies(client, list(files.truth), copies))
        await _until_equal(client, files, copies)
        for _ in range(kills):
            files.change_some()
            await asyncio.sleep(files.random.uniform(0, 0.1))
            await kill_and_start(client)
            files.change_some()
        files.change_some(RESOURCES)
        await _until_equal(client, files, copies)
        assert not keeping.done()
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


@pytest.mark.anyio
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    ("era", "path"), [("auto", "/mcp"), ("legacy", "/mcp"), pytest.param("legacy", "/sse", marks=pytest.mark.thorough)]
)
async def test_after_many_kills_every_copy_equals_the_truth_over_http(
    era: str, path: str, kills: int, tmp_path: Path
) -> None:
    files = Files(tmp_path / "files", RESOURCES, seed=1)
    with zygote(files.folder) as server:
        server.order("start")

        async def kill_and_start(_: LiveClient) -> None:
            server.order("kill")
            await asyncio.sleep(files.random.uniform(0, 0.1))
            files.change_some()
            server.order("start")
            await asyncio.sleep(files.random.uniform(0, 0.1))

        before = _resources()
        # The older ways take longer for each.
        kills = kills if era == "auto" else min(kills, 12)
        await _suffer(f"http://127.0.0.1:{server.port}{path}", era, files, kill_and_start, kills=kills)
        await _settled(before)


@pytest.mark.anyio
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("kills", [1, pytest.param(12, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("era", ["auto", pytest.param("legacy", marks=pytest.mark.thorough)])
async def test_after_many_kills_every_copy_equals_the_truth_over_stdio(era: str, kills: int, tmp_path: Path) -> None:
    files = Files(tmp_path / "files", RESOURCES, seed=2)

    async def kill_and_start(_: LiveClient) -> None:
        for child in programs():
            child.send_signal(signal.SIGKILL)
        await asyncio.sleep(files.random.uniform(0, 0.5))  # The client starts it again.

    before = _resources()
    command = [sys.executable, "-m", "tests.client.programs", "stdio", str(files.folder)]
    await _suffer(command, era, files, kill_and_start, kills=kills, env={"PYTHONPATH": str(ROOT)}, cwd=ROOT)
    await _settled(before)


@pytest.mark.anyio
@pytest.mark.parametrize("era", ["auto", pytest.param("legacy", marks=pytest.mark.thorough)])
async def test_nothing_counts_as_fresh_right_after_the_server_died(era: str, tmp_path: Path) -> None:
    files = Files(tmp_path / "files", 1, seed=3)
    copies: dict[str, str] = {}
    command = [sys.executable, "-m", "tests.client.programs", "stdio", str(files.folder)]
    async with connect(command, era=era, config=CONFIG, env={"PYTHONPATH": str(ROOT)}, cwd=ROOT) as client:
        keeping = asyncio.create_task(_keep_copies(client, list(files.truth), copies))
        await _until_equal(client, files, copies)
        for number in range(3):
            for child in programs():
                child.send_signal(signal.SIGKILL)
            files.write("f0", f"changed {number}")
            if number:  # It is not noticed by a call alone.
                with contextlib.suppress(EffectUnknown):
                    await client.call_tool("pid")
            async with asyncio.timeout(20):
                await client.wait_fresh()
            assert copies == files.truth
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
