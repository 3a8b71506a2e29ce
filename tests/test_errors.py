"""The tree of errors: what is drawn is what there is, and each leaf says what to do."""

import copy
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tidings import errors
from tidings.errors import Category, TidingsError, leaves

PAGES = Path(__file__).parents[1] / "docs/errors"
LEAVES = list(leaves())
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TidingsError)]
Clone = Callable[[TidingsError], TidingsError]
each_leaf = pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.__name__)


class Drawn(NamedTuple):
    """A line of the drawing: how deep it stands, the class, and the word in the middle column."""

    depth: int
    name: str
    word: str


def drawing() -> list[Drawn]:
    """The tree at the top of errors.py, below its root."""
    lines = re.findall(r"^ {4}([│├└─ ]+)(\w+) +(.*)$", errors.__doc__ or "", re.MULTILINE)
    words = {*Category, "retryable"}
    return [
        Drawn(len(stem) // 4, name, rest.split()[0] if rest.split()[0] in words else "") for stem, name, rest in lines
    ]


def ours(kind: type[TidingsError]) -> list[type[TidingsError]]:
    """The direct subclasses that Tidings has. Tests of other files may have made more."""
    return [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]


def classes(kind: type[TidingsError] = TidingsError, depth: int = 1) -> Iterator[Drawn]:
    """The tree of classes, as it would be drawn."""
    for child in ours(kind):
        yield Drawn(depth, child.__name__, ("retryable" if child.retryable else "") if child.code else child.category)
        yield from classes(child, depth + 1)


def pickled(error: TidingsError) -> TidingsError:
    return pickle.loads(pickle.dumps(error))


def test_the_drawn_tree_is_the_tree_of_classes() -> None:
    assert drawing() == list(classes())


def test_every_class_is_in_the_tree_once() -> None:
    names = [drawn.name for drawn in classes()]
    assert sorted([*names, "TidingsError"]) == sorted(kind.__name__ for kind in KINDS)


def test_each_code_belongs_to_one_error() -> None:
    codes = [leaf.code for leaf in LEAVES]
    assert len(set(codes)) == len(codes)


@each_leaf
def test_the_code_is_the_name_as_words(leaf: type[TidingsError]) -> None:
    assert leaf.code == re.sub(r"(?<!^)(?=[A-Z])", "-", leaf.__name__).lower()


@each_leaf
def test_each_leaf_knows_its_category_and_what_explains_it(leaf: type[TidingsError]) -> None:
    error = leaf("It went wrong.")
    assert error.category in Category
    assert error.help == f"tidings explain {leaf.code}"
    assert all(kind.code for kind in ours(leaf))


@each_leaf
def test_each_leaf_has_a_page_that_says_what_it_is_and_what_to_do(leaf: type[TidingsError]) -> None:
    page = (PAGES / f"{leaf.code}.md").read_text("utf-8")
    assert page.startswith(f"# {leaf.code}\n\n`{leaf.__name__}`, category {leaf.category}, ")
    assert ("not retryable" in page.splitlines()[2]) is not leaf.retryable
    assert "\n## Causes\n" in page
    assert "\n## What to do\n" in page


def test_each_page_is_about_an_error_that_exists() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} - {"index"} == {leaf.code for leaf in LEAVES}


def test_the_index_lists_every_error_with_what_the_class_says() -> None:
    rows = re.findall(
        r"^\| \[([\w-]+)\]\((.+)\) \| `(\w+)` \| (\w+) \| (yes|no) \|",
        (PAGES / "index.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert rows == [
        (leaf.code, f"{leaf.code}.md", leaf.__name__, str(leaf.category), "yes" if leaf.retryable else "no")
        for leaf in LEAVES
    ]


@each_leaf
@pytest.mark.parametrize("clone", [copy.copy, pickled], ids=["copy", "pickle"])
def test_an_error_keeps_its_details_when_it_crosses_a_process_boundary(leaf: type[TidingsError], clone: Clone) -> None:
    error = leaf("No.", server="weather", method="tools/call", elapsed=1.5, data={"code": -32603})
    error.add_note("seen by the supervisor")

    twin = clone(error)

    assert type(twin) is leaf
    assert str(twin) == "No."
    assert vars(twin) == vars(error)
    assert twin.__notes__ == ["seen by the supervisor"]


def test_an_error_knows_nothing_that_nobody_told_it() -> None:
    error = errors.ConnectFailed("No.")
    assert (error.message, error.server, error.method, error.elapsed, error.data) == ("No.", None, None, None, None)


def test_mistakes_in_a_uri_or_filter_are_value_errors_too() -> None:
    assert issubclass(errors.InvalidUri, ValueError)
