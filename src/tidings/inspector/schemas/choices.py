"""Values to choose from with their labels, and alternatives of a schema with theirs."""

from collections import Counter
from dataclasses import replace
from typing import Any, Final, cast

from tidings.inspector.schemas.fields import Field, Option
from tidings.inspector.schemas.merging import Schema, as_list
from tidings.inspector.schemas.words import shown, title

_LABELS: Final = ("enumNames", "x-enumNames", "x-enum-varnames", "x-enum-labels", "x-enum-titles")
_DESCRIPTIONS: Final = ("enumDescriptions", "x-enum-descriptions", "x-enumDescriptions", "markdownEnumDescriptions")
_DEMANDS: Final = frozenset({"required", "not", "title", "description", "$comment", "minProperties", "maxProperties"})


def options(schema: Schema) -> list[Option] | None:
    """What a schema lets one choose from; None if it does not list the values."""
    if isinstance(values := schema.get("enum"), list):
        return _listed(schema, cast("list[Any]", values))
    for keyword in ("oneOf", "anyOf"):
        branches = as_list(schema.get(keyword))
        if len(branches) > 0 and all(isinstance(each, dict) and "const" in each for each in branches):
            consts = cast("list[Schema]", branches)
            return [
                Option(each["const"], title(each) or label_of(each["const"]), _text(each.get("description")))
                for each in consts
            ]
    return None


def _listed(schema: Schema, values: list[Any]) -> list[Option]:
    labels = _beside(schema, _LABELS, len(values))
    described = _beside(schema, _DESCRIPTIONS, len(values))
    by_value: Any = schema.get("meta:enum")
    named = cast("Schema", by_value) if isinstance(by_value, dict) else {}
    made: list[Option] = []
    for place, value in enumerate(values):
        label = _text(labels[place]) if labels else ""
        about = _text(described[place]) if described else _text(named.get(value) if isinstance(value, str) else "")
        made.append(Option(value, label or label_of(value), about))
    return made


def _beside(schema: Schema, keywords: tuple[str, ...], count: int) -> list[Any]:
    """The first of these lists that has as many entries as there are values."""
    for key in keywords:
        if len(found := as_list(schema.get(key))) == count:
            return found
    return []


def label_of(value: object) -> str:
    """A value as one reads it: a text without quotes, anything else as JSON."""
    return value if isinstance(value, str) and value.strip() else shown(value)


def alternatives(schema: Schema) -> tuple[str, list[Any]]:
    """Which keyword has alternatives, and those; an empty list if there are none."""
    for keyword in ("oneOf", "anyOf"):
        if branches := as_list(schema.get(keyword)):
            return keyword, branches
    return "", []


def is_null(branch: object) -> bool:
    """Whether an alternative is nothing but null."""
    if not isinstance(branch, dict):
        return False
    facts = cast("Schema", branch)
    return (
        facts.get("type") in ("null", ["null"])
        or ("const" in facts and facts["const"] is None)
        or facts.get("enum") == [None]
    )


def demand(branches: list[Any]) -> str | None:
    """The words for alternatives that differ only in what they need: "a, or b and c is needed"; None if they do not."""
    if not all(isinstance(each, dict) and cast("Schema", each).keys() <= _DEMANDS for each in branches):
        return None
    facts = cast("list[Schema]", branches)
    names = [" and ".join(str(name) for name in as_list(each.get("required"))) for each in facts]
    listed = ", or ".join(name for name in names if name)
    return f"One of these is needed: {listed}." if listed else "One of several conditions must hold."


def labelled(fields: list[Field], called: list[str], discriminator: str) -> tuple[Field, ...]:
    """The alternatives, each under a name of its own by which to choose it."""
    names = [_label(field, name, discriminator) for field, name in zip(fields, called, strict=True)]
    often = Counter(names)
    seen: Counter[str] = Counter()
    made: list[Field] = []
    for field, name in zip(fields, names, strict=True):
        seen[name] += 1
        made.append(replace(field, name=f"{name} {seen[name]}" if often[name] > 1 else name))
    return tuple(made)


def _label(field: Field, called: str, discriminator: str) -> str:
    if field.title:
        return field.title
    kind_field = field.field(discriminator) if discriminator else None
    if kind_field is not None and kind_field.kind == "const":
        return label_of(kind_field.value)
    return called or described(field)


def described(field: Field) -> str:  # noqa: PLR0911 - one for each kind
    """What a field without a name is."""
    match field.kind:
        case "const":
            return label_of(field.value)
        case "multiline":
            return "text"
        case "boolean":
            return "true or false"
        case "enum" | "multi":
            return " | ".join(option.label for option in field.options[:3]) + (" …" if len(field.options) > 3 else "")
        case "array":
            return f"list of {described(field.items)}" if field.items and field.items.kind != "json" else "list"
        case "object" if field.fields:
            return "object with " + ", ".join(each.name for each in field.fields[:3])
        case "json":
            return "any JSON"
        case "text" if field.format:
            return field.format
        case _:
            return field.kind


def discriminator_of(schema: Schema, fields: list[Field]) -> str:
    """The key whose fixed value tells the alternatives apart."""
    stated: Any = schema.get("discriminator")
    name = cast("Schema", stated).get("propertyName") if isinstance(stated, dict) else None
    if isinstance(name, str):
        return name
    first = fields[0].fields if fields else ()
    for each in first:
        if each.kind == "const" and all(
            (other := field.field(each.name)) and other.kind == "const" for field in fields
        ):
            return each.name
    return ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
