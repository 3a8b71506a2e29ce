"""A form as plain data, which a terminal and a page can draw alike; places in a value, and the problems there.

A form is a tree of `Field`s. `kind` says what to draw:

| kind | drawn as | value | besides the common attributes |
|---|---|---|---|
| `text` | one line; dots if `secret` | text | `format` (`date`, `date-time`, `uri`, `email` …) |
| `multiline` | several lines | text | |
| `number`, `integer` | one line | number | |
| `boolean` | a box to tick | true or false | |
| `enum` | a list to choose one from | the option's `value` | `options` |
| `multi` | a list to choose several from | list of the options' values | `options` |
| `object` | `fields` below each other; rows of key and value for `extra` | object | `fields`, `extra`, `closed` |
| `array` | `fields` (the first places), then any number of `items` | list | `fields`, `items` |
| `choice` | a list of the labels of `fields`, then the chosen one | as the chosen one | `fields` |
| `const` | nothing to fill in | `value` | `value` |
| `ref` | a button that opens `expand(root, field)`: the schema contains itself | | `ref` |
| `json` | several lines of JSON | anything | `reason`: why there is no better widget |

`nullable` adds a box "null" to any kind. The typed texts are given to `from_texts`, in the shape of the value.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, cast

Kind = Literal[
    "text", "multiline", "number", "integer", "boolean", "enum", "multi", "object", "array", "choice", "const", "ref",
    "json",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Option:
    """One of the values to choose from."""

    value: Any
    label: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """One thing to fill in, with everything below it."""

    kind: Kind
    name: str = ""  # Its key in the object that it belongs to; for an alternative of a choice, its label.
    title: str = ""
    description: str = ""
    required: bool = False
    nullable: bool = False
    secret: bool = False
    deprecated: bool = False
    has_default: bool = False
    default: Any = None
    examples: tuple[Any, ...] = ()
    format: str = ""
    hints: tuple[str, ...] = ()  # The limits of the schema in plain words: "at least 1".
    notes: tuple[str, ...] = ()  # What only the check enforces: "One of these is needed: id, or name.".
    options: tuple[Option, ...] = ()
    fields: "tuple[Field, ...]" = ()
    items: "Field | None" = None
    extra: "Field | None" = None  # The field of every further value of an object.
    closed: bool = False  # Keys or entries other than those in `fields` are refused.
    value: Any = None
    ref: str = ""
    reason: str = ""
    # At the root only: the fields that `ref` fields stand for.
    definitions: "Mapping[str, Field]" = field(default_factory=dict[str, "Field"])

    @property
    def label(self) -> str:
        return self.title or self.name

    def field(self, name: str) -> "Field | None":
        return next((each for each in self.fields if each.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """Returns the field as JSON, without empty attributes."""
        made: dict[str, Any] = {"kind": self.kind}
        for each in _SHOWN:
            value = getattr(self, each)
            if value not in _EMPTY:
                made[each] = _jsonable(value)
        if self.has_default:
            made |= {"has_default": True, "default": self.default}
        if self.kind == "const":
            made["value"] = self.value
        return made


_BESIDES: Final = frozenset({"kind", "has_default", "default", "value"})
_SHOWN: Final = tuple(each.name for each in fields(Field) if each.name not in _BESIDES)
_EMPTY: Final[tuple[Any, ...]] = ("", False, None, (), {})


def _jsonable(value: Any) -> Any:
    match value:
        case Field():
            return value.to_json()
        case Option():
            described = {"description": value.description} if value.description else {}
            return {"value": value.value, "label": value.label, **described}
        case tuple():
            return [_jsonable(each) for each in cast("tuple[Any, ...]", value)]
        case dict():
            return {key: _jsonable(each) for key, each in cast("dict[str, Any]", value).items()}
        case _:
            return value


def expand(root: Field, field: Field) -> Field:
    """Returns the field that a `ref` field stands for, with the latter's name and title. Returns others as they are."""
    found = root.definitions.get(field.ref) if field.kind == "ref" else None
    if found is None:
        return field
    description, nullable = field.description or found.description, field.nullable or found.nullable
    own = {"name": field.name, "title": field.title, "required": field.required}
    return replace(found, **own, description=description, nullable=nullable)


Key = str | int

_PLAIN: Final = re.compile(r"[^\s.\[\]\"=:]+")


def place(keys: Iterable[Key]) -> str:
    """Returns a place as people write it: `filter.tags[0]`, `headers["a.b"]`; empty for the whole."""
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        elif _PLAIN.fullmatch(key):
            text += f".{key}" if text else key
        else:
            quoted = key.replace("\\", "\\\\").replace('"', '\\"')
            text += f'["{quoted}"]'
    return text


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One problem of a value, or of its schema."""

    path: str  # The place, as people write it: `filter.tags[0]`. Empty: the whole.
    message: str  # A sentence that includes the place: `limit: expected an integer of at least 1, got "many"`.
    keys: tuple[Key, ...] = ()  # The place, for programs.
    fault: Literal["value", "schema"] = "value"  # `schema`: the server's schema is wrong. The value may be right.


def problem(keys: Iterable[Key], complaint: str) -> FieldProblem:
    """Returns a problem of the value at this place."""
    keys = tuple(keys)
    path = place(keys)
    return FieldProblem(path, f"{path}: {complaint}" if path else complaint, keys)


def unexpected(keys: Iterable[Key], expected: str, got: str) -> FieldProblem:
    """Returns the problem that the value at this place is of the wrong kind."""
    return problem(keys, f"expected {expected}, got {got}")


@dataclass(frozen=True, slots=True)
class Filled:
    """A value, as far as it could be made, and the problems on the way."""

    value: Any
    problems: tuple[FieldProblem, ...] = field(default_factory=tuple[FieldProblem, ...])
