"""A soak run: everything at work for minutes or hours, and nothing may grow.

python -m tests.soak.run [--minutes M] [--leak]

A live server with clients of both eras that come and go; a vault under constant edits; a client whose server is killed
and started again every few seconds; the web server, which watches 50 pages; an inspector on a chatty server. The exit
code is 1 if memory, open files, tasks, threads or disk space of a process grow, if one of them ended, or does nothing.
"""

import argparse
import contextlib
import http.server
import itertools
import json
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.client.killing import ROOT
from tests.ports import free_port
from tests.soak.growth import Trend, table, trends
from tests.soak.parts import PROGRAMS, uris

RESTARTED_EVERY = 5.0
PAGES = 50


@dataclass
class Outcome:
    """What a run has found."""

    found: dict[str, list[Trend]] = field(default_factory=dict[str, list[Trend]])
    failures: list[str] = field(default_factory=list[str])

    @property
    def growing(self) -> list[str]:
        return [f"{name}: {each.measure}" for name, course in self.found.items() for each in course if each.grows]


class Soak:
    """The processes of a run. They end with it."""

    def __init__(self, home: Path, seconds: float, *, leak: bool = False) -> None:
        self._home = home
        self._seconds = seconds
        self._period = max(0.5, seconds / 300)
        self._leak = leak
        self._random = random.Random(1)
        self._parts: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, **options: Any) -> None:
        options |= {"home": str(self._home), "period": self._period}
        with (self._home / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", "tests.soak.parts", name, json.dumps(options)]
            self._parts[name] = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def run(self) -> Outcome:
        (self._home / "samples").mkdir()
        notes = self._home / "notes"
        notes.mkdir()
        for number in range(200):
            self._edit(notes, number)
        try:
            with ExitStack() as stack:
                restarted = stack.enter_context(restarting(self._home))
                self._start_all(notes, stack.enter_context(site()), restarted.port)
                self._work(notes, restarted)
                return self._judge()
        finally:
            for process in self._parts.values():
                process.terminate()
            for process in self._parts.values():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                process.kill()
                process.wait()

    def _start_all(self, notes: Path, site_port: int, restarted: int) -> None:
        ports = {name: free_port() for name in ("server", "vault", "web", "chatty")}
        served = {name: ("--http", f"127.0.0.1:{ports[name]}") for name in PROGRAMS}
        often = ("--watch-min", "5s", "--watch-max", "10s", "--requests-per-minute", "60000", "--max-entries", "100")
        stored = ("--store", str(self._home / "web" / "pages.db"), "--allow-private", "127.0.0.0/8")
        self.start("server", port=ports["server"], leak=self._leak)
        self.start("chatty", port=ports["chatty"])
        self.start("vault", words=(str(notes), "--cache", str(self._home / "vault"), *served["vault"]))
        self.start("web", words=(*served["web"], *stored, *often))
        until(lambda: all(map(_listens, ports.values())), f"a server to listen: see the logs in {self._home}")
        self.start("clients", port=ports["server"])
        self.start("returning", port=restarted)
        self.start("inspector", port=ports["chatty"])
        self.start("readers", vault=ports["vault"], web=ports["web"], site=site_port, pages=PAGES)
        samples = self._home / "samples"
        until(lambda: len(list(samples.iterdir())) == len(self._parts), f"all samples: see the logs in {self._home}")

    def _work(self, notes: Path, restarted: "Restarted") -> None:
        end = time.monotonic() + self._seconds
        restart = time.monotonic() + RESTARTED_EVERY
        while (now := time.monotonic()) < end:
            self._edit(notes, self._random.randrange(200))
            if now > restart:
                restart = now + RESTARTED_EVERY
                restarted.again()
            time.sleep(0.1)

    def _edit(self, notes: Path, number: int) -> None:
        links = " ".join(f"[[note {self._random.randrange(200)}]]" for _ in range(5))
        words = self._random.getrandbits(4000)
        (notes / f"note {number}.md").write_text(f"# Note {number}\n\n#tag{number % 7} {links}\n\n{words}\n")

    def _judge(self) -> Outcome:
        outcome = Outcome()
        for name, process in self._parts.items():
            if process.poll() is not None:
                log = (self._home / f"{name}.log").read_text(errors="replace")[-1000:]
                outcome.failures.append(f"{name} ended with exit code {process.returncode}: {log}")
            path = self._home / "samples" / name
            if not path.exists():
                continue
            samples = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
            try:
                outcome.found[name] = trends(samples)
            except ValueError as error:
                outcome.failures.append(f"{name}: {error}")
                continue
            if name not in PROGRAMS and samples[-1]["work"] <= samples[len(samples) // 2]["work"]:
                outcome.failures.append(f"{name} did nothing in the second half")
        return outcome


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(0.1)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Restarted:
    """A server that is killed and started again, by forking: a new process with other notes each time."""

    def __init__(self, home: Path, zygote: "subprocess.Popen[str]") -> None:
        self.port = free_port()
        self._zygote = zygote
        self._folder = home / "restarted"
        self._folder.mkdir()
        self._starts = 0
        self._pid = self._start()

    def again(self) -> None:
        self._order({"kill": self._pid})
        self._pid = self._start()

    def _start(self) -> int:
        self._starts += 1
        for uri in uris():
            (self._folder / uri.removeprefix("note://")).write_text(f"{uri} {self._starts}")
        options = {"port": self.port, "folder": str(self._folder), "bus": "memory:", "keep_alive": 4}
        return self._order({"start": "replica", **options})

    def _order(self, order: dict[str, Any]) -> int:
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        self._zygote.stdin.write(json.dumps(order) + "\n")
        self._zygote.stdin.flush()
        return int(self._zygote.stdout.readline())


@contextmanager
def restarting(home: Path) -> Generator[Restarted]:
    words = [sys.executable, "-m", "tests.chaos.zygote"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as zygote:
        yield Restarted(home, zygote)


@contextmanager
def site() -> Generator[int]:
    """A small site on loopback, each page of which changes now and then. Yields its port."""
    count = itertools.count()

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            turn = next(count) // 200
            text = f"<html><title>{self.path}</title><body><article><h1>Page {self.path}</h1>"
            text += f"<p>This is what page {self.path} says in turn {turn}.</p>" * 5 + "</article></body></html>"
            self.send_response(200 if self.path != "/robots.txt" else 404)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        try:
            yield serving.server_address[1]
        finally:
            serving.shutdown()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("tests.soak.run", description="Everything at work, and nothing may grow.")
    parser.add_argument("--minutes", type=float, default=10, help="how long; the first half is the warm-up")
    parser.add_argument("--leak", action="store_true", help="let the server leak, to see that it is found")
    chosen = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        outcome = Soak(Path(folder), chosen.minutes * 60, leak=chosen.leak).run()
    sys.stdout.write(f"{table(outcome.found)}\n")
    for text in (*outcome.failures, *(f"{each} grows" for each in outcome.growing)):
        sys.stdout.write(f"{text}\n")
    return 1 if outcome.failures or outcome.growing else 0


if __name__ == "__main__":
    sys.exit(main())
