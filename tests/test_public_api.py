"""The public API is a decision: this list, and nothing by accident."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tidings
from tidings import bus, changes, client, errors, server

PUBLIC = [
    "Change",
    "Cursor",
    "LiveClient",
    "LiveServer",
    "PromptsListChanged",
    "ResourceUpdated",
    "ResourcesListChanged",
    "TidingsError",
    "ToolsListChanged",
    "__version__",
    "attach",
    "connect",
]

LAZY = pytest.mark.parametrize("package", [tidings, client], ids=lambda package: package.__name__)


def names_for_type_checkers(package: ModuleType) -> dict[str, str]:
    """What `if TYPE_CHECKING:` imports, and from where."""
    source = ast.parse(Path(package.__file__ or "").read_text("utf-8"))
    block = next(node for node in source.body if isinstance(node, ast.If))
    return {
        alias.asname or alias.name: statement.module or ""
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


def test_the_public_names_are_these() -> None:
    assert tidings.__all__ == PUBLIC


@LAZY
def test_the_public_names_are_what_dir_shows(package: ModuleType) -> None:
    assert dir(package) == sorted(package.__all__)


@pytest.mark.parametrize("name", PUBLIC)
def test_each_public_name_can_be_imported(name: str) -> None:
    namespace: dict[str, object] = {}
    exec(f"from tidings import {name}", namespace)
    assert namespace[name] is getattr(tidings, name)


@LAZY
def test_a_type_checker_sees_each_name_where_it_really_lives(package: ModuleType) -> None:
    assert names_for_type_checkers(package) == package._HOMES
    assert package._HOMES.keys() == {*package.__all__} - {"__version__"}


@LAZY
def test_an_unknown_name_is_an_attribute_error_that_names_it(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nothing'"):
        _ = package.nothing


def test_importing_the_package_imports_none_of_its_rooms_and_no_sdk() -> None:
    program = "import sys, tidings; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert {name for name in modules if name.startswith("tidings")} == {
        "tidings",
        "tidings._kit",
        "tidings._kit.lazy",
        "tidings._version",
    }
    assert "mcp" not in modules


@pytest.mark.thorough
def test_a_type_checker_knows_the_type_of_each_public_name_without_guessing(tmp_path: Path) -> None:
    packages = [tidings, bus, changes, client, server]
    scripts, source = Path(sys.executable).parent, Path(tidings.__file__).parents[1]
    done = subprocess.run(
        [scripts / "pyright", "--verifytypes", "tidings", "--ignoreexternal", "--outputjson"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,  # It fails for a name that is guessed anywhere, be it private.
    )
    seen = json.loads(done.stdout)["typeCompleteness"]
    assert seen["pyTypedPath"] == str(source / "tidings/py.typed")
    known = {symbol["name"] for symbol in seen["symbols"] if symbol["isTypeKnown"]}
    public = {f"{package.__name__}.{name}" for package in packages for name in package.__all__}
    public |= {f"tidings.errors.{leaf.__name__}" for leaf in errors.leaves()}
    assert public - known == {"tidings.__version__"}  # Whose kind it does not look at.


def test_a_type_checker_finds_names_that_are_misspelt(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import tidings\nimport tidings.client\ntidings.conect\ntidings.client.Pol\n")
    pyright = [Path(sys.executable).with_name("pyright"), "--pythonpath", sys.executable, program]
    said = subprocess.run(pyright, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert '"conect" is not a known attribute' in said
    assert '"Pol" is not a known attribute' in said
