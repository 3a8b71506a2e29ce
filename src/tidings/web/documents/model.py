"""The shapes of what the server hands out, as JSON has them.

A packet is one immutable version of a page: its id holds the hash of its content. Keys that have nothing to say are
not there, except those that every packet has.

What packets and pages are known by, and the one URL that a page is known by.
"""

import hashlib
from datetime import UTC, datetime
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from tidings.web.fetch.request import BadUrl
from tidings.web.fetch.urls import Url, parse

BlockKind = Literal["heading", "paragraph", "list", "code", "table", "quote", "meta"]

WarningType = Literal[
    "truncated",
    "paywalled",
    "low_confidence_date",
    "scanned_pdf",
    "render_timeout",
    "extraction_fallback",
    "rate_limited",
    "robots_blocked",
    "injection_detected",
    "empty",
    "notice",
]


class PacketWarning(TypedDict):
    """Something the reader of the content should know."""

    type: WarningType
    message: str


class DocumentMetadata(TypedDict):
    """What is known of the page."""

    title: NotRequired[str]
    site_name: NotRequired[str]
    author: NotRequired[str]
    published_at: NotRequired[str]
    language: NotRequired[str]
    page_count: NotRequired[int]
    estimated_reading_time_min: NotRequired[int]


class OutlineItem(TypedDict):
    """A heading, and the headings above it, `Like > This`."""

    level: int
    text: str
    path: str


class ContentBlock(TypedDict):
    """A part of the content."""

    block_id: str
    kind: BlockKind
    text: str
    char_len: int


class Location(TypedDict):
    """Where it stands in `content`: from the first character on, to the one after the last."""

    start_char: int
    end_char: int


class Citation(TypedDict):
    """Where a block stands: `content[start_char:end_char]` is its text."""

    block_id: str
    loc: Location


class Unsafe(TypedDict):
    """Text that looks like an instruction to a model, and why it does."""

    text: str
    reason: str


class Hashes(TypedDict):
    """SHA-256, in hex: of the content, and of the bytes as they came."""

    content_hash: str
    raw_hash: str


class NormalizedContent(TypedDict):
    """A page, without its hashes."""

    source_id: str
    original_url: str
    canonical_url: str
    retrieved_at: str
    status: int
    content_type: str
    metadata: DocumentMetadata
    outline: list[OutlineItem]
    key_blocks: list[ContentBlock]
    content: str
    source_summary: list[str]
    citations: list[Citation]
    unsafe_instructions_detected: list[Unsafe]
    warnings: list[PacketWarning]


class LLMPacket(NormalizedContent):
    """A page as a model reads it: one version of it, for good."""

    hashes: Hashes
    raw_excerpt: NotRequired[str]
    screenshot_base64: NotRequired[str]


class Chunk(TypedDict):
    """A part of a content that fits a budget of tokens: `content[start_char:end_char]` is its text."""

    chunk_id: str
    headings_path: str
    """The headings that all of it stands below, `Like > This`."""
    text: str
    est_tokens: int
    start_char: int
    end_char: int


class Quote(TypedDict):
    """Words of the content, exactly as they stand there."""

    text: str
    loc: Location
    chunk_id: NotRequired[str]
    """Where chunks were given: the one it begins in."""


class Compacted(TypedDict):
    """A content made shorter, and what was left out for that."""

    summary: str
    key_points: list[str]
    important_quotes: list[Quote]
    omissions: list[str]
    warnings: list[PacketWarning]
    est_tokens: int
    """Of summary, key points, quotes and omissions together."""


_LENGTH = 16
_FRONT = frozenset(("", "/", "/index.html", "/index.htm", "/index.php"))


def content_hash(content: str) -> str:
    """SHA-256 of a content, in hex."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def source_id(canonical_url: str, retrieved_at: datetime, hash_of_content: str) -> str:
    """The id of one version of a page: of its URL, of the day (UTC) and of its content."""
    day = retrieved_at.astimezone(UTC).date().isoformat()
    return _digest(f"{canonical_url}|{day}|{hash_of_content}")


def page_id(canonical_url: str) -> str:
    """The id of a page, whatever it says."""
    return _digest(canonical_url)


def canonical(claimed: str | None, final_url: str, status: int = 200) -> str:
    """The URL that a page is known by: the one it claims, if that may be, or else where it came from.

    A page speaks for its own host alone (`www.` and the scheme aside), so that none can pose as another's. An error
    does not say which page it is; nor does a page that claims to be the front page and is not.
    """
    try:
        final = parse(final_url)
    except BadUrl:
        return final_url
    if claimed is None or not 200 <= status < 300:
        return str(final)
    try:
        said = parse(claimed)
    except BadUrl:
        return str(final)
    mine = _site(said) == _site(final) and (said.target != "/" or final.target.partition("?")[0] in _FRONT)
    return str(said if mine else final)


def _site(url: Url) -> tuple[str, int]:
    port = 443 if (url.scheme, url.port) == ("http", 80) else url.port
    return url.host.removeprefix("www."), port


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]
