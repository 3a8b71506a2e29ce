"""Canvases: the files that they show, the links in their texts, and their words."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.vault.notes.canvas import canvas_links, canvas_outline, canvas_rewrite, canvas_text

CANVAS = """{
\t"nodes":[
\t\t{"id":"1","type":"file","file":"A/B \\u00e9.md","subpath":"#H","x":1.50},
\t\t{"id":"2","type":"text","text":"# T\\nsee [[X|y]], ![[i.png]] and [a](b.md) `[[no]]`"},
\t\t{"id":"3","type":"group","label":"Group"},
\t\t{"id":"4","type":"link","url":"https://x.org"},
\t\t{"id":"5","type":"file","file":"i.png"}, 7, {"type":"file","file":7}, {"type":"text"}
\t],
\t"edges":[{"id":"e","fromNode":"1","toNode":"2","label":"leads to"}]
}"""


def test_shown_files_and_links_in_texts_are_links() -> None:
    assert [(link.kind, link.embed, link.target, link.subpath, link.shown) for link in canvas_links(CANVAS)] == [
        ("canvas", True, "A/B é.md", "#H", None),
        ("wiki", False, "X", "", "y"),
        ("wiki", True, "i.png", "", None),
        ("markdown", False, "b.md", "", "a"),
        ("canvas", True, "i.png", "", None),
    ]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_links_stand_where_their_text_stands(mark: str) -> None:
    text = mark + CANVAS
    for link in canvas_links(text):
        assert link.target in json.loads(text[link.start : link.end])
        assert text.count("\n", 0, link.start) + 1 == link.line


def test_the_words_of_a_canvas_can_be_searched() -> None:
    words = canvas_text(CANVAS)
    for word in ("B é.md", "see [[X", "Group", "https://x.org", "leads to"):
        assert word in words


def test_a_rewrite_changes_only_the_texts_that_change() -> None:
    new = canvas_rewrite(CANVAS, lambda link: {"i.png": 'new "i".png', "b.md": "c d.md"}.get(link.target))
    expected = CANVAS.replace('"file":"i.png"', '"file":"new \\"i\\".png"')
    assert new == expected.replace("![[i.png]]", '![[new \\"i\\".png]]').replace("(b.md)", "(c%20d.md)")
    assert canvas_rewrite(CANVAS, lambda link: None) == CANVAS
    assert canvas_rewrite(CANVAS, lambda link: link.target) == CANVAS


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", "{}", '{"nodes": 7}', '{"nodes": [[]]}', "[" * 100_000, '{"nodes": [{"type": "text"}]}'],
)
def test_what_is_no_canvas_has_no_links(text: str) -> None:
    assert canvas_links(text) == []
    assert canvas_text(text) == ""
    assert canvas_rewrite(text, lambda link: "x") == text


def test_a_huge_canvas_is_read_in_time() -> None:
    place = {"x": 0, "y": 0, "width": 9, "height": 9}
    cards = [{"id": str(n), "type": "text", "text": "[[a]] " * 20, **place} for n in range(10_000)]
    groups = [{"id": f"g{n}", "type": "group", "label": f"{n}", **place} for n in range(3_000)]
    text = json.dumps({"nodes": [*cards, *groups]}, indent=1)
    before = time.process_time()
    links = canvas_links(text)
    assert (len(links), links[-1].line) == (200_000, 9 * 9_999 + 6)
    assert canvas_outline(text).startswith("## 0\n\n- [[a]]")
    assert time.process_time() - before < 20  # 5 seconds here; several times as long if each pair counts.


@given(st.lists(st.sampled_from(["A.md", "b/C d.md", "é😀.png", 'q"\\.md', "[[x]]"]), max_size=5), st.booleans())
def test_every_shown_file_can_be_moved(files: list[str], ascii_only: bool) -> None:
    canvas = {"nodes": [{"id": str(at), "type": "file", "file": file} for at, file in enumerate(files)], "edges": []}
    text = json.dumps(canvas, ensure_ascii=ascii_only, indent="\t")
    assert [link.target for link in canvas_links(text)] == files
    new = canvas_rewrite(text, lambda link: "new/" + link.target)
    assert [node["file"] for node in json.loads(new)["nodes"]] == ["new/" + file for file in files]
