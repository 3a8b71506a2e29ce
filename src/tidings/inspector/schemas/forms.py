"""From a JSON Schema, whatever it is, to a form.

Each part of a schema is first made flat (`merging`), then becomes the field that fits it. What is not understood
becomes a field for JSON that says why; nothing is raised. Large schemas are cut: `FormLimits` says where.
"""

from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from tidings.inspector.schemas import choices
from tidings.inspector.schemas.basics import Place, common, json_field, text
from tidings.inspector.schemas.fields import Field
from tidings.inspector.schemas.merging import Merger, NotUnderstood, Recursive, Schema, as_list, as_schema
from tidings.inspector.schemas.objects import conditions, dependents, is_secret, may_be_long, ordered
from tidings.inspector.schemas.words import shown, title

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
        made = self._field(self._schema, Place(frozenset({"#"})))
        definitions: dict[str, Field] = {}
        while missing := [ref for ref in self._wanted if ref not in definitions]:
            for ref in missing:
                try:
                    target = self._merger.resolve(ref)
                except NotUnderstood as error:
                    definitions[ref] = Field("json", reason=str(error))
                else:
                    definitions[ref] = self._field(target, Place(frozenset({ref})))
        return replace(made, definitions=definitions)

    def _field(self, schema: object, place: Place) -> Field:  # noqa: PLR0911 - one for each reason
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
            made = self._flat(flat.schema, Place(flat.refs, place.depth, place.name, place.required), flat.called)
        except Recursive as found:
            self._wanted[found.ref] = None
            return replace(common("ref", found.own, place), ref=found.ref)
        except NotUnderstood as error:
            return replace(json_field(place, str(error)), title=title(facts), description=text(facts, "description"))
        return replace(made, notes=(*flat.notes, *made.notes)) if flat.notes else made

    def _flat(self, schema: Schema, place: Place, called: str = "") -> Field:
        if "const" in schema:
            return replace(common("const", schema, place), value=schema["const"])
        if (listed := choices.options(schema)) is not None:
            nullable = any(option.value is None for option in listed)
            offered = tuple(option for option in listed if option.value is not None)[: self._limits.options]
            if offered:
                return replace(common("enum", schema, place), options=offered, nullable=nullable)
            return _null(schema, place) if nullable else json_field(place, "the schema allows no value here", schema)
        keyword, branches = choices.alternatives(schema)
        if branches:
            return self._alternatives(keyword, branches, schema, place)
        return self._typed(schema, place, called)

    def _typed(self, schema: Schema, place: Place, called: str) -> Field:
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

    def _of_kind(self, kind: str, schema: Schema, place: Place) -> Field:
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

    def _alternatives(self, keyword: str, branches: list[Any], schema: Schema, place: Place) -> Field:
        own = {key: value for key, value in schema.items() if key != keyword}
        real = [branch for branch in branches if not choices.is_null(branch)]
        nullable = len(real) < len(branches)
        if (words := choices.demand(branches)) is not None and own.keys() - set(_ANNOTATIONS):
            made = self._flat(own, place)
            return replace(made, notes=(*made.notes, words))
        if not real:
            return _null(schema, place)
        if len(real) == 1 and isinstance(real[0], dict):
            deeper = Place(place.refs, place.depth + 1, place.name, place.required)
            made = self._field({**own, "allOf": real}, deeper)
        else:
            base = {key: value for key, value in own.items() if key not in _ANNOTATIONS}
            made = self._choice([{"allOf": [branch, base]} if base else branch for branch in real], schema, place)
        return replace(made, nullable=True) if nullable else made

    def _choice(self, branches: list[Any], schema: Schema, place: Place) -> Field:
        kept = branches[: self._limits.alternatives]
        fields = [self._field(branch, place.below(place.refs)) for branch in kept]
        called = [self._called(branch) for branch in kept]
        discriminator = choices.discriminator_of(schema, fields)
        made = replace(
            common("choice", schema, place),
            fields=choices.labelled(fields, called, discriminator),
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

    def _object(self, schema: Schema, place: Place) -> Field:
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

    def _array(self, schema: Schema, place: Place) -> Field:
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

    def _further(self, schema: object, place: Place) -> Field:
        return self._field(True if schema is None else schema, place.below(place.refs))


def _null(schema: Schema, place: Place) -> Field:
    return replace(common("const", schema, place), value=None)
