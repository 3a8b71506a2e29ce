"""PDF: text, layout, scans and broken files."""

from contextlib import suppress

import pytest

from tests.web.extract.pdfs import SCAN, assembled, encrypted, many_pages, packed_page, paragraph, pdf, text_page
from tests.web.extract.sample import SENTENCES
from tidings.web.extract.model import Caps, Extracted, ExtractionFailed, ExtractOptions
from tidings.web.extract.pdf import PdfLine, PdfPart, parts_of
from tidings.web.extract.pool import extract

URL = "https://harbour.example/report.pdf"


def read(body: bytes, **caps: int) -> Extracted:
    return extract(body, "application/pdf", URL, ExtractOptions(caps=Caps(**caps)))


def test_lines_become_paragraphs_and_larger_letters_headings() -> None:
    page = text_page(
        (24, 72, 740, "Winter in the harbour"),
        *paragraph("The boats lie still from No-", "vember on, and nobody", "sails.", top=700),
        (16, 72, 640, "The ferry"),
        *paragraph("It goes once a day.", top=610),
        *paragraph("It is seldom full.", top=580),
    )
    found = read(pdf(page))
    assert found.markdown == (
        "# Winter in the harbour\n\nThe boats lie still from November on, and nobody sails.\n\n"
        "## The ferry\n\nIt goes once a day.\n\nIt is seldom full."
    )
    assert found.text.startswith("Winter in the harbour\nThe boats")
    assert (found.kind, found.method, found.page_count, found.empty) == ("document", "pdf", 1, None)
    assert found.title == "Winter in the harbour"


def test_what_the_document_says_of_itself_is_known() -> None:
    about = {
        "Title": "Annual  report",
        "Author": "Ada Brook",
        "Subject": "Boats",
        "CreationDate": "D:20240131120000+01'00'",
    }
    found = read(pdf(text_page(*paragraph("x y z")), about=about, catalog=b"/Lang (en-GB)"))
    assert (found.title, found.author, found.description) == ("Annual report", "Ada Brook", "Boats")
    assert found.published_at == "2024-01-31T12:00:00+01:00"


@pytest.mark.parametrize("title", ["untitled", "Microsoft Word - draft 3", "report.docx"])
def test_the_name_of_a_file_is_no_title(title: str) -> None:
    page = text_page((20, 72, 740, "The true title"), *paragraph(*SENTENCES[:3]))
    assert read(pdf(page, about={"Title": title})).title == "The true title"
    assert read(pdf(text_page(*paragraph("No heading.")), about={"Title": title})).title is None


def test_a_paragraph_goes_on_over_the_end_of_a_page() -> None:
    found = read(pdf(text_page(*paragraph("It began on")), text_page(*paragraph("the first page."))))
    assert found.markdown == "It began on the first page."


def test_lists_begin_lines_of_their_own() -> None:
    found = read(pdf(text_page(*paragraph("Bring:", "• a lamp", "• a rope"))))
    assert found.markdown == "Bring:\n\n- a lamp\n\n- a rope"


def test_an_indented_line_begins_a_paragraph() -> None:
    lines = ((11, 72, 700, "The first ends."), (11, 90, 687, "The second begins"), (11, 72, 674, "and goes on."))
    assert read(pdf(text_page(*lines))).markdown == "The first ends.\n\nThe second begins and goes on."


def test_what_stands_on_every_page_is_no_part_of_the_text() -> None:
    pages = [
        text_page(
            (9, 72, 770, f"Harbour report, page {number}"),
            *paragraph(f"{SENTENCES[number]}"),
            (9, 300, 30, f"{number}"),
        )
        for number in range(5)
    ]
    found = read(pdf(*pages))
    assert "Harbour report" not in found.text
    assert all(sentence in found.text.replace("\n", " ") for sentence in SENTENCES[:5])
    assert not any(line.strip().isdigit() for line in found.text.splitlines())


def test_a_title_that_stands_on_every_page_is_kept_where_it_is_the_title() -> None:
    head = (9, 72, 770, "The harbour")
    first = text_page(head, (24, 72, 740, "The harbour"), *paragraph(SENTENCES[0]))
    found = read(pdf(first, *(text_page(head, *paragraph(SENTENCES[number])) for number in range(1, 5))))
    assert found.title == "The harbour"
    assert found.text.count("The harbour") == 1


def test_a_second_column_goes_on_where_the_first_ended() -> None:
    lines = (*paragraph("One column", "ends here"), (11, 320, 700, "and the other"), (11, 320, 687, "begins."))
    assert read(pdf(text_page(*lines))).markdown == "One column ends here and the other begins."


def test_markup_in_a_text_is_not_taken_for_markup() -> None:
    found = read(pdf(text_page(*paragraph("# not a heading *at all*"))))
    assert found.markdown == r"\# not a heading \*at all\*"


def test_a_scan_is_said_to_be_one() -> None:
    found = read(pdf(SCAN, SCAN))
    assert (found.empty, found.text, found.page_count) == ("scanned", "", 2)
    assert [warning.type for warning in found.warnings] == ["scanned_pdf"]
    assert "2 of 2 pages" in found.warnings[0].message


def test_a_scan_among_pages_of_text_is_counted() -> None:
    found = read(pdf(text_page(*paragraph("Text.")), SCAN))
    assert (found.empty, found.text) == (None, "Text.")
    assert "1 of 2 pages" in found.warnings[0].message


def test_pages_without_anything_are_empty_and_no_scan() -> None:
    found = read(pdf(b"", b"0 0 10 10 re f"))
    assert (found.empty, found.warnings) == ("empty", ())


def test_no_body_is_empty() -> None:
    assert read(b"").empty == "empty"
    assert read(b" \n").empty == "empty"


def test_an_encrypted_one_is_refused_with_its_reason() -> None:
    with pytest.raises(ExtractionFailed, match="password") as refused:
        read(encrypted())
    assert refused.value.kind == "encrypted"


@pytest.mark.parametrize(
    "body",
    [
        b"%PDF-1.7\nnothing more",
        pdf(text_page(*paragraph("x")))[:200],
        b"%PDF-1.4\n" + b"[" * 100_000,
        assembled([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [] /Count 0 >>"]),
        assembled([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [9 0 R] /Count 7 >>"]),
    ],
)
def test_a_broken_one_is_refused(body: bytes) -> None:
    with pytest.raises(ExtractionFailed, match="ask for it as raw") as refused:
        read(body)
    assert refused.value.kind == "broken"


def test_pages_that_cannot_be_read_are_left_out_and_told_of() -> None:
    whole = pdf(text_page(*paragraph("First.")), text_page(*paragraph("Second.")))
    broken = whole.replace(b"9 0 R] /Count 2", b"1 0 R] /Count 2")
    assert broken != whole
    found = read(broken)
    assert found.text == "First."
    assert found.page_count == 2
    assert "1 pages are broken" in found.warnings[0].message


def test_a_bomb_of_pages_is_read_as_far_as_is_allowed() -> None:
    found = read(many_pages(100_000), pages=50)
    assert found.page_count == 100_000
    assert found.warnings[-1].type == "truncated"
    assert "99,950 are left out" in found.warnings[-1].message


def test_text_without_end_is_cut_with_a_warning() -> None:
    found = read(pdf(*[text_page(*paragraph("Word after word."))] * 20), characters=100)
    assert len(found.text) <= 100
    assert [warning.type for warning in found.warnings] == ["truncated", "truncated"]
    assert "13 are left out" in found.warnings[0].message


def test_a_page_that_unpacks_to_much_is_read() -> None:
    found = read(packed_page(b"BT /F1 12 Tf 72 700 Td (word) Tj ET\n" + b" " * 5_000_000))
    assert found.text == "word"


def test_a_circle_of_pages_ends() -> None:
    body = assembled([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 >>"])
    with suppress(ExtractionFailed):
        assert read(body).empty == "empty"


def page(*texts: str) -> list[PdfLine]:
    return [PdfLine(text, 10.0, 72.0, 700 - 12 * number) for number, text in enumerate(texts)]


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
