"""Pages in any encoding come out in one."""

import codecs

import pytest

from tidings.web.extract.charset import as_utf8

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
