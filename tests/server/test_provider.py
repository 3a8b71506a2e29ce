"""Resources that a server finds when it is asked."""

from collections.abc import Sequence

import anyio
import pytest
from mcp.client import Client
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.shared.exceptions import MCPError
from mcp_types import Resource, ResourceTemplate

from tidings import LiveServer

pytestmark = pytest.mark.anyio

ERAS = ["auto", "legacy"]


class Shelf:
    """Five books, two on a page."""

    books = ("a", "b", "c", "d", "e")

    def owns(self, uri: str) -> bool:
        return uri.startswith("book://")

    def templates(self) -> Sequence[ResourceTemplate]:
        return [ResourceTemplate(uri_template="book://{title}", name="book")]

    async def page(self, cursor: str | None) -> tuple[Sequence[Resource], str | None]:
        if cursor is not None and cursor not in self.books:
            raise ValueError(f"There is no page after {cursor!r}")
        rest = [book for book in self.books if cursor is None or book > cursor]
        page = [Resource(uri=f"book://{book}", name=book) for book in rest[:2]]
        return page, rest[1] if len(rest) > 2 else None

    async def read(self, uri: str) -> Sequence[ReadResourceContents]:
        title = uri.removeprefix("book://")
        if title not in self.books:
            raise ResourceNotFoundError(f"There is no book {title!r}")
        return [ReadResourceContents(content=title.encode(), mime_type="application/x-book")]


def library() -> LiveServer:
    server = LiveServer("library")

    @server.resource("hours://today")
    def hours() -> str:
        return "9 to 5"

    @server.resource("shelf://{number}")
    def shelf(number: str) -> str:
        return number

    server.provide(Shelf())
    return server


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_registered_comes_first_and_then_the_pages_of_the_provider(era: str) -> None:
    async with Client(library(), mode=era) as client:
        pages = [await client.list_resources()]
        while pages[-1].next_cursor and len(pages) < 10:
            pages.append(await client.list_resources(cursor=pages[-1].next_cursor))
        names = [[str(resource.uri) for resource in page.resources] for page in pages]
        assert names == [["hours://today", "book://a", "book://b"], ["book://c", "book://d"], ["book://e"]]
        templates = [template.uri_template for template in (await client.list_resource_templates()).resource_templates]
        assert templates == ["shelf://{number}", "book://{title}"]


@pytest.mark.parametrize("era", ERAS)
async def test_both_kinds_are_read_and_what_is_missing_is_said_in_the_providers_words(era: str) -> None:
    async with Client(library(), mode=era) as client:
        assert (await client.read_resource("hours://today")).contents[0].text == "9 to 5"
        assert (await client.read_resource("shelf://7")).contents[0].text == "7"
        book = (await client.read_resource("book://c")).contents[0]
        assert (book.mime_type, book.blob) == ("application/x-book", "Yw==")
        with pytest.raises(MCPError, match="There is no book 'z'") as missing:
            await client.read_resource("book://z")
        code = -32002 if era == "legacy" else -32602
        assert (missing.value.code, missing.value.error.data) == (code, {"uri": "book://z"})
        with pytest.raises(MCPError, match="There is no page after 'z'"):
            await client.list_resources(cursor="z")


async def test_what_the_provider_owns_can_be_subscribed_to_though_it_is_not_there_yet() -> None:
    server = library()
    async with Client(server) as client, client.listen(resource_subscriptions=["book://z"]) as heard:
        with anyio.fail_after(5):
            await server.notify.resource_updated("book://z")
            async for event in heard:
                assert event.uri == "book://z"
                break


async def test_what_nobody_serves_cannot_be_subscribed_to() -> None:
    async with Client(library()) as client:
        with pytest.raises(MCPError, match="nothing://here"):
            async with client.listen(resource_subscriptions=["nothing://here"]):
                pass
