"""Whether a value is what a schema asks for; if not, where, what was expected and what was got.

    >>> check({"properties": {"limit": {"type": "integer", "minimum": 1}}}, {"limit": "many"})[0].message
    'limit: expected an integer of at least 1, got "many"'

The draft is the one that the schema names, or 2020-12. References lead nowhere outside the schema. What takes longer
than `seconds` is given up, and that is said. A schema that is wrong is the server's fault, and said to be: such a
problem has `fault="schema"` and says nothing about the value.

What the library says about a failure, in words that help: which place, what was expected, what was got.

Of several alternatives, none of which fits, the one is told that was probably meant: the others fail at once, by their
type or by the value that tells them apart.

`checks` at work: what is wrong with a value, or with the schema it is measured by, in words.

Imported only when something is checked: what it stands on takes a tenth of a second.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, cast

from jsonschema.exceptions import ValidationError, by_relevance
from referencing.exceptions import Unresolvable

from tidings._kit.patterns import DeadlineExceeded, found_in
from tidings._kit.suggest import closest
from tidings.client.schema import schema_error, time_limit, value_errors
from tidings.inspector.forms.flatten import Merger, NotUnderstood, Recursive, Schema, is_secret
from tidings.inspector.forms.model import FieldProblem, Key, place, problem, unexpected
from tidings.inspector.forms.words import expected, joined, shown

MOST: Final = 50
"""Problems that are told at once."""


def check(schema: object, value: object, *, seconds: float = 1.0) -> list[FieldProblem]:
    """All that is wrong with `value`; empty if nothing is."""
    try:
        return problems(schema, value, seconds, MOST)
    except RecursionError:
        return [server_fault("", "it, or the value, is nested too deeply, or it refers to itself without end")]


def check_output(output_schema: object, structured: object, *, seconds: float = 1.0) -> list[FieldProblem]:
    """All that is wrong with the structured content of a tool's result; None stands for none."""
    if output_schema is None:
        return []
    if structured is None:
        words = "The tool has an output schema, but its result has no structured content."
        return [FieldProblem("", words, expected="structured content", got="nothing")]
    return check(output_schema, structured, seconds=seconds)


def server_fault(where: str, what: str) -> FieldProblem:
    """The schema itself is wrong."""
    at = f" at {where}" if where else ""
    return FieldProblem(where, f"The server's schema is wrong{at}: {what}.", fault="schema")


_DEEPEST: Final = 8
_MOST_HINTS: Final = 20  # of what was meant by names that are not known
_UNSUITED: Final = ("const", "enum", "type")


class FailureWords:
    """Tells the failures of values of one schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def told(self, error: ValidationError, depth: int = 0) -> list[FieldProblem]:  # noqa: PLR0911 - one a keyword
        """The problems that a failure comes down to."""
        keys = tuple(error.absolute_path)
        schema = error.schema if isinstance(error.schema, dict) else {}
        value: Any = error.instance
        keyword: Any = error.validator
        match keyword:
            case "required":
                return self._missing(keys, schema, value, error.validator_value)
            case "additionalProperties" | "unevaluatedProperties" if error.validator_value is False:
                return _unknown(keys, schema, value)
            case "anyOf" | "oneOf":
                return self._alternatives(error, keys, schema, depth)
            case "dependentRequired" | "dependencies":
                return _dependents(keys, value, error.validator_value) or [problem(keys, error.message)]
            case "not":
                unwanted: Any = error.validator_value
                words = "nothing here" if unwanted in ({}, True) else f"anything but {self.words(unwanted)}"
                return [unexpected(keys, words, shown(value))]
            case "uniqueItems":
                return [unexpected(keys, "a list with no entry twice", shown(value))]
            case "contains" | "minContains" | "maxContains":
                return [unexpected(keys, f"a list with {self.words(schema.get('contains'))} in it", shown(value))]
            case None:
                return [unexpected(keys, "nothing here", shown(value))]
            case _:
                return [unexpected(keys, self.words(schema), self._got(keys, schema, value))]

    def words(self, schema: Any, depth: int = 0) -> str:
        """What a schema asks for, with its references followed."""
        if not isinstance(schema, dict):
            return expected(schema)
        try:
            flat = Merger(self._schema, 200).flat(cast("Schema", schema), frozenset())
        except (Recursive, NotUnderstood):
            return expected(cast("Schema", schema))
        for keyword in ("anyOf", "oneOf"):
            branches = flat.schema.get(keyword)
            if isinstance(branches, list) and "type" not in flat.schema and depth < _DEEPEST:
                return joined([self.words(each, depth + 1) for each in cast("list[Any]", branches)[:12]], "or")
        if "type" not in flat.schema and flat.called and expected(flat.schema) == "another value":
            return flat.called
        return expected(flat.schema)

    def _got(self, keys: tuple[Key, ...], schema: Mapping[str, Any], value: Any) -> str:
        hidden = bool(keys) and isinstance(keys[-1], str) and isinstance(value, str) and is_secret(keys[-1], schema)
        return "a text that is not shown" if hidden else shown(value)

    def _missing(self, keys: tuple[Key, ...], schema: Schema, value: Any, required: Any) -> list[FieldProblem]:
        known: Any = schema.get("properties")
        properties = cast("Schema", known) if isinstance(known, dict) else {}
        missing = [name for name in cast("list[str]", required) if name not in value]
        return [unexpected((*keys, name), self.words(properties.get(name, True)), "nothing") for name in missing]

    def _alternatives(
        self, error: ValidationError, keys: tuple[Key, ...], schema: Schema, depth: int
    ) -> list[FieldProblem]:
        branches: dict[Any, list[ValidationError]] = {}
        for each in error.context or []:
            branches.setdefault(each.schema_path[0], []).append(each)
        words = joined([self.words(each) for each in cast("list[Any]", error.validator_value)], "or")
        if not branches:
            return [problem(keys, f"fits more than one of: {words}", expected="exactly one alternative")]
        meant = [found for found in branches.values() if not any(_rules_out(each, error) for each in found)]
        if not meant or depth > _DEEPEST:
            named = _told_apart(error, branches)
            if named is not None:
                return [unexpected((*keys, named[0]), named[1], shown(_at(error.instance, named[0])))]
            return [unexpected(keys, words, self._got(keys, schema, error.instance))]
        if len(meant) > 1 and all(_needs_only(found) for found in meant):
            names = [" and ".join(_names_missing(found)) for found in meant]
            return [problem(keys, f"needs {joined(names, 'or')}", expected=joined(names, "or"), got="neither")]
        best = min(meant, key=lambda found: (len(found), [by_relevance()(each) for each in found][:1]))
        return [told for each in best for told in self.told(each, depth + 1)]


def _rules_out(failure: ValidationError, parent: ValidationError) -> bool:
    """Whether a failure shows that an alternative was not meant: the kind of the whole, or a fixed value in it."""
    deeper = len(failure.absolute_path) - len(parent.absolute_path)
    if deeper == 0:
        return failure.validator in _UNSUITED
    return deeper == 1 and failure.validator == "const"


def _needs_only(failures: list[ValidationError]) -> bool:
    return all(each.validator == "required" for each in failures)


def _names_missing(failures: list[ValidationError]) -> list[str]:
    return list(
        dict.fromkeys(
            name
            for each in failures
            for name in cast("list[str]", each.validator_value)
            if name not in cast("Any", each.instance)
        )
    )


def _told_apart(error: ValidationError, branches: Mapping[Any, list[ValidationError]]) -> tuple[str, str] | None:
    """The key that tells the alternatives apart, and the values it may have; None if there is no such key."""
    values: dict[str, list[Any]] = {}
    for failures in branches.values():
        for each in failures:
            if each.validator == "const" and len(each.absolute_path) == len(error.absolute_path) + 1:
                values.setdefault(str(each.absolute_path[-1]), []).append(each.validator_value)
    for name, allowed in values.items():
        if len(allowed) == len(branches):
            return name, f"one of {', '.join(shown(value) for value in allowed)}"
    return None


def _at(value: Any, name: str) -> Any:
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None


def _unknown(keys: tuple[Key, ...], schema: Schema, value: Any) -> list[FieldProblem]:
    known: Any = schema.get("properties")
    names = list(cast("Schema", known)) if isinstance(known, dict) else []
    patterns: Any = schema.get("patternProperties")
    allowed = list(cast("Schema", patterns)) if isinstance(patterns, dict) else []
    told: list[FieldProblem] = []
    for name in cast("dict[str, Any]", value):
        if name in names or any(found_in(pattern, name) for pattern in allowed):
            continue
        close = closest(name, names) if len(told) < _MOST_HINTS else []
        listed = ", ".join(names[:12]) + (" …" if len(names) > 12 else "")
        hint = f". Did you mean {close[0]}?" if close else f". Known are: {listed}." if names else "."
        told.append(problem((*keys, name), f"is not known{hint}", expected=listed or "nothing", got=name))
    return told


def _dependents(keys: tuple[Key, ...], value: Any, rules: Any) -> list[FieldProblem]:
    told: list[FieldProblem] = []
    for name, needed in cast("dict[str, Any]", rules).items():
        for other in cast("list[str]", needed) if name in value and isinstance(needed, list) else []:
            if other not in value:
                words = f"is needed, because {name} is given"
                told.append(problem((*keys, other), words, expected="a value", got="nothing"))
    return told


def problems(schema: object, value: object, seconds: float, most: int) -> list[FieldProblem]:  # noqa: PLR0911 - one a fault
    """What is wrong with `value`, or with `schema`."""
    if isinstance(schema, bool):
        return [] if schema else [server_fault("", "it allows no value at all")]
    if not isinstance(schema, dict):
        return [server_fault("", f"it must be an object, not {shown(schema)}")]
    facts = cast("dict[str, Any]", schema)
    try:
        with time_limit(seconds):
            if (wrong := schema_error(facts)) is not None:
                return [_schema_problem(wrong)]
            told = (found for error in value_errors(facts, value) for found in FailureWords(facts).told(error))
            return list(islice(dict.fromkeys(told), most))
    except DeadlineExceeded:
        words = f"The check was given up after {seconds:g} s: the server's schema, or the value, is too large."
        return [FieldProblem("", words, fault="schema")]
    except Unresolvable as error:
        ref = f"#{error.ref}" if error.ref.startswith("/") else error.ref
        return [server_fault("", f"it refers to {shown(ref)}, which is not in it, and nothing is fetched")]
    except RecursionError:
        raise
    except Exception as error:  # noqa: BLE001 - the library stumbles over some schemas and values
        words = f"The value could not be checked: the server's schema is odd, or the value is ({type(error).__name__})."
        return [FieldProblem("", words, fault="schema")]


def _schema_problem(error: ValidationError) -> FieldProblem:
    where = place(error.absolute_path)
    if error.validator == "anyOf" and where.rpartition(".")[2] == "type":
        return server_fault(where, f"there is no type {shown(error.instance)}")
    return server_fault(where, f"expected {expected(error.schema)}, got {shown(error.instance)}")
