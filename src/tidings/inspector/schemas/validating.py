"""`checks` at work with the `jsonschema` library: bounded in time, and never out on the net.

Imported only when something is checked: the library takes a tenth of a second.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from importlib import import_module
from itertools import islice
from typing import Any, Final, cast

import jsonschema
from jsonschema.exceptions import ValidationError
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from tidings.inspector.schemas.bounded import found_in
from tidings.inspector.schemas.checks import server_fault
from tidings.inspector.schemas.failures import Teller
from tidings.inspector.schemas.places import Problem, place
from tidings.inspector.schemas.words import expected, shown

# The library's types are known only in part.
_REGISTRY: Final[Any] = import_module("jsonschema_specifications").REGISTRY
_extend: Final[Any] = import_module("jsonschema.validators").extend
_best_match: Final[Any] = import_module("jsonschema.exceptions").best_match

_UNIQUE: Final = 2_000
"""Entries of a list that are compared with each other."""
_FOR_SCHEMA: Final = 0.5
"""Seconds to look at the schema itself."""
_KEY: Final = 50
"""Characters of a key, of those that nobody looked at."""
_VALUES: Final = frozenset({"const", "enum", "default", "examples"})
"""Keywords with values below them, not schemas."""

_ends_at: ContextVar[float] = ContextVar("_ends_at")


class _OutOfTime(Exception):
    """It took too long."""


def problems(schema: object, value: object, seconds: float, most: int) -> list[Problem]:
    """What is wrong with `value`, or with `schema`."""
    if isinstance(schema, bool):
        return [] if schema else [server_fault("", "it allows no value at all")]
    if not isinstance(schema, dict):
        return [server_fault("", f"it must be an object, not {shown(schema)}")]
    facts = cast("dict[str, Any]", schema)
    token = _ends_at.set(time.monotonic() + seconds)
    try:
        kind = _bounded(cast("type[Any]", validator_for(facts, default=jsonschema.Draft202012Validator)))
        if wrong := _schema_problem(json.dumps(facts, default=str), kind):
            return [wrong]
        errors: Iterable[ValidationError] = kind(_tamed(facts, _longest_key(value)), registry=_registry()).iter_errors(
            value
        )
        told = (found for error in errors for found in Teller(facts).told(error))
        return list(islice(dict.fromkeys(told), most))
    except _OutOfTime:
        words = f"The check was given up after {seconds:g} s: the server's schema, or the value, is too large."
        return [Problem("", words, fault="schema")]
    except Unresolvable as error:
        ref = f"#{error.ref}" if error.ref.startswith("/") else error.ref
        return [server_fault("", f"it refers to {shown(ref)}, which is not in it, and nothing is fetched")]
    finally:
        _ends_at.reset(token)


@lru_cache(maxsize=128)
def _schema_problem(text: str, kind: Any) -> Problem | None:
    """What is wrong with a schema, given as JSON: it is looked at once. One that is too large is taken to be right."""
    token = _ends_at.set(time.monotonic() + _FOR_SCHEMA)
    try:
        error: Any = _best_match(kind(_tamed(kind.META_SCHEMA), registry=_registry()).iter_errors(json.loads(text)))
    except _OutOfTime:
        return None
    finally:
        _ends_at.reset(token)
    if error is None:
        return None
    where = place(error.absolute_path)
    if error.validator == "anyOf" and where.rpartition(".")[2] == "type":
        return server_fault(where, f"there is no type {shown(error.instance)}")
    return server_fault(where, f"expected {expected(error.schema)}, got {shown(error.instance)}")


@lru_cache(maxsize=1)
def _registry() -> Any:
    """The drafts' own schemas, by their addresses. There is nothing else, and nothing is fetched."""
    tamed = [(uri, _tamed(_REGISTRY[uri].contents), _REGISTRY[uri].contents.get("$schema", "")) for uri in _REGISTRY]
    made: Registry[Any] = Registry()
    return made.with_resources((uri, specification_with(draft).create_resource(facts)) for uri, facts, draft in tamed)


@lru_cache(maxsize=16)
def _bounded(kind: Any) -> Any:
    """The validator of a draft, with every keyword watched."""
    watched = {keyword: _watched(function) for keyword, function in kind.VALIDATORS.items()}
    own = {"pattern": _pattern, "uniqueItems": _unique(kind.VALIDATORS.get("uniqueItems"))}
    return _extend(kind, validators=watched | {key: value for key, value in own.items() if key in watched})


def _watched(function: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def watching(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if time.monotonic() > _ends_at.get():
            raise _OutOfTime
        yield from function(validator, value, instance, schema) or ()

    return watching


def _pattern(_validator: Any, pattern: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and isinstance(pattern, str) and found_in(pattern, instance) is False:
        yield ValidationError("does not match")


def _unique(function: Any) -> Callable[..., Iterator[Any]]:
    def bounded(validator: Any, unique: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if not isinstance(instance, list) or len(cast("list[Any]", instance)) <= _UNIQUE:
            yield from function(validator, unique, instance, schema) or ()

    return bounded


def _longest_key(value: object) -> int:
    """How long the keys of a value are, at most."""
    longest = 0
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            facts = cast("dict[str, Any]", found)
            longest = max(longest, *map(len, facts), 0)
            waiting += facts.values()
        elif isinstance(found, list):
            waiting += cast("list[Any]", found)
    return longest


def _tamed(schema: Any, longest: int = _KEY) -> Any:
    """The schema without what would lead around the bounds: drafts named further down, patterns that may not end.

    Args:
        schema: Any part of one.
        longest: The length of the keys that patterns for keys are tried on.
    """
    if isinstance(schema, list):
        return [_tamed(each, longest) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    facts = cast("dict[str, Any]", schema)
    made = {
        key: value if key in _VALUES else _tamed(value, longest)
        for key, value in facts.items()
        if not (key == "$schema" and isinstance(value, str))
    }
    if isinstance(made.get("properties"), dict):
        # Of a bare `false` the library does not say where it is.
        properties = cast("dict[str, Any]", made["properties"]).items()
        made["properties"] = {name: {"not": {}} if each is False else each for name, each in properties}
    patterns: Any = made.get("patternProperties")
    if isinstance(patterns, dict) and not all(
        found_in(each, "x" * max(longest, _KEY)) is not None for each in cast("dict[str, Any]", patterns)
    ):
        # Nobody can say then which keys are left for these.
        for keyword in ("patternProperties", "additionalProperties", "unevaluatedProperties"):
            made.pop(keyword, None)
    return made
