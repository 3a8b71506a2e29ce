"""The shapes that the server hands out, as JSON has them; ids and hashes.

A packet is one immutable version of a page: its id contains the hash of its content. Keys without a value are left out,
except those that every packet has.
"""

import hashlib
from contextlib import suppress
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
    """A remark for the reader of the content."""

    type: WarningType
    message: str


class DocumentMetadata(TypedDict):
    """Facts about the page."""

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
    """A place in `content`: from the first character to the one after the last."""

    start_char: int
    end_char: int


class Citation(TypedDict):
    """The place of a block: `content[start_char:end_char]` is its text."""

    block_id: str
    loc: Location


class Unsafe(TypedDict):
    """Text that looks like an instruction to a model, and the reason."""

    text: str
    reason: str


class Hashes(TypedDict):
    """SHA-256 in hex."""

    content_hash: str
    raw_hash: str  # of the bytes as they came
    version_hash: NotRequired[str]  # of content, title and facts: two versions with the same one are the same


class NormalizedContent(TypedDict):
    """A page, without its hashes."""

    source_id: str
    original_url: str  # the URL that was asked for, which identifies the page
    canonical_url: str  # what the page claims to be, if it may; only to be shown
    final_url: NotRequired[str]  # where redirects led to
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
    facts: NotRequired[dict[str, str]]  # what the page states for programs: price, availability, version and similar


class LLMPacket(NormalizedContent):
    """A page as a model reads it: one version, which never changes."""

    hashes: Hashes
    raw_excerpt: NotRequired[str]


class Chunk(TypedDict):
    """A part of a content that fits a budget of tokens: `content[start_char:end_char]` is its text."""

    chunk_id: str
    headings_path: str  # The headings above all of it, `Like > This`.
    text: str
    est_tokens: int
    start_char: int
    end_char: int


class Quote(TypedDict):
    """Words of the content, exactly as they are there."""

    text: str
    loc: Location
    chunk_id: NotRequired[str]  # If chunks were given: the one it begins in.


class Compacted(TypedDict):
    """A content made shorter, and what was left out."""

    summary: str
    key_points: list[str]
    important_quotes: list[Quote]
    omissions: list[str]
    warnings: list[PacketWarning]
    est_tokens: int  # Of summary, key points, quotes and omissions together.


_LENGTH = 16
_FRONT = frozenset(("", "/", "/index.html", "/index.htm", "/index.php"))


def content_hash(content: str) -> str:
    """Returns the SHA-256 of a content, in hex."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def version_hash(packet: LLMPacket) -> str:
    """Returns the hash by which two versions of a page are told apart."""
    return packet["hashes"].get("version_hash") or packet["hashes"]["content_hash"]


def source_id(address: str, retrieved_at: datetime, hash_of_content: str) -> str:
    """Returns the id of a version of a page, made from its address, the day (UTC) and its content."""
    day = retrieved_at.astimezone(UTC).date().isoformat()
    return content_hash(f"{address}|{day}|{hash_of_content}")[:_LENGTH]


def page_id(address: str) -> str:
    """Returns the id of a page, whatever its content."""
    return content_hash(address)[:_LENGTH]


def canonical(claimed: str | None, final_url: str, status: int = 200) -> str:
    """Returns the URL that a page claims to be, if it may, or else where it came from. It identifies nothing.

    A page may claim a URL of its own host only (apart from `www.` and the scheme), so that it cannot pose as another
    site's. An error page may not claim one, nor may a page that claims to be the front page and is not.
    """
    try:
        final = parse(final_url)
    except BadUrl:
        return final_url
    with suppress(BadUrl):
        claim = parse(claimed) if claimed is not None and 200 <= status < 300 else final
        if _site(claim) == _site(final) and (claim.target != "/" or final.target.partition("?")[0] in _FRONT):
            return str(claim)
    return str(final)


def _site(url: Url) -> tuple[str, int]:
    port = 443 if (url.scheme, url.port) == ("http", 80) else url.port
    return url.host.removeprefix("www."), port
