"""What a client reads of a vault's files, and what it is told of what is not there."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.vault.sample import PLAN, SAMPLE, content, text
from tests.vault.shelf import Shelf
from tidings.server.families import BadAddress, ResourceMissing
from tidings.vault.resources.render import LARGEST, ResourceTooLarge, fingerprint, render
from tidings.vault.view import IndexStatus


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path)
    yield shelf
    shelf.index.close()


@pytest.fixture
def shelf(empty: Shelf) -> Shelf:
    empty.put(SAMPLE)
    return empty


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
    tags = "".join(f"#tag{number} " for number in range(501))
    empty.put({"long.md": "# h\n" * 700 + "- [ ] t\n" * 3 + tags + "[[x]]" * 502, "x.md": ""})

    summary = content(empty, "vault://note/long?mode=summary")

    assert [len(summary[part]) for part in ("headings", "tasks", "tags", "links")] == [500, 3, 500, 500]
    assert summary["links"][-1] == {"target": "x", "path": "x.md", "line": 704}
    assert summary["left_out"] == {"tags": 1, "headings": 200, "links": 2}


def test_a_note_that_was_too_large_to_be_read_says_so(empty: Shelf) -> None:
    with (empty.vault.mounts[0].root / "big.md").open("wb") as file:
        file.truncate(20_000_001)
    empty.look()

    with pytest.raises(ResourceTooLarge, match=r"'big.md' has 20,000,001 bytes. It is larger than 20,000,000 bytes"):
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
    with pytest.raises(ResourceMissing, match=r"no daily note of 2026-01-30. It would be 'Days/2026/01/30.md'."):
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

    with pytest.raises(ResourceTooLarge, match=r"'film.mp4' has 10,000,001 bytes. At most 10,000,000 are sent"):
        render(empty.view(), "vault://attachment/film.mp4")
    assert len(render(empty.view(), "vault://attachment/fits.mp4").data or b"") == LARGEST


def test_an_attachment_that_is_no_file_any_more_says_so(shelf: Shelf) -> None:
    place = shelf.vault.locate("pic.png")
    place.unlink()

    with pytest.raises(ResourceMissing, match=r"'pic.png' cannot be read: No such file"):
        render(shelf.view(), "vault://attachment/pic.png")
    with pytest.raises(ResourceMissing, match="The vault cannot be reached at present"):
        render(shelf.view(IndexStatus("away")), "vault://attachment/pic.png")

    os.mkfifo(place)
    with pytest.raises(ResourceMissing, match=r"'pic.png' cannot be read: Permission denied"):
        render(shelf.view(), "vault://attachment/pic.png")

    place.unlink()
    place.symlink_to("/etc/hostname")
    with pytest.raises(ResourceMissing, match="leads out of the vault"):
        render(shelf.view(), "vault://attachment/pic.png")


# What is not there


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        (
            "vault://note/Projects/Plam.md",
            "There is no file 'Projects/Plam.md' in the vault. Did you mean 'Projects/Plan.md'",
        ),
        ("vault://note/xyzzy", "There is no file 'xyzzy' in the vault.$"),
        ("vault://note/pic.png", "'pic.png' is not a note. Read vault://attachment/pic.png."),
        ("vault://backlinks/Plam", "Did you mean 'Projects/Plan.md'"),
        ("vault://attachment/pics.png", "Did you mean 'pic.png'"),
        ("vault://folder/Project", "There is no folder 'Project' in the vault. Did you mean 'Projects'"),
        ("vault://folder/xyzzy", "There is no folder 'xyzzy' in the vault.$"),
    ],
)
def test_what_is_not_there_is_answered_with_what_comes_nearest(shelf: Shelf, uri: str, told: str) -> None:
    with pytest.raises(ResourceMissing, match=told):
        render(shelf.view(), uri)
    assert fingerprint(shelf.view(), uri) == ""


def test_a_query_that_is_not_understood_says_why(shelf: Shelf) -> None:
    with pytest.raises(BadAddress, match="quotation mark at 1 is never closed"):
        render(shelf.view(), "vault://search/%22a")
