"""When the content of a resource counts as different, and how far it is to be trusted."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.vault.sample import LISTS, PLAN, SAMPLE, TODAY, content
from tests.vault.shelf import BEGINNING, Shelf
from tidings.vault.resources.render import fingerprint, render
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


# How far it is to be trusted


@pytest.mark.parametrize("uri", [*LISTS, "vault://note/Plan?mode=summary"])
def test_what_may_lack_something_says_so(shelf: Shelf, uri: str) -> None:
    indexing = json.loads(render(shelf.view(IndexStatus("indexing", (3, 10))), uri).text or "")
    beginning = json.loads(render(shelf.view(IndexStatus("indexing")), uri).text or "")
    away = json.loads(render(shelf.view(IndexStatus("away")), uri).text or "")

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
    def at(status: IndexStatus) -> str:
        return fingerprint(shelf.view(status), uri)

    done = at(IndexStatus("watching"))
    assert done == at(IndexStatus("polling")) != ""
    assert at(IndexStatus("indexing", (1, 9))) == at(IndexStatus("indexing", (2, 9)))
    is_json = "attachment" not in uri and ("note" not in uri or "summary" in uri)
    assert (at(IndexStatus("indexing")) != done) == is_json
    assert (at(IndexStatus("away")) != done) == is_json


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


def test_an_attachment_changes_with_what_it_holds_and_not_with_its_times(shelf: Shelf) -> None:
    place = shelf.vault.locate("pic.png")
    before = fingerprint(shelf.view(), "vault://attachment/pic.png")

    os.utime(place, (BEGINNING, BEGINNING))
    shelf.look()
    assert fingerprint(shelf.view(), "vault://attachment/pic.png") == before

    place.write_bytes(b"\x89pnG")
    os.utime(place, (BEGINNING, BEGINNING))
    shelf.look()
    assert fingerprint(shelf.view(), "vault://attachment/pic.png") != before


def test_the_same_again_changes_nothing(shelf: Shelf) -> None:
    shelf.minutes = list(SAMPLE).index("Home.md")
    assert changed(shelf, {"Home.md": "Welcome.\n"}) == set()


@pytest.mark.parametrize("uri", ["", "vault://", "vault://note/\ud800", "vault://search/%22", "x", "vault://note/%00"])
def test_a_fingerprint_of_nonsense_is_empty(shelf: Shelf, uri: str) -> None:
    assert fingerprint(shelf.view(), uri) == ""
