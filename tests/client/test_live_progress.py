"""How long a request may take, whatever it asks for: the server's progress gives it more time, but not for ever."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp_types import ElicitRequest, InputRequiredResult, PromptReference

from tests.client.asking import FORM, Clock
from tests.client.library import ERAS, SECONDS, Library, connected, eventually, hear, on_the_web
from tests.client.peers import MODERN
from tidings.client import ClientConfig, LiveClient, Timeouts, connect
from tidings.client.events import ProgressMade
from tidings.errors import RequestTimedOut

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

PLACE = PromptReference(name="p1")
ASKED: dict[str, tuple[str, Callable[[LiveClient], Awaitable[Any]]]] = {
    "tools/call": ("t1", lambda client: client.call_tool("t1")),
    "resources/read": ("note://1", lambda client: client.read_resource("note://1")),
    "a template": ("a://1", lambda client: client.read_resource_from_template("a://{x}", {"x": "1"})),
    "prompts/get": ("p1", lambda client: client.get_prompt("p1")),
    "completion/complete": (
        "completion/complete",
        lambda client: client.complete(PLACE, {"name": "x", "value": "y"}),
    ),
    "tools/list": ("tools/list", lambda client: client.list_tools()),
}
"""What a client may ask for: what the server calls it, and how it is asked for."""
REQUESTS = pytest.mark.parametrize(
    ("transport", "request_of"),
    [*(("memory", each) for each in ASKED), ("http", "resources/read"), ("http", "prompts/get")],
)


class Slow(Library):
    """A server that tells of each step that a test lets it take, with one thing that it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: asyncio.Queue[bool] = asyncio.Queue()
        self.slow = ""
        self.tools = ["t1", "t2"]  # All of them on one page.

    @asynccontextmanager
    async def _asked(self, ctx: Any, what: str) -> AsyncGenerator[None]:
        async with super()._asked(ctx, what):
            while what == self.slow and await self.steps.get():
                await ctx.session.report_progress(1.0, 2.0, "a step")
            yield


@asynccontextmanager
async def reached(library: Library, era: str, transport: str, **options: Any) -> AsyncGenerator[LiveClient]:
    if transport == "memory":
        async with connected(library, era, **options) as client:
            yield client
        return
    async with on_the_web(library) as url, connect(url, era=era, **options) as client:
        yield client


def patient(**limits: Any) -> ClientConfig:
    return ClientConfig(timeouts=Timeouts(**{"request": 60, "total": 300, "ping_interval": 10_000, **limits}))


class Asked:
    """Something that was asked for, and a clock to move while the server is slow with it."""

    def __init__(self, library: Slow, client: LiveClient, request_of: str, monkeypatch: pytest.MonkeyPatch) -> None:
        library.slow, self._ask = ASKED[request_of]
        self._library, self._client = library, client
        self.clock = Clock(monkeypatch)
        self.told = hear(client, ProgressMade)
        self.answer: asyncio.Future[Any]

    async def begin(self) -> None:
        self.answer = asyncio.ensure_future(self._ask(self._client))
        await eventually(lambda: self._library.running[self._library.slow])

    async def step(self) -> None:
        """The server says how far it is, and the client hears it."""
        heard = len(self.told)
        self._library.steps.put_nowait(True)
        await eventually(lambda: len(self.told) > heard)

    def finish(self) -> None:
        self._library.steps.put_nowait(False)


@ERAS
@REQUESTS
async def test_a_request_whose_progress_is_told_may_take_longer_than_its_time(
    era: str, transport: str, request_of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Slow()
    async with reached(library, era, transport, config=patient()) as client:
        asked = Asked(library, client, request_of, monkeypatch)
        await asked.begin()
        for _ in range(3):
            await asked.clock.move(40)
            await asked.step()
        asked.finish()
        with anyio.fail_after(SECONDS):
            assert await asked.answer
        method = {"a template": "resources/read"}.get(request_of, request_of)
        assert [(made.entry.method, made.progress, made.total, made.message) for made in asked.told] == [
            (method, 1.0, 2.0, "a step")
        ] * 3


@ERAS
@REQUESTS
async def test_a_request_ends_when_no_progress_is_told_for_as_long_as_its_time(
    era: str, transport: str, request_of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Slow()
    async with reached(library, era, transport, config=patient()) as client:
        asked = Asked(library, client, request_of, monkeypatch)
        await asked.begin()
        await asked.clock.move(40)
        await asked.step()
        await asked.clock.move(40)
        assert not asked.answer.done()
        await asked.clock.move(21)
        with anyio.fail_after(SECONDS), pytest.raises(RequestTimedOut):
            await asked.answer


@ERAS
@REQUESTS
async def test_no_progress_lets_a_request_take_longer_than_it_may_in_all(
    era: str, transport: str, request_of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Slow()
    async with reached(library, era, transport, config=patient(total=100)) as client:
        asked = Asked(library, client, request_of, monkeypatch)
        await asked.begin()
        for _ in range(3):
            assert not asked.answer.done()
            await asked.clock.move(33)
            await asked.step()
        await asked.clock.move(2)
        with anyio.fail_after(SECONDS), pytest.raises(RequestTimedOut):
            await asked.answer


class Questioning(Slow):
    """A server that asks the user in between, in the way of either era, and is slow before and after."""

    async def _question(self, ctx: Any, params: Any) -> InputRequiredResult | None:
        if ctx.protocol_version == MODERN and params.input_responses is None:
            await self._walk(ctx)
            return InputRequiredResult(input_requests={"who": ElicitRequest(params=FORM)})
        if ctx.protocol_version != MODERN:
            await self._walk(ctx)
            await ctx.session.elicit_form(FORM.message, FORM.requested_schema, ctx.request_id)
        return None

    async def _walk(self, ctx: Any) -> None:
        async with self.counted(self.slow):
            while await self.steps.get():
                await ctx.session.report_progress(1.0, 2.0, "a step")

    async def _read(self, ctx: Any, params: Any) -> Any:
        return await self._question(ctx, params) or await super()._read(ctx, params)

    async def _get_prompt(self, ctx: Any, params: Any) -> Any:
        return await self._question(ctx, params) or await super()._get_prompt(ctx, params)

    async def call_tool(self, ctx: Any, params: Any) -> Any:
        return await self._question(ctx, params) or await super().call_tool(ctx, params)


@ERAS
@pytest.mark.parametrize("transport", ["memory", "http"])
@pytest.mark.parametrize("request_of", ["tools/call", "resources/read", "prompts/get"])
async def test_progress_counts_before_and_after_the_server_asked_the_user_something(
    era: str, transport: str, request_of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Questioning()
    async with reached(library, era, transport, config=patient(total=1000), answer="ask") as client:
        asked = Asked(library, client, request_of, monkeypatch)
        await asked.begin()
        for _ in range(2):
            await asked.clock.move(40)
            await asked.step()
        asked.finish()
        await eventually(lambda: len(client.pending))
        await asked.clock.move(200)
        (question,) = client.pending
        client.pending.resolve(question.id, {"name": "Ada"})
        await eventually(lambda: library.running[library.slow] == 1 and not len(client.pending))
        for _ in range(2):
            await asked.clock.move(40)
            await asked.step()
        asked.finish()
        with anyio.fail_after(SECONDS):
            assert await asked.answer
        assert len(asked.told) == 4
        assert len({made.entry for made in asked.told}) == 1


@ERAS
async def test_the_time_in_all_runs_while_a_request_waits_for_its_turn(
    era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Slow()
    async with connected(library, era, config=patient(total=100)) as client:
        first = Asked(library, client, "tools/call", monkeypatch)
        await first.begin()
        await first.clock.move(50)
        await first.step()
        waiting = asyncio.create_task(client.call_tool("t2"))
        await eventually(lambda: client.queue.status().pending)
        client._wiring.requests.hold(None)  # As if a person were asked, whose time is not counted.
        await first.clock.move(99)
        assert not waiting.done()
        await first.clock.move(2)
        with anyio.fail_after(SECONDS), pytest.raises(RequestTimedOut, match="for its turn"):
            await waiting
        assert library.asked["t2"] == 0
        assert client.queue.status().failed == 1
        assert not first.answer.done()
        first.answer.cancel()
