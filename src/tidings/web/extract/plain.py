"""The last resort: the words of a page without a parser, in one pass.

For pages whose shape no parser should see. Scripts, styles and comments are left out, tags become spaces or line ends,
character references are resolved; nothing is judged, so menus stay in.
"""

import html
import re

_PIECE = re.compile(
    rb"<!--|<(/?)([a-zA-Z][a-zA-Z0-9:_-]*)"
    rb"""(?:[^>"'=]++|=\s*+"[^"]*+"|=\s*+'[^']*+'|[="'])*+>?+|<[!?][^>]*+>?+"""
)
_SILENT = frozenset(b"script style noscript template svg head title textarea select".split())
_INLINE = frozenset(b"a abbr b bdi bdo cite code em font i kbd mark q s small span strong sub sup time u var".split())
_SPACES = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"\s*\n\s*")


def plain_text(body: bytes, most: int = 1_000_000) -> str:
    """The visible words of `body` (UTF-8), at most `most` characters of them."""
    pieces: list[bytes] = []
    endless: set[bytes] = set()
    at = size = 0
    while size < most and (tag := _PIECE.search(body, at)):
        pieces.append(body[at : tag.start()])
        size += len(pieces[-1])
        name = (tag[2] or b"").lower()
        at = tag.end()
        if tag[0] == b"<!--":
            at = _behind(body, b"-->", at, endless)
        elif name in _SILENT and not tag[1]:
            at = _behind(body, b"</" + name, at, endless)
        pieces.append(b"" if name in _INLINE else b"\n")
    if size < most:
        pieces.append(body[at:])
    text = html.unescape(b"".join(pieces)[: 4 * most].decode("utf-8", "replace"))
    return _LINES.sub("\n", _SPACES.sub(" ", text)).strip()[:most]


def _behind(body: bytes, end: bytes, at: int, endless: set[bytes]) -> int:
    """Where to go on behind `end`; an end that is not there is looked for once, not again for each beginning."""
    if end in endless:
        return at
    # Names are written small nearly always; an end in capitals costs words that nobody should see, no more.
    found = body.find(end, at)
    if found < 0:
        endless.add(end)
        return at
    return found + (len(end) if end == b"-->" else 0)
