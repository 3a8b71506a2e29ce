"""A schema made flat: what it refers to and what it is made of (`allOf`), merged into one.

What it says of itself (title, description, default) goes before what the parts say; limits are combined. References are
followed within the schema only. Whoever follows one says which others are open, so that a schema that contains itself
is noticed rather than followed.

What the form of an object needs to know: which properties it has in the end, and on what they depend.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import unquote

Schema = dict[str, Any]

_DEEPEST: Final = 40
_UNMERGED: Final = frozenset(
    {"$ref", "$dynamicRef", "$recursiveRef", "allOf", "$defs", "definitions", "$schema", "$id"}
)
_LOWER: Final = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_UPPER: Final = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})


class Recursive(Exception):
    """The schema contains itself here."""

    def __init__(self, ref: str, own: Schema) -> None:
        super().__init__(ref)
        self.ref = ref
        self.own = own


class NotUnderstood(Exception):
    """There is no form for this. Says why."""


@dataclass
class Flat:
    """A schema without references and parts."""

    schema: Schema
    refs: frozenset[str]
    """The references that are open within it."""
    called: str = ""
    """What the schema that it refers to is called."""
    notes: list[str] = field(default_factory=list[str])


class Merger:
    """Makes the parts of one schema flat. Takes at most `steps` steps in its life."""

    def __init__(self, root: object, steps: int) -> None:
        self._root = root
        self._steps = steps

    def flat(self, schema: Schema, refs: frozenset[str], depth: int = 0) -> Flat:
        """`schema`, seen from within the schemas that `refs` lead to.

        Raises:
            Recursive: It is one of those.
            NotUnderstood: A reference leads nowhere; or the parts are too many or too deep.
        """
        self._steps -= 1
        if self._steps < 0:
            raise NotUnderstood("the schema is too large for a form")
        if depth > _DEEPEST:
            raise NotUnderstood("the schema is nested too deeply for a form")
        flat = Flat({key: value for key, value in schema.items() if key not in _UNMERGED}, refs)
        for ref in self._references(schema):
            self._follow(flat, ref, depth)
        for part in as_list(schema.get("allOf")):
            self._add(flat, part, depth)
        return flat

    def _follow(self, flat: Flat, ref: str, depth: int) -> None:
        """Merge in what a reference leads to."""
        if ref in flat.refs:
            raise Recursive(ref, flat.schema)
        target = self.resolve(ref)
        flat.refs |= {ref}
        if not isinstance(target, dict):
            self._add(flat, target, depth)
            return
        part = self.flat(cast("Schema", target), flat.refs, depth + 1)
        # A type's name is no name for the place where it is used.
        own_name = part.schema.pop("title", None)
        flat.called = flat.called or part.called or str(own_name or ref.rpartition("/")[2])
        _add_part(flat, part)

    def _add(self, flat: Flat, part: object, depth: int) -> None:
        """Merge in a part."""
        if part is False:
            raise NotUnderstood("the schema allows no value here")
        if isinstance(part, dict):
            try:
                inner = self.flat(cast("Schema", part), flat.refs, depth + 1)
            except Recursive as found:
                raise Recursive(found.ref, {**found.own, **flat.schema}) from None
            flat.called = flat.called or inner.called
            _add_part(flat, inner)

    def _references(self, schema: Schema) -> list[str]:
        return [ref for key in ("$ref", "$dynamicRef", "$recursiveRef") if isinstance(ref := schema.get(key), str)]

    def resolve(self, ref: str) -> object:
        """What `ref` leads to, within this schema.

        Raises:
            NotUnderstood: Nothing; or something elsewhere, which is never fetched.
        """
        if ref in ("#", ""):
            return self._root
        if ref.startswith("#/"):
            found: Any = self._root
            for token in ref[2:].split("/"):
                key = unquote(token).replace("~1", "/").replace("~0", "~")
                if isinstance(found, dict) and key in found:
                    found = cast("Schema", found)[key]
                elif (
                    isinstance(found, list)
                    and key.isdecimal()
                    and len(key) < 8
                    and int(key) < len(cast("list[Any]", found))
                ):
                    found = cast("list[Any]", found)[int(key)]
                else:
                    raise NotUnderstood(f"the schema refers to {ref[:200]}, which is not in it")
            return found
        for section in ("$defs", "definitions"):
            for each in as_schema(as_schema(self._root).get(section)).values():
                facts = as_schema(each)
                names = (facts.get("$id"), f"#{facts.get('$anchor')}", f"#{facts.get('$dynamicAnchor')}")
                if ref in names:
                    return facts
        where = "is not in it" if ref.startswith("#") else "is elsewhere; nothing is fetched"
        raise NotUnderstood(f"the schema refers to {ref[:200]}, which {where}")


def _add_part(flat: Flat, part: Flat) -> None:
    flat.refs = part.refs
    flat.notes += part.notes
    _merge(flat, part.schema)


def _merge(flat: Flat, other: Schema) -> None:
    own = flat.schema
    for key, theirs in other.items():
        if key not in own:
            own[key] = theirs
            continue
        mine = own[key]
        if key in ("properties", "patternProperties", "dependentRequired", "dependentSchemas", "dependencies"):
            own[key] = _both(as_schema(mine), as_schema(theirs), schemas=key in ("properties", "patternProperties"))
        elif key == "required":
            own[key] = list(dict.fromkeys(each for each in [*as_list(mine), *as_list(theirs)] if isinstance(each, str)))
        elif key == "type":
            _narrow(flat, _types(mine), _types(theirs))
        elif key == "enum":
            own[key] = [each for each in as_list(mine) if each in as_list(theirs)]
        elif key in _LOWER | _UPPER and _is_number(mine) and _is_number(theirs):
            own[key] = max(mine, theirs) if key in _LOWER else min(mine, theirs)
        elif key in ("anyOf", "oneOf", "if", "not") and mine != theirs:
            flat.notes.append(f"There is more than one {key}; the form follows the first, the check all of them.")


def _both(mine: Schema, theirs: Schema, *, schemas: bool) -> Schema:
    made = dict(mine)
    for key, value in theirs.items():
        if key not in made:
            made[key] = value
        elif made[key] != value and schemas:
            made[key] = {"allOf": [made[key], value]}
    return made


def _narrow(flat: Flat, mine: list[str], theirs: list[str]) -> None:
    both = [kind for kind in mine if kind in theirs or (kind == "integer" and "number" in theirs)]
    both += [kind for kind in theirs if kind == "integer" and "number" in mine and kind not in both]
    if not both:
        flat.notes.append("The schema contradicts itself here: no value fits.")
    else:
        flat.schema["type"] = both[0] if len(both) == 1 else both


def _types(value: Any) -> list[str]:
    return [each for each in (as_list(value) or [value]) if isinstance(each, str)]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_schema(value: object) -> Schema:
    """The schema, or an empty one."""
    return cast("Schema", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """The list, or an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


_SECRET: Final = re.compile(
    r"(?:^|_)(?:password|passwd|pwd|passphrase|secret|api_?key|private_?key|access_?key|(?:access|auth|api|bearer)_?token|token)$"
)
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LONG: Final = frozenset(
    {"content", "contents", "body", "markdown", "html", "code", "script", "sql", "text", "message"}
)
_LONG_FORMATS: Final = frozenset({"textarea", "multiline", "markdown", "html", "code"})


def is_secret(name: str, schema: Mapping[str, Any]) -> bool:
    """Whether what is typed here should not be seen.

    A name is taken for a secret's only if it plainly is one: dots in place of `max_tokens` would help nobody.
    """
    if schema.get("format") == "password" or schema.get("writeOnly") is True:
        return True
    plain = _CAMEL.sub("_", name).lower().replace("-", "_").replace(" ", "_")
    return _SECRET.search(plain) is not None


def may_be_long(name: str, schema: Mapping[str, Any]) -> bool:
    """Whether a text is likely to have several lines."""
    default, longest = schema.get("default"), schema.get("maxLength")
    if isinstance(longest, int | float) and longest <= 200:
        return False
    return (
        str(schema.get("format")) in _LONG_FORMATS
        or (isinstance(media := schema.get("contentMediaType"), str) and media.startswith(("text/", "application/")))
        or (isinstance(default, str) and "\n" in default)
        or (isinstance(longest, int | float) and longest >= 500)
        or ("format" not in schema and _CAMEL.sub("_", name).lower().rpartition("_")[2] in _LONG)
    )


def ordered(properties: Mapping[str, Any], required: list[str], most: int) -> list[str]:
    """The names of the properties to show, in order; where there are too many, the needed ones first."""
    names = list(properties)
    if len(names) <= most:
        return names
    needed = set(required)
    kept = set(sorted(names, key=lambda name: name not in needed)[:most])
    return [name for name in names if name in kept]


def conditions(schema: Schema) -> tuple[Schema, list[str]]:
    """The schema with the properties that it has on some condition only, and words about those."""
    parts: list[Any] = [schema.get(key) for key in ("then", "else") if "if" in schema]
    for key in ("dependentSchemas", "dependencies"):
        parts += [part for part in as_schema(schema.get(key)).values() if isinstance(part, dict)]
    own = as_schema(schema.get("properties"))
    added: Schema = {}
    for part in parts:
        for name, value in as_schema(as_schema(part).get("properties")).items():
            if name not in own:
                added.setdefault(name, value)
    notes: list[str] = []
    if "if" in schema:
        notes.append("What is needed depends on what is filled in (if, then, else).")
    if added:
        notes.append(f"Used on some condition only: {', '.join(list(added)[:20])}.")
        schema = {**schema, "properties": {**own, **added}}
    return schema, notes


def dependents(schema: Schema) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Which fields are needed once another is given, and the words for it."""
    found: dict[str, tuple[str, ...]] = {}
    for key in ("dependentRequired", "dependencies"):
        for name, needed in as_schema(schema.get(key)).items():
            if isinstance(needed, list):
                names = tuple(each for each in cast("list[Any]", needed) if isinstance(each, str))
                found[name] = (*found.get(name, ()), *names)
    words = [f"If {name} is given, {' and '.join(needed)} is needed." for name, needed in found.items() if needed]
    return found, words[:20]
