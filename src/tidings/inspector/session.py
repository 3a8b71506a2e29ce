"""`Session`: several servers, inspected together. The command line, the terminal app and the page are built on it.

    async with Session(journal=path) as session:        # or without a journal
        server = await session.add(entry)               # of the catalog; connects in the background
        session.servers[name], session.view             # `InspectedServer`s; the `SessionView`
        unlisten = session.listen(callback)             # callback(record): synchronous, each record once, in order
        session.since(seq)                              # the records since; None: too long ago, read the view again
        await session.remove(name)

Everything runs on one event loop. Everything that happens passes `record`: it numbers the record, folds it into the
view, gives it to the journal, and calls the listeners. A listener must be quick: to draw, it schedules a redraw.
"""

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from tidings._kit.bounded_json import as_size
from tidings._kit.process import signal_group
from tidings.inspector.kept_tasks import KeptTasks
from tidings.inspector.records import Record, SessionLimits
from tidings.inspector.server import ConnectionSpec, InspectedServer
from tidings.inspector.sessions.journal import Journal
from tidings.inspector.view.fold import fold_session
from tidings.inspector.view.rings import Ring
from tidings.inspector.view.view import Clock, SessionView

if TYPE_CHECKING:
    from tidings.inspector.catalog.entry import ServerEntry

logger = logging.getLogger(__name__)

Listener = Callable[[Record], object]
_GRACE: Final = 0.5  # Seconds for a command to end after its input was closed.


def stop_commands(pids: list[int], number: int) -> None:
    """Sends a signal to the process groups of commands. Commands that have ended are skipped."""
    for pid in pids:
        signal_group(pid, number)


class Session:
    """Servers that are inspected together. Use it with `async with`."""

    def __init__(
        self,
        *,
        journal: "Journal | str | Path | None" = None,
        limits: SessionLimits | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Clock = time.time,
    ) -> None:
        """Makes a session without servers.

        Args:
            journal: The file that stores the records, or a `Journal`; None stores nothing. Tasks that go on at servers
                are kept beside it.
            limits: How much is kept in memory.
            environ: The variables for `${NAME}` in entries: pass `os.environ`.
            clock: Returns the current time.
        """
        self.limits = limits or SessionLimits()
        self.clock = clock
        self.view = SessionView(self.limits, clock)  #: Everything that is known about all servers: read only.
        self.servers: dict[str, InspectedServer] = {}
        self.journal = Journal(journal) if isinstance(journal, str | Path) else journal
        self._tasks = KeptTasks(None if self.journal is None else self.journal.path.with_name("tasks.json"))
        self._environ = environ or {}
        self._open: set[str] = set()
        self._seq = 0
        self._recent: Ring[Record] = Ring(self.limits.records, self.limits.recent_bytes)
        self._listeners: list[Listener] = []

    async def __aenter__(self) -> Self:
        if self.journal is not None:
            await asyncio.to_thread(self.journal.open)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Disconnects from all servers, and stores the last records. The view stays.

        The input of a command is closed, and soon after it gets SIGTERM, so that quitting does not take long.
        """
        asking = asyncio.get_running_loop().call_later(_GRACE, stop_commands, self.pids, signal.SIGTERM)
        try:
            await asyncio.gather(*(server.aclose() for server in self.servers.values()), return_exceptions=True)
        finally:
            asking.cancel()
        await self._tasks.flush()
        if self.journal is not None:
            await asyncio.to_thread(self.journal.close)

    @property
    def pids(self) -> list[int]:
        """The process ids of running commands."""
        return [server.view.pid for server in self.servers.values() if server.view.pid is not None]

    # Servers.

    async def add(self, entry: "ServerEntry | ConnectionSpec", *, connect: bool = True) -> InspectedServer:
        """Adds a server, and connects to it in the background. Raises `ValueError` if its name is taken."""
        spec = entry if isinstance(entry, ConnectionSpec) else ConnectionSpec.of(entry, self._environ)
        if spec.name in self._open:
            raise ValueError(f"This session already has a server {spec.name!r}. Use another name.")
        self._open.add(spec.name)
        self.record(spec.name, "server", {"what": "added", "entry": spec.shown})
        server = self.servers[spec.name] = InspectedServer(
            spec, self.view.servers[spec.name], lambda kind, data: self.record(spec.name, kind, data), self._tasks
        )
        if connect:
            server.start()
        return server

    async def remove(self, name: str) -> None:
        """Disconnects from a server and removes it. Its records stay in the journal. Raises `KeyError` if unknown."""
        await self.servers.pop(name).aclose()
        self.record(name, "server", {"what": "removed"})
        self._open.discard(name)

    # Records.

    @property
    def seq(self) -> int:
        """The number of the last record."""
        return self._seq

    def record(self, server: str, kind: str, data: dict[str, Any]) -> Record | None:
        """Records something that happened. Returns None if the server was removed from this session."""
        if server not in self._open:
            return None
        self._seq += 1
        record = Record(self._seq, self.clock(), server, kind, data)
        fold_session(self.view, record)
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
        """Calls `listener` with each record from now on, until the returned function is called."""
        self._listeners = [*self._listeners, listener]  # A new list: the old one may be in use.

        def unlisten() -> None:
            self._listeners = [each for each in self._listeners if each is not listener]

        return unlisten

    def since(self, seq: int) -> list[Record] | None:
        """Returns the records after this number, in time proportional to their number; None if some are gone."""
        if seq > self._seq or seq < self._seq - len(self._recent):
            return None
        return self._recent.since(seq)
