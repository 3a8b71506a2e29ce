"""What the tools answer with: a shape for programs, beside a text for whoever reads.

Keys that have nothing to say are not there. Whatever does not fit into the answer is counted, with the way to get it.
"""

from collections.abc import Sequence
from typing import Any, NotRequired

from mcp_types import CallToolResult, ContentBlock, ResourceLink, TextContent
from typing_extensions import TypedDict

from tidings.web.packets.model import Chunk, PacketWarning, Unsafe


class PageRead(TypedDict):
    """A page that was fetched or given: as much of it as fits."""

    url: str
    source_id: str
    page_id: str
    title: str
    author: NotRequired[str]
    published_at: NotRequired[str]
    status: int
    content_type: str
    retrieved_at: str
    from_cache: bool
    uri: str
    page_uri: str
    diff_uri: str
    content: str
    start: int
    end: int
    total: int
    left_out: NotRequired[str]
    warnings: NotRequired[list[PacketWarning]]
    unsafe_instructions_detected: NotRequired[list[Unsafe]]
    packet: NotRequired[dict[str, Any]]


class Problem(TypedDict):
    """A page that could not be had: a word for programs, and a sentence."""

    url: str
    kind: str
    message: str


class PagesRead(TypedDict):
    """What was fetched, and what could not be."""

    pages: list[PageRead]
    problems: NotRequired[list[Problem]]
    notes: NotRequired[list[str]]


class Chunks(TypedDict):
    """A text in parts: as many of them as fit into the answer, from `start` on."""

    source_id: str
    total: int
    start: int
    chunks: list[Chunk]
    next_start: NotRequired[int]


class WatchedPage(TypedDict):
    """A page that is watched."""

    page_id: str
    url: str
    page_uri: str
    diff_uri: str
    next_look: NotRequired[str]
    failures: NotRequired[int]
    problem: NotRequired[str]
    note: NotRequired[str]


class Watched(TypedDict):
    """Which pages are watched now."""

    watched: list[WatchedPage]
    left_out: NotRequired[int]


class Unwatched(TypedDict):
    """A page that is not watched any more on behalf of this tool."""

    page_id: str
    url: str
    still_watched: bool


class Difference(TypedDict):
    """What changed on a page."""

    page_id: str
    url: str
    diff_uri: str
    before: NotRequired[str]
    after: str
    added: int
    removed: int
    diff: str
    left_out: NotRequired[str]


class MappedPage(TypedDict):
    """A page of a site."""

    url: str
    title: NotRequired[str]
    modified: NotRequired[str]
    source: str


class Mapped(TypedDict):
    """Pages of a site: as many as were asked for."""

    url: str
    total: int
    pages: list[MappedPage]
    notes: NotRequired[list[str]]


def answer(text: str, data: Any, links: Sequence[ResourceLink] = (), *, is_error: bool = False) -> CallToolResult:
    """An answer for both: `text` to read, with links to more of it, and `data` for programs."""
    content: list[ContentBlock] = [TextContent(type="text", text=text), *links]
    return CallToolResult(content=content, structured_content=data, is_error=is_error)
