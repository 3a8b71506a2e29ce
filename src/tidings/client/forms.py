"""What a person filled in, made complete and checked against the form that the server asked for.

A form is a flat JSON Schema: fields that are texts, numbers, yes or no, or choices. The checks are made here rather
than by a general validator because the schema comes from the server: no pattern of its making is run, and no address
in it is fetched. What the protocol does not allow in a form is not checked; the server has to judge it.

Messages name the field and never repeat the value, which may be nobody else's business.
"""

import copy
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, Final, cast
from urllib.parse import urlsplit

Value = str | int | float | bool | list[str]

_NAMES: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list of texts",
}

_LIMITS: Final[tuple[tuple[str, type | tuple[type, ...], bool, str], ...]] = (
    # The keyword, the values it is for, whether it is a lower limit, and what to say.
    ("minLength", str, True, "needs at least {} characters"),
    ("maxLength", str, False, "may have at most {} characters"),
    ("minItems", list, True, "needs at least {} entries"),
    ("maxItems", list, False, "may have at most {} entries"),
    ("minimum", (int, float), True, "must be {} or more"),
    ("maximum", (int, float), False, "must be {} or less"),
)


def fill_in(schema: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Value]:
    """`content` as the form wants it: the form's default for each field that was left out (None is left out, too), and
    every field checked.

    Raises:
        ValueError: A field is missing, unknown or not what the form allows. The message names it.
    """
    fields = _mapping(schema.get("properties"))
    if unknown := [name for name in content if name not in fields]:
        raise ValueError(f"The form has no field {_listed(unknown)}. Its fields: {_listed(fields) or 'none'}.")
    given = {name: value for name, value in content.items() if value is not None}
    defaults = {name: copy.deepcopy(_mapping(field).get("default")) for name, field in fields.items()}
    filled = {name: value for name, value in (defaults | given).items() if value is not None}
    if missing := [name for name in _sequence(schema.get("required")) if name not in list(filled)]:
        raise ValueError(f"The form needs {_listed(missing)} as well.")
    for name, value in filled.items():
        if (complaint := _complaint(value, _mapping(fields[name]))) is not None:
            raise ValueError(f"Field {name!r} {complaint}.")
    return filled


def _complaint(value: Any, field: Mapping[str, Any]) -> str | None:
    """What is wrong with this value, in words that follow the field's name; None if nothing is."""
    kind = str(field.get("type"))
    if not any(_is_a(name, value) for name in _NAMES):
        return f"must be {_NAMES.get(kind, 'a text, a number, true or false, or a list of texts')}"
    if kind in _NAMES and not _is_a(kind, value):
        return f"must be {_NAMES[kind]}"
    if (choices := _choices(field)) is not None and not _is_among(value, choices):
        return f"must be one of {_listed(choices)}"
    entries = _choices(_mapping(field.get("items")))
    if entries is not None and not all(_is_among(each, entries) for each in _sequence(value)):
        return f"may have only entries out of {_listed(entries)}"
    return _limit_complaint(value, field) or _format_complaint(value, field)


def _is_a(kind: str, value: object) -> bool:
    match value:
        case bool():
            return kind == "boolean"
        case int():
            return kind in ("integer", "number")
        case float():
            return math.isfinite(value) and (kind == "number" or (kind == "integer" and value.is_integer()))
        case str():
            return kind == "string"
        case list():
            return kind == "array" and all(isinstance(each, str) for each in cast("list[Any]", value))
        case _:
            return False


def _choices(field: Mapping[str, Any]) -> list[Any] | None:
    """The values that a field allows, if it lists them: plainly, or each with a title."""
    if isinstance(plain := field.get("enum"), list):
        return cast("list[Any]", plain)
    for keyword in ("oneOf", "anyOf"):
        options = [_mapping(option) for option in _sequence(field.get(keyword))]
        if options and all("const" in option for option in options):
            return [option["const"] for option in options]
    return None


def _is_among(value: object, choices: list[Any]) -> bool:
    # For Python, True is 1; for JSON it is not.
    return any(value == choice and isinstance(value, bool) == isinstance(choice, bool) for choice in choices)


def _limit_complaint(value: Any, field: Mapping[str, Any]) -> str | None:
    if isinstance(value, bool):
        return None
    for keyword, kinds, lower, words in _LIMITS:
        limit: Any = field.get(keyword)
        if isinstance(value, kinds) and _is_a("number", limit):
            size: Any = len(cast("str | list[str]", value)) if isinstance(value, str | list) else value
            if size < limit if lower else size > limit:
                return words.format(limit)
    return None


def _format_complaint(value: object, field: Mapping[str, Any]) -> str | None:
    wanted = _FORMATS.get(str(field.get("format")))
    if not isinstance(value, str) or wanted is None:
        return None
    fits, words = wanted
    try:
        return None if fits(value) else f"must be {words}"
    except ValueError:
        return f"must be {words}"


def _is_date(text: str) -> bool:
    return re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) is not None and bool(date.fromisoformat(text))


def _is_date_time(text: str) -> bool:
    shape = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"
    return re.fullmatch(shape, text.upper(), re.ASCII) is not None and bool(datetime.fromisoformat(text.upper()))


def _is_email(text: str) -> bool:
    return re.fullmatch(r"[^\s@]+@[^\s@]+", text) is not None


def _is_uri(text: str) -> bool:
    return re.fullmatch(r"\S+", text) is not None and urlsplit(text).scheme != ""


_FORMATS: Final[dict[str, tuple[Callable[[str], bool], str]]] = {
    "date": (_is_date, "a date, such as 2026-07-28"),
    "date-time": (_is_date_time, "a date and time with its offset, such as 2026-07-28T12:00:00Z"),
    "email": (_is_email, "an e-mail address"),
    "uri": (_is_uri, "a URI, such as https://example.com"),
}


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _sequence(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names)
