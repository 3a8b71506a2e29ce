"""An inspector that really runs, on a port of its own, and a client that has entered it as the page does."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2

from tidings import LiveServer
from tidings.inspector.http.gate import Key
from tidings.inspector.http.serve import ServePlan, Serving
from tidings.inspector.server import ConnectionSpec, InspectedServer
from tidings.inspector.session import Session

OURS = {"X-Tidings": "1"}
PATIENCE = 30


@dataclass
class Page:
    """A page that is open."""

    base: str
    key: Key
    serving: Serving
    http: httpx2.AsyncClient

    @property
    def session(self) -> Session:
        running = self.serving.inspector.running
        assert running is not None
        return running.session

    async def get(self, path: str, **query: Any) -> Any:
        response = await self.http.get(path, params=query)
        assert response.status_code == 200, response.text
        return response.json()

    async def post(self, path: str, body: Any = None, status: int | None = None) -> Any:
        return await self.send("POST", path, body, status)

    async def send(self, method: str, path: str, body: Any = None, status: int | None = None) -> Any:
        response = await self.http.request(method, path, json={} if body is None else body)
        assert response.status_code in ((200, 204) if status is None else (status,)), response.text
        return response.json() if response.content else None

    async def add(self, server: LiveServer[Any], name: str = "demo", era: str = "auto") -> InspectedServer:
        added = await self.session.add(ConnectionSpec(name, server, era=era))
        await self.until(lambda: added.view.state == "connected" and bool(added.view.tools))
        return added

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait until the session says so."""
        news = asyncio.Event()
        unlisten = self.session.listen(lambda _: news.set())
        try:
            with anyio.fail_after(PATIENCE):
                while not happened():
                    await news.wait()
                    news.clear()
        finally:
            unlisten()

    @asynccontextmanager
    async def stream(self, after: int | str) -> AsyncGenerator[AsyncIterator[tuple[str, dict[str, Any]]]]:
        """Events as they come: their name, and what they say."""
        async with self.http.stream("GET", "/api/stream", params={"after": after}) as response:
            assert response.status_code == 200
            yield _events(response)


async def _events(response: httpx2.Response) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    name = ""
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield name, json.loads(line[6:])


@asynccontextmanager
async def opened(plan: ServePlan | None = None, patience: float = 60.0) -> AsyncGenerator[Page]:
    """An inspector that runs until this is left."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    key = Key(port)
    serving = Serving(listening, key, plan or ServePlan(), patience=patience)
    running = asyncio.create_task(serving.run(signals=False))
    base = f"http://127.0.0.1:{port}"
    try:
        async with httpx2.AsyncClient(base_url=base, headers=OURS, timeout=PATIENCE, trust_env=False) as http:
            page = Page(base, key, serving, http)
            entered = await page.post("/api/enter", {"token": key.token})
            http.headers["X-Tidings"] = entered["key"]
            with anyio.fail_after(PATIENCE):
                while not (hello := await page.get("/api/hello"))["ready"]:
                    assert hello["error"] is None
                    await anyio.sleep(0.01)  # What is imported in a thread tells nobody.
            yield page
    finally:
        serving.stop()
        with anyio.fail_after(PATIENCE):
            await running


def plan_in(folder: Path) -> ServePlan:
    """A plan that keeps everything in a folder."""
    return ServePlan(catalog=folder / "servers.json", journal=folder / "sessions.db", saved=folder / "saved.json")


async def finished(page: Page, server: str, known: str) -> Any:
    """A request, once it is over."""
    view = page.session.servers[server].view
    await page.until(lambda: view.requests[known].over)
    return await page.get(f"/api/servers/{server}/requests/{known}")
