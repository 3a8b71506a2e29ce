"""The cache of a live client: the latest content of each resource, template, prompt and tool, as it was returned.

Users read and clear it (`Cache`); the client alone writes it (`ContentCache`). There is one invocation for each key,
the newest, and what the cache returns is the very object that was put. All four kinds share one limit; what was used
longest ago goes first. Everything costs the same however much the cache holds. It belongs to one thread and waits for
nothing.

May import: `config`, `invocations`.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Final

from mcp_types import ReadResourceResult

from tidings.client._weight import weigh
from tidings.client.config import CacheLimits
from tidings.client.invocations import Invocation, PromptGet, ResourceRead, TemplateRead, ToolCall

LONGEST_TTL: Final = 24 * 60 * 60.0
"""Seconds. A server that promises more has not thought about it."""


class Kind(StrEnum):
    """What an invocation is of. Each kind has keys of its own."""

    RESOURCE = "resource"
    """By its URI."""
    TEMPLATE = "template"
    """By its URI template, whatever was filled in."""
    PROMPT = "prompt"
    """By its name, whatever was filled in."""
    TOOL = "tool"
    """By its name, whatever it was called with."""


OnChange = Callable[[Invocation | None, Kind, str], None]
"""Told what the cache holds from now on under a kind and key; None: nothing."""


@dataclass(frozen=True, slots=True)
class _Entry:
    invocation: Invocation
    size: int
    expires: float


class Cache:
    """The latest content that the client knows, to read and to clear.

    An answer that the server said holds for some time is let go when that time is over, unless a subscription keeps
    it current. It is counted until somebody asks for it then, or its room is needed.
    """

    def __init__(
        self,
        limits: CacheLimits | None = None,
        *,
        held: Callable[[str], bool] = lambda uri: False,
        clock: Callable[[], float] = time.monotonic,
        on_change: OnChange = lambda invocation, kind, key: None,
    ) -> None:
        self._limits = limits or CacheLimits()
        self._held = held
        self._clock = clock
        self._on_change = on_change
        self._entries: OrderedDict[tuple[Kind, str], _Entry] = OrderedDict()
        """In the order of use, the newest last."""
        self._templates: dict[str, set[str]] = {}
        """The templates whose entry is of this URI."""
        self._size: int = 0

    def get_resource(self, uri: str) -> ResourceRead | None:
        """What was last read of the resource, unless it is known to have changed."""
        found = self._get(Kind.RESOURCE, uri)
        return found if isinstance(found, ResourceRead) else None

    def get_resource_template(self, uri_template: str) -> TemplateRead | None:
        """What was last read by way of the template, unless it is known to have changed."""
        found = self._get(Kind.TEMPLATE, uri_template)
        return found if isinstance(found, TemplateRead) else None

    def get_prompt(self, name: str) -> PromptGet | None:
        """The prompt as it was last filled in."""
        found = self._get(Kind.PROMPT, name)
        return found if isinstance(found, PromptGet) else None

    def get_tool_call_result(self, tool_name: str) -> ToolCall | None:
        """The last call of the tool, whether it succeeded or not."""
        found = self._get(Kind.TOOL, tool_name)
        return found if isinstance(found, ToolCall) else None

    def clear_resource(self, uri: str) -> None:
        """Let go of the resource."""
        self._remove(Kind.RESOURCE, uri)

    def clear_resource_template(self, uri_template: str) -> None:
        """Let go of what was read by way of the template."""
        self._remove(Kind.TEMPLATE, uri_template)

    def clear_resource_and_resource_template(self, uri: str) -> None:
        """Let go of the resource, whichever way it was read: by its URI, or by templates that were expanded to it."""
        self._remove(Kind.RESOURCE, uri)
        for uri_template in list(self._templates.get(uri, ())):
            self._remove(Kind.TEMPLATE, uri_template)

    def clear_prompt(self, name: str) -> None:
        """Let go of the prompt."""
        self._remove(Kind.PROMPT, name)

    def clear_tool_call_result(self, tool_name: str) -> None:
        """Let go of the last call of the tool."""
        self._remove(Kind.TOOL, tool_name)

    def clear_all(self) -> None:
        """Let go of everything."""
        for kind, key in list(self._entries):
            self._remove(kind, key)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size(self) -> int:
        """Bytes of content, about."""
        return self._size

    def _get(self, kind: Kind, key: str) -> Invocation | None:
        place = kind, key
        entry = self._entries.get(place)
        if entry is None:
            return None
        # Most entries never expire: for them no clock is asked.
        if entry.expires != inf and self._has_expired(entry):
            self._remove(kind, key)
            return None
        self._entries.move_to_end(place)
        return entry.invocation

    def _has_expired(self, entry: _Entry) -> bool:
        uri = read_uri(entry.invocation)
        return self._clock() >= entry.expires and not (uri is not None and self._held(uri))

    def _remove(self, kind: Kind, key: str) -> None:
        if self._drop(kind, key):
            self._on_change(None, kind, key)

    def _drop(self, kind: Kind, key: str) -> bool:
        """Take an entry out, and say whether there was one."""
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
    """The cache as its client has it: to write as well.

    `held(uri)` says whether a subscription keeps the content of `uri` current. `clock` tells seconds from any origin,
    and never steps. `on_change` is told of each put and of each entry that goes, whatever the reason.
    """

    def put(self, invocation: Invocation, *, age: float = 0.0) -> None:
        """Keep `invocation` in place of what its key had, if the limits allow; older things go to make room.

        `age` is for how many seconds its content has been known already. `on_change` is told of the key in any case:
        of None if there is no room for it, or its time is over.
        """
        kind, key = place_of(invocation)
        entry = _Entry(invocation, weigh(invocation), self._expiry(invocation, age))
        self._drop(kind, key)
        if not self._fits(entry):
            self._on_change(None, kind, key)
            return
        self._make_room(entry.size)
        self._entries[kind, key] = entry
        self._size += entry.size
        if isinstance(invocation, TemplateRead):
            self._templates.setdefault(invocation.expanded_uri, set()).add(key)
        self._on_change(invocation, kind, key)

    def uris(self) -> set[str]:
        """The resources of which there is content, whichever way it was read."""
        return {key for kind, key in self._entries if kind is Kind.RESOURCE}.union(self._templates)

    def copies(self, uri: str) -> list[ResourceRead | TemplateRead]:
        """What there is of a resource, whichever way it was read."""
        found = [self.get_resource(uri), *map(self.get_resource_template, list(self._templates.get(uri, ())))]
        return [copy for copy in found if copy is not None]

    def _expiry(self, invocation: Invocation, age: float) -> float:
        if not isinstance(invocation, ResourceRead | TemplateRead) or invocation.result.ttl_ms <= 0:
            return inf
        # An age below zero would come of a wall clock that was put back.
        return self._clock() + lasts(invocation.result) - max(age, 0.0)

    def _fits(self, entry: _Entry) -> bool:
        return (
            self._limits.entries > 0
            and entry.size <= self._limits.size
            and (entry.expires == inf or not self._has_expired(entry))
        )

    def _make_room(self, size: int) -> None:
        while self._entries and (len(self._entries) >= self._limits.entries or self._size + size > self._limits.size):
            self._remove(*next(iter(self._entries)))


def lasts(result: ReadResourceResult) -> float:
    """For how many seconds the server says that this holds, within reason."""
    return min(result.ttl_ms, LONGEST_TTL * 1000) / 1000


def place_of(invocation: Invocation) -> tuple[Kind, str]:
    """The kind and key under which an invocation is kept."""
    match invocation:
        case ResourceRead():
            return Kind.RESOURCE, invocation.uri
        case TemplateRead():
            return Kind.TEMPLATE, invocation.uri_template
        case PromptGet():
            return Kind.PROMPT, invocation.name
        case ToolCall():
            return Kind.TOOL, invocation.tool_name


def read_uri(invocation: Invocation) -> str | None:
    """The URI whose content this is; None for prompts and tools."""
    match invocation:
        case ResourceRead():
            return invocation.uri
        case TemplateRead():
            return invocation.expanded_uri
        case _:
            return None
