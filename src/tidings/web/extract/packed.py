"""Bodies that are packed once more than the connection knew: a sitemap as a file of gzip, a page packed twice."""

import zlib

from tidings.web.extract.model import ExtractionFailed

MAGIC = b"\x1f\x8b\x08"


def unpacked(body: bytes, most: int) -> bytes:
    """What is packed in `body`, which begins as gzip does; what a broken end leaves of it, if that is all there is.

    Raises:
        ExtractionFailed: It unpacks to more than `most` bytes, or to nothing at all.
    """
    found = bytearray()
    rest = body
    try:
        while rest.startswith(MAGIC):
            unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
            found += unpacker.decompress(rest, most + 1 - len(found))
            if len(found) > most:
                raise ExtractionFailed(
                    "bomb", f"The body is packed and unpacks to more than {most:,} bytes: ask for it as raw."
                )
            rest = unpacker.unused_data
    except zlib.error as error:
        if not found:
            raise ExtractionFailed(
                "broken", "The body begins as gzip and cannot be unpacked: ask for it as raw, or fetch it again."
            ) from error
    return bytes(found)
