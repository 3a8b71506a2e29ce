"""The true content type of a body, and its encoding."""

import codecs
import gzip
import json

import pytest

from tests.web.extract.pdfs import paragraph, pdf, text_page
from tests.web.extract.sample import article
from tidings.web.extract.model import Caps, ExtractionFailed, ExtractOptions, Unsupported
from tidings.web.extract.pool import extract
from tidings.web.extract.sniff import as_text, as_utf8, looks_binary, truly

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


TEXT = "<p>Grüße, “Welt”</p>"


@pytest.mark.parametrize(
    ("body", "charset"),
    [
        (TEXT.encode(), None),
        (TEXT.encode(), "utf-8"),
        (TEXT.encode(), "iso-8859-1"),
        (TEXT.encode("cp1252"), None),
        (TEXT.encode("cp1252"), "iso-8859-1"),
        (TEXT.encode("cp1252"), "no-such-thing"),
        (TEXT.encode("utf-16"), None),
        (codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), "latin-1"),
        (codecs.BOM_UTF8 + TEXT.encode(), "latin-1"),
        (codecs.BOM_UTF32_LE + TEXT.encode("utf-32-le"), None),
        (TEXT.encode(), "utf-16"),
        (TEXT.encode(), "utf-7"),
        (TEXT.encode(), "rot13"),
    ],
)
def test_the_text_is_the_same_whatever_it_came_in(body: bytes, charset: str | None) -> None:
    assert as_utf8(body, charset).decode() == TEXT


def test_what_the_page_says_of_itself_is_believed() -> None:
    page = '<meta charset="koi8-r"><p>Привет</p>'
    assert as_utf8(page.encode("koi8-r"), None).decode() == page
    page = "<?xml version='1.0' encoding='shift_jis'?><p>日本</p>"
    assert as_utf8(page.encode("shift_jis"), None).decode() == page


def test_seven_bits_can_say_more_than_ascii() -> None:
    page = "<p>日本</p>"
    assert as_utf8(page.encode("iso-2022-jp"), "iso-2022-jp").decode() == page
    assert as_utf8(b"<p>plain</p>", None) == b"<p>plain</p>"


def test_the_response_is_believed_before_the_page() -> None:
    page = '<meta charset="koi8-r"><p>é</p>'
    assert as_utf8(page.encode("latin-1"), "latin-1").decode() == page


def test_what_cannot_be_decoded_is_replaced_and_zero_bytes_go() -> None:
    assert as_utf8(b"a\xff\0b", "utf-8").decode() == "a\N{REPLACEMENT CHARACTER}b"
    assert as_utf8(b"a\0b", None) == b"ab"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("charset", [None, "utf-8", "utf-16", "no-such-thing"])
def test_two_and_four_bytes_a_letter_are_told_without_a_mark(encoding: str, charset: str | None) -> None:
    assert as_utf8(TEXT.encode(encoding), charset).decode() == TEXT
    long = TEXT * 500
    assert as_utf8(long.encode(encoding), charset).decode() == long


@pytest.mark.parametrize(
    "name",
    ["utf-7", "unicode_escape", "raw-unicode-escape", "hz", "iso-2022-kr", "punycode", "idna", "rot13", "base64",
     "zlib", "utf-16", "undefined", "x" * 9_000, "a\0b", "../../etc", "", " "],
)  # fmt: skip
def test_encodings_that_hide_something_are_not_used(name: str) -> None:
    body = rb"+ADw-script+AD4- \x3cb\x3e ~{<:Ky2;S{#,NpJ)l6HK!#~}"
    assert as_utf8(body, name) == body
    assert as_utf8(b'<meta charset="%s">' % name.encode() + body, None).endswith(body)


def test_a_label_that_does_not_fit_at_all_is_a_lie() -> None:
    text = "Grüße aus Köln, wo es schöne Gärten gibt, größere als anderswo. " * 3
    assert as_utf8(text.encode("cp1252"), "utf-8").decode() == text
    page = '<meta charset="windows-1251">' + "Привет из порта, лодки стоят. " * 3
    assert as_utf8(page.encode("cp1251"), "utf-8").decode() == page


def test_a_few_broken_bytes_make_no_lie() -> None:
    body = ("Grüße " * 50).encode() + b"\xff\xff\xff"
    assert as_utf8(body, "utf-8").decode().startswith("Grüße Grüße")


def test_line_ends_are_made_one() -> None:
    assert as_text(b"a\r\nb\rc\n", None) == "a\nb\nc\n"


@pytest.mark.parametrize("name", ["x-sjis", "euc-kr", "big5", "windows-874", "x-mac-cyrillic", "koi8-u", "gbk"])
def test_the_names_that_browsers_know_are_known(name: str) -> None:
    assert as_utf8(b"<p>\xff\x80 a</p>", name).decode().endswith("a</p>")
