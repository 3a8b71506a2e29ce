"""Blocks and their features."""

import math

import pytest

from tests.web.extract.sample import article
from tidings.web.extract.html.blocks import Blocks
from tidings.web.extract.html.features import _DATA, NAMES, block_features, page_features, worth  # pyright: ignore[reportPrivateUsage]
from tidings.web.extract.html.page import read_page, types_of
from tidings.web.extract.html.tree import parse
from tidings.web.extract.html.vocabulary import (
    FOOTER,
    FORM,
    GROUPS,
    MAIN,
    MUTE,
    NAV,
    UNSEEN,
    _groups,  # pyright: ignore[reportPrivateUsage]
    groups_of,
    words_of,
)

URL = "https://harbour.example/"


def blocks(body: str) -> Blocks:
    root = parse(f"<body>{body}</body>".encode()).find("body")
    assert root is not None
    return Blocks(root)


def test_inline_markup_does_not_end_a_run_and_blocks_do() -> None:
    found = blocks("a <b>b</b> c<div>d<p>e</p>f</div>g<br>h")
    assert [block.text for block in found.blocks] == ["a b c", "d", "e", "f", "g h"]
    assert [block.node.tag for block in found.blocks] == ["body", "div", "p", "div", "body"]


def test_what_is_not_shown_is_no_text() -> None:
    assert not blocks("<script>a</script><style>b</style><svg><text>c</text></svg><select><option>d</select>").blocks


def test_the_words_in_links_are_counted_in_every_block_of_a_link() -> None:
    found = blocks("<p>one <a href=x>two three</a></p><a href=y><p>four</p> five</a><p>six</p>")
    assert [(block.words, block.links) for block in found.blocks] == [(3, 2), (1, 1), (1, 1), (1, 0)]
    assert (found.root.words, found.root.links) == (6, 4)


@pytest.mark.parametrize(
    ("markup", "meaning"),
    [
        ("<nav>x</nav>", NAV),
        ("<div role=navigation>x</div>", NAV),
        ("<footer>x</footer>", FOOTER),
        ("<div role=main>x</div>", MAIN),
        ("<div role=search>x</div>", FORM),
        ("<div hidden>x</div>", UNSEEN),
        ("<div style='color:red; Display: none'>x</div>", UNSEEN),
        ("<div style='visibility:hidden'>x</div>", UNSEEN),
        ("<div style='color:red'>x</div>", 0),
        ("<div aria-hidden=true>x</div>", MUTE),
        ("<div aria-hidden=false role=other>x</div>", 0),
    ],
)
def test_containers_say_what_they_are(markup: str, meaning: int) -> None:
    assert blocks(markup).blocks[0].node.semantics == meaning


def test_names_are_taken_apart() -> None:
    assert words_of("siteNav footer-links post_12 a b2 CTA") == ["site", "nav", "footer", "links", "post", "cta"]


def test_names_belong_to_groups() -> None:
    def of(word: str) -> set[str]:
        return {name for bit, (name, _) in enumerate(GROUPS) if groups_of([word]) >> bit & 1}

    assert of("navbar") == {"navigation"}
    assert of("shadow") == set()
    assert "advert" in of("ads")


def test_words_without_end_are_forgotten() -> None:
    assert _groups.cache_info().maxsize
    assert all(groups_of([f"sidebar{letter}"]) == groups_of(["sidebar"]) for letter in "abcdefg")


def test_every_block_has_every_feature() -> None:
    page = read_page(article(), URL)
    rows = block_features(page, {"entry": 0.9, "nav": 0.1}, {"privacy": 0.0})
    assert len(rows) == len(page.blocks.blocks)
    assert {len(row) for row in rows} == {len(NAMES)}
    at = NAMES.index("near worth least")
    assert rows[0][at] == 0.1
    assert rows[6][at] == 0.9


def test_a_page_without_blocks_has_no_rows_and_all_its_features() -> None:
    empty, full = read_page(b"<body></body>", URL), read_page(article(), URL)
    assert block_features(empty, {}, {}) == []
    assert len(page_features(empty)) == len(page_features(full))


def test_a_price_is_counted_once_a_block_and_never_across_two() -> None:
    def prices(body: bytes) -> float:
        return page_features(read_page(body, URL))[-len(_DATA["phrases"]) - 2]

    assert prices(b"<p>$ 5 or $ 6</p><p>7 USD</p>") == pytest.approx(math.log1p(2))
    assert prices(b"<p>$</p><p>5</p>") == 0


def test_attributes_are_noted_in_the_order_of_the_page() -> None:
    noted = blocks("<p itemtype=a>x <a rel=author href=y>y</a></p><i itemtype=b>z</i>").noted
    assert [value for _, value in noted["itemtype"]] == ["a", "b"]
    assert [(element.tag, value) for element, value in noted["rel"]] == [("a", "author")]


def test_the_worth_of_words_is_that_of_those_that_have_one() -> None:
    assert worth(["a", "b", "c"], {"a": 0.25, "b": 0.75}) == (0.25, 0.75, 1.0, 2)
    assert worth(["c"], {"a": 0.25}) == (1.0, 0.0, 0.0, 0)


def test_very_deep_text_is_one_run() -> None:
    found = blocks("<div>" * 400 + "a<p>b</p>" + "</div>" * 400)
    assert [block.text for block in found.blocks] == ["a b"]


def test_links_are_relative_to_the_base_of_the_page() -> None:
    assert read_page(b"<head><base><base href='/deep/'></head><p>x", URL).base == "https://harbour.example/deep/"
    assert read_page(b"<head><base href='http://[bad'></head><p>x", URL).base == URL


def test_the_types_a_page_names_are_known() -> None:
    data = '[{"@type": ["Article", 7], "author": {"@type": "Person"}}, {"@type": {}}, 3]'
    page = read_page(f"<script type='application/ld+json'>{data}</script><p>x".encode(), URL)
    assert [name for one in page.data for name in types_of(one)] == ["Article", "Person"]


def test_other_parts_of_media_are_no_text() -> None:
    assert [block.text for block in blocks("<p>a<wbr><input value=x>b</p>").blocks] == ["ab"]
