"""The lists of a server, mirrored: whole, current, and loaded no more often than need be."""

import asyncio
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from tests.client.library import ERAS, SECONDS, Library, connected, eventually, hear
from tidings import ResourceUpdated
from tidings.client import ClientConfig, ListChanged, Timeouts, connect
from tidings.client.events import PromptsChanged, ResourcesChanged, ResourceTemplatesChanged, ToolsChanged
from tidings.errors import Disconnected, RequestFailed, RequestTimedOut

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

BROKEN = MCPError(-32603, "The shelf fell down")


def names(items: Any) -> list[str]:
    return [getattr(item, "uri_template", None) or getattr(item, "uri", None) or item.name for item in items]


@ERAS
async def test_every_page_of_every_list_is_loaded(era: str) -> None:
    library = Library()
    async with connected(library, era) as client:
        assert names(client.tools) == library.tools
        assert names(client.resources) == library.resources
        assert names(client.resource_templates) == library.templates
        assert names(client.prompts) == library.prompts
        assert library.asked["tools/list"] == 3


@ERAS
async def test_a_cursor_that_is_not_valid_any_more_begins_the_list_anew(era: str) -> None:
    library = Library()
    async with connected(library, era) as client:
        page = library._page

        async def forget(ctx: Any, method: str, params: Any, items: Any) -> Any:
            if params and params.cursor and library.asked[method] < 6:
                library.asked[method] += 1
                raise MCPError(-32602, "No such cursor")
            return await page(ctx, method, params, items)

        library._page = forget  # type: ignore[method-assign]
        library.tools.insert(0, "t0")
        with anyio.fail_after(SECONDS):
            assert names(await client.list_tools()) == library.tools


@ERAS
async def test_a_list_that_was_not_loaded_in_time_is_loaded_later_by_itself(era: str) -> None:
    library = Library()
    config = ClientConfig(timeouts=Timeouts(request=0.3))
    async with connected(library, era, config=config) as client:
        told = hear(client, ToolsChanged)
        library.gates["tools/list"] = anyio.Event()
        library.tools.append("t6")
        await library.notify.tools_changed()
        await eventually(lambda: told)
        assert isinstance(told[0].error, RequestTimedOut)
        assert len(client.tools) == 5
        library.gates.clear()
        await eventually(lambda: len(client.tools) == 6)
        assert told[-1] == ToolsChanged(tuple(client.tools))


@ERAS
async def test_each_list_is_loaded_again_when_it_changed(era: str) -> None:
    library = Library()
    async with connected(library, era) as client:
        told = hear(client, ToolsChanged, ResourcesChanged, ResourceTemplatesChanged, PromptsChanged)
        library.tools.append("t6")
        await library.notify.tools_changed()
        await eventually(lambda: names(client.tools) == library.tools)
        assert told == [ToolsChanged(tuple(client.tools))]
        library.prompts.append("p6")
        await library.notify.prompts_changed()
        await eventually(lambda: names(client.prompts) == library.prompts)
        assert told[1:] == [PromptsChanged(tuple(client.prompts))]
        library.resources.append("note://6")
        library.templates.append("f://{x}")
        await library.notify.resources_changed()
        await eventually(lambda: len(told) == 4)
        assert told[2:] == [
            ResourcesChanged(tuple(client.resources)),
            ResourceTemplatesChanged(tuple(client.resource_templates)),
        ] or told[2:] == [
            ResourceTemplatesChanged(tuple(client.resource_templates)),
            ResourcesChanged(tuple(client.resources)),
        ]
        assert names(client.resources) == library.resources
        assert names(client.resource_templates) == library.templates


@ERAS
async def test_a_burst_costs_the_load_that_runs_and_one_after_it(era: str) -> None:
    library = Library()
    async with connected(library, era) as client:
        await client.subscribe("note://fence")
        fence = hear(client, ResourceUpdated)
        before = library.asked["tools/list"]
        gate = library.gates["tools/list"] = anyio.Event()
        await library.notify.tools_changed()
        await eventually(lambda: library.running["tools/list"])
        told = hear(client, ToolsChanged)
        for number in range(50):
            library.tools.append(f"more {number}")
            await library.notify.tools_changed()
        await library.write("note://fence", "told after the burst")
        await eventually(lambda: fence)
        del library.gates["tools/list"]
        gate.set()
        with anyio.fail_after(SECONDS):
            await client.wait_fresh()
        assert names(client.tools) == library.tools
        assert len(told) == 2
        assert library.most_running["tools/list"] == 1
        assert library.asked["tools/list"] - before == 28 + 28


@ERAS
async def test_a_change_that_is_told_as_a_load_ends_is_not_missed(era: str) -> None:
    library = Library()
    async with connected(library, era) as client:
        loop = asyncio.get_running_loop()
        told = hear(client, ToolsChanged)
        stop = client.on(ToolsChanged, lambda _: (stop(), loop.call_soon(client._lists.tools.changed)))
        await library.notify.tools_changed()
        await eventually(lambda: len(told) == 2)


@ERAS
async def test_a_list_that_was_turned_off_is_neither_loaded_nor_listened_for(era: str) -> None:
    library = Library()
    config = ClientConfig(list_changed=ListChanged(tools=False, prompts=False))
    async with connected(library, era, config=config) as client:
        told = hear(client, ToolsChanged, PromptsChanged, ResourcesChanged)
        assert (client.tools, client.prompts) == ([], [])
        await library.notify.tools_changed()
        await library.notify.prompts_changed()
        await library.notify.resources_changed()
        await eventually(lambda: told)
        with anyio.fail_after(SECONDS):
            await client.wait_fresh()
        assert told == [ResourcesChanged(tuple(client.resources))]
        assert (library.asked["tools/list"], library.asked["prompts/list"]) == (0, 0)
        if era == "auto":
            counts = library.notify.counts()
            assert (counts["tools"], counts["prompts"], counts["resources"]) == (0, 0, 1)
        with anyio.fail_after(SECONDS):
            assert names(await client.list_tools()) == library.tools
        assert names(client.tools) == library.tools


async def test_what_a_server_did_not_promise_to_tell_does_not_count() -> None:
    library = Library(is_live=False)
    async with connected(library, "legacy") as client:
        assert names(client.tools) == library.tools
        assert client.capabilities is not None
        assert client.capabilities.tools is not None
        assert not client.capabilities.tools.list_changed
        library.tools.append("t6")
        library.prompts.append("p6")
        await library.session.send_tool_list_changed()
        await library.session.send_prompt_list_changed()
        await library.session.send_ping()  # Answered after what was sent before it.
        await client.read_resource("note://1")
        assert (len(client.tools), len(client.prompts)) == (5, 5)


@ERAS
async def test_content_of_what_is_gone_is_dropped_and_of_what_is_there_kept(era: str) -> None:
    library = Library()
    async with connected(library, era) as client:
        with anyio.fail_after(SECONDS):
            kept, _ = await client.read_resource("note://1"), await client.read_resource("note://2")
            by_a = await client.read_resource_from_template("a://{x}", {"x": "1"})
            await client.read_resource_from_template("b://{x}", {"x": "1"})
            first, _ = await client.get_prompt("p1"), await client.get_prompt("p2")
            call = await client.call_tool("t1")
        library.resources.remove("note://2")
        library.templates.remove("b://{x}")
        library.prompts.remove("p2")
        library.tools.remove("t1")
        await library.notify.resources_changed()
        await library.notify.prompts_changed()
        await library.notify.tools_changed()
        await eventually(lambda: [len(client.tools), len(client.prompts), len(client.resource_templates)] == [4] * 3)
        await eventually(lambda: len(client.resources) == 4)
        cache = client.cache
        assert cache.get_resource("note://1") is kept
        assert cache.get_resource("note://2") is None
        assert cache.get_resource_template("a://{x}") is by_a
        assert cache.get_resource_template("b://{x}") is None
        assert cache.get_prompt("p1") is first
        assert cache.get_prompt("p2") is None
        assert cache.get_tool_call_result("t1") is call


@ERAS
async def test_a_reload_that_fails_is_told_with_its_error_and_leaves_the_list(era: str) -> None:
    library = Library()
    async with connected(library, era) as client:
        read = await client.read_resource("note://1")
        told = hear(client, ResourcesChanged)
        library.broken["resources/list"] = BROKEN
        await library.notify.resources_changed()
        await eventually(lambda: told)
        assert isinstance(told[0].error, RequestFailed)
        assert "The shelf fell down" in told[0].error.message
        assert names(told[0].resources) == names(client.resources) == library.resources
        assert client.cache.get_resource("note://1") is read
        with pytest.raises(RequestFailed, match="The shelf fell down"), anyio.fail_after(SECONDS):
            await client.list_resources()
        library.broken.clear()
        with anyio.fail_after(SECONDS):
            assert names(await client.list_resources()) == library.resources
        assert told[-1] == ResourcesChanged(tuple(client.resources))


@ERAS
async def test_a_server_whose_list_cannot_be_loaded_can_be_connected_to(era: str) -> None:
    library = Library()
    library.broken["tools/list"] = BROKEN
    client = connect(library.server, era=era)
    told = hear(client, ToolsChanged)
    with anyio.fail_after(SECONDS):
        await client.connect()
        assert names(client.prompts) == library.prompts
        assert isinstance(told[0].error, RequestFailed)
        await client.aclose()


@ERAS
async def test_whoever_waits_for_a_list_learns_of_a_disconnect(era: str) -> None:
    library = Library()
    async with connected(library, era) as client:
        library.gates["tools/list"] = anyio.Event()
        loading = asyncio.create_task(client.list_tools())
        await eventually(lambda: library.running["tools/list"])
        with anyio.fail_after(SECONDS):
            await client.disconnect()
            with pytest.raises(Disconnected):
                await loading
