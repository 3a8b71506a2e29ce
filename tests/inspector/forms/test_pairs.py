"""Arguments as they are typed on a command line."""

from pathlib import Path
from typing import Any

import pytest

from tidings.inspector.forms.build import prompt_schema
from tidings.inspector.forms.pairs import parse_pairs

POINT: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "limit": {"type": "integer"},
        "query": {"type": "string"},
        "exact": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "points": {"type": "array", "items": POINT},
        "filter": {"type": "object", "properties": {"since": {"type": "string"}, "until": {"type": "string"}}},
        "point": POINT,
        "days": {"type": "array", "items": {"enum": ["mon", "tue"]}},
        "maybe": {"type": ["string", "null"]},
        "either": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "many": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        "shape": {"anyOf": [POINT, {"type": "object", "properties": {"r": {"type": "number"}}}]},
        "dotted.name": {"type": "integer"},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {},
    },
}


@pytest.mark.parametrize(
    ("pairs", "value"),
    [
        (["limit=5", "query=5", "exact=true"], {"limit": 5, "query": "5", "exact": True}),
        (["exact"], {"exact": True}),
        (["query=a=b:=c"], {"query": "a=b:=c"}),
        (["query="], {"query": ""}),
        (["tags=a", "tags=b"], {"tags": ["a", "b"]}),
        (["tags=a"], {"tags": ["a"]}),
        (['tags=["a", "b"]'], {"tags": ["a", "b"]}),
        (["filter.since=now", "filter.until=then"], {"filter": {"since": "now", "until": "then"}}),
        (['point:={"x": 1}'], {"point": {"x": 1}}),
        (['point={"x": 1}'], {"point": {"x": 1}}),
        (["days=mon", "days=tue"], {"days": ["mon", "tue"]}),
        (["maybe=null"], {"maybe": None}),
        (["maybe=x"], {"maybe": "x"}),
        (["either=a"], {"either": "a"}),
        (["either=a", "either=b"], {"either": ["a", "b"]}),
        (["many=1", "many=2"], {"many": [1, 2]}),
        (["many=null"], {"many": None}),
        (["shape.r=1.5"], {"shape": {"r": 1.5}}),
        (["dotted.name=1"], {"dotted.name": 1}),
        (["map.one=1", "map.two=2"], {"map": {"one": 1, "two": 2}}),
        (["any=5"], {"any": 5}),
        (["any=five"], {"any": "five"}),
        (["any.deep.x=true"], {"any": {"deep": {"x": True}}}),
        (["query=@@home"], {"query": "@home"}),
        (["query:=5"], {"query": 5}),
    ],
)
def test_pairs_become_what_the_schema_says(pairs: list[str], value: dict[str, Any]) -> None:
    filled = parse_pairs(SCHEMA, pairs)
    assert (filled.value, filled.problems) == (value, ())


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["limt=5"], "limt: is not known. Did you mean limit?"),
        (["zzz=5"], "zzz: is not known. There are: limit, query, exact"),
        (["filter.sinc=5"], "filter.sinc: is not known in filter. Did you mean since?"),
        (["shape.q=5"], "shape.q: is not known in shape. There are: x, y, r."),
        (["limit=many"], 'limit: expected an integer, got "many"'),
        (["limit="], 'limit: expected an integer, got ""'),
        (["limit=1", "limit=2"], "limit: is given more than once"),
        (["limit"], "limit: needs a value: limit=…"),
        (["limit.x=1"], "limit.x: does not exist: limit is of the kind integer"),
        (["point:={"], "point: is not JSON (line 1, column 2"),
        (["days=sun"], 'days[0]: expected one of "mon", "tue", got "sun"'),
        (["=5"], '[""]: is not a name'),
        (["filter..since=5"], '["filter..since"]: is not a name'),
        (["point.x=1", "point:={}"], "point: contradicts an earlier argument"),
        (["query=@/no/such/file"], "query: cannot be read from /no/such/file: No such file or directory"),
    ],
)
def test_each_mistake_is_told_with_what_to_do(pairs: list[str], message: str) -> None:
    (problem,) = parse_pairs(SCHEMA, pairs).problems
    assert problem.message.startswith(message)


def test_a_value_may_be_a_files_content(tmp_path: Path) -> None:
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear Oslo,\n")
    point = tmp_path / "point.json"
    point.write_text('{"x": 1}')
    filled = parse_pairs(SCHEMA, [f"query=@{letter}", f"point:=@{point}"])
    assert filled.value == {"query": "Dear Oslo,\n", "point": {"x": 1}}
    letter.write_bytes(b"\xff\xfe")
    (problem,) = parse_pairs(SCHEMA, [f"query=@{letter}"]).problems
    assert problem.message.endswith("it is not text in UTF-8")


def test_a_prompt_has_a_schema_of_texts() -> None:
    made = prompt_schema([{"name": "topic", "required": True}])
    assert parse_pairs(made, ["topic=5"]).value == {"topic": "5"}
    assert "Did you mean topic?" in parse_pairs(made, ["topc=5"]).problems[0].message


def test_ten_thousand_names_are_all_known() -> None:
    schema = {"type": "object", "properties": {f"p{number}": {"type": "integer"} for number in range(10_000)}}
    assert parse_pairs(schema, ["p9999=5"]).value == {"p9999": 5}
