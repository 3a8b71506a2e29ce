"""The one place that touches PDFium: the pages of a PDF as lines, each with its size and place.

PDFium gives text in the order of the file, which is that of reading as a rule. What it cannot give as text (a picture
of a page) is told by the pictures on a page that has no letters.
"""

import ctypes
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

# PDFium's binding comes without types.
import pypdfium2  # pyright: ignore[reportMissingTypeStubs]
import pypdfium2.raw  # pyright: ignore[reportMissingTypeStubs]

from tidings.web.extract.model import ExtractionFailed

_pdfium: Final[Any] = pypdfium2
_raw: Final[Any] = pypdfium2.raw

_PASSWORD: Final = 4
_SECURITY: Final = 5
_OBJECTS: Final = 200
"""Objects of a page that are looked at for pictures."""
_BROKEN_WORD: Final = "￾\x02\N{SOFT HYPHEN}"
"""What PDFium ends a line with where a hyphen parts a word."""


@dataclass(frozen=True)
class Line:
    """A line of a page: its text, the size of its letters, and where it begins."""

    text: str
    size: float
    x: float
    y: float


@dataclass(frozen=True)
class PdfPage:
    """What a page shows."""

    lines: tuple[Line, ...]
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


def _lines(page: Any) -> Iterator[Line]:
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
                yield Line(bare.translate(_CLEAN), size, x, y)
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
