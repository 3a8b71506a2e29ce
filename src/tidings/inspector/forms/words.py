"""Values to choose from with their labels, and alternatives of a schema with theirs.

Limits, kinds and values in plain words: "an integer of at least 1", "a text of at most 20 characters".
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, cast

from tidings.inspector.forms.flatten import Schema, as_list
from tidings.inspector.forms.model import Field, Option

_LONGEST: Final = 60
_NOUNS: Final = {
    "string": "a text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_FORMATS: Final = {
    "date": "a date, such as 2026-07-28",
    "date-time": "a date and time, such as 2026-07-28T12:00:00Z",
    "time": "a time, such as 12:00:00Z",
    "duration": "a duration, such as P1DT2H",
    "email": "an e-mail address",
    "uri": "a URI, such as https://example.com",
    "uri-reference": "a URI or a part of one",
    "uuid": "a UUID",
    "ipv4": "an IPv4 address",
    "ipv6": "an IPv6 address",
    "hostname": "a host name",
    "regex": "a regular expression",
    "password": "a secret text",
}
_MANY: Final = {
    "string": "texts",
    "integer": "integers",
    "number": "numbers",
    "boolean": "true or false values",
    "array": "lists",
    "object": "objects",
}
_SIZES: Final[tuple[tuple[str, str], ...]] = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "less than {}"),
    ("minLength", "at least {} character"),
    ("maxLength", "at most {} character"),
    ("minItems", "at least {} entry"),
    ("maxItems", "at most {} entry"),
    ("minProperties", "at least {} key"),
    ("maxProperties", "at most {} key"),
)
LIMITS: Final = (*(key for key, _ in _SIZES), "multipleOf", "pattern", "uniqueItems", "contentEncoding")


def sizes(schema: Mapping[str, Any]) -> list[str]:
    """The limits of a schema: "at least 1", "at most 20 characters"."""
    found: list[str] = []
    for keyword, words in _SIZES:
        limit = schema.get(keyword)
        if isinstance(limit, bool) or not isinstance(limit, int | float):
            continue
        if keyword in ("minimum", "maximum") and schema.get(f"exclusive{keyword.title()}") is True:  # Draft 4
            words = "more than {}" if keyword == "minimum" else "less than {}"  # noqa: PLW2901 - the older meaning
        text = words.format(shown(limit))
        plural = text if limit == 1 else text.replace("entry", "entries")
        found.append(plural + "s" if plural.endswith(("character", "key")) and limit != 1 else plural)
    return found


def hints(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """All limits of a schema, each in words of its own."""
    found = sizes(schema)
    if is_number(multiple := schema.get("multipleOf")):
        found.append(f"a multiple of {shown(multiple)}")
    if isinstance(pattern := schema.get("pattern"), str):
        found.append(f"matches {shortened(pattern)}")
    if schema.get("uniqueItems") is True:
        found.append("no entry twice")
    if isinstance(form := schema.get("format"), str) and form in _FORMATS:
        found.append(_FORMATS[form])
    if isinstance(encoding := schema.get("contentEncoding"), str):
        found.append(f"encoded as {shortened(encoding)}")
    return tuple(found)


def expected(schema: object) -> str:
    """What a schema asks for, in words that follow "expected"."""
    if not isinstance(schema, dict):
        return "nothing" if schema is False else "any value"
    facts = cast("dict[str, Any]", schema)
    if "const" in facts:
        return shown(facts["const"])
    if isinstance(values := facts.get("enum"), list):
        return one_of(cast("list[Any]", values))
    for keyword in ("anyOf", "oneOf"):
        if isinstance(branches := facts.get(keyword), list) and "type" not in facts:
            return joined([expected(branch) for branch in cast("list[Any]", branches)], "or")
    stated: Any = facts.get("type")
    named = cast("list[Any]", stated if isinstance(stated, list) else [stated])
    kinds = [kind for kind in named if isinstance(kind, str) and kind in _NOUNS]
    noun = joined([_noun(kind, facts) for kind in kinds], "or") or title(facts) or "another value"
    rest = f" of {joined(limits, 'and')}" if (limits := sizes(facts)) else ""
    if is_number(multiple := facts.get("multipleOf")):
        rest += f", a multiple of {shown(multiple)}"
    if isinstance(pattern := facts.get("pattern"), str):
        rest += f" that matches {shortened(pattern)}"
    return noun + rest


def _noun(kind: str, facts: dict[str, Any]) -> str:
    if kind == "string":
        return _FORMATS.get(str(facts.get("format")), _NOUNS[kind])
    items: Any = facts.get("items")
    if kind == "array" and isinstance(items, dict):
        inner = cast("dict[str, Any]", items).get("type")
        return f"a list of {_MANY[inner]}" if isinstance(inner, str) and inner in _MANY else _NOUNS[kind]
    return _NOUNS[kind]


def title(facts: Mapping[str, Any]) -> str:
    """What a schema calls itself."""
    stated: Any = facts.get("title")
    return stated.strip() if isinstance(stated, str) else ""


def one_of(values: list[Any]) -> str:
    """A choice of values: `one of "a", "b"`."""
    listed = ", ".join(shown(value) for value in values[:12])
    return f"one of {listed}" + (f" and {len(values) - 12} more" if len(values) > 12 else "")


def joined(words: list[str], last: str) -> str:
    """`a, b or c`, each once."""
    once = list(dict.fromkeys(words))
    return once[0] if len(once) == 1 else f"{', '.join(once[:-1])} {last} {once[-1]}" if once else ""


def shown(value: object) -> str:
    """A value as JSON, shortened."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        text = f"a deep {'list' if isinstance(value, list) else 'object'}"
    return shortened(text)


def shortened(text: str) -> str:
    """The beginning of a text, in one line."""
    text = "".join(char if char.isprintable() else " " for char in text[: _LONGEST + 1])
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def is_number(value: object) -> bool:
    """Whether it is one for JSON."""
    return isinstance(value, int | float) and not isinstance(value, bool)


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
