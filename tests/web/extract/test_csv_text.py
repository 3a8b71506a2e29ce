"""Tables of separated values."""

import csv

import pytest

from tidings.web.extract.dispatch import extract
from tidings.web.extract.model import Caps, Extracted, ExtractOptions

URL = "https://harbour.example/boats"


def read(body: bytes, kind: str = "text/csv", *, keep_tables: bool = True, **caps: int) -> Extracted:
    return extract(body, kind, URL, ExtractOptions(keep_tables=keep_tables, caps=Caps(**caps)))


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_table_is_one_whatever_separates_it(separator: str) -> None:
    body = separator.join(("name", "size")) + "\n" + separator.join(("Elsa", "3 t")) + "\n\n"
    found = read(body.encode())
    assert found.markdown == "| name | size |\n| --- | --- |\n| Elsa | 3 t |"
    assert found.text == "name\tsize\nElsa\t3 t"
    assert (found.kind, found.method, found.empty, found.warnings) == ("table", "csv", None, ())


def test_quotes_lines_and_bars_in_cells_are_kept() -> None:
    found = read(b'name,note\n"Brook, Ada","one\ntwo | ""three"""\nshort\n')
    assert found.markdown == ('| name | note |\n| --- | --- |\n| Brook, Ada | one two \\| "three" |\n| short |  |')


def test_a_table_of_one_column_is_a_table() -> None:
    assert read(b"name\nElsa\nBrise\n").markdown == "| name |\n| --- |\n| Elsa |\n| Brise |"


def test_rows_that_are_left_out_are_counted() -> None:
    found = read(b"a,b\n" + b"1,2\n" * 50, rows=10)
    assert found.markdown.count("\n") == 11
    assert found.warnings[0].type == "truncated"
    assert "50 rows: the first 10 are given, 40 are left out" in found.warnings[0].message


def test_columns_that_are_left_out_are_counted() -> None:
    found = read(b",".join([b"x"] * 30) + b"\n", columns=10)
    assert "20 are left out" in found.warnings[0].message


def test_a_giant_cell_is_cut_with_a_warning() -> None:
    before = csv.field_size_limit()
    found = read(b"a,b\n" + b"x" * 500_000 + b",y\n")
    assert len(found.text) < 2_000
    assert found.text.endswith("…\ty")
    assert found.warnings[0].type == "truncated"
    assert csv.field_size_limit() == before


def test_a_quote_that_never_ends_ends_nothing_else() -> None:
    assert "Elsa" in read(b'a,b\n"' + b"Elsa,1\n" * 1_000).text


def test_a_table_can_be_refused() -> None:
    assert read(b"a,b\n1,2\n", keep_tables=False).markdown == "a\tb\n1\t2"


def test_a_long_table_is_cut_with_a_warning() -> None:
    found = read(b"a,b\n" + b"word,word\n" * 100, characters=200)
    assert len(found.markdown) <= 200
    assert "characters" in found.warnings[0].message


@pytest.mark.parametrize("body", [b"", b"\n \n", b",,,\n,,,\n", b"\xef\xbb\xbf"])
def test_a_table_without_anything_is_empty(body: bytes) -> None:
    assert read(body).empty == "empty"


def test_other_encodings_and_line_ends_are_understood() -> None:
    assert "Größe" in read("a;Größe\r\n1;2\r".encode("cp1252")).text
    assert read("a\tb\n1\t2\n".encode("utf-16"), "text/tab-separated-values").text == "a\tb\n1\t2"
