"""The server's four lists: all pages, kept current, and what their changes mean for the cache.

When the server announces that a list changed, it is loaded again, by a `Refresher`: one load at a time, and one more if
another announcement arrives meanwhile. A load that failed leaves the list as it was, and is announced with its error.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Final, Generic, Literal, TypeVar, cast

from mcp_types import INVALID_PARAMS, Prompt, Resource, ResourceTemplate, ServerCapabilities, Tool
from pydantic import BaseModel, ValidationError

from tidings._kit.backoff import Backoff
from tidings._kit.bounded_json import as_dict
from tidings._kit.tasks import Wakeup
from tidings.changes import FEATURES, Change, Filter, PromptsListChanged, ResourcesListChanged, ToolsListChanged
from tidings.client import events
from tidings.client.cache import ContentCache
from tidings.client.config import ClientConfig
from tidings.client.failures import FAULT
from tidings.client.watching import Refresher
from tidings.errors import Disconnected, MalformedMessage, RequestFailed, TidingsError

logger = logging.getLogger(__name__)

ItemT = TypeVar("ItemT", Tool, Resource, ResourceTemplate, Prompt)
# Sends the request for a page, and returns the answer.
FetchPage = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
_RETRIES: Final = Backoff((0.5, 2.0, 10.0, 60.0), jitter=0.5)


@dataclass(frozen=True, slots=True)
class Malformed:
    """An item of a list that breaks the protocol. It is set aside, and the rest of the list is used."""

    item: Any
    reason: str


_Pages = tuple[tuple[ItemT, ...], tuple[Mapping[str, Any], ...], tuple[Malformed, ...]]


@dataclass(eq=False, repr=False)
class Mirror(Generic[ItemT]):
    """One of the server's lists, as last loaded."""

    lists: "Lists"
    name: Literal["tools", "resources", "templates", "prompts"]
    kind: type[ItemT]
    event: Callable[[Any, TidingsError | None], events.Event]
    forget: Callable[[str], None] = lambda _: None  # Drops the content of an item that is gone.

    def __post_init__(self) -> None:
        is_templates = self.name == "templates"
        self.method = "resources/templates/list" if is_templates else f"{self.name}/list"
        self._key = "resourceTemplates" if is_templates else self.name
        self._answered = 0  # The number of the last `want` that a load followed.
        self._outcome: TidingsError | None = None
        self.items: tuple[ItemT, ...] = ()
        self.raw: tuple[Mapping[str, Any], ...] = ()  # As the server sent them: only while they are announced.
        self.malformed: tuple[Malformed, ...] = ()
        self.tried = False  # True if it was loaded, or failed to load, since the last `clear`.

    def changed(self) -> None:
        self.lists.loads.want(self.name)

    async def load(self) -> tuple[ItemT, ...]:
        """Loads the list, and returns it. Raises a `TidingsError` if that failed."""
        self.changed()
        loads = self.lists.loads
        asked = loads.wants
        await self.lists.wakeup.until(lambda: self._answered >= asked or not loads.is_stale(self.name))
        if self._answered < asked:
            raise Disconnected(f"The client was disconnected before {self.method} was done.", method=self.method)
        if self._outcome is not None:
            raise self._outcome
        return self.items

    async def read(self) -> None:
        """Loads the list once. Raises a `TidingsError` if it should be loaded again later."""
        asked, before, error = self.lists.loads.wants, self.items, None
        try:
            try:
                self.items, self.raw, self.malformed = await self._pages()
            except TidingsError as failure:
                # The list changed meanwhile, so that the cursor of a later page is no longer valid.
                if as_dict(failure.data).get("rpc_code") != INVALID_PARAMS:
                    raise
                self.items, self.raw, self.malformed = await self._pages()
        except TidingsError as failure:
            error = failure
        self._outcome, self._answered, self.tried = error, asked, True
        self.lists.loaded(self, before, error)
        self.raw = ()
        self.lists.wakeup()
        if error is not None and error.retryable:
            raise error

    async def _pages(self) -> "_Pages[ItemT]":
        items: list[ItemT] = []
        raw: list[Mapping[str, Any]] = []
        malformed: list[Malformed] = []
        seen: set[str] = set()
        params: dict[str, Any] = {}
        for _ in range(self.lists.config.max_pages):
            page = await self.lists.fetch(self.method, params)
            if not isinstance(told := page.get(self._key), list):
                text = f"The server's answer to {self.method} has no list of {self._key}. {FAULT}"
                raise MalformedMessage(text, method=self.method)
            for item in cast("list[Any]", told)[: self.lists.config.max_items - len(items)]:
                try:
                    items.append(cast("ItemT", cast("type[BaseModel]", self.kind).model_validate(item, by_name=False)))
                    raw.append(item)
                except ValidationError as error:
                    first = error.errors()[0]
                    reason = f"{'.'.join(map(str, first['loc'])) or 'item'}: {first['msg']}"
                    malformed.append(Malformed(item, reason))
            cursor: Any = page.get("nextCursor")
            if cursor is None or len(items) >= self.lists.config.max_items:
                return tuple(items), tuple(raw), tuple(malformed)
            if not isinstance(cursor, str) or cursor in seen:
                what = "repeats a cursor" if isinstance(cursor, str) else "has a cursor that is not a string"
                text = f"The server's {self.method} {what}, so it never ends. {FAULT}"
                raise MalformedMessage(text, method=self.method)
            seen.add(cursor)
            params = {"cursor": cursor}
        text = f"The server's {self.method} has more than {self.lists.config.max_pages} pages."
        raise RequestFailed(f"{text} If that is right, raise ClientConfig.max_pages.", method=self.method)

    def empty(self) -> None:
        """Empties the list, because the server does not offer it, and announces that."""
        self.lists.loads.forget(self.name)
        before, had = self.items, self.items or self.malformed
        self.items, self.malformed = (), ()
        if had:
            self.lists.loaded(self, before, None)

    def clear(self) -> None:
        self.items, self.malformed, self.tried = (), (), False


@dataclass(eq=False, repr=False)
class Lists:
    """Tools, resources, resource templates and prompts."""

    fetch: FetchPage
    config: ClientConfig
    cache: ContentCache
    events: events.EventHub
    wakeup: Wakeup
    _: KW_ONLY
    unlisted: Callable[[str], None]  # Called with the URI of each resource that is gone from the list.

    def __post_init__(self) -> None:
        self._absorb_tools: Callable[[Sequence[Tool]], tuple[Tool, ...]] = tuple
        self._capabilities = ServerCapabilities()
        self.loads = Refresher(self._load, failed=lambda _name, _error: None, wakeup=self.wakeup, retries=_RETRIES)
        mirror: Any = partial(Mirror, self)
        forget = self.cache.clear_resource_template
        self.tools: Mirror[Tool] = mirror("tools", Tool, events.ToolsChanged)
        self.resources: Mirror[Resource] = mirror("resources", Resource, events.ResourcesChanged, self.unlisted)
        self.templates: Mirror[ResourceTemplate] = mirror(
            "templates", ResourceTemplate, events.ResourceTemplatesChanged, forget
        )
        self.prompts: Mirror[Prompt] = mirror("prompts", Prompt, events.PromptsChanged, self.cache.clear_prompt)
        self._by_change: dict[Change, tuple[Mirror[Any], ...]] = {
            ToolsListChanged(): (self.tools,),
            ResourcesListChanged(): (self.resources, self.templates),
            PromptsListChanged(): (self.prompts,),
        }

    def __iter__(self) -> Iterator[Mirror[Any]]:
        return iter((self.tools, self.resources, self.templates, self.prompts))

    def attach(
        self, capabilities: ServerCapabilities, absorb_tools: Callable[[Sequence[Tool]], tuple[Tool, ...]]
    ) -> None:
        """Empties the lists that a server does not have, and loads those that it does not announce."""
        self._capabilities, self._absorb_tools = capabilities, absorb_tools
        offered, mirrored, announced = self._offered, self._mirrored, self.wanted
        for change, mirrors in self._by_change.items():
            for mirror in mirrors:
                if not offered.wants(change):
                    mirror.empty()
                elif mirrored.wants(change) and not announced.wants(change):
                    mirror.changed()

    @property
    def _offered(self) -> Filter:
        return Filter.of((), **{name: getattr(self._capabilities, name) is not None for name in FEATURES})

    @property
    def _mirrored(self) -> Filter:
        chosen, offered = self.config.list_changed, self._offered
        return Filter.of((), **{name: getattr(chosen, name) and getattr(offered, name) for name in FEATURES})

    @property
    def wanted(self) -> Filter:
        """The lists whose changes are subscribed to."""
        can, mirrored = self._capabilities, self._mirrored
        announced = {name: getattr(mirrored, name) and bool(getattr(can, name).list_changed) for name in FEATURES}
        return Filter.of((), **announced)

    def changed(self, change: Change) -> None:
        if self.wanted.wants(change):
            for mirror in self._by_change[change]:
                mirror.changed()

    def reload(self, what: Filter) -> None:
        for change in self._by_change:
            if what.wants(change):
                self.changed(change)

    async def _load(self, name: str) -> None:
        await next(mirror for mirror in self if mirror.name == name).read()

    async def first_loads(self, given_up: Callable[[], bool]) -> None:
        """Waits until each mirrored list was loaded once, or failed to load, or until `given_up`."""
        mirrored = self._mirrored
        waited = [each for change, mirrors in self._by_change.items() if mirrored.wants(change) for each in mirrors]
        await self.wakeup.until(lambda: given_up() or all(mirror.tried for mirror in waited))

    def loaded(self, mirror: Mirror[Any], before: tuple[Any, ...], error: TidingsError | None) -> None:
        if mirror is self.tools and error is None:
            self._keep_callable_tools()
        for gone in {_id(item) for item in before} - {_id(item) for item in mirror.items}:
            mirror.forget(gone)
        self.events.emit(mirror.event(mirror.items, error))
        self.events.emit(events.ListLoaded(mirror.name, mirror.raw, mirror.malformed, error))

    def _keep_callable_tools(self) -> None:
        mirror = self.tools
        kept = self._absorb_tools(mirror.items)
        reason = "x-mcp-header: not valid, so the protocol forbids calling it"
        known = {id(tool) for tool in kept}
        mirror.malformed += tuple(Malformed(tool, reason) for tool in mirror.items if id(tool) not in known)
        pairs = zip(mirror.items, mirror.raw, strict=True)
        mirror.raw = tuple(item for tool, item in pairs if id(tool) in known)
        mirror.items = kept

    def clear(self) -> None:
        for mirror in self:
            mirror.clear()


def _id(item: Tool | Resource | ResourceTemplate | Prompt) -> str:
    return item.uri if isinstance(item, Resource) else getattr(item, "uri_template", item.name)
