"""What the tools answer with: a shape for programs, beside a text for whoever reads.

Keys that have nothing to say are not there. Whatever does not fit into the answer is counted, with the way to get it.

What an agent is told when something cannot be done: the cause and the cure, never a traceback.

Each error of the web server says both itself; words of pages and sites in it are made harmless. All else is a mistake
of ours, which the SDK keeps to itself and logs.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NotRequired

from mcp_types import CallToolResult, ContentBlock, ResourceLink, TextContent
from typing_extensions import TypedDict

from tidings.server import exact_calls
from tidings.web.documents.injection import disarm
from tidings.web.documents.model import Chunk, PacketWarning, Unsafe
from tidings.web.extract.model import ExtractionFailed
from tidings.web.fetch.request import FetchError
from tidings.web.refresh import PageUnknown
from tidings.web.resources.addresses import BadAddress, NotFound
from tidings.web.store.model import StoreError
from tidings.web.tools.arguments import BadArgument
from tidings.web.watch.watcher import TooManyWatches


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


class PageProblem(TypedDict):
    """A page that could not be had: a word for programs, and a sentence."""

    url: str
    kind: str
    message: str


class PagesRead(TypedDict):
    """What was fetched, and what could not be."""

    pages: list[PageRead]
    problems: NotRequired[list[PageProblem]]
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


class WatchResult(TypedDict):
    """Which pages are watched now."""

    watched: list[WatchedPage]
    left_out: NotRequired[int]


class Unwatched(TypedDict):
    """A page that is not watched any more on behalf of this tool."""

    page_id: str
    url: str
    still_watched: bool


class DiffResult(TypedDict):
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


NAMED: Final = (
    FetchError,
    ExtractionFailed,
    StoreError,
    BadAddress,
    NotFound,
    PageUnknown,
    TooManyWatches,
    BadArgument,
)

_LONGEST: Final = 1000


def kind_of(error: Exception) -> str:
    """A word for programs."""
    match error:
        case FetchError():
            return error.kind
        case ExtractionFailed():
            return "unreadable"
        case NotFound() | PageUnknown():
            return "not-found"
        case BadAddress() | BadArgument():
            return "bad-argument"
        case _:
            return "failed"


def said(error: Exception) -> str:
    """What an error says, made harmless and not too long: it may quote what a site said."""
    plain = " ".join(disarm(str(error)).split())
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}…"


refusals_told = partial(exact_calls.refusals_told, NAMED, said)
"""Turns errors that have a name into what the caller of a tool reads."""
