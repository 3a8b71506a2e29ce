"""The tools that work on text that is there already: `chunk`, `compact` and `diff`.

The docstrings and descriptions are read by language models, which pay for each word.

Questions to the client's own model, in both eras: what a tool asks while it works.

In the old era the question is a request of its own, in the middle of the call. In the modern one the call is answered
with the questions, and made again with the answers: the work begins anew each time, and each of its questions that was
answered before is answered at once. So the work has to ask the same questions in the same words each time.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, cast

import anyio
import anyio.lowlevel
from anyio import to_thread
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    InputRequests,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)
from mcp_types.version import is_version_at_least
from pydantic import Field

from tidings.web.documents.budget import fit, past_end
from tidings.web.documents.chunk import chunk
from tidings.web.documents.compact import compact
from tidings.web.documents.map_reduce import SampleFailed
from tidings.web.documents.model import Chunk, Compacted
from tidings.web.resources.addresses import address, source_id_of
from tidings.web.resources.differences import difference
from tidings.web.resources.reading import content_meant, page_meant
from tidings.web.tools.arguments import BadArgument, MaxTokens, Packet, Start, chunks_of
from tidings.web.tools.arguments import Chunks as ChunksGiven
from tidings.web.tools.results import Chunks, DiffResult, answer, refusals_told

if TYPE_CHECKING:
    from tidings.web.server import WebServer


T = TypeVar("T")

Sample = Callable[[str, int], Awaitable[str]]
"""Asks the model: a prompt, and how many tokens the answer may have.

Raises:
    Declined: There is no answer.
"""

_MODERN: Final = "2026-07-28"
_AT_ONCE: Final = 4
"""How many questions a client of the old era is asked at the same time; one of the modern era gets them all."""

_QUIET_TURNS: Final = 20
"""After so many turns of the event loop in which nothing was asked, everything that can be asked now was asked."""


class Declined(SampleFailed):
    """The client's model gave no answer. Says why."""


def offers_sampling(ctx: Context[Any, Any]) -> bool:
    """Whether the client has a model to ask."""
    capabilities = ctx.client_capabilities
    return capabilities is not None and capabilities.sampling is not None


async def with_sampling(
    ctx: Context[Any, Any], work: Callable[[Sample | None], Awaitable[T]]
) -> T | InputRequiredResult:
    """Do `work` with a way to ask the client's model; None where the client has none."""
    if not offers_sampling(ctx):
        return await work(None)
    if not is_version_at_least(ctx.protocol_version or "", _MODERN):
        room = anyio.CapacityLimiter(_AT_ONCE)
        return await work(lambda prompt, most: _ask_now(ctx, room, prompt, most))
    return await _Rounds(ctx).run(work)


async def _ask_now(ctx: Context[Any, Any], room: anyio.CapacityLimiter, prompt: str, most: int) -> str:
    try:
        async with room:
            answer = await ctx.session.send_request(
                _request(prompt, most),
                CreateMessageResult,
                metadata=ServerMessageMetadata(related_request_id=ctx.request_context.request_id),
            )
    except MCPError as error:
        raise Declined(f"The client's model did not answer: {error.error.message}") from error
    return _text(answer)


class _Rounds:
    """One call of the modern era: what was answered in the rounds before, and what is asked in this one."""

    def __init__(self, ctx: Context[Any, Any]) -> None:
        state = cast("dict[str, Any]", json.loads(ctx.request_state)) if ctx.request_state else {}
        self._answers: dict[str, str] = dict(state.get("answers", {}))
        self._asked: set[str] = set(state.get("asked", ()))
        for key, response in (ctx.input_responses or {}).items():
            if key in self._asked and isinstance(response, CreateMessageResult):
                with suppress(Declined):
                    self._answers[key] = _text(response)
        self._open: InputRequests = {}
        self._asks = anyio.Event()

    async def run(self, work: Callable[[Sample | None], Awaitable[T]]) -> T | InputRequiredResult:
        done: list[T] = []
        failed: list[Exception] = []

        async def do() -> None:
            try:
                done.append(await work(self._sample))
            except Exception as error:  # noqa: BLE001 - raised below, as itself and not as one of a group
                failed.append(error)
            self._asks.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(do)
            await self._asks.wait()
            await self._until_quiet()
            tasks.cancel_scope.cancel()
        if failed:
            raise failed[0]
        if done:
            return done[0]
        asked = sorted(self._asked | set(self._open))
        return InputRequiredResult(
            input_requests=self._open, request_state=json.dumps({"answers": self._answers, "asked": asked})
        )

    async def _sample(self, prompt: str, most: int) -> str:
        key = hashlib.sha256(f"{most}|{prompt}".encode(errors="replace")).hexdigest()[:16]
        if key in self._answers:
            return self._answers[key]
        if key in self._asked:
            raise Declined("The client's model did not answer.")
        self._open[key] = _request(prompt, most)
        self._asks.set()
        await anyio.sleep_forever()
        raise AssertionError  # It is cancelled.

    async def _until_quiet(self) -> None:
        quiet, seen = 0, -1
        while quiet < _QUIET_TURNS:
            quiet, seen = (quiet + 1, seen) if len(self._open) == seen else (0, len(self._open))
            await anyio.lowlevel.checkpoint()


def _request(prompt: str, most: int) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=most))


def _text(answer: CreateMessageResult) -> str:
    if not isinstance(answer.content, TextContent):
        raise Declined("The client's model answered with something else than text.")
    return answer.content.text


SourceId = Annotated[str, Field(description="From `fetch`")]
Content = Annotated[str, Field(description="A text of your own, instead")]
Preserve = Literal["numbers", "dates", "names", "definitions", "procedures"]
NO_PACKET = Packet()


class TextTools:
    """What can be made of pages that are there, and of texts."""

    def __init__(self, server: "WebServer") -> None:
        self._server = server
        self._settings = server.web_settings

    async def chunk(
        self,
        *,
        source_id: SourceId = "",
        content: Content = "",
        packet: Packet = NO_PACKET,
        max_tokens: Annotated[int | None, Field(ge=50, le=1_000_000, description="Of one chunk")] = None,
        margin_ratio: Annotated[float, Field(ge=0, lt=1)] = 0.10,
        strategy: Literal["headings_first", "balanced"] = "headings_first",
        start: Annotated[int, Field(ge=0, description="Number of the first chunk to show")] = 0,
        answer_tokens: MaxTokens = None,
    ) -> Annotated[CallToolResult, Chunks]:
        """Cut a fetched page into chunks within a budget of tokens, at headings, with exact offsets."""
        with refusals_told():
            _check_one(source_id=source_id, content=content, packet=packet.source_id or packet.content)
            name, text = await self._text_of(source_id or packet.source_id, content or packet.content)
            most = max_tokens or self._settings.chunk_tokens
            try:
                made = await to_thread.run_sync(
                    lambda: chunk(name, text, max_tokens=most, margin_ratio=margin_ratio, strategy=strategy)
                )
            except ValueError as error:
                raise BadArgument(str(error)) from error
            return _chunks(name, made, start, answer_tokens or max(self._settings.answer_tokens, most))

    async def compact(
        self,
        ctx: Context[Any, Any],
        *,
        source_id: SourceId = "",
        content: Content = "",
        packet: Packet = NO_PACKET,
        chunks: ChunksGiven = [],  # noqa: B006 - never changed
        max_tokens: Annotated[int, Field(ge=50, le=100_000)] = 1000,
        mode: Annotated[
            Literal["structural", "salience", "question_focused", "map_reduce"],
            Field(
                description="structural: headings and first sentences; salience: the weightiest sentences; "
                "question_focused: what bears on `question`; map_reduce: written by your own model, through sampling"
            ),
        ] = "salience",
        question: str = "",
        preserve: list[Preserve] = [],  # noqa: B006 - never changed
    ) -> Annotated[CallToolResult, Compacted] | InputRequiredResult:
        """Shorten a fetched page or a text to a budget of tokens, in its own words, and say what was left out."""
        with refusals_told():
            _check_one(source_id=source_id, content=content, packet=packet.source_id or packet.content, chunks=chunks)
            if mode == "salience" and question.strip():
                mode = "question_focused"
            if mode == "question_focused" and not question.strip():
                raise BadArgument("question_focused needs a `question`.")
            given = chunks_of(chunks) or await self._text_of(source_id or packet.source_id, content or packet.content)
            text = given[1] if isinstance(given, tuple) else given

            async def work(sample: Sample | None) -> Compacted:
                return await compact(
                    text, max_tokens=max_tokens, mode=mode, question=question or None, preserve=preserve, sample=sample
                )

            if mode != "map_reduce":
                # It waits for nothing then, and takes its time: not on the event loop.
                return _compacted(await to_thread.run_sync(_finished, work(None)))
            made = await with_sampling(ctx, work)
            return made if isinstance(made, InputRequiredResult) else _compacted(made)

    async def diff(
        self,
        *,
        page: Annotated[str, Field(description="page_id, URL or webfetch:// URI")],
        since: Annotated[str, Field(description="source_id to compare from; else the version before the newest")] = "",
        max_tokens: MaxTokens = None,
        start: Start = 0,
    ) -> Annotated[CallToolResult, DiffResult]:
        """See what changed on a fetched or watched page, between two stored versions. Fetches nothing."""
        with refusals_told():
            known = await page_meant(self._server.store, page)
            found = await difference(self._server.store, known, source_id_of(since) if since else None)
            part = fit(found.text, max_tokens or self._settings.answer_tokens, start)
            said = DiffResult(
                page_id=known.page_id,
                url=known.canonical_url,
                diff_uri=address("diff", known.page_id),
                after=found.after,
                added=found.added,
                removed=found.removed,
                diff=part.text,
            )
            if found.before:
                said["before"] = found.before
            text = past_end(part.start, part.total) or part.text
            if part.left:
                said["left_out"] = f"{part.left:,} of {part.total:,} characters are left: go on with start={part.end}."
                text += f"\n[{said['left_out']}]"
            return answer(text, said)

    async def _text_of(self, source_id: str, content: str) -> tuple[str, str]:
        """What a text is called, and the text."""
        if content:
            return source_id_of(source_id) if source_id else "given", content
        if not source_id:
            raise BadArgument("Of what? Give the source_id of a fetched page, or a text as `content`.")
        return await content_meant(self._server.store, source_id)


def _check_one(**given: object) -> None:
    """Refuse several sources of a text: one of them would be left out silently."""
    named = [name for name, value in given.items() if value]
    if len(named) > 1:
        raise BadArgument(f"Give {' or '.join(named)}, not both.")


def _finished(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits for something")


def _chunks(name: str, made: Sequence[Chunk], start: int, room: int) -> CallToolResult:
    shown: list[Chunk] = []
    for each in made[start:]:
        room -= each["est_tokens"]
        if room < 0 and shown:
            break
        shown.append(each)
    said = Chunks(source_id=name, total=len(made), start=start, chunks=shown)
    lines = [
        f"[{each['chunk_id']}] {each['headings_path']} ({each['est_tokens']:,} tokens, characters "
        f"{each['start_char']}-{each['end_char']})\n{each['text']}"
        for each in shown
    ]
    end = start + len(shown)
    if end < len(made):
        said["next_start"] = end
        lines.append(f"[Chunks {start} to {end - 1} of {len(made)}: go on with start={end}.]")
    return answer("\n\n".join(lines) or f"There is no chunk {start}: there are {len(made)}.", said)


def _compacted(made: Compacted) -> CallToolResult:
    parts = [
        made["summary"],
        "\n".join(f"- {point}" for point in made["key_points"]),
        "\n".join(f"> {quote['text']}" for quote in made["important_quotes"]),
        "\n".join(f"[{omission}]" for omission in made["omissions"]),
        "\n".join(f"[{warning['message']}]" for warning in made["warnings"]),
    ]
    return answer("\n\n".join(filter(None, parts)), made)
