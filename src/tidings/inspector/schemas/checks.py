"""Whether a value is what a schema asks for; if not, where, what was expected and what was got.

    >>> check({"properties": {"limit": {"type": "integer", "minimum": 1}}}, {"limit": "many"})[0].message
    'limit: expected an integer of at least 1, got "many"'

The draft is the one that the schema names, or 2020-12. References lead nowhere outside the schema. What takes longer
than `seconds` is given up, and that is said. A schema that is wrong is the server's fault, and said to be: such a
problem has `fault="schema"` and says nothing about the value.
"""

from typing import Final

from tidings.inspector.schemas.places import Problem

MOST: Final = 50
"""Problems that are told at once."""


def check(schema: object, value: object, *, seconds: float = 1.0) -> list[Problem]:
    """All that is wrong with `value`; empty if nothing is."""
    from tidings.inspector.schemas import validating  # noqa: PLC0415 - the library is slow to import

    try:
        return validating.problems(schema, value, seconds, MOST)
    except RecursionError:
        return [server_fault("", "it, or the value, is nested too deeply, or it refers to itself without end")]


def check_output(output_schema: object, structured: object, *, seconds: float = 1.0) -> list[Problem]:
    """All that is wrong with the structured content of a tool's result; None stands for none."""
    if output_schema is None:
        return []
    if structured is None:
        words = "The tool has an output schema, but its result has no structured content."
        return [Problem("", words, expected="structured content", got="nothing")]
    return check(output_schema, structured, seconds=seconds)


def server_fault(where: str, what: str) -> Problem:
    """The schema itself is wrong."""
    at = f" at {where}" if where else ""
    return Problem(where, f"The server's schema is wrong{at}: {what}.", fault="schema")
