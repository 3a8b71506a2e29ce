"""Prompts that say in plain words what is wrong with how they were asked for, as `tool_errors.py` does for tools.

For servers whose prompts people choose and language models fill in: one sentence with the nearest name, and nothing in
the log of the server, whose fault it is not. A server takes this on by itself; others behave as the SDK's do.
"""

from collections.abc import Iterable
from typing import Any

from mcp.server.lowlevel.server import LifespanResultT
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts import Prompt
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, GetPromptResult, InputRequiredResult
from pydantic import ValidationError

from tidings.server.adapters import McpServerAdapter
from tidings.server.tool_errors import did_you_mean, explained, nearest


class ExactPrompts(MCPServer[LifespanResultT]):
    """A server whose prompts refuse arguments that they do not have, and whose refusals are sentences.

    To be named before the server's own class: `class MyServer(ExactPrompts[None], LiveServer[None])`.
    """

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[LifespanResultT, Any] | None = None
    ) -> GetPromptResult | InputRequiredResult:
        """Get a prompt by name with arguments.

        Raises:
            MCPError: There is no such prompt, the arguments are not what it takes, or it refuses.
            ValueError: It failed in a way that nobody foresaw.
        """
        prompts: dict[str, Prompt] = McpServerAdapter(self).items("prompt")
        prompt = prompts.get(name)
        if prompt is None:
            raise MCPError(INVALID_PARAMS, f"There is no prompt {name!r}. {did_you_mean(name, prompts)}")
        if told := " ".join(_wrong(prompt, arguments or {})):
            raise MCPError(INVALID_PARAMS, told)
        try:
            return await super().get_prompt(name, arguments, context)
        except ValueError as error:
            rendering = error.__cause__
            if rendering is None or not isinstance(cause := rendering.__cause__, ValidationError):
                raise
            raise MCPError(INVALID_PARAMS, explained(cause, {})) from cause


def _wrong(prompt: Prompt, given: Iterable[str]) -> list[str]:
    """What is wrong with the names of some arguments, a sentence for each."""
    known = {argument.name: argument.required for argument in prompt.arguments or ()}
    unknown = [name for name in given if name not in known]
    # One mistake, though two were found: an argument that is missing stands there under a wrong name.
    meant = {near for name in unknown for near in nearest(name, list(known))}
    missing = [name for name, required in known.items() if required and name not in {*given, *meant}]
    return [
        *(f"There is no argument {name!r}. {did_you_mean(name, known)}" for name in unknown),
        *(f"The argument {name!r} is missing." for name in missing),
    ]
