"""A page or a drawing of a server's, without what a browser would do for it even in a sandbox.

No policy keeps a browser from connecting to a host that a `link` names in advance (`preconnect`): whoever runs that
host would learn that somebody looks, and when. So there are no `link`s, nor frames that are written out in an
attribute, in which there could be some.
"""

import codecs
import re
from typing import Final

PAGES: Final = frozenset({"text/html", "image/svg+xml"})
"""What is shown as a page: a document of its own, with elements in it."""

_LINK: Final = re.compile(rb"<(/?(?:[^\s<>/:]+:)?)(?=link[\s/>])", re.IGNORECASE)
_FRAME: Final = re.compile(rb"src(?=doc)", re.IGNORECASE)
_ENTITY: Final = re.compile(
    rb"""<!ENTITY\s{1,50}[\w.:-]{1,100}\s{1,50}(?:"[^"<&%]{0,1000}"|'[^'<&%]{0,1000}')\s{0,50}>"""
)
"""One that stands for nothing but text."""
_MARKS: Final = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def tamed(data: bytes) -> bytes | None:
    """The page, in UTF-8; None if it cannot be told what would be in it."""
    for mark, coding in _MARKS:
        if data.startswith(mark):  # Goes before what the answer's header says.
            data = data.decode(coding, errors="replace").encode()
    if data.count(b"<!ENTITY") != len(_ENTITY.findall(data)):  # What one stands for may be anything.
        return None
    return _FRAME.sub(rb"\g<0>-", _LINK.sub(rb"<\1x-", data))
