"""A request as text to paste: as JSON-RPC, as a Python program, or as a shell command.

Masked secrets stay masked, or become a variable to set.
"""

import json
import pprint
import shlex
from typing import Any, Final

from tidings._kit.bounded_json import as_dict, as_list, as_text
from tidings.client.masking import MASK
from tidings.inspector.view.view import ServerView, target_of

METHODS: Final = {"call": "tools/call", "read": "resources/read", "prompt": "prompts/get"}
_OWN: Final = "io.modelcontextprotocol/"
_PROGRAM: Final = """\
import asyncio

import tidings


async def main():
    async with tidings.connect({target!r}) as client:
        result = await client.{call}
        print(result)


asyncio.run(main())
"""


_TEST: Final = """\
\"\"\"The requests of a session, sent again: each must be answered as it was then.\"\"\"

import asyncio

import tidings
from tidings.errors import TidingsError

TARGET = {target!r}
# Method, parameters, and the parts of the result that must be the same; or the code of the error.
EXCHANGES = {exchanges}


def test_{name}() -> None:
    asyncio.run(replay())


async def replay() -> None:
    async with tidings.connect(TARGET) as client:
        for method, params, expected in EXCHANGES:
            try:
                answer = await client.request(method, params)
            except TidingsError as error:
                answer = {{"error": error.code}}
            assert {{key: answer.get(key) for key in expected}} == expected, (method, params)
"""
_COMPARED: Final = "content", "structuredContent", "contents", "messages"


def as_test(view: ServerView, name: str) -> str:
    """Returns a pytest file that sends the user's requests to a server again, and compares the answers."""
    exchanges: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
    for request in view.requests.values():
        if request.aside or request.status not in ("completed", "error") or request.task is not None:
            continue
        result = as_dict(request.result)
        expected = {key: result[key] for key in _COMPARED if key in result}
        expected |= {"isError": True} if request.is_error else {}
        if request.error is not None:
            expected = {"error": request.error.code}
        params = {key: value for key, value in request.params.items() if key != "_meta"}
        exchanges.append((request.method, params, expected))
    entry = view.entry or {}
    shown = pprint.pformat(exchanges, width=100, sort_dicts=False)
    return _TEST.format(target=_words(entry) or target_of(entry), exchanges=shown, name=name)


def as_json(method: str, params: dict[str, Any]) -> str:
    """Returns the JSON-RPC message."""
    return _written(_message(method, params), indent=2)


def _written(value: Any, indent: int | None = None) -> str:
    """Returns JSON with control characters and direction marks escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text)


def _message(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def as_python(view: ServerView, kind: str, method: str, params: dict[str, Any]) -> str:
    """Returns a program that sends the request with Tidings."""
    entry = view.entry or {}
    name, arguments = params.get("name"), as_dict(params.get("arguments"))
    calls = {
        "call": f"call_tool({name!r}, {arguments!r})",
        "read": f"read_resource({params.get('uri')!r})",
        "prompt": f"get_prompt({name!r}, {arguments!r})",
        "request": f"request({method!r}, {params!r})",
    }
    return _PROGRAM.format(target=_words(entry) or target_of(entry), call=calls[kind])


def _words(entry: dict[str, Any]) -> list[str]:
    """Returns the words of a command; none for a server at a URL."""
    command = as_text(entry.get("command"))
    return [] if command is None else [command, *map(str, as_list(entry.get("args")))]


def as_shell(view: ServerView, method: str, params: dict[str, Any]) -> str:
    """Returns a shell command: curl for a server over HTTP, a pipe for a command."""
    entry, modern = view.entry or {}, view.era == "modern"
    if modern:
        params = {**params, "_meta": {**_meta(view), **as_dict(params.get("_meta"))}}
    message = _message(method, params)
    if not (words := _words(entry)):
        return _curl(target_of(entry), message, view, modern=modern)
    messages = [message] if modern else [*_handshake(view), message]
    lines = " \\\n  ".join(shlex.quote(_written(each)) for each in messages)
    # The server ends with its input, so it gets a moment to answer.
    return f"(printf '%s\\n' \\\n  {lines}; sleep 2) | {shlex.join(words)}\n"


def _meta(view: ServerView) -> dict[str, Any]:
    """Returns the metadata that the modern era requires in requests, as in this session's own requests."""
    for message in reversed(view.messages):
        meta = as_dict(as_dict(message.body.get("params")).get("_meta"))
        own = {key: value for key, value in meta.items() if key.startswith(_OWN)}
        if not message.incoming and message.kind == "request" and own:
            return own
    version: dict[str, Any] = {f"{_OWN}protocolVersion": view.protocol_version, f"{_OWN}clientCapabilities": {}}
    return {**version, f"{_OWN}clientInfo": {"name": "curl", "version": "1"}}


def _handshake(view: ServerView) -> list[dict[str, Any]]:
    version, info = view.protocol_version or "2025-11-25", {"name": "shell", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": info}
    return [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]


def _curl(url: str, message: dict[str, Any], view: ServerView, *, modern: bool) -> str:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if view.protocol_version:
        headers["MCP-Protocol-Version"] = view.protocol_version
    if modern:
        headers["Mcp-Method"] = message["method"]
        params = as_dict(message["params"])
        name = as_text(params.get("name")) or as_text(params.get("uri"))
        if name is not None and name.isascii() and name.isprintable():
            headers["Mcp-Name"] = name
    options = [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in headers.items()]
    newest = view.exchanges.last
    if newest is not None and any(name.lower() == "authorization" for name in newest.request_headers):
        options.append('-H "Authorization: Bearer $TOKEN"')
    if modern:
        return _command(url, options, message)
    first, second = _handshake(view)
    sessions = [*options, '-H "Mcp-Session-Id: $SESSION"']
    dump = "-D - -o /dev/null | tr -d '\\r' | sed -n 's/^[Mm]cp-[Ss]ession-[Ii]d: //p'"
    begin = _command(url, options, first).rstrip("\n")
    return f"SESSION=$({begin} \\\n  {dump})\n{_command(url, sessions, second)}{_command(url, sessions, message)}"


def _command(url: str, options: list[str], message: dict[str, Any]) -> str:
    shown = shlex.quote(url.replace(MASK, "$SECRET"))
    return " \\\n  ".join([f"curl -sN {shown}", *options, f"--data-raw {shlex.quote(_written(message))}"]) + "\n"
