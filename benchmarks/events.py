"""Webhooks: many subscriptions and a steady rate of events, beside mcp-webhook-events.

    python -m benchmarks.events [--subscriptions N] [--rate N] [--seconds S] [--quick] [--json FILE]

Each server is one process with a SQLite file. Each event is for one subscriber, by its argument. One receiver, in this
process, answers at once and compares the time with that in the payload. The peer has no loop of its own: here it
publishes and delivers in threads, as its documentation shows. The figures of a server that does not keep up grow with
the duration.
Prints a table; the exit code is as for the other benchmarks.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks.installing import NotInstalled, from_pypi
from benchmarks.report import Row, Target, conclude, leave_out, say
from tests.ports import free_port

PEER: Final = ("mcp-webhook-events", "0.2.0")
SECRET: Final = "whsec_a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="
LAG: Final = Target(1_000, "most", " ms")
GROWTH: Final = Target(20, "most", " MB")
ALL: Final = Target(0, "most")

TIDINGS: Final = """
import asyncio, sys, time
from pydantic import BaseModel
from tidings import LiveServer
from tidings.server import Events, Webhooks

port, folder = int(sys.argv[1]), sys.argv[2]
hooks = Webhooks(local=True, per_client=100_000)
mcp = LiveServer("bench", bus=f"sqlite://{folder}/bus.db", events=Events(webhooks=hooks))

class Wanted(BaseModel):
    who: int

@mcp.event("made", arguments=Wanted)
class Made(BaseModel):
    who: int
    at: float

async def publish(rate, seconds, count):
    began = time.monotonic()
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(began + number / rate - time.monotonic(), 0))
        await mcp.notify.event("made", Made(who=number % count, at=time.time()))

@mcp.tool()
async def run(rate: float, seconds: float, count: int) -> None:
    run.task = asyncio.create_task(publish(rate, seconds, count))

mcp.run("streamable-http", port=port)
"""

THEIRS: Final = """
import sys, threading, time
from mcp.server.mcpserver import MCPServer
from mcp_webhook_events import EventDefinition, McpEvents, SafeHttp

port, folder = int(sys.argv[1]), sys.argv[2]
mcp = MCPServer("bench")
number = {"type": "object", "properties": {"who": {"type": "integer"}, "at": {"type": "number"}}}
made = EventDefinition("made", "made", number, number)
events = McpEvents(mcp, store=f"{folder}/events.db", definitions=[made], http=SafeHttp(allow_insecure_for_tests=True))
events.install()

def publish(rate, seconds, count):
    began = time.monotonic()
    for number in range(int(rate * seconds)):
        time.sleep(max(began + number / rate - time.monotonic(), 0))
        events.publish("made", {"who": number % count, "at": time.time()})

def deliver():
    while True:
        if not sum(events.deliver_pending().values()):
            time.sleep(0.02)

@mcp.tool()
def run(rate: float, seconds: float, count: int) -> None:
    for work, arguments in ((publish, (rate, seconds, count)), (deliver, ())):
        threading.Thread(target=work, args=arguments, daemon=True).start()

mcp.run("streamable-http", port=port)
"""


class Receiver:
    """Answers each POST at once, and notes the delay of each event."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self.seen: set[str] = set()
        self.server: asyncio.Server

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
                body = json.loads(await reader.readexactly(int(length.split(b":")[1])))
                answer = b"{}"
                if body.get("type") == "verification":
                    answer = json.dumps({"challenge": body["challenge"]}).encode()
                elif body["eventId"] not in self.seen:
                    self.seen.add(body["eventId"])
                    self.delays.append(time.time() - body["data"]["at"])
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):  # The last at the end of all
            writer.close()


@contextmanager
def started(python: str, program: str) -> Generator[tuple[psutil.Process, int]]:
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        process = subprocess.Popen(
            [python, "-c", program, str(port), folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            yield psutil.Process(process.pid), port
        finally:
            process.kill()
            process.wait()


async def measured(python: str, program: str, options: argparse.Namespace) -> dict[str, float]:
    """The delays in milliseconds, the events that did not come, and how much the process has grown, in MB."""
    import httpx2
    from mcp import Client

    receiver = Receiver()
    receiver.server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    hook = f"http://127.0.0.1:{receiver.server.sockets[0].getsockname()[1]}/"
    wanted = int(options.rate * options.seconds)
    with started(python, program) as (process, port):
        url = f"http://127.0.0.1:{port}/mcp"
        async with httpx2.AsyncClient(timeout=60) as http:
            for _ in range(600):
                try:
                    await http.get(url)
                    break
                except httpx2.TransportError:
                    await asyncio.sleep(0.05)
            meta: dict[str, Any] = {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            headers = {
                "accept": "application/json, text/event-stream",
                "mcp-protocol-version": "2026-07-28",
                "mcp-method": "events/subscribe",
            }
            for number in range(options.subscriptions):
                delivery = {"mode": "webhook", "url": hook, "secret": SECRET}
                params = {"name": "made", "arguments": {"who": number}, "delivery": delivery, "cursor": None}
                body = {"jsonrpc": "2.0", "id": 1, "method": "events/subscribe", "params": {**params, "_meta": meta}}
                answer = await http.post(url, json=body, headers=headers)
                if "error" in answer.text:
                    raise RuntimeError(answer.text[:300])
        async with Client(url) as client:
            before = process.memory_info().rss
            ours = {"rate": options.rate, "seconds": options.seconds, "count": options.subscriptions}
            await client.call_tool("run", ours)
            until = time.monotonic() + options.seconds + 15
            while len(receiver.delays) < wanted and time.monotonic() < until:  # noqa: ASYNC110 - counts come often
                await asyncio.sleep(0.1)
        grown = (process.memory_info().rss - before) / 1e6
    receiver.server.close()
    delays = sorted(receiver.delays) or [float("inf")] * 2
    return {
        "p50": statistics.median(delays) * 1000,
        "p99": delays[int(len(delays) * 0.99)] * 1000,
        "missing": wanted - len(receiver.delays),
        "grown": grown,
    }


def main() -> int:
    """Measures what the options say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--subscriptions", type=int, default=1_000)
    parser.add_argument("--rate", type=float, default=100.0, help="events a second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    options = parser.parse_args()
    if options.quick:
        options.seconds = min(options.seconds, 8.0)
    what = f"{options.subscriptions:,} webhooks, {options.rate:g} events a second"
    say(f"events: tidings, {what}")
    ours = asyncio.run(measured(sys.executable, TIDINGS, options))
    theirs: dict[str, float] = {}
    try:
        python = str(from_pypi(*PEER))
        say(f"events: {PEER[0]}, {what}")
        theirs = asyncio.run(measured(python, THEIRS, options))
    except NotInstalled as error:
        leave_out(PEER[0], error)
    note = f"{options.seconds:g} s, each event for one subscriber, SQLite"
    rows = [
        Row(
            "events",
            name,
            tidings=ours[key],
            others={PEER[0]: theirs.get(key)},
            value=ours[key],
            target=target,
            note=note,
        )
        for key, name, target in (
            ("p50", f"ms from publishing to receiving, p50, {what}", None),
            ("p99", f"ms from publishing to receiving, p99, {what}", LAG),
            ("missing", "events that did not come within 15 s after the last", ALL),
            ("grown", "MB that the process grew by meanwhile", GROWTH),
        )
    ]
    return conclude(rows, [], options.json)


if __name__ == "__main__":
    sys.exit(main())
