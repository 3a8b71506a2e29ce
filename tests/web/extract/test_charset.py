"""Pages in any encoding come out in one."""

import codecs

import pytest

from tidings.web.extract.sniff import as_text, as_utf8

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


def test_letters_of_the_east_in_two_bytes_are_believed_if_they_fit() -> None:
    text = "日本語の文章です" * 5
    assert as_utf8(text.encode("utf-16-le"), "utf-16").decode() == text
    assert as_utf8(text.encode("utf-16-be"), "UTF-16BE").decode() == text
    assert as_utf8("Grüße aus Köln, ihr".encode("cp1252"), "utf-16le").decode() == "Grüße aus Köln, ihr"
    assert as_utf8(b"\xd8\xd8" * 20, "utf-16").decode() == "Ø" * 40
    assert as_utf8(b"\xe0\x21" * 20, "utf-16").decode() == "à!" * 20
    assert as_utf8("Grüß".encode("cp1252"), "utf-16").decode() == "Grüß"


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
