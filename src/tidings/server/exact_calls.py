"""Tools that take their arguments exactly, and say in plain words what is wrong with a call.

For servers that are used by language models: one of them corrects itself by what it is told, and must not believe that
something was heeded that was dropped. A server takes this on by itself; others behave as the SDK's do.

Prompts that say in plain words what is wrong with how they were asked for, as `tool_errors.py` does for tools.

For servers whose prompts people choose and language models fill in: one sentence with the nearest name, and nothing in
the log of the server, whose fault it is not. A server takes this on by itself; others behave as the SDK's do.

The schemas of tools, without what goes without saying: every agent pays for each character of them.
"""

import json
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, cast

from mcp.server.lowlevel.server import LifespanResultT
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, GetPromptResult, InputRequiredResult
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


def compact_tool(server: MCPServer[Any], name: str) -> None:
    """Make the schemas of one of a server's tools short."""
    tool = McpServerAdapter(server).items("tool")[name]
    tool.parameters = compact(tool.parameters)
    if tool.fn_metadata.output_schema is not None:
        tool.fn_metadata.output_schema = compact(tool.fn_metadata.output_schema, described=False)


def compact(schema: dict[str, Any], *, described: bool = True) -> dict[str, Any]:
    """A JSON schema without what a reader can see for themselves: every agent pays for each character of it.

    Definitions stand where they are used, for clients that do not follow references.
    """
    drop = {"title", "$defs"} if described else {"title", "$defs", "description"}
    definitions = cast("dict[str, dict[str, Any]]", schema.get("$defs", {}))

    def shorter(part: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in part:
            # What is said beside a reference is about this use of it.
            part = definitions[part["$ref"].removeprefix("#/$defs/")] | {k: v for k, v in part.items() if k != "$ref"}
        part = _plain(part)
        return {
            key: inside(key, value) for key, value in part.items() if key not in drop and not _says_nothing(key, value)
        }

    def inside(key: str, value: Any) -> Any:
        if key == "properties":
            return {name: shorter(part) for name, part in value.items()}
        if key == "anyOf":
            return [shorter(part) for part in value]
        return (
            shorter(cast("dict[str, Any]", value))
            if key in ("items", "additionalProperties") and value not in (True, False)
            else value
        )

    return shorter(schema)


def _plain(part: dict[str, Any]) -> dict[str, Any]:
    """What may be left out, without the null that it is then: to leave it out is how one says so."""
    others = [each for each in part.get("anyOf", ()) if each != {"type": "null"}]
    if len(others) != 1 or part.get("default", "") is not None:
        return part
    return others[0] | {key: value for key, value in part.items() if key not in ("anyOf", "default")}


def _says_nothing(key: str, value: Any) -> bool:
    return key == "default" and value in ("", None, False)
