"""PDFs small enough to be written by hand."""

import zlib
from collections.abc import Mapping, Sequence

Line = tuple[float, float, float, str]
"""Size, x, y, text."""

FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"

PAGE = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 3 0 R >> >> >>"


def text_page(*lines: Line) -> bytes:
    """What is drawn on a page of text."""
    return b"\n".join(f"BT /F1 {size} Tf {x} {y} Td ({text}) Tj ET".encode("cp1252") for size, x, y, text in lines)


def paragraph(*texts: str, top: float = 700, size: float = 11) -> list[Line]:
    """Lines one below the other."""
    return [(size, 72, top - number * size * 1.2, text) for number, text in enumerate(texts)]


SCAN = b"q 600 0 0 800 0 0 cm /Im1 Do Q"
"""What is drawn on a page that is a picture."""


def pdf(*pages: bytes, about: Mapping[str, str] | None = None, catalog: bytes = b"", trailer: bytes = b"") -> bytes:
    """A PDF of these pages."""
    objects: list[bytes] = [b"", b"", FONT, _picture(), _about(about or {})]
    kids: list[bytes] = []
    for page in pages:
        objects.append(_stream(page))
        content = len(objects)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R /Resources "
            b"<< /Font << /F1 3 0 R >> /XObject << /Im1 4 0 R >> >> >>" % content
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[0] = b"<< /Type /Catalog /Pages 2 0 R " + catalog + b" >>"
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    return assembled(objects, trailer)


def many_pages(number: int) -> bytes:
    """A small file that has one page very often."""
    kids = b" ".join([b"5 0 R"] * number)
    return assembled(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, number),
            FONT,
            _stream(text_page(*paragraph("Again and again."))),
            PAGE,
        ]
    )


def packed_page(content: bytes) -> bytes:
    """A PDF whose only page is drawn by this, packed."""
    stream = zlib.compress(content, 9)
    body = b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(stream), stream)
    return assembled(
        [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [5 0 R] /Count 1 >>", FONT, body, PAGE]
    )


def encrypted() -> bytes:
    """One that no password opens."""
    lock = b"<< /Filter /Standard /V 1 /R 2 /P -4 /O (%s) /U (%s) >>" % (b"o" * 32, b"u" * 32)
    return pdf(text_page(*paragraph("secret")), trailer=b"/Encrypt " + lock + b" /ID [(a) (a)]")


def assembled(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """The objects, numbered from 1, as a file."""
    out = bytearray(b"%PDF-1.4\n")
    places: list[int] = []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    info = b"/Info 5 0 R" if len(objects) > 4 and b"/Title" in objects[4] else b""
    out += b"trailer\n<< /Size %d /Root 1 0 R %s %s >>\n" % (len(objects) + 1, info, trailer)
    return bytes(out + b"startxref\n%d\n%%%%EOF\n" % start)


def _stream(content: bytes) -> bytes:
    return b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content)


def _picture() -> bytes:
    head = (
        b"<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8 /Length 1 >>"
    )
    return head + b"\nstream\n\x80\nendstream"


def _about(about: Mapping[str, str]) -> bytes:
    fields = {"Title": "", **about}
    return b"<< " + b" ".join(f"/{key} ({value})".encode("cp1252") for key, value in fields.items()) + b" >>"
