"""Live servers on one Redis, as users run them; and what a bus tells of itself."""

import asyncio
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server.mcpserver import MCPServer

from tests.bus.processes import python
from tests.bus.proxy import proxy_to
from tests.bus.redis_server import NOBODY, shared_server, until
from tests.ports import free_port
from tests.telemetry import collect, provide
from tidings import attach
from tidings.bus.redis import RedisBus
from tidings.changes import ResourceUpdated
from tidings.errors import BusUnavailable
from tidings.server.live import Live

pytestmark = [pytest.mark.anyio, pytest.mark.redis]

A, B = (ResourceUpdated(f"note://{name}") for name in "ab")


def live_at(port: int, prefix: Path) -> Live:
    return attach(MCPServer("news"), bus=f"redis://127.0.0.1:{port}?prefix={prefix}&poll=0.05&timeout=60")


async def test_what_one_server_says_every_server_hears(tmp_path: Path) -> None:
    port = shared_server().port
    one, two = live_at(port, tmp_path), live_at(port, tmp_path)
    async with one.running(), two.running():
        heard: list[object] = []
        more = asyncio.Event()
        two._core.bus.subscribe(lambda _, change: (heard.append(change), more.set()))
        await one.notify.resource_updated("note://a")
        with anyio.fail_after(5):
            await more.wait()
        assert heard == [A]


@pytest.mark.parametrize("trouble", ["stalled", "refused"])
async def test_a_server_waits_for_no_answer_when_it_stops_whatever_its_redis_does(tmp_path: Path, trouble: str) -> None:
    async with proxy_to(shared_server().port) as proxy:
        live = live_at(proxy.port, tmp_path)
        async with live.running():
            if trouble == "stalled":
                proxy.stall()
            else:
                proxy.refusing = True
                proxy.cut()
            for n in range(20):
                live.notify.soon(ResourceUpdated(f"note://{n}"))
            await anyio.sleep(0.05)
            began = time.monotonic()
        assert time.monotonic() - began < 10
        # What goes on by itself ends by itself.
        await anyio.sleep(0.6)


SERVE = """
import sys
from tidings import LiveServer
LiveServer("news", bus=sys.argv[1]).run("streamable-http", port=int(sys.argv[2]))
"""


async def test_a_process_ends_though_its_redis_hangs(tmp_path: Path) -> None:
    async with proxy_to(shared_server().port) as proxy:
        port = free_port()
        url = f"redis://127.0.0.1:{proxy.port}?prefix={tmp_path}&timeout=60"
        async with python("-c", SERVE, url, str(port)) as server:
            with anyio.fail_after(20):
                while True:
                    try:
                        await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                    except OSError:
                        await anyio.sleep(0.05)
                    else:
                        break
            proxy.stall()
            began = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            await server.process.wait()
            assert time.monotonic() - began < 10


async def test_a_server_without_its_redis_says_why_it_cannot_serve() -> None:
    url = f"redis://ann:s3cret@127.0.0.1:{NOBODY}"
    program = "import sys; from tidings import LiveServer; LiveServer('news', bus=sys.argv[1]).run('stdio')"
    process = await anyio.run_process([sys.executable, "-c", program, url], check=False, input=b"")
    said = process.stderr.decode()
    assert process.returncode
    assert "cannot be reached" in said
    assert "s3cret" not in said


async def test_a_bus_is_metered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = partial(collect(monkeypatch).values, tidings__bus__engine="redis")

    async with proxy_to(shared_server().port) as proxy:
        bus = RedisBus(f"redis://127.0.0.1:{proxy.port}", prefix=str(tmp_path), poll=0.05, timeout=1)
        async with bus:
            await asyncio.gather(bus.publish(A), bus.publish(A), bus.publish(B))
            assert measured() == {
                "tidings.bus.connected": 1,
                "tidings.bus.waiting": 0,
                "tidings.bus.published": 2,  # Equal changes that wait are one.
                "tidings.bus.publish.duration": 1,
            }
            proxy.stall()
            with pytest.raises(BusUnavailable):
                await asyncio.gather(bus.publish(A), bus.publish(B))
            await until(lambda: not bus.state.connected)
            assert measured()["tidings.bus.waiting"] == 2
            assert measured()["tidings.bus.outages"] == 1
            assert measured()["tidings.bus.connected"] == 0
            shared_server().ask("DEL", f"{{{tmp_path}}}:log")
            proxy.cut()
            proxy.flow()
            await until(lambda: not bus.state.waiting)
            assert measured()["tidings.bus.losses"] == 1
            assert measured()["tidings.bus.connected"] == 1
        assert measured()["tidings.bus.connected"] == 0


async def test_a_meter_that_fails_keeps_nobody_from_publishing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> Any:
        raise ZeroDivisionError("on purpose")

    provide(monkeypatch, fail, fail)
    async with RedisBus(shared_server().url, prefix=str(tmp_path)) as bus:
        for _ in range(3):
            await bus.publish(A)
    assert caplog.text.count("Telemetry failed on tidings.bus.published; this is logged once") == 1
