"""The answers that a vault's server gives before it runs: what the server itself says, asked anew.

python -m tests.vault.front_answers --write
"""

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from tidings.vault.front import ANSWERS
from tidings.vault.server import VaultServer

STATIC = ("ping", "tools/list", "prompts/list", "resources/templates/list")
"""What is always answered alike."""

CLIENT = {"name": "somebody", "version": "1"}
_META = "io.modelcontextprotocol/"
_INFO = "$serverInfo"


def initialize(protocol: str) -> dict[str, Any]:
    return {"protocolVersion": protocol, "capabilities": {}, "clientInfo": CLIENT}


def envelope(protocol: str) -> dict[str, Any]:
    return {
        "_meta": {
            f"{_META}protocolVersion": protocol,
            f"{_META}clientInfo": CLIENT,
            f"{_META}clientCapabilities": {},
        }
    }


def requests(protocol: str) -> list[tuple[str, dict[str, Any]]]:
    """What is asked in one connection of this version."""
    if protocol in MODERN_PROTOCOL_VERSIONS:
        return [(method, envelope(protocol)) for method in ("server/discover", *STATIC)]
    return [("initialize", initialize(protocol)), *((method, {}) for method in STATIC)]


async def ask(server: VaultServer, asked: list[tuple[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """The results of some requests, by their methods, in a connection of their own; of errors there is none."""
    results: dict[str, dict[str, Any]] = {}
    to_server, server_reads = create_context_streams[SessionMessage | Exception](0)
    server_writes, from_server = create_context_streams[SessionMessage](0)
    lowlevel = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]
    async with anyio.create_task_group() as tasks, to_server, from_server:
        tasks.start_soon(lowlevel.run, server_reads, server_writes, lowlevel.create_initialization_options())
        for number, (method, params) in enumerate(asked):
            request = JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params)
            await to_server.send(SessionMessage(request))
            while not isinstance(answer := (await from_server.receive()).message, JSONRPCResponse | JSONRPCError):
                pass
            if isinstance(answer, JSONRPCResponse):
                results[method] = json.loads(answer.model_dump_json(by_alias=True, exclude_unset=True))["result"]
            if method == "initialize":
                told = JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
                await to_server.send(SessionMessage(told))
        tasks.cancel_scope.cancel()
    return results


async def answers_of(server: VaultServer) -> dict[str, dict[str, Any]]:
    """All that is static, by the version of the protocol and the method."""
    return {
        protocol: await ask(server, requests(protocol))
        for protocol in (*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS)
    }


async def collect(folder: Path) -> dict[str, Any]:
    """What `front.json` has to hold."""
    results: list[Any] = []
    kept: dict[str, Any] = {"made with": {name: version(name) for name in ("mcp", "mcp_types")}}
    (folder / "Notes").mkdir()
    for name, read_only in (("writing", False), ("read-only", True)):
        server = VaultServer(folder / "Notes", read_only=read_only, cache=folder / "cache")
        kept[name] = {}
        for protocol, methods in (await answers_of(server)).items():
            kept[name][protocol] = {}
            for method, result in methods.items():
                blank = _without_info(result)
                if blank not in results:
                    results.append(blank)
                kept[name][protocol][method] = results.index(blank)
    return {**kept, "results": results}


def _without_info(result: dict[str, Any]) -> dict[str, Any]:
    """The same for a server of any name."""
    if "serverInfo" in result:
        return {**result, "serverInfo": _INFO}
    if f"{_META}serverInfo" in result.get("_meta", {}):
        return {**result, "_meta": {**result["_meta"], f"{_META}serverInfo": _INFO}}
    return result


def written(kept: dict[str, Any]) -> str:
    return json.dumps(kept, ensure_ascii=False, indent=1) + "\n"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = written(await collect(Path(folder)))
    if "--write" in sys.argv:
        ANSWERS.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    anyio.run(main)
