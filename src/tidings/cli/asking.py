"""Answers to a server's questions during a one-shot command: from a script, from the person there, or none."""

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import click
from mcp_types import METHOD_NOT_FOUND, CreateMessageRequestParams, ElicitResult, ErrorData, InputRequest, TextContent
from pydantic import TypeAdapter, ValidationError

from tidings._kit.text import harmless
from tidings.cli.exits import OneShotFailed
from tidings.cli.oneshot import OneShotOptions
from tidings.cli.terminal import styled, typed_line
from tidings.client.pending import ASK, Pending, PendingRequest, Responder, refusal
from tidings.client.responders import script_responder
from tidings.client.schema import fill_in
from tidings.inspector.forms.build import form
from tidings.inspector.forms.model import Field
from tidings.inspector.forms.values import from_texts

HOW: Final = "Run the command in a terminal, or give --answers FILE with a script of answers."
_turn = asyncio.Lock()
_QUESTION: Final[TypeAdapter[InputRequest]] = TypeAdapter(InputRequest)


def responder(options: OneShotOptions) -> Responder:
    """Returns the responder of a one-shot command."""
    try:
        script = None if options.answers is None else script_responder(options.answers)
    except ValueError as error:
        raise OneShotFailed(str(error), code="bad-answers") from None

    async def answer(request: PendingRequest) -> Any:
        found = ASK if script is None else script(request)
        if found is not ASK:
            return found
        if request.kind == "roots":
            return []
        if options.can_ask:
            async with _turn:
                return await ask(request)
        why = "no rule in --answers matches" if options.answers else "there is no terminal"
        click.echo(f"The server asks ({request.kind}): {harmless(request.message)}\nDeclined: {why}. {HOW}", err=True)
        return refusal(f"Nobody can be asked: {why}. {HOW}")

    return answer


def answered(options: OneShotOptions, server: str, question: Mapping[str, Any]) -> dict[str, Any]:
    """Answers one question that is a JSON-RPC request. Returns the `result` or the `error` of its answer."""
    try:
        request: InputRequest = _QUESTION.validate_python(question)
    except ValidationError:
        return {"error": {"code": METHOD_NOT_FOUND, "message": f"This client has no {question.get('method')}."}}
    answer = asyncio.run(Pending(responder=responder(options), server=server).answer(request))
    is_error = isinstance(answer, ErrorData)
    return {"error" if is_error else "result": answer.model_dump(by_alias=True, mode="json", exclude_none=True)}


async def ask(request: PendingRequest) -> Any:
    """Asks the person at the terminal."""
    _print("")
    if request.kind == "sampling":
        return await _ask_for_sample(request)
    _print(styled(f"{harmless(request.server)} asks: ", "note", sys.stderr) + harmless(request.message))
    if request.url is None:
        return await _ask_to_fill_in(request.schema or {})
    _print(f"It asks you to open: {harmless(request.url)}\nOpen it in a browser if you trust it.")
    action = await _choose("Done? [y]es, [d]ecline, [c]ancel: ", default="c", at_end="c")
    return ElicitResult.model_validate({"action": action})


def _print(text: str) -> None:
    click.echo(text, err=True)


async def _choose(prompt: str, *, default: str, at_end: str) -> str:
    """Asks for yes, decline or cancel. Return stands for `default`, Ctrl-D for `at_end`."""
    try:
        said = (await typed_line(prompt)).strip().lower() or default
    except EOFError:
        _print("")
        said = at_end
    if said in ("y", "yes"):
        return "accept"
    return "decline" if said.startswith("d") else "cancel"


async def _ask_for_sample(request: PendingRequest) -> Any:
    params = request.request
    _print(styled(f"{harmless(request.server)} asks for a model's answer:", "note", sys.stderr))
    if isinstance(params, CreateMessageRequestParams):
        if params.system_prompt:
            _print(f"  system: {harmless(params.system_prompt)}")
        for message in params.messages:
            for part in message.content_as_list:
                text = part.text if isinstance(part, TextContent) else f"[{part.type}]"
                _print(f"  {message.role}: {harmless(text)}")
    text = ""
    with suppress(EOFError):
        text = await typed_line("Your answer (empty to decline): ")
    return text or refusal("The user declined to answer in the model's place")


async def _ask_to_fill_in(schema: Mapping[str, Any]) -> Any:
    properties: Mapping[str, Any] = schema.get("properties") or {}
    content: dict[str, Any] = {}
    _print("Press Return to accept the value in [brackets], Ctrl-D to decline.")
    try:
        for field in form(schema).fields:
            value = await _ask_for_field(field, properties[field.name])
            if value is not None:
                content[field.name] = value
    except EOFError:
        _print("")
        return ElicitResult(action="decline")
    action = await _choose("Send this? [Y]es, [d]ecline, [c]ancel: ", default="y", at_end="d")
    return content if action == "accept" else ElicitResult.model_validate({"action": action})


async def _ask_for_field(field: Field, schema: Mapping[str, Any]) -> Any:
    """Asks until the value is valid. None omits the field."""
    if field.description:
        _print(styled(f"  {harmless(field.description)}", "dim", sys.stderr))
    for number, option in enumerate(field.options, 1):
        value = f" ({harmless(str(option.value))})" if option.label != str(option.value) else ""
        _print(f"  {number}. {harmless(option.label)}{value}")
    hint = "" if field.required else " [omit]"
    if field.has_default and field.default is not None:
        hint = f" [{harmless(str(field.default))}]"
    while True:
        text = (await typed_line(f"{harmless(field.label)}{'*' if field.required else ''}{hint}: ")).strip()
        if not text and hint:
            return field.default
        try:
            return _value(text, field, schema)
        except ValueError as error:
            _print(styled(f"  {harmless(str(error))}", "bad", sys.stderr))


def _value(text: str, field: Field, schema: Mapping[str, Any]) -> Any:
    if not text:
        raise ValueError("A value is required.")
    typed: Any = text
    if field.kind in ("multi", "array"):
        typed = [_chosen(part.strip(), field) for part in text.split(",") if part.strip()]
    elif field.kind == "enum":
        typed = _chosen(text, field)
    elif field.kind == "boolean":
        typed = {"y": "yes", "n": "no"}.get(text.lower(), text)
    filled = from_texts(field, typed)
    if filled.problems:
        raise ValueError(filled.problems[0].message)
    fill_in({"properties": {field.name: schema}}, {field.name: filled.value})
    return filled.value


def _chosen(text: str, field: Field) -> Any:
    """Returns the option that was typed by its number or its label; any other text as it is."""
    values = [option.value for option in field.options]
    if text not in values and text.isdigit() and 1 <= int(text) <= len(values):
        return values[int(text) - 1]
    return next((option.value for option in field.options if option.label.casefold() == text.casefold()), text)
