"""The blocks that are kept serve best together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.web.extract.html.choose import best_cut, smoothed
from tidings.web.extract.html.read import read_html
from tidings.web.extract.model import ExtractOptions


def test_the_likely_are_kept_and_the_unlikely_are_not() -> None:
    assert sorted(best_cut([0.9, 0.1, 0.95, 0.05], [10, 10, 10, 10])) == [0, 2]


def test_where_all_is_doubtful_more_is_kept() -> None:
    assert len(best_cut([0.4, 0.35, 0.3], [10, 10, 10])) == 3
    assert len(best_cut([0.99, 0.4], [100, 10])) == 1


def test_nothing_is_kept_of_nothing() -> None:
    assert best_cut([], []) == []


chances = st.lists(st.tuples(st.floats(0.01, 0.99), st.integers(1, 50)), min_size=1, max_size=8)


@given(chances)
def test_no_other_cut_is_better(blocks: list[tuple[float, int]]) -> None:
    likely, sizes = [one for one, _ in blocks], [size for _, size in blocks]
    expected = sum(one * size for one, size in blocks)

    def worth(keep: list[int]) -> float:
        return 2 * sum(likely[k] * sizes[k] for k in keep) / (sum(sizes[k] for k in keep) + expected)

    order = sorted(range(len(blocks)), key=lambda index: -likely[index])
    best = max(worth(order[:cut]) for cut in range(1, len(order) + 1))
    assert worth(best_cut(likely, sizes)) == pytest.approx(best)


def test_a_block_is_drawn_towards_its_neighbours() -> None:
    assert smoothed([1.0, -1.0, 1.0]) == pytest.approx([0.8, -0.6, 0.8])
    assert smoothed([]) == []
    assert smoothed([2.0]) == pytest.approx([2.0])


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
