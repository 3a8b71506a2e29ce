"""The server's four lists: all pages, kept current, and what their changes mean for the cache.

When the server announces that a list changed, it is loaded again: one load at a time, and one more if another
announcement arrives meanwhile. A load that failed leaves the list as it was, and is announced with its error.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar, cast

from mcp_types import Prompt, Resource, ResourceTemplate, ServerCapabilities, Tool
from pydantic import BaseModel, ValidationError

from tidings._kit.backoff import Pauses
from tidings._kit.bounded_json import as_dict
from tidings._kit.tasks import Wakeup
from tidings.changes import Change, Filter, PromptsListChanged, ResourcesListChanged, ToolsListChanged
from tidings.client.cache import ContentCache
from tidings.client.config import ListChanged
from tidings.client.events import (
    EventHub,
    ListLoaded,
    PromptsChanged,
    ResourcesChanged,
    ResourceTemplatesChanged,
    ToolsChanged,
)
from tidings.errors import Disconnected, MalformedMessage, RequestFailed, TidingsError

logger = logging.getLogger(__name__)

ItemT = TypeVar("ItemT", Tool, Resource, ResourceTemplate, Prompt)
FetchPage = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends the request for a page, and returns the answer."""

_INVALID_PARAMS: Final = -32602
_RETRY_DELAYS: Final = (0.5, 2.0, 10.0, 60.0)


@dataclass(frozen=True, slots=True)
class Malformed:
    """An item of a list that breaks the protocol. It is kept apart, and the rest of the list is used."""

    item: Any
    reason: str


_Pages = tuple[tuple[ItemT, ...], tuple[Mapping[str, Any], ...], tuple[Malformed, ...]]


class Mirror(Generic[ItemT]):
    """One of the server's lists, as last loaded."""

    def __init__(
        self,
        method: str,
        key: str,
        kind: type[ItemT],
        *,
        fetch: FetchPage,
        loaded: "Callable[[Mirror[ItemT], tuple[ItemT, ...], TidingsError | None], None]",
        wakeup: Wakeup,
        max_pages: int,
    ) -> None:
        self._method = method
        self._key = key
        self._kind = kind
        self._fetch = fetch
        self._loaded = loaded
        self._wakeup = wakeup
        self._max_pages = max_pages
        self._asked = 0
        self._answered = 0
        self._outcome: TidingsError | None = None
        self._pauses = Pauses(_RETRY_DELAYS)
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.items: tuple[ItemT, ...] = ()
        self.raw: tuple[Mapping[str, Any], ...] = ()
        """The items as the server sent them: only while `loaded` runs."""
        self.malformed: tuple[Malformed, ...] = ()
        self.tried = False
        """True if it was loaded, or failed to load, since the last `clear`."""

    def changed(self) -> None:
        """Loads it again, soon."""
        self._asked += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is None:
            self._start()

    def _start(self) -> None:
        self._task = asyncio.create_task(self._load())
        self._task.add_done_callback(self._done)

    async def load(self) -> tuple[ItemT, ...]:
        """Loads the list, and returns it. Raises a `TidingsError` if that failed."""
        self.changed()
        asked = self._asked
        await self._wakeup.until(lambda: self._answered >= asked or self._task is None)
        if self._answered < asked:
            raise Disconnected(f"The client was disconnected before {self._method} was done.", method=self._method)
        if self._outcome is not None:
            raise self._outcome
        return self.items

    @property
    def busy(self) -> bool:
        """True if it is being loaded, or waits for that."""
        return self._task is not None or self._timer is not None

    async def _load(self) -> None:
        while self._answered < self._asked:
            asked = self._asked
            before, error = self.items, None
            try:
                self.items, self.raw, self.malformed = await self._pages()
                self._pauses.reset()
            except TidingsError as failure:
                error = failure
            self._outcome, self._answered, self.tried = error, asked, True
            self._loaded(self, before, error)
            self.raw = ()
            self._wakeup()
        if self._outcome is not None and self._outcome.retryable:
            self._timer = asyncio.get_running_loop().call_later(self._pauses.next(), self._again)

    def _again(self) -> None:
        self._timer = None
        self.changed()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("loading %s failed", self._method, exc_info=error)
        elif not task.cancelled() and self._answered < self._asked:
            self._start()  # It changed after the last load, and before this.
        self._wakeup()

    async def _pages(self) -> "_Pages[ItemT]":
        try:
            return await self._all_pages()
        except TidingsError as error:
            # The list changed meanwhile, so that the cursor of a later page is no longer valid.
            if as_dict(error.data).get("rpc_code") != _INVALID_PARAMS:
                raise
            return await self._all_pages()

    async def _all_pages(self) -> "_Pages[ItemT]":
        items: list[ItemT] = []
        raw: list[Mapping[str, Any]] = []
        malformed: list[Malformed] = []
        seen: set[str] = set()
        params: dict[str, Any] = {}
        for _ in range(self._max_pages):
            page = await self._fetch(self._method, params)
            self._read(page, items, raw, malformed)
            cursor: Any = page.get("nextCursor")
            if cursor is None:
                return tuple(items), tuple(raw), tuple(malformed)
            if not isinstance(cursor, str) or cursor in seen:
                what = "repeats a cursor" if isinstance(cursor, str) else "has a cursor that is not a text"
                raise MalformedMessage(
                    f"The server's {self._method} {what}, so it never ends. This is a fault of the server.",
                    method=self._method,
                )
            seen.add(cursor)
            params = {"cursor": cursor}
        raise RequestFailed(
            f"The server's {self._method} has more than {self._max_pages} pages. If that is right, raise "
            "ClientConfig.max_pages.",
            method=self._method,
        )

    def _read(
        self,
        page: Mapping[str, Any],
        items: list[ItemT],
        raw: list[Mapping[str, Any]],
        malformed: list[Malformed],
    ) -> None:
        told: Any = page.get(self._key)
        if not isinstance(told, list):
            raise MalformedMessage(
                f"The server's answer to {self._method} has no list of {self._key}. This is a fault of the server.",
                method=self._method,
            )
        model = cast("type[BaseModel]", self._kind)
        for item in cast("list[Any]", told):
            try:
                items.append(cast("ItemT", model.model_validate(item, by_name=False)))
                raw.append(item)
            except ValidationError as error:
                first = error.errors()[0]
                reason = f"{'.'.join(map(str, first['loc'])) or 'item'}: {first['msg']}"
                malformed.append(Malformed(item, reason))

    def clear(self) -> None:
        """Empties the list."""
        self.items, self.malformed, self.tried = (), (), False

    async def aclose(self) -> None:
        """Stops loading."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if (task := self._task) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class Lists:
    """Tools, resources, resource templates and prompts."""

    def __init__(
        self,
        fetch: FetchPage,
        *,
        chosen: ListChanged,
        cache: ContentCache,
        events: EventHub,
        wakeup: Wakeup,
        max_pages: int,
        absorb_tools: Callable[[Sequence[Tool]], tuple[Tool, ...]],
    ) -> None:
        self._chosen = chosen
        self._cache = cache
        self._events = events
        self._wakeup = wakeup
        self._absorb_tools = absorb_tools
        self._capabilities = ServerCapabilities()
        options: Any = {"fetch": fetch, "wakeup": wakeup, "max_pages": max_pages}
        self.tools = Mirror("tools/list", "tools", Tool, loaded=self._tools_loaded, **options)
        self.resources = Mirror("resources/list", "resources", Resource, loaded=self._resources_loaded, **options)
        self.templates = Mirror(
            "resources/templates/list", "resourceTemplates", ResourceTemplate, loaded=self._templates_loaded, **options
        )
        self.prompts = Mirror("prompts/list", "prompts", Prompt, loaded=self._prompts_loaded, **options)

    def __iter__(self) -> Iterator[Mirror[Any]]:
        return iter((self.tools, self.resources, self.templates, self.prompts))

    def attach(self, capabilities: ServerCapabilities) -> None:
        """Loads the lists of a newly connected server whose changes it does not announce."""
        self._capabilities = capabilities
        told = self.wanted
        for change, mirrored, is_told in (
            (ToolsListChanged(), self._has_tools, told.tools),
            (ResourcesListChanged(), self._has_resources, told.resources),
            (PromptsListChanged(), self._has_prompts, told.prompts),
        ):
            if mirrored and not is_told:
                self._reload(change)

    @property
    def _has_tools(self) -> bool:
        return self._chosen.tools and self._capabilities.tools is not None

    @property
    def _has_resources(self) -> bool:
        return self._chosen.resources and self._capabilities.resources is not None

    @property
    def _has_prompts(self) -> bool:
        return self._chosen.prompts and self._capabilities.prompts is not None

    @property
    def wanted(self) -> Filter:
        """The lists whose changes are subscribed to."""
        can, anyway = self._capabilities, self._chosen.unadvertised
        return Filter(
            tools=self._has_tools and bool(anyway or (can.tools and can.tools.list_changed)),
            resources=self._has_resources and bool(anyway or (can.resources and can.resources.list_changed)),
            prompts=self._has_prompts and bool(anyway or (can.prompts and can.prompts.list_changed)),
        )

    def changed(self, change: Change) -> None:
        """Loads a list again that changed, or may have."""
        if self.wanted.wants(change):
            self._reload(change)

    def _reload(self, change: Change) -> None:
        match change:
            case ToolsListChanged():
                self.tools.changed()
            case PromptsListChanged():
                self.prompts.changed()
            case _:
                self.resources.changed()
                self.templates.changed()

    @property
    def busy(self) -> bool:
        """True if one of the lists is being loaded."""
        return any(mirror.busy for mirror in self)

    async def first_loads(self) -> None:
        """Waits until each mirrored list was loaded once, or failed to load."""
        mirrors: list[Mirror[Any]] = [
            *([self.tools] if self._has_tools else []),
            *([self.resources, self.templates] if self._has_resources else []),
            *([self.prompts] if self._has_prompts else []),
        ]
        await self._wakeup.until(lambda: all(mirror.tried for mirror in mirrors))

    def _tools_loaded(self, mirror: Mirror[Tool], before: tuple[Tool, ...], error: TidingsError | None) -> None:
        if error is None:
            kept = self._absorb_tools(mirror.items)
            reason = "x-mcp-header: not valid, so the protocol forbids calling it"
            known = {id(tool) for tool in kept}
            mirror.malformed += tuple(Malformed(tool, reason) for tool in mirror.items if id(tool) not in known)
            pairs = zip(mirror.items, mirror.raw, strict=True)
            mirror.raw = tuple(item for tool, item in pairs if id(tool) in known)
            mirror.items = kept
        self._events.emit(ToolsChanged(mirror.items, error))
        self._emit_raw("tools", mirror, error)

    def _resources_loaded(
        self, mirror: Mirror[Resource], before: tuple[Resource, ...], error: TidingsError | None
    ) -> None:
        here = {str(resource.uri) for resource in mirror.items}
        for gone in {str(resource.uri) for resource in before} - here:
            self._cache.clear_resource(gone)
        self._events.emit(ResourcesChanged(mirror.items, error))
        self._emit_raw("resources", mirror, error)

    def _templates_loaded(
        self, mirror: Mirror[ResourceTemplate], before: tuple[ResourceTemplate, ...], error: TidingsError | None
    ) -> None:
        here = {template.uri_template for template in mirror.items}
        for gone in {template.uri_template for template in before} - here:
            self._cache.clear_resource_template(gone)
        self._events.emit(ResourceTemplatesChanged(mirror.items, error))
        self._emit_raw("templates", mirror, error)

    def _prompts_loaded(self, mirror: Mirror[Prompt], before: tuple[Prompt, ...], error: TidingsError | None) -> None:
        here = {prompt.name for prompt in mirror.items}
        for gone in {prompt.name for prompt in before} - here:
            self._cache.clear_prompt(gone)
        self._events.emit(PromptsChanged(mirror.items, error))
        self._emit_raw("prompts", mirror, error)

    def _emit_raw(
        self,
        name: Literal["tools", "resources", "templates", "prompts"],
        mirror: Mirror[Any],
        error: TidingsError | None,
    ) -> None:
        if self._events.wanted(ListLoaded):
            self._events.emit(ListLoaded(name, mirror.raw, mirror.malformed, error))

    def clear(self) -> None:
        """Empties all lists."""
        for mirror in self:
            mirror.clear()

    async def aclose(self) -> None:
        """Stops loading."""
        for mirror in self:
            await mirror.aclose()
