"""The parts of all tools: common arguments, answers, the words for errors, and the progress of a call.

An answer has data for programs beside a text to read. What does not fit into it is counted, with the way to get it.
Language models read the docstrings of the tools and the descriptions, and pay for each word.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any, Final

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, ContentBlock, ResourceLink, TextContent
from pydantic import Field

from tidings._kit.tasks import Progress
from tidings._kit.text import one_line, shortened
from tidings.server import exact_calls
from tidings.server.families import BadAddress, ResourceMissing
from tidings.web.documents.invisible import disarm
from tidings.web.extract.model import ExtractionFailed
from tidings.web.fetch.request import FetchError
from tidings.web.library import PageUnknown
from tidings.web.store.model import StoreError
from tidings.web.watch.watcher import TooManyWatches

MaxTokens = Annotated[
    int | None, Field(ge=50, le=1_000_000, description="Of the answer; the rest is named, not cut silently")
]
Start = Annotated[int, Field(ge=0, description="Character to begin with, to go on reading")]


def as_list(value: Any) -> Any:
    """Returns a text as a list of one: models write one where several are allowed."""
    return [value] if isinstance(value, str) else value


class BadArgument(ValueError):
    """A tool does not take an argument. The message says what it takes."""


DATA_KEY: Final = "dev.tidings/data"  # In the `_meta` of an answer of `fetch` and `extract`: its data for programs.


def answer(
    text: str, data: Any, links: Sequence[ResourceLink] = (), *, is_error: bool = False, apart: bool = False
) -> CallToolResult:
    """Returns an answer: `text` to read, with links to more of it, and `data` for programs, `apart` from the text."""
    content: list[ContentBlock] = [TextContent(type="text", text=text), *links]
    if apart:
        # Some hosts show structured content to the model beside the text, and some instead of it.
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


def problem_of(url: str, error: Exception) -> dict[str, str]:
    """Returns the problem with a page: the kind of the error as a word for programs, and a sentence."""
    named = next(kind for known, kind in _KINDS.items() if isinstance(error, known))
    kind = error.kind if isinstance(error, FetchError) else named
    return {"url": url, "kind": kind, "message": _message_of(error)}


def _message_of(error: Exception) -> str:
    # Harmless and not too long: it may quote a site.
    return shortened(one_line(disarm(str(error))), 1001)


refusals_told = partial(exact_calls.refusals_told, NAMED, _message_of)
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

    @asynccontextmanager
    async def step(self, name: str) -> AsyncGenerator[Progress]:
        """Yields the function that reports the bytes of one step, and reports its end."""

        async def report(done: int, whole: int | None) -> None:
            # Without a known total, it approaches the end without reaching it.
            await self._advance(name, min(done / (whole or done + 262_144), 1.0) * _ARRIVED)

        yield report
        await self._advance(name, 1.0)

    async def _advance(self, name: str, part: float) -> None:
        self._parts[name] = max(part, self._parts.get(name, 0.0))
        so_far = round(sum(self._parts.values()), 3)
        if so_far - self._reported >= _LEAST or (so_far > self._reported and part >= _ARRIVED):
            self._reported = so_far
            done = sum(part == 1.0 for part in self._parts.values())
            await self._ctx.report_progress(so_far, self._total, f"{done} of {self._total} done")
