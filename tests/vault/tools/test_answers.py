"""What is said beside an answer: that something may be missing, and in which vault it was found."""

import errno
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver.exceptions import ToolError

from tests.vault.shelf import Shelf
from tidings.server.families import ResourceMissing
from tidings.vault.files.content import Texts
from tidings.vault.files.outcomes import NotThere
from tidings.vault.files.paths import BadPath
from tidings.vault.tools import lookup, read, write
from tidings.vault.tools.lookup import ResultRange
from tidings.vault.tools.results import refusals_told
from tidings.vault.view import IndexStatus

INDEXING = IndexStatus("indexing", (3, 10))
SAID = "The index is still being built (3 of 10 files): results may be incomplete."


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path / "Vault")
    shelf.put({"A.md": "apple #fruit [[B]]\n", "Sub/B.md": "[[A]]\n"})
    yield shelf
    shelf.index.close()


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (IndexStatus("watching"), ""),
        (IndexStatus("polling", notes=("Looks every few seconds.",)), ""),
        (INDEXING, SAID),
        (IndexStatus("indexing"), "The index is still being built: results may be incomplete."),
        (
            IndexStatus("away"),
            "The vault cannot be reached at present: this is its last known content.",
        ),
    ],
)
def test_how_the_index_stands_is_said_where_it_matters(status: IndexStatus, said: str) -> None:
    assert status.standing == said


def test_every_list_says_that_something_may_be_missing_while_the_index_is_built(shelf: Shelf) -> None:
    view = shelf.view(INDEXING)
    span = ResultRange(10)
    for result in (
        lookup.tags(view, "", "", span),
        lookup.tags(view, "fruit", "", span),
        lookup.links(view, "back", "A", "", span),
        lookup.links(view, "orphans", "", "", span),
        lookup.links(view, "path", "A", "B", span),
        lookup.recent(view, span),
        lookup.structure(view, "", 2, 10),
        read.info(view, Texts(), "A"),
        read.info(view, Texts(), ""),
    ):
        data: Any = result.structured_content
        assert data["note"] == SAID
        assert SAID in result.content[0].text  # type: ignore[union-attr]


def test_a_file_that_is_not_there_yet_may_still_come(shelf: Shelf) -> None:
    with pytest.raises(ResourceMissing, match="still being built"):
        lookup.meant(shelf.view(INDEXING), "Zzzzzz")


def test_what_the_index_does_not_know_yet_has_no_facts(shelf: Shelf) -> None:
    shelf.vault.locate("New.md").write_text("new")
    with pytest.raises(ResourceMissing, match=r"'New\.md' is not in the index yet"):
        read.info(shelf.view(), Texts(), "New")


def test_a_name_that_could_be_several_is_not_sure(shelf: Shelf) -> None:
    shelf.put({"Other/B.md": ""})
    with pytest.raises(BadPath, match=r"could be one of several: 'Sub/B\.md', 'Other/B\.md'"):
        lookup.surely(shelf.view(), "b")


@pytest.mark.parametrize(
    ("source", "to", "place"),
    [
        ("A.md", "C", "C.md"),
        ("A.md", "C.md", "C.md"),
        ("A.md", "C.MD", "C.MD"),
        ("A.md", "Sub", "Sub/A.md"),
        ("A.md", "New/", "New/A.md"),
        ("A.md", "/", "A.md"),
        ("Sub", "Sub", "Sub"),
        ("Sub", "v1.2", "v1.2"),
        ("Sub/B.md", "a.b", "a.b.md"),
    ],
)
def test_a_place_to_move_to_is_understood_as_people_mean_it(shelf: Shelf, source: str, to: str, place: str) -> None:
    assert lookup.destination(shelf.view(), source, to) == place


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("Plan", "Plan.md"),
        ("v1.2", "v1.2.md"),
        ("Dr. Smith", "Dr. Smith.md"),
        ("Board.canvas", "Board.canvas"),
        ("./X/B.md", "X/B.md"),
        ("X/B", "X/B.md"),
        ("sub/New", "Sub/New.md"),
        ("a", "A.md"),
        ("b", "b.md"),
    ],
)
def test_a_name_without_an_extension_is_a_note(shelf: Shelf, path: str, place: str) -> None:
    assert lookup.to_create(shelf.view(), path) == place


@pytest.mark.parametrize(
    "path", ["Sub/B.md", "b", "[[B]]", "![[Sub/B#Head|shown]]", "vault://note/Sub/B.md", "vault://note/Sub%2FB?limit=3"]
)
def test_a_path_may_be_copied_from_a_link_or_a_uri(shelf: Shelf, path: str) -> None:
    assert lookup.meant(shelf.view(), path)[0] == "Sub/B.md"


def test_a_link_made_to_be_slow_is_not(shelf: Shelf) -> None:
    with pytest.raises(BadPath):
        lookup.meant(shelf.view(), "[[" + "a" * 200_000)


def test_a_long_line_is_shown_around_its_link(shelf: Shelf) -> None:
    shelf.put({"Long.md": "x" * 250 + " [[A]] " + "y" * 900})
    (link,) = [
        link
        for link in lookup.links(shelf.view(), "back", "A", "", ResultRange(10)).structured_content["links"]  # type: ignore[index]
        if link["path"] == "Long.md"
    ]
    assert "[[A]]" in link["text"]
    assert len(link["text"]) <= 242


def test_a_daily_note_of_several_vaults_begins_in_the_first(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "Work", tmp_path / "Home")
    (tmp_path / "Work/.obsidian").mkdir()
    (tmp_path / "Work/.obsidian/daily-notes.json").write_text('{"folder": "Days", "template": "Day"}')
    (tmp_path / "Work/Day.md").write_text("{{date}} {{time}}")
    now = datetime(2026, 3, 1, 14, 5, tzinfo=UTC)
    day = date(2026, 1, 31)
    path, text, note = write.periodic_start(shelf.view(), day, "daily", now, "")
    assert (path, text, note) == ("Work/Days/2026-01-31.md", "2026-01-31 14:05", "")
    assert read.periodic_path(shelf.view(), day, "daily") is None
    shelf.put({"Home/2026-01-31.md": "here"})
    assert read.periodic_path(shelf.view(), day, "daily") == "Home/2026-01-31.md"
    assert read.info(shelf.view(), Texts(), "").structured_content["vaults"] == ["Work", "Home"]  # type: ignore[index]
    shelf.index.close()


def test_what_one_vault_hides_from_search_another_may_show(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "Work", tmp_path / "Home")
    (tmp_path / "Work/.obsidian").mkdir()
    (tmp_path / "Work/.obsidian/app.json").write_text('{"userIgnoreFilters": ["Old/"]}')
    shelf.put({"Work/Old/A.md": "apple", "Home/Old/A.md": "apple"})
    found: Any = lookup.search(shelf.view(), "apple", "path", ResultRange(10)).structured_content
    assert [hit["path"] for hit in found["results"]] == ["Home/Old/A.md"]
    shelf.index.close()


def test_what_the_system_says_is_told_without_places_of_this_machine() -> None:
    with pytest.raises(ToolError) as told, refusals_told():
        raise OSError(errno.EIO, "Input/output error", "/srv/secret.md")
    assert str(told.value) == "The disk refused: Input/output error. Try again, or look at it."


def test_a_mistake_of_ours_is_not_told_as_if_it_were_the_agents() -> None:
    with pytest.raises(ZeroDivisionError), refusals_told():
        _ = 1 / 0


def test_a_note_of_a_vault_that_is_away_is_not_said_to_be_missing(shelf: Shelf) -> None:
    shelf.vault.locate("A.md").unlink()
    for status, said in (
        (IndexStatus("watching"), "There is no"),
        (IndexStatus("away"), "cannot be reached at present"),
    ):
        with pytest.raises(NotThere, match=said):
            read.read(shelf.view(status), Texts(), ["A"], read.ChosenNotes(), 100)
