"""One run of one host: a vault, the server on it, the wire between, a scripted model, and the host in a terminal."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Literal

import httpx2 as httpx

from tests.hosts.model import Model, scripted_model
from tests.hosts.programs import Host, Setting
from tests.hosts.terminal import Terminal, terminal
from tests.hosts.wire import Wire, relay, tapped
from tests.ports import free_port

Transport = Literal["stdio", "http"]
START = 60.0
"""Seconds within which a host must be ready, on however busy a machine."""


class Vault:
    """The notes, and the command that serves them."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.options = options
        (folder / ".obsidian").mkdir(parents=True)
        for number in range(8):
            self.write(f"Note {number}", f"# Note {number}\n\nFirst line.\n")

    def write(self, name: str, text: str) -> float:
        """Saves a note. Returns when."""
        (self.folder / f"{name}.md").write_text(text, "utf-8")
        return time.time()

    def append(self, name: str, line: str) -> float:
        return self.write(name, (self.folder / f"{name}.md").read_text("utf-8") + line + "\n")

    @property
    def command(self) -> list[str]:
        return [str(Path(sys.executable).with_name("tidings")), "vault", str(self.folder), *self.options]


def uri(name: str) -> str:
    return f"vault://note/{name.replace(' ', '%20')}.md"


class HttpServer:
    """`tidings vault --http`, which can be killed and started again at the same port."""

    def __init__(self, vault: Vault, home: Path) -> None:
        self.port = free_port()
        self._command = [*vault.command, "--http", f"127.0.0.1:{self.port}"]
        self._env = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
        self._log = home.parent / "server.log"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(*self._command, env=self._env, stdout=log, stderr=log)
        async with asyncio.timeout(START), httpx.AsyncClient() as client:
            while True:
                with contextlib.suppress(httpx.TransportError):
                    await client.get(f"http://127.0.0.1:{self.port}/healthz")
                    return
                await asyncio.sleep(0.1)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            process.send_signal(number)
            try:
                await asyncio.wait_for(process.wait(), 20)
            except TimeoutError:
                process.kill()
                raise TimeoutError("The server has not stopped within 20 s.") from None


class Stage:
    """Everything of one run."""

    def __init__(self, host: Host, setting: Setting, vault: Vault, wire: Wire, model: Model) -> None:
        self.host = host
        self.setting = setting
        self.vault = vault
        self.wire = wire
        self.model = model
        self.server: HttpServer | None = None
        self.terminal: Terminal | None = None
        """Of the conversation that was opened last."""

    @asynccontextmanager
    async def chat(self, *options: str, **variables: str) -> AsyncGenerator[Terminal]:
        """Opens a conversation in a terminal, and waits until it takes input."""
        environment = {**self.host.environment(self.setting), **variables}
        began = time.time()
        async with terminal(self.host.chat(*options), self.setting.project, environment) as self.terminal:
            await self.until(lambda: self._connected(began), START, f"{self.host.name} has listed the tools")
            await self.terminal.quiet(1.5, START)
            yield self.terminal

    def _connected(self, since: float) -> bool:
        return any(request.at > since for request, _ in self.wire.answers("tools/list"))

    async def prompt(self, word: str, seconds: float = 60.0) -> None:
        """Types a prompt, and waits until the model has ended its turn."""
        assert self.terminal
        before = len(self.model.requests)
        await self.terminal.type(word)
        calls = bool(self.model.plan.get(word))
        await self.model.until(
            lambda: len(self.model.requests) > before + calls, seconds, f"the model answers {word!r}"
        )

    async def until(self, condition: Callable[[], object], seconds: float, what: str) -> None:
        """Waits for something that only shows in files or processes."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():  # noqa: ASYNC110 - files in which others write
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise TimeoutError(f"{what}: not within {seconds:g} s") from None

    async def once(self, prompt: str, seconds: float = 120.0, **variables: str) -> str:
        """Runs the host for one prompt, without a terminal. Returns what it printed."""
        process = await asyncio.create_subprocess_exec(
            "nice",
            "-n",
            "5",
            *self.host.once(prompt),
            cwd=self.setting.project,
            env={**self.host.environment(self.setting), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), seconds)
        finally:
            if process.returncode is None:
                process.kill()
        return output.decode("utf-8", "replace")


@asynccontextmanager
async def stage(host: Host, folder: Path, transport: Transport, *options: str) -> AsyncGenerator[Stage]:
    """Prepares a run in an empty folder. `options` are for `tidings vault`."""
    home, project = folder / "home", folder / "project"
    (home / "tmp").mkdir(parents=True)
    project.mkdir()
    vault = Vault(folder / "Notes", *options)
    wire = Wire(folder / "wire.jsonl")
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(scripted_model())
        server: HttpServer | None = None
        where: list[str] | str = tapped(wire.log, vault.command)
        if transport == "http":
            server = HttpServer(vault, home)
            stack.push_async_callback(server.stop)
            await server.start()
            where = f"http://127.0.0.1:{await stack.enter_async_context(relay(wire.log, server.port))}/mcp"
        setting = Setting(home, project, model.port, where)
        host.configure(setting)
        made = Stage(host, setting, vault, wire, model)
        made.server = server
        yield made
