"""`client.changes()`: what changed, at most so often, once, and again after a failure; over restarts, in both eras."""

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.bus.processes import python
from tests.client.cutting import Cut, cable
from tests.client.library import ERAS, SECONDS, Library, connected, eventually, on_the_web
from tidings.client import Backoff, ChangeBatch, ClientConfig, LiveClient, Poll, connect
from tidings.client import watching as batches_module
from tidings.errors import Disconnected, InvalidUri, NoConnection, NotConnected, ResourceNotFound

pytestmark = pytest.mark.anyio
ONE, TWO, THREE = "note://1", "note://2", "note://3"
OFTEN = ClientConfig(poll=Poll(interval=0.05, longest=0.05), backoff=Backoff(delays=(0.02,)))
GONE = MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": ONE})


class Agent:
    """Takes one batch after the other, and is done with each when the test says so."""

    def __init__(self) -> None:
        self.given: asyncio.Queue[ChangeBatch] = asyncio.Queue()
        self.done = asyncio.Semaphore(0)
        self.task: asyncio.Task[None] | None = None

    async def run(self, client: LiveClient, *uris: str, **options: Any) -> None:
        async with aclosing(client.changes(uris or [ONE], **{"at_most_every": 0, **options})) as batches:
            async for batch in batches:
                self.given.put_nowait(batch)
                await self.done.acquire()

    async def next(self) -> dict[str, tuple[str | None, str | None]]:
        """The batch that it is given next: for each URI, the text before and now."""
        with anyio.fail_after(SECONDS):
            batch = await self.given.get()
        return {change.uri: (change.before, change.text) for change in batch}


@asynccontextmanager
async def taking(client: LiveClient, *uris: str, **options: Any) -> AsyncGenerator[Agent]:
    """An agent at work. It is stopped as if it had crashed."""
    agent = Agent()
    agent.task = asyncio.create_task(agent.run(client, *uris, **options))
    try:
        if not options.get("first"):
            await begun(client, *(uris or [ONE]), name=options.get("name", ""))
        yield agent
    finally:
        agent.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await agent.task


async def begun(client: LiveClient, *uris: str, name: str = "") -> None:
    """The loop knows where it begins."""
    record = client._wiring.handed_out
    await eventually(lambda: all(record.find(name, uri) is not None for uri in uris))


async def changed(client: LiveClient, library: Library, uri: str, text: str) -> None:
    """Change a resource, and wait until the client has it."""
    await library.write(uri, text)
    with anyio.fail_after(SECONDS):
        await client.wait_fresh()


# What is handed out.


@ERAS
async def test_a_change_is_handed_out_once_with_its_difference(era: str) -> None:
    library = Library()
    library.texts[ONE] = "a\nb\nc"
    async with connected(library, era) as client, taking(client) as agent:
        await library.write(ONE, "a\nx\nc")
        with anyio.fail_after(SECONDS):
            [change] = batch = await agent.given.get()
        assert isinstance(batch, ChangeBatch)
        assert (change.uri, change.before, change.text) == (ONE, "a\nb\nc", "a\nx\nc")
        assert change.diff.splitlines()[1:] == [" a", "-b", "+x", " c"]
        agent.done.release()
        await library.write(ONE, "a\nx\nc")  # Nothing new.
        await changed(client, library, ONE, "end")
        assert await agent.next() == {ONE: ("a\nx\nc", "end")}


@ERAS
async def test_a_slow_agent_gets_the_newest_and_what_all_changes_came_to(era: str) -> None:
    library = Library()
    library.texts |= {ONE: "0", TWO: "0", THREE: "0"}
    async with connected(library, era) as client, taking(client, ONE, TWO, THREE) as agent:
        await library.write(ONE, "1")
        assert await agent.next() == {ONE: ("0", "1")}
        for number in range(2, 20):
            await library.write(ONE, str(number))
        await changed(client, library, TWO, "1")
        await changed(client, library, TWO, "0")  # Undone before anybody saw it.
        await changed(client, library, THREE, "1")
        agent.done.release()
        got = await agent.next()
        assert got == {ONE: ("1", "19"), THREE: ("0", "1")}


@ERAS
async def test_between_two_batches_there_is_time(era: str) -> None:
    library = Library()
    library.texts |= {ONE: "0", TWO: "0"}
    async with connected(library, era) as client, taking(client, ONE, TWO, at_most_every=0.5) as agent:
        await library.write(ONE, "1")
        await agent.next()
        began = anyio.current_time()
        agent.done.release()
        await library.write(ONE, "2")
        await library.write(TWO, "1")
        await changed(client, library, ONE, "3")
        assert await agent.next() == {ONE: ("1", "3"), TWO: ("0", "1")}
        assert anyio.current_time() >= began + 0.4


@ERAS
async def test_with_first_the_loop_begins_with_the_content(era: str) -> None:
    library = Library()
    library.texts |= {ONE: "0", TWO: "0"}
    async with connected(library, era) as client, taking(client, ONE, TWO, first=True) as agent:
        got = await agent.next()
        while len(got) < 2:
            agent.done.release()
            got |= await agent.next()
        assert got == {ONE: (None, "0"), TWO: (None, "0")}
        agent.done.release()
        await library.write(TWO, "1")
        assert await agent.next() == {TWO: ("0", "1")}


@ERAS
async def test_a_resource_that_goes_and_comes_back_changes_twice(era: str) -> None:
    library = Library()
    library.texts |= {ONE: "0", TWO: "0"}
    gone = GONE if era == "auto" else MCPError(-32002, "Resource not found", {"uri": ONE})
    async with connected(library, era) as client, taking(client, ONE) as agent:
        library.broken[ONE] = gone
        await library.notify.resource_updated(ONE)
        with anyio.fail_after(SECONDS):
            [change] = await agent.given.get()
        assert (change.read, change.text, change.before, change.diff) == (None, None, "0", "@@ -1,1 +0,0 @@\n-0")
        agent.done.release()
        del library.broken[ONE]
        await library.notify.resource_updated(ONE)
        assert await agent.next() == {ONE: (None, "0")}


async def test_a_resource_that_appears_is_a_change() -> None:
    library = Library()
    library.broken[ONE] = GONE
    async with connected(library) as client, taking(client, ONE, TWO) as agent:
        del library.broken[ONE]
        await library.write(ONE, "new")
        assert await agent.next() == {ONE: (None, "new")}


async def test_resources_that_do_not_exist_are_an_error_at_the_beginning_unless_they_may_come() -> None:
    library = Library()
    library.broken[ONE] = GONE
    async with connected(library) as client:
        with anyio.fail_after(SECONDS):
            with pytest.raises(ResourceNotFound):
                await anext(client.changes(ONE))
            async with taking(client, ONE, missing="wait", name="patient") as agent:
                del library.broken[ONE]
                await library.write(ONE, "new")
                assert await agent.next() == {ONE: (None, "new")}


async def test_a_server_without_subscriptions_is_polled() -> None:
    library = Library(is_live=False)
    library.texts[ONE] = "0"
    async with connected(library, config=OFTEN) as client, taking(client) as agent:
        assert not client.supports_subscriptions
        library.texts[ONE] = "1"
        assert await agent.next() == {ONE: ("0", "1")}
        agent.done.release()
        library.texts[ONE] = "2"
        assert await agent.next() == {ONE: ("1", "2")}


async def test_two_loops_have_a_record_each() -> None:
    library = Library()
    library.texts[ONE] = "0"
    async with connected(library) as client, taking(client, name="a") as one, taking(client, name="b") as other:
        await library.write(ONE, "1")
        assert await one.next() == await other.next() == {ONE: ("0", "1")}
        one.done.release()
        await library.write(ONE, "2")
        assert await one.next() == {ONE: ("1", "2")}
        await changed(client, library, ONE, "3")
        other.done.release()
        assert await other.next() == {ONE: ("1", "3")}


# Failures, and restarts.


@ERAS
async def test_an_agent_that_fails_gets_its_batch_again(era: str) -> None:
    library = Library()
    library.texts[ONE] = "0"
    async with connected(library, era) as client:
        async with taking(client) as agent:
            await library.write(ONE, "1")
            assert await agent.next() == {ONE: ("0", "1")}
        async with taking(client) as agent:
            assert await agent.next() == {ONE: ("0", "1")}
            await changed(client, library, ONE, "2")
        async with taking(client) as agent:
            assert await agent.next() == {ONE: ("0", "2")}
            agent.done.release()
            await library.write(ONE, "3")
            assert await agent.next() == {ONE: ("2", "3")}


async def test_who_leaves_the_loop_with_a_batch_may_confirm_it() -> None:
    library = Library()
    library.texts[ONE] = "0"
    async with connected(library) as client, taking(client) as agent:
        await library.write(ONE, "1")
        with anyio.fail_after(SECONDS):
            await (await agent.given.get()).confirm()
        agent.task.cancel()  # type: ignore[union-attr]
        async with taking(client) as other:
            await library.write(ONE, "2")
            assert await other.next() == {ONE: ("1", "2")}


@ERAS
async def test_the_record_outlives_the_process(era: str, tmp_path: Path) -> None:
    library, path = Library(), tmp_path / "state.db"
    library.texts |= {ONE: "0", TWO: "0"}
    async with on_the_web(library) as url:
        async with connect(url, era=era, state=path) as client, taking(client, ONE, TWO) as agent:
            await library.write(ONE, "1")
            assert await agent.next() == {ONE: ("0", "1")}
            agent.done.release()
            await eventually(lambda: client._wiring.handed_out.find("", ONE) == (_digest(client, ONE), "1"))
        await library.write(TWO, "1")  # While nobody is there.
        async with connect(url, era=era, state=path) as client, taking(client, ONE, TWO) as agent:
            assert await agent.next() == {TWO: ("0", "1")}
        async with connect(url, era=era, state=path) as client, taking(client, ONE, TWO) as agent:  # It had crashed.
            assert await agent.next() == {TWO: ("0", "1")}
            agent.done.release()
            await library.write(ONE, "2")
            assert await agent.next() == {ONE: ("1", "2")}
            await client.disconnect()
        async with connect(url, era=era, state=path) as client, taking(client, ONE, TWO) as agent:
            assert await agent.next() == {ONE: ("1", "2")}


def _digest(client: LiveClient, uri: str) -> str:
    read = client.cache.get_resource(uri)
    return "" if read is None else read.digest


@ERAS
async def test_a_process_that_is_killed_in_the_middle_of_a_batch_gets_it_again(era: str, tmp_path: Path) -> None:
    library, path = Library(), tmp_path / "state.db"
    library.texts[ONE] = "0"
    with anyio.fail_after(60):
        async with on_the_web(library) as url:
            async with python("-m", "tests.client.test_batches", url, str(path), era) as process:
                assert await process.line() == "begun"
                for text in ("1", "2"):
                    await library.write(ONE, text)
                    assert await process.line() == f"given {text}"
                    if text == "1":
                        await process.write_line("done")
                process.process.kill()  # While it works on the second.
                await process.process.wait()
            async with connect(url, era=era, state=path) as client, taking(client) as agent:
                assert await agent.next() == {ONE: ("1", "2")}


async def test_the_least_time_between_batches_holds_over_restarts(tmp_path: Path) -> None:
    library, path = Library(), tmp_path / "state.db"
    library.texts[ONE] = "0"
    async with on_the_web(library) as url:
        async with connect(url, state=path) as client, taking(client, at_most_every=1) as agent:
            await library.write(ONE, "1")
            await agent.next()
            began = anyio.current_time()
        async with connect(url, state=path) as client, taking(client, at_most_every=1) as agent:
            assert await agent.next() == {ONE: ("0", "1")}
            assert anyio.current_time() > began + 0.8


@pytest.mark.parametrize("jump", [3600, -3600])
async def test_a_clock_that_is_set_changes_nothing_about_the_time_between_batches(
    jump: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library()
    library.texts[ONE] = "0"
    async with connected(library) as client, taking(client, at_most_every=0.5) as agent:
        await library.write(ONE, "1")
        await agent.next()
        began = anyio.current_time()
        agent.done.release()
        clock = SimpleNamespace(time=lambda: time.time() + jump, monotonic=time.monotonic)
        monkeypatch.setattr(batches_module, "time", clock)
        await changed(client, library, ONE, "2")
        assert await agent.next() == {ONE: ("1", "2")}
        assert anyio.current_time() >= began + 0.4


@ERAS
async def test_a_lost_connection_loses_no_change(era: str) -> None:
    library = Library()
    library.texts[ONE] = "0"
    async with on_the_web(library) as url, connect(url, era=era, config=OFTEN) as client, taking(client) as agent:
        for number in range(1, 6):
            client._connection.link.lose(Disconnected("cut"))  # type: ignore[union-attr]
            library.texts[ONE] = str(number)
            await library.notify.resource_updated(ONE)
            assert await agent.next() == {ONE: (str(number - 1), str(number))}
            agent.done.release()


async def _live(url: str, path: Path, era: str, chance: random.Random, known: dict[str, str | None]) -> None:
    """One life of an agent, which ends in any moment. What it has confirmed is in `known`."""
    async with connect(url, era=era, state=path, config=OFTEN) as client, asyncio.timeout(chance.uniform(0.2, 2)):
        async for batch in client.changes(list(known), at_most_every=chance.uniform(0, 0.05), first=True):
            assert [change.before for change in batch] == [known[change.uri] for change in batch]
            assert all(change.text != change.before for change in batch)
            if chance.random() < 0.2:
                raise RuntimeError("the agent fails")
            known.update((change.uri, change.text) for change in batch)
            await batch.confirm()


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(each, marks=pytest.mark.thorough) for each in range(3, 9))])
@ERAS
async def test_through_cuts_failures_and_restarts_every_change_is_seen_once(
    era: str, seed: int, tmp_path: Path
) -> None:
    chance, library = random.Random(seed), Library()
    known: dict[str, str | None] = dict.fromkeys((ONE, TWO, THREE))

    async def write() -> None:
        for number in range(100):
            await library.write(chance.choice(list(known)), str(number))
            await asyncio.sleep(chance.uniform(0, 0.03))

    async def cut(to: Cut) -> None:
        while True:
            await asyncio.sleep(chance.uniform(0, 0.4))
            await to.cut(refuse=False)

    def is_current() -> bool:
        return all(library.texts.get(uri, f"the text of {uri}") == text for uri, text in known.items())

    with anyio.fail_after(60):
        async with on_the_web(library) as url, cable(url) as to:
            others = [asyncio.create_task(write()), asyncio.create_task(cut(to))]
            while not (others[0].done() and is_current()):
                with contextlib.suppress(TimeoutError, RuntimeError, NoConnection):
                    await _live(to.url, tmp_path / "state.db", era, chance, known)
                if others[0].done():
                    others[1].cancel()


async def test_the_end_of_the_client_ends_the_loop() -> None:
    library = Library()
    async with connected(library) as client:
        async with taking(client) as agent:
            await client.disconnect()
            assert agent.task is not None
            with anyio.fail_after(SECONDS), pytest.raises(Disconnected):
                await agent.task
            agent.task = asyncio.create_task(asyncio.sleep(0))
        with pytest.raises(NotConnected):
            await anext(client.changes(ONE))


@pytest.mark.parametrize(
    ("uris", "options", "error"),
    [
        ([], {}, ValueError),
        ("note://*", {}, InvalidUri),
        ("no uri", {}, InvalidUri),
        (ONE, {"at_most_every": -1}, ValueError),
        (ONE, {"at_most_every": "2"}, ValueError),
        (ONE, {"at_most_every": float("nan")}, ValueError),
        (ONE, {"missing": "maybe"}, ValueError),
    ],
)
async def test_mistakes_are_named_at_once(uris: Any, options: Any, error: type[Exception]) -> None:
    async with connected(Library()) as client:
        with pytest.raises(error):
            client.changes(uris, **options)


async def main(url: str, path: str, era: str) -> None:
    loop = asyncio.get_running_loop()
    async with connect(url, era=era, state=path) as client:
        batches = client.changes(ONE, at_most_every=0)
        following = asyncio.ensure_future(anext(batches))
        await begun(client, ONE)
        say("begun")
        while True:
            say(f"given {(await following)[0].text}")
            await loop.run_in_executor(None, sys.stdin.readline)
            following = asyncio.ensure_future(anext(batches))


def say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
