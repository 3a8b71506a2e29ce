"""Bases as people write them: the rows that each gives for one vault, worked out by hand."""

import json
import random
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.vault.shelf import Shelf
from tidings.vault.resources.render import fingerprint, render
from tidings.vault.view import IndexStatus, VaultView

TODAY = date(2026, 1, 31)


def note(text: str = "", **properties: Any) -> str:
    return f"---\n{json.dumps(properties)}\n---\n{text}\n"


VAULT = {
    "Books/Dune.md": note(
        "#book/scifi", author="[[Frank Herbert]]", pages=600, read=600, rating=5, finished="2026-01-10"
    ),
    "Books/Emma.md": note("#book", author="[[Jane Austen]]", pages=400, read=100, rating=4),
    "Books/Persuasion.md": note("#book", author="[[Jane Austen]]", pages=250, read=0),
    "Books/Notes on Emma.md": note("See [[Emma]]. #idea", status="draft"),
    "People/Jane Austen.md": note(born="1775-12-16", country="England"),
    "People/Frank Herbert.md": note(born="1920-10-08", country="USA"),
    "Tasks/Call.md": note("#task", status="todo", due="2026-01-30", priority=1, done=False),
    "Tasks/Pay.md": note("#task", status="todo", due="2026-02-02", priority=3, done=False),
    "Tasks/Move.md": note("#task", status="done", due="2026-01-15", priority=2, done=True),
    "Tasks/Someday.md": note("#task", status="waiting", done=False),
    "Meetings/2026-01-12.md": note("With [[Ann]]. #meeting", attendees=["[[Ann]]", "[[Bob]]"], hours=1.5),
    "Meetings/2026-01-26.md": note("#meeting", attendees="[[Bob]]", hours=0.5),
    "Projects/House.md": note("#project", budget=1000, spent=1200, tags=["home"], start="2025-11-01"),
    "Projects/Site.md": note("#project ![[logo.png]]", budget=500, spent=100, start="2026-01-05"),
    "Ann.md": note("", birthday="1990-02-14"),
    "Bob.md": note("[[Ann]]", birthday="1985-07-01"),
    "logo.png": b"\x89PNG",
    "Board.canvas": '{"nodes": [{"id": "1", "type": "file", "file": "Projects/House.md"}]}',
}


def base(filters: Any = None, order: str = "file.name", formulas: Any = None, **view: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {"views": [{"type": "table", "name": "V", "order": order.split(), **view}]}
    return whole | ({"filters": filters} if filters else {}) | ({"formulas": formulas} if formulas else {})


def sort(*properties: str) -> list[dict[str, str]]:
    return [{"property": each.lstrip("-"), "direction": "DESC" if each[0] == "-" else "ASC"} for each in properties]


BOOK = 'file.hasTag("book")'
TASK = 'file.hasTag("task")'
CASES: dict[str, tuple[dict[str, Any], list[list[Any]], Any]] = {
    "book tracker": (
        base(
            BOOK,
            "file.name formula.left",
            {"left": "pages - read"},
            sort=sort("-formula.left"),
            summaries={"pages": "Sum"},
        ),
        [["Emma", 300], ["Persuasion", 250], ["Dune", 0]],
        1250,
    ),
    "progress bar": (
        base(
            BOOK,
            "file.name formula.bar",
            {
                "part": "read / pages",
                "bar": '"#".repeat((formula.part * 4).round()) + " " + (formula.part * 100).toFixed(0) + "%"',
            },
        ),
        [["Dune", "#### 100%"], ["Emma", "# 25%"], ["Persuasion", " 0%"]],
        None,
    ),
    "unrated last": (
        base(BOOK, "file.name rating", sort=sort("rating"), summaries={"rating": "Average"}),
        [["Emma", 4], ["Dune", 5], ["Persuasion", None]],
        4.5,
    ),
    "unrated last, down": (
        base(BOOK, sort=sort("-rating"), summaries={"rating": "Empty"}),
        [["Dune"], ["Emma"], ["Persuasion"]],
        1,
    ),
    "by author": (
        base({"and": [BOOK, 'author == link("Jane Austen")']}, "file.name author", sort=sort("-file.name")),
        [["Persuasion", "[[Jane Austen]]"], ["Emma", "[[Jane Austen]]"]],
        None,
    ),
    "the author's country": (
        base(BOOK, "file.name formula.from", {"from": "author.asFile().properties.country"}),
        [["Dune", "USA"], ["Emma", "England"], ["Persuasion", "England"]],
        None,
    ),
    "finished this month": (
        base(
            {"and": [BOOK, "finished && finished.month == today().month"]},
            "file.name finished",
            summaries={"finished": "Latest"},
        ),
        [["Dune", "2026-01-10"]],
        "2026-01-10",
    ),
    "overdue": (
        base(
            {"and": [TASK, 'status != "done"', "due < today()"]},
            "file.name formula.late",
            {"late": "(today() - due).days"},
        ),
        [["Call", 1]],
        None,
    ),
    "next week": (base({"and": [TASK, 'due >= today() && due <= today() + "1 week"']}), [["Pay"]], None),
    "open by status": (
        base(
            {"and": [TASK, "!done"]},
            "file.name",
            groupBy={"property": "status", "direction": "DESC"},
            summaries={"done": "Unchecked"},
        ),
        [["Someday"], ["Call"], ["Pay"]],
        3,
    ),
    "priorities": (
        base(
            {"and": [TASK, {"not": ["priority.isEmpty()"]}]},
            "file.name formula.label",
            {"label": 'if(priority == 1, "high", if(priority == 2, "medium", "low"))'},
            sort=sort("priority"),
            limit=2,
        ),
        [["Call", "high"], ["Move", "medium"]],
        None,
    ),
    "meetings with Ann": (base('list(attendees).contains(link("Ann"))'), [["2026-01-12"]], None),
    "hours of meetings": (
        base(
            'file.inFolder("Meetings")',
            "file.basename formula.day attendees",
            {"day": 'date(file.basename).format("ddd D")'},
            summaries={"hours": "Sum"},
        ),
        [["2026-01-12", "Mon 12", ["[[Ann]]", "[[Bob]]"]], ["2026-01-26", "Mon 26", "[[Bob]]"]],
        2,
    ),
    "over budget": (
        base({"and": ['file.hasTag("project")', "spent > budget"]}, "file.name file.tags", summaries={"spent": "Max"}),
        [["House", ["#home", "#project"]]],
        1200,
    ),
    "what links to Ann": (base('file.hasLink("Ann")', sort=sort("file.name")), [["2026-01-12"], ["Bob"]], None),
    "images in use": (
        base({"and": ['file.ext == "png"', "file.backlinks.length > 0"]}, "file.name file.backlinks"),
        [["logo.png", ["[[Projects/Site]]"]]],
        None,
    ),
    "not notes": (base({"not": ['file.ext == "md"', 'file.ext == "base"']}), [["Board.canvas"], ["logo.png"]], None),
    "nested groups of filters": (
        base(
            {"or": [{"and": [BOOK, "rating >= 5"]}, {"and": [TASK, {"or": ['status == "waiting"', "priority > 2"]}]}]}
        ),
        [["Dune"], ["Pay"], ["Someday"]],
        None,
    ),
    "by expression": (
        base({"and": [r"/^\d{4}-\d{2}-\d{2}$/.matches(file.basename)", "hours >= 1"]}),
        [["2026-01-12"]],
        None,
    ),
    "ages": (
        base(
            "birthday",
            "file.name formula.age",
            {"age": "((today() - birthday).days / 365.25).floor()"},
            summaries={"birthday": "Earliest"},
        ),
        [["Ann", 35], ["Bob", 40]],
        "1985-07-01",
    ),
    "errors stay in their cells": (
        base('file.inFolder("People")', "file.name formula.bad", {"bad": "born * 2"}, summaries={"country": "Unique"}),
        [
            ["Frank Herbert", {"error": "cannot multiply date and number"}],
            ["Jane Austen", {"error": "cannot multiply date and number"}],
        ],
        2,
    ),
}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path_factory.mktemp("vault"))
    shelf.put(VAULT)
    shelf.put({f"{name}.base": json.dumps(content) for name, (content, _, _) in CASES.items()})
    yield shelf
    shelf.index.close()


@pytest.mark.parametrize("name", CASES)
def test_a_base_of_this_kind_has_these_rows(shelf: Shelf, name: str) -> None:
    rendered = render(shelf.view(), f"vault://base/{name}.base?format=json", today=TODAY)

    (view,) = json.loads(rendered.text or "")["views"]
    _, rows, summary = CASES[name]
    assert [list(row["values"].values()) for row in view["rows"]] == rows
    assert [each["value"] for each in view.get("summaries", [])] == ([] if summary is None else [summary])
    assert "problems" not in view


def test_what_is_kept_after_edits_is_what_would_be_computed_anew(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.put(VAULT)
    uris = [f"vault://base/{name}.base" for name in CASES]
    shelf.put({f"{name}.base": json.dumps(content) for name, (content, _, _) in CASES.items()})
    kept, chance = shelf.view(), random.Random(7)
    notes = [path for path in VAULT if path.endswith(".md")]
    for _ in range(15):
        path, other = chance.choice(notes), chance.choice(notes)
        match chance.randrange(4):
            case 0 if (tmp_path / path).exists():
                shelf.drop(path)
            case 1:
                shelf.put({path: VAULT[other]})
            case 2:
                shelf.put({path: str(VAULT[path]) + f"[[{Path(other).stem}]] #task"})
            case _:
                shelf.put({path: VAULT[path]})
        fresh = VaultView(shelf.index.queries, shelf.vault, IndexStatus("watching"))
        for uri in uris:
            assert fingerprint(kept, uri, today=TODAY) == fingerprint(fresh, uri, today=TODAY), uri
    shelf.index.close()
