"""A schema made flat: its references and the parts of its `allOf` merged into one.

What a schema says about itself takes precedence over its parts; properties and required names are combined. References
are followed within the schema only. The caller says which references are open, so that a schema that contains itself
is noticed.
"""

from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import unquote

from tidings._kit.bounded_json import as_dict, as_list, as_texts

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
