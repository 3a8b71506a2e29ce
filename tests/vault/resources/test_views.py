"""Canvases as text, the neighbourhood of a note, hubs, and the notes of weeks to years."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import anyio
import mcp_types as types
import pytest
from inline_snapshot import snapshot

import tidings
from tests.vault.agent import put
from tests.vault.sample import content, text
from tests.vault.shelf import Shelf
from tidings.server.families import BadAddress, ResourceMissing
from tidings.vault.notes.canvas import canvas_outline
from tidings.vault.resources.addresses import FAMILY
from tidings.vault.resources.listing import complete
from tidings.vault.server import VaultServer

CANVAS = """{"nodes": [
 {"id": "g", "type": "group", "label": "Ideas", "x": 0, "y": 0, "width": 500, "height": 500},
 {"id": "in", "type": "group", "label": "Inner", "x": 10, "y": 200, "width": 200, "height": 200},
 {"id": "t", "type": "text", "text": "First **card**\\nof two lines, see [[Plan]]", "x": 10, "y": 10},
 {"id": "f", "type": "file", "file": "Projects/Plan.md", "subpath": "#Later", "x": 20, "y": 210},
 {"id": "u", "type": "link", "url": "https://x.org", "x": 900, "y": 0, "width": 9, "height": 9},
 {"id": "p", "type": "file", "file": "pic.png", "x": 900, "y": 90, "width": 9, "height": 9}, 7
], "edges": [
 {"id": "1", "fromNode": "t", "toNode": "f", "label": "leads to"},
 {"id": "2", "fromNode": "u", "toNode": "g", "toEnd": "none"},
 {"id": "3", "fromNode": "p", "toNode": "gone", "fromEnd": "arrow"}
]}"""


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path)
    yield shelf
    shelf.index.close()


def test_a_canvas_is_its_cards_in_their_groups_and_the_edges(shelf: Shelf) -> None:
    shelf.put({"Board.canvas": CANVAS})

    assert text(shelf, "vault://canvas/Board.canvas") == snapshot("""\
## Cards

- https://x.org
- [[pic.png]]

## Ideas

- First **card**
  of two lines, see [[Plan]]

## Inner

- [[Projects/Plan#Later]]

## Connections

- First **card** → [[Projects/Plan#Later]]: leads to
- https://x.org — Ideas
- [[pic.png]] ↔ (empty)
""")


@pytest.mark.parametrize(
    "broken", ["", "{", "[]", '{"nodes": 7, "edges": [7, {}]}', '{"nodes": [{"id": [], "x": "a"}]}']
)
def test_a_broken_canvas_is_shown_as_far_as_it_can_be(broken: str) -> None:
    assert canvas_outline(broken).count("\n") <= 3


def test_only_a_canvas_is_one(shelf: Shelf) -> None:
    shelf.put({"A.md": "x"})

    with pytest.raises(ResourceMissing, match=r"'A.md' is no canvas."):
        text(shelf, "vault://canvas/A.md")


def test_the_neighbourhood_of_a_note_has_the_kinds_of_relation(shelf: Shelf) -> None:
    shelf.put(
        {
            "Home.md": "[[A]] [[B]] [[Home]] [[Nowhere]]",
            "A.md": "[[Home]] [[Far]]",
            "B.md": "",
            "C.md": "[[Home]]",
            "D.md": "[[C]]",
            "Far.md": "[[Farther]]",
            "Farther.md": "",
        }
    )
    near = [
        {"path": "A.md", "distance": 1, "relation": "both"},
        {"path": "B.md", "distance": 1, "relation": "out"},
        {"path": "C.md", "distance": 1, "relation": "back"},
    ]

    assert content(shelf, "vault://neighbourhood/Home")["items"] == near
    assert content(shelf, "vault://neighbourhood/Home?depth=2&offset=1")["items"] == [
        *near[1:],
        {"path": "D.md", "distance": 2, "relation": "back", "via": "C.md"},
        {"path": "Far.md", "distance": 2, "relation": "out", "via": "A.md"},
    ]
    with pytest.raises(BadAddress, match="There is no depth '3'"):
        content(shelf, "vault://neighbourhood/Home?depth=3")


def test_hubs_are_the_files_that_the_most_others_link_to(shelf: Shelf) -> None:
    shelf.put({"A.md": "[[B]] [[B]] [[C]] [[A]]", "B.md": "[[C]]", "C.md": "", "D.md": "[[Nowhere]]"})

    assert content(shelf, "vault://hubs") == {
        "total": 2,
        "shown": 2,
        "items": [{"path": "C.md", "linked_from": 2}, {"path": "B.md", "linked_from": 1}],
    }


def test_the_notes_of_weeks_to_years_are_found_by_any_of_their_days(shelf: Shelf) -> None:
    shelf.put({"2026-W05.md": "week", "2026-01.md": "month", "2026-Q1.md": "quarter", "2026.md": "year"})

    for period, found in {"weekly": "week", "monthly": "month", "quarterly": "quarter", "yearly": "year"}.items():
        assert text(shelf, f"vault://{period}/2026-01-30") == found
        assert text(shelf, f"vault://{period}/today") == found
    with pytest.raises(ResourceMissing, match=r"no monthly note of 2026-02-01. It would be '2026-02.md'."):
        text(shelf, "vault://monthly/2026-02-01")


def test_what_new_templates_take_is_completed(shelf: Shelf) -> None:
    shelf.put({"A.md": "", "Books.base": "views: [{name: Read}, {name: To read}]", "B.canvas": "{}"})

    def values(kind: str, name: str, typed: str = "", **others: str) -> list[str]:
        ref = types.ResourceTemplateReference(uri=FAMILY.template(FAMILY[kind]))
        context = types.CompletionContext(arguments=others)
        argument = types.CompletionArgument(name=name, value=typed)
        return complete(shelf.view(), ref, argument, context).values

    assert values("base", "path") == ["Books.base"]
    assert values("base", "view", "to", path="Books.base") == ["To read"]
    assert values("base", "view") == []
    assert values("base", "format") == ["markdown", "json"]
    assert values("canvas", "path") == ["B.canvas"]
    assert values("neighbourhood", "path", "A") == ["A.md", "B.canvas", "Books.base"]
    assert values("neighbourhood", "depth") == ["1", "2"]
    assert values("weekly", "date")[0] == "today"


@pytest.mark.anyio
async def test_each_of_these_is_told_when_it_changes(tmp_path: Path) -> None:
    week = f"{date.today():%G-W%V}.md"  # noqa: DTZ011 - the user's day
    settings = '{"weekly": {"enabled": true, "format": "GGGG-[W]WW"}}'
    put(
        tmp_path / "V", {".obsidian/plugins/periodic-notes/data.json": settings, "A.md": "", week: "", "C.canvas": "{}"}
    )
    uris = {"vault://canvas/C.canvas", "vault://neighbourhood/A", "vault://hubs", "vault://weekly/today"}
    server, seen = VaultServer(tmp_path / "V", cache=tmp_path / "cache"), list[str]()
    with anyio.fail_after(60):
        async with tidings.connect(server) as client:
            await server.library.settled()
            async for found in client.watch(sorted(uris)):
                seen.append(found.uri)
                if set(seen[:4]) == uris and len(seen) == 4:
                    put(tmp_path / "V", {week: "[[A]]", "C.canvas": '{"nodes": [{"type": "text", "text": "x"}]}'})
                if set(seen[4:]) == uris:
                    break
