"""CSS selectors of parts to remove."""

import pytest

from tidings.web.extract.html.selectors import BadSelector, remove
from tidings.web.extract.html.tree import parse

PAGE = (
    b"""<body><div id=top class="a b">1</div><p class=b>2</p><section><p data-x=y>3</p><div><p>4</p></div></section>"""
)


def left(*selectors: str) -> str:
    root = parse(PAGE)
    remove(root, selectors)
    return "".join("".join(root.itertext()).split())


@pytest.mark.parametrize(
    ("selector", "rest"),
    [
        ("#top", "234"),
        (".b", "34"),
        ("p.b", "134"),
        ("p", "1"),
        ("section p", "12"),
        ("section > p", "124"),
        ("section>div", "123"),
        ("[data-x]", "124"),
        ("[data-x=y]", "124"),
        ('p[data-x="z"]', "1234"),
        ("div.a.b, section > p", "24"),
        ("*", ""),
        ("section, section p", "12"),
    ],
)
def test_what_matches_is_gone(selector: str, rest: str) -> None:
    assert left(selector) == rest


@pytest.mark.parametrize("selector", ["", "p:first-child", "a + b", "p[", "..x", "div >", "'x'"])
def test_what_is_not_understood_is_said(selector: str) -> None:
    with pytest.raises(BadSelector, match="not supported"):
        left(selector)


def test_the_text_behind_what_is_gone_stays() -> None:
    root = parse(b"<body><p>a<i>b</i>c<b>d</b>e<i>f</i>g</p>")
    remove(root, ["i"])
    assert "".join(root.itertext()) == "acdeg"
