"""Whether a value is what a server's schema asks for: bounded in time, and never out on the net.

Schemas come from servers, and may be broken or hostile. The draft is the one that the schema names, or 2020-12.
References lead nowhere outside the schema. A pattern that might not end is not run, and refuses nothing.

The `jsonschema` library does the work. It takes a tenth of a second to import: import this only to check something.

What a tool returned, held against the schema that its server announced.

The SDK does that on the event loop, in however much time the schema takes: a pattern such as `(a+)+$` halts everything,
for good. Here it is done in a thread, and given up where it would take long. What could not be judged is let through:
schema and result come from the same server, so the check finds its mistakes, and guards nobody.

What a person filled in, made complete and checked against the form that the server asked for.

A form is a flat JSON Schema: fields that are texts, numbers, yes or no, or choices. The checks are made here rather
than by a general validator because the schema comes from the server: no pattern of its making is run, and no address
in it is fetched. What the protocol does not allow in a form is not checked; the server has to judge it.

Messages name the field and never repeat the value, which may be nobody else's business.
"""

import asyncio
import copy
import json
import math
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, datetime
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from typing import Any, Final, cast
from urllib.parse import urlsplit

import jsonschema
from jsonschema.exceptions import ValidationError
from jsonschema.validators import validator_for
from mcp import Client
from mcp_types import CallToolResult
from referencing import Registry
from referencing.jsonschema import lookup_recursive_ref

from tidings.client.patterns import found_in

# The library's types are known only in part.
_extend: Final[Any] = import_module("jsonschema.validators").extend
_best_match: Final[Any] = import_module("jsonschema.exceptions").best_match

_FOR_SCHEMA: Final = 0.5
"""Seconds to look at the schema itself."""
_LARGEST: Final = 500_000
"""Characters of a schema. In a larger one the library takes too long to follow a reference, and looks at no clock."""
_REMEMBERED: Final = 512
"""Schemas that were found to be right."""

_ends_at: ContextVar[float] = ContextVar("_ends_at")
_right: dict[bytes, None] = {}
"""Digests of schemas."""


class OutOfTime(Exception):
    """A check took too long, and was given up."""


@contextmanager
def time_limit(seconds: float) -> Generator[None]:
    """Whatever is checked within has so long in all, or as long as a limit around it: `OutOfTime` is raised after."""
    token = _ends_at.set(min(time.monotonic() + seconds, _ends_at.get(float("inf"))))
    try:
        yield
    finally:
        _ends_at.reset(token)


def schema_error(schema: Mapping[str, Any]) -> ValidationError | None:
    """What is wrong with a schema itself. One that takes too long to look at is taken to be right.

    Raises:
        OutOfTime: It is so large that nothing should be held against it.
    """
    text = json.dumps(schema, default=str)
    if len(text) > _LARGEST:
        raise OutOfTime
    digest = sha256(text.encode()).digest()
    if digest in _right:
        return None
    kind = _kind(schema)
    try:
        with time_limit(_FOR_SCHEMA):
            error: ValidationError | None = _best_match(kind(kind.META_SCHEMA, registry=_NOTHING).iter_errors(schema))
    except OutOfTime:
        error = None
    if error is None:
        _right[digest] = None
        for oldest in list(_right)[:-_REMEMBERED]:
            _right.pop(oldest, None)
    return error


def value_errors(schema: Mapping[str, Any], value: object) -> Iterator[ValidationError]:
    """Where `value` is not what `schema` asks for. Use it within a `time_limit`.

    Raises:
        OutOfTime: There was more to look at than the limit allows.
        Unresolvable: The schema refers to what is not in it.
        RecursionError: The schema or the value is nested too deeply, or the schema refers to itself without end.
    """
    return _kind(schema)(schema, registry=_NOTHING).iter_errors(value)


def best_error(schema: Mapping[str, Any], value: object) -> ValidationError | None:
    """Of the `value_errors`, the one that says most."""
    return _best_match(value_errors(schema, value))


_NOTHING: Final[Registry[Any]] = Registry()
"""The library adds the drafts' own schemas. There is nothing else, and nothing is fetched."""


def _kind(schema: Mapping[str, Any]) -> Any:
    """The validator of the draft that a schema names."""
    return _bounded(validator_for(cast("Any", schema), default=jsonschema.Draft202012Validator))


@lru_cache(maxsize=16)
def _bounded(kind: Any) -> Any:
    """The validator of a draft, with every step watched, and keywords of ours where the library takes long."""
    own: dict[str, Callable[..., Iterator[ValidationError]]] = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "unevaluatedProperties": _unevaluated_properties,
        "unevaluatedItems": _unevaluated_items,
        "uniqueItems": _unique_items,
    }
    made = _extend(
        kind, validators={key: _watched(own.get(key) or library) for key, library in kind.VALIDATORS.items()}
    )
    made.evolve = _evolve
    made.is_valid = _is_valid
    made.descend = _descending(made.descend)
    return made


_DEEPEST: Final = 150
"""How deep is looked into a value or a schema. Python gives up a little later, and in the midst of the library's tables
it does so with something that no `except Exception` holds.
"""
_here: Final = threading.local()


def _look_at_clock() -> None:
    if time.monotonic() > _ends_at.get():
        raise OutOfTime


def _watched(function: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def watching(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _look_at_clock()
        yield from function(validator, value, instance, schema) or ()

    return watching


def _evolve(validator: Any, **changes: Any) -> Any:
    """The validator for another schema. The library's would leave the bounds for a draft that is named further down."""
    _look_at_clock()
    resolver = changes.get("_resolver", validator._resolver)  # noqa: SLF001 - as the library does
    return type(validator)(changes.get("schema", validator.schema), registry=_NOTHING, _resolver=resolver)


def _is_valid(validator: Any, instance: Any) -> bool:
    _look_at_clock()
    return next(validator.iter_errors(instance), None) is None


def _descending(function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    def descend(validator: Any, instance: Any, schema: Any, path: Any = None, **further: Any) -> Iterator[Any]:
        depth = getattr(_here, "depth", 0)
        if depth == _DEEPEST:
            raise RecursionError("a schema or a value is nested too deeply")
        _here.depth = depth + 1
        try:
            for error in function(validator, instance, schema, path=path, **further):
                if schema is False and path is not None:  # Of that the library does not say where it is.
                    error.path.appendleft(path)
                yield error
        finally:
            _here.depth = depth

    return descend


def _fits(validator: Any, instance: Any, schema: Any) -> bool:
    return next(validator.descend(instance, schema), None) is None


def _matches(pattern: str, name: str) -> bool | None:
    _look_at_clock()
    return found_in(pattern, name)


def _pattern(_validator: Any, pattern: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and isinstance(pattern, str) and found_in(pattern, instance) is False:
        yield ValidationError("does not match")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, schema in patterns.items():
        for name, value in cast("dict[str, Any]", instance).items():
            if _matches(pattern, name):
                yield from validator.descend(value, schema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if allowed is True or not isinstance(instance, dict):
        return
    facts = cast("dict[str, Any]", instance)
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    found = {name: [_matches(each, name) for each in patterns] for name in facts if name not in known}
    if any(None in each and True not in each for each in found.values()):
        return  # Nobody can say which keys are left for this.
    further = [name for name, each in found.items() if True not in each]
    if allowed is not False:
        for name in further:
            yield from validator.descend(facts[name], allowed, path=name)
    elif further:
        yield ValidationError(f"Additional properties are not allowed: {_listed(further)}")


def _unevaluated_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    others = {key: value for key, value in schema.items() if key != "unevaluatedProperties"}
    facts = cast("dict[str, Any]", instance)
    seen = _evaluated(validator, facts, others, _names)
    if wrong := [name for name, each in facts.items() if name not in seen and not _fits(validator, each, allowed)]:
        yield ValidationError(f"Unevaluated properties are not allowed: {_listed(wrong)}")


def _unevaluated_items(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, list):
        return
    others = {key: value for key, value in schema.items() if key != "unevaluatedItems"}
    entries = cast("list[Any]", instance)
    seen = _evaluated(validator, entries, others, _places)
    if wrong := [at for at, each in enumerate(entries) if at not in seen and not _fits(validator, each, allowed)]:
        yield ValidationError(f"Unevaluated items are not allowed: {_listed(wrong)}")


def _evaluated(validator: Any, instance: Any, schema: Any, own: Callable[[Any, Any, Any], set[Any]]) -> set[Any]:
    """The keys or places of a value that a schema, or one that it applies, says something about."""
    _look_at_clock()
    if not isinstance(schema, dict):
        return set()
    facts = cast("dict[str, Any]", schema)
    seen = own(validator, instance, facts)
    for keyword in {"$ref", "$dynamicRef", "$recursiveRef"} & facts.keys() & validator.VALIDATORS.keys():
        resolver = validator._resolver  # noqa: SLF001 - as the library does
        found = lookup_recursive_ref(resolver) if keyword == "$recursiveRef" else resolver.lookup(facts[keyword])
        there = validator.evolve(schema=found.contents, _resolver=found.resolver)
        seen |= _evaluated(there, instance, found.contents, own)
    applied = [each for keyword in ("allOf", "anyOf", "oneOf") for each in facts.get(keyword, ())]
    applied = [each for each in applied if _fits(validator, instance, each)]
    if isinstance(instance, dict):
        applied += [each for name, each in facts.get("dependentSchemas", {}).items() if name in instance]
    if "if" in facts and _fits(validator, instance, facts["if"]):
        applied += [facts["if"], facts.get("then")]
    elif "if" in facts:
        applied.append(facts.get("else"))
    return seen.union(*(_evaluated(validator, instance, each, own) for each in applied))


def _names(_validator: Any, instance: dict[str, Any], schema: dict[str, Any]) -> set[str]:
    """The keys that a schema itself says something about. Of one that nobody can say it is taken to."""
    if "additionalProperties" in schema or "unevaluatedProperties" in schema:
        return set(instance)
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return {name for name in instance if name in known or any(_matches(each, name) is not False for each in patterns)}


def _places(validator: Any, instance: list[Any], schema: dict[str, Any]) -> set[int]:
    """The places that a schema itself says something about."""
    items: Any = schema.get("items", [])
    if "unevaluatedItems" in schema or "additionalItems" in schema or not isinstance(items, list):
        return set(range(len(instance)))
    seen = set(range(max(len(schema.get("prefixItems", [])), len(cast("list[Any]", items)))))
    if "contains" in schema:
        seen |= {at for at, each in enumerate(instance) if _fits(validator, each, schema["contains"])}
    return seen


def _unique_items(_validator: Any, unique: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if unique is not True or not isinstance(instance, list):
        return
    seen: set[str] = set()
    for each in cast("list[Any]", instance):
        _look_at_clock()
        # As a text: of numbers a server could choose such as a set takes long for.
        if (text := json.dumps(_plain(each), sort_keys=True, default=str)) in seen:
            yield ValidationError("has non-unique elements")
            return
        seen.add(text)


def _plain(value: Any) -> Any:
    """The value, with each number as it is written shortest: 1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in cast("dict[str, Any]", value).items()}
    return value


def _listed(names: list[Any]) -> str:
    return ", ".join(map(repr, names))


_SECONDS: Final = 1.0
_LONGEST: Final = 200
"""Characters of a complaint."""


def check_in_bounds(client: Client) -> None:
    """Have the SDK's client check what tools return here."""
    session: Any = client.session

    async def checked(name: str, result: CallToolResult) -> None:
        schemas: Mapping[str, Any] = session._tool_output_schemas  # noqa: SLF001 - pinned by a test
        if name not in schemas:
            await session.list_tools()
        if (schema := schemas.get(name)) is None:
            return
        if "structured_content" not in result.model_fields_set:
            raise RuntimeError(f"Tool {name} has an output schema, but returned no structured content")
        if wrong := await asyncio.to_thread(complaint, schema, result.structured_content):
            raise RuntimeError(f"Tool {name}: {wrong}")

    session.validate_tool_result = checked


def leave_unchecked(client: Client) -> None:
    """Have the SDK's client take what tools return as it is."""

    async def taken(_name: str, _result: CallToolResult) -> None:
        pass

    session: Any = client.session
    session.validate_tool_result = taken


def complaint(schema: Mapping[str, Any], value: object) -> str:
    """What is wrong with a tool's result, or with the schema it is measured by; empty if nothing is known to be."""
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - see there

    try:
        with time_limit(_SECONDS):
            if (error := schema_error(schema)) is not None:
                return f"its output schema is wrong at {error.json_path}: {_short(error.message)}"
            error = best_error(schema, value)
    except OutOfTime:
        return ""
    except Unresolvable as missing:
        return f"its output schema refers to {_short(missing.ref)}, which is not in it, and nothing is fetched"
    except RecursionError:
        return (
            "its output schema, or what it returned, is nested too deeply, or the schema refers to itself without end"
        )
    except Exception:  # noqa: BLE001 - the library stumbles over some schemas and values: nobody can say, then
        return ""
    return "" if error is None else f"what it returned does not fit its output schema: {_told(error)}"


def _told(error: Any) -> str:
    at = "" if error.json_path == "$" else f"{error.json_path}: "
    return at + _short(error.message)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


Value = str | int | float | bool | list[str]

_NAMES: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list of texts",
}

_LIMITS: Final[tuple[tuple[str, type | tuple[type, ...], bool, str], ...]] = (
    # The keyword, the values it is for, whether it is a lower limit, and what to say.
    ("minLength", str, True, "needs at least {} characters"),
    ("maxLength", str, False, "may have at most {} characters"),
    ("minItems", list, True, "needs at least {} entries"),
    ("maxItems", list, False, "may have at most {} entries"),
    ("minimum", (int, float), True, "must be {} or more"),
    ("maximum", (int, float), False, "must be {} or less"),
)


def fill_in(schema: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Value]:
    """`content` as the form wants it: the form's default for each field that was left out (None is left out, too), and
    every field checked.

    Raises:
        ValueError: A field is missing, unknown or not what the form allows. The message names it.
    """
    fields = _mapping(schema.get("properties"))
    if unknown := [name for name in content if name not in fields]:
        raise ValueError(
            f"The form has no field {_listed_names(unknown)}. Its fields: {_listed_names(fields) or 'none'}."
        )
    given = {name: value for name, value in content.items() if value is not None}
    defaults = {name: copy.deepcopy(_mapping(field).get("default")) for name, field in fields.items()}
    filled = {name: value for name, value in (defaults | given).items() if value is not None}
    if missing := [name for name in _sequence(schema.get("required")) if name not in list(filled)]:
        raise ValueError(f"The form needs {_listed_names(missing)} as well.")
    for name, value in filled.items():
        if (complaint := _complaint(value, _mapping(fields[name]))) is not None:
            raise ValueError(f"Field {name!r} {complaint}.")
    return filled


def _complaint(value: Any, field: Mapping[str, Any]) -> str | None:
    """What is wrong with this value, in words that follow the field's name; None if nothing is."""
    kind = str(field.get("type"))
    if not any(_is_a(name, value) for name in _NAMES):
        return f"must be {_NAMES.get(kind, 'a text, a number, true or false, or a list of texts')}"
    if kind in _NAMES and not _is_a(kind, value):
        return f"must be {_NAMES[kind]}"
    if (choices := _choices(field)) is not None and not _is_among(value, choices):
        return f"must be one of {_listed_names(choices)}"
    entries = _choices(_mapping(field.get("items")))
    if entries is not None and not all(_is_among(each, entries) for each in _sequence(value)):
        return f"may have only entries out of {_listed_names(entries)}"
    return _limit_complaint(value, field) or _format_complaint(value, field)


def _is_a(kind: str, value: object) -> bool:
    match value:
        case bool():
            return kind == "boolean"
        case int():
            return kind in ("integer", "number")
        case float():
            return math.isfinite(value) and (kind == "number" or (kind == "integer" and value.is_integer()))
        case str():
            return kind == "string"
        case list():
            return kind == "array" and all(isinstance(each, str) for each in cast("list[Any]", value))
        case _:
            return False


def _choices(field: Mapping[str, Any]) -> list[Any] | None:
    """The values that a field allows, if it lists them: plainly, or each with a title."""
    if isinstance(plain := field.get("enum"), list):
        return cast("list[Any]", plain)
    for keyword in ("oneOf", "anyOf"):
        options = [_mapping(option) for option in _sequence(field.get(keyword))]
        if options and all("const" in option for option in options):
            return [option["const"] for option in options]
    return None


def _is_among(value: object, choices: list[Any]) -> bool:
    # For Python, True is 1; for JSON it is not.
    return any(value == choice and isinstance(value, bool) == isinstance(choice, bool) for choice in choices)


def _limit_complaint(value: Any, field: Mapping[str, Any]) -> str | None:
    if isinstance(value, bool):
        return None
    for keyword, kinds, lower, words in _LIMITS:
        limit: Any = field.get(keyword)
        if isinstance(value, kinds) and _is_a("number", limit):
            size: Any = len(cast("str | list[str]", value)) if isinstance(value, str | list) else value
            if size < limit if lower else size > limit:
                return words.format(limit)
    return None


def _format_complaint(value: object, field: Mapping[str, Any]) -> str | None:
    wanted = _FORMATS.get(str(field.get("format")))
    if not isinstance(value, str) or wanted is None:
        return None
    fits, words = wanted
    try:
        return None if fits(value) else f"must be {words}"
    except ValueError:
        return f"must be {words}"


def _is_date(text: str) -> bool:
    return re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) is not None and bool(date.fromisoformat(text))


def _is_date_time(text: str) -> bool:
    shape = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"
    return re.fullmatch(shape, text.upper(), re.ASCII) is not None and bool(datetime.fromisoformat(text.upper()))


def _is_email(text: str) -> bool:
    return re.fullmatch(r"[^\s@]+@[^\s@]+", text) is not None


def _is_uri(text: str) -> bool:
    return re.fullmatch(r"\S+", text) is not None and urlsplit(text).scheme != ""


_FORMATS: Final[dict[str, tuple[Callable[[str], bool], str]]] = {
    "date": (_is_date, "a date, such as 2026-07-28"),
    "date-time": (_is_date_time, "a date and time with its offset, such as 2026-07-28T12:00:00Z"),
    "email": (_is_email, "an e-mail address"),
    "uri": (_is_uri, "a URI, such as https://example.com"),
}


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _sequence(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _listed_names(names: Any) -> str:
    return ", ".join(repr(name) for name in names)
