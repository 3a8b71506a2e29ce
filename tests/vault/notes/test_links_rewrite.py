"""Giving links another target changes nothing but the target."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.vault.notes.links import rewrite
from tidings.vault.notes.model import NoteLink
from tidings.vault.notes.parse import parse


def rewritten(text: str, target: str) -> str:
    return rewrite(text, parse(text, "n.md").links, lambda link: target)


REWRITTEN = [
    ("[[N]]", "A b", "[[A b]]"),
    ("[[ N ]]", "A", "[[ A ]]"),
    ("![[N#H|s]] ![[x.png|10]]", "A", "![[A#H|s]] ![[A|10]]"),
    ("| [[N\\|s]] |", "A", "| [[A\\|s]] |"),
    ("[[#H]]", "A", "[[A#H]]"),
    ("[x](N.md)", "A b.md", "[x](A%20b.md)"),
    ("[x](N.md#H%20i 't')", "A.md", "[x](A.md#H%20i 't')"),
    ("[x](<N y.md#H>)", "A b.md", "[x](<A b.md#H>)"),
    ("[x](<N>)", "a<b>.md", "[x](<a%3Cb%3E.md>)"),
    ("![x](i.png)", "A (1).png", "![x](A%20(1).png)"),
    ("[x](N.md)", "A ).md", "[x](A%20%29.md)"),
    ("[x](N.md)", "50% é: #1.md", "[x](50%25%20é%3A%20%231.md)"),
    ("[x](#H)", "A.md", "[x](A.md#H)"),
    ("[x](a\\#b)", "A", "[x](A\\#b)"),
    ("[x](a(b)#(c))", "A", "[x](A#(c))"),
    ("[![x](i.png)](n.md) [[b]]", "A", "[![x](A)](A) [[A]]"),
    ("é😀 [[N]]\r\n[[M]]", "A", "é😀 [[A]]\r\n[[A]]"),
    ("---\nup: '[[N|s]]'\n---\n", "It's", "---\nup: '[[It''s|s]]'\n---\n"),
    ('---\nup: "[[N#H]]"\n---\n[[M]]', 'a "b"\\c', '---\nup: "[[a \\"b\\"\\\\c#H]]"\n---\n[[a "b"\\c]]'),
    ("---\nup: |\n  [[N]]\n---\n", "It's", "---\nup: |\n  [[It's]]\n---\n"),
    ("[a]: N.md\n[b]: <N y.md#H> 't'\n[c]:\n N.md", "A b.md", "[a]: A%20b.md\n[b]: <A b.md#H> 't'\n[c]:\n A%20b.md"),
    # What cannot be written there.
    ("[x](a(b#c).md)", "A", "[x](a(b#c).md)"),
    ("[[N]] [x](N.md)", "a#b", "[[N]] [x](a%23b)"),
    ("[[N]] [x](N.md)", "a|b", "[[N]] [x](a|b)"),
    ("[[N]]", "a]]b", "[[N]]"),
]


@pytest.mark.parametrize(("text", "target", "expected"), REWRITTEN)
def test_a_link_gets_another_target(text: str, target: str, expected: str) -> None:
    assert rewritten(text, target) == expected


def test_links_that_are_to_stay_stay() -> None:
    text = "[[a]] [x](b.md) [[c]]"
    links = parse(text, "n.md").links
    assert rewrite(text, links, lambda link: None) == text
    assert rewrite(text, links, lambda link: "B.md" if link.kind == "markdown" else None) == "[[a]] [x](B.md) [[c]]"


def test_links_of_another_text_are_refused() -> None:
    with pytest.raises(ValueError, match="no link"):
        rewrite("something else", parse("[x](a.md)", "n").links, lambda link: "b")


targets = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="#|[]\\"), min_size=1).filter(
    lambda text: text == text.strip()
)
subpaths = st.sampled_from(["", "#H", "#H1#H2", "#^b"])
shown = st.sampled_from(["", "|s", "|a b|c", "|"])
wiki = st.builds(
    lambda mark, target, sub, text: f"{mark}[[{target}{sub}{text}]]",
    st.sampled_from(["", "!"]),
    targets,
    subpaths,
    shown,
)
bare = st.sampled_from(["N.md", "a/N%20y.md", "N(1).md", "N\\).md"])
markdown = st.builds(
    lambda mark, text, target, sub, title: f"{mark}[{text}]({target}{sub}{title})",
    st.sampled_from(["", "!"]),
    st.sampled_from(["x", "", "a [b] c"]),
    bare,
    subpaths,
    st.sampled_from(["", ' "t"', " 't'"]),
)
angled = st.builds(lambda target, sub: f"[x](<{target}{sub}>)", st.sampled_from(["N y.md", "a/b c.md"]), subpaths)
words = st.sampled_from(
    ["\n\n[r]: N.md 't'\n\n", "text", "#tag", "\n", "\r\n\r\n", "- ", "`[[code]]`", "[^1]", "https://x.org/#a"]
)
texts = st.lists(wiki | markdown | angled | words, max_size=8).map(" ".join)
ends = st.sampled_from(["", "---\nup: \"[[N#H|s]]\"\nl:\n  - '[[M]]'\n---\n"])


@given(texts, ends)
def test_the_same_targets_leave_the_text_as_it_is(text: str, before: str) -> None:
    text = before + text
    assert rewrite(text, parse(text, "n.md").links, lambda link: link.target) == text


@given(texts, ends, targets)
def test_after_a_rewrite_the_links_differ_only_in_their_target(text: str, before: str, target: str) -> None:
    text = before + text
    links = parse(text, "n.md").links
    new = rewrite(text, links, lambda link: target)
    assert [_but_place(link) for link in parse(new, "n.md").links] == [
        _but_place(link._replace(target=target)) for link in links
    ]


def _but_place(link: NoteLink) -> NoteLink:
    return link._replace(start=0, end=0)
