"""A session for the tests: the real views, filled with records, and servers that note what is asked of them."""

from collections.abc import Callable
from typing import Any

from tidings.inspector.records import Record
from tidings.inspector.views import ServerView, SessionView

NOW = 1_794_751_400.0
"""What time it is in the tests."""


class Server:
    """Has a view, and notes what it is asked for."""

    def __init__(self, session: "Session", name: str) -> None:
        self._session = session
        self.name = name
        self.asked: list[tuple[Any, ...]] = []

    @property
    def view(self) -> ServerView:
        return self._session.view.servers[self.name]

    def _request(self, method: str, params: dict[str, Any]) -> str:
        self.asked.append((method, params))
        known = f"req-{len(self.asked)}"
        self._session.record(
            self.name, "request", id=known, method=method, params=params, status="in_progress",
            created_at=self._session.now, started_at=self._session.now, attempts=1,
        )
        return known

    def call(self, tool: str, arguments: Any, timeout: float | None = None) -> str:
        return self._request("tools/call", {"name": tool, "arguments": arguments})

    def read(self, uri: str) -> str:
        return self._request("resources/read", {"uri": uri})

    def get_prompt(self, name: str, arguments: Any) -> str:
        return self._request("prompts/get", {"name": name, "arguments": arguments})

    def request(self, method: str, params: dict[str, Any]) -> str:
        return self._request(method, params)

    def cancel(self, known: str) -> bool:
        self.asked.append(("cancel", known))
        self._session.record(self.name, "request", id=known, status="cancelled", completed_at=self._session.now)
        return True

    def answer(self, known: str, value: Any) -> None:
        self.asked.append(("answer", known, value))
        self._session.record(self.name, "answered", id=known, outcome="answered", answer=value)

    def refuse(self, known: str, reason: str = "refused") -> None:
        self.asked.append(("refuse", known, reason))
        self._session.record(self.name, "answered", id=known, outcome="refused", answer=reason)

    def decline(self, known: str) -> None:
        self.refuse(known, "declined")

    def dismiss(self, known: str) -> None:
        self.refuse(known, "dismissed")

    async def subscribe(self, uri: str) -> None:
        self.asked.append(("subscribe", uri))
        self._session.record(self.name, "subscriptions", uris=[*self.view.subscriptions, uri])

    async def unsubscribe(self, uri: str) -> None:
        self.asked.append(("unsubscribe", uri))
        self._session.record(self.name, "subscriptions", uris=[each for each in self.view.subscriptions if each != uri])

    async def connect(self) -> None:
        self.asked.append(("connect",))

    async def disconnect(self) -> None:
        self.asked.append(("disconnect",))

    async def reconnect(self) -> None:
        self.asked.append(("reconnect",))

    async def set_log_level(self, level: str) -> None:
        self.asked.append(("level", level))

    async def complete(self, *_: Any) -> list[str]:
        return ["Oslo", "Oslofjord"]


class Session:
    """Records are told to it by the test; everything else is as in the real one."""

    def __init__(self) -> None:
        self.now = NOW
        self.view = SessionView(clock=lambda: self.now)
        self.servers: dict[str, Server] = {}
        self.records: list[Record] = []
        self._listeners: list[Callable[[Record], Any]] = []

    def record(self, server: str, kind: str, /, at: float | None = None, **data: Any) -> Record:
        record = Record(len(self.records) + 1, self.now if at is None else at, server, kind, data)
        self.records.append(record)
        self.view.apply(record)
        if server not in self.servers:
            self.servers[server] = Server(self, server)
        for listener in list(self._listeners):
            listener(record)
        return record

    def listen(self, callback: Callable[[Record], Any]) -> Callable[[], None]:
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)

    async def add(self, entry: Any) -> Server:
        self.record(entry.name, "server", what="added", entry={"url": "http://127.0.0.1:1/mcp"})
        return self.servers[entry.name]
