"""PDF as markdown: its pages' text in paragraphs and headings, and what the document says of itself.

A page without letters and with a picture is a scan: it is counted, and a warning says that nothing was read of it. A
warning also says of how many pages nothing was read because there are too many, which is how bombs of pages end.

The one place that touches PDFium: the pages of a PDF as lines, each with its size and place.

PDFium gives text in the order of the file, which is that of reading as a rule. What it cannot give as text (a picture
of a page) is told by the pictures on a page that has no letters.

Lines of pages made paragraphs and headings: by the space between them and the size of their letters.

most letters are of one size: that is the text; larger ones, in short lines, are headings, the largest first
a wider gap, an indented line, or a line that ends early begins a paragraph; hyphens at ends of lines are closed
lines that stand at the top or the bottom of most pages are no part of the text
"""

import ctypes
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import pypdfium2  # pyright: ignore[reportMissingTypeStubs]
import pypdfium2.raw  # pyright: ignore[reportMissingTypeStubs]

from tidings.web.extract.html.page import pdf_moment
from tidings.web.extract.model import (
    Caps,
    Extracted,
    ExtractionFailed,
    ExtractOptions,
    ExtractWarning,
    bounded,
    left_out,
)

# PDFium's binding comes without types.


_pdfium: Final[Any] = pypdfium2
_raw: Final[Any] = pypdfium2.raw

_PASSWORD: Final = 4
_SECURITY: Final = 5
_OBJECTS: Final = 200
"""Objects of a page that are looked at for pictures."""
_BROKEN_WORD: Final = "￾\x02\N{SOFT HYPHEN}"
"""What PDFium ends a line with where a hyphen parts a word."""


@dataclass(frozen=True)
class PdfLine:
    """A line of a page: its text, the size of its letters, and where it begins."""

    text: str
    size: float
    x: float
    y: float


@dataclass(frozen=True)
class PdfPage:
    """What a page shows."""

    lines: tuple[PdfLine, ...]
    pictured: bool
    """Whether there are pictures on it; known only where there is no text."""


class Pdf:
    """An open PDF.

    Raises:
        ExtractionFailed: It is encrypted, or none.
    """

    def __init__(self, body: bytes) -> None:
        try:
            self._document = _pdfium.PdfDocument(body)
        except _pdfium.PdfiumError as error:
            if getattr(error, "err_code", None) in {_PASSWORD, _SECURITY}:
                raise ExtractionFailed(
                    "encrypted", "The PDF is encrypted and opens with a password only: ask for it as raw."
                ) from error
            raise ExtractionFailed(
                "broken", "The PDF is broken, or ends too early, and cannot be read: ask for it as raw."
            ) from error

    def close(self) -> None:
        """Free what it holds."""
        self._document.close()

    def __len__(self) -> int:
        return len(self._document)

    def about(self, key: str) -> str:
        """What the document says of itself: Title, Author, CreationDate and the like."""
        said = self._document.get_metadata_value(key)
        return " ".join(said.replace("\0", "").split())[:500]

    def language(self) -> str:
        """The language that the document says it is in."""
        size = _raw.FPDFCatalog_GetLanguage(self._document, None, 0)
        if not 2 < size < 200:
            return ""
        buffer = (ctypes.c_ushort * (size // 2))()
        _raw.FPDFCatalog_GetLanguage(self._document, buffer, size)
        return bytes(buffer).decode("utf-16-le", "ignore").strip("\0 ")

    def page(self, number: int) -> PdfPage | None:
        """A page; None if it is broken."""
        try:
            page = self._document[number]
        except _pdfium.PdfiumError:
            return None
        try:
            lines = tuple(_lines(page))
            return PdfPage(lines, pictured=not lines and _has_pictures(page))
        except _pdfium.PdfiumError:
            return None
        finally:
            page.close()


def _lines(page: Any) -> Iterator[PdfLine]:
    letters = page.get_textpage()
    try:
        if letters.count_chars() <= 0:
            return
        at = 0
        for text in letters.get_text_range().split("\r\n"):
            start, at = at, at + len(text.encode("utf-16-le", "surrogatepass")) // 2 + 2
            bare = text.strip()
            if bare:
                size, x, y = _measured(letters, start, text)
                yield PdfLine(bare.translate(_CLEAN), size, x, y)
    finally:
        letters.close()


def _measured(letters: Any, start: int, text: str) -> tuple[float, float, float]:
    """The size of the letter in the middle of a line, and where its first letter stands."""
    inked = [place for place, letter in enumerate(text) if not letter.isspace()]
    first = _raw.FPDFText_GetCharIndexFromTextIndex(letters, start + inked[0])
    middle = _raw.FPDFText_GetCharIndexFromTextIndex(letters, start + inked[len(inked) // 2])
    x, y, matrix = ctypes.c_double(), ctypes.c_double(), _raw.FS_MATRIX()
    _raw.FPDFText_GetCharOrigin(letters, first, x, y)
    size = _raw.FPDFText_GetFontSize(letters, middle)
    if _raw.FPDFText_GetMatrix(letters, middle, matrix):
        size *= math.hypot(matrix.c, matrix.d)
    return round(size, 1), x.value, y.value


def _has_pictures(page: Any) -> bool:
    for number in range(min(_raw.FPDFPage_CountObjects(page), _OBJECTS)):
        kind = _raw.FPDFPageObj_GetType(_raw.FPDFPage_GetObject(page, number))
        if kind in {_raw.FPDF_PAGEOBJ_IMAGE, _raw.FPDF_PAGEOBJ_FORM, _raw.FPDF_PAGEOBJ_SHADING}:
            return True
    return False


_CLEAN: Final = {ord(letter): "\N{SOFT HYPHEN}" for letter in _BROKEN_WORD} | {ord("\0"): None, ord("\t"): " "}


_LARGER = 1.12
"""How much larger than the text a heading is, at least."""
_LEVELS = 4
_LONGEST = 200
"""Characters of a heading."""
_REPEATED = 4
"""Pages from which on lines that repeat are looked for."""
_NUMBER = "0"
"""A line of a number alone is that of its page."""
_DIGITS = re.compile(r"\d+|\b[ivxl]+\b", re.IGNORECASE)
_BULLET = re.compile(r"[•‣▪●◦\u2043∙·\u2013-]\s+|\(?\d{1,3}[.)]\s+|\(?[a-z]\)\s+")
_END = re.compile(r"[.!?:;\u3002\uff01\uff1f\u201d\"')\]]$")


@dataclass(frozen=True)
class PdfPart:
    """A heading (of level 1 and up) or a paragraph (0)."""

    level: int
    text: str


def parts_of(pages: Sequence[PdfPage]) -> list[PdfPart]:
    """Everything that the pages say, in order."""
    repeated = _running(pages)
    kept = [_without(page, repeated) for page in pages]
    levels = _levels([line for lines in kept for line in lines])
    parts: list[PdfPart] = []
    for lines in kept:
        for part in _joined(lines, levels):
            if parts and _goes_on(parts[-1], part):
                parts[-1] = PdfPart(0, _closed(parts[-1].text, part.text))
            else:
                parts.append(part)
    return parts


def _without(page: PdfPage, repeated: frozenset[str]) -> Sequence[PdfLine]:
    lines = page.lines
    while lines and _mask(lines[0]) in repeated:
        lines = lines[1:]
    while lines and _mask(lines[-1]) in repeated:
        lines = lines[:-1]
    return lines or page.lines


def _running(pages: Sequence[PdfPage]) -> frozenset[str]:
    """The lines at the top or the bottom that most pages have, whatever number is in them."""
    if len(pages) < _REPEATED:
        return frozenset()
    counts = Counter(mask for page in pages for mask in {_mask(line) for line in (*page.lines[:2], *page.lines[-2:])})
    return frozenset({_NUMBER, *(mask for mask, count in counts.items() if count * 2 > len(pages))})


def _mask(line: PdfLine) -> str:
    """What makes a line the same as another: its text but for the numbers, and its size (a title is larger)."""
    text = _DIGITS.sub(_NUMBER, line.text)[:_LONGEST]
    return text if text == _NUMBER else f"{text} {line.size}"


def _usual(lines: Sequence[PdfLine]) -> float:
    """The size that most letters have."""
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[line.size] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def _levels(lines: Sequence[PdfLine]) -> dict[float, int]:
    """The sizes of headings, the largest of level 1."""
    least = _usual(lines) * _LARGER
    larger = sorted({line.size for line in lines if line.size > least and len(line.text) < _LONGEST}, reverse=True)
    levels: dict[float, int] = {}
    level, before = 0, 0.0
    for size in larger:
        # Sizes that the eye cannot tell apart are one.
        if level == 0 or size < before * 0.95:
            level, before = level + 1, size
        levels[size] = min(level, _LEVELS)
    return levels


def _joined(lines: Sequence[PdfLine], levels: dict[float, int]) -> Iterator[PdfPart]:
    """The lines of a page as headings and paragraphs."""
    held: list[PdfLine] = []
    gap = _gap(lines)
    for line in lines:
        if held and _breaks(held[-1], line, gap, levels):
            yield _part(held, levels)
            held = []
        held.append(line)
    if held:
        yield _part(held, levels)


def _gap(lines: Sequence[PdfLine]) -> float:
    """The distance from line to line that is most common on a page; 0 where that says nothing."""
    steps = Counter(round(step) for before, line in pairwise(lines) if 0 < (step := before.y - line.y) < 200)
    step, count = steps.most_common(1)[0] if steps else (0, 0)
    return float(step) if count > 2 else 0.0


def _breaks(before: PdfLine, line: PdfLine, gap: float, levels: dict[float, int]) -> bool:
    """Whether a line begins something new."""
    if levels.get(before.size, 0) != levels.get(line.size, 0) or _BULLET.match(line.text):
        return True
    step = before.y - line.y
    if step <= 0:  # Another column, or a line that goes on at the same height.
        return bool(step) and _END.search(before.text) is not None
    usual = line.size * 1.2 if levels.get(line.size) or not gap else gap
    if step > usual * 1.35 + 1:
        return True
    return (
        levels.get(line.size) is None and line.x > before.x + line.size * 0.8 and _END.search(before.text) is not None
    )


def _part(lines: Sequence[PdfLine], levels: dict[float, int]) -> PdfPart:
    text = lines[0].text
    for line in lines[1:]:
        text = _closed(text, line.text)
    text = " ".join(text.replace("\N{SOFT HYPHEN}", "").split())
    level = levels.get(lines[0].size, 0)
    return PdfPart(level if len(text) < _LONGEST and any(map(str.isalpha, text)) else 0, text)


def _closed(before: str, after: str) -> str:
    """Two pieces of a text; a word that was parted between them is whole again."""
    if before.endswith("\N{SOFT HYPHEN}"):
        return before[:-1] + after
    if before.endswith("-") and before[-2:-1].isalpha() and after[:1].islower():
        return before[:-1] + after
    return f"{before} {after}"


def _goes_on(before: PdfPart, part: PdfPart) -> bool:
    """Whether a paragraph goes on over the end of its page."""
    return not before.level and not part.level and part.text[:1].islower() and not _END.search(before.text)


_NO_TITLE: Final = re.compile(
    r"untitled|\(?anonymous\)?|microsoft word - .*|.*\.(?:docx?|pdf|tex|dvi|indd|pptx?|xlsx?|qxd)", re.IGNORECASE
)
_SPECIAL: Final = re.compile(r"([\\`*_\[\]])")
_LINE_START: Final = re.compile(r"^(\s*)(#{1,6}\s|>|[+]\s)")
_LINE_BULLET: Final = re.compile(r"^[•‣▪●◦\u2043∙]\s*")
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


def _warnings(pages: list[PdfPage], broken: int) -> list[ExtractWarning]:
    found: list[ExtractWarning] = []
    scanned = sum(page.pictured for page in pages)
    if scanned:
        message = f"{scanned:,} of {len(pages):,} pages are pictures without text, and nothing is read of them"
        found.append(ExtractWarning("scanned_pdf", message))
    if broken:
        found.append(ExtractWarning("extraction_fallback", f"{broken:,} pages are broken and were left out"))
    return found


def _emptiness(text: str, pages: list[PdfPage]) -> str | None:
    if text:
        return None
    return "scanned" if any(page.pictured for page in pages) else "empty"


def _title(said: str, parts: list[PdfPart]) -> str | None:
    """What the document calls itself, unless that is the name of a file; else its largest heading near the start."""
    if said and not _NO_TITLE.fullmatch(said):
        return said
    headings = [part for part in parts[:10] if part.level]
    return min(headings, key=lambda part: part.level).text if headings else None


def _markdown(part: PdfPart) -> str:
    text = _SPECIAL.sub(r"\\\1", part.text)
    if part.level:
        return f"{'#' * part.level} {text}"
    return _LINE_START.sub(r"\1\\\2", _LINE_BULLET.sub("- ", text))
