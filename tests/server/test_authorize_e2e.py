"""Authorisation over real clients: a subscription is authorised like a read, and nobody is named what is not theirs."""

from collections.abc import Callable
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.server.hearing import LEGACY, MODERN, Ear, Way, connected, hearing, listening
from tests.server.sample import FENCE, LATER, TODAY, build
from tidings import ResourceUpdated

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

WAYS = [Way("memory", MODERN), Way("memory", LEGACY), Way("http", MODERN), Way("http", LEGACY), Way("sse", LEGACY)]
OSLO, ROME = "city://oslo", "city://rome"


@pytest.fixture(params=WAYS, ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    return request.param


def says(_: Any, uri: str) -> bool:
    return "rome" not in uri


async def says_later(ctx: Any, uri: str) -> bool:
    return says(ctx, uri)


def raises(ctx: Any, uri: str) -> bool:
    if not says(ctx, uri):
        raise RuntimeError("the book of permissions is lost")
    return True


async def raises_later(ctx: Any, uri: str) -> bool:
    return raises(ctx, uri)


@pytest.fixture(params=[says, says_later, raises, raises_later], ids=lambda function: function.__name__)
def authorize(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return request.param


@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_what_is_refused_is_left_out_of_the_acknowledgment(transport: str, authorize: Any) -> None:
    mcp = build(authorize=authorize)
    async with hearing(Way(transport, MODERN), mcp) as ear, listening(ear, OSLO, ROME, FENCE, lists=True) as listen:
        assert listen.honoured.resource_subscriptions == [OSLO, FENCE]
        assert listen.honoured.tools_list_changed is True
        assert ROME not in mcp.notify.counts()
        await ear.touch(ROME, OSLO)
        await ear.fence()
        assert listen.changes == [ResourceUpdated(OSLO)]


@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_what_is_refused_looks_in_the_old_era_as_if_it_were_not_there(transport: str, authorize: Any) -> None:
    mcp = build(authorize=authorize)
    async with hearing(Way(transport, LEGACY), mcp) as ear:
        await ear.subscribe(OSLO, FENCE)
        refused, missing = await _refusal(ear, ROME), await _refusal(ear, "nowhere://rome")
        assert refused.code == missing.code == -32002
        assert refused.message == missing.message.replace("nowhere://rome", ROME)
        assert _without_uri(refused.data) == _without_uri(missing.data)
        assert ROME not in mcp.notify.counts()
        await ear.touch(ROME, OSLO)
        await ear.fence()
        assert ear.changes == [ResourceUpdated(OSLO)]


async def test_a_prefix_never_names_what_is_refused(way: Way) -> None:
    mcp = build(authorize=says)
    async with hearing(way, mcp) as ear:
        await ear.subscribe("city://*", FENCE)
        for _ in range(3):
            await ear.touch(ROME, OSLO, "city://rome/forum", ROME)
        await ear.fence()
        assert set(ear.changes) == {ResourceUpdated(OSLO)}


async def test_a_replay_never_names_what_is_refused() -> None:
    mcp = build(authorize=says)
    async with connected(mcp, MODERN) as ear:
        async with listening(ear, "city://*") as first:
            pass
        await ear.touch(ROME, OSLO)
        async with listening(ear, "city://*", FENCE, since=first.last) as second:
            assert second.recovered is True
            await ear.fence()
            assert second.changes == [ResourceUpdated(OSLO)]


async def test_a_prefix_that_is_refused_is_not_subscribed(way: Way) -> None:
    mcp = build(authorize=lambda _, uri: not uri.endswith("*"))
    async with hearing(way, mcp) as ear:
        if way.mode == LEGACY:
            assert (await _refusal(ear, "city://*")).code == -32002
            await ear.subscribe(FENCE)
        else:
            await ear.subscribe("city://*", FENCE)
        assert "city://*" not in mcp.notify.counts()
        await ear.touch(OSLO)
        await ear.fence()
        assert ear.changes == []


async def test_authorize_is_asked_with_the_request_it_is_about() -> None:
    asked: list[tuple[str, str | None, str]] = []

    def authorize(ctx: Any, uri: str) -> bool:
        asked.append((ctx.method, ctx.request and ctx.request.url.path, uri))
        return True

    mcp = build(authorize=authorize)
    async with connected(mcp, LEGACY) as ear:
        await ear.subscribe(TODAY)
    async with hearing(Way("http", MODERN), mcp) as ear:
        await ear.subscribe(LATER)
    assert asked == [("resources/subscribe", None, TODAY), ("subscriptions/listen", "/mcp", LATER)]


async def test_only_what_is_subscribable_can_be_subscribed_to_and_the_error_says_what_is(way: Way) -> None:
    mcp = build(subscribable=[TODAY, "city://{name}"])
    async with hearing(way, mcp) as ear:
        await ear.subscribe(TODAY, OSLO)
        with pytest.raises(MCPError) as refused:
            await ear.subscribe(LATER)
        assert refused.value.error.code == -32602
        assert "note://today, city://{name}" in refused.value.error.message
        assert refused.value.error.data["allowed"] == [TODAY, "city://{name}"]
        assert LATER not in mcp.notify.counts()
        await ear.touch(LATER, OSLO)
        await ear.hears(ResourceUpdated(OSLO))
        assert ResourceUpdated(LATER) not in ear.changes


async def test_a_subscription_to_what_is_not_there_is_refused(way: Way) -> None:
    mcp = build()
    async with hearing(way, mcp) as ear:
        with pytest.raises(MCPError) as refused:
            await ear.subscribe("nowhere://at/all")
        assert refused.value.error.code == (-32002 if way.mode == LEGACY else -32602)
        assert refused.value.error.data["uri"] == "nowhere://at/all"
        assert "nowhere://at/all" not in mcp.notify.counts()


async def _refusal(ear: Ear, uri: str) -> Any:
    with pytest.raises(MCPError) as refused:
        await ear.subscribe(uri)
    return refused.value.error


def _without_uri(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key != "uri"}
