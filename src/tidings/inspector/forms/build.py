"""A form from any JSON Schema, from a prompt's arguments, or from a resource template's variables.

Each part of a schema is made flat first (`flatten`) and then becomes the field that fits it. A part that is not
understood becomes a field for JSON that says why; nothing is raised. Large schemas are cut, see `FormLimits`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from tidings._kit.bounded_json import as_dict, as_dicts, as_list, as_text, as_texts, is_number
from tidings._kit.uri_templates import variables
from tidings.inspector.forms import words
from tidings.inspector.forms.flatten import Merger, NotUnderstood, Recursive, Schema, conditions
from tidings.inspector.forms.model import Field, Kind

_KINDS: Final[dict[str, Kind]] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "array": "array",
    "object": "object",
}
# The keywords that show the type of a schema that names none.
_TYPICAL: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("object", ("properties", "required", "additionalProperties", "patternProperties", "minProperties")),
    ("array", ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains")),
    ("string", ("pattern", "minLength", "maxLength", "format", "contentEncoding", "contentMediaType")),
    ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)
_ANNOTATIONS: Final = frozenset({"title", "description", "default", "examples", "deprecated", "discriminator"})


@dataclass(frozen=True, slots=True)
class FormLimits:
    """The largest form."""

    fields: int = 2_000  # Altogether. The rest are fields for JSON.
    properties: int = 500  # Of one object, the required ones first. The rest is counted in `hidden`.
    depth: int = 24
    alternatives: int = 100
    options: int = 5_000


_DEFAULT: Final = FormLimits()


@dataclass(frozen=True, slots=True)
class FieldContext:
    """The place of a field in a form, and the references that are open there."""

    refs: frozenset[str]
    depth: int = 0
    name: str = ""
    required: bool = True

    def below(self, name: str = "", *, required: bool = True) -> "FieldContext":
        """Returns a place within this one."""
        return FieldContext(self.refs, self.depth + 1, name, required)


def form(schema: object, limits: FormLimits = _DEFAULT) -> Field:
    """Returns the form of a schema, which may be any JSON value."""
    try:
        return _Builder(schema, limits).root()
    except RecursionError:
        return Field("json", required=True, reason="the schema is nested too deeply for a form")


def prompt_form(arguments: object) -> Field:
    """Returns the form of a prompt, from the `arguments` that the server lists for it. Values are texts."""
    fields: dict[str, Field] = {}
    for facts in as_dicts(list(cast("tuple[Any]", arguments)) if isinstance(arguments, tuple) else arguments):
        if (name := as_text(facts.get("name"))) is not None:
            fields[name] = Field(
                "multiline" if words.may_be_long(name, {}) else "text",
                name=name,
                title=words.text_of(facts, "title"),
                description=words.text_of(facts, "description"),
                required=facts.get("required") is True,
                secret=words.is_secret(name, {}),
            )
    return Field("object", required=True, fields=tuple(fields.values()), closed=True)


def template_form(uri_template: str) -> Field:
    """Returns the form of a resource template: its variables. Those of the query may be left out."""
    fields: dict[str, Field] = {}
    for variable in variables(uri_template):
        hints = (f"only the first {variable.prefix} characters are used",) if variable.prefix else ()
        if variable.operator in ("+", "#"):
            hints = (*hints, "may have slashes")
        notes = ("The template takes several values here.",) if variable.explode else ()
        made = Field("text", name=variable.name, required=not variable.optional, hints=hints, notes=notes)
        fields.setdefault(variable.name, made)
    return Field("object", required=True, fields=tuple(fields.values()), closed=True)


def _common(kind: Kind, schema: Mapping[str, Any], place: FieldContext) -> Field:
    """Returns a field with the attributes that every kind has."""
    examples: Any = schema.get("examples", [schema["example"]] if "example" in schema else [])
    return Field(
        kind,
        name=place.name,
        title=words.short(words.text_of(schema, "title")),
        description=words.text_of(schema, "description"),
        required=place.required,
        deprecated=schema.get("deprecated") is True,
        has_default="default" in schema,
        default=schema.get("default"),
        examples=tuple(as_list(examples)[:20]),
        format=words.text_of(schema, "format"),
        hints=words.hints(schema),
    )


def _json(place: FieldContext, reason: str, schema: Mapping[str, Any] | None = None) -> Field:
    return replace(_common("json", schema or {}, place), reason=reason)


def _null(schema: Schema, place: FieldContext) -> Field:
    return replace(_common("const", schema, place), value=None)


def _noted(field: Field, *notes: str) -> Field:
    return replace(field, notes=(*field.notes, *notes))


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
                try:
                    target = self._merger.resolve(ref)
                except NotUnderstood as error:
                    definitions[ref] = Field("json", reason=str(error))
                else:
                    definitions[ref] = self._field(target, FieldContext(frozenset({ref})))
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
            return _json(place, f"the schema here is {words.shown(schema)}")
        facts = cast("Schema", schema)
        try:
            flat = self._merger.flat(facts, place.refs)
            made = self._flat(flat.schema, replace(place, refs=flat.refs))
        except Recursive as found:
            self._wanted[found.ref] = None
            return replace(_common("ref", found.own, place), ref=found.ref)
        except NotUnderstood as error:
            title, description = words.text_of(facts, "title"), words.text_of(facts, "description")
            return replace(_json(place, str(error)), title=title, description=description)
        return replace(made, notes=(*flat.notes, *made.notes)) if flat.notes else made

    def _flat(self, schema: Schema, place: FieldContext) -> Field:
        if "const" in schema:
            return replace(_common("const", schema, place), value=schema["const"])
        if (listed := words.options(schema)) is not None:
            nullable = any(option.value is None for option in listed)
            offered = tuple(option for option in listed if option.value is not None)[: self._limits.options]
            if offered:
                return replace(_common("enum", schema, place), options=offered, nullable=nullable)
            return _null(schema, place) if nullable else _json(place, "the schema allows no value here", schema)
        keyword, branches = words.alternatives(schema)
        return self._alternatives(keyword, branches, schema, place) if branches else self._typed(schema, place)

    def _typed(self, schema: Schema, place: FieldContext) -> Field:
        stated: Any = schema.get("type")
        kinds = cast("list[Any]", stated if isinstance(stated, list) else [] if stated is None else [stated])
        if unknown := [kind for kind in kinds if not isinstance(kind, str) or kind not in (*_KINDS, "null")]:
            return _json(place, f"the schema has the unknown type {words.shown(unknown[0])}", schema)
        if not kinds:
            kinds = [kind for kind, typical in _TYPICAL if any(key in schema for key in typical)][:1]
        nullable = "null" in kinds or schema.get("nullable") is True
        kinds = list(dict.fromkeys(kind for kind in kinds if kind != "null"))
        if len(kinds) > 1:
            own = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
            made = self._choice([{**own, "type": kind} for kind in kinds], schema, place)
        elif not kinds:
            made = _null(schema, place) if nullable else _json(place, "any value", schema)
            nullable = False
        elif kinds[0] in ("object", "array"):
            made = (self._object if kinds[0] == "object" else self._array)(schema, place)
        else:
            made = _common(_KINDS[kinds[0]], schema, place)
            if kinds[0] == "string" and words.is_secret(place.name, schema):
                made = replace(made, secret=True)
            elif kinds[0] == "string" and words.may_be_long(place.name, schema):
                made = replace(made, kind="multiline")
        if schema.get("not") is not None:
            made = _noted(made, "Some values are excluded (not).")
        return replace(made, nullable=True) if nullable else made

    def _alternatives(self, keyword: str, branches: list[Any], schema: Schema, place: FieldContext) -> Field:
        own = {key: value for key, value in schema.items() if key != keyword}
        real = [branch for branch in branches if not words.is_null(branch)]
        if (note := words.requirement(branches)) is not None and own.keys() - _ANNOTATIONS:
            return _noted(self._flat(own, place), note)
        if not real:
            return _null(schema, place)
        if len(real) == 1 and isinstance(real[0], dict):
            made = self._field({**own, "allOf": real}, replace(place, depth=place.depth + 1))
        else:
            base = {key: value for key, value in own.items() if key not in _ANNOTATIONS}
            made = self._choice([{"allOf": [branch, base]} if base else branch for branch in real], schema, place)
        return replace(made, nullable=True) if len(real) < len(branches) else made

    def _choice(self, branches: list[Any], schema: Schema, place: FieldContext) -> Field:
        kept = branches[: self._limits.alternatives]
        fields = [self._field(branch, place.below()) for branch in kept]
        called = [_referred_name(branch) for branch in kept]
        labelled = words.labelled(fields, called, words.discriminator_of(schema, fields))
        made = replace(_common("choice", schema, place), fields=labelled)
        left_out = len(branches) - len(kept)
        return _noted(made, f"{left_out} further alternatives are not shown.") if left_out else made

    def _object(self, schema: Schema, place: FieldContext) -> Field:
        shape, notes = conditions(schema)
        properties = as_dict(shape.get("properties"))
        required = as_texts(shape.get("required"))
        needed = set(required)
        most = self._limits.properties
        names = list(properties)
        if len(names) > most:  # The required ones first, but in the order of the schema.
            kept = set(sorted(names, key=lambda name: name not in needed)[:most])
            names = [name for name in names if name in kept]
        fields = [self._field(properties[name], place.below(name, required=name in needed)) for name in names]
        fields += [
            _json(place.below(name), "it is needed, but the schema does not describe it")
            for name in required[:most]
            if name not in properties
        ]
        further: Any = shape.get("additionalProperties", shape.get("unevaluatedProperties"))
        # A tool without arguments has the schema `{"type": "object"}`: it needs no rows for further keys.
        free = further is not False and (further is not None or ("properties" not in shape and place.depth > 0))
        patterns = list(as_dict(shape.get("patternProperties")).items())[:most]
        made = replace(
            _common("object", schema, place),
            fields=tuple(fields),
            extra=self._field(True if further is None else further, place.below()) if free else None,
            patterns=tuple((pattern, self._field(each, place.below())) for pattern, each in patterns),
            closed=further is False,
            hidden=len(properties) - len(names),
        )
        return _noted(made, *notes)

    def _array(self, schema: Schema, place: FieldContext) -> Field:
        items: Any = schema.get("items")
        first = schema.get("prefixItems")
        if isinstance(items, list):  # Before 2020
            first, items = cast("list[Any]", items), schema.get("additionalItems")
        if items is None:
            items = schema.get("unevaluatedItems")
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
        made = replace(made, fields=fields, items=item, closed=item is None)
        return _noted(made, "It must contain certain entries (contains).") if "contains" in schema else made


def _referred_name(branch: object) -> str:
    """Returns the name of the definition that an alternative refers to, or an empty text."""
    facts = as_dict(branch)
    inner = as_list(facts.get("allOf"))
    ref = as_text((as_dict(inner[0]) or facts if inner else facts).get("$ref"))
    return (ref or "").rpartition("/")[2].lstrip("#")
