"""The language of bases, by the examples of Obsidian's help and the cases around them."""

import json
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from tests.vault.shelf import Shelf
from tidings.vault.bases.base import Formula, FormulaBroken
from tidings.vault.resources.render import render

TODAY = date(2026, 1, 31)
NOTE = """---
price: 12.5
quantity: 4
zero: 0
status: In progress
done: false
empty: ""
nothing:
due: 2026-02-03
at: 2026-02-03T14:30:00
tags: [work/plan, Home]
names: [Ann, bob, Cy]
numbers: [3, 1, 2, 2]
nested: [1, [2, 3]]
author: "[[Ann Author|A. A.]]"
authors: ["[[Ann Author]]", "[[Nobody]]"]
size: {width: 3, "deep key": x}
Upper Case: yes
code: 007
version: "3"
---
Text with [[Ann Author]], [[Missing]] and ![[pic.png]]. #inline
"""


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path_factory.mktemp("vault"))
    shelf.put(
        {
            "Projects/Big/Plan.md": NOTE,
            "People/Ann Author.md": "---\nborn: 1970-05-06\ncity: Rome\n---\n[[Plan]]\n",
            "pic.png": b"\x89PNG",
        }
    )
    yield shelf
    shelf.index.close()


def values(shelf: Shelf, *formulas: str) -> list[Any]:
    """The values of formulas for the note, as rows have them."""
    content = {
        "filters": 'file.basename == "Plan"',
        "formulas": {f"f{number}": text for number, text in enumerate(formulas)},
        "views": [{"name": "V", "order": [f"formula.f{number}" for number in range(len(formulas))]}],
    }
    shelf.put({"Probe.base": json.dumps(content)})
    rendered = render(shelf.view(), "vault://base/Probe.base?format=json", today=TODAY)
    (row,) = json.loads(rendered.text or "")["views"][0]["rows"]
    return list(row["values"].values())


CASES: dict[str, Any] = {
    # Operators
    "price * quantity": 50,
    "price + 1 - 0.5": 13,
    "quantity / 8": 0.5,
    "-quantity % 3": -1,
    "2 + 3 * 4": 14,
    "(2 + 3) * 4": 20,
    "10 - 4 - 3": 3,
    "1 / 0": "Infinity",
    "0.1 + 0.2": 0.1 + 0.2,
    '"a" + 1 + true': "a1true",
    'status + "!"': "In progress!",
    'nowhere + "x"': "x",
    "nowhere + 1": None,
    "nowhere * 2": None,
    "price > 10 && quantity < 5": True,
    "!done": True,
    "!price": False,
    "!!names": True,
    'empty || "else"': "else",
    "zero && price": 0,
    'status == "In progress"': True,
    'status != "done"': True,
    'nowhere != "done"': True,
    "nowhere == null": True,
    "nothing == null": True,
    "nowhere > 1": False,
    "nowhere < 1": False,
    '"b" > "a"': True,
    "1 == 1.0": True,
    'version == 3 && "3" == version': True,
    "code == 7": True,
    "true == true": True,
    "[1, 2] == [1, 2]": True,
    "1 < 2 == true": True,
    "names[0]": "Ann",
    "names[9]": None,
    "names[-1]": None,
    "size.width": 3,
    'size["deep key"]': "x",
    "size.missing": None,
    'note["Upper Case"]': "yes",
    "note.price": 12.5,
    "PRICE": 12.5,
    '{"a": 1, "b": [2]}': {"a": 1, "b": [2]},
    # Global functions
    "if(price, 1, 2)": 1,
    "if(nowhere, 1)": None,
    'if(done, "Yes", "No")': "No",
    "max(1, 3, 2)": 3,
    "min(4, quantity, 9)": 4,
    'number("3.4")': 3.4,
    "number(true)": 1,
    'number("x")': {"error": "'x' is not a number"},
    'list("value")': ["value"],
    "list(names)": ["Ann", "bob", "Cy"],
    'escapeHTML("<b>")': "&lt;b&gt;",
    'link("Ann Author", "her")': "[[Ann Author|her]]",
    'link("https://obsidian.md")': "https://obsidian.md",
    'image("pic.png")': "![](pic.png)",
    'icon("arrow-right")': "arrow-right",
    'html("<b>x</b>")': "<b>x</b>",
    'file("Ann Author").properties.city': "Rome",
    'file("[[Ann Author]]").name': "Ann Author.md",
    'file("Nobody at all")': None,
    # Any
    "1.isTruthy()": True,
    '"".isTruthy()': False,
    "[].isTruthy()": False,
    '"example".isType("string")': True,
    'true.isType("boolean")': True,
    'due.isType("date")': True,
    "123.toString()": "123",
    "nowhere.isEmpty()": True,
    "price.isEmpty()": False,
    'nowhere.contains("x")': None,
    # Dates
    "due": "2026-02-03",
    "at": "2026-02-03 14:30:00",
    "due.year": 2026,
    "at.minute": 30,
    'due.format("dddd, D MMMM YYYY")': "Tuesday, 3 February 2026",
    "at.date()": "2026-02-03",
    "at.time()": "14:30:00",
    "due.isEmpty()": False,
    "today()": "2026-01-31",
    'today() + "1M"': "2026-02-28",
    'date("2024-12-01") + "1M" + "4h" + "3m"': "2025-01-01 04:03:00",
    'due - "2 weeks"': "2026-01-20",
    'at + "1h 30m"': "2026-02-03 16:00:00",
    '(now() + "1d") - now()': 86_400_000,
    "(due - today()).days": 3,
    "((due - today()) / 86400000).round()": 3,
    "due > today()": True,
    'due == "2026-02-03"': True,
    'due < date("2026-02-03 00:00:01")': True,
    "date(due).day": 3,
    'date("soon")': {"error": "'soon' is not a date"},
    "date(nowhere)": None,
    "today() + (duration('1d') * 2)": "2026-02-02",
    "duration('5h').minutes": 300,
    "duration('1d') > duration('23h')": True,
    'date("9999-12-31") + "1y"': {"error": "the date is out of range"},
    '(today() - "3d").relative().contains("ago")': True,
    # Strings
    '"hello".length': 5,
    '"hello".contains("ell")': True,
    '"hello".containsAll("h", "e")': True,
    '"hello".containsAny("x", "y", "e")': True,
    '"hello".endsWith("lo")': True,
    '"hello".startsWith("he")': True,
    '"Hello".lower()': "hello",
    '"a:b:c:d".replace(/:/, "-")': "a-b:c:d",
    '"a:b:c:d".replace(/:/g, "-")': "a-b-c-d",
    '"a.b.c".replace(".", "")': "abc",
    '"2026-01".replace(/(\\d+)-(\\d+)/, "$2/$1")': "01/2026",
    '"123".repeat(2)': "123123",
    '"hello".reverse()': "olleh",
    '"hello".slice(1, 4)': "ell",
    '"hello".slice(-3)': "llo",
    '"a,b,c,d".split(",", 3)': ["a", "b", "c"],
    '"a,b,c,d".split(/,/, 3)': ["a", "b", "c"],
    '"hello world".title()': "Hello World",
    '"  hi  ".trim()': "hi",
    "'it\\'s'": "it's",
    # Numbers
    "(-5).abs()": 5,
    "(2.1).ceil()": 3,
    "(2.9).floor()": 2,
    "(2.5).round()": 3,
    "(2.3333).round(2)": 2.33,
    "(-2.5).round()": -2,
    "(3.14159).toFixed(2)": "3.14",
    "2.toFixed(2)": "2.00",
    # Lists
    "[1,2,3].length": 3,
    "[1,2,3].contains(2)": True,
    "[1,2,3].containsAll(2,3)": True,
    "[1,2,3].containsAny(3,4)": True,
    "[1,2,3,4].filter(value > 2)": [3, 4],
    "[1,[2,3]].flat()": [1, 2, 3],
    "[1,2,3].isEmpty()": False,
    '[1,2,3].join(",")': "1,2,3",
    "[1,2,3,4].map(value + 1)": [2, 3, 4, 5],
    "[5,6].map(index)": [0, 1],
    "[1,2,3].reduce(acc + value, 0)": 6,
    'numbers.filter(value.isType("number")).reduce(if(acc == null || value > acc, value, acc), null)': 3,
    "[1,2,3].reverse()": [3, 2, 1],
    "[1,2,3,4].slice(1,3)": [2, 3],
    "[3, 1, 2].sort()": [1, 2, 3],
    '["c", "a", "b"].sort()': ["a", "b", "c"],
    "[1,2,2,3].unique()": [1, 2, 3],
    "numbers.mean()": 2,
    "names.map(value.lower()).join(' ')": "ann bob cy",
    "[[1, 2], [3]].map(value.length)": [2, 1],
    # Links and files
    "author": "[[Ann Author|A. A.]]",
    'author == link("Ann Author")': True,
    'author == file("Ann Author")': True,
    'authors.contains(link("People/Ann Author"))': True,
    'authors.contains(link("Else"))': False,
    "author.asFile().properties.born.year": 1970,
    "author.linksTo(file)": True,
    'author == "Ann Author"': True,
    "file.name": "Plan.md",
    'file.name == "Plan"': True,
    "file.basename": "Plan",
    "file.path": "Projects/Big/Plan.md",
    "file.folder": "Projects/Big",
    "file.ext": "md",
    "file.size": len(NOTE.encode()),
    "file.mtime.year": 2026,
    "file.tags": ["#work/plan", "#Home", "#inline"],
    'file.tags.contains("inline")': True,
    'tags.contains("Home")': True,
    "file.links": ["[[Ann Author|A. A.]]", "[[Ann Author]]", "[[Nobody]]", "[[Ann Author]]", "[[Missing]]"],
    "file.embeds": ["[[pic.png]]"],
    "file.backlinks": ["[[People/Ann Author]]"],
    "file.properties.price": 12.5,
    'file.hasTag("work")': True,
    'file.hasTag("#HOME")': True,
    'file.hasTag("wor", "nope")': False,
    'file.hasLink("Ann Author")': True,
    'file.hasLink("pic.png")': True,
    'file.hasLink("Missing")': True,
    "file.hasLink(this.file)": False,
    'file.hasProperty("price")': True,
    'file.hasProperty("nowhere")': False,
    'file.inFolder("Projects")': True,
    'file.inFolder("Projects/Big/")': True,
    'file.inFolder("Proj")': False,
    'file.asLink("here")': "[[Projects/Big/Plan|here]]",
    "this.file.name": "Probe.base",
    # Objects and regular expressions
    "{}.isEmpty()": True,
    "size.keys()": ["width", "deep key"],
    "size.values()": [3, "x"],
    '/abc/.matches("abcde")': True,
    '/^ABC$/i.matches("abc")': True,
    "/^In\\s/.matches(status)": True,
    # Formulas of formulas
    "formula.f0 + 1": 51,
    # What has no value
    "status * 2": {"error": "cannot multiply string and number"},
    "price.lower()": {"error": "a number has no function lower()"},
    "due.week": {"error": "a date has no field 'week'"},
    '"x".slice("y")': {"error": "slice() cannot use string"},
}


def test_formulas_have_the_values_of_the_help(shelf: Shelf) -> None:
    texts = list(CASES)
    found = dict(zip(texts, values(shelf, *texts), strict=True))

    assert {text: value for text, value in found.items() if value != CASES[text]} == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a value is missing at its end"),
        ("1 +", "a value is missing at its end"),
        ("(1", "')' is missing at its end"),
        ("1 2", "'2' is not expected (character 3)"),
        ('status = "x"', "'=' is not expected; compare with == (character 8)"),
        ("nope(1)", "there is no function nope()."),
        ("name.containz(1)", "there is no function containz(). Did you mean 'contains'?"),
        ("if(1)", "if() takes a condition and one or two values"),
        ("name.filter()", "filter() takes one value"),
        ("/a{99999}/.matches(x)", "the regular expression /a{99999}/ cannot be used"),
        ("/abc", "the regular expression does not end"),
        ("(" * 500, "it is too deeply nested"),
        ("!" * 500 + "x", "it is too deeply nested"),
        ("x" * 30_000, "it has more than 20,000 characters"),
        ("a.", "a name is missing after '.'"),
        ("'open", "not expected"),
    ],
)
def test_a_text_that_is_no_formula_is_refused_with_the_place(text: str, why: str) -> None:
    with pytest.raises(FormulaBroken) as refused:
        Formula(text)

    assert why in str(refused.value)
