"""JSON and CSV as readable text."""

import csv
import json
import sys

import pytest

from tidings._kit.bounded_json import NotJson
from tidings.web.extract.data import written
from tidings.web.extract.model import Caps, Extracted, ExtractOptions
from tidings.web.extract.pool import decoded_outcome, encoded_outcome, extract

URL = "https://harbour.example/data"


def read(body: bytes | object, kind: str = "application/json", *, keep_tables: bool = True, **caps: int) -> Extracted:
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return extract(body, kind, URL, ExtractOptions(keep_tables=keep_tables, caps=Caps(**caps)))


def test_json_is_indented_and_short_parts_stand_in_one_line() -> None:
    found = read({"name": "Elsa", "place": [54.1, 12.09], "crew": [{"name": "Ada", "days": [1, 2]}] * 2, "none": {}})
    assert found.text == (
        '{\n  "name": "Elsa",\n  "place": [54.1, 12.09],\n  "crew": [\n    {\n      "name": "Ada",\n'
        '      "days": [1, 2]\n    },\n    {\n      "name": "Ada",\n      "days": [1, 2]\n    }\n  ],\n  "none": {}\n}'
    )
    assert found.markdown == f"```json\n{found.text}\n```"
    assert (found.kind, found.method, found.title, found.empty) == ("data", "json", "Elsa", None)


def test_numbers_stay_as_they_are_written() -> None:
    digits = b"9" * 10_000
    assert read(b"[1.10, 1e999, -0, %s, NaN]" % digits).text == (
        f"[\n  1.10,\n  1e999,\n  -0,\n  {digits.decode()},\n  NaN\n]"
    )


def test_a_list_of_flat_objects_is_a_table() -> None:
    found = read([{"name": "a|b", "size": 1.50}, {"name": "two\nlines", "new": True, "old": None}])
    assert found.markdown == (
        "| name | size | new | old |\n| --- | --- | --- | --- |\n| a\\|b | 1.5 |  |  |\n| two lines |  | true | null |"
    )
    assert found.text.startswith("[\n")


@pytest.mark.parametrize(
    "value",
    [
        [{"a": [1]}],
        [{"a": 1}, 2],
        [{}],
        [],
        [{"a": "x" * 500}],
        [{str(number): number for number in range(30)}],
        [{"a": 1}] * 20,
    ],
)
def test_other_lists_are_not(value: object) -> None:
    assert read(value, rows=10).markdown.startswith("```json")


def test_a_table_can_be_refused() -> None:
    assert read([{"a": 1}], keep_tables=False).markdown.startswith("```json")


def test_what_json_ld_says_of_itself_is_known() -> None:
    thing = {
        "@type": "Article",
        "headline": "Winter",
        "author": [{"name": "Ada Brook"}],
        "datePublished": "2024-01-01",
        "description": "Cold.",
        "inLanguage": "en",
    }
    for found in (read(thing, "application/ld+json"), read({"@graph": [thing]}, "application/ld+json")):
        assert (found.title, found.author, found.description) == ("Winter", "Ada Brook", "Cold.")
        assert (found.published_at, found.language) == ("2024-01-01", "en")


def test_json_lines_are_one_list() -> None:
    body = b'{"a": 1}\n{"a": 2}\n\n'
    for label in ("application/x-ndjson", "application/json", "application/jsonl"):
        found = read(body, label)
        assert (found.method, found.text) == ("ndjson", '{"a": 1}\n{"a": 2}')
        assert found.markdown == "| a |\n| --- |\n| 1 |\n| 2 |"


def test_guards_against_browsers_are_taken_off() -> None:
    assert read(b')]}\',\n{"a": 1}').text == '{"a": 1}'


@pytest.mark.parametrize("label", ["application/json", "application/x-ndjson"])
@pytest.mark.parametrize(
    "body", [b'{"a": 1,}', b"Too many requests", b"Too many\nrequests", b'{"a": 1}\nnothing', b"[" * 200_000]
)
def test_what_is_no_json_is_given_as_it_is(body: bytes, label: str) -> None:
    found = read(body, label)
    assert (found.method, found.empty, found.text) == ("text", None, body.decode())
    assert found.warnings[0].type == "extraction_fallback"


def test_json_as_deep_as_parsers_go_is_given_in_one_way_or_the_other() -> None:
    for depth in (100, 400, 600, 900, 990):
        found = read(b'{"a":[' * (depth // 2) + b"1" + b"]}" * (depth // 2))
        assert "1" in found.text
        assert found.empty is None


def test_a_value_too_deep_to_be_written_is_none() -> None:
    value: list[object] = []
    for _ in range(sys.getrecursionlimit() + 10):
        value = [value]
    with pytest.raises(NotJson, match="deep"):
        written(value)


def test_json_without_end_is_cut_with_a_warning() -> None:
    found = read([[[["x" * 30] * 3] * 3] * 3] * 100, characters=1_000)
    assert len(found.text) <= 1_000
    assert found.warnings[0].type == "truncated"


def test_halves_of_characters_are_replaced() -> None:
    found = decoded_outcome(encoded_outcome(read(rb'{"title": "a\ud800b", "whole": "\ud83d\ude00"}')))
    assert isinstance(found, Extracted)
    assert found.title == "a\N{REPLACEMENT CHARACTER}b"
    assert found.text.encode()
    assert "\N{GRINNING FACE}" in found.text


@pytest.mark.parametrize("label", ["application/json", "application/x-ndjson", "text/json", "application/problem+json"])
@pytest.mark.parametrize("body", [b"", b" \n", b"\xef\xbb\xbf"])
def test_no_body_is_empty(body: bytes, label: str) -> None:
    assert read(body, label).empty == "empty"


def test_an_empty_list_is_an_answer() -> None:
    found = read([])
    assert (found.text, found.empty) == ("[]", None)


CSV_URL = "https://harbour.example/boats"


def read_csv(body: bytes, kind: str = "text/csv", *, keep_tables: bool = True, **caps: int) -> Extracted:
    return extract(body, kind, CSV_URL, ExtractOptions(keep_tables=keep_tables, caps=Caps(**caps)))


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_table_is_one_whatever_separates_it(separator: str) -> None:
    body = separator.join(("name", "size")) + "\n" + separator.join(("Elsa", "3 t")) + "\n\n"
    found = read_csv(body.encode())
    assert found.markdown == "| name | size |\n| --- | --- |\n| Elsa | 3 t |"
    assert found.text == "name\tsize\nElsa\t3 t"
    assert (found.kind, found.method, found.empty, found.warnings) == ("table", "csv", None, ())


def test_quotes_lines_and_bars_in_cells_are_kept() -> None:
    found = read_csv(b'name,note\n"Brook, Ada","one\ntwo | ""three"""\nshort\n')
    assert found.markdown == ('| name | note |\n| --- | --- |\n| Brook, Ada | one two \\| "three" |\n| short |  |')


def test_a_table_of_one_column_is_a_table() -> None:
    assert read_csv(b"name\nElsa\nBrise\n").markdown == "| name |\n| --- |\n| Elsa |\n| Brise |"


def test_rows_that_are_left_out_are_counted() -> None:
    found = read_csv(b"a,b\n" + b"1,2\n" * 50, rows=10)
    assert found.markdown.count("\n") == 11
    assert found.warnings[0].type == "truncated"
    assert "50 rows: the first 10 are given, 40 are left out" in found.warnings[0].message


def test_columns_that_are_left_out_are_counted() -> None:
    found = read_csv(b",".join([b"x"] * 30) + b"\n", columns=10)
    assert "20 are left out" in found.warnings[0].message


def test_a_giant_cell_is_cut_with_a_warning() -> None:
    before = csv.field_size_limit()
    found = read_csv(b"a,b\n" + b"x" * 500_000 + b",y\n")
    assert len(found.text) < 2_000
    assert found.text.endswith("…\ty")
    assert found.warnings[0].type == "truncated"
    assert csv.field_size_limit() == before


def test_a_quote_that_never_ends_ends_nothing_else() -> None:
    assert "Elsa" in read_csv(b'a,b\n"' + b"Elsa,1\n" * 1_000).text


def test_a_table_can_be_refused_in_csv() -> None:
    assert read_csv(b"a,b\n1,2\n", keep_tables=False).markdown == "a\tb\n1\t2"


def test_a_long_table_is_cut_with_a_warning() -> None:
    found = read_csv(b"a,b\n" + b"word,word\n" * 100, characters=200)
    assert len(found.markdown) <= 200
    assert "characters" in found.warnings[0].message


@pytest.mark.parametrize("body", [b"", b"\n \n", b",,,\n,,,\n", b"\xef\xbb\xbf"])
def test_a_table_without_anything_is_empty(body: bytes) -> None:
    assert read_csv(body).empty == "empty"


def test_other_encodings_and_line_ends_are_understood() -> None:
    assert "Größe" in read_csv("a;Größe\r\n1;2\r".encode("cp1252")).text
    assert read_csv("a\tb\n1\t2\n".encode("utf-16"), "text/tab-separated-values").text == "a\tb\n1\t2"
