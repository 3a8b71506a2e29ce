"""The way to a place in a value, as it is typed: `filter.since`, `tags[0]`, `headers["a.b"]`. Putting a value there."""

import re
from typing import Any, Final, cast

from tidings.inspector.near import near
from tidings.inspector.schemas.fields import Field
from tidings.inspector.schemas.places import Key, place

APPEND: Final = -1
"""The place after the last entry of a list, typed as `tags[]`."""

_STEP: Final = re.compile(r'\.?(?P<name>[^.\[\]]+)|\[(?P<spot>\d{0,6})\]|\["(?P<quoted>(?:[^"\\]|\\.)*)"\]')


class Wrong(Exception):
    """What is wrong with what was typed, in words that follow its key."""


def steps_of(root: Field, key: str) -> tuple[Key, ...]:
    """The steps from the form `root` to the place that `key` names.

    Raises:
        Wrong: It names none.
    """
    if not key.strip():
        raise Wrong("has no name; write name=value")
    if root.field(key) is not None:
        return (key,)  # A name with a dot in it
    steps: list[Key] = []
    at = 0
    while at < len(key):
        step = _STEP.match(key, at)
        if step is None or (at == 0 and step["name"] is None and step["quoted"] is None):
            raise Wrong('is not a name; write it as in filter.since, tags[0] or headers["a.b"]')
        if step["quoted"] is not None:
            steps.append(re.sub(r"\\(.)", r"\1", step["quoted"]))
        elif step["name"] is not None:
            steps.append(step["name"])
        else:
            steps.append(int(step["spot"]) if step["spot"] else APPEND)
        at = step.end()
    return tuple(steps)


def put(value: dict[str, Any], steps: tuple[Key, ...], made: Any) -> None:
    """Put `made` to its place in `value`.

    Raises:
        Wrong: Something else is there, or entries before it are missing.
    """
    at: Any = value
    for step, following in zip(steps, (*steps[1:], None), strict=True):
        below: Any = made if following is None else [] if isinstance(following, int) else {}
        if isinstance(step, str):
            if not isinstance(at, dict) or (following is None and step in at):
                raise Wrong("contradicts what was given before")
            at = cast("dict[str, Any]", at).setdefault(step, below)
        else:
            at = _put_entry(at, step, below, last=following is None)


def _put_entry(entries: Any, step: int, below: Any, *, last: bool) -> Any:
    if not isinstance(entries, list):
        raise Wrong("contradicts what was given before")
    entries = cast("list[Any]", entries)
    if step not in (APPEND, len(entries)) and (last or step > len(entries)):
        raise Wrong(f"comes out of turn: the next entry is [{len(entries)}]")
    if step in (APPEND, len(entries)):
        entries.append(below)
    return entries[step]


def unknown(name: str, known: list[str], keys: tuple[Key, ...]) -> str:
    """What to say of a name that there is not, in words that follow it."""
    close = near(name, known, most=3, cutoff=0.5)
    where = f" in {place(keys)}" if keys else ""
    if close:
        return f"is not known{where}. Did you mean {' or '.join(close)}?"
    listed = ", ".join(known[:12]) + (" …" if len(known) > 12 else "")
    return f"is not known{where}. Known are: {listed}." if known else f"is not known{where}: there is nothing to give."
