"""`KEY=VALUE` arguments of a command, read by the schema of what they are for.

    limit=5                     a value of the type that the schema has for it
    tags=a tags=b               a list, entry by entry; also tags[0]=a, or tags='["a", "b"]'
    filter.since=2026-07-28     within an object; filter["a.b"]=1 for a key with a dot in it
    exact                       true, for a boolean
    point:='{"x": 1}'           any JSON
    body=@letter.txt            the content of a file (`@-`: standard input; `@@x` is the text @x)
    point:=@point.json          the content of a file, as JSON

`null` is null if the schema allows it. A name that is not in the schema is a mistake, and close names are suggested.
"""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, cast

from tidings._kit.suggest import did_you_mean, there_are
from tidings.inspector.forms.build import FormLimits, form
from tidings.inspector.forms.model import Field, Filled, Key, expand, place, problem
from tidings.inspector.forms.values import LEFT_OUT, ValueReader, further_field, wanted

APPEND: Final = -1  # The index after the last entry of a list, typed as `tags[]`.

LARGEST_FILE: Final = 16 * 2**20

_STEP: Final = re.compile(r'\.?(?P<name>[^.\[\]]+)|\[(?P<spot>\d{0,6})\]|\["(?P<quoted>(?:[^"\\]|\\.)*)"\]')
_PAIR: Final = re.compile(r'(?P<key>(?:\["(?:[^"\\]|\\.)*"\]|(?!:=)[^=])+)(?P<sign>:=|=)(?P<value>.*)', re.DOTALL)
_LISTS: Final = ("array", "multi")
_ALL: Final = FormLimits(fields=50_000, properties=20_000)


class Wrong(Exception):
    """A mistake in an argument, in words that follow its key."""


def parse_pairs(schema: object, pairs: Sequence[str]) -> Filled:
    """Returns the object that `pairs` describe by a schema or a form, and their problems."""
    root = schema if isinstance(schema, Field) else form(schema, _ALL)
    return _PairParser(root).parse(pairs)


def _read_text(path: str) -> str:
    if path == "-":
        return sys.stdin.read(LARGEST_FILE)
    with Path(path).expanduser().open("rb") as file:  # It may be a pipe, as in body=@<(command).
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise ValueError(f"it has more than {LARGEST_FILE // 2**20} MB")
    return content.decode("utf-8-sig")


def _steps(root: Field, key: str) -> tuple[Key, ...]:
    """Returns the steps from the form `root` to a place such as `filter.since` or `tags[0]`. Raises `Wrong`."""
    if not key.strip():
        raise Wrong("has no name. Write name=value")
    if root.field(key) is not None:
        return (key,)  # A name with a dot in it
    steps: list[Key] = []
    at = 0
    while at < len(key):
        step = _STEP.match(key, at)
        if step is None or (at == 0 and step["name"] is None and step["quoted"] is None):
            raise Wrong('is not a name. Examples: filter.since, tags[0], headers["a.b"]')
        if step["quoted"] is not None:
            steps.append(re.sub(r"\\(.)", r"\1", step["quoted"]))
        elif step["name"] is not None:
            steps.append(step["name"])
        else:
            steps.append(int(step["spot"]) if step["spot"] else APPEND)
        at = step.end()
    return tuple(steps)


def _put(value: dict[str, Any], steps: tuple[Key, ...], made: Any) -> None:
    """Puts `made` at its place in `value`. Raises `Wrong` if the place is taken, or entries before it are missing."""
    at: Any = value
    for step, following in zip(steps, (*steps[1:], None), strict=True):
        below: Any = made if following is None else [] if isinstance(following, int) else {}
        if isinstance(step, str):
            if not isinstance(at, dict) or (following is None and step in at):
                raise Wrong("contradicts an earlier argument")
            at = cast("dict[str, Any]", at).setdefault(step, below)
        else:
            at = _put_entry(at, step, below, last=following is None)


def _put_entry(entries: Any, step: int, below: Any, *, last: bool) -> Any:
    if not isinstance(entries, list):
        raise Wrong("contradicts an earlier argument")
    entries = cast("list[Any]", entries)
    if step in (APPEND, len(entries)):
        entries.append(below)
    elif last or step > len(entries):
        raise Wrong(f"is out of order: the next entry is [{len(entries)}]")
    return entries[step]


def _unknown(name: str, known: list[str], keys: tuple[Key, ...]) -> Wrong:
    where = f" in {place(keys)}" if keys else ""
    hint = did_you_mean(name, known, most=3, cutoff=0.5, show=str) or there_are(known)
    return Wrong(f"is not known{where}.{hint}")


class _PairParser:
    def __init__(self, root: Field) -> None:
        self._root = root
        self._reader = ValueReader(root)

    def parse(self, pairs: Iterable[str]) -> Filled:
        value: dict[str, Any] = {}
        problems = self._reader.problems
        grouped: dict[tuple[Key, ...], list[tuple[str, str]]] = {}
        for pair in pairs:
            split = _PAIR.fullmatch(pair)
            key, sign, text = (split["key"], split["sign"], split["value"]) if split else (pair, "", "")
            try:
                grouped.setdefault(_steps(self._root, key), []).append((sign, text))
            except Wrong as wrong:
                problems.append(problem((key,), str(wrong)))
        for steps, given in grouped.items():
            before = len(problems)
            try:
                made = self._value(self._target(steps), given, steps)
                if made is not LEFT_OUT and len(problems) == before:
                    _put(value, steps, made)
            except Wrong as wrong:
                problems.append(problem((step for step in steps if step != APPEND), str(wrong)))
        return Filled(value, tuple(problems))

    def _target(self, steps: tuple[Key, ...]) -> Field | None:
        """Returns the field that `steps` lead to; None if nothing is known about it."""
        field: Field | None = self._root
        for count, step in enumerate(steps):
            if field is None:
                return None
            field = self._below(expand(self._root, field), step, steps[:count])
        return None if field is None else expand(self._root, field)

    def _below(self, field: Field, step: Key, keys: tuple[Key, ...]) -> Field | None:
        match field.kind:
            case "choice":
                return self._below_choice(field, step, keys)
            case "object" if isinstance(step, str):
                found = field.field(step) or further_field(field, step)
                if found is None and (field.fields or field.closed):
                    raise _unknown(step, [each.name for each in field.fields], keys)
                return found
            case "array" if isinstance(step, int):
                return field.fields[step] if 0 <= step < len(field.fields) else field.items
            case "json" | "ref":
                return None
            case _:
                kind = {"array": "a list", "multi": "a list", "object": "an object"}.get(field.kind)
                raise Wrong(f"does not exist: {place(keys) or 'it'} is {kind or f'of the kind {field.kind}'}")

    def _below_choice(self, field: Field, step: Key, keys: tuple[Key, ...]) -> Field | None:
        wrong: Wrong | None = None
        for branch in field.fields:
            try:
                return self._below(expand(self._root, branch), step, keys)
            except Wrong as error:
                wrong = wrong or error
        names = [each.name for branch in field.fields for each in branch.fields]
        if isinstance(step, str) and names:
            raise _unknown(step, list(dict.fromkeys(names)), keys)
        raise wrong or Wrong("does not exist")

    def _value(self, field: Field | None, given: list[tuple[str, str]], keys: tuple[Key, ...]) -> Any:
        texts = [self._content(sign, text) for sign, text in given]
        if given[0][0] == "":
            if field is None or not _may_be(field, "boolean"):
                raise Wrong(f"needs a value: {place(keys)}=…")
            texts[0] = True
        several = field is not None and _may_be(field, *_LISTS)
        if len(texts) > 1 and not several:
            raise Wrong("is given more than once")
        if field is None:
            return _guessed(texts[0])
        is_list = all(each.kind in _LISTS for each in (field.fields if field.kind == "choice" else (field,)))
        if not several or (len(texts) == 1 and not is_list):
            return self._one(field, texts[0], keys)
        return self._many(field, texts, keys)

    def _one(self, field: Field, text: Any, keys: tuple[Key, ...]) -> Any:
        if not isinstance(text, str):
            return text.value if isinstance(text, _Json) else text
        if text == "null" and field.nullable:
            return None
        if field.kind in ("text", "multiline"):
            return text
        if not text and _may_be(field, "text", "multiline"):
            return ""
        if field.kind == "json":
            return _guessed(text)
        if not text:
            raise Wrong(f'expected {wanted(field)}, got ""')
        return self._reader.read(field, text, keys)

    def _many(self, field: Field, texts: list[Any], keys: tuple[Key, ...]) -> Any:
        if field.kind == "choice":
            field = next(each for branch in field.fields if (each := expand(self._root, branch)).kind in _LISTS)
        if len(texts) == 1:
            if texts[0] == "null" and field.nullable:
                return None
            if isinstance(texts[0], _Json):
                return texts[0].value
            if texts[0].lstrip().startswith("["):
                return self._reader.read(field, texts[0], keys)
        entries: list[Any] = []
        for spot, text in enumerate(texts):
            item = field.fields[spot] if spot < len(field.fields) else field.items
            if field.kind == "multi":
                item = Field("enum", options=field.options, required=True)
            entries.append(self._one(item or Field("json"), text, (*keys, spot)))
        return [entry for entry in entries if entry is not LEFT_OUT]

    def _content(self, sign: str, text: str) -> Any:
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
        return _Json(text) if sign == ":=" else text


class _Json:
    """A value that was given as JSON. Raises `Wrong` if it is not."""

    def __init__(self, text: str) -> None:
        try:
            self.value: Any = json.loads(text)
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}: {error.msg}"
            raise Wrong(f"is not JSON ({where}). After := JSON is expected, in which a string needs quotes") from None
        except (ValueError, RecursionError):
            raise Wrong("is not JSON: a number is too long, or it is nested too deeply") from None


def _guessed(text: Any) -> Any:
    """Returns a value of unknown type: parsed if it is JSON, or else the text."""
    if isinstance(text, _Json):
        return text.value
    try:
        return json.loads(text)
    except (ValueError, RecursionError, TypeError):
        return text


def _may_be(field: Field, *kinds: str) -> bool:
    return field.kind in kinds or (field.kind == "choice" and any(branch.kind in kinds for branch in field.fields))
