"""The older HTTP transport: one stream of events for everything that arrives, and a POST for each message.

The SDK's own accepts no event above 1 MiB, and lets a sender wait forever if its POST fails. Here the caller sets the
limit. A POST that is refused fails that message alone; one that cannot be sent ends the transport.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from functools import partial
from urllib.parse import urljoin

import anyio
import httpx2
import mcp_types as types
from anyio.abc import TaskStatus
from mcp.shared.message import SessionMessage

from tidings.client import sdk_seam
from tidings.errors import ConnectFailed, MalformedMessage, MessageTooLarge

_Read = sdk_seam.ContextSendStream[SessionMessage | Exception]
_Written = sdk_seam.ContextReceiveStream[SessionMessage]


@asynccontextmanager
async def sse_streams(
    url: str, client: httpx2.AsyncClient, max_message: int
) -> AsyncGenerator[sdk_seam.TransportStreams]:
    """Connects to the stream of events at `url`, and yields the streams for the SDK."""
    async with sdk_seam.sse_within_origin(client, url, max_event_size=max_message) as source:
        source.response.raise_for_status()
        read_writer, read = sdk_seam.create_context_streams[SessionMessage | Exception](0)
        write, written = sdk_seam.create_context_streams[SessionMessage](0)
        async with read_writer, read, write, written, anyio.create_task_group() as tasks:
            endpoint: str = await tasks.start(_receive, source, url, read_writer)
            tasks.start_soon(_send, client, endpoint, written, read_writer)
            try:
                yield read, write
            finally:
                tasks.cancel_scope.cancel()


async def _receive(source: httpx2.EventSource, url: str, read: _Read, *, task_status: TaskStatus[str]) -> None:
    """Passes on each message. Has started when the server has named the address for messages."""
    endpoint: str | None = None
    async with read:
        try:
            async for event in source:
                if event.event == "endpoint" and endpoint is None:
                    endpoint = _same_origin(url, event.data)
                    task_status.started(endpoint)
                elif event.event == "message" and event.data and endpoint is not None:
                    await read.send(_parsed(event.data))
        except httpx2.SSEError as error:
            if endpoint is None:
                raise
            await read.send(MessageTooLarge(f"{error} Raise ClientConfig.max_message, or ask for less."))
        except httpx2.HTTPError:
            if endpoint is None:
                raise
            # The `HttpHealth` has it. For the session, the stream ends.
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # The session is over.
    if endpoint is None:
        text = "The server ended its stream of events before it named the address for messages."
        cure = "Is it an MCP server with the SSE transport, and is this the address of its stream?"
        raise ConnectFailed(f"{text} {cure}")


def _same_origin(url: str, data: str) -> str:
    """Returns the address for messages. On another host, credentials would leak, so it is refused."""
    endpoint = urljoin(url, data)
    here, there = httpx2.URL(url), httpx2.URL(endpoint)
    if (here.scheme, here.host, here.port) != (there.scheme, there.host, there.port):
        text = f"The server wants its messages sent to another host, {there.host}, which is refused."
        raise MalformedMessage(f"{text} This is a fault of the server, or of a proxy before it.")
    return endpoint


def _parsed(data: str) -> SessionMessage | Exception:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(data, by_name=False))
    except ValueError as error:
        return error


async def _send(client: httpx2.AsyncClient, endpoint: str, written: _Written, read: _Read) -> None:
    """Posts each message. Requests and answers go at the same time; a request precedes what cancels it."""
    under_way: dict[types.RequestId, anyio.Event] = {}
    post = partial(_post, client, endpoint, read)

    async def request(message: SessionMessage, number: types.RequestId, taken: anyio.Event) -> None:
        await post(message)
        taken.set()
        if under_way.get(number) is taken:
            del under_way[number]

    async def cancellation(message: SessionMessage, taken: anyio.Event) -> None:
        await taken.wait()
        await post(message)

    async with written, anyio.create_task_group() as posts:
        async for message in written:
            # The sender's context variables hold for its message, too.
            context = written.last_context or copy_context()
            match message.message:
                case types.JSONRPCRequest(id=number, method=method) if method != "initialize":
                    under_way[number] = taken = anyio.Event()
                    context.run(posts.start_soon, request, message, number, taken)
                case types.JSONRPCNotification(method="notifications/cancelled", params={"requestId": number}) if (
                    taken := under_way.get(number)
                ):
                    context.run(posts.start_soon, cancellation, message, taken)
                case types.JSONRPCResponse() | types.JSONRPCError():
                    context.run(posts.start_soon, post, message)
                case _:
                    async with anyio.create_task_group() as one:
                        context.run(one.start_soon, post, message)


async def _post(client: httpx2.AsyncClient, endpoint: str, read: _Read, message: SessionMessage) -> None:
    body = message.message.model_dump_json(by_alias=True, exclude_unset=True)
    response = await sdk_seam.request_within_origin(
        client, "POST", endpoint, content=body, headers={"content-type": "application/json"}
    )
    if response.is_success or not isinstance(message.message, types.JSONRPCRequest):
        return
    gone = response.status_code == 404
    error = types.ErrorData(
        code=types.INVALID_REQUEST if gone else types.INTERNAL_ERROR,
        message="Session terminated" if gone else f"Server returned an error response ({response.status_code})",
    )
    refusal = types.JSONRPCError(jsonrpc="2.0", id=message.message.id, error=error)
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # The session is over.
        await read.send(SessionMessage(refusal))
