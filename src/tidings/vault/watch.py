"""The file watcher: what may have changed in the folders of a vault, as an async iterator.

On Linux it watches only the folders that are served, elsewhere everything, by watchfiles.

`watch(vault)` yields three kinds of events. It begins with `LookAround`: nothing is known of earlier changes. Then
`Changed` names what the system saw; changes in quick succession are merged. `LookAround` comes again where the system
may have missed something: after a very large burst, at long intervals in any case, and at short ones where folders
cannot be watched. A vault whose folder disappears is `WentAway`, until `LookAround` when it comes back. Events are
hints: the consumer looks at the disk.
"""

import ctypes
import errno
import logging
import os
import select
import struct
import sys
import threading
from asyncio import Queue, get_running_loop
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal

import anyio
from watchfiles._rust_notify import RustNotify

from tidings._kit.files import network_disk
from tidings.vault.files.paths import Vault

logger = logging.getLogger(__name__)

_ON_LINUX: Final = sys.platform == "linux"
_SETTINGS: Final = frozenset({"app.json", "daily-notes.json", "plugins/periodic-notes/data.json"})
_HEAD: Final = struct.Struct("iIII")  # Watch, mask, cookie, length of the name.
_CHANGES: Final = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200  # modify, attrib, close_write, moved, create, delete
_GONE, _COMES, _IS_FOLDER = 0x40 | 0x200, 0x80 | 0x100, 0x40000000
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_HOW: Final = 0x01000000 | 0x02000000 | 0x04000000  # Folders only, not through links, nothing of deleted files.
_UNREADABLE: Final = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP)
_BUFFER: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Changed:
    """These files and folders were created, deleted or changed."""

    paths: frozenset[Path]


@dataclass(frozen=True, slots=True)
class LookAround:
    """Anything may have changed."""

    by: Literal["events", "polling"]  # The way further changes are noticed.
    note: str | None = None  # The reason for polling, in words for the user.


@dataclass(frozen=True, slots=True)
class WentAway:
    """The folder is missing. Its last known content may be out of date."""

    note: str


Happening = Changed | LookAround | WentAway
_Seen = list[Path] | Exception  # What the watching thread tells.


@dataclass(frozen=True, slots=True)
class WatchPace:
    """The intervals of the watcher, in seconds, and the size of a burst."""

    step: float = 0.01  # A batch ends after this time without changes.
    most: float = 0.05  # A batch ends after this time in any case.
    tick: float = 2  # The interval of checks that the folders still exist.
    audit: float = 300  # The interval of full scans while changes are seen as they happen.
    poll: float = 2  # The shortest interval of full scans where changes are not seen.
    burst: int = 2000  # After this many changes at once, the system may have lost some: everything is scanned.


def is_settings(path: Path) -> bool:
    """Returns whether this is a settings file of the app on which resources depend."""
    return path.as_posix().rpartition("/.obsidian/")[2] in _SETTINGS


async def watch(vault: Vault, pace: WatchPace = WatchPace()) -> AsyncGenerator[Happening]:  # noqa: B008 - a frozen value
    """Yields the events in the folders of `vault`, without end."""
    away = False
    while True:
        if missing := next((mount.root for mount in vault.mounts if mount.identity() is None), None):
            if not away:
                yield WentAway(f"The vault's folder {str(missing)!r} is missing; it is used again when it comes back.")
            away = True
            await anyio.sleep(min(1, pace.tick))
            continue
        away = False
        remote = next((kind for mount in vault.mounts if (kind := network_disk(mount.root))), None)
        events = _poll(vault, pace, f"it is on a network disk ({remote})") if remote else _listen(vault, pace)
        async with aclosing(events):
            async for event in events:
                yield event


async def _listen(vault: Vault, pace: WatchPace) -> AsyncGenerator[Happening]:
    """Yields what the system sees in the vaults, until one of them is another folder."""
    identities = [mount.identity() for mount in vault.mounts]
    loop = get_running_loop()
    seen: Queue[_Seen] = Queue()
    stop = threading.Event()
    stopped, stopping = os.pipe()
    thread = threading.Thread(
        target=_watch_in_thread,
        args=(vault, pace, partial(loop.call_soon_threadsafe, seen.put_nowait), stop, stopped),
        name="tidings-vault-watch",
        daemon=True,
    )
    thread.start()
    try:
        begun = await seen.get()
        if isinstance(begun, Exception):
            async for event in _poll(vault, pace, str(begun)):
                yield event
            return
        yield LookAround("events")
        audited = loop.time()
        while True:
            batches: list[_Seen] = []
            with anyio.move_on_after(pace.tick):
                batches.append(await seen.get())
            while not seen.empty():
                batches.append(seen.get_nowait())
            if [mount.identity() for mount in vault.mounts] != identities:
                return
            if any(isinstance(batch, Exception) for batch in batches):
                return
            paths = frozenset(path for batch in batches if isinstance(batch, list) for path in batch)
            lost = len(paths) >= pace.burst
            # A full scan follows, which does not look at settings.
            if paths := frozenset(filter(is_settings, paths)) if lost else paths:
                yield Changed(paths)
            if lost or loop.time() - audited > pace.audit:
                yield LookAround("events")
                audited = loop.time()
    finally:
        stop.set()
        os.close(stopping)  # Wakes the thread.
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(thread.join, 2)


async def _poll(vault: Vault, pace: WatchPace, reason: str) -> AsyncGenerator[Happening]:
    """Yields `LookAround` at intervals, until one of the vaults is another folder."""
    note = f"The vault is scanned for changes every {pace.poll:g} s or more, because it cannot be watched: {reason}"
    logger.warning("%s", note)
    identities = [mount.identity() for mount in vault.mounts]
    loop = get_running_loop()
    while [mount.identity() for mount in vault.mounts] == identities:
        began = loop.time()
        yield LookAround("polling", note)
        await anyio.sleep(max(pace.poll, 20 * (loop.time() - began)))


def _watch_in_thread(
    vault: Vault, pace: WatchPace, tell: Callable[[_Seen], object], stop: threading.Event, stopped: int
) -> None:
    """Waits for the system, in a thread of its own: the start takes a while in a vault of many folders.

    Tells an empty batch when it has begun, then what it sees, and the error that ends it.
    """
    roots = [mount.root for mount in vault.mounts]

    def matters(text: str) -> bool:
        return vault.relative(text) is not None or (path := Path(text)) in roots or is_settings(path)

    with suppress(RuntimeError):  # The loop is closed.
        try:
            with closing(FolderWatch(vault, _SETTINGS, stopped) if _ON_LINUX else _EveryFolder(roots, stop)) as folders:
                tell([])
                while not stop.is_set():
                    # A replaced file has several events. Thousands of texts are compared fast.
                    if paths := list(map(Path, filter(matters, folders.wait(pace.most, pace.step, pace.tick)))):
                        tell(paths)
        except (OSError, RuntimeError, ValueError) as error:
            # Usually the system's limit of watched folders; or a name that is not text.
            tell(error)
        finally:
            os.close(stopped)


class FolderWatch:
    """Linux's inotify for the folders of `vault`, one watch each, and for the files `settings` of the app.

    Hidden and excluded folders cost nothing, and symbolic links are not followed. A folder that comes is watched before
    it is reported, so that whoever then looks at it misses nothing. `wait` returns when `stop` can be read. Raises
    `OSError` if the system's limits do not allow it.
    """

    def __init__(self, vault: Vault, settings: Iterable[str], stop: int) -> None:
        self._vault = vault
        self._settings: dict[str, set[str]] = {}
        for mount, name in product(vault.mounts, settings):
            place = os.path.join(mount.root, ".obsidian", name)  # noqa: PTH118 - texts, as below
            self._settings.setdefault(os.path.dirname(place), set()).add(place)  # noqa: PTH120
        self._libc: Any = ctypes.CDLL(None, use_errno=True)
        self._paths: dict[int, str] = {}
        self._file = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._poll = select.poll()
        self._poll.register(self._file, select.POLLIN)
        self._poll.register(stop, select.POLLIN)
        try:
            for mount in vault.mounts:
                self._add(str(mount.root))
            for folder in self._settings:
                self._add_one(folder)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._file)

    def wait(self, most: float, step: float, tick: float) -> set[str]:
        """Returns what changed: after a change, until nothing follows for `step` s, or for `most` s in all."""
        seen: set[str] = set()
        left, pause = most, tick
        while self._poll.poll(pause * 1000) and left > 0:
            if not self._read(seen):
                break  # To be stopped.
            pause = min(step, left)
            left -= step
        return seen

    def _read(self, seen: set[str]) -> bool:
        try:
            data = os.read(self._file, _BUFFER)
        except BlockingIOError:
            return False
        at = 0
        while at < len(data):
            watch, mask, _, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size + length
            if mask & _OVERFLOW:
                raise OSError("the system has lost some changes")
            if mask & _IGNORED:
                self._paths.pop(watch, None)
            if (folder := self._paths.get(watch)) is None:
                continue
            name = os.fsdecode(data[at - length : at].rstrip(b"\0"))
            path = os.path.join(folder, name) if name else folder  # noqa: PTH118 - faster
            seen.add(path)
            if mask & _IS_FOLDER and mask & _GONE:
                self._remove(path)
            if mask & _IS_FOLDER and mask & _COMES:
                if self._vault.relative(path) is not None:
                    self._add(path)
                elif path in self._settings:
                    self._add_one(path)
                    seen |= self._settings[path]
        return True

    def _add(self, path: str) -> None:
        folders = [path]
        while folders:
            folder = folders.pop()
            if not self._add_one(folder):
                continue
            with suppress(OSError), os.scandir(folder) as entries:
                inside = [each.path for each in entries if each.is_dir(follow_symlinks=False)]
                folders += [each for each in inside if self._vault.relative(each) is not None]

    def _add_one(self, folder: str) -> bool:
        watch = self._libc.inotify_add_watch(self._file, os.fsencode(folder), _CHANGES | _HOW)
        if watch < 0 and ctypes.get_errno() in _UNREADABLE:
            return False
        self._paths[self._checked(watch)] = folder
        return True

    def _remove(self, path: str) -> None:
        """Forgets a folder that was moved away, or deleted, with all in it."""
        inside = os.path.join(path, "")  # noqa: PTH118
        for watch in [watch for watch, each in self._paths.items() if each == path or each.startswith(inside)]:
            del self._paths[watch]
            self._libc.inotify_rm_watch(self._file, watch)

    def _checked(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            limit = "the system allows no more watched folders (fs.inotify.max_user_watches)"
            raise OSError(number, limit if number in (errno.ENOSPC, errno.EMFILE) else os.strerror(number))
        return result


class _EveryFolder:
    """Watches folders with everything below them. The seam of watchfiles."""

    def __init__(self, roots: Sequence[Path], stop: threading.Event) -> None:
        self._notify = RustNotify([str(root) for root in roots], False, False, 0, True, True)
        self._stop = stop

    def close(self) -> None:
        self._notify.close()

    def wait(self, most: float, step: float, tick: float) -> set[str]:
        seen = self._notify.watch(round(most * 1000), round(step * 1000), round(tick * 1000), self._stop)
        return set() if isinstance(seen, str) else {text for _, text in seen}
