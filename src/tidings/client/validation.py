"""Whether a value is what a server's schema asks for: bounded in time, and never out on the net.

Schemas come from servers, and may be broken or hostile. The draft is the one that the schema names, or 2020-12.
References lead nowhere outside the schema. A pattern that might not end is not run, and refuses nothing.

The `jsonschema` library does the work. It takes a tenth of a second to import: import this only to check something.
"""

import json
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from typing import Any, Final, cast

import jsonschema
from jsonschema.exceptions import ValidationError
from jsonschema.validators import validator_for
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
