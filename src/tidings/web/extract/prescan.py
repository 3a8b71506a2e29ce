"""Elements and attributes, counted on the bytes of a page before any parser sees them.

Two shapes make parsers hang: hundreds of thousands of elements, and hundreds of thousands of attributes on one tag.
`scan` counts both, linear in the size of the page, and stops at the first limit that is exceeded. It never counts less
than a parser would build: the content of scripts, comments and broken quotes counts too, so that nothing can be hidden
there. Depth is left to the parsers, which stop at a limit of their own and say so.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

# The attributes of each opening tag. Quotes protect a ">" only after "=". All quantifiers are possessive, so there is
# no backtracking.
_TAG = re.compile(
    rb"<[a-zA-Z][a-zA-Z0-9:_-]*+"
    rb"""([^>"'=]*+(?:(?:=(?:\s*+"[^"]*+"|\s*+'[^']*+')?+|["'])[^>"'=]*+)*+)"""
)
_ATTRIBUTE = re.compile(rb"""[^\s"'>/=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"']++))?+""")
_LONG = 2_000  # Bytes of a tag from which its attributes are counted: shorter tags cannot hold enough of them.


@dataclass(frozen=True)
class TreeBounds:
    """The limits of a page that is given to a parser. Real pages stay well below."""

    elements: int = 150_000
    # On one tag; all wide tags together may have five times as many, because scripts can look like wide tags.
    attributes: int = 10_000


def scan(body: bytes, bounds: TreeBounds | None = None) -> str | None:
    """Returns a description of the limit that `body` exceeds, or None."""
    bounds = bounds or TreeBounds()
    # `findall` is faster than `finditer`, but would hold too many tags for a bomb.
    few = body.count(b"<") <= bounds.elements
    tags: Iterable[bytes] = _TAG.findall(body) if few else (tag[1] for tag in _TAG.finditer(body))
    wide = 0
    for elements, attributes in enumerate(tags, 1):
        if elements > bounds.elements:
            return f"more than {bounds.elements:,} elements"
        if len(attributes) > _LONG:
            number = sum(1 for _ in islice(_ATTRIBUTE.finditer(attributes), bounds.attributes + 1))
            wide += number
            if number > bounds.attributes or wide > 5 * bounds.attributes:
                return f"tags with more than {bounds.attributes:,} attributes"
    return None
