"""The command palette: servers, tools, resources, templates and prompts by name."""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from tidings.inspector.tui.words import one_line

if TYPE_CHECKING:
    from tidings.inspector.tui.app import InspectorApp

MOST: Final = 50
"""The largest number of matches that are offered."""
PAUSE: Final = 500
"""The number of names after which other tasks get their turn."""

Thing = tuple[str, str, str, str]
"""A server's name, a tab, the key of the item, and its kind in words."""


class Everything(Provider):
    """Finds items of all servers for the command palette."""

    @property
    def _inspector(self) -> "InspectorApp":
        return cast("InspectorApp", self.app)

    def _things(self) -> Iterator[Thing]:
        for name, server in self._inspector.session.servers.items():
            view = server.view
            yield name, "live", "", "server"
            for tab, kind, items in (
                ("tools", "tool", view.tools),
                ("prompts", "prompt", view.prompts),
                ("resources", "template", view.templates),
                ("resources", "resource", view.resources),
            ):
                for key in items:
                    yield name, tab, key, kind

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        hits: list[Hit] = []
        for at, (name, tab, key, kind) in enumerate(self._things()):
            if at % PAUSE == PAUSE - 1:
                await asyncio.sleep(0)
            label = one_line(key or name)
            score = matcher.match(label)
            if score > 0:
                show = partial(self._inspector.choose, name, tab, key or None)
                where = kind if kind == "server" else f"{kind} of {one_line(name)}"
                hits.append(Hit(score, matcher.highlight(label), show, text=label, help=where))
        for hit in sorted(hits, key=lambda each: each.score, reverse=True)[:MOST]:
            yield hit

    async def discover(self) -> Hits:
        for name in self._inspector.session.servers:
            label = one_line(name)
            yield DiscoveryHit(label, partial(self._inspector.choose, name, "live"), help="server")
