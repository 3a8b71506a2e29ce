"""From a JSON Schema, whatever it is, to a form.

Each part of a schema is first made flat (`merging`), then becomes the field that fits it. What is not understood
becomes a field for JSON that says why; nothing is raised. Large schemas are cut: `FormLimits` says where.

What every field has, whatever its kind: made from the words that a schema has about it.

The forms of what has no schema: a prompt's arguments, and the variables of a resource template.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from tidings.inspector.forms import words as words_module
from tidings.inspector.forms.flatten import (
    Merger,
    NotUnderstood,
    Recursive,
    Schema,
    as_list,
    as_schema,
    conditions,
    dependents,
    is_secret,
    may_be_long,
    ordered,
)
from tidings.inspector.forms.model import Field, Kind
from tidings.inspector.forms.words import LIMITS, hints, shortened, shown, title


@dataclass(frozen=True, slots=True)
class FieldContext:
    """Where in a form a field is to be, and which references are open there."""

    refs: frozenset[str]
    depth: int = 0
    name: str = ""
    required: bool = True

    def below(self, refs: frozenset[str], name: str = "", *, required: bool = True) -> "FieldContext":
        """A place within this one."""
        return FieldContext(refs, self.depth + 1, name, required)


def common(kind: Kind, schema: Mapping[str, Any], place: FieldContext) -> Field:
    """A field of a kind, with all that is said in the same way for every kind."""
    examples: Any = schema.get("examples", [schema["example"]] if "example" in schema else [])
    return Field(
        kind,
        name=place.name,
        title=shortened(title(schema)),
        description=text(schema, "description"),
        required=place.required,
        deprecated=schema.get("deprecated") is True,
        has_default="default" in schema,
        default=schema.get("default"),
        examples=tuple(as_list(examples)[:20]),
        format=text(schema, "format"),
        limits={key: schema[key] for key in LIMITS if key in schema},
        hints=hints(schema),
    )


def json_field(place: FieldContext, reason: str, schema: Mapping[str, Any] | None = None) -> Field:
    """A field for JSON, because there is no better one."""
    return replace(common("json", schema or {}, place), reason=reason)


def text(schema: Mapping[str, Any], key: str) -> str:
    """What a schema says under this key, if that is a text."""
    value = schema.get(key)
    return value.strip() if isinstance(value, str) else ""


_TYPES: Final = ("string", "integer", "number", "boolean", "array", "object", "null")
_TELLING: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("object", ("properties", "required", "additionalProperties", "patternProperties", "minProperties")),
    ("array", ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains")),
    ("string", ("pattern", "minLength", "maxLength", "format", "contentEncoding", "contentMediaType")),
    ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)
_ANNOTATIONS: Final = ("title", "description", "default", "examples", "deprecated", "discriminator")
_ALTERNATIVES: Final = ("anyOf", "oneOf")


@dataclass(frozen=True, slots=True)
class FormLimits:
    """How large a form may become."""

    fields: int = 2_000
    """In all. What comes after is a field for JSON."""
    properties: int = 500
    """Of one object; the needed ones first. The rest is counted in `hidden`."""
    depth: int = 24
    """Levels below each other."""
    alternatives: int = 100
    options: int = 5_000


DEFAULT: Final = FormLimits()


def form(schema: object, limits: FormLimits = DEFAULT) -> Field:
    """The form of a schema: any value of JSON, whether or not it is a good schema."""
    try:
        return _Builder(schema, limits).root()
    except RecursionError:
        return Field("json", required=True, reason="the schema is nested too deeply for a form")


class _Builder:
    def __init__(self, schema: object, limits: FormLimits) -> None:
        self._schema = schema
        self._limits = limits
        self._left = limits.fields
        self._merger = Merger(schema, limits.fields * 10)
        self._wanted: dict[str, None] = {}

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
            return json_field(place, "the form has too many fields")
        if place.depth > self._limits.depth:
            return json_field(place, "the schema is nested too deeply for a form")
        if schema is True or schema == {}:
            return json_field(place, "any value")
        if not isinstance(schema, dict):
            why = "the schema allows no value here" if schema is False else f"the schema here is {shown(schema)}"
            return json_field(place, why)
        facts = cast("Schema", schema)
        try:
            flat = self._merger.flat(facts, place.refs)
            made = self._flat(
                flat.schema, FieldContext(flat.refs, place.depth, place.name, place.required), flat.called
            )
        except Recursive as found:
            self._wanted[found.ref] = None
            return replace(common("ref", found.own, place), ref=found.ref)
        except NotUnderstood as error:
            return replace(json_field(place, str(error)), title=title(facts), description=text(facts, "description"))
        return replace(made, notes=(*flat.notes, *made.notes)) if flat.notes else made

    def _flat(self, schema: Schema, place: FieldContext, called: str = "") -> Field:
        if "const" in schema:
            return replace(common("const", schema, place), value=schema["const"])
        if (listed := words_module.options(schema)) is not None:
            nullable = any(option.value is None for option in listed)
            offered = tuple(option for option in listed if option.value is not None)[: self._limits.options]
            if offered:
                return replace(common("enum", schema, place), options=offered, nullable=nullable)
            return _null(schema, place) if nullable else json_field(place, "the schema allows no value here", schema)
        keyword, branches = words_module.alternatives(schema)
        if branches:
            return self._alternatives(keyword, branches, schema, place)
        return self._typed(schema, place, called)

    def _typed(self, schema: Schema, place: FieldContext, called: str) -> Field:
        stated: Any = schema.get("type")
        kinds = cast("list[Any]", stated if isinstance(stated, list) else [] if stated is None else [stated])
        if unknown := [kind for kind in kinds if kind not in _TYPES]:
            return json_field(place, f"the schema has the type {shown(unknown[0])}, which there is not", schema)
        if not kinds:
            kinds = [kind for kind, telling in _TELLING if any(key in schema for key in telling)][:1]
        nullable = "null" in kinds or schema.get("nullable") is True
        kinds = list(dict.fromkeys(kind for kind in kinds if kind != "null"))
        if len(kinds) > 1:
            own = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
            made = self._choice([{**own, "type": kind} for kind in kinds], schema, place)
        elif not kinds:
            made = _null(schema, place) if nullable else json_field(place, "any value", schema)
            nullable = False
        else:
            made = self._of_kind(kinds[0], schema, place)
        if schema.get("not") is not None:
            made = replace(made, notes=(*made.notes, "Some values are excluded (not)."))
        return replace(made, nullable=True) if nullable else made

    def _of_kind(self, kind: str, schema: Schema, place: FieldContext) -> Field:
        if kind == "object":
            return self._object(schema, place)
        if kind == "array":
            return self._array(schema, place)
        if kind == "string":
            secret = is_secret(place.name, schema)
            lines: Literal["text", "multiline"] = (
                "text" if secret or not may_be_long(place.name, schema) else "multiline"
            )
            return replace(common(lines, schema, place), secret=secret)
        return common(cast("Literal['number', 'integer', 'boolean']", kind), schema, place)

    def _alternatives(self, keyword: str, branches: list[Any], schema: Schema, place: FieldContext) -> Field:
        own = {key: value for key, value in schema.items() if key != keyword}
        real = [branch for branch in branches if not words_module.is_null(branch)]
        nullable = len(real) < len(branches)
        if (words := words_module.demand(branches)) is not None and own.keys() - set(_ANNOTATIONS):
            made = self._flat(own, place)
            return replace(made, notes=(*made.notes, words))
        if not real:
            return _null(schema, place)
        if len(real) == 1 and isinstance(real[0], dict):
            deeper = FieldContext(place.refs, place.depth + 1, place.name, place.required)
            made = self._field({**own, "allOf": real}, deeper)
        else:
            base = {key: value for key, value in own.items() if key not in _ANNOTATIONS}
            made = self._choice([{"allOf": [branch, base]} if base else branch for branch in real], schema, place)
        return replace(made, nullable=True) if nullable else made

    def _choice(self, branches: list[Any], schema: Schema, place: FieldContext) -> Field:
        kept = branches[: self._limits.alternatives]
        fields = [self._field(branch, place.below(place.refs)) for branch in kept]
        called = [self._called(branch) for branch in kept]
        discriminator = words_module.discriminator_of(schema, fields)
        made = replace(
            common("choice", schema, place),
            fields=words_module.labelled(fields, called, discriminator),
            discriminator=discriminator,
        )
        if len(kept) < len(branches):
            made = replace(
                made, notes=(*made.notes, f"{len(branches) - len(kept)} further alternatives are not shown.")
            )
        return made

    def _called(self, branch: object) -> str:
        """What a branch refers to, by name."""
        facts = cast("Schema", branch) if isinstance(branch, dict) else {}
        inner: Any = facts.get("allOf")
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            facts = cast("Schema", inner[0])
        ref = facts.get("$ref")
        return ref.rpartition("/")[2].lstrip("#") if isinstance(ref, str) else ""

    def _object(self, schema: Schema, place: FieldContext) -> Field:
        shape, notes = conditions(schema)
        properties = as_schema(shape.get("properties"))
        required = [name for name in as_list(shape.get("required")) if isinstance(name, str)]
        kept = ordered(properties, required, self._limits.properties)
        fields = [
            self._field(properties[name], place.below(place.refs, name, required=name in required)) for name in kept
        ]
        fields += [
            json_field(place.below(place.refs, name), "it is needed, but the schema says nothing about it")
            for name in required[: self._limits.properties]
            if name not in properties
        ]
        further: Any = shape.get("additionalProperties", shape.get("unevaluatedProperties"))
        # What a tool with no arguments says is `{"type": "object"}`: no rows for that.
        free = further not in (None, False) or ("properties" not in shape and place.depth > 0)
        dependent, words = dependents(shape)
        patterns = list(as_schema(shape.get("patternProperties")).items())[: self._limits.properties]
        made = common("object", schema, place)
        return replace(
            made,
            fields=tuple(fields),
            extra=self._further(further, place) if free and further is not False else None,
            patterns=tuple((pattern, self._field(each, place.below(place.refs))) for pattern, each in patterns),
            closed=further is False,
            hidden=len(properties) - len(kept),
            dependent=dependent,
            notes=(*made.notes, *notes, *words),
        )

    def _array(self, schema: Schema, place: FieldContext) -> Field:
        items: Any = schema.get("items")
        first = schema.get("prefixItems")
        if isinstance(items, list):  # Before 2020
            first, items = cast("list[Any]", items), schema.get("additionalItems")
        if items is None:
            items = schema.get("unevaluatedItems")
        entries = as_list(first)[: self._limits.properties]
        least: Any = schema.get("minItems", 0)
        least = least if isinstance(least, int | float) else 0
        fields = tuple(
            self._field(entry, place.below(place.refs, str(spot), required=spot < least))
            for spot, entry in enumerate(entries)
        )
        item = None if items is False else self._further(items, place)
        made = common("array", schema, place)
        if item is not None and item.kind == "enum" and not fields and not item.nullable:
            return replace(made, kind="multi", options=item.options)
        notes = ("It must contain certain entries (contains).",) if "contains" in schema else ()
        return replace(made, fields=fields, items=item, closed=item is None, notes=(*made.notes, *notes))

    def _further(self, schema: object, place: FieldContext) -> Field:
        return self._field(True if schema is None else schema, place.below(place.refs))


def _null(schema: Schema, place: FieldContext) -> Field:
    return replace(common("const", schema, place), value=None)


_EXPRESSION: Final = re.compile(r"\{([+#./;?&|!@=,]?)([^{}]+)\}")
_VARIABLE: Final = re.compile(r"(?P<name>(?:\w|%[0-9A-Fa-f]{2}|\.)+)(?::(?P<most>\d{1,4})|(?P<several>\*))?")
_OPTIONAL: Final = frozenset("?&;#")
"""The operators before variables that a URI is whole without."""


def prompt_form(arguments: object) -> Field:
    """The form of a prompt, from the `arguments` that the server lists for it. Values are texts."""
    fields: dict[str, Field] = {}
    for each in cast("Sequence[Any]", arguments) if isinstance(arguments, list | tuple) else ():
        facts = as_schema(each)
        name = facts.get("name")
        if isinstance(name, str):
            fields[name] = Field(
                "multiline" if may_be_long(name, {}) else "text",
                name=name,
                title=_text(facts.get("title")),
                description=_text(facts.get("description")),
                required=facts.get("required") is True,
                secret=is_secret(name, {}),
            )
    return Field("object", required=True, fields=tuple(fields.values()), closed=True)


def template_form(uri_template: str) -> Field:
    """The form of a resource template: its variables, as RFC 6570 has them. Those in the query may be left out."""
    fields: dict[str, Field] = {}
    for expression in _EXPRESSION.finditer(uri_template):
        for part in expression[2].split(","):
            variable = _VARIABLE.fullmatch(part.strip())
            if variable is None or variable["name"] in fields:
                continue
            most, hints = variable["most"], list[str]()
            if most:
                hints.append(f"only the first {most} characters are used")
            if expression[1] in ("+", "#"):
                hints.append("may have slashes")
            fields[variable["name"]] = Field(
                "text",
                name=variable["name"],
                required=expression[1] not in _OPTIONAL,
                hints=tuple(hints),
                notes=("The template takes several values here.",) if variable["several"] else (),
            )
    return Field("object", required=True, fields=tuple(fields.values()), closed=True)


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
