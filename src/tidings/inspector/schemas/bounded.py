"""Patterns of a server's, run only where they cannot take long.

Python's regular expressions cannot be stopped, and a pattern such as `(a+)+$` takes longer than a life. So a pattern is
looked at first: how often its parts can begin anew. One that is too costly for a text is not run, and nobody is told
that the text is wrong; the server will judge it.
"""

import re
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

_MOST_STEPS: Final = 2_000_000
_LONGEST: Final = 2_000
"""Characters of a pattern."""
_MANY: Final = 16
"""A repetition of more than that is taken to have no end."""


def found_in(pattern: str, text: str) -> bool | None:
    """Whether the pattern occurs in the text; None if that is not to be found out in time, or it is no pattern."""
    known = _looked_at(pattern)
    if known is None:
        return None
    compiled, base, power = known
    length = len(text) + 1
    if length ** (power + 1) > _MOST_STEPS * 10 or (base > 1 and (length > 60 or base**length > _MOST_STEPS)):
        return None
    return compiled.search(text) is not None


@lru_cache(maxsize=512)
def _looked_at(pattern: str) -> tuple[re.Pattern[str], int, int] | None:
    """The pattern; how many ways it has for each character; how many of its repetitions stand in a row."""
    if len(pattern) > _LONGEST:
        return None
    try:
        parser: Any = import_module("re._parser")
        base, power = _cost(parser.parse(pattern), nested=0)
        return re.compile(pattern), base, power
    except (re.error, RecursionError, OverflowError, ImportError, AttributeError):
        return None


def _cost(tree: Any, nested: int) -> tuple[int, int]:
    base, power = 1, 0
    for operation, argument in tree:
        name = str(operation)
        inner: list[Any] = []
        level = nested
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, body = argument
            inner = [body]
            if int(most) > _MANY and int(most) > int(least):
                level += 1
                power += 1
                base = max(base, level)
        elif name == "BRANCH":
            inner = list(argument[1])
            # Alternatives within a repetition can be tried in any order, again and again.
            base = max(base, len(inner) if nested else 1)
        elif name == "SUBPATTERN":
            inner = [argument[-1]]
        elif name in ("ASSERT", "ASSERT_NOT"):
            inner = [argument[1]]
        elif name == "ATOMIC_GROUP":
            inner = [argument]
        elif name.startswith("GROUPREF"):
            base = max(base, 2)
        for part in inner:
            part_base, part_power = _cost(part, level)
            base = max(base, part_base)
            power += part_power
    return base, power
