"""`tidings doctor`: whether everything that Tidings uses on this machine is as it should be, and what to do if not."""

import contextlib
import io
import json
import sys
from typing import cast

import click

from tidings.cli.doctor_checks import Finding, Place, Verdict, examine
from tidings.cli.terminal import harmless, styled

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
    for finding in examine(Place.here()):
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
