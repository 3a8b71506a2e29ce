"""Hidden text: found, and its places in the Markdown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.web.extract.sample import SENTENCES, article
from tidings.web.extract.html.blocks import Node, PageBlock
from tidings.web.extract.html.hidden import hides
from tidings.web.extract.html.page import read_page
from tidings.web.extract.html.read import read_html
from tidings.web.extract.html.tree import parse
from tidings.web.extract.html.write import WrittenParts, hider_of, unmarked
from tidings.web.extract.model import Caps, Extracted, ExtractOptions

SECRET = "The keeper hides a second lamp behind the door."


def read(body: bytes, options: ExtractOptions | None = None) -> Extracted:
    return read_html(body, "utf-8", "https://harbour.example/", options or ExtractOptions())


def concealed(found: Extracted) -> list[str]:
    return [found.markdown[start:end] for start, end in found.concealed]


HIDING_STYLES = [
    "display:none",
    "DISPLAY : NONE !important",
    "visibility:hidden",
    "visibility: collapse",
    "content-visibility:hidden",
    "opacity:0",
    "opacity: 0.00; color: red",
    "opacity:.01",
    "font-size:0",
    "font-size: 1px",
    "font-size:0.5px",
    "color:transparent",
    "color: rgba(0, 0, 0, 0)",
    "color:rgb(0 0 0 / 0%)",
    "color:#fff0",
    "color:#FFF;background-color:white",
    "color: #abcdef; background: #abcdef",
    "color:rgb(255, 255, 255);background-color:#ffffff",
    "-webkit-text-fill-color: transparent",
    "clip:rect(0,0,0,0)",
    "clip: rect(1px, 1px, 1px, 1px); position: absolute",
    "clip-path:inset(50%)",
    "clip-path: circle(0)",
    "clip-path: polygon(0 0, 0 0, 0 0)",
    "position:absolute;left:-9999px",
    "position: fixed; top: -200vh",
    "position:absolute;right:-100em",
    "text-indent:-9999px",
    "text-indent:100%;white-space:nowrap;overflow:hidden",
    "margin-left:-5000px",
    "transform: translateX(-9999px)",
    "transform:scale(0)",
    "height:0;overflow:hidden",
    "width:1px;height:1px;overflow:hidden",
    "max-height: 0px; overflow: clip",
]
SHOWING_STYLES = [
    "",
    ";;:",
    "display:block",
    "visibility:visible",
    "opacity:0.5",
    "opacity:1",
    "opacity:",
    "opacity:-",
    "font-size:10px",
    "font-size:1em",
    "font-size:1.1px",
    "color:red;background-color:blue",
    "color:#fff",
    "background-color:transparent",
    "color:transparent;background-clip:text",
    "-webkit-text-fill-color:transparent;-webkit-background-clip:text",
    "clip:auto",
    "clip:rect(0,100px,100px,0)",
    "clip-path:circle(50%)",
    "clip-path: polygon(0 0, 100% 0, 100% 100%)",
    "position:absolute;left:-10px;top:0",
    "left:-9999px",
    "text-indent:-1em",
    "margin-left:-100%",
    "margin-top:-20px",
    "transform:translateX(-50%)",
    "height:0",
    "overflow:hidden;height:100px",
    "border:none;outline:0",
]


@pytest.mark.parametrize("style", HIDING_STYLES)
def test_a_style_hides(style: str) -> None:
    assert hides(style)
    found = read(article(f'<p style="{style}">{SECRET}</p>'))
    assert found.hidden == (SECRET,)
    assert concealed(found) == [SECRET]


@pytest.mark.parametrize("style", SHOWING_STYLES)
def test_a_style_shows(style: str) -> None:
    assert not hides(style)
    found = read(article(f'<p style="{style}">{SECRET}</p>'))
    assert found.hidden == ()
    assert found.concealed == ()


@pytest.mark.parametrize(
    "rule",
    [
        ".x{display:none}",
        "p.x { Visibility: Hidden }",
        "#y{opacity:0}",
        "p#y{opacity:0}",
        ".a, .X ,.b{font-size:0}",
        ".x{position:absolute;left:-9999px}",
        "/* .x{display:block} */ .x /* here */ {display:none}",
        "@import 'a.css'; .x{display:none}",
        "@media print{.x{color:red}.b{color:red}} .x{display:none}",
        "@media screen{.b{color:red}.x{display:none}}",
        "@layer a{@supports (a:b){.x{display:none}}}",
        "}}.x{display:none}",
        "<!-- .x{display:none} -->",
        ".x{display:block}.x{display:none}",
    ],
)
def test_a_rule_of_the_page_hides(rule: str) -> None:
    found = read(article(f"<p class='b x' id=y>{SECRET}</p>", f"<style>{rule}</style>"))
    assert SECRET in found.hidden
    assert concealed(found) == [SECRET]


@pytest.mark.parametrize(
    "rule",
    [
        ".x{display:block}",
        ".x{display:none}.x{display:flex}",
        ".x:hover{display:none}",
        ".menu .x{display:none}",
        ".x.z{display:none}",
        "@media print{.x{display:none}}",
        "@media (max-width:600px){.b{color:red}.x{display:none}}",
        "@media print{@media screen{.x{display:none}}}",
        "/* .x{display:none} */",
        "/* .x{display:none}",
        ".z{display:none}#z{display:none}",
        "{display:none}",
        ".x",
        "",
        ".z{}" * 60_000 + ".x{display:none}",
    ],
)
def test_a_rule_that_is_for_something_else_hides_nothing(rule: str) -> None:
    found = read(article(f"<p class='b x' id=y>{SECRET}</p>", f"<style>{rule}</style>"))
    assert found.hidden == ()
    assert found.concealed == ()


def test_rules_for_print_hide_nothing() -> None:
    assert read(article(f"<p class=x>{SECRET}</p>", "<style media=print>.x{display:none}</style>")).hidden == ()


@pytest.mark.parametrize("kept", ["aria-hidden=true", "class='note sr-only'", "class=Visually-Hidden"])
def test_what_only_some_readers_get_is_told_of_and_not_called_concealed(kept: str) -> None:
    found = read(article(f"<p {kept}>{SECRET}</p>"))
    assert found.hidden == (SECRET,)
    assert SECRET in found.text
    assert found.concealed == ()


@pytest.mark.parametrize(
    ("inner", "parts"),
    [
        ("<ul><li>one</li><li hidden>two <b>three</b></li></ul>", ["- two **three**"]),
        ("<ol><li>one <span {}>two</span> three</li><li>four</li></ol>", ["two"]),
        ("<p>See <span {}> two <a href=/x>three</a> </span> there.</p>", ["two [three](https://harbour.example/x)"]),
        ("<p>See <a href=/x>two <b {}>three</b> four</a>.</p>", ["three"]),
        ("<p><a href=/x {}>two</a> is one.</p>", ["two"]),
        ("<table><tr><td>a<td>b<tr><td {}>c|d<td>e</table>", ["c\\|d"]),
        ("<table hidden><tr><td>a<td>b<tr><td>c<td>e</table>", ["| a | b |\n| --- | --- |\n| c | e |"]),
        ("<pre>\n\nls\n<span hidden>two</span> three</pre>", ["two"]),
        ("<pre hidden>ls</pre>", ["```\nls\n```"]),
        ("<span {}><p>one two</p><p>three</p></span>", ["one two\n\nthree"]),
        ("<div hidden><p>one</p><p>two</p></div><div hidden>three</div>", ["one\n\ntwo", "three"]),
        ("<div hidden><p style='opacity:0'>one</p><p>two</p></div><p>three</p>", ["one\n\ntwo"]),
        ("<div>one two<p hidden>three</p>four</div>", ["three"]),
        ("<p>one <span {}><!-- --> </span><span {}>two</span> three</p>", ["two"]),
        ("<p>Before <span {}># not</span> after</p>", ["# not"]),
    ],
)
def test_the_places_of_hidden_text_are_exact(inner: str, parts: list[str]) -> None:
    style = "style='color:transparent'"
    found = read(article(f"<h2>Lamps</h2>{inner.replace('{}', style)}"))
    assert concealed(found) == parts
    plain = read(article(f"<h2>Lamps</h2>{inner.replace('{}', 'style=color:red')}".replace(" hidden", "")))
    # What is hidden in code, or as a block, is written as if it were not.
    assert plain.markdown == found.markdown


def test_words_that_are_hidden_very_deep_are_found() -> None:
    found = read(article("<div>" * 160 + "one <i hidden>two</i> <span>three</span>" + "</div>" * 160))
    assert concealed(found) == ["two"]
    assert "one two three" in found.text


def test_places_end_where_the_markdown_is_cut() -> None:
    page = article("".join(f"<p hidden>Hidden words number {number}.</p>" for number in range(500)))
    found = read(page, ExtractOptions(caps=Caps(characters=5_000)))
    assert found.concealed[-1][1] <= len(found.markdown) <= 5_000


def test_a_page_that_is_described_has_no_hidden_places() -> None:
    said = " ".join(SENTENCES[:2])
    found = read(f"<meta name=description content='{said}'><p hidden>x</p><input type=password>".encode())
    assert (found.method, found.markdown, found.concealed) == ("described", said, ())


def told(body: bytes) -> tuple[str, ...]:
    return read_page(body, "https://harbour.example/").hidden


def test_hidden_parts_are_told_of_once_without_scripts() -> None:
    found = told(
        b"<div hidden>one<p style='display:none'>two</p><script>three</script>four <b>fi</b>ve</div>"
        b"<script hidden>six</script><p hidden> </p>"
    )
    assert found == ("one two four five",)


def test_what_stands_in_a_template_is_not_told_of_and_what_is_very_deep_is() -> None:
    assert told(b"<template><p hidden>one</p></template><noscript><p hidden>two</p></noscript>") == ()
    assert told(b"<div>" * 200 + b"a<span hidden>three</span>") == ("three",)
    assert told(b"<body style='display:none'><p>four</p>") == ("four",)


def test_hidden_parts_are_bounded() -> None:
    found = told(b"".join(b"<p hidden>word %d</p><p hidden>word</p>" % number for number in range(500)))
    assert len(found) == 200
    found = told(b"<p hidden>" + b"word " * 1_000 + b"</p>" + b"<p hidden>" + b"<b>words </b>" * 1_000 + b"</p>")
    assert [len(one) // 100 for one in found] == [19, 19]
    found = told(b"".join(b"<p hidden>%d " % number + b"word " * 500 + b"</p>" for number in range(100)))
    assert sum(map(len, found)) < 42_000


def test_thousands_of_hidden_parts_are_told_of_in_one_pass() -> None:
    found = read(article("<div hidden>x</div>" * 20_000))
    assert found.hidden == ("x",)
    assert len(found.concealed) == 10_000
    assert SENTENCES[0] in found.text


def test_places_that_touch_are_put_together_only_within_one_element_or_where_there_are_very_many() -> None:
    one, other = parse(b"<p>a"), parse(b"<p>b")
    kept = WrittenParts()
    for hider in (one, one, other, None):
        kept.add("\n\n", "text", [(0, 4)], hider)
    assert kept.finished() == ("text\n\ntext\n\ntext\n\ntext", [(0, 10), (12, 16), (18, 22)])
    kept.add("\n", "  ", [(0, 2)])
    assert kept.finished()[1] == [(0, 10), (12, 16), (18, 22)]


def test_a_page_cannot_end_a_hidden_part_with_a_mark_of_its_own() -> None:
    found = read(b"<p>It is shown, <span style='opacity:.01'>&#xfdd1;and not &#xfdd0;seen</span> by anyone.</p>")
    assert concealed(found) == ["and not seen"]


def test_a_hidden_line_cannot_become_a_heading() -> None:
    found = read(b"<p>It is shown,<br><span style='opacity:.01'># and not seen</span> by anyone.</p>")
    assert "\n\\# and not seen" in found.markdown


def test_a_link_that_ends_in_a_hidden_part_belongs_to_it() -> None:
    assert unmarked("a [b \ufdd0c](u) d\ufdd1") == ("a [b c](u) d", [(2, 12)])
    assert unmarked("\ufdd0[b\ufdd1 c") == ("[b c", [(0, 2)])


def test_blocks_that_two_elements_hide_have_no_one_veil() -> None:
    one, other = parse(b"<p>a"), parse(b"<p>b")
    blocks = [PageBlock(Node(one, "p", None, 0, 0, "p"), "a", 1, 0, ["a"], []) for _ in range(2)]
    assert hider_of(blocks) is None
    blocks[0].hidden_spans = blocks[1].hidden_spans = [(0, 1, one)]
    assert hider_of(blocks) is one
    blocks[1].hidden_spans = [(0, 1, other)]
    assert hider_of(blocks) is None


@given(st.text(max_size=200))
def test_any_style_and_any_rules_can_be_read(text: str) -> None:
    assert isinstance(hides(text), bool)
    kept = text.replace("<", "").encode("utf-8", "replace")
    assert told(b"<style>" + kept + b"</style><p class=x>y") in {(), ("y",)}


@pytest.mark.parametrize("unit", ["/*", "{", "}", ".x{", "@layer{", "@media screen{.x{display:none}", ".x,", ";"])
def test_long_rules_of_one_thing_are_read_in_one_pass(unit: str) -> None:
    rules = (unit * (200_000 // len(unit))).encode()
    assert told(b"<style>" + rules + b"</style><p class=x>y") in {(), ("y",)}
