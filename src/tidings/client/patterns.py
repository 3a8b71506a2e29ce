"""Patterns of a server's, run only where they cannot take long.

Python's regular expressions cannot be stopped, and a pattern such as `(a+)+$` takes longer than a life. So only what is
evidently cheap is run: patterns in which the next character tells how to go on, or which have a few places where it
does not, none of them repeated. Any other is not run, and nobody is told that the text is wrong; the server will judge
it.
"""

import re
from functools import lru_cache
from importlib import import_module
from itertools import combinations
from typing import Any, Final, NamedTuple, cast

_MOST_STEPS: Final = 2_000_000
_LONGEST: Final = 1_000
"""Characters of a pattern."""
_MOST_SETS: Final = 40
"""Sets of characters in a pattern: each may take some milliseconds to prepare."""
_FEW: Final = 16
"""What can be matched in several ways is repeated at most so often."""
_ENOUGH: Final = 10**12
"""More is not counted."""

_PARSER: Final[Any] = import_module("re._parser")

_SETS: Final = re.compile(r"\\.|\[\^?(\]?(?:\\.|[^\]\\])*)", re.DOTALL)
_WARNED_OF: Final = re.compile(r"^\[|--|&&|~~|\|\|")
"""What `re` has a warning for, within a set. It would be the user who is warned."""


def found_in(pattern: str, text: str) -> bool | None:
    """Whether the pattern occurs in the text; None if that is not to be found out in time, or it is no pattern."""
    # Lengths are rounded up, so that the texts of one list are looked at together.
    compiled = _affordable(pattern, 1 << (len(text) + 1).bit_length(), text.endswith("\n"))
    return None if compiled is None else compiled.search(text) is not None


class _Unclear(Exception):
    """The pattern may be costly, or is not known to be cheap."""


class _Part(NamedTuple):
    """What is known of a part of a pattern."""

    first: int
    """The characters, as bits, that may come next where it begins. The end of the text is none."""
    ways: int = 1
    """In how many ways one text can be matched, at most, as far as the next character does not tell."""
    aside: int = 0
    """Steps to look ahead and back."""


@lru_cache(maxsize=1024)
def _affordable(pattern: str, length: int, ends_line: bool) -> re.Pattern[str] | None:
    """The pattern, if it costs little on a text of that length."""
    if len(pattern) > _LONGEST:
        return None
    sets = [each[1] for each in _SETS.finditer(pattern) if each[1] is not None]
    if len(sets) > _MOST_SETS or any(map(_WARNED_OF.search, sets)):
        return None
    try:
        tree = _PARSER.parse(pattern)
        if tree.state.flags != re.UNICODE.value:
            return None
        # It is made only then: a flag can make that slow, too.
        return re.compile(pattern) if _steps(tree, _Reader(length, ends_line)) <= _MOST_STEPS else None
    except Exception:  # noqa: BLE001 - whatever the parser has against it, or we do not know of the parser
        return None


def _steps(tree: Any, reader: "_Reader") -> int:
    """How much there is to try, at most."""
    whole = reader.sequence(tree, 0)
    walk = min(reader.length, tree.getwidth()[1] + 1) * _nodes(tree)
    starts = 1 if _begins_at_the_beginning(tree) else reader.length
    return starts * whole.ways * (walk + whole.aside) + reader.length


def _nodes(tree: Any) -> int:
    """Parts of a pattern, all counted."""
    if isinstance(tree, _PARSER.SubPattern):
        return sum(1 + _nodes(argument) for _, argument in tree)
    return sum(map(_nodes, cast("list[Any]", tree))) if isinstance(tree, list | tuple) else 0


def _begins_at_the_beginning(tree: Any) -> bool:
    if not len(tree):
        return False
    operation, argument = tree[0]
    if str(operation) == "SUBPATTERN":
        return _begins_at_the_beginning(argument[-1])
    if str(operation) == "BRANCH":
        return all(map(_begins_at_the_beginning, argument[1]))
    return str(operation) == "AT" and str(argument) in ("AT_BEGINNING", "AT_BEGINNING_STRING")


class _Reader:
    """Reads a pattern from its end, so that what may come next is known at each part."""

    def __init__(self, length: int, ends_line: bool) -> None:
        self.length = length
        self._before_end = _bit(10) if ends_line else 0
        """What `$` may stand before: that is the last line's end, too."""
        self._firsts: dict[int, int] = {}
        """Of what is repeated, so that repetitions within repetitions are not read again and again."""

    def sequence(self, tree: Any, after: int) -> _Part:
        ways, aside = 1, 0
        for operation, argument in reversed(list(tree)):
            part = self._part(str(operation), argument, after)
            after, ways, aside = part.first, min(ways * part.ways, _ENOUGH), aside + part.aside
        return _Part(after, ways, aside)

    def _part(self, name: str, argument: Any, after: int) -> _Part:  # noqa: PLR0911 - one a kind
        match name:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return _Part(_characters(name, argument))
            case "AT":
                ends = {"AT_END": self._before_end, "AT_END_STRING": 0}
                return _Part(ends.get(str(argument), after))
            case "SUBPATTERN" if not argument[1] and not argument[2]:
                return self.sequence(argument[3], after)
            case "ATOMIC_GROUP":
                return self.sequence(argument, after)
            case "ASSERT" | "ASSERT_NOT":
                inner = self.sequence(argument[1], 0)
                return _Part(after, 1, inner.ways * self.length * _nodes(argument[1]) + inner.aside)
            case "BRANCH":
                return self._branch(argument[1], after)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                return self._repeat(int(argument[0]), int(argument[1]), argument[2], after)
            case _:  # A reference back to a group, or what a later Python has.
                raise _Unclear

    def _branch(self, trees: list[Any], after: int) -> _Part:
        parts = [self.sequence(each, after) for each in trees]
        empty = sum(each.getwidth()[0] == 0 for each in trees)
        told = empty < 2 and not any(one.first & other.first for one, other in combinations(parts, 2))
        first = 0
        for each in parts:
            first |= each.first
        ways = [each.ways for each in parts]
        return _Part(first, max(ways) if told else sum(ways), sum(each.aside for each in parts))

    def _repeat(self, least: int, most: int, body: Any, after: int) -> _Part:
        width = body.getwidth()[0]
        if most <= 1:
            inner = self.sequence(body, after)
            both = least == 0 and (width == 0 or bool(inner.first & after))
            return _Part(inner.first | (0 if least else after), inner.ways + both, inner.aside)
        if width == 0:
            raise _Unclear
        if id(body) not in self._firsts:
            self._firsts[id(body)] = self.sequence(body, 0).first
        first = self._firsts[id(body)]
        inner = self.sequence(body, first | after)
        if inner.aside or (inner.ways > 1 and most > _FEW):
            raise _Unclear
        # Where it may end is told by what comes next, or has to be tried.
        ends = min(most, self.length) - min(least, self.length) + 1 if first & after else 1
        ways = ends * inner.ways ** min(most, _FEW)
        return _Part(first | (0 if least else after), min(ways, _ENOUGH))


# Characters are bits of a number: one for each of ASCII, and one for each kind of all others.


def _bit(code: int) -> int:
    """One character."""
    if code < 128:
        return 1 << code
    character = chr(code)
    if character.isspace():
        return _SPACE
    return _DIGIT if character.isdecimal() else _LETTER if character.isalnum() else _OTHER


_DIGIT, _SPACE, _LETTER, _OTHER = (1 << kind for kind in range(128, 132))
_BEYOND: Final = _DIGIT | _SPACE | _LETTER | _OTHER
_ALL: Final = (1 << 132) - 1
_DIGITS: Final = sum(1 << code for code in range(128) if chr(code).isdecimal()) | _DIGIT
_SPACES: Final = sum(1 << code for code in range(128) if chr(code).isspace()) | _SPACE
_WORDS: Final = sum(1 << code for code in range(128) if chr(code).isalnum()) | _bit(ord("_")) | _DIGIT | _LETTER
_CATEGORIES: Final = {
    "CATEGORY_DIGIT": _DIGITS,
    "CATEGORY_SPACE": _SPACES,
    "CATEGORY_WORD": _WORDS,
    "CATEGORY_NOT_DIGIT": _ALL & ~_DIGITS,
    "CATEGORY_NOT_SPACE": _ALL & ~_SPACES,
    "CATEGORY_NOT_WORD": _ALL & ~_WORDS,
}


def _characters(name: str, argument: Any) -> int:
    """All that one character of a text may be."""
    if name == "ANY":
        return _ALL & ~_bit(10)
    if name != "IN":
        return _bit(argument) if name == "LITERAL" else _ALL & ~_whole(_bit(argument))
    negated = str(argument[0][0]) == "NEGATE"
    some, whole = 0, 0
    for operation, item in argument[negated:]:
        match str(operation):
            case "LITERAL":
                found = _bit(item)
                whole |= _whole(found)
            case "RANGE":
                low, high = item
                found = sum(1 << code for code in range(low, min(high, 127) + 1)) | (_BEYOND if high > 127 else 0)
                whole |= _whole(found)
            case "CATEGORY":
                found = _CATEGORIES[str(item)]
                whole |= found
            case _:
                raise _Unclear
        some |= found
    return _ALL & ~whole if negated else some


def _whole(found: int) -> int:
    """Those bits of which nothing is left out: a few characters beyond ASCII are not all of their kind."""
    return found & ~_BEYOND
