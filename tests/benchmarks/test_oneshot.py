"""The benchmark of one-shot commands counts what was really answered."""

import re
import sys

import pytest

from benchmarks import oneshot
from benchmarks.installing import NotInstalled


def test_cpu_time_of_children_is_counted() -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(range(3_000_000))']); print('add')"
    spent, took = oneshot.cost([sys.executable, "-c", program], "add")
    assert spent > 0
    assert took > 0


def test_a_command_that_does_not_answer_is_not_measured() -> None:
    with pytest.raises(oneshot.NotAnswered, match="ended with 0"):
        oneshot.cost([sys.executable, "-c", "print('nothing')"], "add")


def test_without_the_peer_it_is_measured_alone_and_nothing_is_held_against_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable() -> list[str]:
        raise NotInstalled("node could not install it (ENOTFOUND)")

    monkeypatch.setattr(oneshot, "official", unreachable)
    monkeypatch.setattr(oneshot, "cost", lambda *_: (0.1, 0.2))
    assert oneshot.main(["--quick"]) == 0
    said = capsys.readouterr()
    assert "the official Inspector is left out: node could not install it (ENOTFOUND)" in said.err
    assert re.search(r"\| CPU s to list the tools of an MCPServer +\| 0\.1 +\| \N{EN DASH} +\| +\|", said.out)


def test_both_are_asked_in_turns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def cost(command: list[str], _: str) -> tuple[float, float]:
        asked.append("peer" if command[0] == "peer" else command[1])
        return (2.0, 2.0) if command[0] == "peer" else (1.0, 1.0)

    monkeypatch.setattr(oneshot, "official", lambda: ["peer"])
    monkeypatch.setattr(oneshot, "cost", cost)
    assert oneshot.main(["--turns", "2"]) == 1  # A second is too long for --help.
    asks = [word for what in ("list", "call", "read") for word in [what, "peer"] * 3]
    assert asked == [*asks * 2, "--help", "--help"]
    assert "0.500" in capsys.readouterr().out
