"""Patterns of a server's, run only where they cannot take long.

Python's regular expressions cannot be stopped, and a pattern such as `(a+)+$` takes longer than a life. So a pattern is
looked at first: how often its parts can begin anew. One that is too costly for a text is not run, and nobody is told
that the text is wrong; the server will judge it.
"""

import re
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, NamedTuple

_MOST_STEPS: Final = 2_000_000
_LONGEST: Final = 2_000
"""Characters of a pattern."""
_MANY: Final = 16
"""A repetition of more than that is taken to have no end."""
_ENOUGH: Final = 10**9
"""More is not counted."""


def found_in(pattern: str, text: str) -> bool | None:
    """Whether the pattern occurs in the text; None if that is not to be found out in time, or it is no pattern."""
    known = _looked_at(pattern)
    if known is None:
        return None
    compiled, cost = known
    length = len(text) + 1
    if cost.ways * length ** (cost.power + 1) > _MOST_STEPS * 10:
        return None
    if cost.base > 1 and (length > 60 or cost.base**length > _MOST_STEPS):
        return None
    return compiled.search(text) is not None


class _Cost(NamedTuple):
    """How much there may be to try."""

    base: int = 1
    """Ways for each character of the text: what is repeated without end can begin anew in so many."""
    power: int = 0
    """Repetitions without end that stand in a row."""
    ways: int = 1
    """Ways besides: what may be there or not, this or that, so often or so often."""


@lru_cache(maxsize=512)
def _looked_at(pattern: str) -> tuple[re.Pattern[str], _Cost] | None:
    """The pattern, and what it costs."""
    if len(pattern) > _LONGEST:
        return None
    try:
        parser: Any = import_module("re._parser")
        return re.compile(pattern), _cost(parser.parse(pattern), nested=0)
    except (re.error, RecursionError, OverflowError, ImportError, AttributeError):
        return None


def _cost(tree: Any, nested: int) -> _Cost:
    base, power, ways = 1, 0, 1
    for operation, argument in tree:
        name = str(operation)
        if name.startswith("GROUPREF"):
            base = max(base, 2)
        found = _of(name, argument, nested)
        base, power = max(base, found.base), min(power + found.power, _ENOUGH)
        ways = min(ways * found.ways, _ENOUGH)
    return _Cost(base, power, ways)


def _of(name: str, argument: Any, nested: int) -> _Cost:
    """What one part of a pattern costs."""
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, body = int(argument[0]), int(argument[1]), argument[2]
        if most > _MANY and most > least:
            inner = _cost(body, nested + 1)
            return _Cost(max(inner.base, nested + 1, inner.ways), inner.power + 1)
        inner = _cost(body, nested)
        # So many in a row, each in its own way.
        ways = _ENOUGH if inner.ways > 1 and most > _MANY * 4 else inner.ways**most
        return _Cost(inner.base, inner.power * max(most, 1), min(ways * (most - least + 1), _ENOUGH))
    if name == "BRANCH":
        some = [_cost(each, nested) for each in argument[1]]
        # Alternatives within a repetition can be tried in any order, again and again.
        base = max(len(some) if nested else 1, *(each.base for each in some))
        return _Cost(base, sum(each.power for each in some), sum(each.ways for each in some))
    if name == "SUBPATTERN":
        return _cost(argument[-1], nested)
    if name in ("ASSERT", "ASSERT_NOT"):
        return _cost(argument[1], nested)
    return _cost(argument, nested) if name == "ATOMIC_GROUP" else _Cost()
