"""Plain text and code."""

import pytest

from tidings.web.extract.dispatch import extract
from tidings.web.extract.model import Caps, ExtractOptions

URL = "https://harbour.example/notes"


def test_text_is_given_as_it_is() -> None:
    found = extract(b"\n  Indented\r\nlines\rand\x07 more\x0cpage\n\n", "text/plain", URL)
    assert found.text == "  Indented\nlines\nand more\npage"
    assert (found.kind, found.method, found.markdown, found.title) == ("text", "text", found.text, None)


def test_nothing_in_plain_text_is_a_heading() -> None:
    assert extract(b"# a comment\nUser-agent: *\n", "text/plain", URL).markdown == "\\# a comment\nUser-agent: *"


@pytest.mark.parametrize(
    ("kind", "url", "language"),
    [
        ("text/x-python", "https://harbour.example/a.py", "python"),
        ("text/css", "https://harbour.example/a.css?x=1", "css"),
        ("application/javascript", "https://harbour.example/script", ""),
        ("text/calendar", "https://harbour.example/a.;drop", ""),
        ("text/whatever", "http://[broken", ""),
    ],
)
def test_code_is_a_block_of_code(kind: str, url: str, language: str) -> None:
    found = extract(b"a = '```'\n", kind, url)
    assert found.markdown == f"````{language}\na = '```'\n````"
    assert found.text == "a = '```'"


@pytest.mark.parametrize("kind", ["text/plain", "text/css"])
@pytest.mark.parametrize("body", [b"", b" \n\t", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_no_text_is_empty(body: bytes, kind: str) -> None:
    found = extract(body, kind, URL)
    assert (found.empty, found.text, found.markdown) == ("empty", "", "")


def test_text_without_end_is_cut_at_a_line_with_a_warning() -> None:
    found = extract(b"word\n" * 1_000, "text/plain", URL, ExtractOptions(caps=Caps(characters=102)))
    assert found.text == "word\n" * 19 + "word"
    assert "4,999 characters: the first 99 are given, 4,900 are left out" in found.warnings[0].message


def test_a_line_without_end_is_cut_where_it_must_be() -> None:
    found = extract(b"x" * 10_000_000, "text/plain", URL)
    assert len(found.text) == 2_000_000
    assert found.warnings[0].type == "truncated"
