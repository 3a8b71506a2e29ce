"""What the tools take, as agents write it, and what that means for the library.

The descriptions are read by language models, which pay for each word.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, cast

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from tidings.web.documents.model import Chunk
from tidings.web.extract.model import ExtractOptions
from tidings.web.page_options import FetchOptions, RenderOptions
from tidings.web.settings import Settings

MOST_URLS: Final = 20

Mode = Literal["auto", "http", "render"]
Output = Literal["markdown", "llm_packet", "normalized", "raw"]


class BadArgument(ValueError):
    """An argument is not what the tool takes. Says what it takes."""


def _as_chunks(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [{"text": each} if isinstance(each, str) else each for each in cast("list[Any]", value)]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class ArgumentPart(BaseModel):
    """A part of the arguments that is an object of its own."""

    model_config = ConfigDict(extra="forbid")


class Render(ArgumentPart):
    """How a page is rendered, where it is."""

    wait_until: Literal["load", "domcontentloaded", "networkidle", "commit"] = "load"
    wait_ms: Annotated[int, Field(ge=0, le=60_000)] = 0
    block_third_party: bool = True
    screenshot: bool = False
    selector: Annotated[str, Field(description="Wait until this CSS selector is there")] = ""


class Extraction(ArgumentPart):
    """What is read from a page."""

    prefer_readability: Annotated[bool, Field(description="Treat it as an article")] = False
    keep_tables: bool = True
    keep_code_blocks: bool = True
    remove_selectors: Annotated[list[str], Field(description="CSS selectors of parts to leave out")] = []


class Format(ArgumentPart):
    """What is answered."""

    output: Annotated[
        Output, Field(description="markdown: the text; llm_packet, normalized: all fields; raw: keep the bytes too")
    ] = "markdown"
    include_raw_excerpt: bool = False


class IgnoreArgument(ArgumentPart):
    """What does not count as a change."""

    selectors: Annotated[list[str], Field(description="CSS selectors")] = []
    patterns: Annotated[list[str], Field(description="Regular expressions")] = []
    ready: Annotated[
        list[Literal["dates", "counters", "relative-times", "tokens"]],
        BeforeValidator(_as_list),
        Field(description="Things that differ each time"),
    ] = ["relative-times"]


class GivenChunk(BaseModel):
    """A chunk, as `chunk` answered with it; of one that somebody made, only the text has to be there."""

    text: str
    chunk_id: str = ""
    headings_path: str = ""
    est_tokens: int = 0
    start_char: Annotated[int, Field(ge=0)] | None = None
    end_char: int = 0


class Packet(ArgumentPart):
    """A stored version, or a text."""

    source_id: str = ""
    content: str = ""


Urls = Annotated[
    list[str],
    BeforeValidator(_as_list),
    Field(
        min_length=1,
        max_length=MOST_URLS,
        validation_alias=AliasChoices("urls", "url"),
        description="As in ['https://example.org']; webfetch:// URIs read what is stored",
    ),
]
Chunks = Annotated[
    list[GivenChunk], BeforeValidator(_as_chunks), Field(max_length=1000, description="From `chunk`, instead")
]
MaxTokens = Annotated[
    int | None, Field(ge=50, le=1_000_000, description="Of the answer; the rest is named, not cut silently")
]
Start = Annotated[int, Field(ge=0, description="Character to begin with, to go on reading")]

NO_RENDER: Final = Render()
NO_EXTRACTION: Final = Extraction()
NO_FORMAT: Final = Format()
NO_IGNORE: Final = IgnoreArgument()


def fetch_options(
    settings: Settings,
    *,
    mode: Mode,
    headers: dict[str, str] | None,
    timeout_ms: int | None,
    max_bytes: int | None,
    max_redirects: int | None,
    user_agent: str | None,
    respect_robots: bool | None,
    cache_ttl_s: float | None,
    render: Render,
    extraction: Extraction,
    format_: Format,
) -> FetchOptions:
    """What a call asks for, as the library takes it; what it leaves out is as the server has it.

    Raises:
        BadArgument: It asks for what this server does not do.
    """
    if mode == "render" and not settings.render:
        raise BadArgument(
            "This server does not render pages: leave out mode 'render', or have it started with --render."
        )
    if respect_robots is False and settings.robots == "respect":
        raise BadArgument("This server respects robots.txt whatever a call says: leave out respect_robots.")
    if render.screenshot and mode == "http":
        raise BadArgument("A screenshot needs mode 'render': with 'http' nothing is rendered.")
    robots = settings.robots != "ignore" if respect_robots is None else respect_robots or settings.robots == "respect"
    return FetchOptions(
        mode=mode,
        headers=_headers(headers or {}),
        timeout=None if timeout_ms is None else timeout_ms / 1000,
        max_bytes=max_bytes,
        max_redirects=max_redirects,
        user_agent=user_agent,
        respect_robots=robots,
        cache_ttl=settings.cache_ttl if cache_ttl_s is None else cache_ttl_s,
        render=RenderOptions(
            wait_until=render.wait_until,
            wait_ms=render.wait_ms,
            block_third_party=render.block_third_party,
            screenshot=render.screenshot,
            selector=render.selector or None,
        ),
        extraction=extract_options(extraction),
        keep_raw=format_.output == "raw",
        include_raw_excerpt=format_.include_raw_excerpt,
    )


def over_limits(
    settings: Settings, *, timeout_ms: int | None, max_bytes: int | None, max_redirects: int | None
) -> list[str]:
    """What a call asks for beyond the server's limits, which hold all the same."""
    asked = (
        ("timeout_ms", timeout_ms, int(settings.timeout * 1000), "--timeout"),
        ("max_bytes", max_bytes, settings.max_bytes, "--max-bytes"),
        ("max_redirects", max_redirects, settings.max_redirects, "--max-redirects"),
    )
    return [
        f"{name}: the limit of this server holds, {limit:,}; its operator sets it with {option}."
        for name, given, limit, option in asked
        if given is not None and given > limit
    ]


def extract_options(extraction: Extraction) -> ExtractOptions:
    """What is to be read from a page, as the library takes it."""
    return ExtractOptions(
        keep_tables=extraction.keep_tables,
        keep_code_blocks=extraction.keep_code_blocks,
        remove_selectors=tuple(extraction.remove_selectors),
        prefer_readability=extraction.prefer_readability,
    )


def decoded(raw_bytes: str, most: int) -> bytes:
    """Bytes that were given as base64.

    Raises:
        BadArgument: They are none, or too many.
    """
    plain = re.sub(r"\s+", "", raw_bytes.removeprefix("data:").rpartition(";base64,")[2])
    if len(plain) > most * 4 // 3 + 4:
        raise BadArgument(f"raw_bytes has more than {most:,} bytes, which is the most that this server reads.")
    try:
        return base64.b64decode(plain, validate=True)
    except (binascii.Error, ValueError):
        raise BadArgument("raw_bytes is not base64: encode the bytes, or give the page as `text`.") from None


def chunks_of(given: Sequence[GivenChunk]) -> list[Chunk]:
    """Chunks that were given, as the library takes them: those without a place follow each other."""
    made: list[Chunk] = []
    end = 0
    for number, each in enumerate(given):
        start = end if each.start_char is None else each.start_char
        end = start + len(each.text)
        made.append(
            Chunk(
                chunk_id=each.chunk_id or f"given:c{number}",
                headings_path=each.headings_path,
                text=each.text,
                est_tokens=each.est_tokens,
                start_char=start,
                end_char=end,
            )
        )
        end += each.start_char is None  # Nobody said that they are one text.
    return made


def _headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or re.search(r"[\r\n\0]", value):
            raise BadArgument(
                f"{name[:80]!r} cannot be sent as a header: it is no name of one, or its value has line breaks."
            )
    return headers
