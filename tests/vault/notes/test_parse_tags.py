"""Which words of a note are tags, by Obsidian's rules: a line of the table for each rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.vault.notes.parse import parse

TAGS = {
    # What a tag is made of.
    "#tag": ["tag"],
    "#Tag_1-b/c": ["Tag_1-b/c"],
    "#ünïcode #日本 #🎉 #🏷️/x": ["ünïcode", "日本", "🎉", "🏷️/x"],
    "#1984": [],
    "#1984/5 #y1984 #1-2": ["1984/5", "y1984", "1-2"],
    "#a.b #a:b #a,b #a!b": ["a", "a", "a", "a"],
    "#a'b #a\"b #a(b #a&b #a@b": ["a", "a", "a", "a", "a"],
    "#a/ #b// #/": ["a", "b"],
    "# #": [],
    "#": [],
    "##a": [],
    "#a #A": ["a", "A"],
    # What stands before it.
    "a #b": ["b"],
    "a#b": [],
    "x\t#a": ["a"],
    "\xa0#a \u3000#b": ["a", "b"],
    '(#a) "#b" .#c x—#d [#e] {#f} /#g -#h': [],
    "(see #a)": ["a"],
    "[x #a]": ["a"],
    "#a#b": ["a", "b"],
    "#a/#b": ["a", "b"],
    "#1#b": [],
    "x#a#b": [],
    "_#a_ *#b* **#c** ~~#d~~ ==#e==": ["a", "b", "c", "d", "e"],
    "snake_case_#a": ["a"],
    "x=#fff ~#a": [],
    ">#a": ["a"],
    "> #a": ["a"],
    "x>#a": [],
    "|a|b|\n|-|-|\n|#c|x|": ["c"],
    "a|#b": [],
    "- #a\n1. #b\n- [ ] #c": ["a", "b", "c"],
    "line\n#a\nline": ["a"],
    "line\r\n#a\r\n#b": ["a", "b"],
    r"\#a": [],
    r"\\#a": [],
    r"\\ #a": ["a"],
    # Headings.
    "# Heading #a": ["a"],
    "#no-heading": ["no-heading"],
    # Code.
    "`#a` #b": ["b"],
    "``#a ` #b`` #c": ["c"],
    "` #a #b": ["a", "b"],
    "a ` b #c\n\nd ` #e": ["c", "e"],
    "a ` b #c\n- d ` #e": ["c", "e"],
    "x `one\n#a two` #b": ["b"],
    r"\` #a `#b`": ["a"],
    "```\n#a\n```\n#b": ["b"],
    "```\r\n#a\r\n```\r\n#b": ["b"],
    "~~~\n#a\n```\n#b\n~~~\n#c": ["c"],
    "````\n#a\n```\n#b\n````\n#c": ["c"],
    "```\n#a\n`````\n#c": ["c"],
    "```py\n#a\n```js\n#b\n```\n#c": ["c"],
    "```\n#a": [],
    "``` a`b\n#c": ["c"],
    "- ```\n  #a\n  ```\n- #b": ["b"],
    "- [ ] ```\n#a\n```\n#b": ["b"],
    "> ```\n> #a\n> ```\n> #b": ["b"],
    "> ```\n> #a\n\n#b": ["b"],
    "x ```\n#a": ["a"],
    "~~~ #a": [],
    "a ~~~ #a": ["a"],
    "    #a": [],
    "\t#a\n\n\t#b": [],
    "para\n\n    #a\n    #b\n\n    #c\nx #d": ["d"],
    "para\n    #a": ["a"],
    "- item\n\n    #a\n\nend\n\n    #b": ["a"],
    "- item\n    #a": ["a"],
    "\t- #a": ["a"],
    # Mathematics.
    "$a #b$ #c": ["c"],
    "$ a #b $ #c": ["b", "c"],
    "$5 and #a or $6": ["a"],
    "$a #b$5": ["b"],
    "x $a #b\n\nc$ #d": ["b", "d"],
    r"\$a #b$": ["b"],
    "x $$ #a $$ #b": ["b"],
    "$$\n#a\n\n#b\n$$\n#c": ["c"],
    "$$ #a": ["a"],
    "x $$ #a\n\n$$ #b": ["a", "b"],
    # Comments.
    "%% #a %% #b": ["b"],
    "%%\n#a\n\n#b\n%%\n#c": ["c"],
    "%%\n#a": [],
    "100%% #a": ["a"],
    "100%% #a\n\n200%% #b": ["a", "b"],
    "50% #a %": ["a"],
    "a <!-- #b --> #c": ["c"],
    "<!-- #a --> #b\n#c": ["c"],
    "<!--\n#a\n\n#b\n-->\n#c": ["c"],
    "<!-- #a": [],
    "a <!-- #b": ["b"],
    "a <!-- #b\n\n<-- #c <!-- #d": ["b", "c", "d"],
    # HTML.
    "<div>\nhello #a\n</div>\n\n#b": ["b"],
    "<p>x #a</p>": [],
    "<details>\n#a": [],
    "<pre>\n#a\n\n#b\n</PRE> #c\n#d": ["d"],
    "<script>\n#a": [],
    "<span>\n#a\n\n#b": ["b"],
    "text\n<span>\n#a": ["a"],
    '<b title="x #a"> #b': ["b"],
    "a < b #c > d": ["c"],
    "<https://x.org/_#a> #b": ["b"],
    # Addresses and links.
    "https://x.org/#a https://x.org/_#b #c": ["c"],
    "[[N #a]] #b": ["b"],
    "[[N#a]] [[#b]] [[N|#c]]": [],
    "[Chat #a](https://x.org)": ["a"],
    "[a #b][ref]": ["b"],
    '[x](<a #b.md>) [x](a.md "t #c") #d': ["d"],
    "[x](a.md#b)": [],
    "[[open #a": ["a"],
    # Properties.
    "---\ntags: [a, b/c]\n---\n#d": ["a", "b/c", "d"],
    "---\ntags:\n  - a\n  - '#b'\n---\n": ["a", "b"],
    "---\ntags: a, b #no\n---\n": ["a", "b"],
    "---\ntags: '#a b'\n---\n": ["a", "b"],
    "---\nTags: a\n---\n": ["a"],
    "---\ntags: ['two words', 2024, 'x!', '', null, 'y']\n---\n": ["y"],
    "---\ntags: 2024\n---\n": [],
    "---\ntags:\n---\n": [],
    '---\n{"tags": ["a", "b"]}\n---\n': ["a", "b"],
    '---\ntags: ["caf\\xe9"]\n---\n': ["café"],
    "---\ntag: a\n---\n": [],
    "---\ntags: [a\n---\n#b": ["b"],
    "---\ntags: a\n#b": ["b"],
    " ---\ntags: [a]\n---\n#b": ["b"],
}


@pytest.mark.parametrize("text", TAGS)
def test_these_are_the_tags_of_a_text(text: str) -> None:
    assert [tag.name for tag in parse(text, "n.md").tags] == TAGS[text]


@pytest.mark.parametrize("text", TAGS)
@pytest.mark.parametrize("before", ["", "\ufeff", "---\nup: x\n---\n"])
def test_a_tag_stands_where_it_says(text: str, before: str) -> None:
    if text.startswith("---"):
        before = ""
    text = before + text
    for tag in parse(text, "n.md").tags:
        if tag.start == tag.end:  # Written with escapes.
            assert tag.name == "café"
            continue
        assert text[tag.start : tag.end] == tag.name
        assert text.count("\n", 0, tag.start) + 1 == tag.line


def test_a_tag_of_a_property_is_found_among_words_that_hold_it() -> None:
    text = "---\nx: a\ntags: [ab, a-b, a]\n---\n"
    assert [tag.start for tag in parse(text, "n.md").tags] == [text.index("ab"), text.index("a-b"), text.index("a]")]


@given(st.text("a#/1_ \n\t`$%<>-\\[]()|é😀", max_size=30))
def test_what_is_said_to_be_a_tag_is_one(text: str) -> None:
    for tag in parse(text, "n.md").tags:
        assert text[tag.start - 1] == "#"
        assert text[tag.start : tag.end] == tag.name
        assert not tag.name.isdigit()
        assert not set(tag.name) & set("# \n\t`$%<>\\[]()|")


@given(st.lists(st.sampled_from(["#a", "#b/c", "word", "\n", "\n\n", "# H", "`#no`", "[[#no]]"]), max_size=12))
def test_tags_are_counted_one_by_one_in_their_order(words: list[str]) -> None:
    expected = [word[1:] for word in words if word in ("#a", "#b/c")]
    assert [tag.name for tag in parse(" ".join(words), "n.md").tags] == expected
