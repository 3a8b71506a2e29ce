"""What is offered while somebody types."""

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from mcp.shared.uri_template import UriTemplate
from mcp_types import Completion, CompletionArgument, CompletionContext, PromptReference, ResourceTemplateReference

from tests.vault.shelf import Shelf
from tidings.server.families import MOST_COMPLETIONS
from tidings.vault.resources.addresses import FAMILY, parse_address
from tidings.vault.resources.listing import complete

TODAY = date(2026, 1, 31)


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path)
    yield shelf
    shelf.index.close()


def offered(shelf: Shelf, ref: str, argument: str, value: str, **others: str) -> Completion:
    return complete(
        shelf.view(),
        ResourceTemplateReference(uri=FAMILY.template(FAMILY[ref])) if ref in FAMILY else PromptReference(name=ref),
        CompletionArgument(name=argument, value=value),
        CompletionContext(arguments=others) if others else None,
        today=TODAY,
    )


def values(shelf: Shelf, ref: str, argument: str, value: str, **others: str) -> list[str]:
    return offered(shelf, ref, argument, value, **others).values


def test_what_begins_with_the_text_comes_first_then_parts_then_the_rest(shelf: Shelf) -> None:
    shelf.put(dict.fromkeys(["Zoo/x planet.md", "Archive/Plan.md", "planning/a.md", "Plan.md", "other.md"], ""))

    assert values(shelf, "note", "path", "pLAN") == ["Plan.md", "planning/a.md", "Archive/Plan.md", "Zoo/x planet.md"]


def test_a_path_that_is_half_typed_goes_on(shelf: Shelf) -> None:
    shelf.put(dict.fromkeys(["Projects/Alpha/Plan.md", "Projects/Beta.md", "My Projects/Al.md"], ""))

    assert values(shelf, "note", "path", "projects/al") == ["Projects/Alpha/Plan.md", "My Projects/Al.md"]


def test_letters_beyond_ascii_are_the_same_in_any_case_and_form(shelf: Shelf) -> None:
    shelf.put(dict.fromkeys(["Übung.md", "Cafe\u0301/x.md", "Uhr.md"], ""))

    assert values(shelf, "note", "path", "üb") == ["Übung.md"]
    assert values(shelf, "note", "path", "CAFÉ") == ["Cafe\u0301/x.md"]


def test_what_means_something_to_the_database_is_only_a_letter(shelf: Shelf) -> None:
    shelf.put(dict.fromkeys(["a_b.md", "acb.md", "50%.md", "back'tick.md"], ""))

    assert values(shelf, "daily_note", "path", "a_b") == ["a_b.md"]
    assert values(shelf, "daily_note", "path", "%") == ["50%.md"]
    assert values(shelf, "daily_note", "path", "'") == ["back'tick.md"]
    assert values(shelf, "daily_note", "path", "\\") == []


def test_each_kind_offers_what_it_can_have(shelf: Shelf) -> None:
    shelf.put({"n/Note.md": "", "n/pic.png": b"", "n/deep/er/Board.canvas": "{}"})

    assert values(shelf, "note", "path", "") == ["n/Note.md"]
    assert values(shelf, "attachment", "path", "") == ["n/deep/er/Board.canvas", "n/pic.png"]
    assert values(shelf, "backlinks", "path", "") == ["n/Note.md", "n/deep/er/Board.canvas", "n/pic.png"]
    assert values(shelf, "folder", "path", "") == ["n", "n/deep", "n/deep/er"]


def test_a_path_is_offered_so_that_the_template_gives_its_uri(shelf: Shelf) -> None:
    odd = "100%25?/C# & more.md"
    shelf.put({odd: ""})

    offer = values(shelf, "note", "path", "")

    uri = UriTemplate.parse(FAMILY.template(FAMILY["note"])).expand({"path": offer[0]})
    assert parse_address(uri).argument == odd


def test_no_more_than_a_hundred_are_offered_and_the_rest_is_counted(shelf: Shelf) -> None:
    shelf.put({f"{number:03}.md": "" for number in range(MOST_COMPLETIONS + 5)})

    offer = offered(shelf, "note", "path", ".md")

    assert (len(offer.values), offer.total, offer.has_more) == (MOST_COMPLETIONS, MOST_COMPLETIONS + 5, True)
    assert offered(shelf, "note", "path", "00").has_more is False


def test_tags_are_offered_with_those_nested_in_them(shelf: Shelf) -> None:
    shelf.put({"a.md": "#Project/Alpha #home/project #other"})

    assert values(shelf, "tag", "tag", "#proj") == ["Project", "Project/Alpha", "home/project"]


@pytest.mark.parametrize("form", ["YYYY-MM-DD", "YYYY/MM-DD"])
@pytest.mark.parametrize("folder", ["", "Days"])
def test_dates_are_today_and_the_days_that_have_a_note(shelf: Shelf, form: str, folder: str) -> None:
    settings = shelf.vault.mounts[0].root / ".obsidian"
    settings.mkdir()
    (settings / "daily-notes.json").write_text(json.dumps({"format": form, "folder": folder}))
    names = [f"{folder}/{day}".lstrip("/") for day in ("2025-12-30.md", "2026/01-02.md", "2025/12-30.md", "Other.md")]
    shelf.put(dict.fromkeys([*names, "Daysend.md"], ""))
    with_note = ["2026-01-02", "2025-12-30"] if "/" in form else ["2025-12-30"]

    assert values(shelf, "daily", "date", "") == ["today", "2026-01-31", *with_note]
    assert values(shelf, "daily_note", "date", "2025") == ["2025-12-30"]
    assert values(shelf, "summarise_recent", "since", "to") == ["today"]


@pytest.mark.parametrize("typed", ["\ud800", "\0", "x" * 100_000, "%" * 5000])
def test_whatever_is_typed_is_at_worst_not_found(shelf: Shelf, typed: str) -> None:
    shelf.put({"a.md": "# a\n#t"})

    for argument in ("path", "tag", "date", "mode", "other"):
        assert values(shelf, "note", argument, typed) == []


def test_modes_are_offered(shelf: Shelf) -> None:
    assert values(shelf, "note", "mode", "s") == ["summary"]


def test_with_several_vaults_dates_are_those_of_all(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "Work", tmp_path / "Home")
    shelf.put({"Work/2026-01-01.md": "", "Home/2026-01-02.md": "", "Home/sub/2026-01-03.md": ""})

    assert values(shelf, "daily", "date", "2026-01-0") == ["2026-01-02", "2026-01-01"]
    shelf.index.close()
