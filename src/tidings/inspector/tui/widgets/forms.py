"""A form as widgets: one line for the label of a field, one for its input; or the whole value as JSON.

The form is plain data (`forms.Field`), and so is the input (`Typed`): texts in the shape of the value (see
`forms.values`). When the shape changes (another alternative is chosen, an entry is added), the widgets are made again.
"""

import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar, cast

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Button, Input, Select, SelectionList, Static, TextArea

from tidings._kit.bounded_json import as_dict, as_list
from tidings._kit.text import counted
from tidings.inspector.forms.model import Field, FieldProblem, Filled, expand
from tidings.inspector.forms.values import from_texts, initial, to_texts
from tidings.inspector.tui.theme import inspector_of
from tidings.inspector.tui.widgets.bars import Bar, BarPart, one_line

Path = tuple[str | int, ...]


class Typed:
    """The input of a form."""

    def __init__(self, texts: Any = None) -> None:
        self.texts: Any = texts

    def get(self, path: Path) -> Any:
        here = self.texts
        for key in path:
            here = as_dict(here).get(key) if isinstance(key, str) else dict(enumerate(as_list(here))).get(key)
        return here

    def put(self, path: Path, value: Any) -> None:
        for depth in reversed(range(len(path))):
            here, key = self.get(path[:depth]), path[depth]
            if isinstance(key, str):
                value = {**as_dict(here), key: value}
            else:
                entries = as_list(here) + [None] * (key + 1 - len(as_list(here)))
                value = [*entries[:key], value, *entries[key + 1 :]]
        self.texts = value


MOST = 60  # The largest number of fields that are drawn; a larger form begins as JSON.
MOST_OPTIONS = 400  # A choice of more values becomes a text field.

_NUMBERS = {"integer": r"[-+]?\d*", "number": r"[-+]?\d*\.?\d*([eE][-+]?\d*)?"}  # The input that a field accepts.

Complete = Callable[[str, str, dict[str, str]], Awaitable[list[str]]]


class Completer(Suggester):
    """Asks the server for completions of the input."""

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
    """Makes the widgets of a form from its fields, its input, and the recursive fields that were opened."""

    def __init__(self, root: Field, typed: Typed, opened: set[Path], complete: Complete | None) -> None:
        self.root, self.typed, self._opened, self._complete = root, typed, opened, complete
        self.paths: dict[Widget, tuple[Field, Path]] = {}  # The field of each widget, and the path of its input.
        self._drawn = 0
        self.widgets = list(self._widgets(root, ()))
        if self._drawn > MOST:
            self.widgets.append(Static(f"{counted(self._drawn - MOST, 'more field')}: ctrl+j shows all of it as JSON."))

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
        hints = ", ".join(filter(None, [extra, "null: ctrl+n" if field.nullable else "", *field.hints]))
        told = ". ".join(filter(None, [hints, field.description]))
        told = told or ("one of its values" if field.kind == "enum" else "")
        bar = Bar("ground")
        bar.show(
            [
                BarPart(indent + one_line(name, 60), "ink"),
                BarPart(" (deprecated)" if field.deprecated else "", "warn"),
                BarPart("*" if field.required else "", "accent"),
                BarPart("  " + one_line(told, 200), "faint"),
            ]
        )
        return bar

    def _leaf(self, field: Field, path: Path) -> Widget:
        typed = self.typed.get(path)
        match field.kind:
            case "boolean":
                return _select([("true", True), ("false", False)], typed)
            case "enum" if len(field.options) <= MOST_OPTIONS:
                return _select([(option.label, option.value) for option in field.options], typed)
            case "multi" if len(field.options) <= MOST_OPTIONS:
                chosen = as_list(typed)
                picks = [(one_line(each.label), at, each.value in chosen) for at, each in enumerate(field.options)]
                return SelectionList[int](*picks, compact=True)
            case "multiline" | "json" | "multi":
                text = typed if isinstance(typed, str) else "" if typed is None else json.dumps(typed, default=str)
                return TextArea(text, compact=True, tab_behavior="focus")
            case _:
                asks = self._complete if len(path) == 1 else None
                suggester = Completer(str(path[-1]), asks, self.typed) if asks is not None else None
                place = "null" if field.nullable and typed is None else ""
                options: dict[str, Any] = {"password": field.secret, "restrict": _NUMBERS.get(field.kind)}
                text = "" if typed is None else str(typed)
                return Input(text, placeholder=place, compact=True, suggester=suggester, **options)

    def _object(self, field: Field, path: Path) -> Iterator[Widget]:
        if path and field.name:
            yield self._label(field, path)
        for each in field.fields:
            yield from self._widgets(each, (*path, each.name))
        known = {each.name for each in field.fields}
        if field.extra is not None:
            for name in [name for name in as_dict(self.typed.get(path)) if name not in known]:
                yield from self._widgets(_named(field.extra, name), (*path, name))
            new_key = Input(placeholder="a further key; Enter adds it", compact=True)
            yield self._known(new_key, field, (*path, "$new"))

    def _array(self, field: Field, path: Path) -> Iterator[Widget]:
        yield self._label(field, path, "a list")
        count = max(len(as_list(self.typed.get(path))), len(field.fields))
        for at in range(count):
            item = field.fields[at] if at < len(field.fields) else field.items or Field("json")
            yield from self._widgets(_named(item, ""), (*path, at))
        if field.items is not None or not field.closed:
            yield self._button("Add an entry", "add", field, path)
        if count > len(field.fields):
            yield self._button("Remove the last", "remove", field, path)

    def _choice(self, field: Field, path: Path) -> Iterator[Widget]:
        at = as_dict(self.typed.get(path)).get("$choice")
        yield self._label(field if path else _named(field, "One of these"), path)
        labels = [branch.label or f"alternative {spot}" for spot, branch in enumerate(field.fields, 1)]
        yield self._known(_select([(label, spot) for spot, label in enumerate(labels)], at), field, path)
        if isinstance(at, int) and 0 <= at < len(field.fields):
            yield from self._widgets(_named(field.fields[at], ""), (*path, "value"))

    def _button(self, label: str, what: str, field: Field, path: Path) -> Widget:
        return self._known(Button(label, name=what, compact=True), field, path)


class _Choice(Select[Any]):
    def on_mount(self, event: events.Mount) -> None:
        if not self.children:  # Already replaced, by a key pressed quickly: there is nothing to fill in.
            event.prevent_default()


def _select(options: list[tuple[str, Any]], value: Any) -> Select[Any]:
    """Returns a select. Values that are equal for Python (1 and true) are told apart by their position."""
    known = value is not None and any(each == value and type(each) is type(value) for _, each in options)
    shown = [(one_line(label), each) for label, each in options]
    return _Choice(shown, prompt="left out", value=value if known else Select.NULL, compact=True)


def _named(field: Field, name: str) -> Field:
    return replace(field, name=name, title=field.title if not name else "")


def fields_in(field: Field) -> int:
    """Returns the number of fields to fill in."""
    return sum(fields_in(each) if each.kind == "object" else 1 for each in field.fields)


_NOTHING = Field("object", required=True)  # To be filled in.


class Form(VerticalScroll):
    """A form to fill in."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back to the list", show=False),
        Binding("ctrl+n", "null", "Null", show=False),
    ]

    def __init__(self, leave: Callable[[], object] | None = None) -> None:
        super().__init__(can_focus=False)
        self._leave = leave
        self.root, self.typed, self.is_json, self._json = _NOTHING, Typed(), False, ""
        self._complete: Complete | None = None
        self._paths: dict[Widget, tuple[Field, Path]] = {}
        self._opened: set[Path] = set()

    def show(self, root: Field, kept: Any = None, complete: Complete | None = None) -> None:
        self.root, self._complete = root, complete
        self._opened = set()
        if kept is not None:
            texts, self.is_json, self._json = kept
            self.typed = Typed(texts)
        else:
            self.typed = Typed(to_texts(root, initial(root)))
            self.is_json = root.kind == "json" or fields_in(root) > MOST
            self._json = self._as_json() if self.is_json else ""
        self._draw()

    def clear(self) -> None:
        self.root, self.typed, self.is_json, self._json = _NOTHING, Typed(), False, ""
        self._paths = {}
        self.remove_children()

    def keep(self) -> Any:
        """Returns the input, to pass to `show` later."""
        return (self.typed.texts, self.is_json, self._json)

    def enter(self) -> None:
        target = next((each for each in self.query("*") if each.focusable), None)
        if target is not None:
            target.focus()
        else:
            inspector_of(self).notify("There is nothing to fill in: ctrl+r sends it.", timeout=3)

    def filled(self) -> Filled:
        if not self.is_json:
            return from_texts(self.root, self.typed.texts)
        try:
            return Filled(json.loads(self._json or "{}"))
        except (ValueError, RecursionError) as error:
            return Filled(None, (FieldProblem("", f"This is not JSON: {error}"),))

    def toggle(self) -> str | None:
        """Switches between form and JSON. Returns what prevents it, if anything."""
        if not self.is_json:
            self._json = self._as_json()
        elif (filled := self.filled()).problems:
            return filled.problems[0].message
        else:
            self.typed = Typed(to_texts(self.root, filled.value))
        self.is_json = not self.is_json
        self._draw()
        self.call_after_refresh(self.enter)
        return None

    def _as_json(self) -> str:
        value = from_texts(self.root, self.typed.texts).value
        return json.dumps({} if value is None else value, indent=2, ensure_ascii=False, default=str)

    def action_leave(self) -> None:
        (self._leave or inspector_of(self).pane.rows.focus)()

    def action_null(self) -> None:
        found = self._paths.get(cast("Widget", inspector_of(self).focused))
        if found is not None and found[0].nullable:
            self.typed.put(found[1], None)
            self._draw()

    def _draw(self) -> None:
        self._paths = {}
        self.remove_children()
        if self.is_json:
            self.mount(TextArea(self._json, classes="whole", compact=True, tab_behavior="focus"))
            return
        drawing = Drawing(self.root, self.typed, self._opened, self._complete)
        self.mount_all(drawing.widgets or [Static("It takes no arguments.")])
        self._paths = drawing.paths

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._set(event.input, event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        found = self._paths.get(event.input)
        if found is None or found[1][-1:] != ("$new",):
            self.screen.focus_next()
        elif name := event.value.strip():
            self.typed.put((*found[1][:-1], name), "")
            self._draw()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        if event.text_area.has_class("whole"):
            self._json = event.text_area.text
        else:
            self._set(event.text_area, event.text_area.text)

    def on_select_changed(self, event: Select.Changed) -> None:
        event.stop()
        found = self._paths.get(event.select)
        if found is None:
            return
        field, path = found
        value: Any = "" if event.value is Select.NULL else event.value
        if field.kind != "choice":
            self._set(event.select, value)
        elif value != as_dict(self.typed.get(path)).get("$choice", ""):
            if value != "":
                branch = field.fields[int(value)]
                value = {"$choice": value, "value": to_texts(branch, initial(branch), self.root)}
            self.typed.put(path, value)
            self._draw()

    def on_selection_list_selected_changed(self, event: SelectionList.SelectedChanged[int]) -> None:
        event.stop()
        chosen = event.selection_list
        if (found := self._paths.get(chosen)) is not None:
            self._set(chosen, [found[0].options[at].value for at in sorted(chosen.selected)])

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        found = self._paths.get(event.button)
        if found is None:
            return
        field, path = found
        count = max(len(as_list(self.typed.get(path))), len(field.fields))
        match event.button.name:
            case "add":
                item = field.items
                self.typed.put((*path, count), to_texts(item, initial(item), self.root) if item is not None else "")
            case "remove":
                self.typed.put(path, as_list(self.typed.get(path))[:-1])
            case _:
                self._opened.add(path)
        self._draw()

    def _set(self, widget: Widget, value: Any) -> None:
        _, path = self._paths.get(widget, (None, ("$new",)))
        if path[-1:] != ("$new",) and (value != "" or self.typed.get(path) is not None):
            self.typed.put(path, value)
