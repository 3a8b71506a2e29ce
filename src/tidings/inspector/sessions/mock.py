"""The mock server: it answers as a recorded server did, over stdio (`serve_stdio`) or HTTP (`asgi`).

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
        requests: dict[str, dict[str, Any]] = {}
        for record in kept:
            if record.server != self.server or record.kind == "server":
                continue
            fold(self.view, record)
            if record.kind == "request":
                request = requests.setdefault(str(record.data.get("id")), {})
                request |= record.data
                self._request(request)
            elif record.kind == "content":
                self._content(record.data)

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

    def _content(self, data: dict[str, Any]) -> None:
        uri, contents = as_text(data.get("uri")), data.get("contents")
        if uri is not None and isinstance(contents, list):
            self.contents[uri] = as_list(contents)  # pyright: ignore[reportUnknownArgumentType]

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


def _key(params: dict[str, Any]) -> str:
    wanted = {key: params.get(key) for key in ("name", "uri", "ref", "argument") if params.get(key) is not None}
    return dumps(in_order({**wanted, "arguments": as_dict(params.get("arguments"))}))


class Mock:
    """Answers from a recording. `server` is a server of the SDK."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        info, capabilities = recording.view.server_info or {}, recording.view.capabilities or {}
        server = self.server = _MockServer(
            capabilities,
            as_text(info.get("name")) or recording.server,
            version=as_text(info.get("version")) or "",
            title=as_text(info.get("title")),
            instructions=recording.view.instructions,
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

    async def _handle(self, method: str, ctx: Context, params: BaseModel | None) -> dict[str, Any]:
        given = {} if params is None else params.model_dump(mode="json", by_alias=True, exclude_none=True)
        # The caching hints say that the answer may change at any time. The modern era requires them.
        hints = {"ttlMs": 0, "cacheScope": "private"} if _is_modern(ctx) else {}
        if (kind := _LISTS.get(method)) is not None:
            result = {kind.key: list(getattr(self.recording.view, kind.word).values()), **hints}
        elif method in ("resources/subscribe", "resources/unsubscribe", "logging/setLevel"):
            result = {}
        elif method == "resources/read" and (contents := self.recording.contents.get(given["uri"])) is not None:
            result = {"contents": contents, **hints}
        else:
            result = self._recorded(ctx, method, given)
        return {**result, "resultType": "complete"} if _is_modern(ctx) else result

    def _recorded(self, ctx: Context, method: str, params: dict[str, Any]) -> dict[str, Any]:
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
    def __init__(self, recorded: dict[str, Any], name: str, **options: Any) -> None:
        super().__init__(name, **options)
        try:
            self._recorded = types.ServerCapabilities.model_validate(recorded)
        except ValidationError:
            known = ("tools", "resources", "prompts", "logging", "completions")
            self._recorded = types.ServerCapabilities.model_validate({key: {} for key in known if key in recorded})

    def get_capabilities(self, *args: Any, **kwargs: Any) -> types.ServerCapabilities:
        return self._recorded


def _is_modern(ctx: Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


async def serve_stdio(records: Iterable[Record], *, server: str | None = None) -> None:
    """Serves a recorded session on standard input and output. Raises `LookupError` if it has no such server."""
    from tidings.server import stdio  # noqa: PLC0415 - needed only here

    await stdio.serve_stdio(Mock(Recording(records, server)).server, partial(asyncio.sleep, 0))


def asgi(records: Iterable[Record], *, server: str | None = None, host: str = "127.0.0.1") -> Any:
    """Returns an ASGI app that serves a recorded session. Raises `LookupError` if it has no such server."""
    return Mock(Recording(records, server)).server.streamable_http_app(host=host)
