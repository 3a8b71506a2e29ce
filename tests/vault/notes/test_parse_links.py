"""Which parts of a note are links, and what they say, by Obsidian's rules: a line of the table for each rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.vault.notes.parse import parse

Found = tuple[str, str, str, str | None]


def wiki(target: str, subpath: str = "", shown: str | None = None) -> Found:
    return ("[[]]", target, subpath, shown)


def embed(target: str, subpath: str = "", shown: str | None = None) -> Found:
    return ("![[]]", target, subpath, shown)


def link(target: str, subpath: str = "", shown: str = "x") -> Found:
    return ("[]()", target, subpath, shown)


def image(target: str, subpath: str = "", shown: str = "x") -> Found:
    return ("![]()", target, subpath, shown)


def defined(target: str, subpath: str = "", shown: str = "x") -> Found:
    return ("[]:", target, subpath, shown)


def held(target: str, subpath: str = "", shown: str | None = None) -> Found:
    return ("property", target, subpath, shown)


LINKS: dict[str, list[Found]] = {
    # Wiki links.
    "[[N]]": [wiki("N")],
    "[[N.md]] [[a/b/N]] [[ N ]]": [wiki("N.md"), wiki("a/b/N"), wiki("N")],
    "[[N#H]] [[N#H1#H2]] [[N#^b]] [[#H]]": [wiki("N", "#H"), wiki("N", "#H1#H2"), wiki("N", "#^b"), wiki("", "#H")],
    "[[N|s]] [[N#H|s t]] [[N|]] [[N|a|b]]": [
        wiki("N", "", "s"),
        wiki("N", "#H", "s t"),
        wiki("N", "", ""),
        wiki("N", "", "a|b"),
    ],
    "|[[N\\|s]]|[[M]]|": [wiki("N", "", "s"), wiki("M")],
    "[[N\\s]] [[N\\]]": [wiki("N\\s"), wiki("N\\")],
    "![[x.png]] ![[x.png|100x200]] ![[d.pdf#page=3]]": [
        embed("x.png"),
        embed("x.png", "", "100x200"),
        embed("d.pdf", "#page=3"),
    ],
    "![[N#^b|s]]": [embed("N", "#^b", "s")],
    "[[Sq]uare]] [[a[b]]": [wiki("Sq]uare"), wiki("a[b")],
    "[[https://x.org]]": [wiki("https://x.org")],
    "[[]] [[|x]] [[#]] [[ ]]": [],
    "[[a\nb]] [[open": [],
    "[[a [[b]] c]]": [wiki("b")],
    "[[N]]]": [wiki("N")],
    "[[[N]]]": [wiki("N")],
    "[[日本|é]]": [wiki("日本", "", "é")],
    r"\[[N]] [\[N]]": [],
    r"\![[N]]": [wiki("N")],
    r"\\[[N]]": [wiki("N")],
    "text[[N]]text": [wiki("N")],
    # Links of Markdown.
    "[x](N.md)": [link("N.md")],
    "[x](N%20y.md) [x](%C3%A9.md) [x](100%.md)": [link("N y.md"), link("é.md"), link("100%.md")],
    "[x](a/N.md#H%20i) [x](#H) [x](N.md#^b) [x](N.md#)": [
        link("a/N.md", "#H i"),
        link("", "#H"),
        link("N.md", "#^b"),
        link("N.md"),
    ],
    "[x](<N y.md>) [x](<N y.md#H i>) [x](<>)": [link("N y.md"), link("N y.md", "#H i")],
    "[x](N.md \"t\") [x](N.md 't') [x](N.md (t)) [x]( N.md )": [link("N.md")] * 4,
    "[x](N(1).md) [x](N((1)).md) [x](N\\).md)": [link("N(1).md"), link("N((1)).md"), link("N).md")],
    "[x](N y.md) [x](N.md x) [x]() [x](N.md": [],
    "![x](i.png) ![](i.png) ![x|100](i.png)": [image("i.png"), image("i.png", "", ""), image("i.png", "", "x|100")],
    "[![x](i.png)](n.md)": [link("n.md", "", "![x](i.png)"), image("i.png")],
    "[a [x](b.md) c](d.md)": [link("b.md")],
    "[a [b] c](d.md)": [link("d.md", "", "a [b] c")],
    "[a\nb](c.md)": [link("c.md", "", "a\nb")],
    "[a\n\nb](c.md)": [],
    "](c.md) a](c.md)": [],
    "[a] (c.md)": [],
    # Definitions, which any number of `[text][a]` may use.
    "[a]: c.md": [defined("c.md", "", "a")],
    '[a]: <c d.md> \'title\'\n[b]:\n  c%20d.md#H\n  "ti\\"t\nle"': [
        defined("c d.md", "", "a"),
        defined("c d.md", "#H", "b"),
    ],
    "# H\n[a]: c.md\n\n> [b]: d.md\n\n- x\n- [c]: e.md\n\n[d\ne]: f.md": [
        defined("c.md", "", "a"),
        defined("d.md", "", "b"),
        defined("e.md", "", "c"),
        defined("f.md", "", "d\ne"),
    ],
    "[a][b] [b][] [b]\n\n[b]: #H #tag\n\n[b]: #H": [defined("", "#H", "b")],
    "text\n[a]: c.md": [],
    "[a]: c.md d\n\n[b]: https://x.org\n\n[ ]: c.md\n\n[^1]: c.md\n\n\\[a]: c.md\n\n[a\n\nb]: c.md": [],
    "```\n[a]: c.md\n```\n[b]: d.md\n\n    [c]: e.md": [defined("d.md", "", "b")],
    '[x](\nc.md\n "t\\"" ) [x](<c\\>d.md>)': [link("c.md"), link("c>d.md")],
    r"\[x](c.md) [x\](c.md) [x]\(c.md)": [],
    r"[a\]b](c.md)": [link("c.md", "", r"a\]b")],
    "[a]b](c.md)": [],
    "[`]`](c.md)": [link("c.md", "", "`]`")],
    # What leads out of the vault.
    "[x](https://x.org/a.md) [x](mailto:a@b) [x](obsidian://open) [x](//x.org) ![x](http://x/i.png)": [],
    "[x](<https://x.org/a b>) <https://x.org> https://x.org": [],
    "[^1] [^1](a.md) [^1]: a ^[b]": [],
    # Both.
    "[x](a.md) [[b]]": [link("a.md"), wiki("b")],
    "[[b]] [x](a.md)": [wiki("b"), link("a.md")],
    "[[b]](a.md)": [wiki("b")],
    # Where there are none.
    "`[[N]]` `[x](a.md)` [[M]]": [wiki("M")],
    "```\n[[N]]\n```\n[[M]]": [wiki("M")],
    "%%[[N]]%% [[M]]": [wiki("M")],
    "<!-- [[N]] --> \n[[M]]": [wiki("M")],
    "$[[N]]$ [[M]]": [wiki("M")],
    "<div>[[N]]</div>\n\n[[M]]": [wiki("M")],
    "    [[N]]\n\n[[M]]": [wiki("M")],
    # What is in a link opens nothing else.
    "[[US$]] and [[A$]]": [wiki("US$"), wiki("A$")],
    "[[a%%b]] [[c%%d]]": [wiki("a%%b"), wiki("c%%d")],
    "[[a`b]] [[c`d]]": [wiki("a`b"), wiki("c`d")],
    "[[a<b]] [[c>d]]": [wiki("a<b"), wiki("c>d")],
    "[x](a$b.md) [x](c$d.md)": [link("a$b.md"), link("c$d.md")],
    "[x](a`b.md) [x](c`d.md": [link("a`b.md")],
    "[[a$b [[c$d": [],
    # Properties.
    '---\nup: "[[N]]"\n---\n[[M]]': [held("N"), wiki("M")],
    '---\nup:\n  - "[[N#H|s]]"\n  - "[[O]]"\n---\n': [held("N", "#H", "s"), held("O")],
    "---\nup: '[[It''s]]'\nx: \"[[a \\\"b\\\"]]\"\n---\n": [held("It's"), held('a "b"')],
    "---\na:\n  b:\n    - '[[N]]'\n---\n": [held("N")],
    "---\nup: |\n  [[N]]\n---\n": [held("N")],
    '---\n{"up": "[[N]]"}\n---\n': [held("N")],
    '---\nup: "see [[N]]"\n---\n': [],
    "---\nup: [[N]]\n---\n": [],
    '---\nup: "[[]]"\n---\n': [],
    '---\nup: "[x](N.md)"\n---\n': [],
}


@pytest.mark.parametrize("text", LINKS)
def test_these_are_the_links_of_a_text(text: str) -> None:
    kinds = {"wiki": "[[]]", "markdown": "[]()", "reference": "[]:", "property": "property"}
    found = [
        ("!" * link.embed + kinds[link.kind], link.target, link.subpath, link.shown) for link in parse(text, "n").links
    ]
    assert found == LINKS[text]


@pytest.mark.parametrize("text", LINKS)
@pytest.mark.parametrize("before", ["", "\ufeff", "---\nup: x\n---\n", "é😀\r\n\r\n"])
def test_a_link_stands_where_it_says(text: str, before: str) -> None:
    if text.startswith("---"):
        before = ""
    text = before + text
    for link in parse(text, "n.md").links:
        written = text[link.start : link.end]
        assert written.startswith("![" if link.embed else "[")
        assert link.kind == "reference" or written.endswith(")" if link.kind == "markdown" else "]]")
        assert text.count("\n", 0, link.start) + 1 == link.line


@given(st.text("[]()!|#\\`$%<> \nax.:/\"'^-", max_size=40))
def test_whatever_the_text_links_lie_within_it_in_their_order(text: str) -> None:
    links = parse(text, "n.md").links
    assert [link.start for link in links] == sorted(link.start for link in links)
    for link in links:
        assert link.target or link.subpath
        written = text[link.start : link.end]
        assert written.startswith("![" if link.embed else "[")
        assert link.kind == "reference" or written.endswith((")", "]]"))
