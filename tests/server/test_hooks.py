"""The calls when a resource gets its first subscriber and when it loses its last."""

import asyncio
import logging
import sys
from typing import get_args

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server.doubles import running, turns
from tidings.server.hooks import HookEvent, Hooks

pytestmark = pytest.mark.anyio

FEED = "feed://7"


class Source:
    """Something to watch: writes down what it is told, and takes as long as a test wants."""

    def __init__(self, hooks: Hooks, pattern: str = "feed://{id}") -> None:
        self.calls: list[str] = []
        self.quick = asyncio.Event()
        self.quick.set()
        self.at_work = 0
        self.overlapped = False
        hooks.add("on_first_subscriber", pattern, self.watch)
        hooks.add("on_last_subscriber", pattern, self.let_go)

    async def watch(self, id: str) -> None:  # noqa: A002 - the variable's name in the template
        await self._work(f"watch {id}")

    async def let_go(self, id: str) -> None:  # noqa: A002 - the variable's name in the template
        await self._work(f"let go {id}")

    async def _work(self, call: str) -> None:
        self.calls.append(call)
        self.at_work += 1
        self.overlapped |= self.at_work > 1
        await self.quick.wait()
        self.at_work -= 1


def nothing_is_left(hooks: Hooks) -> bool:
    return not (hooks._wanted or hooks._called or hooks._tasks or hooks._failures or hooks._refused)


async def settled(hooks: Hooks, *subscriptions: str) -> None:
    with anyio.fail_after(5):
        await hooks.settled(subscriptions or [FEED])


async def test_a_source_is_watched_from_the_first_subscriber_until_the_last_has_gone() -> None:
    hooks = Hooks()
    source = Source(hooks)
    hooks.want(FEED, True)
    await settled(hooks)
    assert source.calls == ["watch 7"]
    hooks.want(FEED, False)
    await settled(hooks)
    assert source.calls == ["watch 7", "let go 7"]
    assert nothing_is_left(hooks)


async def test_a_subscription_is_settled_when_its_hook_is_done() -> None:
    hooks = Hooks()
    source = Source(hooks)
    source.quick.clear()
    hooks.want(FEED, True)
    async with running(lambda: hooks.settled([FEED])) as done:
        assert source.calls == ["watch 7"]
        assert not done.is_set()
        source.quick.set()
        await done.wait()


async def test_what_no_hook_is_for_is_settled_at_once_and_leaves_nothing() -> None:
    hooks = Hooks()
    source = Source(hooks)
    hooks.want("note://a", True)
    await settled(hooks, "note://a")
    hooks.want("note://a", False)
    assert source.calls == []
    assert nothing_is_left(hooks)


async def test_a_prefix_arrives_as_it_is() -> None:
    hooks = Hooks()
    source = Source(hooks)
    hooks.want("feed://*", True)
    await settled(hooks, "feed://*")
    assert source.calls == ["watch *"]


async def test_a_hook_may_be_a_plain_function() -> None:
    hooks, calls = Hooks(), list[str]()
    hooks.add("on_first_subscriber", "note://a", lambda: calls.append("first"))
    hooks.add("on_last_subscriber", "note://*", lambda: calls.append("last"))
    hooks.want("note://a", True)
    await settled(hooks, "note://a")
    hooks.want("note://a", False)
    await settled(hooks, "note://a")
    assert calls == ["first", "last"]


async def test_every_hook_that_matches_is_called_in_the_order_of_registration() -> None:
    hooks, calls = Hooks(), list[str]()
    for pattern in ("feed://7", "feed://*", "feed://8"):
        hooks.add("on_first_subscriber", pattern, lambda pattern=pattern: calls.append(pattern))
    hooks.want(FEED, True)
    await settled(hooks)
    assert calls == ["feed://7", "feed://*"]


async def test_a_client_that_comes_and_goes_in_one_turn_is_not_seen() -> None:
    hooks = Hooks()
    source = Source(hooks)
    for _ in range(5):
        hooks.want(FEED, True)
        hooks.want(FEED, False)
    await settled(hooks)
    assert source.calls == []
    assert nothing_is_left(hooks)


async def test_a_source_that_is_left_and_wanted_again_in_one_turn_stays_watched() -> None:
    hooks = Hooks()
    source = Source(hooks)
    hooks.want(FEED, True)
    await settled(hooks)
    hooks.want(FEED, False)
    hooks.want(FEED, True)
    await settled(hooks)
    assert source.calls == ["watch 7"]


async def test_a_source_is_let_go_only_when_watching_it_has_begun() -> None:
    hooks = Hooks()
    source = Source(hooks)
    source.quick.clear()
    hooks.want(FEED, True)
    await turns()
    hooks.want(FEED, False)
    await turns()
    assert source.calls == ["watch 7"]
    source.quick.set()
    await settled(hooks)
    assert source.calls == ["watch 7", "let go 7"]
    assert not source.overlapped


async def test_whoever_comes_while_a_source_is_let_go_waits_until_it_is_watched_again() -> None:
    hooks = Hooks()
    source = Source(hooks)
    hooks.want(FEED, True)
    await settled(hooks)
    source.quick.clear()
    hooks.want(FEED, False)
    await turns()
    hooks.want(FEED, True)
    async with running(lambda: hooks.settled([FEED])) as done:
        assert source.calls == ["watch 7", "let go 7"]
        source.quick.set()
        await done.wait()
    assert source.calls == ["watch 7", "let go 7", "watch 7"]
    assert not source.overlapped


async def test_sources_do_not_wait_for_each_other() -> None:
    hooks = Hooks()
    slow, quick = Source(hooks, "slow://{id}"), Source(hooks, "quick://{id}")
    slow.quick.clear()
    hooks.want("slow://1", True)
    hooks.want("quick://1", True)
    await settled(hooks, "quick://1")
    assert quick.calls == ["watch 1"]
    slow.quick.set()
    await settled(hooks, "slow://1")


async def test_a_hook_that_fails_refuses_those_who_wait_and_is_tried_again_for_who_comes_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hooks, tries = Hooks(), list[str]()

    def fail_once() -> None:
        tries.append("first")
        if len(tries) == 1:
            raise ConnectionError("no source")

    hooks.add("on_first_subscriber", FEED, fail_once)
    hooks.want(FEED, True)
    with pytest.raises(ConnectionError, match="no source"):
        await settled(hooks)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert FEED in caplog.text

    await settled(hooks)
    assert tries == ["first", "first"]
    hooks.want(FEED, False)
    await settled(hooks)
    assert nothing_is_left(hooks)


async def test_one_hook_that_fails_does_not_keep_another_from_its_turn(caplog: pytest.LogCaptureFixture) -> None:
    hooks, calls = Hooks(), list[str]()

    def fail() -> None:
        raise ConnectionError("no source")

    for event in get_args(HookEvent):
        hooks.add(event, FEED, fail)
        hooks.add(event, FEED, lambda: calls.append("the other"))
    hooks.want(FEED, True)
    with pytest.raises(ConnectionError):
        await settled(hooks)
    hooks.want(FEED, False)
    await settled(hooks)
    assert calls == ["the other", "the other"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    assert nothing_is_left(hooks)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="tasks that begin at once came with Python 3.12")
@pytest.mark.parametrize("quick", [True, False])
async def test_hooks_settle_where_tasks_begin_at_once(quick: bool) -> None:
    hooks, calls, gate = Hooks(), list[str](), asyncio.Event()

    async def watch() -> None:
        if not quick:
            await gate.wait()
        calls.append("watch")

    hooks.add("on_first_subscriber", FEED, watch)
    hooks.add("on_last_subscriber", FEED, lambda: calls.append("let go"))
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009 - not in the oldest Python's types
    try:
        hooks.want(FEED, True)
        assert calls == (["watch"] if quick else [])
        gate.set()
        await settled(hooks)
        assert calls == ["watch"]
        hooks.want(FEED, False)
        await settled(hooks)
    finally:
        loop.set_task_factory(before)
    assert calls == ["watch", "let go"]
    assert nothing_is_left(hooks)


@pytest.mark.parametrize("settles", [True, False])
async def test_a_wait_for_hooks_can_be_broken_off(settles: bool) -> None:
    hooks, waits = Hooks(), list[bool]()
    source = Source(hooks)
    source.quick.clear()
    hooks.want(FEED, True)
    stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait() -> None:
        waits.append(await hooks.settled([FEED], unless=stop))

    async with running(wait) as done:
        assert not done.is_set()
        if settles:
            source.quick.set()
        else:
            stop.set_result(None)
        await done.wait()
    assert waits == [settles]
    # The hook itself goes on.
    source.quick.set()
    await settled(hooks)
    assert source.calls == ["watch 7"]


async def test_to_finish_is_to_wait_for_all_that_was_begun() -> None:
    hooks = Hooks()
    source = Source(hooks)
    source.quick.clear()
    hooks.want("feed://1", True)
    hooks.want("feed://2", True)
    async with running(lambda: hooks.finish(10)) as done:
        hooks.want("feed://1", False)
        await turns()
        assert not done.is_set()
        source.quick.set()
        await done.wait()
    assert source.calls == ["watch 1", "watch 2", "let go 1"]


async def test_what_does_not_end_in_time_is_cancelled() -> None:
    hooks = Hooks()
    source = Source(hooks)
    source.quick.clear()
    hooks.want("feed://1", True)
    await turns()
    await hooks.finish(0.01)
    await turns()
    assert not hooks._tasks


@given(st.lists(st.sampled_from(["flip", "turn", "slow", "quick"]), max_size=40))
def test_however_subscribers_come_and_go_calls_alternate_never_overlap_and_end_with_what_is(steps: list[str]) -> None:
    async def walk() -> None:
        hooks = Hooks()
        source, listening = Source(hooks), False
        for step in steps:
            match step:
                case "flip":
                    listening = not listening
                    hooks.want(FEED, listening)
                case "turn":
                    await turns(2)
                case "slow":
                    source.quick.clear()
                case _:
                    source.quick.set()
        source.quick.set()
        await settled(hooks)
        assert source.calls[::2] == ["watch 7"] * len(source.calls[::2])
        assert source.calls[1::2] == ["let go 7"] * len(source.calls[1::2])
        assert len(source.calls) % 2 == listening
        assert not source.overlapped
        assert listening or nothing_is_left(hooks)

    asyncio.run(walk())


@pytest.mark.parametrize("subscription", ["feed://a%20b?page=2", "feed://*"])
async def test_a_hook_that_asks_for_the_uri_is_given_the_subscription_as_it_was_written(subscription: str) -> None:
    hooks = Hooks()
    told: list[str] = []

    def watch(uri: str, **_: str) -> None:
        told.append(uri)

    hooks.add("on_first_subscriber", "feed://{id}{?page}", watch)
    hooks.want(subscription, True)
    await settled(hooks, subscription)
    assert told == [subscription]


async def test_a_variable_of_the_name_uri_is_what_the_template_says_it_is() -> None:
    hooks = Hooks()
    told: list[str] = []

    def watch(uri: str) -> None:
        told.append(uri)

    hooks.add("on_first_subscriber", "feed://{uri}", watch)
    hooks.want(FEED, True)
    await settled(hooks)
    assert told == ["7"]
