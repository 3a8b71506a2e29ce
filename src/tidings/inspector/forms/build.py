"""A form from any JSON Schema; and the schemas of a prompt's arguments, and of a resource template's variables.

Each part of a schema is made flat first (`flatten`) and then becomes the field that fits it. A part that is not
understood becomes a field for JSON that says why; nothing is raised. The parts of a large schema become such fields
too, see `FormLimits`. Rare keywords are left to the check of the value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from tidings._kit.bounded_json import as_dict, as_dicts, as_list, as_text, as_texts, is_number
from tidings._kit.uri_templates import variables
from tidings.inspector.forms import schemas
from tidings.inspector.forms.model import Field, Kind
from tidings.inspector.forms.schemas import Merger, NotUnderstood, Recursive, Schema

_KINDS: Final[dict[str, Kind]] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "array": "array",
    "object": "object",
}
# The keywords that show the type of a schema that names none.
_TYPICAL: Final = {"properties": "object", "required": "object", "items": "array"}
_ANNOTATIONS: Final = frozenset({"title", "description", "default", "examples", "deprecated", "discriminator"})


@dataclass(frozen=True, slots=True)
class FormLimits:
    """The largest form."""

    fields: int = 2_000  # Altogether. The rest are fields for JSON.
    properties: int = 500  # Of one object. A larger one is a field for JSON.
    depth: int = 24
    alternatives: int = 100


_DEFAULT: Final = FormLimits()


@dataclass(frozen=True, slots=True)
class FieldContext:
    """The place of a field in a form, and the references that are open there."""

    refs: frozenset[str]
    depth: int = 0
    name: str = ""
    required: bool = True

    def below(self, name: str = "", *, required: bool = True) -> "FieldContext":
        return FieldContext(self.refs, self.depth + 1, name, required)


def form(schema: object, limits: FormLimits = _DEFAULT) -> Field:
    """Returns the form of a schema, which may be any JSON value."""
    try:
        return _Builder(schema, limits).root()
    except RecursionError:
        return Field("json", required=True, reason="the schema is nested too deeply for a form")


def prompt_schema(arguments: object) -> Schema:
    """Returns the schema of a prompt's arguments, from the list that the server sent. Values are texts."""
    named = {name: each for each in as_dicts(arguments) if (name := as_text(each.get("name"))) is not None}
    properties: Schema = {}
    for name, each in named.items():
        properties[name] = {"type": "string", **{key: schemas.text_of(each, key) for key in ("title", "description")}}
    return _texts_schema(properties, [name for name, each in named.items() if each.get("required") is True])


def template_schema(uri_template: str) -> Schema:
    """Returns the schema of a resource template's variables. Those of the query may be left out."""
    properties: Schema = {}
    required: list[str] = []
    for each in variables(uri_template):
        if each.name not in properties:
            hints = [f"only the first {each.prefix} characters are used"] if each.prefix else []
            hints += ["may have slashes"] if each.operator in ("+", "#") else []
            hints += ["several values are possible"] if each.explode else []
            properties[each.name] = {"type": "string", "description": ", ".join(hints)}
            required += [] if each.optional else [each.name]
    return _texts_schema(properties, required)


def _texts_schema(properties: Schema, required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _common(kind: Kind, schema: Mapping[str, Any], place: FieldContext) -> Field:
    return Field(
        kind,
        name=place.name,
        title=schemas.short(schemas.text_of(schema, "title")),
        description=schemas.text_of(schema, "description"),
        required=place.required,
        deprecated=schema.get("deprecated") is True,
        has_default="default" in schema,
        default=schema.get("default"),
        examples=tuple(as_list(schema.get("examples"))[:20]),
        format=schemas.text_of(schema, "format") or schemas.text_of(schema, "contentEncoding"),
        hints=schemas.hints(schema),
    )


def _json(place: FieldContext, reason: str, schema: Mapping[str, Any] | None = None) -> Field:
    return replace(_common("json", schema or {}, place), reason=reason)


class _Builder:
    def __init__(self, schema: object, limits: FormLimits) -> None:
        self._schema, self._limits, self._left = schema, limits, limits.fields
        self._merger = Merger(schema, limits.fields * 10)
        self._wanted: dict[str, None] = {}  # The references that fields of the kind `ref` stand for.

    def root(self) -> Field:
        made = self._field(self._schema, FieldContext(frozenset({"#"})))
        definitions: dict[str, Field] = {}
        while missing := [ref for ref in self._wanted if ref not in definitions]:
            for ref in missing:
                # It was resolved when it was found to contain itself.
                definitions[ref] = self._field(self._merger.resolve(ref), FieldContext(frozenset({ref})))
        return replace(made, definitions=definitions)

    def _field(self, schema: object, place: FieldContext) -> Field:  # noqa: PLR0911 - one for each reason
        self._left -= 1
        if self._left < 0:
            return _json(place, "the form has too many fields")
        if place.depth > self._limits.depth:
            return _json(place, "the schema is nested too deeply for a form")
        if schema is True or schema == {}:
            return _json(place, "any value")
        if schema is False:
            return _json(place, "the schema allows no value here")
        if not isinstance(schema, dict):
            return _json(place, f"the schema here is {schemas.shown(schema)}")
        facts = cast("Schema", schema)
        try:
            flat = self._merger.flat(facts, place.refs)
            return self._flat(flat.schema, replace(place, refs=flat.refs))
        except Recursive as found:
            self._wanted[found.ref] = None
            return replace(_common("ref", found.own, place), ref=found.ref)
        except NotUnderstood as error:
            title, description = schemas.text_of(facts, "title"), schemas.text_of(facts, "description")
            return replace(_json(place, str(error)), title=title, description=description)

    def _flat(self, schema: Schema, place: FieldContext) -> Field:
        if "const" in schema:
            return replace(_common("const", schema, place), value=schema["const"])
        if (listed := schemas.options(schema)) is not None:
            nullable = any(option.value is None for option in listed)
            if offered := tuple(option for option in listed if option.value is not None):
                return replace(_common("enum", schema, place), options=offered, nullable=nullable)
            null = _common("const", schema, place)
            return null if nullable else _json(place, "the schema allows no value here", schema)
        keyword, branches = schemas.alternatives(schema)
        return self._alternatives(keyword, branches, schema, place) if branches else self._typed(schema, place)

    def _typed(self, schema: Schema, place: FieldContext) -> Field:
        typical = [kind for key, kind in _TYPICAL.items() if key in schema][:1]
        stated: Any = schema.get("type", typical)
        kinds = cast("list[Any]", stated if isinstance(stated, list) else [stated])
        if unknown := [kind for kind in kinds if not isinstance(kind, str) or kind not in (*_KINDS, "null")]:
            return _json(place, f"the schema has the unknown type {schemas.shown(unknown[0])}", schema)
        nullable = "null" in kinds
        kinds = list(dict.fromkeys(kind for kind in kinds if kind != "null"))
        if not kinds:
            return _common("const", schema, place) if nullable else _json(place, "any value", schema)
        if len(kinds) > 1:
            own = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
            made = self._choice([{**own, "type": kind} for kind in kinds], schema, place)
        elif kinds[0] == "object":
            made = self._object(schema, place)
        elif kinds[0] == "array":
            made = self._array(schema, place)
        else:
            made = _common(_KINDS[kinds[0]], schema, place)
            if kinds[0] == "string" and schemas.is_secret(place.name, schema):
                made = replace(made, secret=True)
            elif kinds[0] == "string" and schemas.may_be_long(place.name, schema):
                made = replace(made, kind="multiline")
        return replace(made, nullable=True) if nullable else made

    def _alternatives(self, keyword: str, branches: list[Any], schema: Schema, place: FieldContext) -> Field:
        own = {key: value for key, value in schema.items() if key != keyword}
        real = [branch for branch in branches if not schemas.is_null(branch)]
        if (note := schemas.requirement(branches)) is not None and own.keys() - _ANNOTATIONS:
            return replace(self._flat(own, place), notes=(note,))
        if not real:
            return _common("const", schema, place)
        if len(real) == 1 and isinstance(real[0], dict):
            made = self._field({**own, "allOf": real}, replace(place, depth=place.depth + 1))
        else:
            base = {key: value for key, value in own.items() if key not in _ANNOTATIONS}
            made = self._choice([{"allOf": [branch, base]} if base else branch for branch in real], schema, place)
        return replace(made, nullable=True) if len(real) < len(branches) else made

    def _choice(self, branches: list[Any], schema: Schema, place: FieldContext) -> Field:
        kept = branches[: self._limits.alternatives]
        fields = [self._field(branch, place.below()) for branch in kept]
        left_out = len(branches) - len(kept)
        notes = (f"{left_out} further alternatives are not shown.",) if left_out else ()

        def referred(branch: object) -> str:
            """Returns the name of the definition that an alternative refers to, or an empty text."""
            inner = as_list(as_dict(branch).get("allOf"))
            ref = as_text(((as_dict(inner[0]) if inner else {}) or as_dict(branch)).get("$ref"))
            return (ref or "").rpartition("/")[2].lstrip("#")

        labelled = schemas.labelled(fields, list(map(referred, kept)))
        return replace(_common("choice", schema, place), fields=labelled, notes=notes)

    def _object(self, schema: Schema, place: FieldContext) -> Field:
        properties = dict(as_dict(schema.get("properties")))
        # Under a condition, there are others.
        conditional = [schema.get("then"), schema.get("else"), *as_dict(schema.get("dependentSchemas")).values()]
        for name, each in (pair for part in conditional for pair in as_dict(as_dict(part).get("properties")).items()):
            properties.setdefault(name, each)
        required = as_texts(schema.get("required"))
        if len(properties) > self._limits.properties:
            return _json(place, "the form has too many fields", schema)
        fields = [self._field(each, place.below(name, required=name in required)) for name, each in properties.items()]
        unknown = [name for name in required if name not in properties]
        fields += [_json(place.below(name), "it is needed, but the schema does not describe it") for name in unknown]
        patterns = list(as_dict(schema.get("patternProperties")).values())
        further: Any = schema.get("additionalProperties")
        if patterns and not further:
            further = patterns[0]
        # A tool without arguments has the schema `{"type": "object"}`: it needs no rows for further keys.
        free = further is not False and (further is not None or ("properties" not in schema and place.depth > 0))
        return replace(
            _common("object", schema, place),
            fields=tuple(fields),
            extra=self._field(True if further is None else further, place.below()) if free else None,
            closed=further is False,
        )

    def _array(self, schema: Schema, place: FieldContext) -> Field:
        items: Any = schema.get("items")
        first = schema.get("prefixItems")
        if isinstance(items, list):  # Before 2020
            first, items = cast("list[Any]", items), schema.get("additionalItems")
        least: Any = schema.get("minItems", 0)
        least = least if is_number(least) else 0
        fields = tuple(
            self._field(entry, place.below(str(spot), required=spot < least))
            for spot, entry in enumerate(as_list(first)[: self._limits.properties])
        )
        item = None if items is False else self._field(True if items is None else items, place.below())
        made = _common("array", schema, place)
        if item is not None and item.kind == "enum" and not fields and not item.nullable:
            return replace(made, kind="multi", options=item.options)
        return replace(made, fields=fields, items=item, closed=item is None)
