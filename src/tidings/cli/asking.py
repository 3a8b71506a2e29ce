"""Who answers what a server asks during a one-shot command: a script, the person at the terminal, or nobody.

A person is asked on standard error and answers on standard input, line by line: a form field by field, each checked
before the next. Nobody else types there meanwhile, and Ctrl-C ends it as it ends everything.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any, Final, cast

import click
from mcp_types import CreateMessageRequestParams, ElicitResult, TextContent

from tidings.cli.exits import OneShotFailed
from tidings.cli.oneshot import Asked
from tidings.cli.terminal import harmless, styled
from tidings.client.questions import ASK, PendingRequest, Responder, refusal
from tidings.client.responders import script_responder
from tidings.client.schema import fill_in

HOW: Final = "Run the command in a terminal, or give --answers FILE with a script of answers."
_YES: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_turn = asyncio.Lock()


def responder(asked: Asked) -> Responder:
    """The responder of a one-shot command.

    Raises:
        Failed: The script is none.
    """
    try:
        script = None if asked.answers is None else script_responder(asked.answers)
    except ValueError as error:
        raise OneShotFailed(str(error), code="bad-answers") from None

    async def answer(request: PendingRequest) -> Any:
        found = ASK if script is None else script(request)
        if found is not ASK:
            return found
        if request.kind == "roots":
            return []
        if asked.can_ask:
            async with _turn:
                return await ask(request)
        why = "no rule of --answers fits" if asked.answers else "there is no terminal"
        click.echo(f"The server asks ({request.kind}): {harmless(request.message)}\nRefused: {why}. {HOW}", err=True)
        return refusal(f"Nobody can be asked: {why}. {HOW}")

    return answer


async def ask(request: PendingRequest) -> Any:
    """Ask the person at the terminal."""
    _say("")
    if request.kind == "sampling":
        return await _ask_for_a_sample(request)
    _say(styled(f"{harmless(request.server)} asks: ", "note", sys.stderr) + harmless(request.message))
    if request.url is not None:
        return await _ask_to_open(request.url)
    return await _ask_to_fill_in(request.schema or {})


def _say(text: str) -> None:
    click.echo(text, err=True)


async def _line(prompt: str) -> str:
    """A line that the person types.

    Raises:
        EOFError: They typed Ctrl-D instead.
    """
    sys.stderr.write(prompt)
    sys.stderr.flush()
    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
    typed: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        if not typed.done():
            typed.set_result(os.read(fd, 65536))

    loop.add_reader(fd, read)
    try:
        data = await typed
    finally:
        loop.remove_reader(fd)
    if not data:
        raise EOFError
    return data.decode(errors="replace").rstrip("\r\n")


async def _ask_for_a_sample(request: PendingRequest) -> Any:
    params = request.request
    _say(styled(f"{harmless(request.server)} asks a model:", "note", sys.stderr))
    if isinstance(params, CreateMessageRequestParams):
        if params.system_prompt:
            _say(f"  system: {harmless(params.system_prompt)}")
        for message in params.messages:
            for part in message.content_as_list:
                text = part.text if isinstance(part, TextContent) else f"[{part.type}]"
                _say(f"  {message.role}: {harmless(text)}")
    try:
        text = await _line("Answer in its place (nothing declines): ")
    except EOFError:
        text = ""
    return text or refusal("The user declined to answer in the model's place")


async def _ask_to_open(url: str) -> Any:
    _say(f"It wants you to open: {harmless(url)}\nOpen it yourself, if you trust it.")
    try:
        said = (await _line("Have you? [y]es, [d]ecline, [c]ancel: ")).strip().lower()
    except EOFError:
        said = "c"
    if said in ("y", "yes"):
        return ElicitResult(action="accept")
    return ElicitResult(action="decline" if said.startswith("d") else "cancel")


async def _ask_to_fill_in(schema: Mapping[str, Any]) -> Any:
    fields = {name: _mapping(field) for name, field in _mapping(schema.get("properties")).items()}
    required: list[Any] = schema.get("required") or []
    content: dict[str, Any] = {}
    try:
        _say("Return takes what is in [brackets]; Ctrl-D declines.")
        for name, field in fields.items():
            value = await _ask_for_field(name, field, needed=name in required)
            if value is not None:
                content[name] = value
        said = (await _line("Send this? [Y]es, [d]ecline, [c]ancel: ")).strip().lower()
    except EOFError:
        _say("")
        said = "d"
    if said in ("", "y", "yes"):
        return content
    return ElicitResult(action="decline" if said.startswith("d") else "cancel")


async def _ask_for_field(name: str, field: Mapping[str, Any], *, needed: bool) -> Any:
    """Ask until it fits. None leaves it out."""
    label = harmless(str(field.get("title") or name))
    if isinstance(field.get("description"), str):
        _say(styled(f"  {harmless(field['description'])}", "dim", sys.stderr))
    choices = _choices(field) or _choices(_mapping(field.get("items")))
    for number, (value, title) in enumerate(choices, 1):
        _say(f"  {number}. {harmless(title)}" + (f" ({harmless(str(value))})" if title != str(value) else ""))
    default = field.get("default")
    hint = f" [{harmless(str(default))}]" if default is not None else "" if needed else " [leave out]"
    while True:
        text = (await _line(f"{label}{'*' if needed else ''}{hint}: ")).strip()
        if not text and default is not None:
            return default
        if not text and not needed:
            return None
        if not text:
            _say(styled("  This one is needed.", "bad", sys.stderr))
            continue
        try:
            value = _value(text, field, choices)
            fill_in({"properties": {name: field}}, {name: value})
        except ValueError as error:
            _say(styled(f"  {harmless(str(error))}", "bad", sys.stderr))
        else:
            return value


def _value(text: str, field: Mapping[str, Any], choices: list[tuple[Any, str]]) -> Any:
    """What was typed, as the form wants it."""
    match field.get("type"):
        case "boolean":
            if text.lower() not in _YES:
                raise ValueError("Type yes or no.")
            return _YES[text.lower()]
        case "integer" | "number" as kind:
            try:
                return int(text) if kind == "integer" else float(text)
            except ValueError:
                raise ValueError(f"Type {'a whole number' if kind == 'integer' else 'a number'}.") from None
        case "array":
            return [_chosen(part.strip(), choices) for part in text.split(",") if part.strip()]
        case _:
            return _chosen(text, choices)


def _chosen(text: str, choices: list[tuple[Any, str]]) -> Any:
    """A choice may be typed by its number, its title or its value."""
    values = [value for value, _ in choices]
    if text not in values and text.isdigit() and 1 <= int(text) <= len(choices):
        return values[int(text) - 1]
    return next((value for value, title in choices if title.casefold() == text.casefold()), text)


def _choices(field: Mapping[str, Any]) -> list[tuple[Any, str]]:
    """What may be chosen, each with its title."""
    plain = field.get("enum")
    if isinstance(plain, list):
        titles: list[Any] = field.get("enumNames") or []
        values = cast("list[Any]", plain)
        return [(value, str(titles[n]) if n < len(titles) else str(value)) for n, value in enumerate(values)]
    for keyword in ("oneOf", "anyOf"):
        options = [_mapping(option) for option in cast("list[Any]", field.get(keyword) or [])]
        if options and all("const" in option for option in options):
            return [(option["const"], str(option.get("title", option["const"]))) for option in options]
    return []


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
