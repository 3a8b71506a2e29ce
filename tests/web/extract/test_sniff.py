"""Bodies that are not what their label says, and bodies that are."""

import gzip
import json

import pytest

from tests.web.extract.pdfs import paragraph, pdf, text_page
from tests.web.extract.sample import article
from tidings.web.extract.dispatch import extract
from tidings.web.extract.model import Caps, ExtractionFailed, ExtractOptions, Unsupported
from tidings.web.extract.sniff import looks_binary, truly

URL = "https://harbour.example/thing"
PAGE = article()
PDF = pdf(text_page(*paragraph("Hello from a page.")))
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
JSON = json.dumps({"boats": [1, 2, {"name": "Elsa"}]}).encode()
CODE = b"def main():\n    return '<html>'\n"


@pytest.mark.parametrize(
    ("body", "said", "truth"),
    [
        (PAGE, "text/plain", "text/html"),
        (PAGE, "application/octet-stream", "text/html"),
        (PAGE, "", "text/html"),
        (PAGE, "application/json", "text/html"),
        (PAGE, "application/pdf", "text/html"),
        (PAGE, "application/rss+xml", "text/html"),
        (b"\xef\xbb\xbf\n<!-- a comment -->\n<!DOCTYPE HTML>\n<p>x", "text/plain", "text/html"),
        (b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'></html>", "text/xml", "text/html"),
        (b"<html></html>", "application/xhtml+xml", "application/xhtml+xml"),
        (b"<p>a piece of a page</p>", "", "text/html"),
        (b"<p>a piece of a page</p>", "text/plain", "text/plain"),
        (PDF, "text/html", "application/pdf"),
        (PDF, "application/octet-stream", "application/pdf"),
        (b"junk before it\n" + PDF, "application/pdf", "application/pdf"),
        (b"a text about %PDF-1.4", "text/plain", "text/plain"),
        (JSON, "text/html", "application/json"),
        (JSON, "", "application/json"),
        (JSON, "text/plain", "text/plain"),
        (b"[not json] is how a page may begin", "text/html", "text/html"),
        (b"{curly} but no end", "", "text/plain"),
        (b"[1, 2", "", "text/plain"),
        (b"[1, x]", "text/html", "text/html"),
        (b"<?xml version='1.0'?><boats/>", "", "application/xml"),
        (b"<?xml version='1.0'?><rdf:RDF><x/></rdf:RDF>", "text/xml", "text/xml"),
        (b"# Title\n\nSee [it](https://harbour.example).\n", "text/plain", "text/markdown"),
        (b"# Title\n\n## Part\n", "", "text/markdown"),
        (b"# a comment\nUser-agent: *\n", "text/plain", "text/plain"),
        (b"Dear reader,\n\nnothing to see.\n", "text/plain", "text/plain"),
        (b"Dear reader,\n\nnothing to see.\n", "", "text/plain"),
        (CODE, "text/x-python", "text/x-python"),
        (PNG, "text/plain", "image/png"),
        (PNG, "text/html", "image/png"),
        (PNG, "application/octet-stream", "image/png"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "text/plain", "image/webp"),
        (b"\0\0\0\x20ftypisom", "", "video/mp4"),
        (b"PK\x03\x04rest", "text/plain", "application/zip"),
        (bytes(range(256)) * 8, "text/plain", "application/octet-stream"),
        (bytes(range(256)) * 8, "text/csv", "application/octet-stream"),
        (b"\x01\x02\x03\x04" * 20, "", "application/octet-stream"),
        ("plain text".encode("utf-16"), "text/plain", "text/plain"),
        ("plain text".encode("utf-16-le"), "text/plain", "text/plain"),
        (b"\x1b[31mred\x1b[0m", "text/plain", "text/plain"),
        (b"", "text/html", "text/html"),
        (b"", "", "text/plain"),
    ],
)
def test_a_body_is_read_as_what_it_is(body: bytes, said: str, truth: str) -> None:
    assert truly(body, said, URL) == truth


@pytest.mark.parametrize(
    ("name", "said", "truth"),
    [
        ("a.md", "text/plain", "text/markdown"),
        ("a.CSV", "text/plain", "text/csv"),
        ("a.json?x=.md", "application/octet-stream", "application/json"),
        ("a.jsonl", "text/plain", "application/x-ndjson"),
        ("a.txt", "text/plain", "text/plain"),
        ("a.md", "text/csv", "text/csv"),
        ("a.exe", "", "text/plain"),
    ],
)
def test_the_name_of_a_file_says_which_text_it_is(name: str, said: str, truth: str) -> None:
    assert truly(b"name,size\n", said, f"https://harbour.example/{name}") == truth


def test_an_address_that_is_none_says_nothing() -> None:
    assert truly(b"text", "text/plain", "http://[broken") == "text/plain"


def test_a_wrong_label_is_told_of() -> None:
    found = extract(PAGE, "application/json", URL)
    assert found.method == "blocks"
    assert "sent as application/json, and read as the text/html" in found.warnings[-1].message


@pytest.mark.parametrize(
    "label", ["", "application/octet-stream", "text/plain", "application/xhtml+xml", "text/html, text/html", "nonsense"]
)
def test_a_label_that_says_little_is_not_called_wrong(label: str) -> None:
    assert extract(PAGE, label, URL).warnings == ()


@pytest.mark.parametrize(
    "label",
    [
        "image/png",
        "video/mp4",
        "application/zip",
        "application/msword",
        "image/svg+xml",
        "font/woff2",
        "application/wasm",
    ],
)
def test_pictures_and_other_binaries_are_not_read(label: str) -> None:
    with pytest.raises(Unsupported) as refused:
        extract(b"<svg/>", label, URL)
    assert refused.value.content_type == label


def test_a_picture_that_is_called_a_text_is_not_read_either() -> None:
    with pytest.raises(Unsupported, match="image/png"):
        extract(PNG, "text/plain", URL)
    with pytest.raises(Unsupported, match="octet-stream"):
        extract(bytes(range(256)) * 8, "", URL)


@pytest.mark.parametrize("label", ["text/html", "application/gzip", "application/octet-stream", "text/plain", ""])
def test_what_is_packed_once_more_is_unpacked(label: str) -> None:
    assert "harbour" in extract(gzip.compress(PAGE), label, URL).text.lower()


def test_packed_pieces_and_a_broken_end_are_read() -> None:
    pieces = gzip.compress(b"one ") + gzip.compress(b"two ")
    assert extract(pieces, "text/plain", URL).text == "one two"
    assert extract(pieces[:-10], "text/plain", URL).text == "one two"
    assert extract(gzip.compress(b"one") + b"\x1f\x8b\x08broken", "text/plain", URL).text == "one"


def test_a_bomb_within_is_refused() -> None:
    bomb = gzip.compress(b"a" * 2_000_000)
    with pytest.raises(ExtractionFailed, match="more than 1,000,000 bytes") as refused:
        extract(bomb, "text/html", URL, ExtractOptions(caps=Caps(unpacked=1_000_000)))
    assert refused.value.kind == "bomb"
    with pytest.raises(ExtractionFailed, match="cannot be decompressed"):
        extract(b"\x1f\x8b\x08" + b"\xff" * 100, "text/html", URL)


def test_packed_twice_within_is_a_binary() -> None:
    with pytest.raises(Unsupported):
        extract(gzip.compress(gzip.compress(PAGE)), "application/gzip", URL)


def test_nothing_is_not_binary() -> None:
    assert not looks_binary(b"")
