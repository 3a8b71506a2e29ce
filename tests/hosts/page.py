"""`docs/hosts.md`: the tables in it that the lab writes, between two comments each."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tests.hosts.checks import Check
from tests.hosts.stage import Transport
from tests.hosts.survey import Findings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "hosts.md"


@dataclass(frozen=True)
class Outcome:
    """How one check went over one transport."""

    check: Check
    transport: Transport
    text: str | None
    """None if it failed, or is not for this transport."""


def write(findings: dict[str, list[Findings | None]], outcomes: list[Outcome], today: date) -> None:
    """Puts the tables in place of those that are there."""
    text = PAGE.read_text("utf-8")
    text = replaced(text, "hosts", f"Tried on {today}, over stdio and HTTP.\n\n{hosts_table(findings)}")
    text = replaced(text, "checks", f"Tried on {today}.\n\n{checks_table(outcomes)}")
    PAGE.write_text(text, "utf-8")


def replaced(text: str, name: str, content: str) -> str:
    """Returns a page with other content between the comments of this name."""
    begin, end = f"<!-- lab: {name} -->", f"<!-- lab: end of {name} -->"
    found = re.compile(f"({re.escape(begin)}\n).*?({re.escape(end)})", re.DOTALL)
    if not found.search(text):
        raise ValueError(f"The page has no place for the lab's table of {name}: {begin} … {end}")
    return found.sub(lambda match: f"{match[1]}\n{content}\n\n{match[2]}", text)


def hosts_table(findings: dict[str, list[Findings | None]]) -> str:
    rows = [
        ["host", "protocol", "declares", "subscribes to", "a change while it is idle", "`wait_for_change`", "hints"]
    ]
    for host, both in findings.items():
        stdio, http = (found for found in both if found is not None)
        pairs = zip(_cells(stdio), _cells(http), strict=True)
        rows.append([host, *(one if one == other else f"stdio: {one}<br>HTTP: {other}" for one, other in pairs)])
    return _table(rows)


def checks_table(outcomes: list[Outcome]) -> str:
    rows = [["tried with Claude Code", "stdio", "HTTP"]]
    for check in dict.fromkeys(outcome.check for outcome in outcomes):
        texts = {outcome.transport: outcome.text for outcome in outcomes if outcome.check is check}
        rows.append([check.title, texts.get("stdio") or "", texts.get("http") or ""])
    return _table(rows)


def _cells(found: Findings) -> list[str]:
    return [found.protocol, found.declares, found.listens, found.while_idle, found.waiting, found.hints]


def _table(rows: Iterable[list[str]]) -> str:
    first, *rest = [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    return "\n".join([first, "|" + "---|" * (first.count(" | ") + 1), *rest])
