"""`checks` at work: what is wrong with a value, or with the schema it is measured by, in words.

Imported only when something is checked: what it stands on takes a tenth of a second.
"""

from itertools import islice
from typing import Any, cast

from jsonschema.exceptions import ValidationError
from referencing.exceptions import Unresolvable

from tidings.client.validation import OutOfTime, schema_error, time_limit, value_errors
from tidings.inspector.schemas.checks import server_fault
from tidings.inspector.schemas.failures import Teller
from tidings.inspector.schemas.places import Problem, place
from tidings.inspector.schemas.words import expected, shown


def problems(schema: object, value: object, seconds: float, most: int) -> list[Problem]:  # noqa: PLR0911 - one a fault
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
            told = (found for error in value_errors(facts, value) for found in Teller(facts).told(error))
            return list(islice(dict.fromkeys(told), most))
    except OutOfTime:
        words = f"The check was given up after {seconds:g} s: the server's schema, or the value, is too large."
        return [Problem("", words, fault="schema")]
    except Unresolvable as error:
        ref = f"#{error.ref}" if error.ref.startswith("/") else error.ref
        return [server_fault("", f"it refers to {shown(ref)}, which is not in it, and nothing is fetched")]
    except RecursionError:
        raise
    except Exception as error:  # noqa: BLE001 - the library stumbles over some schemas and values
        words = f"The value could not be checked: the server's schema is odd, or the value is ({type(error).__name__})."
        return [Problem("", words, fault="schema")]


def _schema_problem(error: ValidationError) -> Problem:
    where = place(error.absolute_path)
    if error.validator == "anyOf" and where.rpartition(".")[2] == "type":
        return server_fault(where, f"there is no type {shown(error.instance)}")
    return server_fault(where, f"expected {expected(error.schema)}, got {shown(error.instance)}")
