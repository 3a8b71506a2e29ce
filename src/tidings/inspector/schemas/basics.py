"""What every field has, whatever its kind: made from the words that a schema has about it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidings.inspector.schemas.fields import Field, Kind
from tidings.inspector.schemas.merging import as_list
from tidings.inspector.schemas.words import LIMITS, hints, shortened, title


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a form a field is to be, and which references are open there."""

    refs: frozenset[str]
    depth: int = 0
    name: str = ""
    required: bool = True

    def below(self, refs: frozenset[str], name: str = "", *, required: bool = True) -> "Place":
        """A place within this one."""
        return Place(refs, self.depth + 1, name, required)


def common(kind: Kind, schema: Mapping[str, Any], place: Place) -> Field:
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


def json_field(place: Place, reason: str, schema: Mapping[str, Any] | None = None) -> Field:
    """A field for JSON, because there is no better one."""
    return replace(common("json", schema or {}, place), reason=reason)


def text(schema: Mapping[str, Any], key: str) -> str:
    """What a schema says under this key, if that is a text."""
    value = schema.get(key)
    return value.strip() if isinstance(value, str) else ""
