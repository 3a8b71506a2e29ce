"""JSON read and written without a loss: numbers stay as they are written, whatever their size."""

import json
from collections.abc import Iterator
from typing import Any, cast

WIDTH = 100
"""Characters within which a list or an object is written in one line."""
_DEEPEST = 40
"""Levels that are shown by indentation."""
_GUARDS = (")]}',", ")]}'", "while(1);", "for(;;);")
"""What services put before JSON so that no browser runs it."""


class Number(str):
    """A number, as it is written."""

    __slots__ = ()


class NotJson(ValueError):
    """The text is no JSON, or no parser should see it; the message says why."""


def parsed(text: str) -> Any:
    """The value of `text`.

    Raises:
        NotJson: It has none.
    """
    text = text.strip()
    for guard in _GUARDS:
        text = text.removeprefix(guard)
    try:
        return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=Number, strict=False)
    except RecursionError as error:
        raise NotJson("it is nested too deep") from error
    except json.JSONDecodeError as error:
        raise NotJson(f"line {error.lineno}: {error.msg}") from error


def written(value: Any) -> str:
    """A value in lines of its own, short lists and objects in one each.

    Raises:
        NotJson: It is nested too deep to be written.
    """
    try:
        return "".join(_pieces(value, 0))
    except RecursionError as error:
        raise NotJson("it is nested too deep") from error


def scalar(value: Any) -> str:
    """A value that holds no others, as JSON writes it."""
    if isinstance(value, Number):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def _pieces(value: Any, depth: int) -> Iterator[str]:
    if not isinstance(value, dict | list) or not value:
        yield "{}" if value == {} else "[]" if value == [] else scalar(value)
        return
    short = _short(cast("Any", value), WIDTH - 2 * min(depth, _DEEPEST))
    if short is not None:
        yield short
        return
    indent = "  " * min(depth + 1, _DEEPEST)
    between = ""
    if isinstance(value, dict):
        yield "{"
        for key, inner in cast("dict[str, Any]", value).items():
            yield f"{between}\n{indent}{scalar(key)}: "
            yield from _pieces(inner, depth + 1)
            between = ","
    else:
        yield "["
        for inner in cast("list[Any]", value):
            yield f"{between}\n{indent}"
            yield from _pieces(inner, depth + 1)
            between = ","
    yield "\n" + indent[2:] + ("}" if isinstance(value, dict) else "]")


def _short(value: dict[str, Any] | list[Any], room: int) -> str | None:
    """The value in one line, if it holds nothing that holds others and the line is not too long."""
    if len(value) * 3 > room:
        return None
    keys: Any = value if isinstance(value, dict) else [None] * len(value)
    inner: Any = value.values() if isinstance(value, dict) else value
    parts: list[str] = []
    for key, one in zip(keys, inner, strict=True):
        if isinstance(one, dict | list) or (isinstance(one, str) and len(one) > room):
            return None
        parts.append(scalar(one) if key is None else f"{scalar(key)}: {scalar(one)}")
        room -= len(parts[-1]) + 2
        if room < 0:
            return None
    return "{" + ", ".join(parts) + "}" if isinstance(value, dict) else "[" + ", ".join(parts) + "]"
