"""The pages of a site, as an answer shows them."""

from typing import Final

from mcp_types import CallToolResult

from tidings.web.packets.injection import disarm
from tidings.web.packets.tokens import estimate
from tidings.web.sites.mapping import SiteMap, SitePage
from tidings.web.tools.results import Mapped, MappedPage, answer

MOST: Final = 50_000
"""How many pages are looked through for words."""

_AROUND: Final = 6
"""Tokens of what stands around a URL."""


def show(found: SiteMap, search: str, limit: int, max_tokens: int) -> CallToolResult:
    """The answer: as many of the pages as were asked for and fit, and how many there are."""
    words = search.lower().split()
    pages = [page for page in found.pages if _holds(page, words)]
    total = len(pages) if words else found.total
    shown = _fitting(pages[:limit], max_tokens)
    notes = [disarm(note) for note in found.notes]
    if len(shown) < total:
        notes.append(f"{total - len(shown):,} more were found: narrow with `search`, or raise limit or max_tokens.")
    data = Mapped(url=found.url, total=total, pages=shown)
    if notes:
        data["notes"] = notes
    lines = [f"- {page['url']}{_facts(page)}" for page in shown]
    head = f"{len(shown):,} of {total:,} pages of {found.url}" + (f" with {search.strip()!r}" if words else "")
    if words and not shown:
        head = f"None of the {found.total:,} pages found of {found.url} has {search.strip()!r} in its URL or title."
    return answer("\n".join([head, *lines, *(f"[{note}]" for note in notes)]), data)


def _holds(page: SitePage, words: list[str]) -> bool:
    text = f"{page.url} {page.title or ''}".lower()
    return all(word in text for word in words)


def _fitting(pages: list[SitePage], room: int) -> list[MappedPage]:
    shown: list[MappedPage] = []
    for page in pages:
        said = MappedPage(url=page.url, source=page.source)
        if page.title:
            said["title"] = " ".join(disarm(page.title).split())[:200]
        if page.modified:
            said["modified"] = disarm(page.modified)[:40]
        room -= estimate(f"{page.url} {_facts(said)}") + _AROUND
        if room < 0 and shown:
            break
        shown.append(said)
    return shown


def _facts(page: MappedPage) -> str:
    return "".join(f" ({fact})" for fact in (page.get("title"), page.get("modified")) if fact)
