"""What the form of an object needs to know: which properties it has in the end, and on what they depend."""

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from tidings.inspector.schemas.merging import Schema, as_schema

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
