"""Names imported at first use, and missing packages."""

import importlib.metadata
import importlib.util
import json
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidings._kit import lazy
from tidings._kit.lazy import lazy_names, not_installed, packages_missing


def test_a_name_comes_from_the_module_that_defines_it() -> None:
    assert lazy_names("shop", {"OrderedDict": "collections"})("OrderedDict") is __import__("collections").OrderedDict


def test_a_name_that_the_package_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'shop' has no attribute 'price'"):
        lazy_names("shop", {})("price")


def test_a_missing_package_of_the_extra_says_how_to_install_it() -> None:
    missing = partial(packages_missing, "The shop", extra="shop")
    get = lazy_names("shop", {"till": "no_such_package"}, extra=["no_such_package"], missing=missing)
    with pytest.raises(ImportError) as caught:
        get("till")
    assert str(caught.value) == f"The shop needs more packages (no_such_package): {lazy.install_command('shop')}"
    assert caught.value.name == "no_such_package"


def test_any_other_missing_module_is_a_fault_and_stays_one() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_package'"):
        lazy_names("shop", {"till": "no_such_package"}, extra=["lxml"])("till")


def test_the_packages_that_are_not_installed_are_found_without_importing_the_others() -> None:
    code = (
        "import sys\n"
        "from tidings._kit.lazy import not_installed\n"
        "print(not_installed(['wave', 'no_such_package']), 'wave' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "['no_such_package'] False\n"
    assert not_installed(["json"]) == []


def test_in_a_clone_an_extra_is_installed_from_the_clone() -> None:
    assert lazy.install_command("shop") == f"{sys.executable} -m pip install -e '{lazy.ROOT}[shop]'"
    assert (lazy.ROOT / "Makefile").is_file()


REPOSITORY = "https://example.org/tidings.git"


@pytest.mark.parametrize(
    ("noted", "source"),
    [
        # A file that is gone, too: an index need not have the package, and whoever registers the name there has it.
        ({"url": "file:///my%20wheels/tidings-0.1.0-py3-none-any.whl"}, "/my wheels/tidings-0.1.0-py3-none-any.whl[x]"),
        ({"url": "https://example.org/tidings.whl"}, "tidings[x] @ https://example.org/tidings.whl"),
        (
            {"url": REPOSITORY, "vcs_info": {"vcs": "git", "commit_id": "0a1b"}},
            f"tidings[x] @ git+{REPOSITORY}@0a1b",
        ),
        (None, "tidings[x]"),  # from an index
    ],
)
def test_an_extra_is_installed_from_where_the_package_came_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, noted: dict[str, Any] | None, source: str
) -> None:
    installed = SimpleNamespace(read_text=lambda _: noted and json.dumps(noted))
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: installed)
    monkeypatch.setattr(lazy, "ROOT", tmp_path)
    assert lazy.install_source("x") == source
    assert lazy.install_command("x") == f"{sys.executable} -m pip install {shlex.quote(source)}"
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert lazy.install_command("x").startswith(f"uv pip install --python {sys.executable} ")
