"""What a form is drawn as: one line for what a field is, one to fill it in."""

import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, cast

from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Button, Input, Select, SelectionList, Static, TextArea

from tidings.inspector.schemas import Field, expand
from tidings.inspector.tui.bars import Bar, Part
from tidings.inspector.tui.typed import Path, Typed
from tidings.inspector.tui.words import counted, one_line

MOST = 60
"""So many fields are drawn; a larger form is begun as JSON."""
MOST_OPTIONS = 400
"""A choice of more values than these is typed."""

Complete = Callable[[str, str, dict[str, str]], Awaitable[list[str]]]


class Completer(Suggester):
    """Asks the server how what was typed may go on."""

    def __init__(self, name: str, complete: Complete, typed: Typed) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._name, self._complete, self._typed = name, complete, typed

    async def get_suggestion(self, value: str) -> str | None:
        texts = cast("dict[str, Any]", self._typed.texts or {})
        others = {name: text for name, text in texts.items() if name != self._name and isinstance(text, str) and text}
        try:
            found = await self._complete(self._name, value, others)
        # A suggestion that does not come is no reason to say anything while somebody types.
        except Exception:  # noqa: BLE001
            return None
        return next((each for each in found if each.startswith(value) and each != value), None)


class Drawing:
    """The widgets of a form, made of its fields and of what was typed.

    Args:
        opened: Where a field that refers to another was opened.
        complete: Suggests values of a field, if the server does that.
    """

    def __init__(self, root: Field, typed: Typed, opened: set[Path], complete: Complete | None) -> None:
        self.root, self.typed = root, typed
        self._opened, self._complete = opened, complete
        self.paths: dict[Widget, tuple[Field, Path]] = {}
        """Which field a widget fills in, and where what is typed there belongs."""
        self._drawn = 0

    def widgets(self) -> list[Widget]:
        """All of them, in order."""
        made = list(self._widgets(self.root, ()))
        if self._drawn > MOST:
            made.append(Static(f"{counted(self._drawn - MOST, 'more field')}: ctrl+j shows all of it as JSON."))
        return made or [Static("It takes no arguments.")]

    def _widgets(self, given: Field, path: Path) -> Iterator[Widget]:
        field = expand(self.root, given) if path in self._opened else given
        if path and field.kind != "object":
            self._drawn += 1
            if self._drawn > MOST:
                return
        match field.kind:
            case "object":
                yield from self._object(field, path)
            case "array":
                yield from self._array(field, path)
            case "choice":
                yield from self._choice(field, path)
            case "const":
                yield self._label(field, path, f"always {one_line(json.dumps(field.value, default=str), 60)}")
            case "ref":
                yield self._label(field, path)
                yield self._button("Open", "open", field, path)
            case _:
                yield self._label(field, path)
                yield self._known(self._leaf(field, path), field, path)

    def _known(self, widget: Widget, field: Field, path: Path) -> Widget:
        self.paths[widget] = (field, path)
        return widget

    def _label(self, field: Field, path: Path, extra: str = "") -> Bar:
        indent = "  " * sum(1 for key in path[:-1] if key != "value")
        name = field.label or (f"{int(path[-1]) + 1}." if path and isinstance(path[-1], int) else "value")
        parts = [Part(indent + one_line(name, 60), "ink"), Part("*" if field.required else "", "accent")]
        told = ", ".join(filter(None, [extra, "null: ctrl+n" if field.nullable else "", *field.hints]))
        told = f"{told}. {field.description}" if told and field.description else told or field.description
        told = told or ("one of its values" if field.kind == "enum" else "")
        parts.append(Part("  " + one_line(told, 200), "faint"))
        if field.deprecated:
            parts.insert(1, Part(" (deprecated)", "warn"))
        bar = Bar("ground")
        bar.show(parts)
        return bar

    def _leaf(self, field: Field, path: Path) -> Widget:
        typed = self.typed.get(path)
        match field.kind:
            case "boolean":
                return _select([("true", True), ("false", False)], typed)
            case "enum" if len(field.options) <= MOST_OPTIONS:
                return _select([(one_line(option.label), option.value) for option in field.options], typed)
            case "multi" if len(field.options) <= MOST_OPTIONS:
                chosen = cast("list[Any]", typed) if isinstance(typed, list) else []
                picks = [(one_line(each.label), at, each.value in chosen) for at, each in enumerate(field.options)]
                return SelectionList[int](*picks, compact=True)
            case "multiline" | "json" | "multi":
                text = typed if isinstance(typed, str) else "" if typed is None else json.dumps(typed, default=str)
                return TextArea(text, compact=True, tab_behavior="focus")
            case _:
                text = "" if typed is None else str(typed)
                asks = self._complete is not None and len(path) == 1
                suggester = Completer(str(path[-1]), self._complete, self.typed) if asks and self._complete else None
                place = "null" if typed is None and field.nullable else ""
                return Input(text, placeholder=place, password=field.secret, compact=True, suggester=suggester)

    def _object(self, field: Field, path: Path) -> Iterator[Widget]:
        if path and field.name:
            yield self._label(field, path)
        for each in field.fields:
            yield from self._widgets(each, (*path, each.name))
        known = {each.name for each in field.fields}
        typed = self.typed.get(path)
        if field.extra is not None or field.patterns:
            for name in cast("dict[str, Any]", typed) if isinstance(typed, dict) else ():
                if name not in known:
                    further = field.extra or Field("json")
                    yield from self._widgets(_named(further, name), (*path, name))
            new_key = Input(placeholder="a further key; Enter adds it", compact=True)
            yield self._known(new_key, field, (*path, "$new"))
        if field.hidden:
            yield Static(f"{counted(field.hidden, 'more field')}: ctrl+j shows all of it as JSON.")

    def _array(self, field: Field, path: Path) -> Iterator[Widget]:
        yield self._label(field, path, "a list")
        typed = self.typed.get(path)
        count = max(len(cast("list[Any]", typed)) if isinstance(typed, list) else 0, len(field.fields))
        for at in range(count):
            item = field.fields[at] if at < len(field.fields) else field.items or Field("json")
            yield from self._widgets(_named(item, ""), (*path, at))
        if field.items is not None or not field.closed:
            yield self._button("Add an entry", "add", field, path)
        if count > len(field.fields):
            yield self._button("Remove the last", "remove", field, path)

    def _choice(self, field: Field, path: Path) -> Iterator[Widget]:
        typed = self.typed.get(path)
        at = cast("dict[str, Any]", typed).get("$choice") if isinstance(typed, dict) else None
        yield self._label(field if path else _named(field, "One of these"), path)
        options = [
            (one_line(branch.label or f"alternative {spot + 1}"), spot) for spot, branch in enumerate(field.fields)
        ]
        yield self._known(_select(options, at), field, path)
        if isinstance(at, int) and 0 <= at < len(field.fields):
            branch = field.fields[at]
            yield from self._widgets(_named(branch, ""), (*path, "value"))

    def _button(self, label: str, what: str, field: Field, path: Path) -> Widget:
        return self._known(Button(label, name=what, compact=True), field, path)


def _select(options: list[tuple[str, Any]], value: Any) -> Select[Any]:
    """A list to choose from. Values that cannot be told apart by `==` (1 and true) are told apart by their place."""
    values = [each for _, each in options]
    known = value is not None and any(each == value and type(each) is type(value) for each in values)
    return Select(options, prompt="left out", value=value if known else Select.NULL, compact=True)


def _named(field: Field, name: str) -> Field:
    return replace(field, name=name, title=field.title if not name else "")


def fields_in(field: Field) -> int:
    """How many there are to fill in."""
    return sum(fields_in(each) if each.kind == "object" else 1 for each in field.fields)
