"""A receiver of webhooks, written from the text of the draft alone: it uses nothing of Tidings."""

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
Answering = Callable[[str, dict[str, Any]], Any]


class Receiver:
    """What was posted, and what is answered: `answering(path, body)` may say a status, or do anything else."""

    def __init__(self) -> None:
        self.port = 0
        self.peer = 0
        """The port from which the last event came."""
        self.posts: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.challenges: list[dict[str, str]] = []
        self.refused: list[str] = []
        self.secret = SECRET
        self.answering: Answering = lambda path, body: 200
        self._more = asyncio.Event()
        self._open: set[asyncio.StreamWriter] = set()

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def orders(self, path: str = "/hook") -> list[str]:
        """The orders that came first, in the order of their first coming: a repetition has a known id."""
        first = {headers["webhook-id"]: body for each, headers, body in self.posts if each == path and "data" in body}
        return [body["data"]["order"] for body in first.values()]

    async def has(self, condition: Callable[[], object], within: float = 20) -> None:
        with anyio.fail_after(within):
            while not condition():
                self._more.clear()
                with anyio.move_on_after(0.2):
                    await self._more.wait()

    def _complaint(self, headers: dict[str, str], body: bytes) -> str:
        key = base64.b64decode(self.secret.removeprefix("whsec_"))
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        wanted = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        if wanted not in headers["webhook-signature"].split(" "):
            return "signature"
        if abs(time.time() - int(headers["webhook-timestamp"])) > 300:
            return "timestamp"
        if headers["content-type"] != "application/json" or len(body) > 262_144:
            return "body"
        return "" if headers["x-mcp-subscription-id"].startswith("sub_") else "subscription"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().strip().split("\r\n")
                headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
                raw = await reader.readexactly(int(headers["content-length"]))
                path, body = first.split(" ")[1], json.loads(raw)
                if complaint := self._complaint(headers, raw):
                    self.refused.append(complaint)
                    status: Any = 401
                elif body.get("type") == "verification":
                    self.challenges.append(headers)
                    status = self.answering(path, body)
                    if status == 200:
                        status = json.dumps({"challenge": body["challenge"]})
                else:
                    status = self.answering(path, body)
                    if asyncio.iscoroutine(status):
                        status = await status
                    self.posts.append((path, headers, body))
                    self.peer = writer.get_extra_info("peername")[1]
                self._more.set()
                if isinstance(status, bytes):  # Anything at all
                    writer.write(status)
                    await writer.drain()
                    break
                text = status if isinstance(status, str) else ""
                code = 200 if isinstance(status, str) else status
                writer.write(f"HTTP/1.1 {code} X\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self._open.discard(writer)

    async def hang_up(self) -> None:
        """Ends every connection."""
        for writer in tuple(self._open):
            writer.transport.abort()
        while self._open:  # noqa: ASYNC110 - nobody says so
            await asyncio.sleep(0.005)


@asynccontextmanager
async def receiving(tls: ssl.SSLContext | None = None) -> AsyncGenerator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver._serve, "127.0.0.1", 0, ssl=tls)  # pyright: ignore[reportPrivateUsage]
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        await receiver.hang_up()
