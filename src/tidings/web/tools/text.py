"""The tools that work on stored pages and on texts: `chunk`, `compact` and `diff`.

The docstrings of the tools and the descriptions are read by language models, which pay for each word.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from anyio import to_thread
from mcp_types import CallToolResult
from pydantic import Field

from tidings.web.documents.budget import fit, past_end
from tidings.web.documents.chunk import Strategy, chunk
from tidings.web.documents.compact import Mode, compact
from tidings.web.documents.model import Chunk, Compacted
from tidings.web.resources.addresses import address, source_id_of
from tidings.web.resources.differences import difference
from tidings.web.resources.reading import content_meant, page_meant
from tidings.web.settings import Settings
from tidings.web.tools.arguments import BadArgument, MaxTokens, Packet, Start, chunks_of
from tidings.web.tools.arguments import Chunks as ChunksGiven
from tidings.web.tools.results import Chunks, DiffResult, answer
from tidings.web.wiring import WebWiring

SourceId = Annotated[str, Field(description="From `fetch`")]
Content = Annotated[str, Field(description="A text of your own, instead")]
Preserve = Literal["numbers", "dates", "names", "definitions", "procedures"]
NO_PACKET = Packet()


@dataclass(frozen=True)
class TextTools:
    """The tools `chunk`, `compact` and `diff`."""

    _settings: Settings
    _parts: Callable[[], WebWiring]

    async def chunk(
        self,
        *,
        source_id: SourceId = "",
        content: Content = "",
        packet: Packet = NO_PACKET,
        max_tokens: Annotated[int | None, Field(ge=50, le=1_000_000, description="Of one chunk")] = None,
        margin_ratio: Annotated[float, Field(ge=0, lt=1)] = 0.10,
        strategy: Strategy = "headings_first",
        start: Annotated[int, Field(ge=0, description="Number of the first chunk to show")] = 0,
        answer_tokens: MaxTokens = None,
    ) -> Annotated[CallToolResult, Chunks]:
        """Cut a fetched page into chunks within a budget of tokens, at headings, with exact offsets."""
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
        *,
        source_id: SourceId = "",
        content: Content = "",
        packet: Packet = NO_PACKET,
        chunks: ChunksGiven = [],  # noqa: B006 - never changed
        max_tokens: Annotated[int, Field(ge=50, le=100_000)] = 1000,
        mode: Annotated[
            Mode,
            Field(
                description="structural: headings and first sentences; salience: the weightiest sentences; "
                "question_focused: what bears on `question`"
            ),
        ] = "salience",
        question: str = "",
        preserve: list[Preserve] = [],  # noqa: B006 - never changed
    ) -> Annotated[CallToolResult, Compacted]:
        """Shorten a fetched page or a text to a budget of tokens, in its own words, and say what was left out."""
        _check_one(source_id=source_id, content=content, packet=packet.source_id or packet.content, chunks=chunks)
        if mode == "salience" and question.strip():
            mode = "question_focused"
        if mode == "question_focused" and not question.strip():
            raise BadArgument("question_focused needs a `question`.")
        given = chunks_of(chunks) or await self._text_of(source_id or packet.source_id, content or packet.content)
        text = given[1] if isinstance(given, tuple) else given

        made = await to_thread.run_sync(
            lambda: compact(text, max_tokens=max_tokens, mode=mode, question=question or None, preserve=preserve)
        )
        return _compacted(made)

    async def diff(
        self,
        *,
        page: Annotated[str, Field(description="page_id, URL or webfetch:// URI")],
        since: Annotated[str, Field(description="source_id to compare from; else the version before the newest")] = "",
        max_tokens: MaxTokens = None,
        start: Start = 0,
    ) -> Annotated[CallToolResult, DiffResult]:
        """See what changed on a fetched or watched page, between two stored versions. Fetches nothing."""
        known = await page_meant(self._parts().store, page)
        found = await difference(self._parts().store, known, source_id_of(since) if since else None)
        part = fit(found.text, max_tokens or self._settings.answer_tokens, start)
        data = DiffResult(
            page_id=known.page_id,
            url=known.address,
            diff_uri=address("diff", known.page_id),
            after=found.after,
            added=found.added,
            removed=found.removed,
            diff=part.text,
        )
        if found.before:
            data["before"] = found.before
        text = past_end(part.start, part.total) or part.text
        if part.left:
            data["left_out"] = f"{part.left:,} of {part.total:,} characters are left: go on with start={part.end}."
            text += f"\n[{data['left_out']}]"
        return answer(text, data)

    async def _text_of(self, source_id: str, content: str) -> tuple[str, str]:
        """Returns the name of a text, and the text."""
        if content:
            return source_id_of(source_id) if source_id else "given", content
        if not source_id:
            raise BadArgument("There is no text. Give the source_id of a fetched page, or a text as `content`.")
        return await content_meant(self._parts().store, source_id)


def _check_one(**given: object) -> None:
    """Refuses several sources of a text: one of them would be ignored silently."""
    named = [name for name, value in given.items() if value]
    if len(named) > 1:
        raise BadArgument(f"Give {' or '.join(named)}, not both.")


def _chunks(name: str, made: Sequence[Chunk], start: int, room: int) -> CallToolResult:
    shown: list[Chunk] = []
    for each in made[start:]:
        room -= each["est_tokens"]
        if room < 0 and shown:
            break
        shown.append(each)
    data = Chunks(source_id=name, total=len(made), start=start, chunks=shown)
    lines = [
        f"[{each['chunk_id']}] {each['headings_path']} ({each['est_tokens']:,} tokens, characters "
        f"{each['start_char']}-{each['end_char']})\n{each['text']}"
        for each in shown
    ]
    end = start + len(shown)
    if end < len(made):
        data["next_start"] = end
        lines.append(f"[Chunks {start} to {end - 1} of {len(made)}: go on with start={end}.]")
    return answer("\n\n".join(lines) or f"There is no chunk {start}: there are {len(made)}.", data)


def _compacted(made: Compacted) -> CallToolResult:
    parts = [
        made["summary"],
        "\n".join(f"- {point}" for point in made["key_points"]),
        "\n".join(f"> {quote['text']}" for quote in made["important_quotes"]),
        "\n".join(f"[{omission}]" for omission in made["omissions"]),
        "\n".join(f"[{warning['message']}]" for warning in made["warnings"]),
    ]
    return answer("\n\n".join(filter(None, parts)), made)
