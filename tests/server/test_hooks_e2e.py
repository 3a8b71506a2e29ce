"""Hooks over real clients: a source is watched while somebody listens to it, and only then."""

from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from tests.server import wire
from tests.server.hearing import LEGACY, MODERN, Ear, Way, connected, hearing
from tests.server.sample import TODAY, build
from tests.server.serving import eventually, live, notes
from tidings import LiveServer, ResourceUpdated
from tidings.errors import ResourceNotFound
from tidings.server import Limits

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

WAYS = [Way("memory", MODERN), Way("memory", LEGACY), Way("http", MODERN), Way("http", LEGACY), Way("sse", LEGACY)]
OSLO, ROME = "city://oslo", "city://rome"


@pytest.fixture(params=WAYS, ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    return request.param


class Watcher:
    """Hooks on `city://{name}` that write down how they were called. `gate` holds up the first subscriber's."""

    def __init__(self, mcp: LiveServer[Any], *, open_gate: bool = True) -> None:
        self.calls: list[str] = []
        self.gate = anyio.Event()
        self.begun = anyio.Event()
        self._changed = anyio.Event()
        if open_gate:
            self.gate.set()
        mcp.on_first_subscriber("city://{name}")(self._first)
        mcp.on_last_subscriber("city://{name}")(self._last)

    async def _first(self, name: str) -> None:
        self.begun.set()
        await self.gate.wait()
        self._write(f"first {name}")

    def _last(self, name: str) -> None:
        self._write(f"last {name}")

    def _write(self, call: str) -> None:
        self.calls.append(call)
        self._changed.set()

    async def until(self, *calls: str) -> None:
        with anyio.fail_after(8):
            while self.calls != list(calls):
                self._changed = anyio.Event()
                await self._changed.wait()


async def test_the_first_subscriber_starts_the_watch_and_the_last_stops_it(way: Way) -> None:
    mcp = build()
    watcher = Watcher(mcp)
    async with hearing(way, mcp) as first:
        await first.subscribe(OSLO)
        assert watcher.calls == ["first oslo"]
        async with connected(mcp, way.mode) as second:
            await second.subscribe(OSLO, ROME)
            assert watcher.calls == ["first oslo", "first rome"]
        await watcher.until("first oslo", "first rome", "last rome")
        await first.unsubscribe(OSLO)
        await watcher.until("first oslo", "first rome", "last rome", "last oslo")


async def test_a_client_that_disconnects_stops_its_watch(way: Way) -> None:
    mcp = build()
    watcher = Watcher(mcp)
    async with hearing(way, mcp) as ear:
        await ear.subscribe(OSLO)
    await watcher.until("first oslo", "last oslo")


async def test_a_subscriber_is_told_that_it_is_one_when_the_watch_has_started(way: Way) -> None:
    mcp = build()
    watcher = Watcher(mcp, open_gate=False)
    async with hearing(way, mcp) as ear, anyio.create_task_group() as tasks:
        subscribed = anyio.Event()

        async def subscribe() -> None:
            await ear.subscribe(OSLO)
            assert watcher.calls == ["first oslo"]
            subscribed.set()

        tasks.start_soon(subscribe)
        with anyio.fail_after(8):
            await watcher.begun.wait()
            # Other requests are answered meanwhile, and it is not.
            await ear.call("counts")
            assert not subscribed.is_set()
            # What the hook publishes while it starts is not lost.
            await mcp.notify.resource_updated(OSLO)
            watcher.gate.set()
            await subscribed.wait()
        await ear.hears(ResourceUpdated(OSLO))


async def test_a_hook_can_say_that_there_is_no_such_resource(way: Way) -> None:
    mcp = build()

    class NoSuchCity(ResourceNotFound):
        """An error of the program's own, which clients see as what it derives from."""

    @mcp.on_first_subscriber("city://{name}")
    async def watch(name: str, uri: str) -> None:
        raise NoSuchCity(f"There is no city {name}", data={"uri": uri})

    async with hearing(way, mcp) as ear:
        with pytest.raises(MCPError) as refused:
            await ear.subscribe(OSLO)
        error = refused.value.error
        assert (error.code, error.message) == (-32002 if way.mode == LEGACY else -32602, "There is no city oslo")
        assert error.data["uri"] == OSLO
        assert OSLO not in mcp.notify.counts()


async def test_a_hook_that_fails_refuses_and_leaves_nothing(way: Way) -> None:
    mcp = build()
    broken = True

    @mcp.on_first_subscriber("city://{name}")
    async def watch(name: str) -> None:
        if broken:
            raise OSError(f"the thermometer of {name} at 10.0.0.7 does not answer")

    async with hearing(way, mcp) as ear:
        with pytest.raises(MCPError) as refused:
            await ear.subscribe(OSLO)
        assert "cannot be watched" in refused.value.error.message
        assert "10.0.0.7" not in str(refused.value.error)
        assert OSLO not in mcp.notify.counts()
        assert mcp.notify.subscribers(OSLO) == []
        await ear.touch(OSLO)
        broken = False
        await ear.subscribe(OSLO)
        assert mcp.notify.counts()[OSLO] == 1
        ear.all.clear()
        await ear.touch(OSLO)
        await ear.hears(ResourceUpdated(OSLO))


async def test_a_hook_that_fails_for_one_leaves_the_others_alone(way: Way) -> None:
    mcp = build()

    @mcp.on_first_subscriber("city://{name}")
    def watch(name: str) -> None:
        if name == "rome":
            raise OSError("no")

    async with hearing(way, mcp) as ear, connected(mcp, MODERN) as other:
        await ear.subscribe(OSLO)
        with pytest.raises(MCPError):
            await other.subscribe(ROME, OSLO)
        assert mcp.notify.counts()[OSLO] == 1
        await ear.touch(OSLO)
        await ear.hears(ResourceUpdated(OSLO))


async def test_a_prefix_arrives_at_a_hook_as_it_is() -> None:
    mcp = build()
    watcher = Watcher(mcp)
    async with connected(mcp, MODERN) as ear:
        await ear.subscribe("city://*", TODAY)
        assert watcher.calls == ["first *"]


async def test_hooks_end_with_the_server() -> None:
    mcp = build()
    watcher = Watcher(mcp)
    async with connected(mcp, LEGACY) as ear:
        await ear.subscribe(OSLO, ROME)
    assert sorted(watcher.calls) == ["first oslo", "first rome", "last oslo", "last rome"]


async def test_a_client_that_gives_up_while_the_watch_starts_leaves_nothing(way: Way) -> None:
    mcp = build()
    watcher = Watcher(mcp, open_gate=False)
    async with hearing(way, mcp):
        async with connected(mcp, MODERN) as impatient, anyio.create_task_group() as tasks:
            tasks.start_soon(_subscribe, impatient, OSLO)
            with anyio.fail_after(8):
                await watcher.begun.wait()
            tasks.cancel_scope.cancel()
        watcher.gate.set()
        await watcher.until("first oslo", "last oslo")
        assert OSLO not in mcp.notify.counts()


async def test_a_source_that_failed_for_a_session_that_returned_is_tried_again_for_a_newcomer() -> None:
    mcp = notes(limits=Limits(liveness=0.1))
    broken, tries = False, 0

    @mcp.on_first_subscriber("note://a")
    def watch() -> None:
        nonlocal tries
        tries += 1
        if broken:
            raise OSError("no source")

    async with live(mcp) as port:
        old = await wire.subscribe("legacy", port, ["note://a"])
        assert old.session
        old.close()
        await eventually(lambda: mcp.notify.subscribers() == [])
        broken = True
        stream = await old.session.stream_again()
        # It was subscribed, and stays so; nobody else is told that the resource is watched.
        await stream.until(lambda: "note://a" in [wire.changed(frame) for frame in stream.frames])
        for number in range(2):
            with pytest.raises(wire.Refused) as refused:
                await wire.listen(port, wire.wanted(["note://a"], []))
            assert refused.value.response.error["data"]["retryable"] is True
            assert tries == 3 + number
        broken = False
        newcomer = await wire.subscribe("modern", port, ["note://a"])
        assert mcp.notify.counts()["note://a"] == 2
        await mcp.notify.resource_updated("note://a")
        assert wire.changed(await newcomer.next()) == "note://a"
        before = tries
        await wire.subscribe("modern", port, ["note://a"])
        assert tries == before


@pytest.mark.parametrize("liveness", [60.0, 0.1], ids=["kept", "parked"])
async def test_a_subscription_that_is_cancelled_while_its_watch_starts_is_none(liveness: float) -> None:
    mcp = notes(limits=Limits(liveness=liveness))
    gate, calls = anyio.Event(), list[str]()

    @mcp.on_first_subscriber("note://{name}")
    async def watch(name: str) -> None:
        await gate.wait()
        calls.append(f"first {name}")

    mcp.on_last_subscriber("note://{name}")(lambda name: calls.append(f"last {name}"))
    async with live(mcp) as port, anyio.create_task_group() as tasks:
        session = await wire.Session.start(port)
        tasks.start_soon(session.post, wire.message("resources/subscribe", {"uri": "note://a"}, "mine"))
        await eventually(lambda: bool(mcp.notify.subscribers("note://a")))
        await eventually(lambda: liveness > 1 or mcp.notify.subscribers() == [])
        await session.post(wire.message("notifications/cancelled", {"requestId": "mine"}))
        await eventually(lambda: not mcp.notify.subscribers("note://a"))
        gate.set()
        await eventually(lambda: calls == ["first a", "last a"])
        stream = await session.stream()
        await mcp.notify.resource_updated("note://a")
        await mcp.notify.tools_changed()
        last = str(mcp._live._bus.head)
        await stream.until(lambda: any(frame["params"]["_meta"].get(wire.CURSOR) == last for frame in stream.frames))
        assert "note://a" not in [wire.changed(frame) for frame in stream.frames]
        tasks.cancel_scope.cancel()


async def test_a_subscription_that_is_cancelled_takes_nothing_from_an_equal_one() -> None:
    mcp, gate = notes(), anyio.Event()
    mcp.on_first_subscriber("note://{name}")(lambda name: gate.wait())
    answers: list[wire.Response] = []
    async with live(mcp) as port, anyio.create_task_group() as tasks:
        session = await wire.Session.start(port)

        async def ask(number: str) -> None:
            answers.append(await session.post(wire.message("resources/subscribe", {"uri": "note://a"}, number)))

        requests = 0

        async def count(ctx: Any, call_next: Any) -> Any:
            nonlocal requests
            requests += ctx.method == "resources/subscribe"
            return await call_next(ctx)

        mcp._live._server.middleware.append(count)
        for number in ("first", "second"):
            tasks.start_soon(ask, number)
            await eventually(lambda number=number: requests == ["first", "second"].index(number) + 1)
        await session.post(wire.message("notifications/cancelled", {"requestId": "first"}))
        await anyio.wait_all_tasks_blocked()
        gate.set()
        await eventually(lambda: any(answer.json.get("result") == {} for answer in answers))
        assert len(mcp.notify.subscribers("note://a")) == 1
        stream = await session.stream()
        await mcp.notify.resource_updated("note://a")
        assert wire.changed(await stream.next()) == "note://a"
        tasks.cancel_scope.cancel()


async def _subscribe(ear: Ear, uri: str) -> None:
    await ear.subscribe(uri)
