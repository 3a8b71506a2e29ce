"""Tools and prompts that check their arguments exactly, explain errors in sentences, and have short schemas.

For servers that are used by language models: a model corrects itself by what an error says, must not believe that an
argument was used that was dropped, and pays for each character of a schema.
"""

import inspect
import json
import types
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, Final, cast

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolResult,
    ContentBlock,
    GetPromptResult,
    InputRequiredResult,
    ToolAnnotations,
)
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tidings._kit.suggest import closest, did_you_mean, letters, there_are
from tidings._kit.text import shortened
from tidings.server.adapters import McpServerAdapter
from tidings.server.server import LiveServer

ToolFunction = Callable[..., Awaitable[CallToolResult | InputRequiredResult]]

_Location = tuple[int | str, ...]  # The keys and indexes that lead from the arguments to a value.
_LONGEST_VALUE: Final = 61

# The words of JSON for pydantic's error types.
_EXPECTED: Final = {
    "string_type": "a string",
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


class ExactServer(LiveServer[None]):
    """A live server that checks and explains the calls of its tools and prompts."""

    @property
    def tools_by_name(self) -> dict[str, Tool]:
        return McpServerAdapter(self).items("tool")

    def add_tool(self, fn: Callable[..., Any], name: str | None = None, *args: Any, **options: Any) -> None:
        """Adds a tool that refuses unknown arguments. See `MCPServer.add_tool`."""
        super().add_tool(fn, name, *args, **options)
        tool = self.tools_by_name[name or fn.__name__]
        model = tool.fn_metadata.arg_model
        exact = types.new_class(model.__name__, (model,), {"extra": "forbid"})
        tool.fn_metadata.arg_model = cast("type[Any]", exact)
        tool.parameters = tool.fn_metadata.arg_model.model_json_schema(by_alias=True)

    def add_documented_tool(
        self,
        function: ToolFunction,
        title: str,
        hints: ToolAnnotations,
        refusals_told: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Adds a tool with short schemas. Its docstring is its description. Each call runs inside `refusals_told`."""

        @wraps(function)
        async def call(**arguments: Any) -> CallToolResult | InputRequiredResult:
            with refusals_told():
                return await function(**arguments)

        description = " ".join((inspect.getdoc(function) or "").split())
        self.add_tool(call, title=title, description=description, annotations=hints)
        tool = self.tools_by_name[function.__name__]
        tool.parameters = compact(tool.parameters)
        if tool.fn_metadata.output_schema is not None:
            tool.fn_metadata.output_schema = compact(tool.fn_metadata.output_schema, described=False)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Calls a tool. Raises `ToolError` with a message for the caller. Other failures are `UnexpectedToolError`s."""
        tools = self.tools_by_name
        if name not in tools:
            raise ToolError(f"There is no tool {name!r}.{_suggestion(name, tools)}")
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError:
            raise
        except ToolError as error:
            match error.__cause__:
                case ValidationError() as cause:
                    raise ToolError(explained(cause, tools[name].parameters)) from cause
                case None:
                    raise
                case cause:
                    raise ToolError(str(cause)) from cause

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[None, Any] | None = None
    ) -> GetPromptResult | InputRequiredResult:
        """Returns a prompt. Raises `MCPError` with a message for the caller, or `ValueError` for other failures."""
        prompts: dict[str, Prompt] = McpServerAdapter(self).items("prompt")
        if name not in prompts:
            raise MCPError(INVALID_PARAMS, f"There is no prompt {name!r}.{_suggestion(name, prompts)}")
        given = list(arguments or ())
        known = {argument.name: argument.required for argument in prompts[name].arguments or ()}
        extra = [each for each in given if each not in known]
        meant = {close for each in extra for close in closest(each, known, key=letters)}
        missing = [each for each, required in known.items() if required and each not in {*given, *meant}]
        problems = [f"There is no argument {each!r}.{_suggestion(each, known)}" for each in extra]
        problems += [f"The argument {each!r} is missing." for each in missing]
        if problems:
            raise MCPError(INVALID_PARAMS, " ".join(problems))
        try:
            return await super().get_prompt(name, arguments, context)
        except ValueError as error:
            rendering = error.__cause__
            if rendering is None or not isinstance(cause := rendering.__cause__, ValidationError):
                raise
            raise MCPError(INVALID_PARAMS, explained(cause, {})) from cause

    def add_documented_prompt(
        self, function: Callable[..., Awaitable[list[ContentBlock]]], title: str, refusals: tuple[type[Exception], ...]
    ) -> None:
        """Adds a prompt. Its docstring is its description. The client sees the messages of `refusals` only."""

        @wraps(function)
        async def get(*args: str, **arguments: str) -> list[ContentBlock]:
            try:
                return await function(*args, **arguments)
            except refusals as error:
                raise MCPError(INVALID_PARAMS, str(error)) from error

        self.prompt(title=title, description=" ".join((function.__doc__ or "").split()))(get)


@contextmanager
def refusals_told(kinds: tuple[type[Exception], ...], said: Callable[[Exception], str] = str) -> Generator[None]:
    """Turns errors of these kinds into `ToolError`s, which the caller of a tool reads, in the words of `said`."""
    try:
        yield
    except kinds as error:
        raise ToolError(said(error)) from error


def explained(error: ValidationError, schema: Mapping[str, Any]) -> str:
    """Returns what is wrong with a tool's arguments, a line for each mistake. `schema` is the tool's."""
    problems = error.errors(include_url=False)
    known = {problem["loc"]: _names_at(schema, problem["loc"][:-1]) for problem in problems}
    # A misspelled key is found twice: the wrong name is there, and the right one is missing. That is one mistake.
    misspelled = {
        (*at[:-1], close[0])
        for problem in problems
        if problem["type"] == "extra_forbidden"
        and (close := closest(str((at := problem["loc"])[-1]), known[at], key=letters))
    }
    return "\n".join(
        _sentence(problem, known[problem["loc"]]) for problem in problems if problem["loc"] not in misspelled
    )


def _suggestion(name: str, known: Iterable[str]) -> str:
    names = list(known)
    return did_you_mean(name, names, key=letters) or there_are(names, most=None)


def _sentence(problem: ErrorDetails, known: Sequence[str]) -> str:
    at = problem["loc"]
    within, name = _in_words(at[:-1]), str(at[-1]) if at else ""
    kind = "key" if within else "argument"
    if problem["type"] == "extra_forbidden":
        return f"{within}There is no {kind} {name!r}.{_suggestion(name, known)}"
    if problem["type"] == "missing":
        return f"{within}The {kind} {name!r} is missing."
    which = _in_words(at).removesuffix(": ") or "The arguments"
    if problem["type"] in ("too_short", "too_long"):
        bound = problem.get("ctx", {})
        most = bound.get("max_length")
        count = f"at most {most}" if most is not None else f"{bound.get('min_length')} or more"
        return f"{which} should have {count}, not {bound.get('actual_length')}."
    expected = _EXPECTED.get(problem["type"]) or problem["msg"].partition("Input should be ")[2]
    if not expected:
        return f"{which}: {problem['msg'].removeprefix('Value error, ')}."
    given = shortened(json.dumps(problem["input"], ensure_ascii=False, default=str), _LONGEST_VALUE)
    return f"{which} should be {expected}, not {given}."


def _in_words(at: _Location) -> str:
    """Returns a location as `edits, item 2, section: `; empty for the arguments themselves."""
    words = [f"item {part + 1}" if isinstance(part, int) else part for part in at]
    return f"{', '.join(words)}: " if words else ""


def _names_at(schema: Mapping[str, Any], at: _Location) -> list[str]:
    """Returns the keys that a schema has at a location; none where it allows any."""
    part = schema
    for step in at:
        part = _resolved(part, schema)
        part = part.get("items", {}) if isinstance(step, int) else part.get("properties", {}).get(step, {})
    return list(_resolved(part, schema).get("properties", {}))


def _resolved(part: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = str(part.get("$ref", "")).removeprefix("#/$defs/")
    return schema.get("$defs", {}).get(name, part)


def compact(schema: dict[str, Any], *, described: bool = True) -> dict[str, Any]:
    """Returns a schema without titles, empty defaults and references, and unless `described` without descriptions."""
    drop = {"title", "$defs"} if described else {"title", "$defs", "description"}
    definitions = cast("dict[str, dict[str, Any]]", schema.get("$defs", {}))

    def shorter(part: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in part:
            # What stands beside a reference is about this use of it.
            part = definitions[part["$ref"].removeprefix("#/$defs/")] | {k: v for k, v in part.items() if k != "$ref"}
        return {
            key: inside(key, value)
            for key, value in _without_null(part).items()
            if key not in drop and not (key == "default" and value in ("", None, False))
        }

    def inside(key: str, value: Any) -> Any:
        if key == "properties":
            return {name: shorter(part) for name, part in value.items()}
        if key == "anyOf":
            return [shorter(part) for part in value]
        if key in ("items", "additionalProperties") and value not in (True, False):
            return shorter(cast("dict[str, Any]", value))
        return value

    return shorter(schema)


def _without_null(part: dict[str, Any]) -> dict[str, Any]:
    """Returns an optional value's schema without the null that it has when it is left out."""
    others = [each for each in part.get("anyOf", ()) if each != {"type": "null"}]
    if len(others) != 1 or part.get("default", "") is not None:
        return part
    return others[0] | {key: value for key, value in part.items() if key not in ("anyOf", "default")}
