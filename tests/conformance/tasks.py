"""The tools that run as tasks, with the behaviour that the suite's `tasks-*` scenarios describe."""

import anyio
from mcp.server.mcpserver import AcceptedElicitation, Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, InputRequiredResult
from pydantic import BaseModel

from tests.conformance.asking import NAME, ask, filled_in, form
from tidings import LiveServer

WORK = 0.3  # Seconds of what takes a while.


class Consent(BaseModel):
    confirm: bool = False


async def agreed(ctx: Context, question: str) -> bool:
    answer = await ctx.elicit(question, Consent)
    return isinstance(answer, AcceptedElicitation) and answer.data.confirm


def add_tasks(mcp: LiveServer) -> None:
    @mcp.tool()
    def greet(name: str) -> str:
        """Answers at once."""
        return f"Hello, {name}!"

    @mcp.tool(task=True)
    async def slow_compute(seconds: float, label: str = "") -> str:
        """Takes a while."""
        await anyio.sleep(seconds)
        return f"{label or 'It'} took {seconds:g} s."

    @mcp.tool(task="required")
    async def failing_job() -> str:
        """Fails after a while."""
        await anyio.sleep(WORK)
        raise ToolError("This job always fails.")

    @mcp.tool(task=True)
    async def protocol_error_job() -> str:
        """Ends with an error of the protocol."""
        await anyio.sleep(WORK)
        raise MCPError(INTERNAL_ERROR, "This job breaks the protocol.")

    @mcp.tool(task=True)
    async def confirm_delete(filename: str, ctx: Context) -> str:
        """Asks in the middle of its work."""
        return f"Deleted {filename}." if await agreed(ctx, f"Delete {filename}?") else f"Kept {filename}."

    @mcp.tool(task=True)
    async def multi_input(ctx: Context) -> str:
        """Asks two things at once."""
        answers: list[bool] = []

        async def ask_for(what: str) -> None:
            answers.append(await agreed(ctx, f"Use {what}?"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_for, "the first")
            tasks.start_soon(ask_for, "the second")
        return f"{sum(answers)} of 2 are used."

    @mcp.tool(task="required")
    async def test_tool_with_task(ctx: Context) -> str | InputRequiredResult:
        """Asks before its work, which then takes a while."""
        name = filled_in(ctx, "user_name", "name")
        if name is None:
            return ask({"user_name": form("What is your name?", NAME)})
        await anyio.sleep(WORK)
        return f"Worked for {name}."
