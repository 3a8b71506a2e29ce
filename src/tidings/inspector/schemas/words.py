"""Limits, kinds and values in plain words: "an integer of at least 1", "a text of at most 20 characters"."""

import json
from collections.abc import Mapping
from typing import Any, Final, cast

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
