"""A server whose tools ask the user in the way of either era, and an ear for what a registry tells."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

import anyio
import pytest
from mcp import Client
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, ListRoots, MCPServer, Resolve, Sample
from mcp_types import (
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel, Field

from tidings.client.pending import Outcome, Pending, PendingRequest

SECONDS = 20
"""What a busy machine may take for what takes milliseconds."""

URL = "https://example.com/sign-in"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 30}},
    "required": ["name"],
}
FORM = ElicitRequestFormParams(message="Who are you?", requested_schema=SCHEMA)
SAMPLE = CreateMessageRequestParams(
    messages=[SamplingMessage(role="user", content=TextContent(text="The capital of France?"))], max_tokens=100
)
CONTEXT: Any = None
"""What the SDK tells of the request. The registry does not look at it."""


class Person(BaseModel):
    name: str = Field(min_length=1)
    age: int = 30


def ask_person() -> Elicit[Person]:
    return Elicit("Who are you?", Person)


def ask_model() -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(text="The capital of France?"))], max_tokens=100)


def ask_roots() -> ListRoots:
    return ListRoots()


class Asking(MCPServer):
    """The server. `withdraw` ends what `change_mind` asks."""

    def __init__(self) -> None:
        super().__init__("asking")
        self.withdraw = anyio.Event()
        self.add_tool(greet)
        self.add_tool(capital)
        self.add_tool(where)
        self.add_tool(sign_in)
        self.add_tool(sign_in_by_input)
        self.add_tool(ask_two)
        self.tool()(self.change_mind)

    async def change_mind(self, ctx: Context) -> str:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ctx.elicit, "Who are you?", Person)
            await self.withdraw.wait()
            tasks.cancel_scope.cancel()
        return "never mind"


async def greet(answer: Annotated[ElicitationResult[Person], Resolve(ask_person)]) -> str:
    return f"{answer.data.name}, {answer.data.age}" if answer.action == "accept" else answer.action


async def capital(answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    assert isinstance(answer.content, TextContent)
    return f"{answer.role} {answer.model}: {answer.content.text}"


async def where(answer: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    return " ".join(str(root.uri) for root in answer.roots)


async def sign_in(ctx: Context) -> str:
    return (await ctx.elicit_url("Sign in, please", URL, "sign-in-1")).action


async def sign_in_by_input(ctx: Context) -> str | InputRequiredResult:
    answer = (ctx.input_responses or {}).get("sign-in")
    if isinstance(answer, ElicitResult):
        return f"{answer.action} {answer.content}"
    question = ElicitRequest(params=ElicitRequestURLParams(message="Sign in, please", url=URL))
    return InputRequiredResult(input_requests={"sign-in": question})


async def ask_two(ctx: Context) -> str | InputRequiredResult:
    """Two questions at once, as only the modern era can."""
    if ctx.input_responses:
        answers = {key: getattr(answer, "content", None) or {} for key, answer in ctx.input_responses.items()}
        return ", ".join(f"{key}: {answers[key]['answer']}" for key in sorted(answers))
    schema: dict[str, Any] = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    questions = {
        key: ElicitRequest(params=ElicitRequestFormParams(message=key, requested_schema=schema))
        for key in ("first", "second")
    }
    return InputRequiredResult(input_requests=questions)


class Desk:
    """A registry, and what it told, in order."""

    def __init__(self, **settings: Any) -> None:
        self.pending = Pending(asking=self._asking, **settings)
        self.settled: list[tuple[PendingRequest, Outcome]] = []
        self._added: asyncio.Queue[PendingRequest] = asyncio.Queue()
        self._ended = asyncio.Event()

    @contextmanager
    def _asking(self, entry: PendingRequest) -> Generator[None]:
        self._added.put_nowait(entry)
        try:
            yield
        finally:
            self.settled.append((entry, entry.outcome))
            self._ended.set()

    async def added(self) -> PendingRequest:
        """The next entry that was added."""
        with anyio.fail_after(SECONDS):
            return await self._added.get()

    async def ended(self) -> None:
        """Wait until something was settled."""
        with anyio.fail_after(SECONDS):
            await self._ended.wait()

    @property
    def outcome(self) -> Outcome:
        """The only outcome there was."""
        ((_, outcome),) = self.settled
        return outcome

    async def call(self, mode: str, tool: str, answer: Callable[[str], object]) -> CallToolResult:
        """Call a tool that asks something, and answer it."""
        async with connected(Asking(), self.pending, mode) as client:
            calling = asyncio.create_task(client.call_tool(tool))
            answer((await self.added()).id)
            await asyncio.wait([calling], timeout=SECONDS)
        return calling.result()


class Clock:
    """The event loop's clock, to move on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._loop = asyncio.get_running_loop()
        self._moved = 0.0
        real = self._loop.time
        monkeypatch.setattr(self._loop, "time", lambda: real() + self._moved)

    async def move(self, seconds: float) -> None:
        """Let this time pass, and what it brings about happen."""
        self._moved += seconds
        passed = asyncio.Event()
        self._loop.call_at(self._loop.time(), passed.set)  # After all that is due earlier.
        await passed.wait()
        await anyio.wait_all_tasks_blocked()


@asynccontextmanager
async def connected(server: MCPServer, pending: Pending, mode: str) -> AsyncGenerator[Client]:
    async with Client(
        server,
        mode=mode,
        sampling_callback=pending.ask,
        elicitation_callback=pending.ask,
        list_roots_callback=pending.ask,
    ) as client:
        yield client


def text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text
