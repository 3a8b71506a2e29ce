"""A load balancer that is not sticky: each request goes to the next replica that can be reached."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from tests.server.serving import serving

_OF_THE_HOP = {b"connection", b"transfer-encoding", b"keep-alive", b"content-length"}


class Balancer:
    """The balancer as an ASGI app, between its clients and the replicas at `ports`."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._turn = 0
        self.asked: list[tuple[str, int]] = []  # The method of each request, and the replica that got it.
        self._http = httpx2.AsyncClient(timeout=None, limits=httpx2.Limits(max_keepalive_connections=0))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        passing = asyncio.ensure_future(self._pass_on(scope, body, send))
        leaving = asyncio.ensure_future(receive())  # Answered when the client is gone.
        await asyncio.wait([passing, leaving], return_when=asyncio.FIRST_COMPLETED)
        for task in (passing, leaving):
            task.cancel()
        await asyncio.wait([passing, leaving])
        if not passing.cancelled():
            passing.result()

    async def _live(self, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._http.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _pass_on(self, scope: Any, body: bytes, send: Any) -> None:
        for _ in self._ports:
            self._turn += 1
            replica = self._turn % len(self._ports)
            url = f"http://127.0.0.1:{self._ports[replica]}{scope['path']}"
            if scope["query_string"]:
                url += "?" + scope["query_string"].decode()
            request = self._http.build_request(scope["method"], url, headers=scope["headers"], content=body)
            try:
                response = await self._http.send(request, stream=True)
            except httpx2.ConnectError:
                continue
            self.asked.append((scope["method"], replica))
            await self._answer(response, send)
            return
        await send({"type": "http.response.start", "status": 502, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def _answer(self, response: httpx2.Response, send: Any) -> None:
        headers = [(name.lower(), value) for name, value in response.headers.raw if name.lower() not in _OF_THE_HOP]
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        try:
            async for chunk in response.aiter_raw():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except httpx2.TransportError:
            return  # The replica has died, and its client sees a broken answer, too.
        finally:
            await response.aclose()
        await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def balanced(ports: Sequence[int]) -> AsyncGenerator[tuple[Balancer, int]]:
    """A balancer in this process, and its port."""
    balancer = Balancer(ports)
    async with serving(balancer) as port:
        yield balancer, port
