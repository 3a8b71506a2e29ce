"""PDF as markdown: its pages' text in paragraphs and headings, and what the document says of itself.

A page without letters and with a picture is a scan: it is counted, and a warning says that nothing was read of it. A
warning also says of how many pages nothing was read because there are too many, which is how bombs of pages end.
"""

import re
from typing import Final

from tidings.web.extract.model import Caps, Extracted, ExtractionFailed, ExtractOptions, Warning_
from tidings.web.extract.moments import pdf_moment
from tidings.web.extract.pdf_layout import Part, parts_of
from tidings.web.extract.pdf_lines import Pdf, PdfPage
from tidings.web.extract.written import bounded, left_out

_NO_TITLE: Final = re.compile(
    r"untitled|\(?anonymous\)?|microsoft word - .*|.*\.(?:docx?|pdf|tex|dvi|indd|pptx?|xlsx?|qxd)", re.IGNORECASE
)
_SPECIAL: Final = re.compile(r"([\\`*_\[\]])")
_LINE_START: Final = re.compile(r"^(\s*)(#{1,6}\s|>|[+]\s)")
_BULLET: Final = re.compile(r"^[•‣▪●◦\u2043∙]\s*")
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")


def read_pdf(body: bytes, _charset: str | None, _url: str, options: ExtractOptions) -> Extracted:
    """The text of a PDF."""
    if not body.strip():
        return Extracted("document", "pdf", empty="empty")
    pdf = Pdf(body)
    try:
        return _read(pdf, options.caps)
    finally:
        pdf.close()


def _read(pdf: Pdf, caps: Caps) -> Extracted:
    count = len(pdf)
    pages, broken = _pages(pdf, min(count, caps.pages), caps.characters)
    if not pages:
        raise ExtractionFailed("broken", "The PDF has no page that can be read: ask for it as raw.")
    warnings = _warnings(pages, broken)
    if len(pages) + broken < count:
        warnings.append(left_out("the PDF", len(pages) + broken, count, "pages"))
    parts = parts_of(pages)
    markdown, over = bounded("\n\n".join(map(_markdown, parts)), caps.characters, "the PDF")
    text, _ = bounded("\n".join(part.text for part in parts), caps.characters, "the PDF")
    language = pdf.language()
    return Extracted(
        kind="document",
        method="pdf",
        markdown=markdown,
        text=text,
        title=_title(pdf.about("Title"), parts),
        author=pdf.about("Author") or None,
        published_at=pdf_moment(pdf.about("CreationDate")),
        modified_at=pdf_moment(pdf.about("ModDate")),
        language=language if _LANGUAGE.fullmatch(language) else None,
        description=pdf.about("Subject") or None,
        page_count=count,
        warnings=(*warnings, *over),
        empty=_emptiness(text, pages),
    )


def _pages(pdf: Pdf, count: int, most: int) -> tuple[list[PdfPage], int]:
    """The pages until there is more text than will be given, and how many of them are broken."""
    pages: list[PdfPage] = []
    broken = size = 0
    for number in range(count):
        page = pdf.page(number)
        if page is None:
            broken += 1
            continue
        pages.append(page)
        size += sum(len(line.text) for line in page.lines)
        if size > most:
            break
    return pages, broken


def _warnings(pages: list[PdfPage], broken: int) -> list[Warning_]:
    found: list[Warning_] = []
    scanned = sum(page.pictured for page in pages)
    if scanned:
        message = f"{scanned:,} of {len(pages):,} pages are pictures without text, and nothing is read of them"
        found.append(Warning_("scanned_pdf", message))
    if broken:
        found.append(Warning_("extraction_fallback", f"{broken:,} pages are broken and were left out"))
    return found


def _emptiness(text: str, pages: list[PdfPage]) -> str | None:
    if text:
        return None
    return "scanned" if any(page.pictured for page in pages) else "empty"


def _title(said: str, parts: list[Part]) -> str | None:
    """What the document calls itself, unless that is the name of a file; else its largest heading near the start."""
    if said and not _NO_TITLE.fullmatch(said):
        return said
    headings = [part for part in parts[:10] if part.level]
    return min(headings, key=lambda part: part.level).text if headings else None


def _markdown(part: Part) -> str:
    text = _SPECIAL.sub(r"\\\1", part.text)
    if part.level:
        return f"{'#' * part.level} {text}"
    return _LINE_START.sub(r"\1\\\2", _BULLET.sub("- ", text))
