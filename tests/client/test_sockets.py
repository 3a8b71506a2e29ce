"""What the operating system is told about a connection over HTTP: to notice silence, and to bear with a busy server."""

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest

from tidings.client import Timeouts
from tidings.client.transports.http import watch_sockets

pytestmark = pytest.mark.anyio

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BODY = b"x" * 8 * 2**20
"""More than the buffers of both ends hold."""


@asynccontextmanager
async def a_server(handle: Callable[[socket.socket], Awaitable[None]]) -> AsyncGenerator[str]:
    """One that takes a single connection, with a small buffer."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)

        async def serve() -> None:
            taken, _ = await asyncio.get_running_loop().sock_accept(listening)
            with taken:
                taken.setblocking(False)
                await handle(taken)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"


async def read(taken: socket.socket, until: int) -> None:
    loop = asyncio.get_running_loop()
    while until > 0:
        until -= len(await loop.sock_recv(taken, 2**20))


def client(timeouts: Timeouts) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=watch_sockets(httpx2.AsyncHTTPTransport(), timeouts), timeout=60)


@pytest.mark.skipif(sys.platform != "linux", reason="each system has its own")
async def test_a_quiet_connection_is_probed_for_as_long_as_pings_take_and_what_is_sent_has_no_limit() -> None:
    async def answer(taken: socket.socket) -> None:
        await read(taken, 1)
        await asyncio.get_running_loop().sock_sendall(taken, ANSWER)

    timeouts = Timeouts(ping_interval=7, ping=10)
    async with a_server(answer) as url, client(timeouts) as web, web.stream("GET", url) as response:
        ours = response.extensions["network_stream"].get_extra_info("socket")
        options = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
        told = [ours.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in options]
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert told == [7, 4, 3, 0]


@pytest.mark.skipif(sys.platform != "linux", reason="only there was it cut off")
async def test_a_server_that_is_too_busy_to_read_a_large_request_is_not_cut_off() -> None:
    async def answer_late(taken: socket.socket) -> None:
        await anyio.sleep(6)  # The system's clock is no test's: with a limit of 4 s it would have broken off by now.
        await read(taken, len(BODY))
        await asyncio.get_running_loop().sock_sendall(taken, ANSWER)

    with anyio.fail_after(60):
        async with a_server(answer_late) as url, client(Timeouts(ping_interval=1, ping=1)) as web:
            assert (await web.post(url, content=BODY)).text == "ok"
