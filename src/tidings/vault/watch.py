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
import struct
import sys
import threading
from asyncio import AbstractEventLoop, CancelledError, Event, get_running_loop, shield
from collections.abc import AsyncGenerator
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
_FAILURES: Final = (OSError, RuntimeError, ValueError)  # Usually the system's limit; or a name that is not text.


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
    roots = {mount.root for mount in vault.mounts}

    def matters(text: str) -> bool:
        return vault.relative(text) is not None or (path := Path(text)) in roots or is_settings(path)

    try:
        # In another thread: the start takes a while in a vault of many folders.
        folders = await anyio.to_thread.run_sync(FolderWatch if _ON_LINUX else _EveryFolder, vault, pace)
    except _FAILURES as error:
        async for event in _poll(vault, pace, str(error)):
            yield event
        return
    with closing(folders):
        yield LookAround("events")
        audited = (loop := get_running_loop()).time()
        while True:
            try:
                seen = await folders.wait()
            except _FAILURES:
                return
            if [mount.identity() for mount in vault.mounts] != identities:
                return
            # A replaced file has several events. Thousands of texts are compared fast.
            paths = frozenset(map(Path, filter(matters, seen)))
            lost = len(paths) >= pace.burst
            # A full scan follows, which does not look at settings.
            if paths := frozenset(filter(is_settings, paths)) if lost else paths:
                yield Changed(paths)
            if lost or loop.time() - audited > pace.audit:
                yield LookAround("events")
                audited = loop.time()


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


class FolderWatch:
    """Linux's inotify for the folders of `vault`, one watch each, and for the files `_SETTINGS` of the app.

    Hidden and excluded folders cost nothing, and symbolic links are not followed. A folder that comes is watched before
    it is reported, so that whoever then looks at it misses nothing. Raises `OSError` if the system's limits do not
    allow it.
    """

    def __init__(self, vault: Vault, pace: WatchPace) -> None:
        self._vault, self._pace = vault, pace
        self._settings: dict[str, set[str]] = {}
        for mount, name in product(vault.mounts, _SETTINGS):
            place = os.path.join(mount.root, ".obsidian", name)  # noqa: PTH118 - texts, as below
            self._settings.setdefault(os.path.dirname(place), set()).add(place)  # noqa: PTH120
        self._libc: Any = ctypes.CDLL(None, use_errno=True)
        self._paths: dict[int, str] = {}
        self._seen: set[str] = set()
        self._has_seen = Event()
        self._failure: OSError | None = None
        self._loop: AbstractEventLoop | None = None
        self._file = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        try:
            for mount in vault.mounts:
                self._add(str(mount.root))
            for folder in self._settings:
                self._add_one(folder)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._loop:
            self._loop.remove_reader(self._file)
        os.close(self._file)

    async def wait(self) -> set[str]:
        """Returns what changed: after a change, until nothing follows for a step."""
        if self._loop is None:  # From now on it is read without a pause, since the system forgets what is not.
            self._loop = get_running_loop()
            self._loop.add_reader(self._file, self._read)
        with anyio.move_on_after(self._pace.tick):
            await self._has_seen.wait()
        left = self._pace.most
        while self._has_seen.is_set() and left > 0:
            self._has_seen.clear()
            await anyio.sleep(self._pace.step)
            left -= self._pace.step
        if self._failure:
            raise self._failure
        seen, self._seen = self._seen, set()
        return seen

    def _read(self) -> None:
        self._has_seen.set()
        try:
            data = os.read(self._file, _BUFFER)
            at = 0
            while at < len(data):
                watch, mask, _, length = _HEAD.unpack_from(data, at)
                at += _HEAD.size + length
                self._note(watch, mask, os.fsdecode(data[at - length : at].rstrip(b"\0")))
        except BlockingIOError:
            pass
        except OSError as error:
            self._failure = error

    def _note(self, watch: int, mask: int, name: str) -> None:
        if mask & _OVERFLOW:
            raise OSError("the system has lost some changes")
        if mask & _IGNORED:
            self._paths.pop(watch, None)
        if (folder := self._paths.get(watch)) is None:
            return
        path = os.path.join(folder, name) if name else folder  # noqa: PTH118 - faster
        self._seen.add(path)
        if mask & _IS_FOLDER and mask & _GONE:
            self._remove(path)
        if mask & _IS_FOLDER and mask & _COMES:
            if self._vault.relative(path) is not None:
                self._add(path)
            elif path in self._settings:
                self._add_one(path)
                self._seen |= self._settings[path]

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

    def __init__(self, vault: Vault, pace: WatchPace) -> None:
        self._notify = RustNotify([str(mount.root) for mount in vault.mounts], False, False, 0, True, True)
        self._stop = threading.Event()
        most, step, tick = (round(seconds * 1000) for seconds in (pace.most, pace.step, pace.tick))
        self._watch = partial(self._notify.watch, most, step, tick, self._stop)

    def close(self) -> None:
        self._notify.close()

    async def wait(self) -> set[str]:
        watching = get_running_loop().run_in_executor(None, self._watch)
        try:
            seen = await shield(watching)
        except CancelledError:
            self._stop.set()
            with anyio.CancelScope(shield=True):
                await watching
            raise
        return set() if isinstance(seen, str) else {text for _, text in seen}
