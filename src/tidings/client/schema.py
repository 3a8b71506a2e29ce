"""JSON Schema checks in bounded time: tool output, and the forms of elicitations. The only file that uses `jsonschema`.

Schemas come from servers, and may be broken or hostile. The draft is the one that the schema names, or 2020-12.
References lead nowhere outside the schema. A pattern that takes too long refuses nothing. A form is a flat schema
(texts, numbers, yes or no, choices), which needs no validator: no pattern of the server is run for it. Importing
`jsonschema` takes a tenth of a second, so import this file late.
"""

import copy
import json
import math
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import date, datetime
from functools import lru_cache, partial
from hashlib import sha256
from importlib import import_module
from typing import Any, Final, cast
from urllib.parse import urlsplit

import jsonschema
from jsonschema.exceptions import ValidationError
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from tidings._kit.bounded_json import as_dict, as_list, mapped
from tidings._kit.patterns import DeadlineExceeded, found_in
from tidings._kit.text import shortened

# The library's types are known only in part.
_extend: Final[Any] = import_module("jsonschema.validators").extend
_best_match: Final[Any] = import_module("jsonschema.exceptions").best_match

# Characters of a schema. In a larger one, the library takes too long to follow a reference, and checks no clock.
_LARGEST_SCHEMA: Final = 500_000
_MOST_UNEVALUATED: Final = 1_000  # Members of a value: in a larger one, `unevaluated…` is not judged.
_REMEMBERED: Final = 512
_QUICK_SECONDS: Final = 0.002
_short: Final = partial(shortened, limit=200)  # For complaints.
_PLAIN_KEYWORDS: Final = frozenset(("type", "properties", "required", "items", "title", "description", "default"))
_PLAIN_TYPES: Final[dict[str, type]] = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
_DEEPEST: Final = 150
"""The depth to which a value or a schema is checked. Python gives up a little later, and in the midst of the library's
tables it does so with an exception that no `except Exception` catches."""
_ends_at: ContextVar[float] = ContextVar("_ends_at")
_valid_digests: dict[bytes, None] = {}
# By the id of a schema, which is kept alive here: the schema and its validator.
_prepared: dict[int, tuple[Mapping[str, Any], Any]] = {}
_here: Final = threading.local()
# The library adds the drafts' own schemas. There is nothing else, and nothing is fetched.
_NOTHING: Final[Registry[Any]] = Registry()


@contextmanager
def time_limit(seconds: float) -> Generator[None]:
    """Limits all checks within to so many seconds, or to an outer limit. `DeadlineExceeded` is raised after that."""
    token = _ends_at.set(min(time.monotonic() + seconds, _ends_at.get(float("inf"))))
    try:
        yield
    finally:
        _ends_at.reset(token)


def schema_error(schema: Mapping[str, Any]) -> ValidationError | None:
    """Returns what is wrong with a schema itself. One that takes too long to check counts as valid."""
    text = json.dumps(schema, default=str)
    if len(text) > _LARGEST_SCHEMA:
        raise DeadlineExceeded  # Nothing should be checked against it.
    digest = sha256(text.encode()).digest()
    if digest in _valid_digests:
        return None
    kind = _validator(schema)
    try:
        with time_limit(0.5):
            error: ValidationError | None = _best_match(kind(kind.META_SCHEMA, registry=_NOTHING).iter_errors(schema))
    except DeadlineExceeded:
        error = None
    if error is None:
        _valid_digests[digest] = None
        for oldest in list(_valid_digests)[:-_REMEMBERED]:
            _valid_digests.pop(oldest, None)
    return error


def value_errors(schema: Mapping[str, Any], value: object) -> Iterator[ValidationError]:
    """Yields where `value` does not fit `schema`. Use it within a `time_limit`, which may raise `DeadlineExceeded`.

    Raises `Unresolvable` if the schema refers to something that is not in it, and `RecursionError` if the schema or the
    value is nested too deeply, or the schema refers to itself without end.
    """
    return _validator(schema)(schema, registry=_NOTHING).iter_errors(value)


def complaint(schema: Mapping[str, Any], value: object, *, quick: bool = False) -> str | None:  # noqa: PLR0911 - outcomes
    """Returns what is wrong with a tool's result, or with its schema; empty if nothing is known to be wrong.

    None: it cannot be judged in time. It is let through then: schema and result come from the same server, so the check
    finds its mistakes, and protects nobody. `quick`: in no time that an event loop would notice, with a schema that was
    used before.
    """
    try:
        with time_limit(_QUICK_SECONDS if quick else 1.0):
            # A client checks results of the same tools again and again.
            known, validator = _prepared.get(id(schema), (None, None))
            if validator is None or known is not schema:
                if quick:
                    return None
                if (error := schema_error(schema)) is not None:
                    return f"its output schema is wrong at {error.json_path}: {_short(error.message)}"
                validator = _validator(schema)(schema, registry=_NOTHING)
                _prepared[id(schema)] = schema, validator
                for oldest in list(_prepared)[:-_REMEMBERED]:
                    _prepared.pop(oldest, None)
            error = None if _surely_fits(schema, value) else _best_match(validator.iter_errors(value))
    except DeadlineExceeded:
        return None
    except Unresolvable as missing:
        return f"its output schema refers to {_short(missing.ref)}, which is not in it, and nothing is fetched"
    except RecursionError:
        why = "nested too deeply, or the schema refers to itself without end"
        return f"its output schema, or what it returned, is {why}"
    except Exception:  # noqa: BLE001 - the library fails on some schemas and values: they cannot be judged
        return ""
    if error is None:
        return ""
    at = "" if error.json_path == "$" else f"{error.json_path}: "
    return f"what it returned does not fit its output schema: {at}{_short(error.message)}"


def _surely_fits(schema: Any, value: Any) -> bool:
    """Returns True if the value fits a plain schema, in a tenth of a validator's time. Otherwise ask the validator."""
    _check_clock()
    facts = as_dict(schema)
    kind = str(facts.get("type"))
    if not facts.keys() <= _PLAIN_KEYWORDS or type(value) is not _PLAIN_TYPES.get(kind):
        return False
    if kind == "array":
        return "items" in facts and all(_surely_fits(facts["items"], each) for each in value)
    if kind == "object" and all(name in value for name in as_list(facts.get("required"))):
        known = as_dict(facts.get("properties"))
        return all(_surely_fits(known[name], each) for name, each in value.items() if name in known)
    return kind != "object"


# The validators.


def _validator(schema: Mapping[str, Any]) -> Any:
    kind = validator_for(cast("Any", schema), default=jsonschema.Draft202012Validator)
    # To find what is unevaluated, the library would run patterns without a limit.
    return _bounded(kind, has_patterns='"patternProperties"' in json.dumps(schema, default=str))


@lru_cache(maxsize=16)
def _bounded(kind: Any, *, has_patterns: bool) -> Any:
    """Returns the validator of a draft that checks the clock at every step, with our own slow keywords."""
    own: dict[str, Callable[..., Iterator[ValidationError]]] = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": _unique_items,
    }
    for keyword in {"unevaluatedProperties", "unevaluatedItems"} & kind.VALIDATORS.keys():
        own[keyword] = _unevaluated(kind.VALIDATORS[keyword], judged=not has_patterns)

    def timed(keyword: str, library: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        def check(*arguments: Any) -> Iterator[Any]:
            _check_clock()
            yield from (own.get(keyword) or library)(*arguments) or ()

        return check

    made = _extend(kind, validators={keyword: timed(keyword, library) for keyword, library in kind.VALIDATORS.items()})
    further = made.descend

    def descend(validator: Any, instance: Any, schema: Any, path: Any = None, **options: Any) -> Iterator[Any]:
        depth = getattr(_here, "depth", 0)
        if depth == _DEEPEST:
            raise RecursionError("a schema or a value is nested too deeply")
        _here.depth = depth + 1
        try:
            for error in further(validator, instance, schema, path=path, **options):
                if schema is False and path is not None:  # The library does not say where this is.
                    error.path.appendleft(path)
                yield error
        finally:
            _here.depth = depth

    def is_valid(validator: Any, instance: Any) -> bool:
        _check_clock()
        return next(validator.iter_errors(instance), None) is None

    made.evolve, made.descend, made.is_valid = _evolve, descend, is_valid
    return made


def _check_clock() -> None:
    if time.monotonic() > _ends_at.get():
        raise DeadlineExceeded


def _evolve(validator: Any, **changes: Any) -> Any:
    """Returns the validator of another schema. The library's own would lose the bounds where a schema names a draft."""
    _check_clock()
    resolver = changes.get("_resolver", validator._resolver)  # noqa: SLF001 - private; see test_private_names.py
    return type(validator)(changes.get("schema", validator.schema), registry=_NOTHING, _resolver=resolver)


def _matches(pattern: str, name: str) -> bool | None:
    _check_clock()
    return found_in(pattern, name)


def _pattern(_validator: Any, pattern: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and isinstance(pattern, str) and _matches(pattern, instance) is False:
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
    members = cast("dict[str, Any]", instance)
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    found = {name: [_matches(each, name) for each in patterns] for name in members if name not in known}
    if any(None in each and True not in each for each in found.values()):
        return  # It cannot be said which keys are additional.
    further = [name for name, each in found.items() if True not in each]
    if allowed is not False:
        for name in further:
            yield from validator.descend(members[name], allowed, path=name)
    elif further:
        yield ValidationError(f"Additional properties are not allowed: {_listed(further)}")


def _unevaluated(library: Callable[..., Any], *, judged: bool) -> Callable[..., Iterator[ValidationError]]:
    """Returns the library's check for small values: its work grows with the square of the size."""

    def check(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if judged and isinstance(instance, dict | list) and len(cast("list[Any]", instance)) <= _MOST_UNEVALUATED:
            yield from library(validator, allowed, instance, schema) or ()

    return check


def _unique_items(_validator: Any, unique: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if unique is not True or not isinstance(instance, list):
        return
    seen: set[str] = set()
    for each in cast("list[Any]", instance):
        _check_clock()
        plain = mapped(each, lambda it: int(it) if isinstance(it, float) and it.is_integer() else it)  # 1.0 is 1.
        # As text: a server could choose numbers for which a set takes long.
        if (text := json.dumps(plain, sort_keys=True, default=str)) in seen:
            yield ValidationError("has non-unique elements")
            return
        seen.add(text)


# Forms.

FormValue = str | int | float | bool | list[str]

_TYPES: Final = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list of strings",
}
_LIMITS: Final[tuple[tuple[str, type | tuple[type, ...], bool, str], ...]] = (
    # The keyword, the type of its values, whether it is a lower limit, and the complaint.
    ("minLength", str, True, "needs at least {} characters"),
    ("maxLength", str, False, "may have at most {} characters"),
    ("minItems", list, True, "needs at least {} entries"),
    ("maxItems", list, False, "may have at most {} entries"),
    ("minimum", (int, float), True, "must be {} or more"),
    ("maximum", (int, float), False, "must be {} or less"),
)


def fill_in(schema: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, FormValue]:
    """Returns the content of a form: checked, with the form's defaults for fields that were left out or are None.

    What the protocol does not allow in a form is not checked; the server has to judge it. A `ValueError` names the
    field that is missing, unknown or wrong, and never repeats the value, which may be confidential.
    """
    fields = as_dict(schema.get("properties"))
    if unknown := [name for name in content if name not in fields]:
        raise ValueError(f"The form has no field {_listed(unknown)}. Its fields: {_listed(fields) or 'none'}.")
    given = {name: value for name, value in content.items() if value is not None}
    defaults = {name: copy.deepcopy(as_dict(field).get("default")) for name, field in fields.items()}
    filled = {name: value for name, value in (defaults | given).items() if value is not None}
    if missing := [name for name in as_list(schema.get("required")) if name not in list(filled)]:
        raise ValueError(f"The form needs {_listed(missing)} as well.")
    for name, value in filled.items():
        if (wrong := _field_complaint(value, as_dict(fields[name]))) is not None:
            raise ValueError(f"Field {name!r} {wrong}.")
    return filled


def _field_complaint(value: Any, field: Mapping[str, Any]) -> str | None:
    """Returns what is wrong with a value, in words that follow the field's name."""
    kind = str(field.get("type"))
    if not any(_is_a(name, value) for name in _TYPES):
        return f"must be {_TYPES.get(kind, 'a string, a number, true or false, or a list of strings')}"
    if kind in _TYPES and not _is_a(kind, value):
        return f"must be {_TYPES[kind]}"
    if (choices := _choices(field)) is not None and not _is_among(value, choices):
        return f"must be one of {_listed(choices)}"
    entries = _choices(as_dict(field.get("items")))
    if entries is not None and not all(_is_among(each, entries) for each in as_list(value)):
        return f"may have only entries out of {_listed(entries)}"
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
    """Returns the values that a field allows, if it lists them: plainly, or each with a title."""
    if isinstance(plain := field.get("enum"), list):
        return cast("list[Any]", plain)
    for keyword in ("oneOf", "anyOf"):
        options = [as_dict(option) for option in as_list(field.get(keyword))]
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
    shape, parse, words = wanted
    with suppress(ValueError):
        if re.fullmatch(shape, value) and parse(value):
            return None
    return f"must be {words}"


# For each format: its shape, a function that finds a value of this shape wrong all the same, and the complaint.
_FORMATS: Final[dict[str, tuple[str, Callable[[str], object], str]]] = {
    "date": (r"[0-9]{4}-[0-9]{2}-[0-9]{2}", date.fromisoformat, "a date, such as 2026-07-28"),
    "date-time": (
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})",
        lambda text: datetime.fromisoformat(text.upper()),
        "a date and time with its offset, such as 2026-07-28T12:00:00Z",
    ),
    "email": (r"[^\s@]+@[^\s@]+", str, "an e-mail address"),
    "uri": (r"\S+", lambda text: urlsplit(text).scheme, "a URI, such as https://example.com"),
}


def _listed(names: Any) -> str:
    return ", ".join(map(repr, names))
