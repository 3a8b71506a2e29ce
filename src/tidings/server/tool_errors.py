"""Tools that take their arguments exactly, and say in plain words what is wrong with a call.

For servers that are used by language models: one of them corrects itself by what it is told, and must not believe that
something was heeded that was dropped. A server takes this on by itself; others behave as the SDK's do.
"""

import json
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, cast

from mcp.server.lowlevel.server import LifespanResultT
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult, InputRequiredResult
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tidings.server.adapters import McpServerAdapter

Place = tuple[int | str, ...]
"""The keys and numbers that lead to a value, from the arguments on."""

_SHOWN: Final = 60
"""How many characters are shown of a value that is wrong."""

_EXPECTED: Final = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
"""What was expected, in the words of JSON; by the types of pydantic's errors."""


_COUNTED: Final = ("too_short", "too_long")
"""The types of errors that are of how many there are in a list."""


class ExactTools(MCPServer[LifespanResultT]):
    """A server whose tools refuse arguments that they do not have, and whose refusals are sentences.

    To be named before the server's own class: `class MyServer(ExactTools[None], LiveServer[None])`.
    """

    def add_tool(self, fn: Callable[..., Any], name: str | None = None, *args: Any, **options: Any) -> None:
        """Add a tool, as `MCPServer.add_tool` does. Its schema says that there are no further arguments."""
        super().add_tool(fn, name, *args, **options)
        _make_exact(self._offered()[name or fn.__name__])

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[LifespanResultT, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool by name with arguments.

        Raises:
            ToolError: There is no such tool, the arguments are not what it takes, or it refuses. The message is for
                whoever called, and begins with nothing else.
            UnexpectedToolError: It failed in a way that nobody foresaw.
        """
        tools = self._offered()
        tool = tools.get(name)
        if tool is None:
            raise ToolError(f"There is no tool {name!r}. {did_you_mean(name, tools)}")
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError:
            raise
        except ToolError as error:
            match error.__cause__:
                case ValidationError() as cause:
                    raise ToolError(explained(cause, tool.parameters)) from cause
                case None:
                    raise
                case cause:
                    raise ToolError(str(cause)) from cause

    def _offered(self) -> dict[str, Tool]:
        return McpServerAdapter(self).items("tool")


def explained(error: ValidationError, schema: Mapping[str, Any]) -> str:
    """What is wrong with a tool's arguments, a sentence or two for each mistake.

    Args:
        error: What pydantic found.
        schema: What the tool takes, as JSON schema.
    """
    problems = error.errors(include_url=False)
    known = {problem["loc"]: _names_at(schema, problem["loc"][:-1]) for problem in problems}
    # One mistake, though two were found: a key that is missing stands there under a wrong name.
    misspelt = {
        (*place[:-1], near[0])
        for problem in problems
        if problem["type"] == "extra_forbidden" and (near := nearest(str((place := problem["loc"])[-1]), known[place]))
    }
    told = [_told(problem, known[problem["loc"]]) for problem in problems if problem["loc"] not in misspelt]
    return "\n".join(told)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Which of the known names comes nearest to one that is not there; all of them if none is near."""
    names = list(known)
    if near := nearest(name, names):
        return f"Did you mean {near[0]!r}?"
    return f"There are: {', '.join(names)}." if names else "There are none."


def _make_exact(tool: Tool) -> None:
    model = tool.fn_metadata.arg_model
    exact = types.new_class(model.__name__, (model,), {"extra": "forbid"})
    tool.fn_metadata.arg_model = cast("type[Any]", exact)
    tool.parameters = tool.fn_metadata.arg_model.model_json_schema(by_alias=True)


def _told(problem: ErrorDetails, known: Sequence[str]) -> str:
    place = problem["loc"]
    within, name = _in_words(place[:-1]), str(place[-1]) if place else ""
    kind = "key" if within else "argument"
    if problem["type"] == "extra_forbidden":
        return f"{within}There is no {kind} {name!r}. {did_you_mean(name, known)}"
    if problem["type"] == "missing":
        return f"{within}The {kind} {name!r} is missing."
    which = _in_words(place).removesuffix(": ") or "The arguments"
    if problem["type"] in _COUNTED:
        bound = problem.get("ctx", {})
        most = bound.get("max_length")
        count = f"at most {most}" if most is not None else f"{bound.get('min_length')} or more"
        return f"{which} should have {count}, not {bound.get('actual_length')}."
    expected = _EXPECTED.get(problem["type"]) or problem["msg"].partition("Input should be ")[2]
    if not expected:
        return f"{which}: {problem['msg'].removeprefix('Value error, ')}."
    return f"{which} should be {expected}, not {_shown(problem['input'])}."


def _in_words(place: Place) -> str:
    """Where a value is: `edits, item 2, section: `; empty for the arguments themselves."""
    words = [f"item {part + 1}" if isinstance(part, int) else part for part in place]
    return f"{', '.join(words)}: " if words else ""


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def nearest(name: str, known: Sequence[str]) -> list[str]:
    """The nearest of some names, if one is near. `ifMatch` is as good as `if_match`."""
    plain = {_letters(each): each for each in known}
    return [plain[each] for each in get_close_matches(_letters(name), plain, n=1, cutoff=0.6)]


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


def _names_at(schema: Mapping[str, Any], place: Place) -> list[str]:
    """The names of what may stand at a place; none where the schema leaves that open."""
    part = schema
    for step in place:
        part = _resolved(part, schema)
        part = part.get("items", {}) if isinstance(step, int) else part.get("properties", {}).get(step, {})
    return list(_resolved(part, schema).get("properties", {}))


def _resolved(part: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = str(part.get("$ref", "")).removeprefix("#/$defs/")
    return schema.get("$defs", {}).get(name, part)
