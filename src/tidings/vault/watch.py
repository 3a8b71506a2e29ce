"""Watching the folders of a vault: what may have changed, as it happens.

`watch(vault)` is an async iterator of three kinds of events. It begins with `LookAround`: nothing is known of what
happened before. Then `Changed` names what the system saw, several changes that follow each other quickly as one. Where
the system cannot say everything, `LookAround` comes again: after a burst so large that its queue may have overflowed,
at long intervals in any case, and at short ones where folders cannot be watched at all. A vault whose folder is not
there any more is `WentAway`, and begins again with `LookAround` when it comes back.

What is yielded is a hint. Whoever consumes it looks at the disk.
"""

import logging
import re
import threading
from asyncio import Event, get_running_loop
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from typing import Final, Literal

import anyio
from watchfiles._rust_notify import RustNotify

from tidings.vault.files.paths import Vault

logger = logging.getLogger(__name__)

_SETTINGS: Final = frozenset({"app.json", "daily-notes.json"})
_MOUNTS: Final = Path("/proc/self/mounts")
_REMOTE: Final = frozenset(
    {"9p", "afpfs", "cifs", "davfs", "fuse.rclone", "fuse.sshfs", "nfs", "nfs4", "smb3", "vboxsf"}
)


@dataclass(frozen=True, slots=True)
class Changed:
    """These files and folders came, went or changed."""

    paths: frozenset[Path]


@dataclass(frozen=True, slots=True)
class LookAround:
    """Anything may have changed."""

    by: Literal["events", "polling"]
    """How further changes are seen."""
    note: str | None = None
    """Why they are not seen as they happen, in words for the user."""


@dataclass(frozen=True, slots=True)
class WentAway:
    """The folder is not there. What was read from it may be true still, but nobody knows."""

    note: str


Happening = Changed | LookAround | WentAway


@dataclass(frozen=True, slots=True)
class WatchPace:
    """How quickly changes are seen, in seconds, and how much is taken at once."""

    step: float = 0.01
    """A batch is over when nothing more was seen for so long."""
    most: float = 0.05
    """A batch is over after this in any case."""
    tick: float = 2
    """How often the folders are looked for."""
    audit: float = 300
    """How often everything is looked at, though changes are seen as they happen."""
    poll: float = 2
    """How often everything is looked at where changes are not seen; more rarely where looking takes long."""
    burst: int = 2000
    """After so many changes at once, the system may have lost some: everything is looked at when it is quiet."""


def is_settings(path: Path) -> bool:
    """Whether this is one of the files in which the app keeps settings that decide what resources hold."""
    return path.parent.name == ".obsidian" and path.name in _SETTINGS


async def watch(vault: Vault, pace: WatchPace = WatchPace()) -> AsyncGenerator[Happening]:  # noqa: B008 - a frozen value
    """What happens in the folders of `vault`, without end."""
    away = False
    while True:
        if missing := next((mount.root for mount in vault.mounts if _identity(mount.root) is None), None):
            if not away:
                yield WentAway(
                    f"The vault's folder {str(missing)!r} is not there; it is used again when it comes back."
                )
            away = True
            await anyio.sleep(min(1, pace.tick))
            continue
        away = False
        roots = [mount.root for mount in vault.mounts]
        remote = next((kind for root in roots if (kind := _remote(root))), None)
        events = _poll(roots, pace, f"it lies on a network disk ({remote})") if remote else _listen(vault, roots, pace)
        async with aclosing(events):
            async for event in events:
                yield event


async def _listen(vault: Vault, roots: list[Path], pace: WatchPace) -> AsyncGenerator[Happening]:
    """What the system sees in `roots`, until one of them is another folder than it was."""
    identities = [_identity(root) for root in roots]
    inbox = _Inbox(pace.burst)
    stop = threading.Event()
    thread = threading.Thread(
        target=_see, args=(vault, roots, pace, inbox, stop), name="tidings-vault-watch", daemon=True
    )
    thread.start()
    loop = get_running_loop()
    try:
        if not await inbox.begun():
            async for event in _poll(roots, pace, str(inbox.failure)):
                yield event
            return
        yield LookAround("events")
        audited = loop.time()
        while True:
            with anyio.move_on_after(pace.tick):
                await inbox.filled()
            paths, lost = inbox.take()
            if [_identity(root) for root in roots] != identities or inbox.failure:
                return
            # What is looked at all over need not be named; settings are looked for nowhere else.
            if paths := frozenset(filter(is_settings, paths)) if lost else paths:
                yield Changed(paths)
            if lost or loop.time() - audited > pace.audit:
                yield LookAround("events")
                audited = loop.time()
    finally:
        stop.set()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(thread.join, 2)


async def _poll(roots: list[Path], pace: WatchPace, reason: str) -> AsyncGenerator[Happening]:
    """Look at everything again and again, until one of `roots` is another folder than it was."""
    note = f"Changes are looked for every {pace.poll:g} s or more, not seen as they happen: {reason}"
    logger.warning("%s", note)
    identities = [_identity(root) for root in roots]
    loop = get_running_loop()
    while [_identity(root) for root in roots] == identities:
        began = loop.time()
        yield LookAround("polling", note)
        await anyio.sleep(max(pace.poll, 20 * (loop.time() - began)))


def _see(vault: Vault, roots: list[Path], pace: WatchPace, inbox: "_Inbox", stop: threading.Event) -> None:
    """The thread that waits for the system: it takes a while to begin in a vault of many folders."""
    most, step, tick = (round(seconds * 1000) for seconds in (pace.most, pace.step, pace.tick))
    try:
        with RustNotify([str(root) for root in roots], False, False, 0, True, True) as notify:
            inbox.begin()
            while not stop.is_set():
                seen = notify.watch(most, step, tick, stop)
                if not isinstance(seen, str):
                    # Several things happen to a file when it is replaced. As texts, thousands are quickly looked at.
                    texts = {text for _, text in seen}
                    inbox.put(
                        Path(text)
                        for text in texts
                        if vault.relative(text) is not None or (path := Path(text)) in roots or is_settings(path)
                    )
    except (OSError, RuntimeError, ValueError) as error:
        # The system's limit of watched folders, most of all; or a name that is not text.
        inbox.fail(error)


class _Inbox:
    """Where the thread puts what it saw, and the event loop takes it. It holds at most a burst of paths."""

    def __init__(self, most: int) -> None:
        self.failure: Exception | None = None
        """Why nothing more is seen."""
        self._most = most
        self._paths: set[Path] = set()
        self._lost = False
        self._lock = threading.Lock()
        self._loop = get_running_loop()
        self._sees = False
        self._begun = Event()
        self._filled = Event()

    # Of the thread

    def begin(self) -> None:
        self._sees = True
        self._tell(self._begun.set)

    def put(self, paths: Iterable[Path]) -> None:
        with self._lock:
            self._paths.update(paths)
            self._lost |= len(self._paths) >= self._most
            if not self._paths:
                return
        self._tell(self._filled.set)

    def fail(self, error: Exception) -> None:
        self.failure = error
        self._tell(self._begun.set)
        self._tell(self._filled.set)

    def _tell(self, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            self._loop.call_soon_threadsafe(call)

    # Of the event loop

    async def begun(self) -> bool:
        """Whether it could begin to see, once that is known."""
        await self._begun.wait()
        return self._sees

    async def filled(self) -> None:
        await self._filled.wait()

    def take(self) -> tuple[frozenset[Path], bool]:
        """What was seen since this was last called, and whether it was so much that some may be missing."""
        with self._lock:
            self._filled.clear()
            taken, self._paths = frozenset(self._paths), set()
            lost, self._lost = self._lost, False
        return taken, lost


def _identity(root: Path) -> tuple[int, int] | None:
    """Which folder this is; None if it is none, or cannot be reached."""
    try:
        status = root.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if S_ISDIR(status.st_mode) else None


def _remote(root: Path) -> str | None:
    """The kind of network disk on which `root` lies, where the system says so: it does not see what others change."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    mounted = [
        fields for line in lines if len(fields := line.split()) > 2 and root.is_relative_to(_unescape(fields[1]))
    ]
    kind = max(mounted, key=lambda fields: len(fields[1]), default=("", "", ""))[2]
    return kind if kind in _REMOTE else None


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)
