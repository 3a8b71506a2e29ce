"""A real Redis: started, asked, killed and started again, with its files in a folder."""

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import anyio
from redis import Redis as Client
from redis.exceptions import RedisError

from tests.bus.proxy import Proxy
from tests.ports import free_port
from tidings.bus.redis import RedisBus

ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")
EVERY_SECOND = ("--appendonly", "yes", "--appendfsync", "everysec")
NOTHING = ("--appendonly", "no")

NOBODY = 1
"""A port on which nobody listens. One that was free a moment ago may be somebody else's by now."""

# Should the tests be killed, it ends with them: with the thread that started it, so let that be the main one.
_TIED = ("setpriv", "--pdeathsig", "KILL", "--") if shutil.which("setpriv") else ()
_PROGRAM = ("--save", "", "--repl-diskless-sync-delay", "0")


class RedisServer:
    """A server with `options` of its command line, on a port of its own that it keeps when it is started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.options = options
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start it, and return when it takes connections. Its data may still be loading."""
        self._spawn()
        await until(self._listens)

    def start_and_wait(self) -> None:
        """The same, outside of an event loop."""
        self._spawn()
        self._until(self._listens, "it never listened")

    def _spawn(self) -> None:
        self.folder.mkdir(exist_ok=True)
        own = ("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder))
        quiet = ("--logfile", str(self.folder / "log"), "--daemonize", "no")
        self._process = subprocess.Popen([*_TIED, "redis-server", *_PROGRAM, *own, *quiet, *self.options])

    def _listens(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError((self.folder / "log").read_text())
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def kill(self) -> None:
        """End it as kill -9 does. Twice is once."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def ask(self, *words: str | int, **options: Any) -> Any:
        """The answer to a command, on a connection of its own, as the server gave it."""
        client_of: Any = Client  # Its types are incomplete.
        with client_of(port=self.port, decode_responses=True, retry=None, protocol=2, **options) as client:
            client.response_callbacks.clear()
            return client.execute_command(*words)

    def until(self, words: str, *command: str) -> None:
        """Until the answer to `command` has `words`."""
        self._until(lambda: words in str(self.ask(*command)), f"{command} never had {words!r}")

    def lose_what_follows(self, words: str) -> Callable[[], Awaitable[None]]:
        """Note how far its append-only file goes that has `words`. The result starts it again with no more than that,
        as a power cut would.
        """
        (path,) = [*self.folder.glob("appendonlydir/*.incr.aof"), *self.folder.glob("appendonly.aof")]
        self._until(lambda: words.encode() in path.read_bytes(), f"{path} never had {words!r}")
        size = path.stat().st_size

        async def lose() -> None:
            self.kill()
            os.truncate(path, size)
            await self.start()

        return lose

    def _until(self, done: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with suppress(RedisError):
                if done():
                    return
            time.sleep(0.02)
        raise TimeoutError(otherwise)


@asynccontextmanager
async def redis_server(folder: Path, *options: str) -> AsyncGenerator[RedisServer]:
    """A server of one's own, gone at the end."""
    server = RedisServer(folder, *options)
    try:
        await server.start()
        yield server
    finally:
        server.kill()


@cache
def shared_server() -> RedisServer:
    """The server that all tests share which do it no harm; each has a prefix of its own."""
    folder = tempfile.TemporaryDirectory(prefix="tidings-redis-")
    server = RedisServer(Path(folder.name), *NOTHING)
    server.start_and_wait()
    atexit.register(folder.cleanup)
    atexit.register(server.kill)
    return server


def bus_through(proxy: Proxy, prefix: Path, **options: float) -> RedisBus:
    """A bus on the shared server, if that is what `proxy` leads to."""
    return RedisBus(f"redis://127.0.0.1:{proxy.port}", prefix=str(prefix), **{"poll": 0.05, **options})  # type: ignore[arg-type]


def bus_beside(prefix: Path) -> RedisBus:
    """A bus with the same log, which does not go through the proxy."""
    return RedisBus(shared_server().url, prefix=str(prefix), poll=0.05)


async def until(done: Callable[[], object]) -> None:
    """Until `done` holds: for what nobody says."""
    with anyio.fail_after(10):
        while not done():  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(0.01)
