"""The results of the tools: data for programs beside a text to read; the words for errors; and the progress of a call.

Keys without a value are left out. What does not fit into the answer is counted, with the way to get it.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, NotRequired

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, ContentBlock, ResourceLink, TextContent
from typing_extensions import TypedDict

from tidings._kit.text import one_line, shortened
from tidings.server import exact_calls
from tidings.server.families import BadAddress, ResourceMissing
from tidings.web.documents.invisible import disarm
from tidings.web.documents.model import Chunk, PacketWarning, Unsafe
from tidings.web.extract.model import ExtractionFailed
from tidings.web.fetch.request import FetchError
from tidings.web.refresh import PageUnknown
from tidings.web.store.model import StoreError
from tidings.web.tools.arguments import BadArgument
from tidings.web.watch.watcher import TooManyWatches


class PageRead(TypedDict):
    """A page that was fetched or given: as much of it as fits."""

    url: str
    final_url: NotRequired[str]
    canonical_url: NotRequired[str]
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
    facts: NotRequired[dict[str, str]]
    warnings: NotRequired[list[PacketWarning]]
    unsafe_instructions_detected: NotRequired[list[Unsafe]]
    packet: NotRequired[dict[str, Any]]


class PageProblem(TypedDict):
    """A page that failed: a word for programs, and a sentence."""

    url: str
    kind: str
    message: str


class PagesRead(TypedDict):
    """The pages, and those that failed."""

    pages: list[PageRead]
    problems: NotRequired[list[PageProblem]]
    notes: NotRequired[list[str]]


class Chunks(TypedDict):
    """The chunks of a text: as many as fit into the answer, from `start` on."""

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
    """The pages that are watched now."""

    watched: list[WatchedPage]
    left_out: NotRequired[int]


class Unwatched(TypedDict):
    """A page whose watch by this tool has ended."""

    page_id: str
    url: str
    still_watched: bool


class DiffResult(TypedDict):
    """The changes of a page."""

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


DATA_KEY: Final = "dev.tidings/data"  # In the `_meta` of an answer of `fetch` and `extract`: its data for programs.


def answer(
    text: str, data: Any, links: Sequence[ResourceLink] = (), *, is_error: bool = False, apart: bool = False
) -> CallToolResult:
    """Returns an answer: `text` to read, with links to more of it, and `data` for programs.

    `apart`: the data has the text again. It is in `_meta`, which hosts do not show to the model: some show structured
    content beside the text, and some instead of it.
    """
    content: list[ContentBlock] = [TextContent(type="text", text=text), *links]
    if apart:
        return CallToolResult(content=content, is_error=is_error, _meta={DATA_KEY: data})
    return CallToolResult(content=content, structured_content=data, is_error=is_error)


_KINDS: Final[dict[type[Exception], str]] = {  # The errors that callers are told of, as words for programs.
    FetchError: FetchError.kind,  # Each kind of it has its own.
    ExtractionFailed: "unreadable",
    StoreError: "failed",
    BadAddress: "bad-argument",
    ResourceMissing: "not-found",
    PageUnknown: "not-found",
    TooManyWatches: "failed",
    BadArgument: "bad-argument",
}
NAMED: Final = tuple(_KINDS)


def problem_of(url: str, error: Exception) -> PageProblem:
    """Returns the problem with a page: the kind of the error as a word for programs, and a sentence."""
    kind = next(kind for known, kind in _KINDS.items() if isinstance(error, known))
    kind = error.kind if isinstance(error, FetchError) else kind
    return PageProblem(url=url, kind=kind, message=message_of(error))


def message_of(error: Exception) -> str:
    """Returns the message of an error, harmless and not too long: it may quote a site."""
    return shortened(one_line(disarm(str(error))), 1001)


refusals_told = partial(exact_calls.refusals_told, NAMED, message_of)
"""Turns the errors of the web server into messages for the caller of a tool. The SDK hides and logs all others."""


_LEAST: Final = 0.02  # smaller advances are not worth a message
_ARRIVED: Final = 0.9  # the share of a step for receiving the bytes; the rest is for reading them


class Steps:
    """The progress of several steps at the same time. What is reported never decreases."""

    def __init__(self, ctx: Context[Any, Any], total: int) -> None:
        self._ctx = ctx
        self._total = total
        self._parts: dict[str, float] = {}
        self._reported = 0.0

    def of(self, name: str) -> Callable[[int, int | None], Awaitable[None]]:
        """Returns the function that reports the bytes of one step."""

        async def report(done: int, whole: int | None) -> None:
            # Without a known total, it approaches the end without reaching it.
            await self._advance(name, min(done / (whole or done + 262_144), 1.0) * _ARRIVED)

        return report

    async def done(self, name: str) -> None:
        """Reports that one step is done."""
        await self._advance(name, 1.0)

    async def _advance(self, name: str, part: float) -> None:
        self._parts[name] = max(part, self._parts.get(name, 0.0))
        so_far = round(sum(self._parts.values()), 3)
        if so_far - self._reported >= _LEAST or (so_far > self._reported and part >= _ARRIVED):
            self._reported = so_far
            done = sum(part == 1.0 for part in self._parts.values())
            await self._ctx.report_progress(so_far, self._total, f"{done} of {self._total} done")
