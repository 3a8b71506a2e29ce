"""Where in a value something is, what is wrong there, and a value together with all that is wrong with it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Key = str | int

_PLAIN: Final = re.compile(r"[^\s.\[\]\"=:]+")


def place(keys: Iterable[Key]) -> str:
    """A place as people write it: `filter.tags[0]`, `headers["a.b"]`; empty for the whole."""
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        elif _PLAIN.fullmatch(key):
            text += f".{key}" if text else key
        else:
            quoted = key.replace("\\", "\\\\").replace('"', '\\"')
            text += f'["{quoted}"]'
    return text


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a value, or with the schema it is measured by."""

    path: str
    """Where, as people write it: `filter.tags[0]`. Empty: the whole."""
    message: str
    """A sentence, the place included: `limit: expected an integer of at least 1, got "many"`."""
    expected: str = ""
    got: str = ""
    keys: tuple[Key, ...] = ()
    """Where, for programs."""
    fault: Literal["value", "schema"] = "value"
    """`schema`: the server's schema is at fault, and says nothing about the value."""

    def to_json(self) -> dict[str, Any]:
        """It as JSON."""
        shown: dict[str, Any] = {"path": self.path, "message": self.message, "keys": list(self.keys)}
        return shown | {"expected": self.expected, "got": self.got, "fault": self.fault}


def problem(keys: Iterable[Key], complaint: str, *, expected: str = "", got: str = "") -> Problem:
    """What is wrong with the value at this place."""
    keys = tuple(keys)
    path = place(keys)
    return Problem(path, f"{path}: {complaint}" if path else complaint, expected, got, keys)


def unexpected(keys: Iterable[Key], expected: str, got: str) -> Problem:
    """The value at this place is of the wrong kind."""
    return problem(keys, f"expected {expected}, got {got}", expected=expected, got=got)


@dataclass(frozen=True, slots=True)
class Filled:
    """A value, as far as it could be made, and all that stood in the way."""

    value: Any
    problems: tuple[Problem, ...] = field(default_factory=tuple[Problem, ...])

    @property
    def ok(self) -> bool:
        """Whether nothing did."""
        return not self.problems
