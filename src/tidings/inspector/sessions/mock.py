"""The mock server: it answers as a recorded server did.

    await serve_stdio(records)                # until the client disconnects
    app = asgi(records)                       # at /mcp

It has the recorded server's name, capabilities, instructions and lists. A tool call, a prompt or a completion gets the
answers that were recorded for the same arguments, in order; if there are none, the error lists the recorded arguments.
A resource has its last content. Subscriptions are accepted, and nothing changes. Both eras and both transports are
served by the SDK.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import mcp_types as types
from mcp.server import subscriptions
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from tidings._kit.bounded_json import as_dict, as_float, as_int, as_list, as_text, dumps, head_of, in_order, is_cut
from tidings._kit.text import listed
from tidings.inspector.records import LISTS, Record
from tidings.inspector.view.fold import fold
from tidings.inspector.view.view import ServerView

Context = ServerRequestContext[Any, Any]

_LISTS = {kind.method: kind for kind in LISTS.values()}
_ANSWERED: Final = ("tools/call", "prompts/get", "resources/read", "completion/complete")
_INVALID_PARAMS = -32602
_NOT_FOUND_LEGACY = -32002


class NothingRecorded(LookupError):
    """There is no recorded answer. The message lists the recorded ones."""


class Recording:
    """The recorded behaviour of one server: the answers to requests, and the times of changes."""

    def __init__(self, records: Iterable[Record], server: str | None = None) -> None:
        """Reads the records in order. Raises `LookupError` if `server` was not connected, or has to be named."""
        kept = list(records)
        names = list(dict.fromkeys(record.server for record in kept if record.kind == "hello"))
        if server is None and len(names) != 1:
            connected = ", ".join(names) or "none"
            raise LookupError(f"Name a server of the session. These were connected: {connected}.")
        self.server = names[0] if server is None else server
        if self.server not in names:
            were = ", ".join(names)
            raise LookupError(f"The session has no server {server!r} that was connected. These were: {were}.")
        self.view = ServerView(self.server)  # The server at the end.
        self.contents: dict[str, list[Any]] = {}  # The last content of each resource.
        # For each method: the parameters of each recorded request, and its answers in order.
        self._answers: dict[str, dict[str, tuple[dict[str, Any], deque[Any]]]] = {method: {} for method in _ANSWERED}
        self._read([record for record in kept if record.server == self.server and record.kind != "server"])

    def answer(self, method: str, params: dict[str, Any]) -> Any:
        """Returns the next recorded answer, the last one again and again. Raises `NothingRecorded` if there is none."""
        known = self._answers[method]
        if (found := known.get(_key(params))) is not None:
            answers = found[1]
            return answers.popleft() if len(answers) > 1 else answers[0]

        def subject(params: dict[str, Any]) -> Any:
            return params.get("name") or params.get("uri")

        name, recorded = subject(params), [each for each, _ in known.values()]
        same = [head_of(as_dict(each.get("arguments")), 200) for each in recorded if subject(each) == name]
        if not same:
            names = listed(sorted({str(subject(each)) for each in recorded}), 10, none="none")
            raise NothingRecorded(f"No answer of {name} was recorded. These were: {names}.")
        wanted = head_of(as_dict(params.get("arguments")), 200)
        raise NothingRecorded(f"{name} was not recorded with {wanted}. It was recorded with: {listed(same, 10)}.")

    def _read(self, records: list[Record]) -> None:
        requests: dict[str, dict[str, Any]] = {}
        for record in records:
            fold(self.view, record)
            data = record.data
            if record.kind == "request":
                request = requests.setdefault(str(data.get("id")), {})
                request |= data
                self._request(request)
            elif record.kind == "content":
                self._content(data)

    def _content(self, data: dict[str, Any]) -> None:
        uri, contents = as_text(data.get("uri")), _contents(data)
        if uri is not None and contents is not None:
            self.contents[uri] = contents

    def _request(self, request: dict[str, Any]) -> None:
        method = as_text(request.get("method")) or ""
        if method not in _ANSWERED or request.get("status") not in ("completed", "error"):
            return
        params = as_dict(request.get("params"))
        answer: Any = request.get("result")
        if request.get("status") == "error":
            error = as_dict(request.get("error"))
            payload = as_dict(error.get("payload"))
            if (code := as_int(payload.get("rpc_code"))) is None:
                return  # It is not an answer of the server.
            message = as_text(error.get("message")) or ""
            answer = types.ErrorData(code=code, message=message, data=payload.get("rpc_data"))
        elif is_cut(answer):
            size = as_float(as_dict(answer).get("size")) or 0
            message = f"The recorded answer was too large to be stored ({size:,.0f} bytes)."
            answer = types.ErrorData(code=-32603, message=message)
        elif not isinstance(answer, dict):
            return
        self._answers[method].setdefault(_key(params), (params, deque()))[1].append(answer)
        if method == "resources/read" and isinstance(answer, dict):
            self._content({"uri": params.get("uri"), "contents": as_list(as_dict(answer).get("contents"))})  # pyright: ignore[reportUnknownArgumentType]


def _contents(data: dict[str, Any]) -> list[Any] | None:
    found: object = data.get("contents")
    return as_list(found) if isinstance(found, list) else None  # pyright: ignore[reportUnknownArgumentType]


def _key(params: dict[str, Any]) -> str:
    wanted = {key: params.get(key) for key in ("name", "uri", "ref", "argument") if params.get(key) is not None}
    return dumps(in_order({**wanted, "arguments": as_dict(params.get("arguments"))}))


class Mock:
    """Answers from a recording. `server` is a server of the SDK."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.server = self._make()

    def _make(self) -> "_MockServer":
        recorded = self.recording.view
        info = recorded.server_info or {}
        capabilities = recorded.capabilities or {}
        server = _MockServer(
            _capabilities(capabilities),
            as_text(info.get("name")) or self.recording.server,
            version=as_text(info.get("version")) or "",
            title=as_text(info.get("title")),
            instructions=recorded.instructions,
        )
        offered = {
            "tools": (("tools/list", types.PaginatedRequestParams), ("tools/call", types.CallToolRequestParams)),
            "prompts": (("prompts/list", types.PaginatedRequestParams), ("prompts/get", types.GetPromptRequestParams)),
            "resources": (
                ("resources/list", types.PaginatedRequestParams),
                ("resources/templates/list", types.PaginatedRequestParams),
                ("resources/read", types.ReadResourceRequestParams),
                ("resources/subscribe", types.SubscribeRequestParams),
                ("resources/unsubscribe", types.UnsubscribeRequestParams),
            ),
            "completions": (("completion/complete", types.CompleteRequestParams),),
            "logging": (("logging/setLevel", types.SetLevelRequestParams),),
        }
        for capability, methods in offered.items():
            for method, params in methods if capability in capabilities else ():
                server.add_request_handler(method, params, partial(self._handle, method))
        listen = subscriptions.ListenHandler(subscriptions.InMemorySubscriptionBus())
        server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, listen)
        return server

    async def _handle(self, method: str, ctx: Context, params: BaseModel | None) -> dict[str, Any]:
        given = {} if params is None else params.model_dump(mode="json", by_alias=True, exclude_none=True)
        result = self._answer(ctx, method, given)
        return {**result, "resultType": "complete"} if _is_modern(ctx) else result

    def _answer(self, ctx: Context, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if (kind := _LISTS.get(method)) is not None:
            return {kind.key: list(getattr(self.recording.view, kind.word).values()), **_not_for_long(ctx)}
        match method:
            case "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel":
                return {}
            case _:
                return self._recorded(ctx, method, params)

    def _recorded(self, ctx: Context, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "resources/read" and (contents := self.recording.contents.get(params["uri"])) is not None:
            return {"contents": contents, **_not_for_long(ctx)}
        try:
            answer = self.recording.answer(method, params)
        except NothingRecorded as error:
            match method:
                case "tools/call":  # A result, so that the model sees it.
                    return {"content": [{"type": "text", "text": str(error)}], "isError": True}
                case "completion/complete":
                    return {"completion": {"values": []}}
                case "resources/read":
                    code = _INVALID_PARAMS if _is_modern(ctx) else _NOT_FOUND_LEGACY
                    raise MCPError(code, str(error), {"uri": params["uri"]}) from None
                case _:
                    raise MCPError(_INVALID_PARAMS, str(error)) from None
        if isinstance(answer, types.ErrorData):
            raise MCPError(answer.code, answer.message, answer.data)
        return {key: value for key, value in answer.items() if key not in ("_meta", "resultType")}


class _MockServer(Server[Any]):
    """A server with the recorded capabilities."""

    def __init__(self, recorded: types.ServerCapabilities, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._recorded = recorded

    def get_capabilities(self, *args: Any, **kwargs: Any) -> types.ServerCapabilities:
        return self._recorded


def _capabilities(recorded: dict[str, Any]) -> types.ServerCapabilities:
    try:
        return types.ServerCapabilities.model_validate(recorded)
    except ValidationError:
        known = ("tools", "resources", "prompts", "logging", "completions")
        return types.ServerCapabilities.model_validate({key: {} for key in known if key in recorded})


def _is_modern(ctx: Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def _not_for_long(ctx: Context) -> dict[str, Any]:
    """Returns the caching hints that the modern era requires: the answer may change at any time."""
    return {"ttlMs": 0, "cacheScope": "private"} if _is_modern(ctx) else {}


async def serve_stdio(records: Iterable[Record], *, server: str | None = None) -> None:
    """Serves a recorded session on standard input and output. Raises `LookupError` if it has no such server."""
    from tidings.server import stdio  # noqa: PLC0415 - needed only here

    await stdio.serve_stdio(Mock(Recording(records, server)).server, partial(asyncio.sleep, 0))


def asgi(records: Iterable[Record], *, server: str | None = None, host: str = "127.0.0.1") -> Any:
    """Returns an ASGI app that serves a recorded session. Raises `LookupError` if it has no such server."""
    return Mock(Recording(records, server)).server.streamable_http_app(host=host)
