"""What a live client does is the same with every server, over every transport, in both eras."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.client.library import SECONDS, eventually
from tests.client.peers import EVERYTHING, FAST
from tests.client.ways import KINDS, WAYS, Met, Way, environment, reached
from tests.server.serving import ROOT
from tidings import ResourceUpdated
from tidings.client import ClientConfig, Poll, connect
from tidings.client.events import (
    LogReceived,
    PendingAdded,
    ProgressMade,
    PromptContentChanged,
    ResourceContentChanged,
    ResourcesChanged,
    ResourceTemplateContentChanged,
    StateChanged,
    SubscriptionsChanged,
    ToolCallResultChanged,
)
from tidings.errors import NotConnected, NotSupported

pytestmark = [
    pytest.mark.anyio,
    # The SDK calls parts of the legacy era deprecated; they are what is tried here.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
    # The first use on a new machine waits for the installation of a server.
    pytest.mark.timeout(300),
]

CONFIG = ClientConfig(poll=Poll(interval=0.02, longest=0.02))


@pytest.fixture(scope="module", params=WAYS, ids=str)
async def met(request: pytest.FixtureRequest) -> AsyncGenerator[Met]:
    """One client for all that is tried on a way: it lives as long as a client does."""
    way: Way = request.param
    async with reached(way) as target:
        options: dict[str, Any] = {"env": environment(), "cwd": ROOT} if way.transport == "stdio" else {}
        client = connect(
            target, era=way.era, config=CONFIG, answer="ask", roots=["file:///srv"], log_level="debug", **options
        )
        told: list[Any] = []
        for kind in KINDS:
            client.on(kind, told.append)
        with anyio.fail_after(20):
            await client.connect()
        assert _steps(told) == ["disconnected connect connecting", "connecting handshake_complete connected"]
        try:
            yield Met(way, client, told)
        finally:
            await client.aclose()


def _steps(told: list[Any]) -> list[str]:
    return [f"{each.old} {each.signal} {each.new}" for each in told if isinstance(each, StateChanged)]


@pytest.fixture(autouse=True)
def afresh(met: Met) -> None:
    met.told.clear()


async def test_the_lists_are_there_once_it_is_connected(met: Met) -> None:
    client, peer = met.client, met.peer
    assert client.connected
    assert client.error is None
    assert client.protocol_version == met.way.version
    assert peer.tool in [tool.name for tool in client.tools]
    assert peer.uri in [resource.uri for resource in client.resources]
    assert peer.template in [template.uri_template for template in client.resource_templates]
    assert peer.prompt in [prompt.name for prompt in client.prompts]
    assert client.malformed == []
    with anyio.fail_after(SECONDS):
        assert await client.list_tools() == client.tools
        assert await client.list_resources() == client.resources
        assert await client.list_resource_templates() == client.resource_templates
        assert await client.list_prompts() == client.prompts
    assert met.heard(ResourcesChanged) == [ResourcesChanged(tuple(client.resources))]


async def test_a_read_is_cached_and_told_and_replaced_by_the_next(met: Met) -> None:
    client, uri = met.client, met.peer.uri
    with anyio.fail_after(SECONDS):
        first = await client.read_resource(uri, {"dev.example/reason": "a test"})
        assert client.cache.get_resource(uri) is first
        second = await client.read_resource(uri)
    assert client.cache.get_resource(uri) is second is not first
    assert met.heard(ResourceContentChanged) == [
        ResourceContentChanged(uri, first),
        ResourceContentChanged(uri, second),
    ]
    assert (first.uri, first.metadata, second.metadata) == (uri, {"dev.example/reason": "a test"}, None)
    assert first.text == second.text != ""
    assert first.timestamp <= second.timestamp


async def test_a_template_is_filled_in_and_read_and_cached_by_its_own_name(met: Met) -> None:
    client, peer = met.client, met.peer
    with anyio.fail_after(SECONDS):
        filled = await client.read_resource_from_template(peer.template, peer.params)
    assert client.cache.get_resource_template(peer.template) is filled
    assert met.heard(ResourceTemplateContentChanged) == [ResourceTemplateContentChanged(peer.template, filled)]
    assert (filled.uri_template, filled.expanded_uri, filled.params) == (peer.template, peer.expanded, peer.params)
    read = client.cache.get_resource(peer.expanded)
    assert read is not None
    assert read.result is filled.result
    assert filled.text != ""


async def test_a_prompt_is_cached_and_told_and_replaced_by_the_next(met: Met) -> None:
    client, peer = met.client, met.peer
    with anyio.fail_after(SECONDS):
        first = await client.get_prompt(peer.prompt, peer.question)
        assert client.cache.get_prompt(peer.prompt) is first
        second = await client.get_prompt(peer.prompt, dict.fromkeys(peer.question, 7))
    assert client.cache.get_prompt(peer.prompt) is second
    assert met.heard(PromptContentChanged) == [
        PromptContentChanged(peer.prompt, first),
        PromptContentChanged(peer.prompt, second),
    ]
    assert first.params == peer.question
    assert second.params == dict.fromkeys(peer.question, "7")
    assert first.result.messages != second.result.messages


async def test_a_tool_call_is_cached_and_told_and_replaced_by_the_next(met: Met) -> None:
    client, name = met.client, met.peer.tool
    calls = []
    for arguments in met.peer.words:
        with anyio.fail_after(SECONDS):
            calls.append(await client.call_tool(name, arguments))
        assert client.cache.get_tool_call_result(name) is calls[-1]
    assert met.heard(ToolCallResultChanged) == [ToolCallResultChanged(name, call) for call in calls]
    assert [call.params for call in calls] == list(met.peer.words)
    assert [call.success for call in calls] == [True, True]
    assert "one" in str(calls[0].result)
    assert "two" in str(calls[1].result)


async def test_an_update_drops_the_content_before_it_is_told(met: Met) -> None:
    client, peer = met.client, met.peer
    if not met.way.subscribes:
        assert not client.supports_subscriptions
        with anyio.fail_after(SECONDS), pytest.raises(NotSupported, match="Use `watch`, which polls"):
            await client.subscribe(peer.expanded)
        assert client.subscriptions == []
        return
    assert client.supports_subscriptions
    cached: list[Any] = []

    def look(event: ResourceUpdated) -> None:
        cached.extend([client.cache.get_resource(event.uri), client.cache.get_resource_template(peer.template)])

    stop = client.on(ResourceUpdated, look)
    client.cache.clear_all()
    with anyio.fail_after(SECONDS):
        await client.subscribe(peer.expanded)
        assert client.subscriptions == [peer.expanded]
        assert client.is_subscribed(peer.expanded)
        await client.read_resource_from_template(peer.template, peer.params)
        assert client.cache.get_resource(peer.expanded) is not None
        await peer.change(client, peer.expanded)
        await eventually(lambda: met.heard(ResourceUpdated))
        assert met.heard(ResourceUpdated)[0] == ResourceUpdated(peer.expanded)
        assert cached[:2] == [None, None]
        await client.unsubscribe(peer.expanded)
        assert met.heard(SubscriptionsChanged) == [SubscriptionsChanged((peer.expanded,)), SubscriptionsChanged(())]
        assert not client.is_subscribed(peer.expanded)
        met.told.clear()
        await peer.change(client, peer.expanded)
        await client.read_resource(peer.expanded)
    stop()
    assert met.heard(ResourceUpdated) == []


async def test_a_watch_gives_the_content_now_and_each_new_content(met: Met) -> None:
    client, peer = met.client, met.peer
    async with aclosing(client.watch(peer.expanded)) as reads:
        with anyio.fail_after(SECONDS):
            first = await anext(reads)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_change_until_cancelled, met)  # What others wrote changes once in a second.
                second = await anext(reads)
                tasks.cancel_scope.cancel()
    assert first.text != second.text
    assert second.timestamp > first.timestamp


async def _change_until_cancelled(met: Met) -> None:
    while True:
        await met.peer.change(met.client, met.peer.expanded)
        await checkpoint()  # In memory nothing else may wait.


async def test_a_list_is_loaded_again_where_the_server_tells_that_it_changed(met: Met) -> None:
    client = met.client
    with anyio.fail_after(SECONDS):
        uri = await met.peer.grow(client, "more")
        if met.way.tells_lists:
            await eventually(lambda: uri in [resource.uri for resource in client.resources])
            assert met.heard(ResourcesChanged)[-1] == ResourcesChanged(tuple(client.resources))
        else:
            assert uri in [resource.uri for resource in await client.list_resources()]


async def test_progress_is_told_to_the_caller_and_as_events(met: Met) -> None:
    client = met.client
    if met.way.peer is FAST and (met.way.transport, met.way.era) == ("memory", "auto"):
        pytest.skip("FastMCP sends no progress in memory in the modern era")
    name, arguments = met.peer.walk
    steps: list[Any] = []
    with anyio.fail_after(SECONDS):
        await client.call_tool(name, arguments, on_progress=lambda *step: steps.append(step[:2]))
        await eventually(lambda: len(steps) == 3)
    assert sorted(steps) == [(1, 3), (2, 3), (3, 3)]
    told = met.heard(ProgressMade)
    assert sorted((event.progress, event.total) for event in told) == sorted(steps)
    assert {event.entry.params["name"] for event in told} == {name}


async def test_progress_of_a_read_and_of_a_prompt_is_told_as_events(met: Met) -> None:
    client = met.client
    if met.peer.road is None or (met.peer is FAST and (met.way.transport, met.way.era) == ("memory", "auto")):
        pytest.skip("it tells of no progress but that of tools, or, in memory in the modern era, of none")
    uri, prompt = met.peer.road
    with anyio.fail_after(SECONDS):
        assert (await client.read_resource(uri)).text == "there"
        assert (await client.get_prompt(prompt, {"steps": 3})).result.messages
        await eventually(lambda: len(met.heard(ProgressMade)) == 6)
    told = [(event.entry.method, event.progress, event.total) for event in met.heard(ProgressMade)]
    steps = [(1, 3), (2, 3), (3, 3)]
    assert sorted(told) == [(method, *step) for method in ("prompts/get", "resources/read") for step in steps]


async def test_a_log_message_is_told(met: Met) -> None:
    with anyio.fail_after(SECONDS):
        await met.client.call_tool(met.peer.log)
        await eventually(lambda: met.heard(LogReceived))
        if met.peer is EVERYTHING:
            await met.client.call_tool(met.peer.log)  # Off again.
            return
    (event,) = met.heard(LogReceived)
    assert event.level == "warning"
    assert event.logger == "weather"
    assert "It rains" in str(event.data)


async def test_what_the_server_asks_waits_for_an_answer_and_its_result_is_not_cached(met: Met) -> None:
    client, peer = met.client, met.peer
    asked: list[Any] = []

    def answer(event: PendingAdded) -> None:
        request = event.request
        if request.kind != "roots":
            assert request in client.pending
            asked.append(request)
            client.pending.resolve(request.id, {"name": "Ada"} if request.kind == "elicitation" else "Paris")

    stop = client.on(PendingAdded, answer)
    with anyio.fail_after(SECONDS):
        call = await client.call_tool(peer.form)
        assert "Ada" in str(call.result)
        assert [request.kind for request in asked] == ["elicitation"]
        assert client.cache.get_tool_call_result(peer.form) is None
        if peer.sample is not None:
            name, arguments = peer.sample
            assert "Paris" in str((await client.call_tool(name, arguments)).result)
            assert [request.kind for request in asked] == ["elicitation", "sampling"]
            assert "The capital of France?" in asked[1].message
            assert client.cache.get_tool_call_result(name) is None
        if peer.roots is not None:
            assert "file:///srv" in str((await client.call_tool(peer.roots)).result)
    stop()
    assert len(client.pending) == 0
    assert met.heard(ToolCallResultChanged)[0] == ToolCallResultChanged(peer.form, call)


async def test_a_disconnect_is_told_state_by_state_and_keeps_nothing(met: Met) -> None:
    client, peer = met.client, met.peer
    with anyio.fail_after(SECONDS):
        await client.read_resource(peer.uri)
        if met.way.subscribes:
            await client.subscribe(peer.uri)
        met.told.clear()
        await client.disconnect()
    assert (len(client.cache), client.subscriptions) == (0, [])
    assert (client.tools, client.resources, client.resource_templates, client.prompts) == ([], [], [], [])
    with pytest.raises(NotConnected):
        await client.read_resource(peer.uri)
    steps = ["connected disconnect disconnecting", "disconnecting cleanup_complete disconnected"]
    assert _steps(met.told) == steps
    if met.way.transport == "stdio":
        return  # To start the program once more takes long.
    with anyio.fail_after(SECONDS):
        await client.connect()
    assert peer.uri in [resource.uri for resource in client.resources]
    steps += ["disconnected connect connecting", "connecting handshake_complete connected"]
    assert _steps(met.told) == steps
