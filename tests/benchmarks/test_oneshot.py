"""The benchmark of one-shot commands counts what was really answered."""

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


def test_without_the_peer_nothing_is_measured_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable() -> list[str]:
        raise NotInstalled("node could not install it (ENOTFOUND)")

    monkeypatch.setattr(oneshot, "official", unreachable)
    assert oneshot.main(["--quick"]) == 2
    assert "not measured: the official Inspector" in capsys.readouterr().err


def test_both_are_asked_in_turns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def cost(command: list[str], _: str) -> tuple[float, float]:
        asked.append("peer" if command[0] == "peer" else command[1])
        return (2.0, 2.0) if command[0] == "peer" else (1.0, 1.0)

    monkeypatch.setattr(oneshot, "official", lambda: ["peer"])
    monkeypatch.setattr(oneshot, "cost", cost)
    assert oneshot.main(["--turns", "2"]) == 1  # A second is too long for --help.
    assert asked == ["list", "peer"] * 6 + ["--help"] * 2
    assert "0.500" in capsys.readouterr().out
