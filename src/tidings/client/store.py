"""The file that keeps what a client knows, so that it starts warm: cached content, subscriptions, and how far it heard.

What the client tells is noted in memory, the newest for each key, and written soon after in one transaction, by a
thread of its own: the event loop never waits for a disk. A process that is killed leaves an older state, and a whole
one. Trouble with the file is an error when the client starts, and a line in the log afterwards.

May import: `cache`, `invocations`, `errors`.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio

from tidings.client._store_batch import Batch, Place, Put
from tidings.client._store_file import File
from tidings.client.cache import Kind, place_of, read_uri
from tidings.client.invocations import Invocation

T = TypeVar("T")

_LONGEST_RETRY: Final = 60.0


@dataclass(frozen=True, slots=True)
class Saved:
    """What a client knew when its state was last written."""

    invocations: tuple[Invocation, ...] = ()
    """In the order in which they were put."""
    covered: frozenset[str] = frozenset()
    """The URIs all of whose content, read directly or by a template, was kept current up to `cursor`."""
    subscriptions: frozenset[str] = frozenset()
    cursor: str | None = None


class StateFile:
    """The state of a client, for one server and one principal, in the SQLite file at `path`.

    `identity` stands for both, so that what one principal may read is never shown to another; several may share a
    file, in one process or in many. If two processes have the same identity, the last to write wins, and its content
    counts as covered.

    What is noted is written `delay` seconds later, and at the end. If that fails, it is tried again after `retry`
    seconds, and then ever more rarely. `timeout` is for how many seconds another process may keep the file locked.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        identity: str,
        *,
        delay: float = 0.05,
        retry: float = 1.0,
        timeout: float = 5.0,
    ) -> None:
        # Absolute, so that a change of the working directory does not lead to another file.
        self._file = File(Path(path).absolute(), identity, timeout=timeout)
        self._delay = delay
        self._retry = self._pause = retry
        # One thread: what is asked of the file is done in the order of asking.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidings-state")
        self._subscriptions: frozenset[str] = frozenset()
        self._cursor: str | None = None
        self._entries: dict[Place, Put | None] = {}
        self._cleared = False
        self._unsaved = False
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[bool] | None = None
        self._closed = False

    async def load(self) -> Saved:
        """What is saved; nothing if there is no file yet, which is then created, for this user alone.

        Raises:
            StateUnusable: The file cannot be used. The message says why, and what to do.
        """
        found = await asyncio.shield(self._in_thread(self._file.load))
        self._subscriptions, self._cursor = found.subscriptions, found.cursor
        for place in found.unreadable:
            self._note(place, None)
        of_resources = [(read_uri(put.invocation), put.covered) for put in found.puts]
        uncovered = {uri for uri, covered in of_resources if not covered}
        return Saved(
            invocations=tuple(put.invocation for put in found.puts),
            covered=frozenset(uri for uri, _ in of_resources if uri is not None and uri not in uncovered),
            subscriptions=found.subscriptions,
            cursor=found.cursor,
        )

    def note_put(self, invocation: Invocation, covered: bool) -> None:
        """Save `invocation` in place of what its key had.

        `covered` says that a subscription to its URI was established before it was read, and still is.
        """
        self._note(place_of(invocation), Put(invocation, covered))

    def note_removed(self, kind: Kind, key: str) -> None:
        """Forget what was saved under `kind` and `key`."""
        self._note((kind, key), None)

    def note_subscriptions(self, subscriptions: Iterable[str]) -> None:
        """These are the subscriptions from now on."""
        self._subscriptions = frozenset(subscriptions)
        self._changed()

    def note_cursor(self, cursor: str | None) -> None:
        """So far the client has heard. What follows from it, removals above all, is to be noted first."""
        self._cursor = cursor
        self._changed()

    async def flush(self) -> None:
        """Write what was noted. If that fails it is logged, and tried again later."""
        while self._writing or (self._unsaved and not self._closed):
            if not await asyncio.shield(self._writing or self._write()):
                return

    async def clear(self) -> None:
        """Forget everything that was saved or noted. If that fails it is logged, and tried again later."""
        self._subscriptions, self._cursor = frozenset(), None
        self._entries, self._cleared = {}, True
        self._changed()
        await self.flush()

    async def aclose(self) -> None:
        """Write what was noted, and let go of the file. What is noted afterwards is lost."""
        if self._closed:
            return
        if self._unsaved or self._writing:
            self._write()
        self._closed = True
        closing = self._in_thread(self._file.close)
        self._thread.shutdown(wait=False)
        # Even when cancelled: whoever closes it may delete the file next.
        with anyio.CancelScope(shield=True):
            await asyncio.shield(closing)

    def _note(self, place: Place, put: Put | None) -> None:
        # The newest last: that is the order in which they are found again.
        self._entries.pop(place, None)
        self._entries[place] = put
        self._changed()

    def _changed(self) -> None:
        self._unsaved = True
        self._write_after(self._delay)

    def _write_after(self, seconds: float) -> None:
        if self._timer is None and self._writing is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._write)

    def _write(self) -> asyncio.Future[bool]:
        """Have everything that was noted written, as one."""
        if self._timer is not None:
            self._timer.cancel()
        batch = Batch(self._subscriptions, self._cursor, self._entries, self._cleared)
        self._entries, self._cleared, self._unsaved, self._timer = {}, False, False, None
        self._writing = writing = self._in_thread(self._file.write, batch)
        writing.add_done_callback(self._written)
        return writing

    def _written(self, writing: asyncio.Future[bool]) -> None:
        self._writing = None
        if writing.result():
            self._pause = self._retry
            if self._unsaved:
                self._write_after(self._delay)
        else:
            self._unsaved = True
            self._write_after(self._pause)
            # Each try makes texts of all that waits: no use in doing that every second for hours.
            self._pause = min(self._pause * 2, _LONGEST_RETRY)

    def _in_thread(self, work: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
