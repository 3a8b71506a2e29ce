"""Bases as they are written in YAML, with formulas, groups, sorting and summaries; their rows, worked out by hand."""

import json
from collections.abc import Iterator
from datetime import date
from typing import Any
from urllib.parse import quote

import pytest

from tests.vault.shelf import Shelf
from tidings.vault.resources.render import render

TODAY = date(2026, 1, 31)

SOUP = """---
tags: [recipe, vegan]
serves: 4
minutes: 35
ingredients:
  - carrot
  - leek
  - salt
rating: 3.5
cooked:
  - 2025-12-01
  - 2026-01-20
nutrition:
  kcal: 210
prep time: 10 minutes
---
See [[Stock]].
"""
CURRY = """---
tags:
  - recipe
serves: 2
minutes: 50
ingredients: [onion, salt, chili]
rating: 5
cooked: [2026-01-05]
nutrition: {kcal: 640}
source: "[[Grandma|Gran]]"
---
![[curry.jpg]] and [[Rice]] #recipe/hot
"""
LISBON = """---
start: 2026-02-27
end: 2026-03-03
budget: 900
spent: 1100.5
with: ["[[Ann Lee]]", "[[Bob]]"]
state: planned
---
#trip
"""
OSLO = """---
start: 2025-08-30
end: 2025-09-02
budget: 1200
spent: 1000
with: "[[Ann Lee]]"
state: Done
---
#trip
"""
VAULT = {
    "Recipes/Soup.md": SOUP,
    "Recipes/Curry.md": CURRY,
    "Recipes/Bread.md": "---\ntags: recipe\nserves: 8\nminutes: 180\ningredients: flour\nrating:\ncooked: []\n---\n",
    "Recipes/Stock.md": "---\ntags: [recipe]\nserves: 0\nminutes: 120\ningredients: []\nrating: 2\n---\n#recipe/base\n",
    "People/Grandma.md": "---\naliases: [Gran]\nborn: 1940-02-29\n---\n[[Curry]]\n",
    "Trips/Lisbon.md": LISBON,
    "Trips/Oslo.md": OSLO,
    "Trips/Rome.md": "---\nstart: 2026-01-31T08:30\nend: 2026-02-01T20:00\nbudget: 500\nstate: planned\n---\n#trip\n",
    "Trips/Someday.md": "---\nstate: \n---\n#trip\n",
    "Ann Lee.md": "---\nrole: Lead\n---\n",
    "curry.jpg": b"\xff\xd8\xff",
}

RECIPES = """
filters:
  and:
    - file.hasTag("recipe")
    - file.inFolder("Recipes")
formulas:
  per: "(minutes / serves).round(1)"
  salty: if(list(ingredients).contains("salt"), "yes", "no")
  kcal: nutrition.kcal
  last: cooked[cooked.length - 1]
  "short name": file.basename.slice(0, 3).lower() + "-" + file.ext
  hot: file.tags.contains("#recipe/hot")
views:
  - type: table
    name: All
    order: [file.name, formula.per, formula.salty, formula.kcal, formula.last, "formula.short name", formula.hot]
    sort:
      - property: rating
        direction: DESC
    summaries:
      rating: Average
      minutes: Median
      nutrition: Filled
"""
TRIPS = """
filters: file.hasTag("trip")
formulas:
  days: if(start, (end.date() - start.date()).days + 1)
  over: spent - budget
  when: 'if(start.date() > today(), "in " + (start - today()).days.floor() + " days", if(start, "past", "never"))'
  quarter: start.format("YYYY-[Q]Q MMM")
  due: start - "1M"
views:
  - type: table
    name: By state
    groupBy: {property: state, direction: ASC}
    order: [file.name, state, formula.days, formula.over, formula.when, formula.quarter, formula.due]
    sort:
      - {property: start, direction: ASC}
    summaries: {budget: Sum, spent: Range, start: Earliest}
  - type: list
    name: Far
    filters:
      or:
        - with.contains(link("Ann Lee")) && budget > 1000
        - and:
            - 'state.lower() == "planned"'
            - not: ['spent']
    order: [file.name, with]
  - type: table
    name: Not done
    filters: 'state != "Done"'
    order: [file.name, note.state]
    sort: [{property: file.name, direction: DESC}]
"""
TEXTS = r"""
formulas:
  squares: "[3, 1, 2].map(value * value).sort().join('/')"
  total: 'list(ingredients).reduce(acc + value.length, 0)'
  longest: list(ingredients).reduce(if(value.length > acc.length, value, acc), "")
  flip: list(ingredients).reverse().slice(0, 2)
  neg: (-2.5).round() + (-7 % 3)
  text: '"a,b;c".split(/[,;]/).map(value.title()).join("") + "x".repeat(3) + "tEsT cAsE".title()'
  day: '"2026-01-31 x".replace(/(\d+)-(\d+)-(\d+)/, "$3.$2.$1")'
  object: '{"k": 1, "l": [1,2]}.keys().join() + {"k": 5}.values()[0]'
  logic: '!rating.isEmpty() && (rating >= 3 || minutes < 60)'
  number: number("3.50") + number(true) + number("-1e2")
views:
  - type: cards
    name: Cards
    filters: {and: ['file.folder == "Recipes"', 'formula.total > 0']}
    order: [file.name, formula.squares, formula.total, formula.longest, formula.flip, formula.neg, formula.text,
      formula.day, formula.object, formula.logic, formula.number]
    sort: [{property: formula.total, direction: DESC}, {property: file.name, direction: ASC}]
"""
LINKS = """
filters:
  not:
    - file.ext == "base"
formulas:
  ins: file.backlinks.length
  outs: file.links.length
  born: source.asFile().properties.born.year
  gran: file.hasLink("Grandma")
  self: file == link("Curry").asFile()
  gran text: source.contains("Gran") && source.toString().length
views:
  - type: table
    name: Linked
    filters: {or: [formula.ins > 0, file.embeds.length > 0]}
    order: [file.path, formula.ins, formula.outs, formula.born, formula.gran, formula.self, formula.gran text]
    sort: [{property: formula.ins, direction: DESC}, {property: file.path, direction: DESC}]
  - type: table
    name: Folders
    filters: '!file.folder.isEmpty() && file.ext != "jpg"'
    groupBy: file.folder
    order: [file.basename]
    sort: [{property: file.size, direction: DESC}]
    limit: 3
"""
NOTES = """
filters: 'cooked || born'
summaries:
  spread: values.filter(value).map(number(value)).reduce(max(acc, value), 0) - 1
  names: values.length + " notes"
views:
  - type: table
    name: Found
    order: [file.name, "prep time", cooked, born]
    filters:
      and:
        - '/^(soup|grand)/i.matches(file.name) || list(cooked).containsAny("2026-01-05")'
    groupBy: {property: rating, direction: DESC}
    summaries: {rating: spread, file.name: names, cooked: Empty}
"""
SAME = ["1/4/9"], [-3, "ABCxxxTest Case", "31.01.2026 x", "k, l5"]

CASES: dict[tuple[str, str], tuple[list[list[Any]], list[Any]]] = {
    (RECIPES, "All"): (
        [
            ["Curry", 25, "yes", 640, "2026-01-05", "cur-md", True],
            ["Soup", 8.8, "yes", 210, "2026-01-20", "sou-md", False],
            ["Stock", "Infinity", "no", None, None, "sto-md", False],
            ["Bread", 22.5, "no", None, None, "bre-md", False],
        ],
        [3.5, 85, 2],
    ),
    (TRIPS, "By state"): (
        [
            ["Oslo", "Done", 4, -200, "past", "2025-Q3 Aug", "2025-07-30"],
            ["Rome", "planned", 2, None, "past", "2026-Q1 Jan", "2025-12-31 08:30:00"],
            ["Lisbon", "planned", 5, 200.5, "in 27 days", "2026-Q1 Feb", "2026-01-27"],
            ["Someday", None, None, None, "never", None, None],
        ],
        [2600, 100.5, "2025-08-30"],
    ),
    (TRIPS, "Far"): ([["Oslo", "[[Ann Lee]]"], ["Rome", None]], []),
    (TRIPS, "Not done"): ([["Someday", None], ["Rome", "planned"], ["Lisbon", "planned"]], []),
    (TEXTS, "Cards"): (
        [
            ["Curry", *SAME[0], 14, "onion", ["chili", "salt"], *SAME[1], True, -95.5],
            ["Soup", *SAME[0], 14, "carrot", ["salt", "leek"], *SAME[1], True, -95.5],
            ["Bread", *SAME[0], 5, "flour", ["flour"], *SAME[1], False, -95.5],
        ],
        [],
    ),
    (LINKS, "Linked"): (
        [
            ["Ann Lee.md", 2, 0, None, False, False, None],
            ["Recipes/Stock.md", 1, 0, None, False, False, None],
            ["Recipes/Curry.md", 1, 2, 1940, True, True, 16],
            ["People/Grandma.md", 1, 1, None, False, False, None],
            ["curry.jpg", 1, 0, None, False, False, None],
        ],
        [],
    ),
    (LINKS, "Folders"): ([["Grandma"], ["Soup"], ["Curry"]], []),
    (NOTES, "Found"): (
        [
            ["Curry", None, ["2026-01-05"], None],
            ["Soup", "10 minutes", ["2025-12-01", "2026-01-20"], None],
            ["Grandma", None, None, "1940-02-29"],
        ],
        [4, "3 notes", 1],
    ),
}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path_factory.mktemp("vault"))
    shelf.put(VAULT)
    yield shelf
    shelf.index.close()


@pytest.mark.parametrize(("text", "name"), CASES, ids=[name for _, name in CASES])
def test_a_view_of_this_base_has_these_rows(shelf: Shelf, text: str, name: str) -> None:
    shelf.put({"Tried.base": text})

    rendered = render(shelf.view(), f"vault://base/Tried.base?format=json&view={quote(name)}", today=TODAY)

    (view,) = json.loads(rendered.text or "")["views"]
    rows, sums = CASES[text, name]
    assert [list(row["values"].values()) for row in view["rows"]] == rows
    assert [each["value"] for each in view.get("summaries", [])] == sums
    assert "problems" not in view
