"""Names imported at first use, and missing packages."""

import subprocess
import sys
from functools import partial

import pytest

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
    assert str(caught.value) == (
        "The shop needs more packages (no_such_package): "
        'pip install "tidings[shop]" (in a clone: pip install ".[shop]")'
    )
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
