"""JSONPath, as far as people use it to name a part of a value: `.name`, `[0]`, `['name']`, `[*]` and `..name`."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, cast

Key = int | str | None  # An index, a name, or None for all.

_STEP: Final = re.compile(r"""(\.\.|\.)?(?:\[(?:(-?\d+)|'([^']*)'|"([^"]*)"|(\*))\]|(\*)|([^.\[\]'"*\s]+))""")


class BadJsonPath(ValueError):
    """A path is written in a way that is not understood. The message says what is."""


class JsonPath:
    """A path in JSON values. Raises `BadJsonPath`."""

    def __init__(self, text: str) -> None:
        rest = text.strip().removeprefix("$")
        self._steps: list[tuple[bool, Key]] = []  # Whether it is at any depth, and the key.
        while rest:
            found = _STEP.match(rest)
            if found is None:
                known = "use .name, [0], ['name'], [*] and ..name"
                raise BadJsonPath(f"{rest[:40]!r} is not understood in a JSON path: {known}")
            deep, index, single, double, _, _, name = found.groups()
            key = next((each for each in (single, double, name) if each is not None), None)
            self._steps.append((deep == "..", int(index) if index is not None else key))
            rest = rest[found.end() :]

    def find(self, value: Any, most: int) -> list[Any]:
        """Returns the parts of `value` that the path names; of each step, only as many."""
        return _follow([value], self._steps, most)

    def remove(self, value: Any, most: int) -> None:
        """Removes these parts from `value`. A path without a step names nothing that could be removed."""
        if not self._steps:
            return
        deep, key = self._steps[-1]
        parents = _follow([value], self._steps[:-1], most)
        for parent in list(islice(_below(parents), most)) if deep else parents:
            for each in reversed(_keys(parent, key)):
                del parent[each]


def _follow(values: list[Any], steps: list[tuple[bool, Key]], most: int) -> list[Any]:
    for deep, key in steps:
        inside = _below(values) if deep else values
        values = list(islice((parent[each] for parent in inside for each in _keys(parent, key)), most))
    return values


def _keys(value: Any, key: Key) -> list[Any]:
    """Returns the keys of a value that a step names."""
    if isinstance(value, dict):
        names = list(cast("dict[str, Any]", value))
        return names if key is None else [each for each in names if each == str(key)]
    if isinstance(value, list):
        places = range(len(cast("list[Any]", value)))
        return list(places if key is None else places[key:][:1] if isinstance(key, int) else ())
    return []


def _below(values: list[Any]) -> Iterator[Any]:
    """Yields values and everything in them, however deep."""
    waiting = values[::-1]
    while waiting:
        yield (value := waiting.pop())
        waiting += [value[key] for key in _keys(value, None)][::-1]
