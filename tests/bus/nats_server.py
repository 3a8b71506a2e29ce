"""A real nats-server with JetStream, on a port and in a folder of its own, that can be killed and comes back."""

import atexit
import ctypes
import json
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import nats

from tests.ports import free_port

PROGRAM = Path(sysconfig.get_path("scripts")) / "nats-server"


def end_with_parent() -> None:
    """However the tests end, their servers do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class NatsServer:
    """A server that keeps its streams in `folder`. `config` is added to its configuration as it is."""

    def __init__(self, folder: Path, config: str = "", *, jetstream: bool = True, port: int | None = None) -> None:
        self.port = port or free_port()
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        storage = f'jetstream {{ store_dir: "{folder / "store"}" }}' if jetstream else ""
        self._file = folder / "nats.conf"
        self._file.write_text(f"listen: 127.0.0.1:{self.port}\n{storage}\n{config}\n")
        self.log = folder / "nats.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self, *, wait: bool = True) -> None:
        with self.log.open("ab") as log:
            command = [PROGRAM, "-c", self._file]
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call, which needs no lock
            )
        if wait:
            self.wait()

    def wait(self) -> None:
        """Until it answers."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text()
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                if connection.recv(4):
                    return
            time.sleep(0.01)
        raise TimeoutError(self.log.read_text())

    def kill(self) -> None:
        """As `kill -9` does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self) -> None:
        self.kill()
        self.start()

    def wipe(self) -> None:
        """Take away what it has stored, while it does not run."""
        shutil.rmtree(self.folder / "store", ignore_errors=True)


@contextmanager
def running(folder: Path, config: str = "", *, jetstream: bool = True) -> Generator[NatsServer]:
    server = NatsServer(folder, config, jetstream=jetstream)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@cache
def shared() -> NatsServer:
    """One for all tests that do it no harm; it ends with them."""
    folder = Path(tempfile.mkdtemp(prefix="tidings-nats-"))
    server = NatsServer(folder)
    server.start()

    def end() -> None:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return server


async def api(url: str, what: str, body: object = None) -> dict[str, Any]:
    """Ask JetStream something, as an operator does."""
    client = await nats.connect(url, allow_reconnect=False)
    try:
        answer = await client.request(f"$JS.API.{what}", json.dumps(body).encode() if body else b"", timeout=5)
        return json.loads(answer.data)
    finally:
        await client.close()


def certificate(folder: Path) -> tuple[Path, Path]:
    """A key and a certificate for this machine that nobody has signed but itself."""
    key, made = folder / "key.pem", folder / "cert.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", key, "-out", made], check=True, capture_output=True)
    return key, made
