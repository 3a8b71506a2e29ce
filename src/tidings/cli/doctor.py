"""`tidings doctor`: what Tidings uses on this machine, and how to fix what is missing; and `tidings explain`.

A check only reads, and imports no SDK. Its exceptions become findings, and hide nothing.
"""

import ctypes
import errno
import importlib.metadata
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

import tidings
from tidings._kit.lazy import ROOT, install_command
from tidings._kit.suggest import did_you_mean
from tidings._kit.text import counted, harmless, listed
from tidings.cli.exits import Refusal
from tidings.cli.terminal import option, styled, table
from tidings.errors import leaves

if TYPE_CHECKING:
    from tidings.inspector.catalog.entry import ServerEntry

Verdict = Literal["ok", "look", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    what: str
    verdict: Verdict
    words: str  # The state, and what it means
    cure: str = ""  # The advice; empty if nothing is to be done


@dataclass(frozen=True, slots=True)
class CheckedPath:
    """The user's folders and environment, which the checks look at."""

    home: Path
    cwd: Path
    environ: Mapping[str, str]
    platform: str  # As in `sys.platform`

    @classmethod
    def here(cls) -> "CheckedPath":
        """Returns those of this process; if the home or the current folder is unknown, the closest guess."""
        try:
            home = Path.home()
        except RuntimeError:  # There is no HOME, and the system does not know the user.
            home = Path("/")
        try:
            cwd = Path.cwd()
        except OSError:  # The folder was removed.
            cwd = home
        return cls(home, cwd, os.environ, sys.platform)


PURPOSES: Final = {  # The purpose of each extra
    "nats": "replicas connected by NATS",
    "redis": "replicas connected by Redis",
    "vault": "`tidings vault`",
    "web": "`tidings web`",
    "render": "`tidings web --render`, which also needs Chromium",
    "bridge": "`tidings bridge`",
    "semantic": "search by meaning in `tidings vault`",
    "keyring": "tokens of `tidings sign-in` in the keychain of the operating system",
    "inspector": "`tidings tui`, and scripts of answers in YAML",
}
_NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_REQUIREMENT: Final = re.compile(r"(?P<name>[\w.-]+)(?:\[[^]]*\])?(?P<bounds>[^;]*)(?:;(?P<marker>.*))?")


def python(_: CheckedPath) -> list[Finding]:
    """Names the version of Python. An older one than 3.11 cannot import this command."""
    return [Finding("Python", "ok", f"{'.'.join(map(str, sys.version_info[:3]))} ({sys.executable}).")]


def packages(_: CheckedPath) -> Iterator[Finding]:
    """Checks the required packages and each extra."""
    try:
        required = importlib.metadata.requires("tidings") or []
    except importlib.metadata.PackageNotFoundError:
        cure = f"Install it: {install_command()}"
        yield Finding("tidings", "look", f"{tidings.__version__}, not installed: run from {ROOT}.", cure)
        return
    if missing := ", ".join(_missing(required, None)):
        words = f"{tidings.__version__}; these packages are missing: {missing}."
        yield Finding("tidings", "wrong", words, install_command())
    else:
        yield Finding("tidings", "ok", f"{tidings.__version__}, with mcp {importlib.metadata.version('mcp')}.")
    for extra, purpose in PURPOSES.items():
        if missing := ", ".join(_missing(required, extra)):
            words = f"not installed (missing: {missing}). It is for {purpose}."
            yield Finding(f"extra {extra}", "look", words, install_command(extra))
        else:
            yield Finding(f"extra {extra}", "ok", f"installed, for {purpose}.")


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


INOTIFY: Final = Path("/proc/sys/fs/inotify")


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


def clients(place: CheckedPath) -> Iterator[Finding]:
    """Checks the servers in the files of AI clients."""
    from tidings.inspector.catalog.catalog import find_clients

    found = find_clients(place.home, place.cwd, place.platform, place.environ)
    if not found:
        words = "no servers in Claude Desktop, Claude Code, VS Code or Cursor."
        cure = "`tidings install vault PATH --client CLIENT` adds a server to one."
        yield Finding("AI clients", "ok", words, cure)
    for each in found:
        where = tidied(each.path, place)
        if each.project is not None and each.project not in each.path.parents:
            where += f", for {tidied(each.project, place)}"
        if each.problem is not None:
            cure = f"Correct {tidied(each.path, place)}: {each.client} may not see its servers either."
            yield Finding(each.client, "wrong", each.problem, cure)
        if each.servers:
            names = [entry.name for entry in each.servers]
            yield Finding(each.client, "ok", f"{counted(len(names), 'server')}: {listed(names)} ({where}).")
            yield from _startable(each.client, each.servers, place)


def _startable(what: str, entries: "Iterable[ServerEntry]", place: CheckedPath) -> Iterator[Finding]:
    """Yields the servers whose program does not exist."""
    for entry in entries:
        command = entry.command
        if command is None or "$" in command:
            continue
        folder = place.cwd if entry.cwd is None else Path(entry.cwd).expanduser()
        path = entry.env.get("PATH") or place.environ.get("PATH", "")
        there = (folder / command).exists() if "/" in command else shutil.which(command, path=path) is not None
        if not there:
            words = f"{entry.name} cannot start: there is no program {command!r}."
            yield Finding(what, "look", words, "Install it, or write its full path in the file.")


def tidied(path: Path, place: CheckedPath) -> str:
    """Returns a path with `~` for the home folder."""
    try:
        return str(Path("~") / path.relative_to(place.home)) if place.home != Path("/") else str(path)
    except ValueError:
        return str(path)


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
        return Finding("bus", "wrong", error.message, f"More about causes and cures: {error.help}")
    except (ValueError, ImportError) as error:
        return Finding("bus", "wrong", f"{error}.", "Correct the URL, or install what is missing.")
    return Finding("bus", "ok", "it answers, and stores changes and records.")


Check = Callable[[CheckedPath], Iterable[Finding]]

CHECKS: Final[dict[str, Check]] = {
    "Python": python,
    "packages": packages,
    "Chromium": chromium,
    "file watching": watch_limits,
    "AI clients": clients,
}
_STYLES: Final[dict[Verdict, str]] = {"ok": "good", "look": "note", "wrong": "bad"}


def examine(place: CheckedPath, url: str | None = None) -> Iterator[Finding]:
    """Runs all checks and yields their findings; with the URL of a bus, also that of the bus."""
    for what, check in CHECKS.items():
        try:
            yield from check(place)
        except Exception as error:  # noqa: BLE001 - a check that fails is a finding
            words = f"could not be checked ({type(error).__name__}: {error})."
            yield Finding(what, "wrong", words, "If nothing above explains it, please report it with this line.")
    if url is not None:
        yield bus(url)


@click.command("doctor")
@option("as_json --json", "Print one JSON document.")
@option("url --bus=URL", "Also connect to this bus, and store a change and a record there.")
@click.pass_context
def command(ctx: click.Context, *, as_json: bool, url: str | None) -> None:
    """Check the installation on this machine, and say how to fix problems.

    Each line begins with ok, look (nothing is broken, but something is missing that you may want) or wrong (fix it).
    Without --bus, the command changes nothing and sends nothing. It starts no server, and shows no secrets.

    Exit codes: 0 nothing is wrong; 1 something is wrong.
    """
    findings: list[Finding] = []
    for finding in examine(CheckedPath.here(), url):
        findings.append(finding)
        if not as_json:
            what, verdict = harmless(finding.what), f"{finding.verdict:5}"
            text = f"{styled(verdict, _STYLES[finding.verdict])}  {styled(what, 'name')}: {harmless(finding.words)}"
            click.echo(text)
            for line in harmless(finding.cure).splitlines():
                click.echo(f"       → {line}")
    wrong, look = (sum(each.verdict == verdict for each in findings) for verdict in ("wrong", "look"))
    if as_json:
        shown = [{key: value for key, value in asdict(each).items() if value or key != "cure"} for each in findings]
        click.echo(json.dumps({"ok": not wrong, "findings": shown}, indent=2))
    elif wrong or look:
        click.echo(f"\n{wrong or 'Nothing'} wrong{f', {look} worth a look' if look else ''}.")
    else:
        click.echo("\nEverything is fine.")
    ctx.exit(1 if wrong else 0)


@click.command("explain")
@click.argument("code", required=False)
def explain_command(code: str | None) -> None:
    """Explain an error: its causes and what to do.

    CODE is the code of an error, such as connect-failed, or the name of its class. Without CODE, list all errors.
    """
    from tidings.inspector.view.error_report import help_pages

    if code is None:
        rows = [(error.code, (error.__doc__ or "").split("\n")[0]) for error in leaves()]
        table(rows, ("name", ""), sys.stdout)
        return
    names = {error.__name__.casefold(): error.code for error in leaves()}
    pages = help_pages()
    page = pages.get(names.get(code.casefold(), code.lower()))
    if page is None:
        raise Refusal(f"There is no error {code!r}.{did_you_mean(code, pages)} `tidings explain` lists all.")
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", page.read_text("utf-8"))  # Links are of use in a browser only.
    for line in text.rstrip().splitlines():
        click.echo(styled(line.lstrip("# "), "heading") if line.startswith("#") else line)
