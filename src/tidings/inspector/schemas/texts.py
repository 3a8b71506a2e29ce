"""From a value back to what would have to be typed, and which part of a form a value belongs to."""

import json
from typing import Any, Final, cast

from tidings.inspector.schemas.fields import Field, expand

EMPTY: Final = '""'
"""What stands for the empty text, where an empty field means that it is left out."""


def further_field(field: Field, name: str) -> Field | None:
    """What the value of a key is that an object's form does not list; None if nothing is known of it."""
    for pattern, each in field.patterns:
        if matches(pattern, name):
            return each
    return field.extra


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern of the server's is in a text; False if it would take too long to say."""
    from tidings.client.patterns import found_in  # noqa: PLC0415 - costs something, and is rarely needed

    return found_in(pattern, text) is True


def fits(root: Field, field: Field, value: Any) -> bool:  # noqa: PLR0911 - one for each kind
    """Whether a value is of the kind of a field, at first sight: which of several alternatives it is."""
    field = expand(root, field)
    if value is None:
        return field.nullable or field.kind == "json" or (field.kind == "const" and field.value is None)
    match field.kind:
        case "text" | "multiline":
            return isinstance(value, str)
        case "integer" | "number":
            whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return not isinstance(value, bool) and isinstance(value, int | float) and (whole or field.kind == "number")
        case "boolean":
            return isinstance(value, bool)
        case "const":
            return field.value == value and isinstance(field.value, bool) == isinstance(value, bool)
        case "enum":
            return any(option.value == value for option in field.options)
        case "array" | "multi":
            return isinstance(value, list)
        case "choice":
            return any(fits(root, branch, value) for branch in field.fields)
        case "object":
            return isinstance(value, dict) and _fits_object(root, field, cast("dict[str, Any]", value))
        case _:
            return True


def _fits_object(root: Field, field: Field, value: dict[str, Any]) -> bool:
    for each in field.fields:
        if each.name not in value:
            if each.required:
                return False
        elif each.kind == "const" and not fits(root, each, value[each.name]):
            return False
    names = {each.name for each in field.fields}
    return not (field.closed and any(name not in names and not further_field(field, name) for name in value))


def to_texts(field: Field, value: Any, root: Field | None = None) -> Any:  # noqa: PLR0911 - one for each kind
    """What would have to be typed for `from_texts` to give this value."""
    root = root or field
    field = expand(root, field)
    if value is None:
        return "null" if field.kind == "json" else None
    match field.kind:
        case "text" | "multiline":
            return EMPTY if value == "" else value
        case "number" | "integer" if isinstance(value, int | float) and not isinstance(value, bool):
            return json.dumps(value)
        case "object" if isinstance(value, dict):
            return _object_texts(field, cast("dict[str, Any]", value), root)
        case "array" if isinstance(value, list):
            entries = cast("list[Any]", value)
            items = [field.fields[spot] if spot < len(field.fields) else field.items for spot in range(len(entries))]
            return [
                each if item is None else to_texts(item, each, root) for item, each in zip(items, entries, strict=True)
            ]
        case "choice" if field.fields:
            spot = next((spot for spot, branch in enumerate(field.fields) if fits(root, branch, value)), 0)
            return {"$choice": spot, "value": to_texts(field.fields[spot], value, root)}
        case "json" | "ref":
            return json.dumps(value, ensure_ascii=False, indent=2)
        case _:
            return value


def _object_texts(field: Field, value: dict[str, Any], root: Field) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, each in value.items():
        known = field.field(name) or further_field(field, name)
        made[name] = each if known is None else to_texts(known, each, root)
    return made
