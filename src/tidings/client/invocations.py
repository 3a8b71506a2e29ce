"""What a call returned, together with what was asked: returned to the caller, and kept in the cache, as one object."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from mcp_types import BlobResourceContents, CallToolResult, GetPromptResult, ReadResourceResult, TextResourceContents


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class ResourceRead:
    """A resource's content, as it was read."""

    uri: str
    result: ReadResourceResult
    timestamp: datetime = field(default_factory=_now)
    """When the call was made."""
    metadata: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        """All its text, in order. Empty if it has none."""
        return "".join(part.text for part in self.result.contents if isinstance(part, TextResourceContents))

    @property
    def digest(self) -> str:
        """Equal for equal content: what a watcher compares."""
        return digest(self.result)


@dataclass(frozen=True, slots=True)
class TemplateRead:
    """The content of a resource that a template stands for, as it was read."""

    uri_template: str
    expanded_uri: str
    params: Mapping[str, str]
    result: ReadResourceResult
    timestamp: datetime = field(default_factory=_now)
    metadata: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        """All its text, in order. Empty if it has none."""
        return "".join(part.text for part in self.result.contents if isinstance(part, TextResourceContents))


@dataclass(frozen=True, slots=True)
class PromptGet:
    """A prompt, filled in by the server."""

    name: str
    result: GetPromptResult
    params: Mapping[str, str] | None = None
    timestamp: datetime = field(default_factory=_now)
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call and what came of it."""

    tool_name: str
    params: Mapping[str, Any]
    result: CallToolResult | None
    """None if the call failed."""
    success: bool
    """Whether the server answered. A tool that reports a failure of its own says so in `result.is_error`."""
    error: str | None = None
    timestamp: datetime = field(default_factory=_now)
    metadata: Mapping[str, Any] | None = None


Invocation = ResourceRead | TemplateRead | PromptGet | ToolCall


def digest(result: ReadResourceResult) -> str:
    """A text that is equal for equal contents. What the server says about them besides (how long they hold) is left
    out: it may differ each time.
    """
    hashed = hashlib.blake2b(digest_size=16)
    for part in result.contents:
        body = part.blob if isinstance(part, BlobResourceContents) else part.text
        for piece in (part.uri, part.mime_type or "", body):
            data = str(piece).encode(errors="surrogatepass")
            hashed.update(len(data).to_bytes(8) + data)
    return hashed.hexdigest()
