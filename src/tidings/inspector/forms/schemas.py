"""A schema made flat: its references and the parts of its `allOf` merged into one; and a schema in words.

What a schema says about itself takes precedence over its parts; properties and required names are combined. References
are followed within the schema only. The caller says which references are open, so that a schema that contains itself
is noticed. In words, it is for example "an integer of at least 1", "a string of at most 20 characters".
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote

from tidings._kit import bounded_json
from tidings._kit.bounded_json import as_dict, as_dict_or_none, as_list, as_text, as_texts, is_number
from tidings._kit.text import harmless, joined, listed, one_line
from tidings.inspector.forms.model import Field, Option

Schema = dict[str, Any]

_DEEPEST: Final = 40
_UNMERGED: Final = frozenset({"$ref", "allOf", "$defs", "definitions", "$schema", "$id"})


class Recursive(Exception):
    """The schema contains itself here."""

    def __init__(self, ref: str, own: Schema) -> None:
        super().__init__(ref)
        self.ref, self.own = ref, own


class NotUnderstood(Exception):
    """There is no form for this. The message says why."""


@dataclass
class Flat:
    """A schema without references and parts."""

    schema: Schema
    refs: frozenset[str]  # The references that are open within it.
    called: str = ""  # The name of the schema that it refers to.

    def add(self, part: "Flat") -> None:
        self.refs = part.refs
        self.called = self.called or part.called
        for key, theirs in part.schema.items():
            mine = self.schema.setdefault(key, theirs)
            if key == "required":
                self.schema[key] = list(dict.fromkeys([*as_texts(mine), *as_texts(theirs)]))
            elif key == "properties":
                made = dict(as_dict(mine))
                for name, value in as_dict(theirs).items():
                    made[name] = value if made.get(name, value) == value else {"allOf": [made[name], value]}
                self.schema[key] = made


class Merger:
    """Makes the parts of one schema flat, in at most `steps` steps altogether."""

    def __init__(self, root: object, steps: int) -> None:
        self._root, self._steps = root, steps

    def flat(self, schema: Schema, refs: frozenset[str], depth: int = 0) -> Flat:
        """Returns `schema` as seen within `refs`. Raises `Recursive` if it is one of those, or `NotUnderstood`."""
        self._steps -= 1
        if self._steps < 0:
            raise NotUnderstood("the schema is too large for a form")
        if depth > _DEEPEST:
            raise NotUnderstood("the schema is nested too deeply for a form")
        flat = Flat({key: value for key, value in schema.items() if key not in _UNMERGED}, refs)
        if isinstance(ref := schema.get("$ref"), str):
            self._follow(flat, ref, depth)
        for part in as_list(schema.get("allOf")):
            self._add(flat, part, depth)
        return flat

    def _follow(self, flat: Flat, ref: str, depth: int) -> None:
        if ref in flat.refs:
            raise Recursive(ref, flat.schema)
        target = self.resolve(ref)
        flat.refs |= {ref}
        if not isinstance(target, dict):
            self._add(flat, target, depth)
            return
        part = self.flat(cast("Schema", target), flat.refs, depth + 1)
        # The title of a shared definition is the name of a type, not of the field that has this type.
        part.called = part.called or str(part.schema.pop("title", None) or ref.rpartition("/")[2])
        flat.add(part)

    def _add(self, flat: Flat, part: object, depth: int) -> None:
        if part is False:
            raise NotUnderstood("the schema allows no value here")
        if isinstance(part, dict):
            try:
                flat.add(self.flat(cast("Schema", part), flat.refs, depth + 1))
            except Recursive as found:
                raise Recursive(found.ref, {**found.own, **flat.schema}) from None

    def resolve(self, ref: str) -> object:
        """Returns the target of `ref` within this schema. Raises `NotUnderstood`: nothing is ever fetched."""
        if ref != "#" and not ref.startswith("#/"):
            raise NotUnderstood(f"the schema refers to {ref[:200]}, which is no place in it; nothing is fetched")
        found: Any = self._root
        for token in ref.split("/")[1:]:
            key = unquote(token).replace("~1", "/").replace("~0", "~")
            entries = as_list(found)
            if key in as_dict(found):
                found = found[key]
            elif key.isdecimal() and len(key) < 8 and int(key) < len(entries):
                found = entries[int(key)]
            else:
                raise NotUnderstood(f"the schema refers to {ref[:200]}, which is not in it")
        return found


_LONGEST: Final = 60
_WORDS: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("words.json").read_text("utf-8"))
NOUNS: Final[dict[str, str]] = _WORDS["nouns"]  # By type: one value of it, and below several.
_MANY: Final[dict[str, str]] = _WORDS["many"]
_FORMATS: Final[dict[str, str]] = _WORDS["formats"]
_SIZES: Final[list[tuple[str, str, str, str]]] = _WORDS["sizes"]  # A keyword, its words, and the unit for one and many.

_SECRET: Final = re.compile(
    r"(?:^|_)(?:password|passwd|pwd|passphrase|secret|api_?key|private_?key|access_?key|(?:access|auth|api|bearer)_?token|token)$"
)
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LONG: Final = ("content", "contents", "body", "markdown", "html", "code", "script", "sql", "text", "message")
_LONG_FORMATS: Final = ("textarea", "multiline", "markdown", "html", "code")

_REQUIREMENTS: Final = {"required", "not", "title", "description", "$comment", "minProperties", "maxProperties"}


def shown(value: object) -> str:
    """Returns a value as JSON, shortened."""
    return harmless(bounded_json.shown(value, _LONGEST), mark=" ")


def short(text: str) -> str:
    """Returns the beginning of a text in one line."""
    return harmless(one_line(text, _LONGEST), mark=" ")


def either(words: Iterable[str]) -> str:
    """Returns "a, b or c", each once."""
    return joined(list(dict.fromkeys(words)), "or")


def one_of(values: list[Any]) -> str:
    """Returns a choice of values: `one of "a", "b"`."""
    return f"one of {listed(map(shown, values))}"


def text_of(schema: Mapping[str, Any], key: str) -> str:
    """Returns the text that a schema has under this key, or an empty one."""
    return (as_text(schema.get(key)) or "").strip()


def _sizes(schema: Mapping[str, Any]) -> list[str]:
    """Returns the limits of a schema: "at least 1", "at most 20 characters"."""
    found: list[str] = []
    for keyword, words, one, many in _SIZES:
        if is_number(limit := schema.get(keyword)):
            found.append(words.format(shown(limit)) + (one if limit == 1 else many))
    return found


def hints(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns all limits of a schema, each in its own words."""
    found = _sizes(schema)
    if is_number(multiple := schema.get("multipleOf")):
        found.append(f"a multiple of {shown(multiple)}")
    if isinstance(pattern := schema.get("pattern"), str):
        found.append(f"matches {short(pattern)}")
    if schema.get("uniqueItems") is True:
        found.append("no entry twice")
    if isinstance(form := schema.get("format"), str) and form in _FORMATS:
        found.append(_FORMATS[form])
    return tuple(found)


def expected(schema: object) -> str:
    """Returns what a schema asks for, in words that follow "expected"."""
    facts = as_dict_or_none(schema)
    if facts is None:
        return "nothing" if schema is False else "any value"
    if "const" in facts:
        return shown(facts["const"])
    if isinstance(values := facts.get("enum"), list):
        return one_of(cast("list[Any]", values))
    for keyword in ("anyOf", "oneOf"):
        if isinstance(branches := facts.get(keyword), list) and "type" not in facts:
            return either(map(expected, cast("list[Any]", branches)))
    stated: Any = facts.get("type")
    kinds = [kind for kind in (as_list(stated) or [stated]) if isinstance(kind, str) and kind in NOUNS]
    nouns = dict(NOUNS)
    nouns["string"] = _FORMATS.get(str(facts.get("format")), NOUNS["string"])
    if (inner := as_text(as_dict(facts.get("items")).get("type"))) in _MANY:
        nouns["array"] = f"a list of {_MANY[inner]}"
    noun = either(nouns[kind] for kind in kinds) or text_of(facts, "title") or "another value"
    rest = f" of {joined(limits)}" if (limits := _sizes(facts)) else ""
    if is_number(multiple := facts.get("multipleOf")):
        rest += f", a multiple of {shown(multiple)}"
    if isinstance(pattern := facts.get("pattern"), str):
        rest += f" that matches {short(pattern)}"
    return noun + rest


def is_secret(name: str, schema: Mapping[str, Any]) -> bool:
    """Returns whether the typed text should be hidden. Only unmistakable names count, not `max_tokens`."""
    if schema.get("format") == "password" or schema.get("writeOnly") is True:
        return True
    return _SECRET.search(_CAMEL.sub("_", name).lower().replace("-", "_").replace(" ", "_")) is not None


def may_be_long(name: str, schema: Mapping[str, Any]) -> bool:
    """Returns whether a text is likely to have several lines."""
    longest = schema.get("maxLength")
    if isinstance(longest, int | float) and not 200 < longest < 500:
        return longest >= 500
    if "format" in schema:
        return schema["format"] in _LONG_FORMATS
    return "\n" in text_of(schema, "default") or _CAMEL.sub("_", name).lower().rpartition("_")[2] in _LONG


def options(schema: Schema) -> list[Option] | None:
    """Returns the values that a schema offers; None if it does not list them."""
    if isinstance(schema.get("enum"), list):
        values = as_list(schema["enum"])
        names = as_texts(schema.get("enumNames"))
        return [Option(value, name or label_of(value)) for value, name in zip_longest(values, names[: len(values)])]
    for keyword in ("oneOf", "anyOf"):
        branches = as_list(schema.get(keyword))
        if branches and all("const" in as_dict(each) for each in branches):
            consts = [(each["const"], text_of(each, "title"), as_text(each.get("description"))) for each in branches]
            return [Option(value, title or label_of(value), told or "") for value, title, told in consts]
    return None


def label_of(value: object) -> str:
    """Returns a value for reading: a text without quotes, anything else as JSON."""
    return value if isinstance(value, str) and value.strip() else shown(value)


def alternatives(schema: Schema) -> tuple[str, list[Any]]:
    """Returns the keyword that has alternatives, and those; an empty list if there are none."""
    for keyword in ("oneOf", "anyOf"):
        if branches := as_list(schema.get(keyword)):
            return keyword, branches
    return "", []


def is_null(branch: object) -> bool:
    """Returns whether an alternative is nothing but null."""
    facts = as_dict(branch)
    return facts.get("type") in ("null", ["null"]) or facts.get("const", "") is None or facts.get("enum") == [None]


def requirement(branches: list[Any]) -> str | None:
    """Returns a note for alternatives that differ only in the keys they require; None if they differ otherwise."""
    if not all(isinstance(each, dict) and cast("Schema", each).keys() <= _REQUIREMENTS for each in branches):
        return None
    names = [" and ".join(map(str, as_list(as_dict(each).get("required")))) for each in branches]
    needed = ", or ".join(filter(None, names))
    return f"One of these is needed: {needed}." if needed else "One of several conditions must hold."


def labelled(fields: list[Field], called: list[str]) -> tuple[Field, ...]:
    """Returns the alternatives, each with a name of its own."""
    # The keys whose fixed value tells the alternatives apart.
    shared = [[field.field(each.name) for field in fields] for each in (fields[0].fields if fields else ())]
    fixed = ([each.value for each in found if each is not None and each.kind == "const"] for found in shared)
    told = next((list(map(label_of, found)) for found in fixed if len(found) == len(fields)), [""] * len(fields))
    known = zip(fields, told, called, strict=True)
    names = [field.title or kind or name or _described(field) for field, kind, name in known]
    often, seen = Counter(names), Counter[str]()
    made: list[Field] = []
    for field, name in zip(fields, names, strict=True):
        seen[name] += 1
        made.append(replace(field, name=f"{name} {seen[name]}" if often[name] > 1 else name))
    return tuple(made)


def _described(field: Field) -> str:  # noqa: PLR0911 - one for each kind
    """Returns a description of a field without a name."""
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
            return f"list of {_described(field.items)}" if field.items and field.items.kind != "json" else "list"
        case "object" if field.fields:
            return "object with " + ", ".join(each.name for each in field.fields[:3])
        case "json":
            return "any JSON"
        case "text" if field.format:
            return field.format
        case _:
            return field.kind
