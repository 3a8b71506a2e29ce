"""The mirrors of a server's four lists, and what their changes mean for the rest of the client."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mcp_types import Prompt, Resource, ResourceTemplate, ServerCapabilities, Tool

from tidings.changes import Change, Filter, PromptsListChanged, ResourcesListChanged, ToolsListChanged
from tidings.client.cache import ContentCache
from tidings.client.config import ListChanged
from tidings.client.events import Events, PromptsChanged, ResourcesChanged, ResourceTemplatesChanged, ToolsChanged
from tidings.client.mirrors import FetchPage, Malformed, Mirror
from tidings.client.pulse import Pulse
from tidings.errors import TidingsError


class Lists:
    """Tools, resources, resource templates and prompts."""

    def __init__(
        self,
        fetch: FetchPage,
        *,
        chosen: ListChanged,
        cache: ContentCache,
        events: Events,
        pulse: Pulse,
        max_pages: int,
        absorb_tools: Callable[[Sequence[Tool]], tuple[Tool, ...]],
    ) -> None:
        self._chosen = chosen
        self._cache = cache
        self._events = events
        self._pulse = pulse
        self._absorb_tools = absorb_tools
        self._capabilities = ServerCapabilities()
        options: Any = {"fetch": fetch, "pulse": pulse, "max_pages": max_pages}
        self.tools = Mirror("tools/list", "tools", Tool, loaded=self._tools_loaded, **options)
        self.resources = Mirror("resources/list", "resources", Resource, loaded=self._resources_loaded, **options)
        self.templates = Mirror(
            "resources/templates/list", "resourceTemplates", ResourceTemplate, loaded=self._templates_loaded, **options
        )
        self.prompts = Mirror("prompts/list", "prompts", Prompt, loaded=self._prompts_loaded, **options)

    def __iter__(self) -> Iterator[Mirror[Any]]:
        return iter((self.tools, self.resources, self.templates, self.prompts))

    def attach(self, capabilities: ServerCapabilities) -> None:
        """A server is connected that can do this: load what it will not tell of by itself."""
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
        """The lists whose changes are to be heard of."""
        can, anyway = self._capabilities, self._chosen.unadvertised
        return Filter(
            tools=self._has_tools and bool(anyway or (can.tools and can.tools.list_changed)),
            resources=self._has_resources and bool(anyway or (can.resources and can.resources.list_changed)),
            prompts=self._has_prompts and bool(anyway or (can.prompts and can.prompts.list_changed)),
        )

    def changed(self, change: Change) -> None:
        """The server says that a list changed, or it is not known whether it did."""
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
        """Whether one of them is being loaded."""
        return any(mirror.busy for mirror in self)

    async def first_loads(self) -> None:
        """Wait until each list that is mirrored was loaded once, or could not be."""
        mirrors: list[Mirror[Any]] = [
            *([self.tools] if self._has_tools else []),
            *([self.resources, self.templates] if self._has_resources else []),
            *([self.prompts] if self._has_prompts else []),
        ]
        await self._pulse.until(lambda: all(mirror.tried for mirror in mirrors))

    def _tools_loaded(self, mirror: Mirror[Tool], before: tuple[Tool, ...], error: TidingsError | None) -> None:
        if error is None:
            kept = self._absorb_tools(mirror.items)
            reason = "x-mcp-header: not valid, so the protocol forbids to call it"
            known = {id(tool) for tool in kept}
            mirror.malformed += tuple(Malformed(tool, reason) for tool in mirror.items if id(tool) not in known)
            mirror.items = kept
        self._events.emit(ToolsChanged(mirror.items, error))

    def _resources_loaded(
        self, mirror: Mirror[Resource], before: tuple[Resource, ...], error: TidingsError | None
    ) -> None:
        here = {str(resource.uri) for resource in mirror.items}
        for gone in {str(resource.uri) for resource in before} - here:
            self._cache.clear_resource(gone)
        self._events.emit(ResourcesChanged(mirror.items, error))

    def _templates_loaded(
        self, mirror: Mirror[ResourceTemplate], before: tuple[ResourceTemplate, ...], error: TidingsError | None
    ) -> None:
        here = {template.uri_template for template in mirror.items}
        for gone in {template.uri_template for template in before} - here:
            self._cache.clear_resource_template(gone)
        self._events.emit(ResourceTemplatesChanged(mirror.items, error))

    def _prompts_loaded(self, mirror: Mirror[Prompt], before: tuple[Prompt, ...], error: TidingsError | None) -> None:
        here = {prompt.name for prompt in mirror.items}
        for gone in {prompt.name for prompt in before} - here:
            self._cache.clear_prompt(gone)
        self._events.emit(PromptsChanged(mirror.items, error))

    def clear(self) -> None:
        """Forget all lists."""
        for mirror in self:
            mirror.clear()

    async def aclose(self) -> None:
        """Stop loading."""
        for mirror in self:
            await mirror.aclose()
