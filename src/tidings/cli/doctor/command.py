"""`tidings doctor`: whether everything that Tidings uses on this machine is as it should be, and what to do if not.

What the doctor looks at, in order; and that a check which fails itself is a finding, never a traceback.

A check is a function that gets the `CheckedPath` and yields `Finding`s. It reads and never writes, apart from an
empty file in the folder for temporary files; it imports nothing of the SDK, and its file is imported when it runs: a
package that is broken must not hide what the others find.

| file | looks at |
|---|---|
| `doctor_packages` | Python, the packages, the extras, Chromium, the page |
| `doctor_system` | SQLite, ports, limits of the system, the clock, folders |
| `doctor_files` | the catalog, the journal, the files of AI clients |
| `doctor_variables` | environment variables |
"""

import contextlib
import io
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, cast

import click

from tidings.cli.terminal import harmless, styled

Verdict = Literal["ok", "look", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What was seen of one thing."""

    what: str
    verdict: Verdict
    words: str
    """How it is, and what that means."""
    cure: str = ""
    """What to do; empty if there is nothing to be done."""

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "what": self.what,
            "verdict": self.verdict,
            "words": self.words,
            **({"cure": self.cure} if self.cure else {}),
        }


@dataclass(frozen=True, slots=True)
class CheckedPath:
    """Where the doctor looks."""

    home: Path
    cwd: Path
    environ: Mapping[str, str]
    platform: str
    """Named as `sys.platform` does."""

    @classmethod
    def here(cls) -> "CheckedPath":
        """This user's, in this folder. What cannot be told is what comes closest."""
        try:
            home = Path.home()
        except RuntimeError:  # No HOME, and nobody whom the system knows.
            home = Path("/")
        try:
            cwd = Path.cwd()
        except OSError:  # The folder was removed.
            cwd = home
        return cls(home, cwd, os.environ, sys.platform)


Check = Callable[[CheckedPath], Iterable[Finding]]

CHECKS: Final = (
    ("Python", "doctor_packages", "python"),
    ("packages", "doctor_packages", "packages"),
    ("command", "doctor_packages", "on_the_path"),
    ("Chromium", "doctor_packages", "chromium"),
    ("inspector's page", "doctor_packages", "page"),
    ("SQLite", "doctor_system", "sqlite"),
    ("ports", "doctor_system", "ports"),
    ("file watching", "doctor_system", "watch_limits"),
    ("open files", "doctor_system", "open_files"),
    ("clock", "doctor_system", "clock"),
    ("folders", "doctor_system", "folders"),
    ("catalog", "doctor_files", "catalog"),
    ("journal", "doctor_files", "journal"),
    ("AI clients", "doctor_files", "clients"),
    ("variables", "doctor_variables", "variables"),
)
"""Each check: what it is about, its file and its function."""


def examine(place: CheckedPath) -> Iterator[Finding]:
    """All findings, one after the other."""
    for what, file, function in CHECKS:
        try:
            check: Check = getattr(import_module(f"tidings.cli.{file}"), function)
            yield from check(place)
        except Exception as error:  # noqa: BLE001 - whatever is broken is what people came to hear of
            yield Finding(what, "wrong", f"could not be looked at ({type(error).__name__}: {error}).", _REPORT)


def not_writable(folder: Path, place: CheckedPath) -> tuple[str, str] | None:
    """Why nothing can be written in a folder, which need not be there yet, and the cure; None if something can."""
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    shown = tidied(there, place)
    if not there.is_dir():
        return f"{shown} is no folder", f"mv {shlex.quote(str(there))} {shlex.quote(f'{there}.old')}"
    if os.access(there, os.W_OK | os.X_OK):
        return None
    if os.name != "nt" and os.statvfs(there).f_flag & os.ST_RDONLY:
        return f"{shown} is on a file system that is read-only", ""
    return f"{shown} cannot be written by you", owned(there)


def owned(path: Path) -> str:
    """The command that lets the user write a file or a folder."""
    quoted = shlex.quote(str(path))
    if os.name == "nt" or path.stat().st_uid == os.getuid():
        return f"chmod u+rwX {quoted}"
    return f'sudo chown "$(id -un)" {quoted}'


_REPORT: Final = "If nothing above explains it, report it, with this line."


def tidied(path: Path, place: CheckedPath) -> str:
    """A path as people write it."""
    try:
        return str(Path("~") / path.relative_to(place.home)) if place.home != Path("/") else str(path)
    except ValueError:
        return str(path)


_STYLES: dict[Verdict, str] = {"ok": "good", "look": "note", "wrong": "bad"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def command(ctx: click.Context, *, as_json: bool) -> None:
    """Look at what Tidings uses on this machine, and say what to do.

    Each line is ok; or look: nothing is broken, but something is missing that you may want; or wrong: mend it. Nothing
    is changed, no server is started, and nothing is sent anywhere. Secrets are not shown.

    Exit codes: 0 nothing is wrong; 1 something is.
    """
    with contextlib.suppress(AttributeError):  # A path may have in it what no text can say.
        cast("io.TextIOWrapper", sys.stdout).reconfigure(errors="backslashreplace")
    findings: list[Finding] = []
    for finding in examine(CheckedPath.here()):
        findings.append(finding)
        if not as_json:
            click.echo(_lines(finding))
    wrong = sum(each.verdict == "wrong" for each in findings)
    look = sum(each.verdict == "look" for each in findings)
    if as_json:
        click.echo(json.dumps({"ok": not wrong, "findings": [each.as_json() for each in findings]}, indent=2))
    else:
        click.echo(f"\n{_summary(wrong, look)}")
    ctx.exit(1 if wrong else 0)


def _lines(finding: Finding) -> str:
    """A finding as people read it: a line, and below it what to do."""
    verdict = styled(f"{finding.verdict:5}", _STYLES[finding.verdict], sys.stdout)
    lines = [f"{verdict}  {styled(harmless(finding.what), 'name', sys.stdout)}: {harmless(finding.words)}"]
    if finding.cure:
        lines += [f"       → {line}" for line in harmless(finding.cure).splitlines()]
    return "\n".join(lines)


def _summary(wrong: int, look: int) -> str:
    if not wrong and not look:
        return "Everything is as it should be."
    worth = f"{look} worth a look" if look else ""
    return ", ".join(filter(None, [f"{wrong or 'Nothing'} wrong", worth])) + "."
