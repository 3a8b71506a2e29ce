"""All benchmarks in one run, started by `tidings bench --all`, and their table."""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks import report
from benchmarks import table as table_module
from benchmarks.report import Row, Target
from benchmarks.table import Compared
from tests.cli.running import PROGRAM, environment, terminal

SOURCES = Path(report.__file__).parent


def row(what: str, value: float | None, *, met: bool | None = None, **more: Any) -> dict[str, Any]:
    """As `benchmarks/report.py` writes it."""
    target = None if met is None else {"bound": 2, "at": "least", "unit": "x"}
    plain = {"part": "p", "sdk": None, "tidings": 10.5, "floor": None, "note": "", "others": {}}
    return {**plain, "what": what, "value": value, "target": target, "met": met, **more}


MEASURING = """
import json, pathlib, sys
print("a table of its own")
print("halfway", file=sys.stderr, flush=True)
pathlib.Path(sys.argv[sys.argv.index("--json") + 1]).write_text(json.dumps({rows!r}))
pathlib.Path("given").open("a").write(" ".join([{name!r}, *sys.argv[1:-2]]) + "\\n")
sys.exit({code})
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with some benchmarks: one whose targets are met, one that misses, one that falls over, one idle."""
    programs = {
        "fanout": MEASURING.format(
            name="fanout", code=0, rows=[row("CPU", 3.25, met=True, sdk=34.1), row("aside", None)]
        ),
        "vault": MEASURING.format(name="vault", code=1, rows=[row("speed", 1.5, met=False, others={"ripgrep": 7.0})]),
        "web": "import sys; print('there are no pages', file=sys.stderr)",
    }
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "src/tidings").mkdir(parents=True)
    (tmp_path / "src/tidings/__init__.py").touch()
    for name in ("all", "table"):
        shutil.copy(SOURCES / f"{name}.py", tmp_path / "benchmarks")
    for name, text in programs.items():
        (tmp_path / f"benchmarks/{name}.py").write_text(text)
    return tmp_path


def bench_all(clone: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    command = [*PROGRAM, "bench", "--all", *args]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=clone, env=environment()
    )


def test_all_benchmarks_make_one_table_of_what_was_compared(clone: Path) -> None:
    done = bench_all(clone, "--json", "all.json")
    assert done.returncode == 1
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if "|" in line]
    assert lines[2:] == [
        ["fanout", "CPU", "10.5", "SDK 34.1", "3.250x", "≥ 2x", "met"],
        ["vault", "speed", "10.5", "ripgrep 7", "1.500x", "≥ 2x", "MISSED"],
    ]
    assert "1 of 2 targets met" in done.stdout
    assert "a table of its own" not in done.stdout
    written = json.loads((clone / "all.json").read_text())
    assert [(each["benchmark"], each["what"]) for each in written] == [
        ("fanout", "CPU"),
        ("fanout", "aside"),
        ("vault", "speed"),
    ]


def test_it_tells_how_far_it_is_and_how_each_went(clone: Path) -> None:
    said = bench_all(clone).stderr
    assert re.search(r"\[1/3\] fanout\n  halfway\n\[1/3\] fanout: \d+ s, all met\n", said)
    assert re.search(r"\[2/3\] vault: \d+ s, 1 missed\n", said)
    assert re.search(r"\[3/3\] web: \d+ s, nothing measured: there are no pages\n", said)


def test_in_a_terminal_one_line_tells_how_far_it_is(clone: Path) -> None:
    waits = "import sys, time; print('[  0.1 s] in the midst of it', file=sys.stderr, flush=True); time.sleep(60)"
    (clone / "benchmarks/vault.py").write_text(waits)
    with terminal("bench", "--all", cwd=clone) as screen:
        screen.expect("[1/3] fanout: ")
        for _ in range(3):  # It is written anew, with the time that passed.
            screen.expect("\r\x1b[K[#..] 2/3 vault, ")
            screen.expect(" s  in the midst of it")
        os.killpg(screen.process.pid, signal.SIGINT)
        code, shown = screen.end()
    assert code == 130
    assert "| fanout | CPU" in shown


def test_one_that_falls_over_is_told_and_stops_no_other(clone: Path) -> None:
    (clone / "benchmarks/client.py").write_text("raise SystemError('fell over')")
    done = bench_all(clone)
    assert done.returncode == 2
    assert "client: nothing measured: SystemError: fell over" in done.stderr
    assert "vault" in done.stdout


@pytest.mark.parametrize("code", [0, 1, -9])
def test_rows_that_were_written_by_half_cost_no_other_figure(clone: Path, code: int) -> None:
    ends = f"os.kill(os.getpid(), {-code})" if code < 0 else f"sys.exit({code})"
    half = "pathlib.Path(sys.argv[sys.argv.index('--json') + 1]).write_text('[{\"what\": \"CP')"
    (clone / "benchmarks/client.py").write_text(f"import os, pathlib, sys; {half}; {ends}")
    done = bench_all(clone)
    assert done.returncode == 2
    assert "client: nothing measured" in done.stderr
    assert "| fanout | CPU" in done.stdout


def test_what_is_missing_beside_it_is_named_again_at_the_end(clone: Path) -> None:
    says = "print('ripgrep is left out: it is not installed', 'not measured: x: y', sep='\\n', file=sys.stderr)"
    rows = [row("CPU", 3.25, met=True)]
    source = MEASURING.format(name="fanout", code=2, rows=rows).replace('print("a table of its own")', says)
    (clone / "benchmarks/fanout.py").write_text(source)
    done = bench_all(clone)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-3:] == [
        "fanout: ripgrep is left out: it is not installed",
        "fanout: not measured: x: y",
        "web: nothing measured: there are no pages",
    ]


def test_one_that_is_killed_counts_as_not_measured(clone: Path) -> None:
    killed = MEASURING.format(name="fanout", code=0, rows=[row("CPU", 3.25, met=True)]).replace(
        "sys.exit(0)", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    )
    (clone / "benchmarks/fanout.py").write_text(killed)
    done = bench_all(clone)
    assert done.returncode == 2
    assert "fanout: all met; not everything could be measured" in done.stderr.splitlines()


def test_each_is_made_smaller(clone: Path) -> None:
    bench_all(clone, "--quick")
    assert (clone / "given").read_text().splitlines() == ["fanout --quick", "vault --quick"]


def test_ctrl_c_leaves_nothing_running_and_shows_what_was_measured(clone: Path) -> None:
    waits = "import sys, time; print('waiting', file=sys.stderr, flush=True); time.sleep(60)"
    (clone / "benchmarks/vault.py").write_text(waits)
    with subprocess.Popen(
        [*PROGRAM, "bench", "--all"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=clone,
        env=environment(),
        start_new_session=True,
    ) as running:
        try:
            assert running.stderr is not None
            assert any("waiting" in line for line in running.stderr)
            os.killpg(running.pid, signal.SIGINT)  # As a terminal does.
            out, err = running.communicate(timeout=30)
        finally:
            running.kill()
    assert running.returncode == 130
    assert "Interrupted: the table has what was measured before." in err
    assert "| fanout | CPU" in out


def test_the_table_shows_what_the_reports_own_does() -> None:
    made = Row("p", "CPU", sdk=1234.5, tidings=0.1234, value=0.30765, target=Target(1.2, "most", "x"))
    ours = Compared.of("x", made.as_json())
    theirs = [cell.strip() for cell in report.table([made]).splitlines()[2].split("|")[1:-1]]
    assert [ours.what, ours.peer.removeprefix("SDK "), ours.tidings, ours.ratio, ours.target, "met"] == theirs[:6]


def compared(what: str, *, benchmark: str = "fanout", met: bool | None = True) -> Compared:
    return Compared.of(benchmark, row(what, 3.25, met=met, sdk=34.1))


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_table_is_no_wider_than_the_terminal_and_leaves_out_no_ratio(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    what = (
        "CPU microseconds of a delivery in the legacy era to a thousand streams that are open at once, each on its own"
    )
    monkeypatch.setattr(table_module, "width", lambda _: columns)
    shown = table_module.table([compared(what), compared("CPU", met=False), compared("s", benchmark="web", met=None)])
    assert max(map(len, shown.splitlines())) <= columns
    assert shown.count("3.250") == 3
    assert [shown.count(word) for word in ("met", "MISSED")] == [1, 1]
    assert " ".join(what.split()) in " ".join(re.sub(r"3.250x|≥ 2x|met", "", shown).split())
    assert ("SDK 34.1" in shown) is (columns == 200)  # There the figures themselves have room.
