"""PDF as Markdown: lines, layout and text. The only file that uses PDFium, which has the text in the order of the file.

The most common letter size is body text; larger letters in short lines are headings. A wider gap, an indented line or a
line that ends early begins a paragraph. Lines at the top or the bottom of most pages are left out.
"""

import ctypes
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any, Final

import pypdfium2  # pyright: ignore[reportMissingTypeStubs]
import pypdfium2.raw  # pyright: ignore[reportMissingTypeStubs]

from tidings.web.extract import model
from tidings.web.extract.html.page import pdf_moment
from tidings.web.extract.model import Caps, Extracted, ExtractionFailed, ExtractOptions, ExtractWarning

_pdfium: Final[Any] = pypdfium2  # It has no types.
_raw: Final[Any] = pypdfium2.raw

_PASSWORD, _SECURITY = 4, 5
_OBJECTS: Final = 200  # Objects of a page that are checked for pictures.
_PICTURES: Final = {_raw.FPDF_PAGEOBJ_IMAGE, _raw.FPDF_PAGEOBJ_FORM, _raw.FPDF_PAGEOBJ_SHADING}
_BROKEN_WORD: Final = "￾\x02\N{SOFT HYPHEN}"  # The characters with which PDFium ends a line inside a hyphenated word.
_CLEAN: Final = {ord(letter): "\N{SOFT HYPHEN}" for letter in _BROKEN_WORD} | {ord("\0"): None, ord("\t"): " "}

_LARGER: Final = 1.12  # The least size of a heading, relative to the body text.
_LEVELS: Final = 4
_LONGEST: Final = 200  # Characters of a heading.
_REPEATED: Final = 4  # Pages from which repeated lines are searched for.
_NUMBER: Final = "0"  # The mask of a number; a line of only a number is a page number.
_DIGITS: Final = re.compile(r"\d+|\b[ivxl]+\b", re.IGNORECASE)
_BULLET: Final = re.compile(r"[•‣▪●◦\u2043∙·\u2013-]\s+|\(?\d{1,3}[.)]\s+|\(?[a-z]\)\s+")
_END: Final = re.compile(r"[.!?:;\u3002\uff01\uff1f\u201d\"')\]]$")

_NO_TITLE: Final = re.compile(
    r"untitled|\(?anonymous\)?|microsoft word - .*|.*\.(?:docx?|pdf|tex|dvi|indd|pptx?|xlsx?|qxd)", re.IGNORECASE
)
_LINE_START: Final = re.compile(r"^(\s*)(#{1,6}\s|>|[+]\s)")
_LINE_BULLET: Final = re.compile(r"^[•‣▪●◦\u2043∙]\s*")


@dataclass(frozen=True)
class PdfLine:
    """A line of a page: its text, its letter size and its start."""

    text: str
    size: float
    x: float
    y: float


def _lines(page: Any) -> Iterator[PdfLine]:
    with closing(page.get_textpage()) as letters:
        if letters.count_chars() <= 0:
            return
        at = 0
        for text in letters.get_text_range().split("\r\n"):
            start, at = at, at + len(text.encode("utf-16-le", "surrogatepass")) // 2 + 2
            inked = [place for place, letter in enumerate(text) if not letter.isspace()]
            if not inked:
                continue
            # The place of its first letter, and the size of the one in its middle.
            first = _raw.FPDFText_GetCharIndexFromTextIndex(letters, start + inked[0])
            middle = _raw.FPDFText_GetCharIndexFromTextIndex(letters, start + inked[len(inked) // 2])
            x, y, matrix = ctypes.c_double(), ctypes.c_double(), _raw.FS_MATRIX()
            _raw.FPDFText_GetCharOrigin(letters, first, x, y)
            size = _raw.FPDFText_GetFontSize(letters, middle)
            if _raw.FPDFText_GetMatrix(letters, middle, matrix):
                size *= math.hypot(matrix.c, matrix.d)
            yield PdfLine(text.strip().translate(_CLEAN), round(size, 1), x.value, y.value)


@dataclass(frozen=True)
class PdfPart:
    """A heading (from level 1) or a paragraph (level 0)."""

    level: int
    text: str


def parts_of(pages: Sequence[Sequence[PdfLine]]) -> list[PdfPart]:
    """Returns the headings and paragraphs in the lines of the pages, in order."""
    counts = Counter(mask for lines in pages for mask in {_mask(line) for line in (*lines[:2], *lines[-2:])})
    # Lines at the top or the bottom of most pages.
    repeated = {_NUMBER, *(mask for mask, count in counts.items() if count * 2 > len(pages))}
    kept: list[Sequence[PdfLine]] = []
    for lines in pages:
        first, last = 0, len(lines)
        while first < last and len(pages) >= _REPEATED and _mask(lines[first]) in repeated:
            first += 1
        while first < last and len(pages) >= _REPEATED and _mask(lines[last - 1]) in repeated:
            last -= 1
        kept.append(lines[first:last] or lines)
    levels = _levels([line for lines in kept for line in lines])
    parts: list[PdfPart] = []
    for lines in kept:
        for part in _joined(lines, levels):
            # A paragraph may continue on the next page.
            prose = parts and not parts[-1].level and not part.level
            if prose and part.text[:1].islower() and not _END.search(parts[-1].text):
                parts[-1] = PdfPart(0, _concatenated(parts[-1].text, part.text))
            else:
                parts.append(part)
    return parts


def _mask(line: PdfLine) -> str:
    """Returns the text of a line with masked numbers, and its size, because a title is larger."""
    text = _DIGITS.sub(_NUMBER, line.text)[:_LONGEST]
    return text if text == _NUMBER else f"{text} {line.size}"


def _levels(lines: Sequence[PdfLine]) -> dict[float, int]:
    """Returns the levels of headings by size; the largest size is level 1."""
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[line.size] += len(line.text)
    least = (sizes.most_common(1)[0][0] if sizes else 0.0) * _LARGER
    larger = {line.size for line in lines if line.size > least and len(line.text) < _LONGEST}
    levels: dict[float, int] = {}
    level, before = 0, 0.0
    for size in sorted(larger, reverse=True):
        # Sizes that look the same share a level.
        if level == 0 or size < before * 0.95:
            level, before = level + 1, size
        levels[size] = min(level, _LEVELS)
    return levels


def _joined(lines: Sequence[PdfLine], levels: dict[float, int]) -> Iterator[PdfPart]:
    steps = Counter(round(step) for before, line in pairwise(lines) if 0 < (step := before.y - line.y) < 200)
    step, count = steps.most_common(1)[0] if steps else (0, 0)
    gap = step if count > 2 else 0  # The most common distance between lines; 0 if there are too few.
    held: list[PdfLine] = []
    for line in lines:
        if held and _breaks(held[-1], line, gap, levels):
            yield _part(held, levels)
            held = []
        held.append(line)
    if held:
        yield _part(held, levels)


def _breaks(before: PdfLine, line: PdfLine, gap: float, levels: dict[float, int]) -> bool:
    """Returns whether a line begins a new part."""
    if levels.get(before.size, 0) != levels.get(line.size, 0) or _BULLET.match(line.text):
        return True
    step = before.y - line.y
    if step <= 0:  # Another column, or the same line continued.
        return bool(step) and _END.search(before.text) is not None
    usual = line.size * 1.2 if levels.get(line.size) or not gap else gap
    if step > usual * 1.35 + 1:
        return True
    indented = levels.get(line.size) is None and line.x > before.x + line.size * 0.8
    return indented and _END.search(before.text) is not None


def _part(lines: Sequence[PdfLine], levels: dict[float, int]) -> PdfPart:
    text = reduce(_concatenated, (line.text for line in lines))
    text = " ".join(text.replace("\N{SOFT HYPHEN}", "").split())
    level = levels.get(lines[0].size, 0)
    return PdfPart(level if len(text) < _LONGEST and any(map(str.isalpha, text)) else 0, text)


def _concatenated(before: str, after: str) -> str:
    """Joins two pieces of a text, and a word that is hyphenated between them."""
    hyphenated = before.endswith("-") and before[-2:-1].isalpha() and after[:1].islower()
    return before[:-1] + after if hyphenated or before.endswith("\N{SOFT HYPHEN}") else f"{before} {after}"


def read_pdf(body: bytes, _charset: str | None, _url: str, options: ExtractOptions) -> Extracted:
    """Reads a PDF."""
    if not body.strip():
        return Extracted("document", "pdf", empty="empty")
    try:
        opened = _pdfium.PdfDocument(body)
    except _pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) in {_PASSWORD, _SECURITY}:
            message = "The PDF is encrypted and needs a password: ask for it as raw."
            raise ExtractionFailed("encrypted", message) from error
        raise ExtractionFailed("broken", "The PDF is broken or incomplete: ask for it as raw.") from error
    with closing(opened) as pdf:
        return _read(pdf, options.caps)


def _read(pdf: Any, caps: Caps) -> Extracted:
    count = len(pdf)
    keys = ("Title", "Author", "CreationDate", "Subject")
    title, author, created, subject = (
        " ".join(pdf.get_metadata_value(key).replace("\0", "").split())[:500] for key in keys
    )
    pages, scanned, broken = _pages(pdf, min(count, caps.pages), caps.characters)
    if not pages:
        raise ExtractionFailed("broken", "The PDF has no page that can be read: ask for it as raw.")
    warnings: list[ExtractWarning] = []
    if scanned:
        message = f"{scanned:,} of {len(pages):,} pages are pictures without text, and nothing is read of them"
        warnings.append(ExtractWarning("scanned_pdf", message))
    if broken:
        warnings.append(ExtractWarning("extraction_fallback", f"{broken:,} pages are broken and were left out"))
    if len(pages) + broken < count:
        warnings.append(model.left_out("the PDF", len(pages) + broken, count, "pages"))
    parts = parts_of(pages)
    markdown, over = model.bounded("\n\n".join(map(_markdown, parts)), caps.characters, "the PDF")
    text, _ = model.bounded("\n".join(part.text for part in parts), caps.characters, "the PDF")
    return Extracted(
        kind="document",
        method="pdf",
        markdown=markdown,
        text=text,
        title=_title(title, parts),
        author=author or None,
        published_at=pdf_moment(created),
        description=subject or None,
        page_count=count,
        warnings=(*warnings, *over),
        empty=None if text else "scanned" if scanned else "empty",
    )


def _pages(pdf: Any, count: int, most: int) -> tuple[list[list[PdfLine]], int, int]:
    """Returns the lines of pages until there is more text than will be given; how many are scans; how many broken."""
    pages: list[list[PdfLine]] = []
    scanned = broken = size = 0
    for number in range(count):
        try:
            with closing(pdf[number]) as page:
                lines = list(_lines(page))
                objects = range(0 if lines else min(_raw.FPDFPage_CountObjects(page), _OBJECTS))
                kinds = (_raw.FPDFPageObj_GetType(_raw.FPDFPage_GetObject(page, number)) for number in objects)
                scanned += any(kind in _PICTURES for kind in kinds)
                pages.append(lines)
        except _pdfium.PdfiumError:
            broken += 1
            continue
        size += sum(len(line.text) for line in lines)
        if size > most:
            break
    return pages, scanned, broken


def _title(declared: str, parts: list[PdfPart]) -> str | None:
    """Returns the declared title unless it is a file name; else the largest heading near the start."""
    if declared and not _NO_TITLE.fullmatch(declared):
        return declared
    headings = [part for part in parts[:10] if part.level]
    return min(headings, key=lambda part: part.level).text if headings else None


def _markdown(part: PdfPart) -> str:
    text = model.escaped(part.text)
    if part.level:
        return f"{'#' * part.level} {text}"
    return _LINE_START.sub(r"\1\\\2", _LINE_BULLET.sub("- ", text))
