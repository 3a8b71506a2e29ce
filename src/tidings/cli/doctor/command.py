"""`tidings doctor`: the checks in order, their findings, and the summary.

A check is a function that gets a `CheckedPath` and returns or yields `Finding`s. It only reads, apart from an empty
temporary file, and imports no SDK. Its file is imported when it runs, and its exceptions become findings: a broken
package must not hide what the other checks find.
"""

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, Literal

import click

from tidings._kit.text import harmless
from tidings.cli.terminal import styled

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


Check = Callable[[CheckedPath], Iterable[Finding]]

CHECKS: Final = (  # Each check: its subject, its file and its function
    ("Python", "machine", "python"),
    ("packages", "machine", "packages"),
    ("command", "machine", "on_the_path"),
    ("Chromium", "machine", "chromium"),
    ("inspector's page", "machine", "page"),
    ("SQLite", "machine", "sqlite"),
    ("ports", "machine", "ports"),
    ("file watching", "machine", "watch_limits"),
    ("open files", "machine", "open_files"),
    ("clock", "machine", "clock"),
    ("folders", "machine", "folders"),
    ("catalog", "files", "catalog"),
    ("journal", "files", "journal"),
    ("AI clients", "files", "clients"),
    ("variables", "files", "variables"),
)


def examine(place: CheckedPath, bus: str | None = None) -> Iterator[Finding]:
    """Runs all checks and yields their findings; with the URL of a `bus`, also those of that."""
    for what, file, function in CHECKS:
        try:
            check: Check = getattr(import_module(f"tidings.cli.doctor.{file}"), function)
            yield from check(place)
        except Exception as error:  # noqa: BLE001 - a check that fails is a finding
            words = f"could not be checked ({type(error).__name__}: {error})."
            yield Finding(what, "wrong", words, "If nothing above explains it, please report it with this line.")
    if bus is not None:
        yield import_module("tidings.cli.doctor.machine").bus(bus)


def not_writable(folder: Path, place: CheckedPath) -> tuple[str, str] | None:
    """Returns why a folder (which need not exist yet) cannot be written, and the cure; None if it can."""
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    shown = tidied(there, place)
    if not there.is_dir():
        return f"{shown} is not a folder", f"mv {shlex.quote(str(there))} {shlex.quote(f'{there}.old')}"
    if os.access(there, os.W_OK | os.X_OK):
        return None
    if os.name != "nt" and os.statvfs(there).f_flag & os.ST_RDONLY:
        return f"{shown} is on a read-only file system", ""
    return f"you have no permission to write {shown}", owned(there)


def owned(path: Path) -> str:
    """Returns the command that gives the user permission to write a file or a folder."""
    quoted = shlex.quote(str(path))
    if os.name == "nt" or path.stat().st_uid == os.getuid():
        return f"chmod u+rwX {quoted}"
    return f'sudo chown "$(id -un)" {quoted}'


def tidied(path: Path, place: CheckedPath) -> str:
    """Returns a path with `~` for the home folder."""
    try:
        return str(Path("~") / path.relative_to(place.home)) if place.home != Path("/") else str(path)
    except ValueError:
        return str(path)


_STYLES: dict[Verdict, str] = {"ok": "good", "look": "note", "wrong": "bad"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--bus", metavar="URL", help="Also connect to this bus, and store a change and a record there.")
@click.pass_context
def command(ctx: click.Context, *, as_json: bool, bus: str | None) -> None:
    """Check what Tidings uses on this machine, and say how to fix problems.

    Each line begins with ok, look (nothing is broken, but something is missing that you may want) or wrong (fix it).
    Without --bus, the doctor changes nothing and sends nothing. It starts no server, and shows no secrets.

    Exit codes: 0 nothing is wrong; 1 something is wrong.
    """
    findings: list[Finding] = []
    for finding in examine(CheckedPath.here(), bus):
        findings.append(finding)
        if not as_json:
            what, verdict = harmless(finding.what), f"{finding.verdict:5}"
            click.echo(
                f"{styled(verdict, _STYLES[finding.verdict])}  {styled(what, 'name')}: {harmless(finding.words)}"
            )
            for line in harmless(finding.cure).splitlines():
                click.echo(f"       → {line}")
    wrong = sum(each.verdict == "wrong" for each in findings)
    look = sum(each.verdict == "look" for each in findings)
    if as_json:
        shown = [asdict(each) for each in findings]
        shown = [{key: value for key, value in each.items() if value or key != "cure"} for each in shown]
        click.echo(json.dumps({"ok": not wrong, "findings": shown}, indent=2))
    elif wrong or look:
        click.echo(f"\n{wrong or 'Nothing'} wrong{f', {look} worth a look' if look else ''}.")
    else:
        click.echo("\nEverything is fine.")
    ctx.exit(1 if wrong else 0)
