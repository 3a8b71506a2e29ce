"""The cache of a client, and what it holds: the latest result of each resource, template, prompt and tool.

Users read and clear it (`Cache`); only the client writes it (`ContentCache`). It has the newest invocation for each
key, and returns the very object that was put. All four kinds share one limit; the least recently used goes first. The
cost of an operation does not depend on the size of the cache. It belongs to one thread.
"""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from math import inf
from typing import Any, TypeVar

import mcp_types as types

from tidings._kit.bounded_json import weigh
from tidings.client.config import CacheLimits

_now = partial(datetime.now, UTC)


@dataclass(frozen=True, slots=True)
class ResourceRead:
    """The content of a resource, as it was read."""

    uri: str
    result: types.ReadResourceResult
    timestamp: datetime = field(default_factory=_now)
    """The time of the answer."""
    metadata: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        """All text of the content, in order. Empty if there is none."""
        return "".join(part.text for part in self.result.contents if isinstance(part, types.TextResourceContents))

    @property
    def digest(self) -> str:
        """A hash of the content, by which watchers notice a change."""
        return digest(self.result)


@dataclass(frozen=True, slots=True)
class TemplateRead:
    """The content of a resource, as it was read through a template."""

    uri_template: str
    expanded_uri: str
    params: Mapping[str, str]
    result: types.ReadResourceResult
    timestamp: datetime = field(default_factory=_now)
    metadata: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        """All text of the content, in order. Empty if there is none."""
        return "".join(part.text for part in self.result.contents if isinstance(part, types.TextResourceContents))


@dataclass(frozen=True, slots=True)
class PromptGet:
    """A prompt, filled in by the server."""

    name: str
    result: types.GetPromptResult
    params: Mapping[str, str] | None = None
    timestamp: datetime = field(default_factory=_now)
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call and its outcome."""

    tool_name: str
    params: Mapping[str, Any]
    result: types.CallToolResult | None
    """None if the call failed."""
    success: bool
    """True if the server answered. A failure that the tool itself reports is in `result.is_error`."""
    error: str | None = None
    timestamp: datetime = field(default_factory=_now)
    metadata: Mapping[str, Any] | None = None


Invocation = ResourceRead | TemplateRead | PromptGet | ToolCall
InvocationT = TypeVar("InvocationT", ResourceRead, TemplateRead, PromptGet, ToolCall)


def digest(result: types.ReadResourceResult) -> str:
    """Returns a text that is equal for equal contents, whatever else the answer says, such as its lifetime."""
    hashed = hashlib.blake2b(digest_size=16)
    for part in result.contents:
        body = part.blob if isinstance(part, types.BlobResourceContents) else part.text
        for piece in (part.uri, part.mime_type or "", body):
            data = str(piece).encode(errors="surrogatepass")
            hashed.update(len(data).to_bytes(8) + data)
    return hashed.hexdigest()


class ContentKind(StrEnum):
    """The kinds of invocations. Each has keys of its own: the URI, the URI template or the name, without arguments."""

    RESOURCE = "resource"
    TEMPLATE = "template"
    PROMPT = "prompt"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class _Entry:
    invocation: Invocation
    size: int
    expires: float


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """The use of a cache so far, and its size."""

    hits: int
    """The number of lookups by the program that found something."""
    misses: int
    entries: int
    size: int
    """The approximate size of the content, in bytes."""


class Cache:
    """The latest content that the client knows, to read and to clear.

    Content with a lifetime is dropped when the lifetime ends, unless a subscription keeps it current. It still counts
    toward the limits until somebody asks for it, or its space is needed.
    """

    def __init__(
        self,
        limits: CacheLimits | None = None,
        *,
        held: Callable[[str], bool] = lambda uri: False,
        clock: Callable[[], float] = time.monotonic,
        on_change: Callable[[Invocation | None, ContentKind, str], None] = lambda invocation, kind, key: None,
    ) -> None:
        self._limits = limits or CacheLimits()
        self._held = held
        self._clock = clock
        self._on_change = on_change
        self._entries: OrderedDict[tuple[ContentKind, str], _Entry] = OrderedDict()  # The most recently used last.
        self._templates: dict[str, set[str]] = {}  # For each URI, the templates through which it was read.
        self._size: int = 0
        self._hits = self._misses = 0

    def get_resource(self, uri: str) -> ResourceRead | None:
        """Returns the last read of a resource, unless the resource has changed since then."""
        return self._get(ContentKind.RESOURCE, uri, ResourceRead)

    def get_resource_template(self, uri_template: str) -> TemplateRead | None:
        """Returns the last read through a template, unless the resource has changed since then."""
        return self._get(ContentKind.TEMPLATE, uri_template, TemplateRead)

    def get_prompt(self, name: str) -> PromptGet | None:
        """Returns the prompt as it was last filled in."""
        return self._get(ContentKind.PROMPT, name, PromptGet)

    def get_tool_call_result(self, tool_name: str) -> ToolCall | None:
        """Returns the last call of the tool, successful or not."""
        return self._get(ContentKind.TOOL, tool_name, ToolCall)

    def clear_resource(self, uri: str) -> None:
        """Drops a resource."""
        self._remove(ContentKind.RESOURCE, uri)

    def clear_resource_template(self, uri_template: str) -> None:
        """Drops everything that was read through a template."""
        self._remove(ContentKind.TEMPLATE, uri_template)

    def clear_resource_and_resource_template(self, uri: str) -> None:
        """Drops a resource, whether it was read by its URI or through templates."""
        self._remove(ContentKind.RESOURCE, uri)
        for uri_template in list(self._templates.get(uri, ())):
            self._remove(ContentKind.TEMPLATE, uri_template)

    def clear_prompt(self, name: str) -> None:
        """Drops a prompt."""
        self._remove(ContentKind.PROMPT, name)

    def clear_tool_call_result(self, tool_name: str) -> None:
        """Drops the last call of a tool."""
        self._remove(ContentKind.TOOL, tool_name)

    def clear_all(self) -> None:
        """Drops everything."""
        for kind, key in list(self._entries):
            self._remove(kind, key)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def info(self) -> CacheInfo:
        """The current numbers of hits, misses and entries, and the size."""
        return CacheInfo(self._hits, self._misses, len(self._entries), self._size)

    def _get(self, kind: ContentKind, key: str, of: type[InvocationT]) -> InvocationT | None:
        found = self._find(kind, key, of)
        self._hits, self._misses = self._hits + (found is not None), self._misses + (found is None)
        return found

    def _find(self, kind: ContentKind, key: str, of: type[InvocationT]) -> InvocationT | None:
        entry = self._entries.get((kind, key))
        # Most entries never expire, and need no look at the clock.
        if entry is not None and entry.expires != inf and self._has_expired(entry):
            self._remove(kind, key)
            return None
        if entry is None or not isinstance(entry.invocation, of):
            return None
        self._entries.move_to_end((kind, key))
        return entry.invocation

    def _has_expired(self, entry: _Entry) -> bool:
        uri = read_uri(entry.invocation)
        return self._clock() >= entry.expires and not (uri is not None and self._held(uri))

    def _remove(self, kind: ContentKind, key: str) -> None:
        if self._drop(kind, key):
            self._on_change(None, kind, key)

    def _drop(self, kind: ContentKind, key: str) -> bool:
        entry = self._entries.pop((kind, key), None)
        if entry is None:
            return False
        self._size -= entry.size
        if isinstance(entry.invocation, TemplateRead):
            templates = self._templates[entry.invocation.expanded_uri]
            templates.discard(key)
            if not templates:
                del self._templates[entry.invocation.expanded_uri]
        return True


class ContentCache(Cache):
    """The cache for its client, which also writes. `held(uri)`: a subscription keeps the content of `uri` current."""

    def put(self, invocation: Invocation, *, age: float = 0.0) -> None:
        """Puts `invocation` in place of what its key had, if the limits allow. Older entries make room.

        `age` is the number of seconds since it was read. `on_change` is called in any case: with None if there is no
        room for it, or its lifetime is over.
        """
        kind, key = place_of(invocation)
        expires, limits = inf, self._limits
        if isinstance(invocation, ResourceRead | TemplateRead) and invocation.result.ttl_ms > 0:
            # The age is below zero if the wall clock was set back.
            expires = self._clock() + lasts(invocation.result) - max(age, 0.0)
        entry = _Entry(invocation, weigh(invocation.result), expires)
        self._drop(kind, key)
        if limits.entries <= 0 or entry.size > limits.size or (expires != inf and self._has_expired(entry)):
            self._on_change(None, kind, key)
            return
        while self._entries and (len(self._entries) >= limits.entries or self._size + entry.size > limits.size):
            self._remove(*next(iter(self._entries)))
        self._entries[kind, key] = entry
        self._size += entry.size
        if isinstance(invocation, TemplateRead):
            self._templates.setdefault(invocation.expanded_uri, set()).add(key)
        self._on_change(invocation, kind, key)

    def replace(self, invocation: Invocation, *, keep: bool) -> None:
        """Puts `invocation`, or only drops the one before it, which must not pass for the last."""
        self.put(invocation) if keep else self._remove(*place_of(invocation))

    def clear_content(self) -> None:
        """Drops everything but the results of tools, which tell what was done."""
        for kind, key in list(self._entries):
            if kind is not ContentKind.TOOL:
                self._remove(kind, key)

    def peek(self, uri: str) -> ResourceRead | None:
        """Returns the last read of a resource to the client itself. It does not count as a look-up."""
        return self._find(ContentKind.RESOURCE, uri, ResourceRead)

    def uris(self) -> set[str]:
        """Returns the resources that have content, whether read by URI or through a template."""
        return {key for kind, key in self._entries if kind is ContentKind.RESOURCE}.union(self._templates)

    def copies(self, uri: str) -> list[ResourceRead | TemplateRead]:
        """Returns all copies of a resource, whether read by URI or through templates."""
        templates = list(self._templates.get(uri, ()))
        read = [self._find(ContentKind.TEMPLATE, template, TemplateRead) for template in templates]
        return [copy for copy in (self.peek(uri), *read) if copy is not None]


def lasts(result: types.ReadResourceResult) -> float:
    """Returns the lifetime of an answer in seconds, as the server states it, but a day at most."""
    return min(result.ttl_ms, 24 * 60 * 60 * 1000) / 1000


def place_of(invocation: Invocation) -> tuple[ContentKind, str]:
    """Returns the kind and key of an invocation."""
    match invocation:
        case ResourceRead():
            return ContentKind.RESOURCE, invocation.uri
        case TemplateRead():
            return ContentKind.TEMPLATE, invocation.uri_template
        case PromptGet():
            return ContentKind.PROMPT, invocation.name
        case ToolCall():
            return ContentKind.TOOL, invocation.tool_name


def read_uri(invocation: Invocation) -> str | None:
    """Returns the URI of the content; None for prompts and tools."""
    if isinstance(invocation, TemplateRead):
        return invocation.expanded_uri
    return invocation.uri if isinstance(invocation, ResourceRead) else None
