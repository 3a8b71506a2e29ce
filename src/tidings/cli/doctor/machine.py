"""The doctor's checks of the machine: Python, packages, browser, SQLite, ports, limits, clock, folders."""

import ctypes
import errno
import importlib.metadata
import json
import os
import re
import shlex
import shutil
import socket
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

import tidings
from tidings.cli.doctor.command import CheckedPath, Finding, not_writable, tidied

PORTS: Final = {
    8000: ("the default of `--http`", "Choose another port, for example --http 127.0.0.1:8001"),
    6280: ("the default of `tidings inspect`", ""),
}
INOTIFY: Final = Path("/proc/sys/fs/inotify")


def bus(url: str) -> Finding:
    """Checks that a bus answers, and stores a change and a record that nobody uses: a full one refuses only that."""
    import asyncio

    from tidings.bus import Records
    from tidings.bus.urls import bus_from_url
    from tidings.changes import ResourceUpdated
    from tidings.errors import TidingsError

    async def store() -> None:
        async with bus_from_url(url) as opened:
            await opened.publish(ResourceUpdated("tidings-doctor://check"))
            records: Records | None = getattr(opened, "records", None)
            if records is not None:
                await records.put("tidings-doctor", b"", seconds=1)

    try:
        asyncio.run(store())
    except TidingsError as error:
        return Finding("bus", "wrong", error.message, f"More about causes and cures: {error.help_page}")
    except (ValueError, ImportError) as error:
        return Finding("bus", "wrong", f"{error}.", "Correct the URL, or install what is missing.")
    return Finding("bus", "ok", "it answers, and stores changes and records.")


def sqlite(_: CheckedPath) -> list[Finding]:
    """Checks SQLite and its full-text search."""
    import sqlite3

    version = sqlite3.sqlite_version
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.execute("CREATE VIRTUAL TABLE probe USING fts5(body)")
    except sqlite3.OperationalError:
        words = f"{version}, without full-text search (FTS5): `tidings vault` cannot search."
        cure = "Use a Python with a complete SQLite, such as that of python.org, your distribution or uv."
        return [Finding("SQLite", "wrong", words, cure)]
    return [Finding("SQLite", "ok", f"{version}, with full-text search (FTS5).")]


def ports(_: CheckedPath) -> Iterator[Finding]:
    """Checks whether the default ports are free."""
    for port, (use, cure) in PORTS.items():
        what = f"port {port}"
        try:
            with socket.socket() as probe:
                if os.name != "nt":  # As servers do, so that a port of closed connections counts as free.
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
                probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                # Without a cure, the command takes the next free port by itself.
                yield Finding(what, "look" if cure else "ok", f"in use; it is {use}.", cure)
            else:
                yield Finding(what, "wrong", f"not available ({error.strerror}); it is {use}.")
        else:
            yield Finding(what, "ok", f"free; it is {use}.")


def watch_limits(place: CheckedPath) -> list[Finding]:
    """Checks how many folders and programs may watch files on Linux."""
    what = "file watching"
    if place.platform != "linux":
        return []
    try:
        watches = int((INOTIFY / "max_user_watches").read_text())
        instances = int((INOTIFY / "max_user_instances").read_text())
    except (OSError, ValueError):
        return [Finding(what, "look", "the limits of inotify cannot be read; `tidings vault` may have to poll.")]
    known = f"{watches:,} folders, {instances:,} programs"
    if not _can_watch():
        cure = f"sudo sysctl fs.inotify.max_user_instances={max(2 * instances, 512)}"
        return [Finding(what, "wrong", f"the limit of this user is reached ({known}).", f"{cure}\n{_LASTING}")]
    low = [
        f"sudo sysctl fs.inotify.{name}={enough}"
        for name, limit, least, enough in (
            ("max_user_watches", watches, 65_536, 524_288),
            ("max_user_instances", instances, 128, 512),
        )
        if limit < least
    ]
    if not low:
        return [Finding(what, "ok", f"{known} (inotify).")]
    words = f"{known}: a vault with more folders is watched only in part."
    return [Finding(what, "look", words, "\n".join([*low, _LASTING]))]


_LASTING: Final = "To keep it after a restart, put the same name=value into /etc/sysctl.d/60-watches.conf"


def _can_watch() -> bool:
    """Returns whether one more program may watch files; True if that is not known."""
    try:
        handle = ctypes.CDLL(None, use_errno=True).inotify_init1(0)
    except (OSError, AttributeError):
        return True
    if handle >= 0:
        os.close(handle)
        return True
    return ctypes.get_errno() not in (errno.EMFILE, errno.ENFILE)


def open_files(place: CheckedPath) -> list[Finding]:
    """Checks how many files and connections a process may have open."""
    if place.platform == "win32":
        return []
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = soft == resource.RLIM_INFINITY
    words = f"{'any number' if unlimited else f'{soft:,}'} per process; each client of a server needs one or two."
    if unlimited or soft >= 1_024:
        return [Finding("open files", "ok", words)]
    more = hard == resource.RLIM_INFINITY or hard > soft
    cure = f"ulimit -n {4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)}"
    return [Finding("open files", "look", words, cure if more else "Ask the administrator for a higher limit.")]


def clock(_: CheckedPath) -> list[Finding]:
    """Checks the clock: certificates and the ages of files depend on it."""
    now = time.time()
    said = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < Path(tidings.__file__).stat().st_mtime - 86_400:  # By more than a day.
        words = f"{said}, which is before this version of Tidings was installed: certificates will be rejected."
        return [Finding("clock", "wrong", words, "Set it: timedatectl set-ntp true")]
    with tempfile.NamedTemporaryFile(prefix="tidings-doctor-") as probe:
        apart = abs(Path(probe.name).stat().st_mtime - now)
    if apart <= 5:
        return [Finding("clock", "ok", f"{said}.")]
    words = f"{said}; the times of files differ from it by {apart:,.0f} s: the times of changes will be wrong."
    return [Finding("clock", "look", words, "Set the clock of the machine that stores the files, too.")]


def folders(place: CheckedPath) -> Iterator[Finding]:
    """Checks whether the folders for temporary files and for the cache can be written."""
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


def _folder(what: str, folder: Path, place: CheckedPath, elsewhere: str) -> Finding:
    shown = tidied(folder, place)
    if (problem := not_writable(folder, place)) is not None:
        words, cure = problem
        cures = "\n".join(filter(None, [cure, f"Or use another folder: {elsewhere}"]))
        return Finding(what, "wrong", f"{shown} cannot be used: {words}.", cures)
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if os.name != "nt":
        free = os.statvfs(there)
        if free.f_bavail * free.f_frsize < 200 * 10**6:
            words = f"{shown}, with {free.f_bavail * free.f_frsize / 10**6:.0f} MB free."
            return Finding(what, "look", words, "Free some space: the index of a large vault needs a few hundred MB.")
    return Finding(what, "ok", f"{shown}{'' if there == folder else ' (not there yet; it can be made)'}.")


PURPOSES: Final = {  # The purpose of each extra. `all` contains all of them except `render`.
    "nats": "replicas connected by NATS",
    "redis": "replicas connected by Redis",
    "vault": "`tidings vault`",
    "web": "`tidings web`",
    "render": "`tidings web --render`, which also needs Chromium",
    "bridge": "`tidings bridge`",
    "semantic": "search by meaning in `tidings vault`",
    "inspector": "`tidings tui`, and scripts of answers in YAML",
}
_NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_REQUIREMENT: Final = re.compile(r"(?P<name>[\w.-]+)(?:\[[^]]*\])?(?P<bounds>[^;]*)(?:;(?P<marker>.*))?")
_ROOT: Final = Path(tidings.__file__).parents[2]


def python(_: CheckedPath) -> list[Finding]:
    """Names the version of Python. An older one than 3.11 cannot import this command."""
    return [Finding("Python", "ok", f"{'.'.join(map(str, sys.version_info[:3]))} ({sys.executable}).")]


def packages(_: CheckedPath) -> Iterator[Finding]:
    """Checks the required packages and each extra."""
    try:
        required = importlib.metadata.requires("tidings") or []
    except importlib.metadata.PackageNotFoundError:
        cure = f"Install it: {_install('')}"
        yield Finding("tidings", "look", f"{tidings.__version__}, not installed: run from {_ROOT}.", cure)
        return
    missing = list(_missing(required, None))
    if missing:
        words = f"{tidings.__version__}; these packages are missing: {', '.join(missing)}."
        yield Finding("tidings", "wrong", words, _install(""))
    else:
        yield Finding("tidings", "ok", f"{tidings.__version__}, with mcp {importlib.metadata.version('mcp')}.")
    for extra, purpose in PURPOSES.items():
        missing = list(_missing(required, extra))
        if missing:
            words = f"not installed (missing: {', '.join(missing)}). It is for {purpose}."
            yield Finding(f"extra {extra}", "look", words, _install(extra))
        else:
            yield Finding(f"extra {extra}", "ok", f"installed, for {purpose}.")


def on_the_path(place: CheckedPath) -> list[Finding]:
    """Checks whether a shell finds this command."""
    scripts = Path(sysconfig.get_path("scripts"))
    found = shutil.which("tidings", path=place.environ.get("PATH", ""))
    if found is None:
        words = "not on the PATH, so a shell does not find it. (AI clients get its full path.)"
        return [Finding("tidings command", "look", words, f'export PATH="{scripts}:$PATH"')]
    if Path(found).parent.resolve() != scripts.resolve():
        words = f"a shell finds {found}, which is not this installation ({scripts / 'tidings'})."
        return [Finding("tidings command", "look", words, "If that is not intended, uninstall one of them.")]
    return [Finding("tidings command", "ok", f"{found}.")]


def chromium(place: CheckedPath) -> list[Finding]:
    """Checks for a browser: the system's, or one that Playwright installed."""
    found = next(filter(None, (shutil.which(name, path=place.environ.get("PATH", "")) for name in _NAMES)), None)
    caches = {"darwin": "Library/Caches", "win32": "AppData/Local"}
    cache = place.home / caches.get(place.platform, ".cache") / "ms-playwright"
    folder = Path(place.environ.get("PLAYWRIGHT_BROWSERS_PATH") or cache)
    for program in ("chrome", "chrome.exe", "Chromium", "Google Chrome for Testing", "chrome-headless-shell"):
        found = found or next(map(str, sorted(folder.glob(f"chromium*/**/{program}"))), None)
    if found is not None:
        return [Finding("Chromium", "ok", f"{found}, for `tidings web --render` and the tests of the page.")]
    words = "not found. It is for `tidings web --render`, and for the tests of the page."
    return [Finding("Chromium", "look", words, "apt-get install chromium, or: playwright install chromium")]


def page(place: CheckedPath) -> list[Finding]:
    """Checks whether the inspector's page is built."""
    static = Path(tidings.__file__).parent / "inspector" / "static"
    if (static / "index.html").is_file():
        return [Finding("inspector's page", "ok", "built.")]
    words = "not built, so `tidings inspect` has nothing to show. `tidings tui` works without it."
    in_clone = f"make ui (in {tidied(_ROOT, place)})"
    return [Finding("inspector's page", "look", words, in_clone if _is_clone() else "Reinstall Tidings.")]


def _is_clone() -> bool:
    return (_ROOT / "pyproject.toml").is_file() and (_ROOT / "ui").is_dir()


def _install(extra: str) -> str:
    """Returns the command that installs an extra, or without one the package, from the same source as this one."""
    python = shlex.quote(sys.executable)
    pip = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    brackets = f"[{extra}]" if extra else ""
    if _is_clone():
        return f"{pip} -e {shlex.quote(f'{_ROOT}{brackets}')}"
    noted = None
    with suppress(importlib.metadata.PackageNotFoundError):
        noted = importlib.metadata.distribution("tidings").read_text("direct_url.json")
    url = urlsplit(json.loads(noted)["url"] if noted else "")
    path = Path(url2pathname(url.path))  # The folder or file that Tidings was installed from.
    source = str(path) if url.scheme == "file" and path.exists() else "tidings"
    return f"{pip} {shlex.quote(f'{source}{brackets}')}"


def _missing(required: list[str], extra: str | None) -> Iterator[str]:
    """Yields the requirements (of an extra, or without one) that are missing or too old."""
    for text in required:
        parts = _REQUIREMENT.fullmatch(text.replace(" ", ""))
        if parts is None:
            continue
        of = re.search(r"extra==['\"]([\w-]+)['\"]", parts["marker"] or "")
        if (of[1] if of else None) != extra or parts["name"] == "tidings":
            continue
        try:
            version = importlib.metadata.version(parts["name"])
        except importlib.metadata.PackageNotFoundError:
            yield parts["name"]
            continue
        least = re.search(r">=([\d.]+)", parts["bounds"])
        if least and _numbers(version) < _numbers(least[1]):
            yield f"{parts['name']} {least[1]} or newer (installed: {version})"


def _numbers(version: str) -> tuple[int, ...]:
    numbers = re.match(r"[\d.]*", version)
    return tuple(int(part) for part in (numbers[0] if numbers else "").split(".") if part)
