"""The tools that work with stored pages, or with a text that the caller has: `chunk`, `compact` and `diff`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, cast

from anyio import to_thread
from mcp_types import CallToolResult
from pydantic import BaseModel, BeforeValidator, Field
from typing_extensions import TypedDict

from tidings.server.families import ResourceMissing
from tidings.web.documents.budget import fit, past_end
from tidings.web.documents.chunk import Strategy, chunk
from tidings.web.documents.compact import Mode, compact
from tidings.web.documents.invisible import disarm
from tidings.web.documents.model import Chunk, Compacted
from tidings.web.page_options import STRICT
from tidings.web.resources import VersionDifference, address, difference, known_page, meant, source_id_of
from tidings.web.tools.results import BadArgument, MaxTokens, Start, answer
from tidings.web.wiring import WebWiring


class GivenChunk(BaseModel):
    """A chunk from the answer of `chunk`; one that the caller made needs only the text."""

    text: str
    chunk_id: str = ""
    headings_path: str = ""
    est_tokens: int = 0
    start_char: Annotated[int, Field(ge=0)] | None = None
    end_char: int = 0


class Packet(BaseModel):
    """A stored version, or a text."""

    model_config = STRICT

    source_id: str = ""
    content: str = ""


def _as_chunks(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [{"text": each} if isinstance(each, str) else each for each in cast("list[Any]", value)]


ChunksGiven = Annotated[
    list[GivenChunk], BeforeValidator(_as_chunks), Field(max_length=1000, description="From `chunk`, instead")
]
SourceId = Annotated[str, Field(description="From `fetch`")]
Content = Annotated[str, Field(description="A text of your own, instead")]
Preserve = Literal["numbers", "dates", "names", "definitions", "procedures"]
NO_PACKET = Packet()


class Chunks(TypedDict):
    """The chunks of a text: as many as fit into the answer, from `start` on."""

    source_id: str
    total: int
    start: int
    chunks: list[Chunk]
    next_start: NotRequired[int]


class DiffResult(VersionDifference):
    """The changes of a page."""

    page_id: str
    url: str
    diff_uri: str
    left_out: NotRequired[str]


@dataclass(frozen=True)
class TextTools:
    """The tools `chunk`, `compact` and `diff`."""

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
        settings = self._parts().settings
        most = max_tokens or settings.chunk_tokens
        try:
            made = await to_thread.run_sync(
                lambda: chunk(name, text, max_tokens=most, margin_ratio=margin_ratio, strategy=strategy)
            )
        except ValueError as error:
            raise BadArgument(str(error)) from error
        room = answer_tokens or max(settings.answer_tokens, most)
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
        text: str | list[Chunk] = _placed(chunks)
        if not text:
            _, text = await self._text_of(source_id or packet.source_id, content or packet.content)

        made = await to_thread.run_sync(
            lambda: compact(text, max_tokens=max_tokens, mode=mode, question=question or None, preserve=preserve)
        )
        parts = [
            made["summary"],
            "\n".join(f"- {point}" for point in made["key_points"]),
            "\n".join(f"> {quote['text']}" for quote in made["important_quotes"]),
            "\n".join(f"[{omission}]" for omission in made["omissions"]),
            "\n".join(f"[{warning['message']}]" for warning in made["warnings"]),
        ]
        return answer("\n\n".join(filter(None, parts)), made)

    async def diff(
        self,
        *,
        page: Annotated[str, Field(description="page_id, URL or webfetch:// URI")],
        since: Annotated[str, Field(description="source_id to compare from; else the version before the newest")] = "",
        max_tokens: MaxTokens = None,
        start: Start = 0,
    ) -> Annotated[CallToolResult, DiffResult]:
        """See what changed on a fetched or watched page, between two stored versions. Fetches nothing."""
        parts = self._parts()
        known = known_page((await meant(parts.store, page))[0], page)
        found = await difference(parts.store, known, source_id_of(since) if since else None)
        part = fit(found["diff"], max_tokens or parts.settings.answer_tokens, start)
        page_id = known.page_id
        data = DiffResult(**found, page_id=page_id, url=known.address, diff_uri=address("diff", page_id))
        data["diff"] = part.text
        text = past_end(part.start, part.total) or part.text
        if part.left:
            data["left_out"] = f"{part.left:,} of {part.total:,} characters are left: go on with start={part.end}."
            text += f"\n[{data['left_out']}]"
        return answer(text, data)

    async def _text_of(self, source_id: str, content: str) -> tuple[str, str]:
        if content:
            return source_id_of(source_id) if source_id else "given", content
        if not source_id:
            raise BadArgument("There is no text. Give the source_id of a fetched page, or a text as `content`.")
        _, entry = await meant(self._parts().store, source_id)
        if entry is None:
            if "://" not in source_id:
                source_id_of(source_id)
            raise ResourceMissing(
                f"{disarm(source_id.strip()[:300])} is not kept, or no longer. `fetch` the page, and give the "
                "source_id of the answer."
            )
        return entry.packet["source_id"], entry.packet["content"]


def _check_one(**given: object) -> None:
    """Refuses several sources of a text: one of them would be ignored silently."""
    named = [name for name, value in given.items() if value]
    if len(named) > 1:
        raise BadArgument(f"Give {' or '.join(named)}, not both.")


def _placed(given: Sequence[GivenChunk]) -> list[Chunk]:
    """Gives chunks that the caller made a name and a place: they follow each other."""
    made: list[Chunk] = []
    end = 0
    for number, each in enumerate(given):
        start = end if each.start_char is None else each.start_char
        end = start + len(each.text)
        place = {"chunk_id": each.chunk_id or f"given:c{number}", "start_char": start, "end_char": end}
        made.append(cast("Chunk", each.model_dump() | place))
        end += each.start_char is None  # A gap: they need not be one text.
    return made
