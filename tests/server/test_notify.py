"""`server.notify`: saying that something changed, from anywhere, and seeing who listens."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from pydantic import AnyUrl

from tests.server.doubles import Log, Reader, running, turns
from tidings.changes import Change, PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged
from tidings.errors import InvalidUri
from tidings.server import notify as notify_module
from tidings.server.hub import Hub
from tidings.server.notify import EVERYTHING, Notifier

pytestmark = pytest.mark.anyio

A, B = ResourceUpdated("note://a"), ResourceUpdated("note://b")


class Outlet:
    """Where a running server hands its changes on; as slow as a test wants."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.before: Callable[[], Awaitable[object]] = checkpoint
        self._more = asyncio.Event()

    async def submit(self, change: Change) -> None:
        await self.before()
        self.changes.append(change)
        self._more.set()

    async def until(self, count: int) -> None:
        with anyio.fail_after(10):
            while len(self.changes) < count:
                self._more.clear()
                await self._more.wait()


@pytest.fixture
def notifier() -> Notifier:
    return Notifier(Hub())


@pytest.fixture
async def outlet() -> Outlet:
    return Outlet()


# Publishing


async def test_each_kind_of_change_is_handed_on_before_the_call_returns(notifier: Notifier, outlet: Outlet) -> None:
    notifier.start(outlet.submit)
    await notifier.resource_updated("note://a")
    await notifier.resource_updated(AnyUrl("note://b"))
    await notifier.tools_changed()
    await notifier.prompts_changed()
    await notifier.resources_changed()
    assert outlet.changes == [A, B, ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()]


async def test_equal_changes_said_in_one_turn_are_merged(notifier: Notifier, outlet: Outlet) -> None:
    notifier.start(outlet.submit)
    for change in (A, B, A, ToolsListChanged(), ToolsListChanged()):
        notifier.soon(change)
    await turns()
    assert outlet.changes == [A, B, ToolsListChanged()]


async def test_equal_changes_said_in_two_turns_are_two(notifier: Notifier, outlet: Outlet) -> None:
    notifier.start(outlet.submit)
    for _ in range(2):
        notifier.soon(A)
        await turns()
    assert outlet.changes == [A, A]


async def test_a_change_can_be_said_from_any_thread(notifier: Notifier, outlet: Outlet) -> None:
    notifier.start(outlet.submit)
    names = [f"note://{number}" for number in range(100)]
    threads = [
        threading.Thread(target=lambda part=part: [notifier.soon(ResourceUpdated(name)) for name in names[part::4]])
        for part in range(4)
    ]
    for thread in threads:
        thread.start()
    await outlet.until(100)
    assert {change.uri for change in outlet.changes if isinstance(change, ResourceUpdated)} == set(names)
    for thread in threads:
        thread.join(5)


async def test_a_change_can_be_said_on_the_event_loop_of_another_thread(notifier: Notifier, outlet: Outlet) -> None:
    notifier.start(outlet.submit)
    thread = threading.Thread(target=lambda: asyncio.run(notifier.resource_updated("note://a")))
    thread.start()
    await outlet.until(1)
    assert outlet.changes == [A]
    thread.join(5)


@pytest.mark.parametrize(
    ("uri", "help_in_message"),
    [
        ("note", "begin with a scheme, as in 'note://today'"),
        ("", "begin with a scheme"),
        ("note://two words", "Percent-encode it"),
        ("note://a\r\n\r\n", "position 8"),
        ("x:" + "y" * 9000, "at most 8192"),
    ],
)
async def test_what_is_not_a_uri_is_refused_in_words_that_help(
    notifier: Notifier, outlet: Outlet, uri: str, help_in_message: str
) -> None:
    notifier.start(outlet.submit)
    with pytest.raises(InvalidUri, match=help_in_message):
        await notifier.resource_updated(uri)
    with pytest.raises(InvalidUri, match=help_in_message):
        notifier.soon(ResourceUpdated(uri))
    with pytest.raises(InvalidUri, match=help_in_message):
        await notifier.publish(ResourceUpdated(uri))
    await turns()
    assert outlet.changes == []


@pytest.mark.parametrize(
    ("uri", "help_in_message"),
    [
        (None, r"A URI must be a string such as 'note://today', not NoneType"),
        (Path("/notes/today.md"), r"not .*Path\. Use the path's as_uri\(\)"),
        (7, r"not int\. Convert a URL object with str\(\)"),
        ("note://*", r"'note://\*' is a prefix"),
    ],
)
async def test_what_does_not_name_one_resource_is_refused_with_its_kind_and_a_cure(
    notifier: Notifier, uri: Any, help_in_message: str
) -> None:
    with pytest.raises(InvalidUri, match=help_in_message):
        await notifier.resource_updated(uri)
    with pytest.raises(InvalidUri, match=help_in_message):
        notifier.soon(ResourceUpdated(uri))


@pytest.mark.parametrize("change", ["note://1", None, ResourceUpdated])
async def test_what_is_no_change_is_refused_before_and_after_the_start(
    notifier: Notifier, outlet: Outlet, change: Any
) -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match=r"Publish a change, e\.g\. ResourceUpdated\(uri\)"):
            notifier.soon(change)
        with pytest.raises(TypeError, match=r"Publish a change, e\.g\. ResourceUpdated\(uri\)"):
            await notifier.publish(change)
        notifier.start(outlet.submit)
    await turns()
    assert outlet.changes == []


# Beginning and end


async def test_what_is_said_of_resources_before_the_start_is_kept_and_of_lists_is_no_news(
    notifier: Notifier, outlet: Outlet
) -> None:
    notifier.soon(ToolsListChanged())
    await notifier.resource_updated("note://a")
    await notifier.prompts_changed()
    notifier.start(outlet.submit)
    await turns()
    assert outlet.changes == [A]


async def test_what_is_said_of_lists_between_two_runs_is_news(notifier: Notifier, outlet: Outlet) -> None:
    """A client that was here in the first run has a cursor, and comes back with it in the second."""
    notifier.start(outlet.submit)
    await notifier.stop()
    notifier.soon(ToolsListChanged())
    notifier.soon(A)
    assert outlet.changes == []
    notifier.start(outlet.submit)
    await turns()
    assert outlet.changes == [ToolsListChanged(), A]


async def test_to_stop_hands_on_what_was_said_before(notifier: Notifier, outlet: Outlet) -> None:
    notifier.start(outlet.submit)
    bus_answers = asyncio.Event()
    outlet.before = bus_answers.wait
    notifier.soon(A)
    await turns()
    notifier.soon(B)
    async with running(notifier.stop) as stopped:
        assert not stopped.is_set()
        bus_answers.set()
        await stopped.wait()
    assert outlet.changes == [A, B]


async def test_what_is_said_in_the_moment_of_the_stop_is_kept_for_the_next_start(
    notifier: Notifier, outlet: Outlet
) -> None:
    async def speak_when_done() -> None:
        task = asyncio.current_task()
        assert task is not None
        await turns()
        # Called after the one who waits for this task was woken: it goes on first, and ends the run.
        task.add_done_callback(lambda _: notifier.soon(B))

    notifier.start(outlet.submit)
    outlet.before = speak_when_done
    notifier.soon(A)
    with anyio.fail_after(5):
        await notifier.stop()
    await turns()
    outlet.before = checkpoint
    assert outlet.changes == [A]
    notifier.start(outlet.submit)
    await turns()
    assert outlet.changes == [A, B]


# Who listens


async def test_who_listens_can_be_asked_for_all_for_a_list_and_for_a_resource() -> None:
    hub, log = Hub(), Log()
    notifier = Notifier(hub)
    one = Reader("note://a", features=["tools"], client="one")
    two = Reader("note://*", "feed://x", features=["tools", "prompts"], client="two")
    for reader in (one, two):
        hub.add(reader)
    one.deliver(log.frame("note://a"))

    def names(what: str | None = None) -> set[str]:
        return {info.client for info in notifier.subscribers(what)}

    assert names() == names("tools") == names("note://a") == {"one", "two"}
    assert names("prompts") == names("feed://x") == names("note://b") == {"two"}
    assert names("resources") == names("page://x") == set()
    assert {info.client: info.waiting for info in notifier.subscribers()} == {"one": 1, "two": 0}


async def test_listeners_are_counted_for_each_list_and_for_each_thing_somebody_listens_to() -> None:
    hub = Hub()
    notifier = Notifier(hub)
    assert notifier.counts() == {"tools": 0, "prompts": 0, "resources": 0, "unreachable": 0}
    readers = [Reader("note://a", features=["tools"]), Reader("note://a", "note://*")]
    for reader in readers:
        hub.add(reader)
    assert notifier.counts() == {
        "tools": 1,
        "prompts": 0,
        "resources": 0,
        "note://a": 2,
        "note://*": 1,
        "unreachable": 0,
    }
    for reader in readers:
        hub.remove(reader)
    assert notifier.counts() == {"tools": 0, "prompts": 0, "resources": 0, "unreachable": 0}


async def test_of_too_many_changes_before_the_start_one_remains_that_stands_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notify_module, "_MOST_WAITING", 3)
    notifier, outlet = Notifier(Hub(lambda _: None)), Outlet()
    for number in range(5):
        notifier.soon(ResourceUpdated(f"note://{number}"))
    notifier.start(outlet.submit)
    await outlet.until(1)
    await notifier.stop()
    assert outlet.changes == [EVERYTHING]
