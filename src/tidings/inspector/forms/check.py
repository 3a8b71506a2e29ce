"""The problems of a value that does not fit a schema: where, what was expected, and what was given.

    >>> check({"properties": {"limit": {"type": "integer", "minimum": 1}}}, {"limit": "many"})[0].message
    'limit: expected an integer of at least 1, got "many"'

`client.schema` finds the errors, and this puts them into words. If a value fits none of several alternatives, the one
that was probably meant is explained: the others fail at once, by their type or by the value that tells them apart.
A wrong schema is the server's fault: such a problem has `fault="schema"`, and the value may be right.
"""

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from tidings._kit.bounded_json import as_dict, is_cut
from tidings._kit.suggest import did_you_mean, there_are
from tidings.inspector.forms.model import FieldProblem, Key, place, problem, unexpected
from tidings.inspector.forms.schemas import Merger, NotUnderstood, Recursive, Schema, either, expected, is_secret, shown

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_MOST_PROBLEMS: Final = 50
_MOST_SUGGESTIONS: Final = 20
_DEEPEST: Final = 8


def check(schema: object, value: object, *, seconds: float = 1.0) -> list[FieldProblem]:  # noqa: PLR0911 - one a fault
    """Returns the problems of `value`. A check that takes longer than `seconds` is itself a problem."""
    if isinstance(schema, bool):
        return [] if schema else [_server_fault("", "it allows no value at all")]
    if not isinstance(schema, dict):
        return [_server_fault("", f"it must be an object, not {shown(schema)}")]
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - takes a tenth of a second with the next

    from tidings._kit.patterns import DeadlineExceeded  # noqa: PLC0415
    from tidings.client.schema import schema_error, time_limit, value_errors  # noqa: PLC0415

    facts = cast("Schema", schema)
    try:
        with time_limit(seconds):
            if (wrong := schema_error(facts)) is not None:
                where, got = place(wrong.absolute_path), shown(wrong.instance)
                if wrong.validator == "anyOf" and where.rpartition(".")[2] == "type":
                    return [_server_fault(where, f"there is no type {got}")]
                return [_server_fault(where, f"expected {expected(wrong.schema)}, got {got}")]
            words = _FailureWords(facts)
            found = (each for error in value_errors(facts, value) for each in words.problems(error))
            return list(islice(dict.fromkeys(found), _MOST_PROBLEMS))
    except DeadlineExceeded:
        message = f"The check was stopped after {seconds:g} s: the server's schema, or the value, is too large."
    except Unresolvable as error:
        ref = f"#{error.ref}" if error.ref.startswith("/") else error.ref
        return [_server_fault("", f"it refers to {shown(ref)}, which is not in it, and nothing is fetched")]
    except RecursionError:
        return [_server_fault("", "it, or the value, is nested too deeply, or it refers to itself without end")]
    except Exception as error:  # noqa: BLE001 - the library fails on some schemas and values
        name = type(error).__name__
        message = f"The value could not be checked because of the server's schema or the value ({name})."
    return [FieldProblem("", message, fault="schema")]


def check_result(tool: Mapping[str, Any], result: object) -> list[FieldProblem] | None:
    """Returns the problems of a tool's result by the tool's output schema; None if there is nothing to check."""
    schema, answer = tool.get("outputSchema"), as_dict(result)
    if schema is None or not answer or answer.get("isError") is True or is_cut(answer):
        return None
    if (structured := answer.get("structuredContent")) is None:
        return [FieldProblem("", "The tool has an output schema, but its result has no structured content.")]
    return check(schema, structured)


def _server_fault(where: str, what: str) -> FieldProblem:
    at = f" at {where}" if where else ""
    return FieldProblem(where, f"The server's schema is wrong{at}: {what}.", fault="schema")


class _FailureWords:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def problems(self, error: "ValidationError", depth: int = 0) -> list[FieldProblem]:  # noqa: PLR0911 - one a keyword
        keys = tuple(error.absolute_path)
        schema = as_dict(error.schema)
        value: Any = error.instance
        keyword: Any = error.validator
        match keyword:
            case "required":
                known = as_dict(schema.get("properties"))
                missing = [name for name in cast("list[str]", error.validator_value) if name not in value]
                return [unexpected((*keys, each), self._wanted(known.get(each, True)), "nothing") for each in missing]
            case "additionalProperties" | "unevaluatedProperties" if error.validator_value is False:
                return _unknown_keys(keys, schema, value)
            case "anyOf" | "oneOf":
                return self._alternatives(error, keys, depth)
            case "uniqueItems":
                return [unexpected(keys, "a list with no entry twice", shown(value))]
            case None:
                return [unexpected(keys, "nothing here", shown(value))]
            case "not" | "contains" | "dependentRequired" | "dependencies" | "propertyNames":
                return [problem(keys, f"breaks the rule {keyword!r} of the schema: {shown(error.validator_value)}")]
            case _:
                return [unexpected(keys, self._wanted(schema), _given(keys, schema, value))]

    def _wanted(self, schema: Any, depth: int = 0) -> str:
        """Returns what a schema asks for, in words that follow "expected". References are followed."""
        if not isinstance(schema, dict):
            return expected(schema)
        try:
            flat = Merger(self._schema, 200).flat(cast("Schema", schema), frozenset())
        except (Recursive, NotUnderstood):
            return expected(cast("Schema", schema))
        if "type" not in flat.schema:
            for keyword in ("anyOf", "oneOf"):
                branches = flat.schema.get(keyword)
                if isinstance(branches, list) and depth < _DEEPEST:
                    return either([self._wanted(each, depth + 1) for each in cast("list[Any]", branches)[:12]])
            if flat.called and expected(flat.schema) == "another value":
                return flat.called
        return expected(flat.schema)

    def _alternatives(self, error: "ValidationError", keys: tuple[Key, ...], depth: int) -> list[FieldProblem]:
        from jsonschema.exceptions import by_relevance  # noqa: PLC0415 - imported by `check` already

        branches: dict[Any, list[ValidationError]] = {}
        for each in error.context or []:
            branches.setdefault(each.schema_path[0], []).append(each)
        words = either([self._wanted(each) for each in cast("list[Any]", error.validator_value)])
        if not branches:
            return [problem(keys, f"fits more than one of: {words}")]
        meant = [found for found in branches.values() if not any(_rules_out(each, error) for each in found)]
        if not meant or depth > _DEEPEST:
            # Perhaps the fixed value of one key tells the alternatives apart.
            values: dict[str, list[Any]] = {}
            for each in (each for failures in branches.values() for each in failures):
                if each.validator == "const" and len(each.absolute_path) == len(keys) + 1:
                    values.setdefault(str(each.absolute_path[-1]), []).append(each.validator_value)
            for name, allowed in values.items():
                if len(allowed) == len(branches):
                    given = shown(as_dict(error.instance).get(name))
                    return [unexpected((*keys, name), f"one of {', '.join(map(shown, allowed))}", given)]
            return [unexpected(keys, words, _given(keys, as_dict(error.schema), error.instance))]
        if len(meant) > 1 and all(each.validator == "required" for found in meant for each in found):
            return [problem(keys, f"needs {either(' and '.join(_names_missing(found)) for found in meant)}")]
        best = min(meant, key=lambda found: (len(found), [by_relevance()(each) for each in found][:1]))
        return [found for each in best for found in self.problems(each, depth + 1)]


def _given(keys: tuple[Key, ...], schema: Schema, value: Any) -> str:
    hidden = bool(keys) and isinstance(keys[-1], str) and isinstance(value, str) and is_secret(keys[-1], schema)
    return "a string that is not shown" if hidden else shown(value)


def _rules_out(failure: "ValidationError", parent: "ValidationError") -> bool:
    """Returns whether an alternative was not meant: the type of the whole is wrong, or a fixed value in it."""
    deeper = len(failure.absolute_path) - len(parent.absolute_path)
    return deeper < 2 and failure.validator in (("const",) if deeper else ("const", "enum", "type"))


def _names_missing(failures: "list[ValidationError]") -> list[str]:
    needed = [(name, each.instance) for each in failures for name in cast("list[str]", each.validator_value)]
    return list(dict.fromkeys(name for name, instance in needed if name not in cast("Any", instance)))


def _unknown_keys(keys: tuple[Key, ...], schema: Schema, value: Any) -> list[FieldProblem]:
    from tidings._kit.patterns import found_in  # noqa: PLC0415 - imported by `check` already

    names = list(as_dict(schema.get("properties")))
    patterns = list(as_dict(schema.get("patternProperties")))
    found: list[FieldProblem] = []
    for name in cast("dict[str, Any]", value):
        if name in names or any(found_in(pattern, name) for pattern in patterns):
            continue
        close = did_you_mean(name, names, show=str) if len(found) < _MOST_SUGGESTIONS else ""
        hint = close or (there_are(names) if names else "")
        found.append(problem((*keys, name), f"is not known.{hint}"))
    return found
