"""What a client reads from a vault, and when it counts as different."""

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.vault.shelf import Shelf
from tidings.vault.addresses import BadAddress
from tidings.vault.render_files import LARGEST
from tidings.vault.resources import NotFound, TooLarge, fingerprint, render
from tidings.vault.view import Progress, Status

PLAN = """---
aliases: [The plan]
status: active
---
# Plan
See [[Ideas]] and [[Nowhere|that]]. #work/plan
- [ ] write
- [x] think
## Later
![[pic.png]]
"""
SAMPLE = {
    "Projects/Plan.md": PLAN,
    "Projects/Ideas.md": "Ideas of #Work, see [the plan](Plan.md).\n",
    "Projects/Old/Done.md": "#work/plan done, [[Plan]]\n",
    "Home.md": "Welcome.\n",
    "pic.png": b"\x89PNG",
    "Projects/Board.canvas": '{"nodes": []}',
    "All.base": "views: []\n",
    "table.csv": "a;b\n",
}
TODAY = date(2026, 1, 31)
LISTS = (
    "vault://recent",
    "vault://stats",
    "vault://tags",
    "vault://structure",
    "vault://folder/Projects",
    "vault://tag/work",
    "vault://backlinks/Projects/Plan.md",
    "vault://search/plan",
)


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path)
    yield shelf
    shelf.index.close()


@pytest.fixture
def shelf(empty: Shelf) -> Shelf:
    empty.put(SAMPLE)
    return empty


def text(shelf: Shelf, uri: str) -> str:
    rendered = render(shelf.view(), uri, today=TODAY)
    assert rendered.text is not None
    return rendered.text


def content(shelf: Shelf, uri: str) -> Any:
    rendered = render(shelf.view(), uri, today=TODAY)
    assert rendered.mime_type == "application/json"
    return json.loads(rendered.text or "")


# Notes


@pytest.mark.parametrize("path", ["Projects/Plan.md", "Projects/Plan", "projects/plan.MD", "plan", "Plan.md"])
def test_a_note_is_its_text_however_its_path_is_written(shelf: Shelf, path: str) -> None:
    rendered = render(shelf.view(), f"vault://note/{path}")

    assert (rendered.mime_type, rendered.text, rendered.data) == ("text/markdown", PLAN, None)


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ("limit=2", "1\r\n2\n"),
        ("offset=1&limit=2", "2\n3\n"),
        ("offset=2", "3\n4"),
        ("offset=3&limit=10", "4"),
        ("offset=4", ""),
        ("offset=999&limit=1", ""),
    ],
)
def test_some_lines_of_a_note_can_be_read(empty: Shelf, query: str, lines: str) -> None:
    empty.put({"a.md": "1\r\n2\n3\n4"})

    assert text(empty, f"vault://note/a.md?{query}") == lines


def test_a_summary_says_what_is_in_a_note(shelf: Shelf) -> None:
    assert text(shelf, "vault://note/Plan?mode=summary") == snapshot("""\
{
 "path": "Projects/Plan.md",
 "title": "Plan",
 "aliases": ["The plan"],
 "version": "f6773ff7fd3939d2",
 "modified": "2026-01-01T00:01:00.000Z",
 "size": 143,
 "words": 17,
 "properties": {"aliases": ["The plan"], "status": "active"},
 "tags": ["work/plan"],
 "headings": [
  {"level": 1, "text": "Plan", "line": 5},
  {"level": 2, "text": "Later", "line": 9}
 ],
 "links": [
  {"target": "Ideas", "path": "Projects/Ideas.md", "line": 6},
  {"target": "Nowhere", "path": null, "line": 6},
  {"target": "pic.png", "path": "pic.png", "line": 10, "embed": true}
 ],
 "tasks": [
  {"line": 7, "status": " ", "text": "write"},
  {"line": 8, "status": "x", "text": "think"}
 ]
}\
""")


def test_a_summary_of_a_long_note_says_what_it_leaves_out(empty: Shelf) -> None:
    empty.put({"long.md": "# h\n" * 700 + "- [ ] t\n" * 3})

    summary = content(empty, "vault://note/long?mode=summary")

    assert len(summary["headings"]) == 500
    assert summary["left_out"] == {"headings": 200}


def test_a_note_that_was_too_large_to_be_read_says_so(empty: Shelf) -> None:
    with (empty.vault.mounts[0].root / "big.md").open("wb") as file:
        file.truncate(20_000_001)
    empty.look()

    with pytest.raises(TooLarge, match=r"'big.md' has 20,000,001 bytes. It is larger than 20,000,000 bytes"):
        text(empty, "vault://note/big.md")
    assert fingerprint(empty.view(), "vault://note/big.md") == ""
    assert "larger than" in content(empty, "vault://note/big?mode=summary")["problem"]


def test_a_daily_note_is_found_by_its_date_and_the_apps_settings(empty: Shelf) -> None:
    settings = empty.vault.mounts[0].root / ".obsidian"
    settings.mkdir()
    (settings / "daily-notes.json").write_text('{"folder": "Days", "format": "YYYY/MM/DD"}')
    empty.put({"Days/2026/01/31.md": "# Today", "2026-01-30.md": "no"})

    assert text(empty, "vault://daily/2026-01-31") == "# Today"
    assert text(empty, "vault://daily/today") == "# Today"
    assert content(empty, "vault://daily/today?mode=summary")["path"] == "Days/2026/01/31.md"
    with pytest.raises(NotFound, match=r"There is no daily note of 2026-01-30. It would be 'Days/2026/01/30.md'."):
        text(empty, "vault://daily/2026-01-30")


def test_with_several_vaults_the_first_that_has_the_daily_note_counts(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "Work", tmp_path / "Home")
    shelf.put({"Home/2026-01-31.md": "home"})

    assert text(shelf, "vault://daily/today") == "home"
    assert content(shelf, "vault://stats")["vaults"] == ["Work", "Home"]
    shelf.index.close()


# Attachments


def test_attachments_are_bytes_and_texts_are_texts(shelf: Shelf) -> None:
    view = shelf.view()

    assert render(view, "vault://attachment/pic.png") == ("image/png", None, b"\x89PNG")
    assert render(view, "vault://attachment/Projects/Board.canvas") == ("application/json", '{"nodes": []}', None)
    assert render(view, "vault://attachment/All.base") == ("application/yaml", "views: []\n", None)
    assert render(view, "vault://attachment/table.csv") == ("text/csv", "a;b\n", None)
    assert render(view, "vault://attachment/Home.md") == ("text/markdown", "Welcome.\n", None)


def test_what_only_claims_to_be_text_is_bytes(empty: Shelf) -> None:
    empty.put({"a.txt": b"\xff\xfe\x00"})

    assert render(empty.view(), "vault://attachment/a.txt") == ("text/plain", None, b"\xff\xfe\x00")


def test_an_attachment_that_is_too_large_is_refused(empty: Shelf) -> None:
    empty.put({"film.mp4": b"\0" * (LARGEST + 1), "fits.mp4": b"\0" * LARGEST})

    with pytest.raises(TooLarge, match=r"'film.mp4' has 10,000,001 bytes. At most 10,000,000 are sent"):
        render(empty.view(), "vault://attachment/film.mp4")
    assert len(render(empty.view(), "vault://attachment/fits.mp4").data or b"") == LARGEST


def test_an_attachment_that_is_gone_from_the_disk_says_so(shelf: Shelf) -> None:
    place = shelf.vault.locate("pic.png")
    place.unlink()

    with pytest.raises(NotFound, match=r"'pic.png' cannot be read: No such file"):
        render(shelf.view(), "vault://attachment/pic.png")
    with pytest.raises(NotFound, match="The vault cannot be reached at present"):
        render(shelf.view(Status("away")), "vault://attachment/pic.png")

    place.symlink_to("/etc/hostname")
    with pytest.raises(NotFound, match="leads out of the vault"):
        render(shelf.view(), "vault://attachment/pic.png")


# Lists


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


# What is not there


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        (
            "vault://note/Projects/Plam.md",
            "There is no file 'Projects/Plam.md' in the vault. Did you mean 'Projects/Plan.md'",
        ),
        ("vault://note/xyzzy", "There is no file 'xyzzy' in the vault.$"),
        ("vault://note/pic.png", "'pic.png' is no note. Read vault://attachment/pic.png."),
        ("vault://note/../secret.md", "There is no file '../secret.md'"),
        ("vault://note/.obsidian/app.json", "There is no file"),
        ("vault://backlinks/Plam", "Did you mean 'Projects/Plan.md'"),
        ("vault://attachment/pics.png", "Did you mean 'pic.png'"),
        ("vault://folder/Project", "There is no folder 'Project' in the vault. Did you mean 'Projects'"),
        ("vault://folder/xyzzy", "There is no folder 'xyzzy' in the vault.$"),
        ("vault://tag/wrok", "No note has the tag '#wrok'. Did you mean 'Work'"),
    ],
)
def test_what_is_not_there_is_answered_with_what_comes_nearest(shelf: Shelf, uri: str, told: str) -> None:
    with pytest.raises(NotFound, match=told):
        render(shelf.view(), uri)
    assert fingerprint(shelf.view(), uri) == ""


def test_a_query_that_is_not_understood_says_why(shelf: Shelf) -> None:
    with pytest.raises(BadAddress, match="quotation mark at 1 is never closed"):
        render(shelf.view(), "vault://search/%22a")


# How far it is to be trusted


@pytest.mark.parametrize("uri", [*LISTS, "vault://note/Plan?mode=summary"])
def test_what_may_lack_something_says_so(shelf: Shelf, uri: str) -> None:
    indexing = json.loads(render(shelf.view(Status("indexing", Progress(3, 10))), uri).text or "")
    beginning = json.loads(render(shelf.view(Status("indexing")), uri).text or "")
    away = json.loads(render(shelf.view(Status("away")), uri).text or "")

    assert indexing["partial"] == {"indexed": 3, "of": 10}
    assert beginning["partial"] == {"indexed": 0, "of": 0}
    assert "cannot be reached" in away["away"]
    assert "partial" not in content(shelf, uri)


# What counts as different


@pytest.mark.parametrize(
    "uri",
    [
        *LISTS,
        "vault://note/Plan",
        "vault://note/Plan?limit=2",
        "vault://note/Plan?mode=summary",
        "vault://attachment/pic.png",
    ],
)
def test_a_fingerprint_stays_while_nothing_changes_and_tells_of_the_end_of_indexing(shelf: Shelf, uri: str) -> None:
    def at(status: Status) -> str:
        return fingerprint(shelf.view(status), uri)

    done = at(Status("watching"))
    assert done == at(Status("polling")) != ""
    assert at(Status("indexing", Progress(1, 9))) == at(Status("indexing", Progress(2, 9)))
    is_json = "attachment" not in uri and ("note" not in uri or "summary" in uri)
    assert (at(Status("indexing")) != done) == is_json
    assert (at(Status("away")) != done) == is_json


def changed(shelf: Shelf, change: dict[str, str | bytes], *drop: str) -> set[str]:
    uris = [
        *LISTS,
        *(f"{uri}?mode=full" for uri in LISTS),
        "vault://note/Plan",
        "vault://note/Plan?limit=5",
        "vault://note/Plan?mode=summary",
        "vault://note/Ideas",
        "vault://attachment/pic.png",
        "vault://attachment/Board.canvas",
        "vault://folder/",
        "vault://folder/Projects/Old",
        "vault://backlinks/Ideas",
        "vault://tag/fresh",
        "vault://daily/today",
        "vault://nothing",
    ]
    before = {uri: (fingerprint(shelf.view(), uri, today=TODAY), outcome(shelf, uri)) for uri in uris}
    if change:
        shelf.put(change)
    if drop:
        shelf.drop(*drop)
    after = {uri: (fingerprint(shelf.view(), uri, today=TODAY), outcome(shelf, uri)) for uri in uris}
    for uri in uris:
        assert (before[uri][0] != after[uri][0]) == (before[uri][1] != after[uri][1]), uri
    return {uri.removeprefix("vault://") for uri in uris if before[uri] != after[uri] and "full" not in uri}


def outcome(shelf: Shelf, uri: str) -> object:
    try:
        return render(shelf.view(), uri, today=TODAY)
    except (LookupError, ValueError):
        return None


def test_an_edit_of_a_text_changes_the_note_and_what_shows_the_time(shelf: Shelf) -> None:
    assert changed(shelf, {"Projects/Plan.md": f"{PLAN}More.\n"}) == snapshot(
        {"note/Plan", "note/Plan?mode=summary", "recent", "search/plan"}
    )


def test_a_new_tag_changes_the_tags(shelf: Shelf) -> None:
    assert changed(shelf, {"Home.md": "Welcome. #fresh\n"}) == snapshot({"recent", "stats", "tag/fresh", "tags"})


def test_a_new_link_changes_the_backlinks_of_its_target(shelf: Shelf) -> None:
    assert changed(shelf, {"Home.md": "Welcome. [[Ideas]]\n"}) == snapshot({"backlinks/Ideas", "recent", "stats"})


def test_a_note_that_comes_changes_lists_and_whatever_it_is_found_by(shelf: Shelf) -> None:
    assert changed(shelf, {"2026-01-31.md": "plan\n"}) == snapshot(
        {"daily/today", "folder/", "recent", "search/plan", "stats"}
    )


def test_a_note_that_goes_changes_lists_and_links_to_it(shelf: Shelf) -> None:
    assert changed(shelf, {}, "Projects/Ideas.md") == snapshot(
        {
            "backlinks/Ideas",
            "backlinks/Projects/Plan.md",
            "folder/",
            "folder/Projects",
            "note/Ideas",
            "note/Plan?mode=summary",
            "recent",
            "search/plan",
            "stats",
            "structure",
            "tag/work",
            "tags",
        }
    )


def test_other_files_change_by_themselves(shelf: Shelf) -> None:
    assert changed(shelf, {"pic.png": b"\x89PNG2"}) == snapshot({"attachment/pic.png"})
    assert changed(shelf, {"Projects/Board.canvas": '{"nodes": [1]}'}) == snapshot(
        {"attachment/Board.canvas", "recent"}
    )


def test_the_same_again_changes_nothing(shelf: Shelf) -> None:
    shelf.minutes = list(SAMPLE).index("Home.md")
    assert changed(shelf, {"Home.md": "Welcome.\n"}) == set()


@pytest.mark.parametrize("uri", ["", "vault://", "vault://note/\ud800", "vault://search/%22", "x", "vault://note/%00"])
def test_a_fingerprint_of_nonsense_is_empty(shelf: Shelf, uri: str) -> None:
    assert fingerprint(shelf.view(), uri) == ""
