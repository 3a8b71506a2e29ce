"""What the repository holds works on every machine, and says nothing of the one it was written on."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Collection
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tidings

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

MACHINE_PATH = re.compile(r"(?:(?<![\w.:/~\\-])|file://)/(?:root|home|Users|work)/[\w.][\w.-]*")
"""A path that exists on one machine only, at the beginning of a word; not a part of a URL or of a relative path."""


def tracked() -> list[Path]:
    """Every text file that git knows."""
    git = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if git.returncode != 0:
        pytest.skip("not a git checkout")
    files = [ROOT / name for name in git.stdout.split("\0") if name]
    return [file for file in files if file.is_file() and b"\0" not in file.read_bytes()[:4096]]


def pins(name: str) -> dict[str, Requirement]:
    """What requirements/<name>.txt lists."""
    lines = re.sub(r" \\\n.*", "", (ROOT / f"requirements/{name}.txt").read_text("utf-8")).splitlines()
    found = [Requirement(line) for line in lines if re.match(r"\w", line)]
    return {canonicalize_name(pin.name): pin for pin in found}


def ranges(*groups: str, without: Collection[str] = ()) -> list[Requirement]:
    """What pyproject.toml asks for: the core, all extras but those, and the dependency groups that are named."""
    project = PROJECT["project"]
    extras = project["optional-dependencies"].items()
    texts = [*project["dependencies"], *(text for name, extra in extras if name not in without for text in extra)]
    texts += [text for group in groups for text in PROJECT["dependency-groups"][group] if isinstance(text, str)]
    return [one for one in map(Requirement, texts) if one.name != project["name"]]


@pytest.mark.parametrize("name", ["run", "dev", "fit"])
def test_the_requirements_are_names_with_exact_versions_and_hashes_and_nothing_else(name: str) -> None:
    text = (ROOT / f"requirements/{name}.txt").read_text("utf-8")
    assert not re.search(r"://|^\s*-(?!-hash=sha256:)|\bindex-url\b|\bfind-links\b| @ ", text, re.MULTILINE)
    hashed = re.findall(r"^\w.*\\\n +--hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
    assert len(hashed) == len(re.findall(r"^\w", text, re.MULTILINE)) > 10
    for pin in pins(name).values():
        assert re.fullmatch(r"==[^*,]+", str(pin.specifier)), pin


@pytest.mark.parametrize(
    ("name", "groups", "without"),
    [("run", ["build"], ["render", "semantic", "keyring"]), ("dev", ["build", "dev"], [])],
)
def test_the_requirements_fit_the_ranges_of_the_project(name: str, groups: list[str], without: list[str]) -> None:
    listed = pins(name)
    for wanted in ranges(*groups, without=without):
        pin = listed.get(canonicalize_name(wanted.name))
        assert pin is not None, f"{wanted} is not in requirements/{name}.txt: run make requirements"
        assert wanted.specifier.contains(str(pin.specifier).removeprefix("==")), (
            f"{wanted}, {pin}: run make requirements"
        )


def test_what_runs_is_what_is_tested() -> None:
    dev = pins("dev")
    assert {name: str(pin.specifier) for name, pin in pins("run").items()} == {
        name: str(dev[name].specifier) for name in pins("run")
    }


def test_no_file_names_a_path_of_one_machine() -> None:
    found = {
        str(file.relative_to(ROOT)): paths
        for file in tracked()
        if (paths := MACHINE_PATH.findall(file.read_text("utf-8"))) and file != Path(__file__)
    }
    assert not found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see /home/ada/notes", True),
        ('"/root/7/bin"', True),
        ("file:///home/ada/a.whl", True),
        ("vault://note/home/today", False),
        ("docs/work/plan.md", False),
        ("https://example.com/home/page", False),
        ("the /home page", False),
    ],
)
def test_a_path_of_one_machine_is_told_from_a_url(text: str, found: bool) -> None:
    assert bool(MACHINE_PATH.search(text)) is found


def test_no_file_sends_anyone_to_a_package_index_of_its_own() -> None:
    settings = re.compile(r"^[^#\n]*(?:--(?:extra-)?index-url|--find-links|PIP_INDEX_URL|UV_INDEX)", re.MULTILINE)
    assert not [file for file in tracked() if file != Path(__file__) and settings.search(file.read_text("utf-8"))]


def test_no_line_installs_from_an_index_that_does_not_have_the_package() -> None:
    # Whoever registers a free name gets its installs. Errors ask `_kit/lazy.py` for the source.
    line = re.compile(r"(?:install|--from|uvx|pipx run) +(?:-\S+ +)*[\"']?tidings(?:\[[a-z,]+\])?[\"']?(?![\w/.-])")
    assert line.search("pip install 'tidings[vault]'")
    assert line.search("uvx --from tidings[web] tidings")
    assert not line.search("pip install -e '/clone[vault]'")
    named = [file for file in tracked() if file.suffix in {".md", ".py", ".json", ".yml", ".toml"}]
    assert not [
        f"{file.relative_to(ROOT)}: {found.group()}"
        for file in named
        if file.parts[len(ROOT.parts)] != "tests"
        and file != ROOT / "docs/releasing.md"
        and (found := line.search(file.read_text("utf-8")))
    ]


def test_ci_does_what_people_do() -> None:
    commands = (ROOT / ".ci/run").read_text().splitlines()
    assert [line for line in commands if line.startswith("make")] == ["make check", "make test"]


def test_the_newest_version_in_the_changelog_is_that_of_the_package() -> None:
    headings = re.findall(r"^## \[(.+?)\](.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    version, date = headings[1]
    assert version == tidings.__version__
    assert re.fullmatch(r" - \d{4}-\d\d-\d\d", date)


def test_the_version_stands_in_one_place() -> None:
    assert "version" not in PROJECT["project"]
    assert "version" in PROJECT["project"]["dynamic"]


def test_hosted_ci_runs_the_same_targets_on_every_python_that_is_promised() -> None:
    workflow = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    assert {"make check", "make test"} <= set(re.findall(r"make \w+", workflow))
    promised = [text.rpartition(" ")[2] for text in PROJECT["project"]["classifiers"] if "Python :: 3." in text]
    (pythons,) = set(re.findall(r"python: \[(.*)\]", workflow))
    assert set(promised) <= set(re.findall(r"\d\.\d+", pythons))


def test_a_wheel_brings_the_typed_package_and_the_command_and_nothing_else(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)

    assert wheel.name == f"tidings-{tidings.__version__}-py3-none-any.whl"
    assert {path.name for path in installed.iterdir()} == {"tidings", wheel.name.split("-py3")[0] + ".dist-info"}
    assert (installed / "tidings/py.typed").exists()
    # What is installed goes before the checkout, which an editable install puts on the path as well.
    program = (
        f"import sys; sys.path.insert(0, {str(installed)!r}); import tidings.cli.main as m; print(m.__file__); m.main()"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines() == [
        str(installed / "tidings/cli/main.py"),
        f"tidings {tidings.__version__}",
    ]


def test_the_name_of_a_class_means_one_thing_in_the_package() -> None:
    places: dict[str, list[str]] = {}
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
