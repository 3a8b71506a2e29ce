"""`Session`: several servers, watched at once. What the command line, the terminal app and the page are built on.

    async with Session(journal=path) as session:        # or without a journal
        server = await session.add(entry)               # of the catalog; connecting goes on in the background
        session.servers[name], session.view             # `InspectedServer`s; the `SessionView`
        unlisten = session.listen(callback)             # callback(record): synchronous, each record once, in order
        session.since(seq)                              # what a reader missed; None: too long ago, read the view anew
        await session.remove(name)

Everything runs on one event loop. `record` is the one way in: it numbers what happened, folds it into the view, gives
it to the journal, and tells the listeners. A listener must be quick: one that draws makes a note, and draws later.
"""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from tidings._kit.bounded_json import as_size
from tidings.inspector.client_link import ConnectionSpec
from tidings.inspector.records import Record, SessionLimits
from tidings.inspector.server import InspectedServer
from tidings.inspector.sessions.journal import Journal
from tidings.inspector.view.rings import Ring
from tidings.inspector.view.view import Clock, SessionView

if TYPE_CHECKING:
    from tidings.inspector.catalog.entry import ServerEntry

logger = logging.getLogger(__name__)

Listener = Callable[[Record], object]


_POLITE: Final = 0.5
"""Seconds for a command to end because its input was closed."""


def stop_commands(pids: list[int], number: int) -> None:
    """Send a signal to commands, and to what they started. Those that have ended are passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):  # Windows has no groups.
            os.killpg(pid, number)


class Session:
    """Servers that are watched together. Use it with `async with`."""

    def __init__(
        self,
        *,
        journal: "Journal | str | Path | None" = None,
        limits: SessionLimits | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Clock = time.time,
    ) -> None:
        """Watch servers.

        Args:
            journal: The file that keeps the records, or a `Journal`; None keeps nothing.
            limits: How much is kept in memory.
            environ: Where the `${NAME}` of entries are looked up: pass `os.environ`.
            clock: What time it is.
        """
        self.limits = limits or SessionLimits()
        self.clock = clock
        self.view = SessionView(self.limits, clock)
        """What is known about all servers: read only."""
        self.servers: dict[str, InspectedServer] = {}
        self.journal = Journal(journal) if isinstance(journal, str | Path) else journal
        self._environ = environ or {}
        self._open: set[str] = set()
        self._seq = 0
        self._recent: Ring[Record] = Ring(self.limits.records, self.limits.recent_bytes)
        self._listeners: list[Listener] = []

    async def __aenter__(self) -> Self:
        if self.journal is not None:
            await asyncio.to_thread(self.journal.open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Disconnect from all servers, and write down what is not written yet. The view stays as it is.

        The input of a command is closed, and soon after it is asked to end: whoever quits does not want to wait.
        """
        asking = asyncio.get_running_loop().call_later(_POLITE, stop_commands, self.pids, signal.SIGTERM)
        try:
            await asyncio.gather(*(server.aclose() for server in self.servers.values()), return_exceptions=True)
        finally:
            asking.cancel()
        if self.journal is not None:
            await asyncio.to_thread(self.journal.close)

    @property
    def pids(self) -> list[int]:
        """The processes of the commands that run."""
        return [server.view.pid for server in self.servers.values() if server.view.pid is not None]

    # Servers.

    async def add(self, entry: "ServerEntry | ConnectionSpec", *, connect: bool = True) -> InspectedServer:
        """Add a server, and connect to it in the background.

        Raises:
            ValueError: There is one of this name.
        """
        opening = entry if isinstance(entry, ConnectionSpec) else ConnectionSpec.of(entry, self._environ)
        if opening.name in self._open:
            raise ValueError(f"There is a server called {opening.name!r} in this session. Give this one another name.")
        self._open.add(opening.name)
        self.record(opening.name, "server", {"what": "added", "entry": opening.shown})
        server = self.servers[opening.name] = InspectedServer(
            opening,
            self.view.servers[opening.name],
            lambda kind, data: self.record(opening.name, kind, data),
            limits=self.limits,
            clock=self.clock,
        )
        if connect:
            server.start()
        return server

    async def remove(self, name: str) -> None:
        """Disconnect from a server, and forget it. Its records stay in the journal.

        Raises:
            KeyError: There is none of this name.
        """
        server = self.servers.pop(name)
        await server.aclose()
        self.record(name, "server", {"what": "removed"})
        self._open.discard(name)

    # Records.

    @property
    def seq(self) -> int:
        """The number of the last record."""
        return self._seq

    def record(self, server: str, kind: str, data: dict[str, Any]) -> Record | None:
        """Something happened. None if its server is not in this session any more."""
        if server not in self._open:
            return None
        self._seq += 1
        record = Record(self._seq, self.clock(), server, kind, data)
        self.view.apply(record)
        self._recent.append(record, record.seq, as_size(data.get("size" if "size" in data else "result_size")))
        missed = 0 if self.journal is None else self.journal.put(record)
        for listener in self._listeners:
            try:
                listener(record)
            except Exception:
                logger.exception("a listener failed on a record of kind %s", kind)
        if missed:  # There is room again.
            self.record(server, "missed", {"count": missed})
        return record

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each record from now on, until the function that is returned is called."""
        self._listeners = [*self._listeners, listener]  # A new list: one may be told at this moment.

        def unlisten() -> None:
            self._listeners = [each for each in self._listeners if each is not listener]

        return unlisten

    def since(self, seq: int) -> list[Record] | None:
        """The records after the one with this number. None if they are not all known any more, or never were.

        Takes as long as they are many.
        """
        if seq > self._seq or seq < self._seq - len(self._recent):
            return None
        return self._recent.since(seq)
