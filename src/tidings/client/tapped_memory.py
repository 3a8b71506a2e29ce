"""Connections without a wire, with a tap on them: a pair of streams, and a server object that is called directly."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context
from itertools import count
from types import TracebackType
from typing import Any, Self, cast

from mcp.client._transport import ReadStream, TransportStreams, WriteStream
from mcp.shared.dispatcher import Dispatcher, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from tidings.client.tapping import Teller


@asynccontextmanager
async def tapped_streams(
    transport: AbstractAsyncContextManager[TransportStreams], teller: Teller
) -> AsyncGenerator[TransportStreams]:
    """A transport with a tap on its two streams."""
    async with transport as (read, write):
        yield _TappedReader(read, teller), _TappedWriter(write, teller)


class _Wrapper:
    def __init__(self, inner: Any, teller: Teller) -> None:
        self._inner = inner
        self._teller = teller

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)

    def _told(self, item: SessionMessage | Exception, *, incoming: bool) -> None:
        if isinstance(item, SessionMessage):
            body = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
            self._teller.values(body, incoming=incoming)


class _TappedReader(_Wrapper, ReadStream[SessionMessage | Exception]):
    @property
    def last_context(self) -> Context | None:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        item = await self._inner.receive()
        self._told(item, incoming=True)
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        item = await self._inner.__anext__()
        self._told(item, incoming=True)
        return item


class _TappedWriter(_Wrapper, WriteStream[SessionMessage]):
    async def send(self, item: SessionMessage, /) -> None:
        self._told(item, incoming=False)
        await self._inner.send(item)


def tap_dispatcher(dispatcher: Dispatcher[Any], teller: Teller) -> None:
    """Tell of what passes between two objects of one process as if it were sent, with ids as it would have."""
    inner = cast("Any", dispatcher)
    ids = count(1)
    send, notify, run = inner.send_raw_request, inner.notify, inner.run

    async def tapped_send(method: str, params: Mapping[str, Any] | None, opts: Any = None) -> dict[str, Any]:
        options: dict[str, Any] = {**(opts or {})}
        request = options.setdefault("request_id", next(ids))
        sent = dict(params or {})
        if (progress := options.get("on_progress")) is not None:
            sent["_meta"] = {**(sent.get("_meta") or {}), "progressToken": request}
            options["on_progress"] = _tapped_progress(progress, request, teller)
        teller.values({"id": request, **_call(method, sent or None)}, incoming=False)
        return await _told_outcome(send(method, params, options), request, teller, incoming=True)

    async def tapped_notify(method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        teller.values(_call(method, params), incoming=False)
        await notify(method, params, opts)

    async def tapped_run(on_request: Any, on_notify: Any, intercept: Any = None, **options: Any) -> None:
        async def asked(context: Any, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
            request = context.request_id
            teller.values({"id": request, **_call(method, params)}, incoming=True)
            return await _told_outcome(on_request(context, method, params), request, teller, incoming=False)

        def hear(method: str, params: Mapping[str, Any] | None) -> bool:
            teller.values(_call(method, params), incoming=True)
            return intercept is not None and intercept(method, params)

        await run(asked, on_notify, hear, **options)

    inner.send_raw_request, inner.notify, inner.run = tapped_send, tapped_notify, tapped_run


def _call(method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"method": method} if params is None else {"method": method, "params": params}


def _tapped_progress(on_progress: ProgressFnT, token: Any, teller: Teller) -> ProgressFnT:
    async def made(progress: float, total: float | None, message: str | None) -> None:
        told = {"progressToken": token, "progress": progress, "total": total, "message": message}
        params = {name: value for name, value in told.items() if value is not None}
        teller.values(_call("notifications/progress", params), incoming=True)
        await on_progress(progress, total, message)

    return made


async def _told_outcome(outcome: Any, request: Any, teller: Teller, *, incoming: bool) -> dict[str, Any]:
    try:
        result: dict[str, Any] = await outcome
    except MCPError as error:
        said = error.error.model_dump(by_alias=True, mode="json", exclude_none=True)
        teller.values({"id": request, "error": said}, incoming=incoming)
        raise
    teller.values({"id": request, "result": result}, incoming=incoming)
    return result
