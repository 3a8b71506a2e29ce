"""The arguments of the tools, and their conversion for the library.

The descriptions are read by language models, which pay for each word.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, cast

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field

from tidings.web.documents.model import Chunk
from tidings.web.ignore import USUAL
from tidings.web.page_options import STRICT, Extraction, Mode, RenderOptions
from tidings.web.settings import Settings

MOST_URLS: Final = 20

Output = Literal["markdown", "llm_packet", "normalized", "raw"]


class BadArgument(ValueError):
    """A tool does not take an argument. The message says what it takes."""


def _as_chunks(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [{"text": each} if isinstance(each, str) else each for each in cast("list[Any]", value)]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class Format(BaseModel):
    """Form of the answer."""

    model_config = STRICT

    output: Annotated[
        Output, Field(description="markdown: the text; llm_packet, normalized: all fields; raw: keep the bytes too")
    ] = "markdown"
    include_raw_excerpt: bool = False


class IgnoreArgument(BaseModel):
    """Differences that are not a change."""

    model_config = STRICT

    selectors: Annotated[list[str], Field(description="CSS selectors")] = []
    patterns: Annotated[list[str], Field(description="Regular expressions")] = []
    ready: Annotated[
        list[Literal["dates", "counters", "relative-times", "stamps", "link-tokens", "tokens"]],
        BeforeValidator(_as_list),
        Field(description="Things that differ each time"),
    ] = list(USUAL)


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

NO_RENDER: Final = RenderOptions()
NO_EXTRACTION: Final = Extraction()
NO_FORMAT: Final = Format()
NO_IGNORE: Final = IgnoreArgument()


def check_fetch(settings: Settings, mode: Mode, robots: bool | None, picture: bool) -> None:
    """Raises `BadArgument` if this server does not do what a call of `fetch` asks for."""
    if mode == "render" and not settings.render:
        raise BadArgument(
            "This server does not render pages. Leave out mode 'render', or have it started with --render."
        )
    if robots is False and settings.robots == "respect":
        raise BadArgument("This server always respects robots.txt. Leave out respect_robots.")
    if picture and mode == "http":
        raise BadArgument("A screenshot needs mode 'render': with 'http' nothing is rendered.")


def over_limits(settings: Settings, **asked: int | None) -> list[str]:
    """Returns a note for each argument above the server's limits, which hold all the same."""
    limits = {
        "timeout_ms": (int(settings.timeout * 1000), "--timeout"),
        "max_bytes": (settings.max_bytes, "--max-bytes"),
        "max_redirects": (settings.max_redirects, "--max-redirects"),
    }
    return [
        f"{name}: the limit of this server applies, {limits[name][0]:,}; its operator sets it with {limits[name][1]}."
        for name, value in asked.items()
        if value is not None and value > limits[name][0]
    ]


def decoded(raw_bytes: str, most: int) -> bytes:
    """Decodes bytes that were given as base64. Raises `BadArgument` if they are not base64, or too many."""
    plain = re.sub(r"\s+", "", raw_bytes.removeprefix("data:").rpartition(";base64,")[2])
    if len(plain) > most * 4 // 3 + 4:
        raise BadArgument(f"raw_bytes has more than {most:,} bytes, which is the limit of this server.")
    try:
        return base64.b64decode(plain, validate=True)
    except (binascii.Error, ValueError):
        raise BadArgument("raw_bytes is not base64. Encode the bytes, or give the page as `text`.") from None


def chunks_of(given: Sequence[GivenChunk]) -> list[Chunk]:
    """Converts chunks for the library: those without a place follow each other."""
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
        end += each.start_char is None  # A gap: they need not be one text.
    return made
