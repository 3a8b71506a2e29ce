"""The learned model, and the blocks it keeps."""

import math
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.web.extract.html import choose
from tidings.web.extract.html.choose import Model, best_cut, compiled, loaded, model, shares
from tidings.web.extract.html.features import NAMES
from tidings.web.extract.html.read import read_html
from tidings.web.extract.model import ExtractOptions


def cut(likely: list[float], sizes: list[int], spread: float = 0.0) -> list[int]:
    return best_cut([math.log(one / (1 - one)) for one in likely], sizes, spread=spread)


def test_the_likely_are_kept_and_the_unlikely_are_not() -> None:
    assert sorted(cut([0.9, 0.1, 0.95, 0.05], [10, 10, 10, 10])) == [0, 2]


def test_more_is_kept_where_all_blocks_may_be_likelier_than_they_look() -> None:
    assert cut([0.9, 0.25], [10, 40]) == [0]
    assert cut([0.9, 0.25], [10, 40], spread=2.0) == [0, 1]


def test_where_all_is_doubtful_more_is_kept() -> None:
    assert len(cut([0.4, 0.35, 0.3], [10, 10, 10])) == 3
    assert len(cut([0.99, 0.4], [100, 10])) == 1


def test_nothing_is_kept_of_nothing() -> None:
    assert cut([], []) == []


chances = st.lists(st.tuples(st.floats(0.01, 0.99), st.integers(1, 50)), min_size=1, max_size=8)


@given(chances)
def test_no_other_cut_is_better(blocks: list[tuple[float, int]]) -> None:
    likely, sizes = [one for one, _ in blocks], [size for _, size in blocks]
    expected = sum(one * size for one, size in blocks)

    def worth(keep: list[int]) -> float:
        return 2 * sum(likely[k] * sizes[k] for k in keep) / (sum(sizes[k] for k in keep) + expected)

    order = sorted(range(len(blocks)), key=lambda index: -likely[index])
    best = max(worth(order[:number]) for number in range(1, len(order) + 1))
    assert worth(cut(likely, sizes)) == pytest.approx(best)


@pytest.mark.parametrize(
    ("head", "heading"),
    [
        ("<title>Status</title><body><main>", "<h1>Release 4.2</h1>"),
        ("<body>", "<h1>Release 4.2</h1>"),
        ("<title>Release 4.2 - Example</title><body><nav><a href=/>Home</a></nav>", "<h1>Release 4.2</h1>"),
        ("<title>Status</title><body>", "<h2>Release 4.2</h2>"),
    ],
)
def test_the_heading_of_what_is_kept_is_kept_however_short(head: str, heading: str) -> None:
    text = "<p>This page shows the state of our services in all regions, and is updated when something happens.</p>"
    found = read_html(f"{head}{heading}{text * 3}".encode(), None, "https://example.org/", ExtractOptions())
    assert found.text.startswith("Release 4.2\nThis page")


def test_a_headline_that_the_title_does_not_say_is_kept_wherever_it_stands() -> None:
    text = "<p>The harbour is open again since noon, said the harbour master to those who waited at the gate.</p>"
    page = f"<title>News</title><body><h1>All ferries late</h1><ul><li><a href=/>A</a></ul>{text * 4}"
    found = read_html(page.encode(), None, "https://example.org/", ExtractOptions())
    assert found.text.startswith("All ferries late\n")


def test_a_listing_is_kept_if_its_entries_are_named_like_what_stands_beside_a_text() -> None:
    entry = (
        '<div class="summary-item recirc"><h3><a href="/{0}">Story {0} of the harbour and of its boats</a></h3>'
        "<p>On the day {0} of the month, all ferries were late, and those who waited went home again.</p></div>"
    )
    entries = "".join(entry.format(number) for number in range(20))
    page = f"<title>Science</title><body><main><h1>Science</h1><div class=list>{entries}</div></main>"
    found = read_html(page.encode(), None, "https://example.org/category/science/", ExtractOptions())
    assert all(f"On the day {number} of" in found.text for number in range(20))


TREE = [0, 1.5, -1.0, [1, 0.5, 2, 3.0]]


@pytest.mark.parametrize(("row", "sum_"), [([1.5, 9], -1.0), ([2, 0.5], 2.0), ([2, 0.6], 3.0)])
def test_a_tree_leads_to_a_leaf(row: list[float], sum_: float) -> None:
    assert compiled([TREE, 0.25])(row) == sum_ + 0.25


@pytest.mark.parametrize("trees", range(8))
def test_compiled_trees_name_no_lines_which_take_long_to_trace(trees: int) -> None:
    code = compiled([TREE] * trees).__code__  # type: ignore[attr-defined]
    ranges = list(code.co_lines())
    assert {line for _, _, line in ranges} == {None}
    assert (ranges[0][0], ranges[-1][1]) == (0, len(code.co_code))


def test_shares_add_up() -> None:
    found = shares([compiled([0.0]), compiled([0.0, 1.0])], [])
    assert sum(found) == pytest.approx(1)
    assert found[1] > found[0]


def test_the_model_of_this_version_fits_its_features() -> None:
    assert len(model().kinds) == 7
    assert all(0 <= value <= 1 for value in model().names.values())


def test_a_model_for_other_features_is_refused() -> None:
    with pytest.raises(ValueError, match="fit it again"):
        loaded({"features": ["another"]})


def test_a_model_can_hold_nothing_but_numbers() -> None:
    with pytest.raises(ValueError, match="could not convert"):
        compiled(["__import__('os')"])  # type: ignore[list-item]


@pytest.mark.parametrize("said_before", [True, False])
def test_a_quote_is_restored_unless_most_of_it_is_said_where_it_was_taken_from(said_before: bool) -> None:
    words = "the bridge is too short for the river and for the road to it"
    first = f"I say that {words}." if said_before else "I say nothing about bridges, as nobody listens to me anyway."
    page = f"""<article><p>{first}</p></article><article><blockquote><p>alice said:</p><p>{words}</p></blockquote>
    <p>That is not what I see, it only looks so from there.</p></article>"""
    size = NAMES.index("words")
    fourteen = Model(lambda row: -5.0 if row[size] == math.log1p(14) else 5.0, lambda row: 0.0, model().kinds, {}, {})
    with mock.patch.object(choose, "model", return_value=fourteen):
        found = read_html(f"<body>{page}</body>".encode(), None, "https://forum.example.org/", ExtractOptions())
    assert found.text.count(words) == 1
    assert "not what I see" in found.text
