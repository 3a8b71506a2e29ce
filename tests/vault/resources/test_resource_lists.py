"""What a client reads of what a vault lists."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.vault.sample import SAMPLE, content, text
from tests.vault.shelf import Shelf


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path)
    yield shelf
    shelf.index.close()


@pytest.fixture
def shelf(empty: Shelf) -> Shelf:
    empty.put(SAMPLE)
    return empty


def test_recent_shows_what_was_changed_last(shelf: Shelf) -> None:
    assert text(shelf, "vault://recent?limit=2") == snapshot("""\
{
 "total": 6,
 "shown": 2,
 "next": "vault://recent?limit=2&offset=2",
 "items": [
  {"path": "All.base", "title": "All", "modified": "2026-01-01T00:07:00.000Z"},
  {"path": "Projects/Board.canvas", "title": "Board", "modified": "2026-01-01T00:06:00.000Z"}
 ]
}\
""")
    assert content(shelf, "vault://recent?limit=1&offset=5&mode=full") == snapshot(
        {
            "total": 6,
            "shown": 1,
            "items": [
                {
                    "path": "Projects/Plan.md",
                    "title": "Plan",
                    "modified": "2026-01-01T00:01:00.000Z",
                    "size": 143,
                    "words": 17,
                    "tags": ["work/plan"],
                    "properties": {"aliases": ["The plan"], "status": "active"},
                    "version": "f6773ff7fd3939d2",
                }
            ],
        }
    )


def test_stats_count(shelf: Shelf) -> None:
    assert text(shelf, "vault://stats") == snapshot("""\
{
 "notes": 4,
 "canvases": 1,
 "bases": 1,
 "attachments": 2,
 "folders": 2,
 "tags": 2,
 "links": 5,
 "tasks": {"open": 1, "done": 1}
}\
""")
    assert content(shelf, "vault://stats?mode=full").keys() - content(shelf, "vault://stats").keys() == {
        "words",
        "size",
        "properties",
    }


def test_tags_come_with_how_many_notes_have_them(shelf: Shelf) -> None:
    assert text(shelf, "vault://tags") == snapshot("""\
{
 "total": 2,
 "shown": 2,
 "items": [
  {"tag": "Work", "notes": 3},
  {"tag": "work/plan", "notes": 2}
 ]
}\
""")
    assert content(shelf, "vault://tags?mode=full&limit=1") == snapshot(
        {
            "total": 2,
            "shown": 1,
            "next": "vault://tags?mode=full&limit=1&offset=1",
            "items": [{"tag": "Work", "notes": 3, "itself": 1}],
        }
    )


def test_the_structure_is_the_tree_of_folders(shelf: Shelf) -> None:
    shelf.put({"a/b/c/d/e.md": ""})

    assert text(shelf, "vault://structure") == snapshot("""\
{
 "levels": 3,
 "total": 5,
 "shown": 5,
 "items": [
  {"folder": "a", "folders": 1, "notes": 1, "files": 1},
  {"folder": "a/b", "folders": 1, "notes": 1, "files": 1},
  {"folder": "a/b/c", "folders": 1, "notes": 1, "files": 1},
  {"folder": "Projects", "folders": 1, "notes": 3, "files": 4},
  {"folder": "Projects/Old", "folders": 0, "notes": 1, "files": 1}
 ]
}\
""")
    assert content(shelf, "vault://structure?mode=full&offset=2") == snapshot(
        {
            "names": ["Home.md"],
            "total": 6,
            "shown": 4,
            "items": [
                {"folder": "a/b/c", "folders": 1, "notes": 1, "files": 1, "names": []},
                {"folder": "a/b/c/d", "folders": 0, "notes": 1, "files": 1, "names": ["e.md"]},
                {"folder": "Projects", "folders": 1, "notes": 3, "files": 4, "names": ["Ideas.md", "Plan.md"]},
                {"folder": "Projects/Old", "folders": 0, "notes": 1, "files": 1, "names": ["Done.md"]},
            ],
        }
    )


def test_a_folder_with_many_notes_names_some_in_the_structure(empty: Shelf) -> None:
    empty.put({f"f/{number:03}.md": "" for number in range(103)})

    (item,) = content(empty, "vault://structure?mode=full")["items"]

    assert (len(item["names"]), item["more"]) == (100, 3)


def test_a_folder_lists_its_folders_then_its_files(shelf: Shelf) -> None:
    assert text(shelf, "vault://folder/projects/") == snapshot("""\
{
 "folder": "Projects",
 "total": 4,
 "shown": 4,
 "items": [
  {"folder": "Projects/Old", "notes": 1},
  {"path": "Projects/Board.canvas", "kind": "canvas"},
  {"path": "Projects/Ideas.md"},
  {"path": "Projects/Plan.md"}
 ]
}\
""")
    assert [item.get("path") or item["folder"] for item in content(shelf, "vault://folder")["items"]] == snapshot(
        ["Projects", "All.base", "Home.md", "pic.png", "table.csv"]
    )
    assert content(shelf, "vault://folder/Projects/Old?mode=full") == snapshot(
        {
            "folder": "Projects/Old",
            "total": 1,
            "shown": 1,
            "items": [
                {
                    "path": "Projects/Old/Done.md",
                    "modified": "2026-01-01T00:03:00.000Z",
                    "size": 26,
                    "words": 3,
                    "tags": ["work/plan"],
                    "properties": {},
                    "version": "d29c3b341eb1229d",
                }
            ],
        }
    )
    assert content(shelf, "vault://folder/Projects?mode=full&offset=1&limit=1") == snapshot(
        {
            "folder": "Projects",
            "total": 4,
            "shown": 1,
            "next": "vault://folder/Projects?mode=full&limit=1&offset=2",
            "items": [
                {
                    "path": "Projects/Board.canvas",
                    "kind": "canvas",
                    "modified": "2026-01-01T00:06:00.000Z",
                    "size": 13,
                    "version": "f9fe693d81a620fe",
                }
            ],
        }
    )


def test_an_empty_vault_is_an_empty_folder(empty: Shelf) -> None:
    assert content(empty, "vault://folder/") == {"folder": "", "total": 0, "shown": 0, "items": []}


@pytest.mark.parametrize("tag", ["work", "%23WORK", "#Work", "work/"])
def test_a_tag_lists_its_notes_and_those_of_nested_tags(shelf: Shelf, tag: str) -> None:
    assert text(shelf, f"vault://tag/{tag}") == snapshot("""\
{
 "tag": "Work",
 "total": 3,
 "shown": 3,
 "items": [
  {"path": "Projects/Ideas.md"},
  {"path": "Projects/Old/Done.md"},
  {"path": "Projects/Plan.md"}
 ]
}\
""")


def test_a_tag_that_no_note_has_is_an_empty_list(shelf: Shelf) -> None:
    assert content(shelf, "vault://tag/wrok") == {"tag": "wrok", "total": 0, "shown": 0, "items": []}


def test_backlinks_come_with_their_lines(shelf: Shelf) -> None:
    assert text(shelf, "vault://backlinks/plan") == snapshot("""\
{
 "path": "Projects/Plan.md",
 "total": 2,
 "shown": 2,
 "items": [
  {"path": "Projects/Ideas.md", "line": 1, "text": "Ideas of #Work, see [the plan](Plan.md)."},
  {"path": "Projects/Old/Done.md", "line": 1, "text": "#work/plan done, [[Plan]]"}
 ]
}\
""")
    assert content(shelf, "vault://backlinks/pic.png")["total"] == 1
    assert "version" in content(shelf, "vault://backlinks/pic.png?mode=full")["items"][0]


def test_a_search_lists_what_it_finds_newest_first(shelf: Shelf) -> None:
    assert text(shelf, "vault://search/plan") == snapshot("""\
{
 "query": "plan",
 "total": 3,
 "shown": 3,
 "items": [
  {"path": "Projects/Old/Done.md", "lines": [{"line": 1, "text": "#work/plan done, [[Plan]]"}]},
  {"path": "Projects/Ideas.md", "lines": [{"line": 1, "text": "Ideas of #Work, see [the plan](Plan.md)."}]},
  {"path": "Projects/Plan.md", "lines": [{"line": 2, "text": "aliases: [The plan]"}, {"line": 5, "text": "# Plan"}]}
 ]
}\
""")
    assert content(shelf, "vault://search/tag%3A%23work%20-done?mode=full&limit=1") == snapshot(
        {
            "query": "tag:#work -done",
            "total": 2,
            "shown": 1,
            "next": "vault://search/tag%3A%23work%20-done?mode=full&limit=1&offset=1",
            "items": [
                {
                    "path": "Projects/Ideas.md",
                    "lines": [{"line": 1, "text": "Ideas of #Work, see [the plan](Plan.md)."}],
                    "matching": 1,
                    "modified": "2026-01-01T00:02:00.000Z",
                    "size": 41,
                    "words": 6,
                    "tags": ["Work"],
                    "properties": {},
                    "version": "f69681d19f933a8a",
                }
            ],
        }
    )


def test_a_search_leaves_out_what_the_app_hides(shelf: Shelf) -> None:
    settings = shelf.vault.mounts[0].root / ".obsidian"
    settings.mkdir()
    (settings / "app.json").write_text('{"userIgnoreFilters": ["Projects/Old/"]}')

    assert [item["path"] for item in content(shelf, "vault://search/plan")["items"]] == snapshot(
        ["Projects/Ideas.md", "Projects/Plan.md"]
    )


def test_pages_lead_to_all_items_once(empty: Shelf) -> None:
    empty.put({f"f/{number}.md": f"#t word [[0]] {number}" for number in range(7)})
    for first in ("recent", "folder/f", "tag/t", "backlinks/f/0.md", "search/word", "search/%2Fw.rd%2F"):
        uri, seen = f"vault://{first}?limit=3", list[str]()
        for _ in range(10):
            found = content(empty, uri)
            assert found["total"] == 7
            assert found["shown"] == len(found["items"]) <= 3
            seen += [item["path"] for item in found["items"]]
            if "next" not in found:
                break
            uri = found["next"]
        assert sorted(seen) == [f"f/{number}.md" for number in range(7)]
        assert content(empty, f"vault://{first}?offset=100")["items"] == []
