"""What the demo shows: the notes, the site, the servers of both, and the session that is connected to them."""

import asyncio
import socket
import time
from collections.abc import Callable
from datetime import date
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidings.demo.kept import Kept
from tidings.demo.sample import OPEN_TASKS, ORDERS, PLAN, Sample, note_uri, search_uri
from tidings.demo.seeing import Source
from tidings.demo.site import Site
from tidings.demo.steps import QUESTION
from tidings.inspector.reading import as_dict, as_list

if TYPE_CHECKING:
    from tidings.inspector.inspected import InspectedServer
    from tidings.inspector.session import Session

PLAN_URI: Final = note_uri(PLAN)
_START_SECONDS: Final = 60.0
"""For the servers to be there, on however busy a machine."""
_ORDER_SECONDS: Final = 12.0
_MOST_ORDERS: Final = 1_000
_WATCHING: Final = (
    *("--allow-private", "127.0.0.1", "--robots", "ignore", "--workers", "1"),
    *("--watch-min", "0.5", "--watch-max", "1", "--requests-per-minute", "100000"),
)
"""The site is on this machine, and looked at more often than is polite elsewhere."""


class Failed(Exception):
    """The demo cannot go on. Says why."""


class Stage:
    """All of it, in `folder`.

    Args:
        folder: Where everything is written.
    """

    def __init__(self, folder: Path) -> None:
        self.away: Callable[[float, str], object] = lambda _since, _written: None
        """Called when the vault's server has ended: since when, and what was written into the plan after that."""
        self.served: Callable[[float, int], object] = lambda _at, _pid: None
        """Called when it listens: since when, and as which process."""
        self.sample = Sample(folder / "Bakery", date.today())  # noqa: DTZ011 - the day that the user's clock has
        self.site = Site()
        ports = _free_ports(2)
        self.urls = {name: f"http://127.0.0.1:{port}/mcp" for name, port in zip(("vault", "web"), ports, strict=True)}
        self._killed_at: float | None = None
        self._connected = asyncio.Event()
        vault = ["vault", str(self.sample.folder), "--http", f"127.0.0.1:{ports[0]}", "--cache", str(folder / "index")]
        self.vault = Kept("vault", vault, ended=self._ended, serves=lambda pid: self.served(time.time(), pid))
        self.web = Kept("web", ["web", "--http", f"127.0.0.1:{ports[1]}", *_WATCHING])

    async def connect(self, session: "Session", opened: Callable[[str, Source], object]) -> None:
        """Connect to each server once it listens, and subscribe to a few resources.

        Args:
            session: Both servers are in it.
            opened: Called for each, with what changes there.

        Raises:
            Failed: They are not there in time, or cannot be used.
        """
        try:
            async with asyncio.timeout(_START_SECONDS):
                await asyncio.gather(self._connect_vault(session, opened), self._connect_web(session, opened))
        except TimeoutError:
            raise Failed(f"The servers were not there within {_START_SECONDS:.0f} s.") from None

    async def _connect_vault(self, session: "Session", opened: Callable[[str, Source], object]) -> None:
        server = await _connected(session, self.vault)
        await _subscribe(session, server, PLAN_URI, note_uri(ORDERS), search_uri(OPEN_TASKS), "vault://daily/today")
        opened("vault", Source(PLAN_URI, "file saved", self.sample.plan_saved_at))
        self._connected.set()

    async def _connect_web(self, session: "Session", opened: Callable[[str, Source], object]) -> None:
        server = await _connected(session, self.web)
        fetched = await server.wait(server.call("fetch", {"urls": [self.site.page]}))
        result: Any = fetched.result
        pages = as_list(as_dict(as_dict(result).get("structuredContent")).get("pages"))
        if not pages:
            reason = result if fetched.error is None else fetched.error.message
            raise Failed(f"The web server could not fetch {self.site.page}: {reason}")
        page = as_dict(pages[0])
        diff_uri = str(page.get("diff_uri"))
        await _subscribe(session, server, str(page.get("page_uri")), diff_uri)
        opened("web", Source(diff_uri, "page changed", lambda: self.site.changed_at))

    def actions(self, session: "Session") -> dict[str, Callable[[], object]]:
        """What does each step of the tour."""
        return {
            "edit": self.sample.edit_plan,
            "ask": lambda: session.servers["vault"].call("search", {"query": QUESTION}),
            "page": self.site.change,
            "kill": self._kill,
        }

    def _kill(self) -> None:
        self._killed_at = time.time()
        self.vault.kill()

    def _ended(self) -> None:
        since, self._killed_at = self._killed_at or time.time(), None
        self.away(since, self.sample.edit_while_away())

    async def live(self) -> None:
        """Something happens in the vault, even if nobody does anything."""
        await self._connected.wait()
        for line in islice(self.sample.orders(), _MOST_ORDERS):
            await asyncio.to_thread(self.sample.take_order, line)
            await asyncio.sleep(_ORDER_SECONDS)


async def _connected(session: "Session", kept: Kept) -> "InspectedServer":
    await kept.serving()
    server = session.servers[kept.name]
    await server.connect()
    return server


async def _subscribe(session: "Session", server: "InspectedServer", *uris: str) -> None:
    """Subscribe to these, and wait until each was read once: what comes then is a change."""
    read = asyncio.Event()
    unlisten = session.listen(lambda _: all(uri in server.view.contents for uri in uris) and read.set())
    try:
        for uri in uris:
            await server.subscribe(uri)
        await read.wait()
    finally:
        unlisten()


def _free_ports(count: int) -> list[int]:
    """Ports that nobody has, known before the servers have them: they come back at the same address."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
