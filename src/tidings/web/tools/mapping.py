"""The pages of a site, as an answer shows them."""

from mcp_types import CallToolResult

from tidings.web.library import SiteMap
from tidings.web.packets.injection import disarm
from tidings.web.packets.tokens import estimate
from tidings.web.tools.results import Mapped, MappedPage, answer


def show(found: SiteMap, max_tokens: int) -> CallToolResult:
    """The answer: as many pages as fit, and how many there are."""
    shown: list[MappedPage] = []
    room = max_tokens
    for page in found.pages:
        room -= estimate(page.url) + 4
        if room < 0 and shown:
            break
        said = MappedPage(url=page.url, source=page.source)
        if page.modified:
            said["modified"] = page.modified
        shown.append(said)
    notes = [disarm(note) for note in found.notes]
    if len(shown) < found.total:
        notes.append(f"{found.total - len(shown):,} more were found: narrow with `search`, or raise limit or max_tokens.")
    data = Mapped(url=found.url, total=found.total, pages=shown)
    if notes:
        data["notes"] = notes
    lines = [f"- {page['url']}{f' ({page["modified"]})' if 'modified' in page else ''}" for page in shown]
    head = f"{len(shown):,} of {found.total:,} pages of {found.url}"
    return answer("\n".join([head, *lines, *(f"[{note}]" for note in notes)]), data)
