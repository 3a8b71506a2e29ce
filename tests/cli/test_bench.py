"""`tidings bench` runs what is in a checkout, and says where to get one."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cli.running import PROGRAM, environment, terminal
from tidings.cli import bench
from tidings.cli import bench as bench_module
from tidings.cli.bench import Compared
from tidings.cli.main import main

SOURCE = """
import sys
from benchmarks.helper import greeting
print(greeting, *sys.argv[1:], flush=True)
sys.exit(3)
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose one benchmark prints its arguments and ends with 3; the real one is out of sight."""
    for file, text in {
        "benchmarks/fanout.py": SOURCE,
        "benchmarks/helper.py": "greeting = 'measured'",
        "src/tidings/__init__.py": "",
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    monkeypatch.setattr(bench, "HERE", tmp_path / "nowhere")
    return tmp_path


def tidings_bench(*args: str) -> Result:
    return CliRunner().invoke(main, ["bench", *args], prog_name="tidings")


@pytest.mark.parametrize("args", [(), ("--streams", "5", "--", "x"), ("--help",)])
def test_a_benchmark_gets_its_arguments_and_gives_its_exit_code(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], args: tuple[str, ...]
) -> None:
    monkeypatch.chdir(checkout)
    result = tidings_bench("fanout", *args)
    assert result.exit_code == 3
    assert capfd.readouterr().out.split() == ["measured", *args]


def test_a_package_that_runs_from_a_checkout_finds_its_benchmarks_from_anywhere(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    monkeypatch.setattr(bench, "HERE", checkout)
    assert tidings_bench("fanout").exit_code == 3


@pytest.mark.usefixtures("checkout")
def test_without_a_checkout_it_says_where_the_benchmarks_are(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    result = tidings_bench("fanout")
    assert result.exit_code == 1
    assert "the benchmarks come with a checkout of the project" in result.stderr
    assert "Run `make bench` in a checkout" in result.stderr


def test_its_help_says_what_it_needs_wherever_it_is_read() -> None:
    said = " ".join(tidings_bench("--help").output.split())
    assert "The benchmarks come with a checkout of the project, not with the installed package" in said
    assert "`make bench`" in said


def test_a_folder_of_benchmarks_that_is_not_ours_is_left_alone(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / "src/tidings/__init__.py").unlink()
    monkeypatch.chdir(checkout)
    assert tidings_bench("fanout").exit_code == 1


def test_without_a_name_it_says_which_there_are() -> None:
    result = tidings_bench()
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()] == [
        "fanout",
        "client",
        "scale",
        "vault",
        "web",
        "oneshot",
        "inspector",
        "install",
    ]


def test_an_unknown_benchmark_is_named_with_what_comes_close() -> None:
    result = tidings_bench("fanuot")
    assert result.exit_code == 2
    assert "No such benchmark 'fanuot'. Did you mean 'fanout'? There are: fanout, client, scale, " in result.stderr


# All of them.


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
def benchmarks(checkout: Path) -> Path:
    """A checkout with some benchmarks: one whose targets are met, one that misses, one that falls over, one idle."""
    programs = {
        "fanout": MEASURING.format(
            name="fanout", code=0, rows=[row("CPU", 3.25, met=True, sdk=34.1), row("aside", None)]
        ),
        "vault": MEASURING.format(name="vault", code=1, rows=[row("speed", 1.5, met=False, others={"ripgrep": 7.0})]),
        "web": "import sys; print('there are no pages', file=sys.stderr)",
        "report": "",
    }
    for name, text in programs.items():
        (checkout / f"benchmarks/{name}.py").write_text(text)
    return checkout


def bench_all(checkout: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    command = [*PROGRAM, "bench", "--all", *args]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=checkout, env=environment()
    )


def test_all_benchmarks_make_one_table_of_what_was_compared(benchmarks: Path) -> None:
    done = bench_all(benchmarks, "--json", "all.json")
    assert done.returncode == 1
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if "|" in line]
    assert lines[2:] == [
        ["fanout", "CPU", "10.5", "SDK 34.1", "3.250x", "≥ 2x", "met"],
        ["vault", "speed", "10.5", "ripgrep 7", "1.500x", "≥ 2x", "MISSED"],
    ]
    assert "1 of 2 targets met" in done.stdout
    assert "a table of its own" not in done.stdout
    written = json.loads((benchmarks / "all.json").read_text())
    assert [(each["benchmark"], each["what"]) for each in written] == [
        ("fanout", "CPU"),
        ("fanout", "aside"),
        ("vault", "speed"),
    ]


def test_it_tells_how_far_it_is_and_how_each_went(benchmarks: Path) -> None:
    said = bench_all(benchmarks).stderr
    assert re.search(r"\[1/3\] fanout\n  halfway\n\[1/3\] fanout: \d+ s, all met\n", said)
    assert re.search(r"\[2/3\] vault: \d+ s, 1 missed\n", said)
    assert re.search(r"\[3/3\] web: \d+ s, nothing measured: there are no pages\n", said)


def test_in_a_terminal_one_line_tells_how_far_it_is(benchmarks: Path) -> None:
    waits = "import sys, time; print('[  0.1 s] in the midst of it', file=sys.stderr, flush=True); time.sleep(60)"
    (benchmarks / "benchmarks/vault.py").write_text(waits)
    with terminal("bench", "--all", cwd=benchmarks) as screen:
        screen.expect("[1/3] fanout: ")
        for _ in range(3):  # It is written anew, with the time that passed.
            screen.expect("\r\x1b[K[#..] 2/3 vault, ")
            screen.expect(" s  in the midst of it")
        os.killpg(screen.process.pid, signal.SIGINT)
        code, shown = screen.end()
    assert code == 130
    assert "| fanout | CPU" in shown


def test_one_that_falls_over_is_told_and_stops_no_other(benchmarks: Path) -> None:
    (benchmarks / "benchmarks/client.py").write_text("raise SystemError('fell over')")
    done = bench_all(benchmarks)
    assert done.returncode == 2
    assert "client: nothing measured: SystemError: fell over" in done.stderr
    assert "vault" in done.stdout


@pytest.mark.parametrize("code", [0, 1, -9])
def test_rows_that_were_written_by_half_cost_no_other_figure(benchmarks: Path, code: int) -> None:
    ends = f"os.kill(os.getpid(), {-code})" if code < 0 else f"sys.exit({code})"
    half = "pathlib.Path(sys.argv[sys.argv.index('--json') + 1]).write_text('[{\"what\": \"CP')"
    (benchmarks / "benchmarks/client.py").write_text(f"import os, pathlib, sys; {half}; {ends}")
    done = bench_all(benchmarks)
    assert done.returncode == 2
    assert "client: nothing measured" in done.stderr
    assert "| fanout | CPU" in done.stdout


def test_what_is_missing_beside_it_is_named_again_at_the_end(benchmarks: Path) -> None:
    says = "print('ripgrep is left out: it is not installed', 'not measured: x: y', sep='\\n', file=sys.stderr)"
    rows = [row("CPU", 3.25, met=True)]
    source = MEASURING.format(name="fanout", code=2, rows=rows).replace('print("a table of its own")', says)
    (benchmarks / "benchmarks/fanout.py").write_text(source)
    done = bench_all(benchmarks)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-3:] == [
        "fanout: ripgrep is left out: it is not installed",
        "fanout: not measured: x: y",
        "web: nothing measured: there are no pages",
    ]


def test_one_that_is_killed_counts_as_not_measured(benchmarks: Path) -> None:
    killed = MEASURING.format(name="fanout", code=0, rows=[row("CPU", 3.25, met=True)]).replace(
        "sys.exit(0)", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    )
    (benchmarks / "benchmarks/fanout.py").write_text(killed)
    done = bench_all(benchmarks)
    assert done.returncode == 2
    assert "fanout: all met; not everything could be measured" in done.stderr.splitlines()


def test_each_is_made_smaller(benchmarks: Path) -> None:
    bench_all(benchmarks, "--quick")
    assert (benchmarks / "given").read_text().splitlines() == ["fanout --quick", "vault --quick"]


def test_ctrl_c_leaves_nothing_running_and_shows_what_was_measured(benchmarks: Path) -> None:
    waits = "import sys, time; print('waiting', file=sys.stderr, flush=True); time.sleep(60)"
    (benchmarks / "benchmarks/vault.py").write_text(waits)
    with subprocess.Popen(
        [*PROGRAM, "bench", "--all"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=benchmarks,
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


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--all", "fanout"), "--all takes no NAME"),
        (("--quick", "fanout"), "after the benchmark's NAME: tidings bench fanout --quick"),
        (("--json", "x.json"), "--json goes with --all"),
        (("--all", "--json", "nowhere/x.json"), "there is no folder 'nowhere'"),
    ],
)
def test_options_that_go_with_all_are_refused_elsewhere(args: tuple[str, ...], words: str) -> None:
    result = tidings_bench(*args)
    assert result.exit_code == 2
    assert words in result.stderr


@pytest.mark.usefixtures("checkout")
def test_all_need_a_checkout_like_each(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    result = tidings_bench("--all")
    assert result.exit_code == 1
    assert "the benchmarks come with a checkout" in result.stderr


def test_the_table_shows_what_the_reports_own_does() -> None:
    from benchmarks.report import Row, Target, table
    from tidings.cli.bench import Compared

    made = Row("p", "CPU", sdk=1234.5, tidings=0.1234, value=0.30765, target=Target(1.2, "most", "x"))
    ours = Compared.of("x", made.as_json())
    theirs = [cell.strip() for cell in table([made]).splitlines()[2].split("|")[1:-1]]
    assert [ours.what, ours.peer.removeprefix("SDK "), ours.tidings, ours.ratio, ours.target, "met"] == theirs[:6]


# The table.


def compared(what: str, *, benchmark: str = "fanout", met: bool | None = True) -> Compared:
    return Compared.of(benchmark, row(what, 3.25, met=met, sdk=34.1))


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_table_is_no_wider_than_the_terminal_and_leaves_out_no_ratio(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    what = "CPU microseconds of a delivery in the old era to a thousand streams that are open at once, each on its own"
    monkeypatch.setattr(bench_module, "width", lambda _: columns)
    shown = bench_module.table([compared(what), compared("CPU", met=False), compared("s", benchmark="web", met=None)])
    assert max(map(len, shown.splitlines())) <= columns
    assert shown.count("3.250") == 3
    assert [shown.count(word) for word in ("met", "MISSED")] == [1, 1]
    assert " ".join(what.split()) in " ".join(re.sub(r"3.250x|≥ 2x|met", "", shown).split())
    assert ("SDK 34.1" in shown) is (columns == 200)  # There the figures themselves have room.
