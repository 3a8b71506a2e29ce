"""A schema made flat: its references and the parts of its `allOf` merged into one.

What a schema says about itself (title, description, default) takes precedence over its parts; limits are combined.
References are followed within the schema only. The caller says which references are open, so that a schema that
contains itself is noticed.
"""

from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import unquote

from tidings._kit.bounded_json import as_dict, as_list, as_texts, is_number

Schema = dict[str, Any]

_DEEPEST: Final = 40
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_UNMERGED: Final = frozenset({*_REFERENCES, "allOf", "$defs", "definitions", "$schema", "$id"})
_LOWER: Final = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_UPPER: Final = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})


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
    notes: list[str] = field(default_factory=list[str])

    def add(self, part: "Flat") -> None:
        """Merges another schema in."""
        self.refs = part.refs
        self.called = self.called or part.called
        self.notes += part.notes
        for key, theirs in part.schema.items():
            if key in self.schema:
                self._combine(key, self.schema[key], theirs)
            else:
                self.schema[key] = theirs

    def _combine(self, key: str, mine: Any, theirs: Any) -> None:
        if key in ("properties", "patternProperties"):
            made = dict(as_dict(mine))
            for name, value in as_dict(theirs).items():
                made[name] = value if made.get(name, value) == value else {"allOf": [made[name], value]}
            self.schema[key] = made
        elif key in ("dependentRequired", "dependentSchemas", "dependencies"):
            self.schema[key] = {**as_dict(mine), **as_dict(theirs), **as_dict(mine)}
        elif key == "required":
            self.schema[key] = list(dict.fromkeys([*as_texts(mine), *as_texts(theirs)]))
        elif key == "type":
            self._narrow(_types(mine), _types(theirs))
        elif key == "enum":
            self.schema[key] = [each for each in as_list(mine) if each in as_list(theirs)]
        elif key in _LOWER | _UPPER and is_number(mine) and is_number(theirs):
            self.schema[key] = max(mine, theirs) if key in _LOWER else min(mine, theirs)
        elif key in ("anyOf", "oneOf", "if", "not") and mine != theirs:
            self.notes.append(f"There is more than one {key}. The form follows the first, the check all of them.")

    def _narrow(self, mine: list[str], theirs: list[str]) -> None:
        both = [kind for kind in mine if kind in theirs or (kind == "integer" and "number" in theirs)]
        both += [kind for kind in theirs if kind == "integer" and "number" in mine and kind not in both]
        if not both:
            self.notes.append("The schema contradicts itself here: no value fits.")
        else:
            self.schema["type"] = both[0] if len(both) == 1 else both


def _types(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else as_texts(value)


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
        for key in _REFERENCES:
            if isinstance(ref := schema.get(key), str):
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
        if ref in ("#", ""):
            return self._root
        if ref.startswith("#/"):
            found: Any = self._root
            for token in ref[2:].split("/"):
                key = unquote(token).replace("~1", "/").replace("~0", "~")
                entries = as_list(found)
                if key in as_dict(found):
                    found = found[key]
                elif key.isdecimal() and len(key) < 8 and int(key) < len(entries):
                    found = entries[int(key)]
                else:
                    raise NotUnderstood(f"the schema refers to {ref[:200]}, which is not in it")
            return found
        for section in ("$defs", "definitions"):
            for each in as_dict(as_dict(self._root).get(section)).values():
                facts = as_dict(each)
                if ref in (facts.get("$id"), f"#{facts.get('$anchor')}", f"#{facts.get('$dynamicAnchor')}"):
                    return facts
        where = "is not in it" if ref.startswith("#") else "is elsewhere; nothing is fetched"
        raise NotUnderstood(f"the schema refers to {ref[:200]}, which {where}")


def conditions(schema: Schema) -> tuple[Schema, list[str]]:
    """Returns the schema of an object with the properties that it has only under a condition, and notes about them."""
    parts: list[Any] = [schema.get(key) for key in ("then", "else") if "if" in schema]
    for key in ("dependentSchemas", "dependencies"):
        parts += as_dict(schema.get(key)).values()
    own = as_dict(schema.get("properties"))
    added: Schema = {}
    for part in parts:
        for name, value in as_dict(as_dict(part).get("properties")).items():
            if name not in own:
                added.setdefault(name, value)
    notes = ["What is needed depends on other values (if, then, else)."] if "if" in schema else []
    if added:
        notes.append(f"Used under some conditions only: {', '.join(list(added)[:20])}.")
        schema = {**schema, "properties": {**own, **added}}
    needed: dict[str, list[str]] = {}
    for key in ("dependentRequired", "dependencies"):
        for name, others in as_dict(schema.get(key)).items():
            needed.setdefault(name, []).extend(as_texts(others))
    told = [f"If {name} is given, {' and '.join(others)} is needed." for name, others in needed.items() if others]
    return schema, [*notes, *told[:20]]
