"""A server that is away, for a moment or for long: who tries again, when, and for how long; on virtual time."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import anyio
import httpx2
import pytest

from tests.client.bad_servers import MODERN, Behaviour, behaved, count, listen, settings, web
from tests.client.library import ERAS, Library, eventually, hear
from tests.client.misbehaving import Asked
from tests.client.virtual_time import run
from tests.ports import free_port
from tests.server.serving import serving
from tidings import LiveServer
from tidings.client import Backoff, ClientConfig, LiveClient, State, connect
from tidings.client.connection import Connection
from tidings.client.events import EventHub, StateChanged
from tidings.client.link import Link
from tidings.errors import (
    BadTarget,
    ConnectFailed,
    ConnectionLost,
    GaveUp,
    LimitReached,
    NotAuthorized,
    TidingsError,
    UnsupportedVersion,
)

ONE = "note://1"
NO_END = 10 * 60  # Seconds that a server is away.


class _Link:
    """As much of a link as a connection needs."""

    def __init__(self) -> None:
        self.error: TidingsError | None = None
        self._over = asyncio.Event()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    async def until_over(self) -> None:
        await self._over.wait()

    def gone(self) -> TidingsError:
        assert self.error is not None
        return self.error

    def lose(self, error: TidingsError) -> None:
        self.error = error
        self._over.set()

    async def close(self, seconds: float = 2.0) -> None:
        self._over.set()


class _Place:
    """A server that is there or away, and the clients that come."""

    def __init__(self, error: TidingsError | None = None) -> None:
        self.error = error  # None while it is there.
        self.links: list[_Link] = []
        self.came: list[float] = []
        self.given_up: list[TidingsError] = []

    async def open(self, _: float) -> Any:
        self.came.append(asyncio.get_running_loop().time())
        if self.error is not None:
            raise self.error
        self.links.append(_Link())
        return self.links[-1], "a feed"

    def client(self, **options: Any) -> Connection:
        async def nothing(*_: Any) -> None:
            pass

        config = ClientConfig(backoff=options.pop("backoff", Backoff()))
        rest: Any = {"attach": nothing, "detach": nothing, "gave_up": self.given_up.append, **options}
        connection = Connection("server", self.open, config, EventHub(), **rest)
        connection.feed = None
        return connection

    def lose(self, error: TidingsError) -> None:
        """Goes away, without a word to the clients."""
        self.error = error
        self.came.clear()
        for link in self.links:
            if not link.over:
                link.lose(ConnectionLost("gone"))


AWAY = ConnectFailed("Nothing answers.")


@pytest.mark.parametrize("seconds", [0.0, 3.0, 60.0])
def test_a_thousand_clients_that_lose_one_server_come_back_spread_out(seconds: float) -> None:
    async def lose_and_return() -> list[float]:
        random.seed(18)
        place = _Place()
        clients = [place.client() for _ in range(1000)]
        for client in clients:
            await client.connect()
        await asyncio.sleep(10)
        place.lose(AWAY)
        await asyncio.sleep(seconds)
        place.error, back = None, asyncio.get_running_loop().time()
        place.came.clear()
        await asyncio.sleep(30)  # No pause is longer.
        assert all(client.state is State.CONNECTED for client in clients)
        for client in clients:
            await client.disconnect()
        return [when - back for when in place.came]

    came = sorted(run(lose_and_return()))
    assert len(came) == 1000
    clumps = [sum(1 for other in came if when <= other < when + 0.25) for when in came]
    assert max(clumps) < (170 if seconds < 1 else 120)


@pytest.mark.parametrize("error", [AWAY, UnsupportedVersion("other"), NotAuthorized("no"), BadTarget("what")])
def test_a_connection_that_once_stood_is_tried_again_without_end(error: TidingsError) -> None:
    async def be_away() -> None:
        place = _Place()
        client = place.client()
        await client.connect()
        states = hear_states(client)
        place.lose(error)
        await asyncio.sleep(NO_END)
        assert (place.given_up, client.error) == ([], error)
        assert len(place.came) == client.tries > 20
        pauses = [after - before for before, after in zip(place.came, place.came[1:], strict=False)]
        assert max(pauses) <= 30
        assert all(state.next_retry is not None for state in states if state.new is State.ERROR)
        place.error = None
        await asyncio.sleep(30)
        assert client.state is State.CONNECTED
        await client.disconnect()

    run(be_away())


def hear_states(client: Connection) -> list[StateChanged]:
    states: list[StateChanged] = []
    client.events.on(StateChanged, states.append)
    return states


def test_a_person_is_not_asked_to_sign_in_again_and_again() -> None:
    async def refuse() -> None:
        place = _Place()
        client = place.client(asks_person=True)
        await client.connect()
        place.lose(NotAuthorized("Signing in failed."))
        await asyncio.sleep(60)
        assert (len(place.came), client.state) == (1, State.DISCONNECTED)
        assert isinstance(client.error, GaveUp)
        assert isinstance(client.error.__cause__, NotAuthorized)

    run(refuse())


def test_a_lost_connection_is_given_up_if_the_user_says_so() -> None:
    async def be_away() -> None:
        place = _Place()
        client = place.client(backoff=Backoff(lost_tries=4))
        await client.connect()
        place.lose(AWAY)
        await asyncio.sleep(100)
        assert len(place.came) == 4
        with pytest.raises(GaveUp, match="after 4 tries"):
            await client.ready()
        # Whoever connects by hand waits for an answer, and gets one.
        with pytest.raises(ConnectFailed):
            await client.connect()

    run(be_away())


def test_a_first_connection_ends_after_about_7_seconds_with_an_error_of_its_own() -> None:
    async def be_away() -> None:
        place = _Place(AWAY)
        client = place.client()
        with pytest.raises(ConnectFailed, match="Tried 4 times") as caught:
            await client.connect()
        assert caught.value.retryable
        pauses = [after - before for before, after in zip(place.came, place.came[1:], strict=False)]
        assert pauses == [pytest.approx(delay, rel=0.2) for delay in (1, 2, 4)]
        assert AWAY.message == "Nothing answers."

    run(be_away())


def asking_to_wait(seconds: float) -> TidingsError:
    error = LimitReached("Too many.")
    error.retry_after = seconds
    return error


def test_a_server_that_asks_to_wait_is_left_alone_for_so_long() -> None:
    async def ask() -> None:
        place = _Place()
        client = place.client()
        await client.connect()
        place.lose(asking_to_wait(120))
        await asyncio.sleep(30)
        assert client.next_retry is not None
        assert 115 - 30 < (client.next_retry - datetime.now(UTC)).total_seconds() < 155
        await asyncio.sleep(600)
        pauses = [after - before for before, after in zip(place.came, place.came[1:], strict=False)]
        assert all(120 <= pause <= 150 for pause in pauses)
        assert len(set(pauses)) == len(pauses) > 2
        await client.disconnect()

    run(ask())


def test_whoever_waits_for_a_first_connection_is_told_to_come_back_later() -> None:
    async def ask() -> None:
        place = _Place(asking_to_wait(20))
        with pytest.raises(LimitReached):
            await place.client().connect()
        assert len(place.came) == 4
        place = _Place(asking_to_wait(3600))
        with pytest.raises(LimitReached) as caught:
            await place.client().connect()
        assert (len(place.came), caught.value.retry_after) == (1, 3600)

    run(ask())


# The whole client.


@asynccontextmanager
async def watching(library: Library, seen: list[str]) -> AsyncGenerator[LiveClient]:
    async def watch(client: LiveClient) -> None:
        async for read in client.watch(ONE):
            seen.append(read.text)  # noqa: PERF401 - each as it comes

    async with connect(library.server) as client:
        task = asyncio.create_task(watch(client))
        yield client
        assert not task.done()
        task.cancel()


@pytest.mark.parametrize("seconds", [60, NO_END])
def test_a_watch_goes_on_however_long_the_server_was_away(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    is_away = False
    server = Link._server

    async def reach(link: Link, stack: Any) -> Any:
        if is_away:
            raise httpx2.ConnectError("All connection attempts failed")
        return await server(link, stack)

    monkeypatch.setattr(Link, "_server", reach)

    async def be_away() -> None:
        nonlocal is_away
        library, seen = Library(), []
        async with watching(library, seen) as client:
            await eventually(lambda: seen)
            is_away = True
            client._connection.link.lose(ConnectionLost("gone"))
            await asyncio.sleep(seconds / 2)
            await library.write(ONE, "new")
            await asyncio.sleep(seconds / 2)
            is_away = False
            await asyncio.sleep(30)
            await client.wait_fresh()
            await eventually(lambda: seen[-1] == "new")

    run(be_away())


pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


@pytest.mark.anyio
@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_honoured_and_shown(status: int) -> None:
    async def busy(asked: Asked) -> None:
        await asked.answer(status, retry_after="7")

    does: dict[str, Behaviour] = behaved(MODERN)
    async with web(does | {"server/discover": busy}) as here:
        client = connect(here.url)
        states = hear(client, StateChanged)
        task = asyncio.create_task(client.connect())
        await eventually(lambda: client.state is State.ERROR)
        assert client.error is not None
        assert client.error.retry_after == 7
        assert client.error.message.endswith("The server asks to wait 7 s.")
        assert client.next_retry is not None
        assert 5 < (client.next_retry - datetime.now(UTC)).total_seconds() < 9
        assert states[-1].next_retry == client.next_retry
        assert count(here, "initialize") == 0  # That it is busy says nothing about its era.
        task.cancel()
        await client.aclose()


@pytest.mark.anyio
async def test_a_call_that_is_refused_for_now_says_for_how_long() -> None:
    async def busy(asked: Asked) -> None:
        await asked.answer(429, retry_after="7")

    async with web(behaved(MODERN) | {"tools/call": busy}) as here, connect(here.url, config=settings()) as client:
        with pytest.raises(LimitReached, match="asks to wait 7 s") as caught:
            await client.call_tool("tool")
        assert caught.value.retry_after == 7


@pytest.mark.anyio
@pytest.mark.parametrize("uris", [[], ["note://a", "note://b"]])
@pytest.mark.parametrize("status", [429, 503])
async def test_a_stream_that_is_refused_for_now_is_asked_for_again(status: int, uris: list[str]) -> None:
    is_busy = True
    opened = asyncio.Event()

    async def busy(asked: Asked) -> None:
        if is_busy:
            await asked.answer(status, retry_after="1")
        else:
            opened.set()
            await listen(asked)

    does = behaved(MODERN) | {"subscriptions/listen": busy}
    async with web(does) as here, connect(here.url, config=settings()) as client:
        task = asyncio.create_task(client.subscribe(uris)) if uris else None
        await eventually(lambda: count(here, "subscriptions/listen") >= (2 if uris else 1))
        await asyncio.sleep(0.5)
        assert count(here, "subscriptions/listen") <= 3  # The subscription is given up, too. Not sooner, nor in parts.
        is_busy = False
        async with asyncio.timeout(10):
            await opened.wait()
        assert client.state is State.CONNECTED
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)


@pytest.mark.thorough
@pytest.mark.timeout(240)
@pytest.mark.anyio
@ERAS
async def test_a_watch_goes_on_after_its_server_was_away_for_a_minute(era: str) -> None:
    port, seen = free_port(), list[str]()
    first, more = asyncio.Event(), asyncio.Event()

    async def watch(url: str) -> None:
        async with connect(url, era=era) as client:
            async for read in client.watch(ONE):
                seen.append(read.text)
                (more if len(seen) > 1 else first).set()

    def server(text: str) -> Any:
        mcp: LiveServer[Any] = LiveServer("away", log_level="CRITICAL")
        mcp.resource("note://{number}", name="note")(lambda number: text)
        return mcp.asgi()

    async with serving(server("old"), port=port):
        watching = asyncio.create_task(watch(f"http://127.0.0.1:{port}/mcp"))
        with anyio.fail_after(30):
            await first.wait()
    await asyncio.sleep(60)
    async with serving(server("new"), port=port):
        with anyio.fail_after(60):
            await more.wait()
        assert seen == ["old", "new"]
        watching.cancel()
        await asyncio.wait((watching,))
