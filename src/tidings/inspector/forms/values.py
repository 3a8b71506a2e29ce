"""From typed texts to a value, and back.

The typed texts have the shape of the value, with texts for the leaves:

    {"query": "tea", "limit": "5", "exact": True, "tags": ["a", "b"], "when": {"$choice": 1, "value": "2026-07-28"}}

- An empty text, or a missing key, is left out; `""` (two quotes) is the empty text.
- `None` is null if the field is `nullable`, and is left out otherwise.
- A list may be one text with an entry a line, or JSON; an object may be a text of JSON.
- A choice is `{"$choice": index, "value": …}`; anything else goes to the first alternative that accepts it.
- Anything that is not a text is taken as it is, so a value can be given instead of texts. Keys that the form does not
  have are kept, as JSON would keep them.

`check` finds out whether the value is right.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final, cast

from tidings._kit.bounded_json import as_dict, is_number
from tidings.inspector.forms.model import Field, FieldProblem, Filled, Key, expand, problem, unexpected
from tidings.inspector.forms.schemas import NOUNS, either, one_of, shown

EMPTY: Final = '""'  # Typed for the empty text, because an empty field is left out.
LEFT_OUT: Final[Any] = object()  # No value, not even null.

_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def fits(root: Field, field: Field, value: Any) -> bool:  # noqa: PLR0911 - one for each kind
    """Returns whether a value is of the kind of a field, at first sight, to choose one of several alternatives."""
    field = expand(root, field)
    if value is None:
        return field.nullable or field.kind == "json" or (field.kind == "const" and field.value is None)
    match field.kind:
        case "text" | "multiline":
            return isinstance(value, str)
        case "integer" | "number":
            return is_number(value) and (field.kind == "number" or isinstance(value, int) or value.is_integer())
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
    if field.closed and not {each.name for each in field.fields}.issuperset(value):
        return False
    consts = [each for each in field.fields if each.kind == "const" and each.name in value]
    complete = all(each.name in value for each in field.fields if each.required)
    return complete and all(fits(root, each, value[each.name]) for each in consts)


def to_texts(field: Field, value: Any, root: Field | None = None) -> Any:  # noqa: PLR0911 - one for each kind
    """Returns the texts from which `from_texts` makes this value."""
    root = root or field
    field = expand(root, field)
    if value is None:
        return "null" if field.kind == "json" else None
    match field.kind:
        case "text" | "multiline":
            return EMPTY if value == "" else value
        case "number" | "integer" if is_number(value):
            return json.dumps(value)
        case "object" if isinstance(value, dict):
            named = cast("dict[str, Any]", value).items()
            known = {name: field.field(name) or field.extra for name, _ in named}
            return {name: to_texts(found, each, root) if (found := known[name]) else each for name, each in named}
        case "array" if isinstance(value, list):
            entries = cast("list[Any]", value)
            items = chain(field.fields, repeat(field.items))
            return [to_texts(item, each, root) if item else each for each, item in zip(entries, items, strict=False)]
        case "choice" if field.fields:
            spot = next((spot for spot, branch in enumerate(field.fields) if fits(root, branch, value)), 0)
            return {"$choice": spot, "value": to_texts(field.fields[spot], value, root)}
        case "json" | "ref":
            return json.dumps(value, ensure_ascii=False, indent=2)
        case _:
            return value


def initial(field: Field, nothing: Any = None) -> Any:  # noqa: PLR0911 - one for each kind
    """Returns the value that a form starts with: defaults, or else the first examples of required fields."""
    if field.has_default:
        return field.default
    if not field.required:
        return nothing
    match field.kind:
        case "const":
            return field.value
        case "object":
            values = {each.name: initial(each, LEFT_OUT) for each in field.fields}
            return {name: value for name, value in values.items() if value is not LEFT_OUT}
        case _ if field.examples:
            return field.examples[0]
        case "array" if all(each.required for each in field.fields):
            values = [initial(each, LEFT_OUT) for each in field.fields]
            return values if LEFT_OUT not in values else []
        case "array" | "multi":
            return []
        case "boolean":
            return False
        case "choice" if field.fields:
            return initial(field.fields[0], nothing)
        case _:
            return None if field.nullable else nothing


def from_texts(field: Field, texts: object) -> Filled:
    """Returns the value that was typed into a form, and the problems of texts that are not values."""
    reader = ValueReader(field)
    try:
        value = reader.read(field, texts, ())
    except RecursionError:
        return Filled(None, (problem((), "is nested too deeply"),))
    return Filled(None if value is LEFT_OUT else value, tuple(reader.problems))


class ValueReader:
    """Reads what was typed into the form of `root`. Problems are collected in `problems`."""

    def __init__(self, root: Field) -> None:
        self._root = root
        self.problems: list[FieldProblem] = []

    def read(self, field: Field, typed: Any, keys: tuple[Key, ...]) -> Any:  # noqa: PLR0911 - one for each kind
        """Returns the value at one place; `LEFT_OUT` if there is none."""
        field = expand(self._root, field)
        if isinstance(typed, str) and not typed.strip() and (not typed or field.kind not in ("text", "multiline")):
            typed = LEFT_OUT
        if typed is None and (field.nullable or field.kind in ("const", "json")):
            return None
        if typed is None or typed is LEFT_OUT:
            return self._absent(field, keys)
        match field.kind:
            case "object":
                return self._object(field, typed, keys)
            case "array" | "multi":
                return self._list(field, typed, keys)
            case "choice":
                return self._choice(field, typed, keys)
            case "const":
                return field.value
            case _:
                return self._leaf(field, typed, keys) if isinstance(typed, str) else typed

    def _absent(self, field: Field, keys: tuple[Key, ...]) -> Any:
        if not field.required:
            return LEFT_OUT
        match field.kind:
            case "const":
                return field.value
            case "object":
                return self._object(field, {}, keys)
            case "array" | "multi":
                return []
            case _ if field.nullable:
                return None
            case _:
                self.problems.append(problem(keys, "is needed"))
                return LEFT_OUT

    def _object(self, field: Field, typed: Any, keys: tuple[Key, ...]) -> Any:
        if isinstance(typed, str):
            typed = self._json(typed, keys)
        if not isinstance(typed, Mapping):
            return typed
        given = cast("Mapping[str, Any]", typed)
        made = {each.name: self.read(each, given.get(each.name, LEFT_OUT), (*keys, each.name)) for each in field.fields}
        for name, text in given.items():
            if name not in made:
                made[name] = text if field.extra is None else self.read(field.extra, text, (*keys, name))
        value = {name: each for name, each in made.items() if each is not LEFT_OUT}
        # What was emptied in a form is left out.
        return value if value or not given or field.required else LEFT_OUT

    def _list(self, field: Field, typed: Any, keys: tuple[Key, ...]) -> Any:
        if isinstance(typed, str):
            typed = self._json(typed, keys) if typed.lstrip().startswith("[") else typed.splitlines()
        if isinstance(typed, str | bytes) or not isinstance(typed, Sequence):
            return typed
        entries: list[Any] = []
        for spot, text in enumerate(cast("Sequence[Any]", typed)):
            if field.kind == "multi":
                entry = self._leaf(field, text, (*keys, spot)) if isinstance(text, str) else text
            else:
                item = field.fields[spot] if spot < len(field.fields) else field.items
                entry = text if item is None else self.read(item, text, (*keys, spot))
            if entry is not LEFT_OUT:
                entries.append(entry)
        return entries

    def _choice(self, field: Field, typed: Any, keys: tuple[Key, ...]) -> Any:
        given = as_dict(typed)
        if "$choice" in given:
            chosen = given["$choice"]
            if isinstance(chosen, int) and 0 <= chosen < len(field.fields):
                return self.read(field.fields[chosen], given.get("value", LEFT_OUT), keys)
            names = either(branch.name for branch in field.fields)
            self.problems.append(unexpected(keys, f"a choice of {names}", shown(chosen)))
            return LEFT_OUT
        before = len(self.problems)
        first: list[FieldProblem] | None = None
        # Texts last, because they accept anything. A list or an object begins with a bracket.
        is_bare = isinstance(typed, str) and typed.lstrip()[:1] not in ("[", "{")
        last = ("json", "array", "object", "multi") if is_bare else ("json",)
        order = {"text": 1, "multiline": 1, **dict.fromkeys(last, 2)}
        for branch in sorted(field.fields, key=lambda each: order.get(each.kind, 0)):
            if isinstance(typed, str) or fits(self._root, branch, typed):
                value = self.read(branch, typed, keys)
                found = self.problems[before:]
                del self.problems[before:]
                if not found:
                    return value
                first = first or found
        self.problems += first or [unexpected(keys, wanted(field), shown(typed))]
        return typed

    def _leaf(self, field: Field, text: str, keys: tuple[Key, ...]) -> Any:
        match field.kind:
            case "number" | "integer":
                value = _number(text.strip(), whole=field.kind == "integer")
            case "boolean":
                value = _BOOLEANS.get(text.strip().lower(), LEFT_OUT)
            case "enum" | "multi":
                value = _option(field, text)
            case "text" | "multiline":
                return "" if text == EMPTY else text
            case _:
                return self._json(text, keys)
        if value is LEFT_OUT:
            self.problems.append(unexpected(keys, wanted(field), shown(text)))
        return value

    def _json(self, text: str, keys: tuple[Key, ...]) -> Any:
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            self.problems.append(problem(keys, f"is not JSON ({where}: {error.msg}); a string needs quotes"))
        except (ValueError, RecursionError):
            self.problems.append(problem(keys, "is not JSON: a number is too long, or it is nested too deeply"))
        return LEFT_OUT


def _number(text: str, *, whole: bool) -> Any:
    if not _NUMBER.fullmatch(text) or len(text) > 400:
        return LEFT_OUT
    if text.lstrip("+-").isdecimal():
        return int(text)
    value = float(text)
    if not math.isfinite(value) or (whole and not value.is_integer()):
        return LEFT_OUT
    return int(value) if whole else value


def _option(field: Field, text: str) -> Any:
    if any(option.value == text for option in field.options):
        return text
    said = (each.value for each in field.options if text in (each.label, shown(each.value)))
    return next(said, LEFT_OUT)


def wanted(field: Field) -> str:
    """Returns what a field accepts, in words that follow "expected"."""
    match field.kind:
        case "enum" | "multi":
            return one_of([option.value for option in field.options])
        case "choice":
            return either(branch.name for branch in field.fields)
        case _:
            noun = NOUNS.get("string" if field.kind in ("text", "multiline") else field.kind, "a value")
            return f"{noun} ({', '.join(field.hints)})" if field.hints else noun
