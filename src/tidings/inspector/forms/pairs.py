"""`KEY=VALUE` arguments of a command, read by the schema of what they are for.

    limit=5                     a value of the type that the schema has for it
    tags=a tags=b               a list, entry by entry; also tags='["a", "b"]'
    filter.since=2026-07-28     within an object
    exact                       true, for a boolean
    point:='{"x": 1}'           any JSON
    body=@letter.txt            the content of a file (`@-`: standard input; `@@x` is the text @x)
    point:=@point.json          the content of a file, as JSON

`null` is null if the schema allows it. A name that is not in the schema is a mistake, and close names are suggested.
"""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from tidings._kit.suggest import did_you_mean, there_are
from tidings.inspector.forms.build import FormLimits, form
from tidings.inspector.forms.model import Field, Filled, Key, expand, place, problem
from tidings.inspector.forms.values import LEFT_OUT, ValueReader, wanted

_LARGEST_FILE: Final = 16 * 2**20
_PAIR: Final = re.compile(r"(?P<key>(?:(?!:=)[^=])*)(?:(?P<sign>:?=)(?P<value>.*))?", re.DOTALL)
_ALL: Final = FormLimits(fields=50_000, properties=20_000)


class Wrong(Exception):
    """A mistake in an argument, in words that follow its key."""


def parse_pairs(schema: object, pairs: Sequence[str]) -> Filled:
    """Returns the object that `pairs` describe by a schema, and their problems."""
    root = form(schema, _ALL)
    reader, value = ValueReader(root), dict[str, Any]()
    given: dict[str, list[Any]] = {}
    for pair in pairs:
        found = cast("re.Match[str]", _PAIR.fullmatch(pair))
        try:
            content = _content(found["sign"], found["value"])
        except Wrong as wrong:
            reader.problems.append(problem((found["key"],), str(wrong)))
        else:
            given.setdefault(found["key"], []).append(content)
    for key, typed in given.items():
        # A name may have a dot in it.
        steps = (key,) if root.field(key) is not None else tuple(key.split("."))
        if not all(steps):
            reader.problems.append(problem((key,), "is not a name. Write name=value, or filter.since=value"))
            continue
        try:
            made = _value(reader, _target(root, steps), typed, steps)
            if made is not LEFT_OUT:
                _put(value, steps, made)
        except Wrong as wrong:
            reader.problems.append(problem(steps, str(wrong)))
    return Filled(value, tuple(reader.problems))


def _content(sign: str | None, text: str) -> Any:
    """Returns the text of an argument, a JSON value, or True for a name alone."""
    if sign is None:
        return True
    if text.startswith("@@") and sign == "=":
        return text[1:]
    if text.startswith("@"):
        try:
            text = _read_text(text[1:])
        except UnicodeDecodeError:
            raise Wrong(f"cannot be read from {text[1:]}: it is not text in UTF-8") from None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise Wrong(f"cannot be read from {text[1:]}: {why}") from None
    try:
        return _Json(json.loads(text)) if sign == ":=" else text
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise Wrong(f"is not JSON ({where}). After := JSON is expected, in which a string needs quotes") from None
    except (ValueError, RecursionError):
        raise Wrong("is not JSON: a number is too long, or it is nested too deeply") from None


def _read_text(path: str) -> str:
    if path == "-":
        return sys.stdin.read(_LARGEST_FILE)
    with Path(path).expanduser().open("rb") as file:  # It may be a pipe, as in body=@<(command).
        content = file.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise ValueError(f"it has more than {_LARGEST_FILE // 2**20} MB")
    return content.decode("utf-8-sig")


class _Json(NamedTuple):
    value: Any


def _target(root: Field, steps: tuple[str, ...]) -> Field | None:
    """Returns the field that `steps` lead to; None if nothing is known about it."""
    field: Field | None = root
    for count, step in enumerate(steps):
        field = _below(root, expand(root, field), step, steps[:count])
        if field is None:
            return None
    return expand(root, field)


def _below(root: Field, field: Field, step: str, keys: tuple[Key, ...]) -> Field | None:
    if field.kind in ("json", "ref"):
        return None
    branches = field.fields if field.kind == "choice" else (field,)
    objects = [each for branch in branches if (each := expand(root, branch)).kind == "object"]
    if not objects:
        raise Wrong(f"does not exist: {place(keys)} is of the kind {field.kind}")
    for each in objects:
        if (found := each.field(step) or each.extra) is not None:
            return found
        if not each.fields and not each.closed:
            return None
    known = list(dict.fromkeys(each.name for one in objects for each in one.fields))
    hint = did_you_mean(step, known, most=3, cutoff=0.5, show=str) or there_are(known)
    raise Wrong(f"is not known{f' in {place(keys)}' if keys else ''}.{hint}")


def _value(reader: ValueReader, field: Field | None, given: list[Any], keys: tuple[Key, ...]) -> Any:
    """Returns the value of an argument that was given once or, for a list, several times."""
    field = field or Field("json")
    if len(given) > 1:
        if not _may_be(field, "array", "multi"):
            raise Wrong("is given more than once")
        return _read(reader, field, [each.value if isinstance(each, _Json) else each for each in given], keys)
    return given[0].value if isinstance(given[0], _Json) else _one(reader, field, given[0], keys)


def _one(reader: ValueReader, field: Field, text: Any, keys: tuple[Key, ...]) -> Any:
    if text is True:
        if not _may_be(field, "boolean"):
            raise Wrong(f"needs a value: {place(keys)}=…")
        return True
    if field.kind == "json":
        try:  # Of an unknown type: what is not JSON is a text.
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    if text == "null" and field.nullable:
        return None
    if field.kind in ("text", "multiline") or (not text and _may_be(field, "text", "multiline")):
        return text
    if not text:
        raise Wrong(f'expected {wanted(field)}, got ""')
    is_entry = field.kind in ("array", "multi") and not text.lstrip().startswith("[")
    return _read(reader, field, [text] if is_entry else text, keys)


def _read(reader: ValueReader, field: Field, typed: Any, keys: tuple[Key, ...]) -> Any:
    before = len(reader.problems)
    made = reader.read(field, typed, keys)
    return made if len(reader.problems) == before else LEFT_OUT


def _may_be(field: Field, *kinds: str) -> bool:
    return field.kind in kinds or (field.kind == "choice" and any(branch.kind in kinds for branch in field.fields))


def _put(value: dict[str, Any], steps: tuple[str, ...], made: Any) -> None:
    """Puts `made` at its place in `value`. Raises `Wrong` if the place is taken."""
    for step in steps[:-1]:
        below: Any = value.setdefault(step, {})
        if not isinstance(below, dict):
            raise Wrong("contradicts an earlier argument")
        value = cast("dict[str, Any]", below)
    if steps[-1] in value:
        raise Wrong("contradicts an earlier argument")
    value[steps[-1]] = made
