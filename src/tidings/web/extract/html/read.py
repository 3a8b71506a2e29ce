"""An HTML page from bytes to `Extracted`: page (tree, metadata, blocks), kind, chosen blocks, Markdown and text.

A page that would harm a parser is read without one (`plain_text`). A page that shows nothing is read from its embedded
data; without any, `empty` says why.
"""

import gc
import html
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from tidings.web.extract.html.blocks import Blocks, PageBlock
from tidings.web.extract.html.choose import Prior, choose, kind_of, remembered
from tidings.web.extract.html.facts import facts_of
from tidings.web.extract.html.features import KINDS
from tidings.web.extract.html.page import HtmlPage, described, read_page, with_metadata
from tidings.web.extract.html.posts import Posts, comments_of, is_comment
from tidings.web.extract.html.tree import Unparsable
from tidings.web.extract.html.write import MarkdownWriter
from tidings.web.extract.model import Extracted, ExtractOptions, ExtractWarning, bounded
from tidings.web.extract.sniff import as_utf8

_PIECE = re.compile(
    rb"<!--|<(/?)([a-zA-Z][a-zA-Z0-9:_-]*)"
    rb"""(?:[^>"'=]++|=\s*+"[^"]*+"|=\s*+'[^']*+'|[="'])*+>?+|<[!?][^>]*+>?+"""
)
_SILENT = frozenset(b"script style noscript template svg head title textarea select".split())
_INLINE = frozenset(b"a abbr b bdi bdo cite code em font i kbd mark q s small span strong sub sup time u var".split())
_SPACES = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"\s*\n\s*")


def plain_text(body: bytes, most: int = 1_000_000) -> str:
    """Returns the visible text of `body` (UTF-8), at most `most` characters, in one pass without a parser."""
    pieces: list[bytes] = []
    endless: set[bytes] = set()
    at = size = 0
    while size < most and (tag := _PIECE.search(body, at)):
        pieces.append(body[at : tag.start()])
        size += len(pieces[-1])
        name = (tag[2] or b"").lower()
        at = tag.end()
        if tag[0] == b"<!--":
            at = _after(body, b"-->", at, endless)
        elif name in _SILENT and not tag[1]:
            at = _after(body, b"</" + name, at, endless)
        pieces.append(b"" if name in _INLINE else b"\n")
    if size < most:
        pieces.append(body[at:])
    text = html.unescape(b"".join(pieces)[: 4 * most].decode("utf-8", "replace"))
    return _LINES.sub("\n", _SPACES.sub(" ", text)).strip()[:most]


def _after(body: bytes, end: bytes, at: int, endless: set[bytes]) -> int:
    """Returns where to continue after `end`. A missing end is searched for only once."""
    if end in endless:
        return at
    # Tags are nearly always in lower case. A missed end only leaves some extra words in the text.
    found = body.find(end, at)
    if found < 0:
        endless.add(end)
        return at
    return found + (len(end) if end == b"-->" else 0)


_CLOSE = 3  # Levels up to a container that a picture and a text share.
_NEAR = 3  # Blocks on each side of a picture: an advertisement beside it must not decide about it.
_FEW = 30  # Words below which a page may show nothing without scripts.
_UNREAD = re.compile(r"^\(\d+\+?\)\s*")  # The number of messages before a title.
_FORM = 200  # Words below which a page with a password field is a login page.
_FILLED_BY_SCRIPTS = frozenset(("root", "app", "__next", "__nuxt", "main", "svelte", "gatsby"))
_NEEDS_SCRIPTS = re.compile(r"(?:enable|requires?|turn on|without|disabled).{0,40}\bjavascript|javascript.{0,40}"
                            r"(?:enable|require|disabled|needed)", re.IGNORECASE)  # fmt: skip


def read_html(body: bytes, charset: str | None, url: str, options: ExtractOptions) -> Extracted:
    """Reads an HTML page."""
    # All objects live until the page is done: garbage collection would take a fifth of the time and find nothing.
    running = gc.isenabled()
    gc.disable()
    try:
        return _read(body, charset, url, options)
    finally:
        if running:
            gc.enable()


def _read(body: bytes, charset: str | None, url: str, options: ExtractOptions) -> Extracted:
    body = as_utf8(body, charset)
    try:
        page = read_page(body, url, options)
    except Unparsable as reason:
        text, over = bounded(plain_text(body, len(body)), options.caps.characters, "the page")
        message = f"the page has {reason}: its text is given without structure, menus included"
        warning = ExtractWarning("extraction_fallback", message)
        return Extracted("page", "plain", text, text, warnings=(warning, *over), empty=None if text else "empty")
    kind, kinds = kind_of(page)
    kind = next((one for one in options.prior.split("\n", 2)[1:2] if one in KINDS), kind)  # as at the last look
    if options.prefer_readability:
        kind, kinds = KINDS[0], [1.0, *[0.0] * (len(KINDS) - 1)]
    found = _chosen(kind, kinds, page, options)
    if any(str(one.get("isAccessibleForFree")).lower() == "false" for one in page.data):
        paywall = ExtractWarning("paywalled", "the page says that it is not free to read: parts may be missing")
        found = replace(found, warnings=(paywall, *found.warnings))
    found = replace(with_metadata(found, page), hidden=page.hidden, empty=_emptiness(page, found))
    window = _UNREAD.sub("", page.title[:500])  # It says more than the title of the text, for example "Mug: sold out".
    found = replace(found, facts=facts_of(page, found.title or ""), memory=f"{found.memory}\n{window}")
    if found.empty is None or (text := described(page)) is None:
        return found
    message = f"the page shows nothing ({found.empty}): this is how it describes itself"
    warnings = (*found.warnings, ExtractWarning("extraction_fallback", message))
    return replace(found, method="described", markdown=text, text=text, warnings=warnings, concealed=())


def _chosen(kind: str, kinds: Sequence[float], page: HtmlPage, options: ExtractOptions) -> Extracted:
    blocks, most = page.blocks.blocks, options.caps.characters
    numbers = range(len(blocks)) if options.whole_page else choose(page, kinds, Prior(options.prior))
    kept, said = frozenset(numbers), frozenset[int]()
    if options.comments or (options.comments is False and kind != "forum"):
        said = comments_of(page.blocks)
        kept = kept | {one for one in said if is_comment(blocks[one])} if options.comments else kept - said
    chosen = [blocks[number] for number in sorted(kept)]
    writer = MarkdownWriter(page.base, options, page.blocks.invisible)
    posts = Posts(page.blocks.nodes) if kind == "forum" or options.comments else None
    markdown, over = bounded(writer.write(_with_media(chosen, page.blocks), posts), most, "the page")
    return Extracted(
        kind=kind,
        method="blocks",
        markdown=markdown,
        text=bounded("\n".join(block.text for block in chosen), most, "the page")[0],
        warnings=over,
        concealed=tuple((start, min(end, len(markdown))) for start, end in writer.concealed if start < len(markdown)),
        memory=remembered(blocks, kept, said, kind)[:most],
    )


def _with_media(kept: Sequence[PageBlock], page: Blocks) -> list[PageBlock]:
    """Returns the kept blocks, and between them the pictures and embedded media that belong to them."""
    found: list[PageBlock] = []
    inside = set(map(id, kept))
    media = iter(page.media)
    place, one = next(media, (-1, None))
    blocks = page.blocks
    for number in range(len(blocks) + 1):
        while one is not None and place == number:
            sides = reversed(blocks[max(number - _NEAR, 0) : number]), blocks[number : number + _NEAR]
            near = [block for side in sides if (block := next((each for each in side if id(each) in inside), None))]
            above = set(islice(one.node.upwards(), _CLOSE))
            if len(near) == 2 or any(not above.isdisjoint(islice(side.node.upwards(), _CLOSE)) for side in near):
                found.append(one)
            place, one = next(media, (-1, None))
        if number < len(blocks) and id(blocks[number]) in inside:
            found.append(blocks[number])
    return found


def _emptiness(page: HtmlPage, found: Extracted) -> str | None:
    """Returns why the page shows nothing, or None if it shows something."""
    words = page.blocks.root.words
    if words >= _FORM:
        return None if found.text else "empty"
    if page.body.find(".//input[@type='password']") is not None:
        return "login"
    if words < _FEW and page.parts["script"]:
        shown = " ".join("".join(one.itertext()) for one in page.body.iter("noscript"))
        shown += " ".join(block.text for block in page.blocks.blocks)
        empty = (node.element.get("id") for node in page.blocks.nodes if not node.words)
        # Its little text asks for scripts, or it has an empty container that scripts fill.
        if not words or _NEEDS_SCRIPTS.search(shown) or not _FILLED_BY_SCRIPTS.isdisjoint(empty):
            return "script-only"
    return None if found.text else "empty"
