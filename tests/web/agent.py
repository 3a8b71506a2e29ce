"""An agent at a web server, for the tests of its tools and resources: a real client, and a site on loopback."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio
import pytest
from mcp import Client

from tests.web.fetch.servers import Page, Site, site, text
from tests.web.shelf import InThread
from tidings.web import wiring
from tidings.web.server import WebServer
from tidings.web.settings import Settings
from tidings.web.tools.results import DATA_KEY

ERAS = ["2026-07-28", "legacy"]


def html(*paragraphs: str, title: str = "News") -> Page:
    """A page that says this."""
    said = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    body = f"<html><head><title>{title}</title></head><body><main><h1>{title}</h1>{said}</main></body></html>"
    return text(body, content_type="text/html; charset=utf-8")


STORY = "The council met on Monday and decided, after a long debate, to build the bridge next to the old mill."


SIGNED = text(
    "<html><head><title>News</title><meta name=author content='Ann Miller'>"
    "<meta property='article:published_time' content='2026-01-02T10:00:00Z'></head>"
    f"<body><main><h1>News</h1><p>{STORY}</p></main></body></html>",
    content_type="text/html; charset=utf-8",
)
"""A page that says who wrote it, and when."""


class Telling(WebServer):
    """A server that can be waited for until it tells of something."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.told: list[tuple[tuple[str, ...], bool]] = []
        """What it told of: the URIs of resources that are different, and whether the list is."""
        self._pulse = anyio.Event()

    async def tells_of(self, uri: str | None = None, *, since: int = 0) -> None:
        """Wait until it has told that this is different, or, without a URI, the list."""
        with anyio.fail_after(20):
            while not any(uri in uris if uri else listed for uris, listed in self.told[since:]):
                await self._pulse.wait()

    async def _publish(self, uris: Sequence[str], listed: bool) -> None:
        await super()._publish(uris, listed)
        self.told.append((tuple(uris), listed))
        self._pulse.set()
        self._pulse = anyio.Event()


class ReadsHere(InThread):
    """Stands in for `ExtractionPool`, whose processes have tests of their own."""

    def __init__(self, **_: object) -> None:
        super().__init__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """There is nothing to end."""


class Agent:
    """Calls tools, and reads resources."""

    def __init__(self, server: Telling, client: Client, place: Site) -> None:
        self.server = server
        self.client = client
        self.site = place
        self.text: str = ""
        """What the last call said."""
        self.links: list[str] = []
        """What it linked to."""

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers, as data."""
        result: Any = await self.client.call_tool(tool, arguments)
        self.text = result.content[0].text
        self.links = [block.uri for block in result.content[1:]]
        assert not result.is_error, self.text
        data: dict[str, Any] | None = result.structured_content
        if data is None and result.meta:
            data = result.meta.get(DATA_KEY)
        assert data is not None
        return data

    async def refused(self, tool: str, **arguments: Any) -> str:
        """What a tool says that cannot do what it is asked."""
        result: Any = await self.client.call_tool(tool, arguments)
        assert result.is_error
        said: str = result.content[0].text
        assert "Traceback" not in said
        assert "Error executing tool" not in said
        assert "pydantic" not in said
        return said

    async def fetch(self, path: str = "/", **arguments: Any) -> dict[str, Any]:
        """A page of the site."""
        (page,) = (await self.call("fetch", urls=[self.site.url(path)], **arguments))["pages"]
        return page

    async def read(self, uri: str) -> str:
        content: Any
        (content,) = (await self.client.read_resource(uri)).contents
        return content.text


@asynccontextmanager
async def at(
    pages: Mapping[str, Page] | None = None,
    *,
    era: str = ERAS[0],
    client: Mapping[str, Any] | None = None,
    **settings: Any,
) -> AsyncGenerator[Agent]:
    """An agent at a server that may fetch from a site with these pages, and from nowhere else on this machine."""
    usual: dict[str, Any] = {"allow_private": ("127.0.0.0/8",), "requests_per_minute": 10_000, "retries": 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wiring, "ExtractionPool", ReadsHere)
        async with _at(pages or {"/": html(STORY)}, Settings(**(usual | settings)), era, client or {}) as agent:
            yield agent


@asynccontextmanager
async def _at(
    pages: Mapping[str, Page], settings: Settings, era: str, client: Mapping[str, Any]
) -> AsyncGenerator[Agent]:
    async with site(pages) as place:
        server = Telling(settings)
        async with Client(server, mode=era, cache=None, **client) as connected:
            yield Agent(server, connected, place)
