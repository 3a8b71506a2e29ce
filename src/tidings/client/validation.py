"""Whether a value is what a server's schema asks for: bounded in time, and never out on the net.

Schemas come from servers, and may be broken or hostile. The draft is the one that the schema names, or 2020-12.
References lead nowhere outside the schema. A pattern that might not end is not run, and refuses nothing.

The `jsonschema` library does the work. It takes a tenth of a second to import: import this only to check something.
"""

import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, cast

import jsonschema
from jsonschema.exceptions import ValidationError
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.jsonschema import specification_with

from tidings.client.patterns import found_in

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


class OutOfTime(Exception):
    """A check took too long, and was given up."""


@contextmanager
def time_limit(seconds: float) -> Generator[None]:
    """Whatever is checked within has so long in all: `OutOfTime` is raised after."""
    token = _ends_at.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _ends_at.reset(token)


def schema_error(schema: Mapping[str, Any]) -> ValidationError | None:
    """What is wrong with a schema itself. One that is too large to look at is taken to be right."""
    return _schema_error(json.dumps(schema, default=str), _kind(schema))


def value_errors(schema: Mapping[str, Any], value: object) -> Iterator[ValidationError]:
    """Where `value` is not what `schema` asks for. Use it within a `time_limit`.

    Raises:
        OutOfTime: There was more to look at than the limit allows.
        Unresolvable: The schema refers to what is not in it.
        RecursionError: The schema or the value is nested too deeply, or the schema refers to itself without end.
    """
    return _kind(schema)(_tamed(schema, _longest_key(value)), registry=_registry()).iter_errors(value)


def best_error(schema: Mapping[str, Any], value: object) -> ValidationError | None:
    """Of the `value_errors`, the one that says most."""
    return _best_match(value_errors(schema, value))


@lru_cache(maxsize=128)
def _schema_error(text: str, kind: Any) -> ValidationError | None:
    """The same of a schema as JSON: it is looked at once."""
    try:
        with time_limit(_FOR_SCHEMA):
            return _best_match(kind(_tamed(kind.META_SCHEMA), registry=_registry()).iter_errors(json.loads(text)))
    except OutOfTime:
        return None


@lru_cache(maxsize=1)
def _registry() -> Any:
    """The drafts' own schemas, by their addresses. There is nothing else, and nothing is fetched."""
    tamed = [(uri, _tamed(_REGISTRY[uri].contents), _REGISTRY[uri].contents.get("$schema", "")) for uri in _REGISTRY]
    made: Registry[Any] = Registry()
    return made.with_resources((uri, specification_with(draft).create_resource(facts)) for uri, facts, draft in tamed)


def _kind(schema: Mapping[str, Any]) -> Any:
    """The validator of the draft that a schema names."""
    return _bounded(validator_for(cast("Any", schema), default=jsonschema.Draft202012Validator))


@lru_cache(maxsize=16)
def _bounded(kind: Any) -> Any:
    """The validator of a draft, with every keyword watched."""
    watched = {keyword: _watched(function) for keyword, function in kind.VALIDATORS.items()}
    own = {"pattern": _pattern, "uniqueItems": _unique(kind.VALIDATORS.get("uniqueItems"))}
    return _extend(kind, validators=watched | {key: value for key, value in own.items() if key in watched})


def _watched(function: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def watching(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if time.monotonic() > _ends_at.get():
            raise OutOfTime
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
