"""Whose clock stands still while a person is asked, and for how long."""

import asyncio

import anyio
import pytest

from tests.client.asking import Asking, Clock
from tests.client.curious import Curious, asked
from tests.client.library import ERAS, connected, eventually, hear
from tests.server.serving import serving
from tidings.client import ClientConfig, LiveClient, Timeouts, connect
from tidings.client.events import PendingSettled
from tidings.errors import AnswerTimedOut, RequestTimedOut, TidingsError

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

PATIENT = ClientConfig(timeouts=Timeouts(request=60, total=100, answer=300, ping_interval=10_000))
TIMED_OUT = "Request timed out waiting for user response"


@ERAS
async def test_a_person_who_does_not_answer_in_time_is_not_waited_for(
    era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked(era, answer="ask", config=PATIENT) as client:
        clock = Clock(monkeypatch)
        settled = hear(client, PendingSettled)
        calling = asyncio.create_task(outcome_of_the_clock(client, "greet"))
        await eventually(lambda: len(client.pending))
        await clock.move(299)
        assert not settled
        await clock.move(2)
        await eventually(calling.done)
        assert TIMED_OUT in calling.result()
        assert isinstance(settled[0].outcome, AnswerTimedOut)
        assert len(client.pending) == 0


async def outcome_of_the_clock(client: LiveClient, tool: str) -> str:
    """As `outcome`, with no time limit of the test's own."""
    try:
        return str((await client.call_tool(tool)).result)
    except TidingsError as error:
        return f"{type(error).__name__}: {error.message}"


@ERAS
@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_the_clock_of_a_request_stands_still_while_a_person_is_asked(
    era: str, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked(era, transport, answer="ask", config=PATIENT) as client:
        clock = Clock(monkeypatch)
        calling = asyncio.create_task(client.call_tool("greet"))
        await eventually(lambda: len(client.pending))
        await clock.move(250)
        assert not calling.done()
        (request,) = client.pending
        client.pending.resolve(request.id, {"name": "Ada"})
        await eventually(calling.done)
        assert "Ada" in str(calling.result().result)


@ERAS
async def test_the_clock_of_another_request_runs_while_a_person_is_asked(
    era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ClientConfig(timeouts=PATIENT.timeouts, concurrency=2)
    server = Asking()
    begun = anyio.Event()

    @server.tool()
    async def wait() -> None:
        begun.set()
        await anyio.sleep_forever()

    async with serving(server.streamable_http_app()) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with connect(url, era=era, answer="ask", config=config) as client:
            clock = Clock(monkeypatch)
            waiting = asyncio.create_task(client.call_tool("wait"))
            await begun.wait()
            calling = asyncio.create_task(client.call_tool("greet"))
            await eventually(lambda: len(client.pending))
            await clock.move(61)
            await eventually(waiting.done)
            assert isinstance(waiting.exception(), RequestTimedOut)
            (request,) = client.pending
            client.pending.resolve(request.id, {"name": "Ada"})
            await eventually(calling.done)
            assert "Ada" in str(calling.result().result)


async def test_after_the_answer_the_clock_of_the_request_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Curious()
    library.gates["t1"] = anyio.Event()
    async with connected(library, answer="ask", config=PATIENT) as client:
        clock = Clock(monkeypatch)
        calling = asyncio.create_task(client.call_tool("t1"))
        await eventually(lambda: len(client.pending))
        await clock.move(200)
        (request,) = client.pending
        client.pending.resolve(request.id, {"name": "Ada"})
        await eventually(lambda: library.running["t1"])
        await clock.move(59)
        assert not calling.done()
        await clock.move(2)
        with pytest.raises(RequestTimedOut):
            await calling
