"""A connection that is lost and comes back, or is given up: every step is told, and nobody waits for nothing."""

import asyncio
import os
import signal
import sys
import time
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server.lowlevel.server import Server

from tests.client.cutting import cable
from tests.client.killing import programs
from tests.client.library import ERAS, SECONDS, Library, eventually, hear, on_the_web
from tests.client.ways import environment
from tests.ports import free_port
from tests.server.serving import ROOT
from tidings import ResourceUpdated
from tidings.client import Backoff, ClientConfig, State, Timeouts, connect
from tidings.client.events import StateChanged, SubscriptionsChanged
from tidings.errors import ConnectFailed, ConnectionLost, ConnectTimedOut, Disconnected, GaveUp, SessionExpired

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

ONE = "note://1"
THREE_TRIES = ClientConfig(backoff=Backoff(delays=(0.01, 0.02, 0.04), jitter=0, tries=3, lost_tries=3))
FOR_EVER = ClientConfig(backoff=Backoff(delays=(0.01,), tries=None))
FAR_APART = ClientConfig(backoff=Backoff(delays=(1_000,), tries=None))


def steps(states: list[StateChanged]) -> list[str]:
    return [f"{each.old.value} {each.signal.value} {each.new.value}" for each in states]


@ERAS
async def test_a_connection_that_is_lost_comes_back_step_by_step(era: str) -> None:
    library = Library()
    async with on_the_web(library) as url, cable(url) as cut, connect(cut.url, era=era, config=FOR_EVER) as client:
        states = hear(client, StateChanged)
        await cut.cut()
        await eventually(lambda: states and states[-1].tries >= 2)
        assert not client.connected
        assert client.error is not None
        await cut.mend()
        with anyio.fail_after(SECONDS):
            await eventually(lambda: client.connected)
        assert client.error is None
        failing = ["error reconnect connecting", "connecting transport_error error"] * (len(states) // 2 - 1)
        assert steps(states) == [
            "connected connection_lost error",
            *failing,
            "error reconnect connecting",
            "connecting handshake_complete connected",
        ]
        assert isinstance(states[0].error, ConnectionLost | ConnectFailed)
        assert all(each.next_retry is not None for each in states if each.new is State.ERROR)
        failed = [each.tries for each in states if each.signal == "transport_error"]
        assert failed == list(range(1, len(failed) + 1))


@ERAS
async def test_who_does_not_want_to_try_again_is_told_why_it_is_over(era: str) -> None:
    config = ClientConfig(backoff=Backoff(lost_tries=0))
    async with on_the_web(Library()) as url, cable(url) as cut, connect(cut.url, era=era, config=config) as client:
        await cut.cut()
        await eventually(lambda: client.state is State.DISCONNECTED)
        assert isinstance(client.error, GaveUp)
        assert client.error.message.startswith(f"Gave up on {cut.url}: {cut.url} ")
        assert client.error.message.endswith(" Call reconnect() to try again.")


@ERAS
async def test_after_the_tries_it_is_given_up_and_can_be_taken_up_by_hand(era: str) -> None:
    library = Library()
    async with on_the_web(library) as url, cable(url) as cut, connect(cut.url, era=era, config=THREE_TRIES) as client:
        await client.subscribe(ONE)
        read = await client.read_resource(ONE)
        watch = client.watch(ONE)
        await anext(watch)
        states = hear(client, StateChanged)
        await cut.cut()
        await eventually(lambda: states)
        waiting = asyncio.create_task(client.read_resource("note://2"))
        await eventually(lambda: client.state is State.DISCONNECTED)
        assert steps(states) == [
            "connected connection_lost error",
            *["error reconnect connecting", "connecting transport_error error"] * 3,
            "error give_up disconnected",
        ]
        assert isinstance(client.error, GaveUp)
        assert isinstance(client.error.__cause__, ConnectFailed)
        with anyio.fail_after(SECONDS):
            for asked in (waiting, client.read_resource(ONE), anext(watch), client.wait_fresh(), client.list_tools()):
                with pytest.raises(GaveUp):
                    await asked
        assert client.subscriptions == [ONE]
        assert client.cache.get_resource(ONE) is read
        await library.write(ONE, "new")
        await cut.mend()
        states.clear()
        with anyio.fail_after(SECONDS):
            await client.reconnect()
            assert steps(states) == ["disconnected connect connecting", "connecting handshake_complete connected"]
            await client.wait_fresh()
            heard = hear(client, ResourceUpdated)
            await library.write(ONE, "newer")
            await eventually(lambda: heard)
            async for seen in client.watch(ONE):
                assert seen.text == "newer"
                break


async def test_the_pauses_before_the_tries_are_those_that_are_set() -> None:
    library = Library()
    config = ClientConfig(backoff=Backoff(delays=(0.02, 0.05, 0.11), jitter=0, tries=3, lost_tries=3))
    async with on_the_web(library) as url, cable(url) as cut, connect(cut.url, config=config) as client:
        states = hear(client, StateChanged)
        announced: list[float] = []
        client.on(StateChanged, lambda each: announced.append(client._connection._pause_seconds or 0))
        await cut.cut()
        await eventually(lambda: client.state is State.DISCONNECTED)
        pauses = [pause for pause, each in zip(announced, states, strict=True) if each.new is State.ERROR]
        assert pauses[:3] == [0.02, 0.05, 0.11]
        assert [each.next_retry is None for each in states if each.new is State.ERROR] == [False, False, False, True]


@ERAS
async def test_a_server_that_is_not_there_is_tried_again_and_given_up(era: str) -> None:
    client = connect(f"http://127.0.0.1:{free_port()}/mcp", era=era, config=THREE_TRIES)
    states = hear(client, StateChanged)
    with anyio.fail_after(SECONDS), pytest.raises(ConnectFailed, match=r"Is the server running.* Tried 4 times"):
        await client.connect()
    assert steps(states) == [
        "disconnected connect connecting",
        "connecting transport_error error",
        *["error reconnect connecting", "connecting transport_error error"] * 3,
        "error give_up disconnected",
    ]
    await client.aclose()


async def test_a_server_that_takes_too_long_to_connect_to_is_a_step_of_its_own() -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    config = ClientConfig(timeouts=Timeouts(connect=0.05), backoff=Backoff(delays=(0.01,), tries=1))
    client = connect(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", config=config)
    states = hear(client, StateChanged)
    with anyio.fail_after(SECONDS), pytest.raises(ConnectTimedOut, match="Tried 2 times"):
        await client.connect()
    assert steps(states)[1] == "connecting timeout error"
    await client.aclose()
    server.close()
    await server.wait_closed()


@ERAS
async def test_a_reconnect_by_hand_does_not_wait_for_the_pause(era: str) -> None:
    library = Library()
    async with on_the_web(library) as url, cable(url) as cut, connect(cut.url, era=era, config=FAR_APART) as client:
        await cut.cut()
        await eventually(lambda: client.state is State.ERROR)
        await cut.mend()
        with anyio.fail_after(SECONDS):
            await client.reconnect()
        assert client.connected


@ERAS
async def test_a_disconnect_does_not_wait_for_what_is_away(era: str) -> None:
    library = Library()
    async with on_the_web(library) as url, cable(url) as cut, connect(cut.url, era=era, config=FAR_APART) as client:
        states, told = hear(client, StateChanged), hear(client, SubscriptionsChanged)
        await client.subscribe(ONE)
        await client.read_resource(ONE)
        await cut.cut()
        await eventually(lambda: client.state is State.ERROR)
        waiting = asyncio.create_task(client.read_resource(ONE))
        await eventually(lambda: client.queue.status().in_progress)
        with anyio.fail_after(SECONDS):  # The next attempt is far away.
            await client.disconnect()
            with pytest.raises(Disconnected):
                await waiting
        assert steps(states)[-2:] == ["error disconnect disconnecting", "disconnecting cleanup_complete disconnected"]
        assert (client.subscriptions, len(client.cache), client.error) == ([], 0, None)
        assert told == [SubscriptionsChanged((ONE,)), SubscriptionsChanged(())]


@ERAS
async def test_a_server_that_does_not_answer_any_more_is_noticed(era: str) -> None:
    library = Library()
    timeouts = Timeouts(ping_interval=0.05, ping=0.5)
    config = ClientConfig(timeouts=timeouts, backoff=FOR_EVER.backoff)
    async with on_the_web(library) as url, cable(url) as cut, connect(cut.url, era=era, config=config) as client:
        states = hear(client, StateChanged)
        cut.freeze()
        await eventually(lambda: states)
        assert steps(states)[0] == "connected connection_lost error"
        assert "did not answer within 0.5 s" in states[0].error.message
        await cut.cut(refuse=False)
        await eventually(lambda: client.connected)


@ERAS
async def test_a_program_that_was_busy_itself_does_not_take_its_server_for_lost(
    era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It notices all the same that a server does not answer any more."""
    library, pinged = Library(), 0
    config = ClientConfig(timeouts=Timeouts(ping_interval=0.05, ping=0.5), backoff=FOR_EVER.backoff)
    async with on_the_web(library) as url, cable(url) as cut, connect(cut.url, era=era, config=config) as client:
        states, feed = hear(client, StateChanged), client._connection.feed
        assert feed is not None
        ping = feed.ping

        async def late() -> None:
            nonlocal pinged
            pinged += 1
            time.sleep(1.2)  # noqa: ASYNC251 - the loop stands still
            await ping()

        monkeypatch.setattr(feed, "ping", late)
        await eventually(lambda: pinged >= 2)
        assert states == []
        cut.freeze()
        await eventually(lambda: states)
        assert "did not answer within 0.5 s" in states[0].error.message


async def test_a_session_that_the_server_has_forgotten_is_opened_anew_at_once() -> None:
    library = Library()
    async with on_the_web(library) as url:
        client = connect(url, era="legacy", config=FAR_APART)
        await client.connect()
        await client.subscribe(ONE)
        await client.read_resource(ONE)
        states = hear(client, StateChanged)
        for session in library.server.session_manager._server_instances.copy():
            del library.server.session_manager._server_instances[session]  # As after a restart.
        with anyio.fail_after(SECONDS):
            call = await client.call_tool("t1")
        assert call.success
        assert library.asked["t1"] == 1
        assert isinstance(states[0].error, SessionExpired)
        assert steps(states) == [
            "connected connection_lost error",
            "error reconnect connecting",
            "connecting handshake_complete connected",
        ]
        with anyio.fail_after(SECONDS):
            await client.wait_fresh()
            heard = hear(client, ResourceUpdated)
            await library.write(ONE, "new")
            await eventually(lambda: heard)
        await client.aclose()


@ERAS
async def test_a_server_that_starts_anew_on_its_port_is_found_again(era: str) -> None:
    first, second = Library(), Library()
    second.texts[ONE] = "of the second"
    async with on_the_web(first) as url:
        client = connect(url, era=era, config=FOR_EVER)
        await client.connect()
        seen: list[str] = []

        async def watch() -> None:
            async for read in client.watch(ONE):
                seen.append(read.text)  # noqa: PERF401 - each as it comes

        watching = asyncio.create_task(watch())
        await eventually(lambda: seen)
    async with on_the_web(second, port=int(url.split(":")[2].split("/")[0])):
        await eventually(lambda: seen[-1] == "of the second")
        with anyio.fail_after(SECONDS):
            await client.wait_fresh()
            await client.call_tool("t1")
        assert second.asked["t1"] == 1
        watching.cancel()
        await client.aclose()


@pytest.mark.parametrize("era", ["auto", pytest.param("legacy", marks=pytest.mark.thorough)])
async def test_a_command_that_dies_is_started_again(era: str) -> None:
    command = [sys.executable, "-m", "tests.client.peers", "live"]
    options: Any = {"env": environment(), "cwd": ROOT}
    async with connect(command, era=era, config=FOR_EVER, **options) as client:
        await client.subscribe("city://oslo")
        await client.call_tool("write", {"uri": "city://oslo", "text": "snow"})
        states = hear(client, StateChanged)
        (child,) = programs()
        os.kill(child.pid, signal.SIGKILL)
        await eventually(lambda: len(states) >= 3)
        await eventually(lambda: client.connected)
        assert steps(states)[0] == "connected connection_lost error"
        (other,) = programs()
        assert other.pid != child.pid
        with anyio.fail_after(SECONDS):
            heard = hear(client, ResourceUpdated)
            await client.wait_fresh()
            await client.call_tool("write", {"uri": "city://oslo", "text": "rain"})
            await eventually(lambda: heard)
            assert (await client.read_resource("city://oslo")).text == "rain"


@ERAS
async def test_the_server_hears_the_name_and_the_capabilities_of_the_program(era: str) -> None:
    heard: list[Any] = []

    async def tools(ctx: Any, _: Any) -> types.ListToolsResult:
        heard.append(ctx.session.client_params)
        return types.ListToolsResult(tools=[])

    options: Any = {"experimental": {"com.example.x": {"a": 1}}, "extensions": {"com.example/y": {}}}
    program = types.Implementation(name="program", version="7")
    async with connect(Server("s", on_list_tools=tools), era=era, client_info=program, **options):
        params = heard[0]
        assert params.client_info == program
        assert params.capabilities.experimental == options["experimental"]
        tasks = {} if era == "legacy" else {"io.modelcontextprotocol/tasks": {}}
        assert params.capabilities.extensions == {**tasks, **options["extensions"]}
