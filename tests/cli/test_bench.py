"""`tidings bench` runs what is in a checkout, and says where to get one."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tidings.cli import bench
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
    assert "The benchmarks come with a clone of the project" in result.stderr
    assert "Run `make bench` in a clone" in result.stderr


def test_its_help_says_what_it_needs_wherever_it_is_read() -> None:
    said = " ".join(tidings_bench("--help").output.split())
    assert "The benchmarks come with a clone of the project, not with the installed package" in said
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
        "bridge",
        "oneshot",
        "inspector",
        "events",
        "install",
    ]


def test_an_unknown_benchmark_is_named_with_what_comes_close() -> None:
    result = tidings_bench("fanuot")
    assert result.exit_code == 2
    assert "No such benchmark 'fanuot'. Did you mean 'fanout'? There are: fanout, client, scale, " in result.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--all", "fanout"), "--all runs all benchmarks. Omit NAME."),
        (("--quick", "fanout"), "after the benchmark's NAME: tidings bench fanout --quick"),
        (("--json", "x.json"), "--json needs --all"),
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
    assert "The benchmarks come with a clone" in result.stderr
