"""The shapes of what the server hands out, as JSON has them.

A packet is one immutable version of a page: its id holds the hash of its content. Keys that have nothing to say are
not there, except those that every packet has.
"""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

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


class Metadata(TypedDict):
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


class Block(TypedDict):
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
    metadata: Metadata
    outline: list[OutlineItem]
    key_blocks: list[Block]
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
