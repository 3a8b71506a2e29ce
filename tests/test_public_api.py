"""The public API is a decision: this list, and nothing by accident."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tidings

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

SOURCE = ast.parse(Path(tidings.__file__).read_text("utf-8"))


def names_for_type_checkers() -> dict[str, str]:
    """What `if TYPE_CHECKING:` imports, and from where."""
    (block,) = [node for node in SOURCE.body if isinstance(node, ast.If)]
    return {
        alias.asname or alias.name: statement.module or ""
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


def test_the_public_names_are_these() -> None:
    assert tidings.__all__ == PUBLIC


def test_the_public_names_are_what_dir_shows() -> None:
    assert dir(tidings) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_each_public_name_can_be_imported(name: str) -> None:
    namespace: dict[str, object] = {}
    exec(f"from tidings import {name}", namespace)
    assert namespace[name] is getattr(tidings, name)


def test_a_type_checker_sees_each_name_where_it_really_lives() -> None:
    assert names_for_type_checkers() == tidings._HOMES
    assert {*tidings._HOMES, "__version__"} == set(PUBLIC)


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="module 'tidings' has no attribute 'nothing'"):
        _ = tidings.nothing


def test_importing_the_package_imports_none_of_its_rooms_and_no_sdk() -> None:
    program = "import sys, tidings; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "tidings" in modules
    assert not [name for name in modules if name.startswith("tidings.") or name == "mcp"]


def test_type_checkers_are_told_that_the_package_is_typed() -> None:
    assert Path(tidings.__file__).with_name("py.typed").exists()
