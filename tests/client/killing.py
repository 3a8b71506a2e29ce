"""A server of files that is killed and started again, and the files."""

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]


class Files:
    """The truth: what every copy must equal in the end."""

    def __init__(self, folder: Path, count: int, seed: int) -> None:
        self.folder = folder
        self.names = [f"f{number}" for number in range(count)]
        self.random = random.Random(seed)
        folder.mkdir()
        for name in self.names:
            self.write(name, "0")

    def write(self, name: str, text: str) -> None:
        """Replaced as a whole: nobody ever reads half of it."""
        scratch = self.folder.parent / f".{name}"
        scratch.write_text(text)
        scratch.replace(self.folder / name)

    def change_some(self, most: int = 10) -> None:
        for name in self.random.sample(self.names, self.random.randint(1, most)):
            self.write(name, str(self.random.getrandbits(64)))

    @property
    def truth(self) -> dict[str, str]:
        return {f"file:///{name}": (self.folder / name).read_text() for name in self.names}


class Zygote:
    """Starts and kills the server on one port."""

    def __init__(self, process: "subprocess.Popen[str]", port: int) -> None:
        self._process = process
        self.port = port

    def order(self, what: str) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def programs() -> list[psutil.Process]:
    """The servers that clients of this process run as commands; brokers that other tests share are left alone."""
    found: list[psutil.Process] = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if any("tests.client." in word for word in child.cmdline()):
                found.append(child)
    return found


@contextmanager
def zygote(folder: Path) -> Generator[Zygote]:
    port = free_port()
    # What is killed tells nobody what it ran: it is not measured.
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.client.programs", "zygote", str(port), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=env,
    )
    try:
        yield Zygote(process, port)
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()
