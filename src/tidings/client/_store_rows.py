"""Invocations as texts, and back.

What the server sent is written as on the wire, so that it can be read back whatever the SDK calls its fields.

May import: `cache`, `invocations`.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from tidings.client.cache import Kind, place_of
from tidings.client.invocations import Invocation, PromptGet, ResourceRead, TemplateRead, ToolCall

_ADAPTERS: Final[dict[str, TypeAdapter[Any]]] = {
    Kind.RESOURCE: TypeAdapter(ResourceRead),
    Kind.TEMPLATE: TypeAdapter(TemplateRead),
    Kind.PROMPT: TypeAdapter(PromptGet),
    Kind.TOOL: TypeAdapter(ToolCall),
}


def encode(invocation: Invocation) -> str | None:
    """The text that stands for `invocation`; None if it holds what no text can, as a program's own argument may."""
    adapter = _ADAPTERS[place_of(invocation)[0]]
    try:
        return adapter.dump_json(invocation, by_alias=True, warnings=False, fallback=_as_dict).decode()
    except PydanticSerializationError:
        return None


def decode(kind: str, key: str, content: str) -> Invocation | None:
    """The invocation that `content` stands for; None if it is of a shape that this version does not know."""
    try:
        invocation: Invocation = _ADAPTERS[kind].validate_json(content)
    except (KeyError, ValidationError):
        return None
    return invocation if place_of(invocation) == (kind, key) else None


def _as_dict(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    raise TypeError(f"{type(value).__name__} is not JSON")
