"""Bases that are made to take long, to fill the memory, or to be wrong."""

import json
import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.vault.shelf import Shelf
from tidings.server.families import ResourceMissing
from tidings.vault.bases import functions, rows
from tidings.vault.resources.render import fingerprint, render

TODAY = date(2026, 1, 31)
HUNDRED = '"x".repeat(100).split("")'


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path)
    shelf.put({f"{number}.md": f"---\nn: {number}\nlong: {'a' * 60}!\n---\n" for number in range(20)})
    yield shelf
    shelf.index.close()


def views(shelf: Shelf, base: Any) -> list[dict[str, Any]]:
    shelf.put({"B.base": base if isinstance(base, str) else json.dumps(base)})
    rendered = render(shelf.view(), "vault://base/B.base?format=json", today=TODAY)
    first = fingerprint(shelf.view(), "vault://base/B.base", today=TODAY)
    assert first == fingerprint(shelf.view(), "vault://base/B.base", today=TODAY) != ""
    return json.loads(rendered.text or "")["views"]


@pytest.mark.parametrize(
    "formulas",
    [
        {"f": f"{HUNDRED}.map({HUNDRED}.map({HUNDRED}.map({HUNDRED}))).flat().flat().length"},
        {"f": '"x".repeat(1000000000)'},
        {"f": '"x".repeat(99999).split("").map("y".repeat(99999)).join("z")'},
        {"f": '"x".repeat(99999).replace("x", "y".repeat(9999))'},
        {"f": f'{HUNDRED}.reduce(acc + acc, "x")'},
        {"f": f"{HUNDRED}.reduce([acc, acc], 1)"},
        {"f": f'{HUNDRED}.reduce({{"a": acc, "b": [acc]}}, 1)'},
        {"f": '"x".repeat(9999).split("").reduce([acc], 1)'},
        {"f": f"{HUNDRED}.reduce(acc * acc, 99)"},
        {"f": "/(?:a|a|b?a)*$/.matches(long)"},
        {"f": 'long.replace(/(?:a|a|b?a)*$/g, "x")'},
        {"f": "formula.g", "g": "formula.h + 1", "h": "formula.f"},
        {"f": "formula.f1", **{f"f{n}": f"formula.f{n + 1} + formula.f{n + 1}" for n in range(1, 190)}, "f190": "1"},
        {"f": "date('2026-01-01') + '99999999999999999y'"},
        {"f": "(1/0).toFixed(9999999)"},
        {"f": "9".ljust(400, "9")},
    ],
)
def test_a_formula_that_would_take_for_ever_is_an_error_or_a_value_soon(
    shelf: Shelf, formulas: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functions, "_SECONDS", 0.005)
    wanted = {"filters": 'file.ext == "md"', "formulas": formulas, "views": [{"order": ["file.name", "formula.f"]}]}

    (view,) = views(shelf, wanted)

    assert view["total"] == 20 or "too many steps" in view["problems"][0]
    assert all(len(json.dumps(row)) < 200_000 for row in view["rows"])


def test_a_base_that_takes_too_many_steps_says_so(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_STEPS", 100_000)
    slow = f"{HUNDRED}.map({HUNDRED}.map(value + 1).length).length"
    names = [f"f{number}" for number in range(90)]
    wanted = {"formulas": dict.fromkeys(names, slow), "views": [{"order": [f"formula.{name}" for name in names]}]}

    (view,) = views(shelf, wanted)

    assert view["problems"] == ["The base takes too many steps. Make its formulas simpler."]


@pytest.mark.parametrize(
    ("base", "problem"),
    [
        ("filter: x\n", "There is no key 'filter'. Did you mean 'filters'?"),
        ("filters: {and: [x], or: [y]}\n", "is not a filter. Write a formula"),
        ("filters: [{nor: [x]}]\n", "is not a filter"),
        ("views: [{sorts: []}]\n", "there is no key 'sorts'. Did you mean 'sort'?"),
        ("views: [{type: gantt}]\n", "type: 'gantt' is not one of table, cards, list, kanban, map."),
        ("views: [{limit: many}]\n", "limit: 'many' is not a number of rows."),
        ("views: [{order: [file.nam]}]\n", "order: file.nam: files have no property 'nam'. Did you mean 'name'?"),
        ("views: [{sort: [{property: formula.x}]}]\n", "sort: formula.x: there is no formula 'x'."),
        ("views: [{summaries: {n: Sums}}]\n", "summaries: n: there is no summary 'Sums'. Did you mean 'Sum'?"),
        ("formulas: {a: '1 +'}\n", "formulas: a: '1 +' is not a formula: a value is missing at its end"),
        ("summaries: {a: ')'}\n", "summaries: a: ')' is not a formula"),
        (
            "filters: 'n.lower() == 1'\n",
            "filters: 'n.lower() == 1' fails for 20 files, for example '0.md': ",
        ),
        ("filters: 7\n", "is not a filter"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(shelf: Shelf, base: str, problem: str) -> None:
    (view,) = views(shelf, base)

    assert problem in " ".join(view["problems"])


def test_a_file_from_another_age_spoils_no_other(shelf: Shelf, tmp_path: Path) -> None:
    os.utime(tmp_path / "1.md", (-99_999_999_999, -99_999_999_999))
    shelf.look()

    (view,) = views(shelf, {"filters": "n <= 2", "views": [{"order": ["n", "file.mtime", "file.ctime"]}]})

    assert [row["values"]["n"] for row in view["rows"]] == [0, 1, 2]


def test_a_broken_view_hides_no_other(shelf: Shelf) -> None:
    broken, whole = views(shelf, {"views": [{"filters": "1 +"}, {"name": "Fine", "filters": "n > 17", "order": ["n"]}]})

    assert (broken["view"], broken["rows"]) == ("View 1", [])
    assert [row["values"] for row in whole["rows"]] == [{"n": 18}, {"n": 19}]
    assert "problems" not in whole


@pytest.mark.parametrize("text", ["[", "a: [", "\t- x", "- 1", "&a [*a, *a]", "[" * 5000])
def test_a_file_that_is_no_base_is_an_error_that_says_so(shelf: Shelf, text: str) -> None:
    shelf.put({"B.base": text})

    with pytest.raises(ResourceMissing, match=r"'B.base' has no views. Not all of it can be read: .*\(line [12]\)"):
        render(shelf.view(), "vault://base/B.base")
