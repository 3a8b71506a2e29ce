"""Lines made paragraphs."""

import pytest

from tidings.web.extract.pdf import PdfLine, PdfPage, PdfPart, parts_of


def page(*texts: str) -> PdfPage:
    return PdfPage(
        tuple(PdfLine(text, 10.0, 72.0, 700 - 12 * number) for number, text in enumerate(texts)), pictured=False
    )


@pytest.mark.parametrize(
    ("first", "second", "whole"),
    [
        ("From Novem-", "ber on.", "From November on."),
        ("From Novem\N{SOFT HYPHEN}", "ber on.", "From November on."),
        ("The Brook-", "Hale line.", "The Brook- Hale line."),
        ("From 10 -", "or 12.", "From 10 - or 12."),
        ("Two", "lines.", "Two lines."),
    ],
)
def test_a_word_that_a_line_parts_is_whole_again(first: str, second: str, whole: str) -> None:
    assert parts_of([page(first, second)]) == [PdfPart(0, whole)]


def test_no_pages_and_pages_without_lines_say_nothing() -> None:
    assert parts_of([]) == []
    assert parts_of([page()] * 5) == []
