"""An HTML page from bytes to `Extracted`: pre-scan, parse, recognise the kind, choose the blocks, write them.

    bytes -> prescan -> page (tree, meta, JSON-LD, blocks) -> kind -> choice -> markdown, text, links, metadata

A page that no parser should see is read without one; a page that shows nothing itself is read from the data it carries;
and one that has neither says why it is empty.
"""

import contextlib
import gc
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from tidings.web.extract.blocks import Block
from tidings.web.extract.charset import as_utf8
from tidings.web.extract.choice import choose, kind_of
from tidings.web.extract.embedded import described, discourse
from tidings.web.extract.kinds import KINDS
from tidings.web.extract.markdown import Writer
from tidings.web.extract.metadata import Metadata, read_metadata
from tidings.web.extract.model import Extracted, ExtractOptions, Warning_
from tidings.web.extract.page import Page, read_page
from tidings.web.extract.plain import plain_text
from tidings.web.extract.prescan import scan
from tidings.web.extract.selectors import remove
from tidings.web.extract.tree import TooDeep
from tidings.web.extract.written import bounded

_FEW = 30
"""Words below which a page is suspected of showing nothing without scripts or without a login."""
_FORM = 200
"""Words that a page around a login form has at most."""
_NEEDS_SCRIPTS = re.compile(r"(?:enable|requires?|turn on|without|disabled).{0,40}\bjavascript|javascript.{0,40}"
                            r"(?:enable|require|disabled|needed)", re.IGNORECASE)  # fmt: skip


@dataclass(frozen=True)
class _Found:
    method: str
    text: str
    markdown: str
    writer: Writer
    over: tuple[Warning_, ...] = ()
    """That not all of it is given."""


def read_html(body: bytes, charset: str | None, url: str, options: ExtractOptions) -> Extracted:
    """Everything that can be known of an HTML page."""
    with _no_collector():
        return _read(body, charset, url, options)


@contextlib.contextmanager
def _no_collector() -> Generator[None]:
    """All that is made of a page lives until it is done: looking for garbage meanwhile is a fifth of the time."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _read(body: bytes, charset: str | None, url: str, options: ExtractOptions) -> Extracted:
    body = as_utf8(body, charset)
    shape = scan(body, options.bounds)
    if shape.refused:
        return _unparsed(body, shape.refused, options)
    try:
        page = read_page(body, url, lambda root: remove(root, options.remove_selectors))
    except TooDeep:
        return _unparsed(body, "tags nested too deep", options)
    kind, kinds = kind_of(page)
    if options.prefer_readability:
        kind, kinds = KINDS[0], [1.0, *[0.0] * (len(KINDS) - 1)]
    found = _posts(page, url, options) or _written("blocks", choose(page, kinds), page, options)
    kind = "forum" if found.method == "discourse" else kind
    return _concluded(page, kind, found, read_metadata(page))


def _unparsed(body: bytes, reason: str, options: ExtractOptions) -> Extracted:
    text, over = bounded(plain_text(body, len(body)), options.caps.characters, "the page")
    warning = Warning_(
        "extraction_fallback", f"the page has {reason}: its words are given as they come, menus included"
    )
    return Extracted("page", "plain", text, text, warnings=(warning, *over), empty=None if text else "empty")


def _posts(page: Page, url: str, options: ExtractOptions) -> _Found | None:
    """The posts of a forum that keeps them in data."""
    posts = discourse(page)
    if posts is None or scan(posts, options.bounds).refused:
        return None
    inner = read_page(posts, url)
    found = _written("discourse", inner.blocks.blocks, inner, options)
    return found if len(found.text) > 2 * sum(len(block.text) for block in page.blocks.blocks) else None


def _written(method: str, blocks: Sequence[Block], page: Page, options: ExtractOptions) -> _Found:
    writer = Writer(page.base, options, page.blocks.veiled)
    most = options.caps.characters
    text, _ = bounded("\n".join(block.text for block in blocks), most, "the page")
    markdown, over = bounded(writer.write(blocks), most, "the page")
    return _Found(method, text, markdown, writer, over)


def _concluded(page: Page, kind: str, found: _Found, known: Metadata) -> Extracted:
    most = len(found.markdown)
    extracted = Extracted(
        kind=kind,
        method=found.method,
        markdown=found.markdown,
        text=found.text,
        title=known.title,
        author=known.author,
        published_at=known.published_at,
        modified_at=known.modified_at,
        language=known.language,
        site_name=known.site_name,
        description=known.description,
        canonical_url=known.canonical_url,
        links=tuple(dict.fromkeys(found.writer.links)),
        warnings=(*_warnings(page), *found.over),
        hidden=page.hidden,
        concealed=tuple((start, min(end, most)) for start, end in found.writer.concealed if start < most),
    )
    reason = _emptiness(page, found)
    if reason is None:
        return extracted
    said = described(page)
    if said is None:
        return replace(extracted, empty=reason)
    warning = Warning_("extraction_fallback", f"the page shows nothing ({reason}): this is how it describes itself")
    warnings = (*extracted.warnings, warning)
    return replace(
        extracted, method="described", markdown=said, text=said, empty=reason, warnings=warnings, concealed=()
    )


def _warnings(page: Page) -> list[Warning_]:
    if any(str(one.get("isAccessibleForFree")).lower() == "false" for one in page.data):
        return [Warning_("paywalled", "the page says that it is not free to read: parts may be missing")]
    return []


def _emptiness(page: Page, found: _Found) -> str | None:
    """Why the page shows nothing, or None if it does."""
    words = page.blocks.root.words
    if found.method == "discourse" or words >= _FORM:
        return None if found.text else "empty"
    if page.body.find(".//input[@type='password']") is not None:
        return "login"
    if words < _FEW and page.parts["script"] and (not words or _drawn_by_scripts(page)):
        return "script-only"
    return None if found.text else "empty"


def _drawn_by_scripts(page: Page) -> bool:
    """Whether what little there is asks for scripts, or stands beside a container they fill."""
    shown = " ".join("".join(one.itertext()) for one in page.body.iter("noscript"))
    shown += " ".join(block.text for block in page.blocks.blocks)
    if _NEEDS_SCRIPTS.search(shown):
        return True
    return any(
        node.words == 0 and node.element.get("id") in {"root", "app", "__next", "__nuxt", "main", "svelte", "gatsby"}
        for node in page.blocks.nodes
    )
