"""What a stock SDK client hears from a `LiveServer`: the same in each era and over each transport."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.client.sse import sse_client
from mcp.shared.exceptions import MCPError
from mcp_types import ServerCapabilities

from tests.server.hearing import LEGACY, MODERN, WAYS, Ear, Way, connected, hearing, stdio, web
from tests.server.sample import FENCE, LATER, STEPS, TODAY, build
from tidings import Cursor, PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged
from tidings.bus.sqlite import SqliteBus

pytestmark = [
    pytest.mark.anyio,
    # The SDK calls the legacy era's methods deprecated; they are what is tried here.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

LISTS = (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged())


@pytest.fixture(params=WAYS, ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    return request.param


# A stdio server is a process of its own, which takes long to start. Some tests start one only in the thorough tier.
few_processes = pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=pytest.mark.thorough) if way.transport == "stdio" else way for way in WAYS],
    ids=str,
)

# For what the transport has no part in: those with a process of their own, or many requests, take long.
quick_ways = pytest.mark.parametrize("way", [Way("memory", MODERN), Way("memory", LEGACY)], ids=str)


async def test_a_subscriber_hears_of_each_resource_it_subscribed_to_and_of_no_other(way: Way) -> None:
    async with hearing(way, build()) as ear:
        await ear.subscribe(TODAY, "city://oslo", FENCE)
        await ear.touch(TODAY, LATER, "city://rome", "city://oslo")
        await ear.fence()
        assert sorted(ear.changes, key=str) == [ResourceUpdated("city://oslo"), ResourceUpdated(TODAY)]


@quick_ways
async def test_a_prefix_hears_of_every_resource_under_it(way: Way) -> None:
    async with hearing(way, build()) as ear:
        await ear.subscribe("city://*", FENCE)
        await ear.touch("city://oslo", TODAY, "city://rome")
        await ear.fence()
        assert ear.changes == [ResourceUpdated("city://oslo"), ResourceUpdated("city://rome")]


@quick_ways
async def test_the_lists_are_told_when_the_server_says_that_they_changed(way: Way) -> None:
    async with hearing(way, build()) as ear:
        await ear.subscribe(FENCE)
        await ear.call("touch_lists")
        await ear.fence()
        assert sorted(ear.changes, key=str) == sorted(LISTS, key=str)


async def test_each_alteration_of_a_list_is_told_by_itself(way: Way) -> None:
    async with hearing(way, build()) as ear:
        await ear.subscribe(FENCE)
        for step in STEPS:
            ear.all.clear()
            await ear.call("alter", steps=[step])
            await ear.hears(_list_of(step))
            assert set(ear.changes) == {_list_of(step)}, step


@few_processes
async def test_alterations_at_once_are_told_as_one_for_each_list(way: Way) -> None:
    async with hearing(way, build()) as ear:
        await ear.subscribe(FENCE)
        await ear.call("alter", steps=list(STEPS))
        await ear.fence()
        assert sorted(ear.changes, key=str) == sorted(LISTS, key=str)


@quick_ways
async def test_what_is_disabled_is_off_its_list_and_comes_back(way: Way) -> None:
    async with hearing(way, build()) as ear:
        adding = ["add a tool", "add a prompt", "add a resource", "add a template"]
        everything = await _lists(ear)
        await ear.call("alter", steps=adding)
        more = await _lists(ear)
        assert all(before < after for before, after in zip(everything, more, strict=True))
        await ear.call("alter", steps=[step.replace("add", "disable") for step in adding])
        assert await _lists(ear) == everything
        await ear.call("alter", steps=[step.replace("add", "enable") for step in adding])
        assert await _lists(ear) == more
        await ear.call("alter", steps=[step.replace("add", "remove") for step in adding])
        assert await _lists(ear) == everything


@few_processes
async def test_the_server_says_beforehand_that_it_tells_of_all_this(way: Way) -> None:
    async with hearing(way, build()) as ear:
        if way.mode == LEGACY:
            capabilities = ear.client.server_capabilities
        else:
            discovered = await ear.client.session.send_discover(MODERN)
            capabilities = ServerCapabilities.model_validate(discovered["capabilities"])
        assert capabilities.tools is not None
        assert capabilities.tools.list_changed is True
        assert capabilities.prompts is not None
        assert capabilities.prompts.list_changed is True
        assert capabilities.resources is not None
        assert capabilities.resources.list_changed is True
        assert capabilities.resources.subscribe is True


async def test_after_an_unsubscribe_nothing_more_comes(way: Way) -> None:
    async with hearing(way, build()) as ear:
        await ear.subscribe(TODAY, LATER)
        await ear.unsubscribe(TODAY, LATER)
        ear.all.clear()
        await ear.subscribe(FENCE)
        await ear.touch(TODAY, LATER)
        await ear.fence()
        assert ear.changes == []
        assert FENCE in (counts := await ear.call("counts"))
        assert TODAY not in counts
        assert LATER not in counts


@quick_ways
async def test_the_same_subscription_twice_is_one(way: Way) -> None:
    async with hearing(way, build()) as ear:
        await ear.subscribe(TODAY, TODAY, FENCE)
        await ear.touch(TODAY)
        await ear.fence()
        assert ear.changes == [ResourceUpdated(TODAY)]
        assert (await ear.call("counts"))[TODAY] == 1


@few_processes
async def test_a_tool_publishes_with_the_sdks_own_context(way: Way) -> None:
    async with hearing(way, build()) as ear:
        await ear.subscribe(TODAY, FENCE)
        await ear.call("tell", uri=TODAY)
        await ear.fence()
        assert sorted(ear.changes, key=str) == sorted([ResourceUpdated(TODAY), *LISTS], key=str)


@pytest.mark.parametrize("way", [Way("memory", LEGACY), Way("http", MODERN), Way("stdio", MODERN)], ids=str)
async def test_a_thread_publishes(way: Way) -> None:
    async with hearing(way, build()) as ear:
        await ear.subscribe(TODAY, FENCE)
        await ear.call("touch_from_a_thread", uri=TODAY)
        await ear.hears(ResourceUpdated(TODAY))


@few_processes
async def test_many_updates_at_once_end_with_the_last_of_each(way: Way) -> None:
    uris = [f"city://{number}" for number in range(20)]
    async with hearing(way, build()) as ear:
        await ear.subscribe(*uris, FENCE)
        for _ in range(5):
            await ear.touch(*uris * 20)
        newest = await ear.call("newest", uris=uris)
        last = max(filter(None, map(Cursor.parse, newest.values())))
        # Whoever has this cursor has everything before it.
        await ear.until(lambda: bool(ear.all) and ear.all[-1].cursor == last)
        assert {heard.change.uri for heard in ear.all} >= set(uris)
        assert len(ear.all) < 20 * 20 * 5


async def test_one_publish_reaches_both_eras_and_all_transports_at_once(tmp_path: Any) -> None:
    path = str(tmp_path / "bus")
    async with _everywhere(build(bus=SqliteBus(path, poll=0.01)), path) as ears:
        for ear in ears:
            await ear.subscribe(TODAY)
        for publisher in ears:
            for ear in ears:
                ear.all.clear()
            await publisher.touch(TODAY)
            for ear in ears:
                await ear.hears(ResourceUpdated(TODAY))


@pytest.mark.parametrize("mode", [MODERN, LEGACY], ids=["modern", "legacy"])
async def test_an_app_that_answers_in_json_tells_all_the_same(mode: str) -> None:
    mcp = build()
    async with web(mcp.asgi(json_response=True)) as url, connected(url + "/mcp", mode) as ear:
        await ear.subscribe(TODAY)
        await ear.touch(TODAY)
        await ear.hears(ResourceUpdated(TODAY))


async def test_an_app_without_sessions_serves_modern_clients_and_promises_old_ones_nothing() -> None:
    mcp = build()
    async with web(mcp.asgi(stateless_http=True)) as url:
        async with connected(url + "/mcp", MODERN) as ear:
            await ear.subscribe(TODAY)
            await ear.touch(TODAY)
            await ear.hears(ResourceUpdated(TODAY))
        async with connected(url + "/mcp", LEGACY) as ear:
            resources = ear.client.server_capabilities.resources
            assert resources is not None
            assert (resources.subscribe, resources.list_changed) == (False, False)
            with pytest.raises(MCPError, match="Subscriptions need a session"):
                await ear.subscribe(TODAY)


async def test_the_modern_clients_iterator_yields_typed_events_and_ends_with_the_server() -> None:
    mcp = build()
    async with connected(mcp, MODERN) as ear:
        client = ear.client
        async with client.listen(tools_list_changed=True, resource_subscriptions=[TODAY]) as subscription:
            assert subscription.honored.tools_list_changed is True
            assert subscription.honored.prompts_list_changed is None
            assert subscription.honored.resource_subscriptions == [TODAY]
            await ear.touch(TODAY)
            assert await anext(subscription) == ResourceUpdated(TODAY)
            await ear.call("touch_lists")
            assert await anext(subscription) == ToolsListChanged()
            await mcp.notify.resource_updated(TODAY)
            await mcp.notify.resource_updated(TODAY)
            await mcp.aclose()
            with anyio.fail_after(5):
                # What was published before the end comes before the end, which is no error.
                assert [event async for event in subscription] == [ResourceUpdated(TODAY)]


@pytest.mark.parametrize("way", [way for way in WAYS if way.transport != "stdio"], ids=str)
async def test_a_client_that_leaves_is_forgotten_at_once(way: Way) -> None:
    mcp = build()
    async with hearing(way, mcp) as witness:
        await witness.subscribe(FENCE)
        others = len(mcp.notify.subscribers())
        async with connected(mcp, way.mode) as ear:
            await ear.subscribe(TODAY)
            assert len(mcp.notify.subscribers()) == others + 1
            assert mcp.notify.counts()[TODAY] == 1
        assert len(mcp.notify.subscribers()) == others
        assert TODAY not in mcp.notify.counts()


def _list_of(step: str) -> Any:
    match step.rsplit(" ", 1)[-1]:
        case "tool":
            return ToolsListChanged()
        case "prompt":
            return PromptsListChanged()
        case _:
            return ResourcesListChanged()


async def _lists(ear: Ear) -> list[set[str]]:
    client = ear.client
    return [
        {tool.name for tool in (await client.list_tools()).tools},
        {prompt.name for prompt in (await client.list_prompts()).prompts},
        {resource.uri for resource in (await client.list_resources()).resources},
        {template.uri_template for template in (await client.list_resource_templates()).resource_templates},
    ]


@asynccontextmanager
async def _everywhere(mcp: Any, path: str) -> AsyncGenerator[list[Ear]]:
    """A client for each way; those over stdio have a server process of their own, on the same bus."""
    async with web(mcp.streamable_http_app()) as http, web(mcp.sse_app()) as sse:
        targets = {"memory": lambda: mcp, "stdio": lambda: stdio(path), "http": lambda: http + "/mcp"}
        targets["sse"] = lambda: sse_client(sse + "/sse")
        async with AsyncExitStack() as stack:
            yield [await stack.enter_async_context(connected(targets[way.transport](), way.mode)) for way in WAYS]
