"""The host lab: runs shipped hosts against `tidings vault`, and writes what they do into `docs/hosts.md`.

python -m tests.hosts.run [--only NAME] [--list] [--write] [--keep FOLDER]
"""

import argparse
import asyncio
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.conformance.suite import RegistryUnreachable
from tests.hosts.checks import CHECKS, sane
from tests.hosts.page import PAGE, Outcome, write
from tests.hosts.programs import HOSTS, ClaudeCode, Host
from tests.hosts.stage import Stage, Transport, stage
from tests.hosts.survey import Findings, survey

LONGEST = 300.0
"""Seconds for one run, on however busy a machine."""
TRANSPORTS: tuple[Transport, ...] = ("stdio", "http")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Lab:
    """Runs one thing after the other, each in a folder of its own."""

    def __init__(self, folder: Path, only: list[str]) -> None:
        self._folder = folder
        self._only = only
        self.failed = 0

    async def survey(self, host: Host, transport: Transport) -> Findings | None:
        found: Findings | None = None

        async def run(stage: Stage) -> str:
            nonlocal found
            found = await survey(stage)
            return f"{found.waiting}; while idle: {found.while_idle}; hints: {found.hints}"

        await self._attempt(
            f"survey-{host.name.replace(' ', '-').lower()}-{transport}", host, transport, run, "--hints"
        )
        return found

    async def checks(self, host: Host) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for each in CHECKS:
            for transport in each.transports:
                text = await self._attempt(f"{each.name}-{transport}", host, transport, each.run, *each.options)
                outcomes.append(Outcome(each, transport, text))
        return outcomes

    async def _attempt(
        self, name: str, host: Host, transport: Transport, run: Callable[[Stage], Awaitable[str]], *options: str
    ) -> str | None:
        """Returns what a run came to; None if it failed, or was not chosen. `options` are for `tidings vault`."""
        if self._only and not any(word in name for word in self._only):
            return None
        folder, began, made = self._folder / name, time.monotonic(), None
        try:
            async with asyncio.timeout(LONGEST), stage(host, folder, transport, *options) as made:
                text = await run(made)
                sane(made)
        except (AssertionError, TimeoutError) as error:
            self.failed += 1
            say(f"FAILED {name} ({time.monotonic() - began:.0f} s): {str(error)[:1000] or repr(error)}")
            _keep_evidence(folder, made)
            return None
        say(f"passed {name} ({time.monotonic() - began:.0f} s): {text}")
        return text


def _keep_evidence(folder: Path, made: Stage | None) -> None:
    """Leaves what helps to find out why a run failed, beside the messages in `wire.jsonl`."""
    (folder / "failure.txt").write_text(traceback.format_exc(), "utf-8")
    if made is not None:
        told = "\n\n".join(f"{asked.at}\n{asked.news}" for asked in made.model.requests)
        (folder / "model.txt").write_text(told, "utf-8")
        if made.terminal is not None:
            (folder / "screen.txt").write_text(made.terminal.text, "utf-8")


def installed() -> list[Host]:
    """Returns the hosts that can be run here, and says which those are."""
    found: list[Host] = []
    for host in HOSTS:
        try:
            host.program()
        except RegistryUnreachable as error:
            say(f"SKIPPED {host.name} {host.version}: {error}")
        else:
            say(f"{host.name} {host.version}")
            found.append(host)
    return found


async def run(lab: Lab, hosts: list[Host]) -> tuple[dict[str, list[Findings | None]], list[Outcome]]:
    """Returns what was found of each host, and how the checks went."""
    findings: dict[str, list[Findings | None]] = {}
    for host in hosts:
        findings[f"{host.name} {host.short_version}"] = [await lab.survey(host, way) for way in TRANSPORTS]
    outcomes = [outcome for host in hosts if isinstance(host, ClaudeCode) for outcome in await lab.checks(host)]
    return findings, outcomes


def main() -> int:
    parser = argparse.ArgumentParser("tests.hosts.run", description=__doc__)
    parser.add_argument(
        "--only", action="append", default=[], help="what has this in its name, such as survey or stdio"
    )
    parser.add_argument("--list", action="store_true", help="name the checks, and exit")
    parser.add_argument("--write", action="store_true", help=f"write the tables of {PAGE.name}, if nothing failed")
    parser.add_argument("--keep", type=Path, help="keep what was recorded in this folder")
    chosen = parser.parse_args()
    if chosen.list:
        for each in CHECKS:
            say(f"{each.name} ({', '.join(each.transports)}): {each.title}")
        return 0
    if chosen.write and chosen.only:
        parser.error("--write needs everything, so it cannot be used with --only.")
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        say("SKIPPED: the pinned programs are for Linux on x86_64.")
        return 0
    hosts = installed()
    with tempfile.TemporaryDirectory() as scratch:
        lab = Lab(chosen.keep or Path(scratch), chosen.only)
        findings, outcomes = asyncio.run(run(lab, hosts))
    if chosen.write and len(hosts) == len(HOSTS) and not lab.failed:
        write(findings, outcomes, datetime.now(UTC).date())
        say(f"{PAGE.name} is written.")
    return 1 if lab.failed else 0


if __name__ == "__main__":
    sys.exit(main())
