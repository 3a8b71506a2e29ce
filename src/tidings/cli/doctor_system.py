"""The doctor on the system: SQLite, ports, limits, the clock, folders."""

import ctypes
import errno
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import tidings
from tidings.cli.doctor_checks import Finding, Place, not_writable, tidied

PORTS: Final = {
    8000: ("where `--http` serves", "Choose another: --http 127.0.0.1:8001"),
    6280: ("where `tidings inspect` serves its page", ""),
}
INOTIFY: Final = Path("/proc/sys/fs/inotify")
ENOUGH_WATCHES: Final = 65_536
ENOUGH_INSTANCES: Final = 128
ENOUGH_FILES: Final = 1_024
_LITTLE_SPACE: Final = 200 * 10**6
_DAY: Final = 86_400


def sqlite(_: Place) -> Iterator[Finding]:
    """SQLite, and the full-text search in it."""
    import sqlite3

    version = sqlite3.sqlite_version
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE probe USING fts5(body)")
    except sqlite3.OperationalError:
        words = f"{version}, without full-text search (FTS5): `tidings vault` cannot search."
        cure = "Use a Python that was built with a full SQLite, such as python.org's, your distribution's or uv's."
        yield Finding("SQLite", "wrong", words, cure)
    else:
        yield Finding("SQLite", "ok", f"{version}, with full-text search (FTS5).")
    finally:
        connection.close()


def ports(_: Place) -> Iterator[Finding]:
    """Whether the ports are free that are taken if none is given."""
    for port, (use, cure) in PORTS.items():
        what = f"port {port}"
        try:
            with socket.socket() as probe:
                if os.name != "nt":  # As servers do: what is only winding up is free.
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
                probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                # The page takes the next that is free by itself.
                yield Finding(what, "look" if cure else "ok", f"in use; it is {use}, unless that is changed.", cure)
            else:
                yield Finding(what, "wrong", f"cannot be listened on ({error.strerror}); it is {use}.")
        else:
            yield Finding(what, "ok", f"free; it is {use}.")


def watch_limits(place: Place) -> Iterator[Finding]:
    """How many folders and programs Linux lets a user watch."""
    what = "file watching"
    if place.platform != "linux":
        return
    try:
        watches = int((INOTIFY / "max_user_watches").read_text())
        instances = int((INOTIFY / "max_user_instances").read_text())
    except (OSError, ValueError):
        yield Finding(what, "look", "the limits of inotify cannot be read; `tidings vault` may have to look by itself.")
        return
    known = f"{watches:,} folders, {instances:,} programs"
    if not _can_watch():
        cure = _sysctl("max_user_instances", max(2 * instances, 512))
        yield Finding(what, "wrong", f"all that this user may have are in use ({known}).", f"{cure}\n{_LASTING}")
        return
    low = [
        _sysctl(name, enough)
        for name, limit, least, enough in (
            ("max_user_watches", watches, ENOUGH_WATCHES, 524_288),
            ("max_user_instances", instances, ENOUGH_INSTANCES, 512),
        )
        if limit < least
    ]
    if low:
        words = f"{known}: a vault with more folders is not watched in full."
        yield Finding(what, "look", words, "\n".join([*low, _LASTING]))
    else:
        yield Finding(what, "ok", f"{known} (inotify).")


_LASTING: Final = "To keep it over a restart, put the same name=value into /etc/sysctl.d/60-watches.conf"


def _sysctl(name: str, value: int) -> str:
    return f"sudo sysctl fs.inotify.{name}={value}"


def _can_watch() -> bool:
    """Whether one more program may watch files. What is not known is taken for yes."""
    try:
        handle = ctypes.CDLL(None, use_errno=True).inotify_init1(0)
    except (OSError, AttributeError):
        return True
    if handle >= 0:
        os.close(handle)
        return True
    return ctypes.get_errno() not in (errno.EMFILE, errno.ENFILE)


def open_files(place: Place) -> Iterator[Finding]:
    """How many files and connections a process may have."""
    if place.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = soft == resource.RLIM_INFINITY
    words = f"{'any number' if unlimited else f'{soft:,}'} in a process; each client of a server takes one or two."
    if unlimited or soft >= ENOUGH_FILES:
        yield Finding("open files", "ok", words)
        return
    more = hard == resource.RLIM_INFINITY or hard > soft
    cure = f"ulimit -n {4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)}"
    yield Finding("open files", "look", words, cure if more else "Ask whoever set this limit for more.")


def clock(_: Place) -> Iterator[Finding]:
    """Whether it can be the time that the clock says: certificates and ages depend on it."""
    now = time.time()
    said = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    installed = Path(tidings.__file__).stat().st_mtime
    if now < installed - _DAY:
        words = f"{said}, which is before this version of Tidings was installed: certificates will be refused."
        yield Finding("clock", "wrong", words, "Set it: timedatectl set-ntp true")
        return
    with tempfile.NamedTemporaryFile(prefix="tidings-doctor-") as probe:
        apart = abs(Path(probe.name).stat().st_mtime - now)
    if apart > 5:
        words = f"{said}; files get times that are {apart:,.0f} s apart from it: what changed when is told wrongly."
        yield Finding("clock", "look", words, "Have the machine that holds the files set its clock, too.")
    else:
        yield Finding("clock", "ok", f"{said}.")


def folders(place: Place) -> Iterator[Finding]:
    """Whether what has to be written can be."""
    try:
        temporary = Path(tempfile.gettempdir())
    except OSError as error:
        yield Finding("temporary files", "wrong", f"there is no folder for them ({error}).", "Set TMPDIR to one.")
    else:
        yield _folder("temporary files", temporary, place, "export TMPDIR=DIR")
    cache = place.environ.get("XDG_CACHE_HOME") or {
        "darwin": str(place.home / "Library/Caches"),
        "win32": place.environ.get("LOCALAPPDATA") or str(place.home / "AppData/Local"),
    }.get(place.platform, str(place.home / ".cache"))
    yield _folder(
        "cache", Path(cache) / "tidings", place, "export XDG_CACHE_HOME=DIR, or tidings vault PATH --cache DIR"
    )


def _folder(what: str, folder: Path, place: Place, elsewhere: str) -> Finding:
    shown = tidied(folder, place)
    if (problem := not_writable(folder, place)) is not None:
        words, cure = problem
        cures = "\n".join(filter(None, [cure, f"Another folder will do: {elsewhere}"]))
        return Finding(what, "wrong", f"{shown} cannot be used: {words}.", cures)
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if os.name != "nt":
        free = os.statvfs(there)
        if free.f_bavail * free.f_frsize < _LITTLE_SPACE:
            words = f"{shown}, with {free.f_bavail * free.f_frsize / 10**6:.0f} MB free."
            return Finding(what, "look", words, "Make room: an index of a large vault needs a few hundred MB.")
    return Finding(what, "ok", f"{shown}{'' if there == folder else ' (not there yet; it can be made)'}.")
