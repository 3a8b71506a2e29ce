"""Do deliveries a second grow with worker processes? One and two of them on one port, with a SQLite bus.

The subscribers are bare sockets of this process, which counts what arrives and reads no JSON. Each change is of a
resource of its own, so that none are merged.
"""

import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks import wire
from benchmarks.lab import DeliveryLost, Lab
from benchmarks.report import Row, Target, say
from tidings import LiveServer
from tidings.server import Coalesce, Limits

STREAMS: Final = 400
ROUNDS: Final = 5
GROWS: Final = Target(1.4, "least", "x")
_ENOUGH_CORES: Final = 4  # For two workers, and for the sockets that read.
_CHANGES: Final = 100
_BUS: Final = "TIDINGS_BENCH_BUS"
_EVENT: Final = b"notifications/resources/updated"
_SECONDS: Final = 60.0


def app() -> Any:
    """What each worker serves."""
    mcp: LiveServer[Any] = LiveServer("workers", bus=os.environ[_BUS], coalesce=Coalesce(0, 0), limits=Limits())

    @mcp.resource("bench://{name}")
    def resource(name: str) -> str:
        return name

    @mcp.tool()
    async def change(turn: int) -> int:
        """Publishes changes of as many resources."""
        for number in range(_CHANGES):
            await mcp.notify.resource_updated(f"bench://{turn}-{number}")
        return os.getpid()

    return mcp.asgi()


def measure(_: Lab) -> list[Row]:
    """Measures one worker, and two: by the clock, and by the CPU of the worker that is busiest.

    The clock shows growth only where cores are free, and is judged only where there may be enough. The CPU shows what
    the workers could do with a core each, however busy the machine is.
    """
    rates: dict[int, tuple[float, float]] = {}
    for count in (1, 2):
        say(f"workers: {count}, with {STREAMS} streams")
        rates[count] = _rates(count)
    cores = os.cpu_count() or 1
    judged = GROWS if cores >= _ENOUGH_CORES else None
    by_clock, by_cpu = zip(rates[1], rates[2], strict=True)
    return [
        _row("by the clock", *by_clock, judged, f"; {cores} cores, also for who reads"),
        _row("by the CPU of the busiest worker", *by_cpu, GROWS),
    ]


def _row(what: str, one: float, two: float, target: Target | None, note: str = "") -> Row:
    what = f"deliveries a second with two workers, in those with one, {what}"
    return Row(
        "workers", what, tidings=two / one, value=two / one, target=target, note=f"{one:,.0f} and {two:,.0f}{note}"
    )


def _rates(count: int) -> tuple[float, float]:
    """Returns the deliveries a second, and a second of the busiest worker's CPU: the medians of all rounds."""
    with _served(count) as (port, processes), selectors.DefaultSelector() as selector:
        number = STREAMS * _CHANGES
        sockets = [_listen(port, each) for each in range(STREAMS)]
        for each in sockets:
            selector.register(each, selectors.EVENT_READ)
        found: list[tuple[float, float]] = []
        for turn in range(ROUNDS):
            before = [sum(each.cpu_times()[:2]) for each in processes]
            began = time.monotonic()
            call = wire.modern(port, "tools/call", {"name": "change", "arguments": {"turn": turn}}, name="change")
            with socket.create_connection(("127.0.0.1", port)) as caller:
                caller.sendall(call)
                _count(selector, number)
            seconds = time.monotonic() - began
            busiest = max(sum(each.cpu_times()[:2]) - used for each, used in zip(processes, before, strict=True))
            found.append((number / seconds, number / busiest))
        for each in sockets:
            each.close()
    by_clock, by_cpu = zip(*found, strict=True)
    return statistics.median(by_clock), statistics.median(by_cpu)


def _count(selector: selectors.BaseSelector, wanted: int) -> None:
    """Reads until so many notifications have come."""
    count, rests = 0, dict[Any, bytes]()
    buffer, until = bytearray(1 << 20), time.monotonic() + _SECONDS
    while count < wanted:
        for key, _ in selector.select(1.0):
            size = key.fileobj.recv_into(buffer)  # type: ignore[union-attr]
            data = rests.get(key.fd, b"") + buffer[:size]
            count += data.count(_EVENT)
            rests[key.fd] = data[1 - len(_EVENT) :]
        if time.monotonic() > until:
            raise DeliveryLost(f"workers: {count} of {wanted} deliveries arrived within {_SECONDS:g} s")


def _listen(port: int, number: int) -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", port))
    opened.settimeout(_SECONDS)
    opened.sendall(wire.listen(port, number, ["bench://*"]))
    data = b""
    while b"acknowledged" not in data:
        data += opened.recv(65_536)
    return opened


@contextmanager
def _served(count: int) -> Generator[tuple[int, list[psutil.Process]]]:
    with tempfile.TemporaryDirectory() as folder:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        log = Path(folder, "log")
        words = [sys.executable, "-m", "uvicorn", "--factory", f"{__name__}:app", "--no-access-log"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*words, "--port", str(port), "--workers", str(count)],
                env={**os.environ, _BUS: f"sqlite://{folder}/bus.db"},
                stdout=output,
                stderr=output,
            )
        try:
            until = time.monotonic() + _SECONDS
            while log.read_text().count("startup complete") < count:
                if process.poll() is not None or time.monotonic() > until:
                    raise DeliveryLost(f"workers: they did not start: {log.read_text()[-500:]}")
                time.sleep(0.05)
            own = psutil.Process(process.pid)
            yield port, [own, *own.children(recursive=True)]
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()
