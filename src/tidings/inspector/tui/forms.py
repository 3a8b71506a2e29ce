"""A form as widgets: one line for what a field is, one to fill it in; or all of it as JSON.

The form itself is plain data (`schemas.Field`), and so is what was typed (`Typed`). When the shape changes (another
alternative is chosen, an entry is added), the widgets are made anew from both.
"""

import json
from collections.abc import Callable
from typing import Any, ClassVar, cast

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Button, Input, Select, SelectionList, TextArea

from tidings.inspector.schemas import Field, Filled, Problem, from_texts, initial, to_texts
from tidings.inspector.tui.desk import desk_of
from tidings.inspector.tui.form_widgets import MOST, Complete, Drawing, fields_in
from tidings.inspector.tui.typed import Path, Typed


class Form(VerticalScroll):
    """What one fills in."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back to the list", show=False),
        Binding("ctrl+n", "null", "Null", show=False),
    ]

    DEFAULT_CSS = """
    Form { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    Form Bar { background: $t-ground; }
    Form Input { height: 1; border: none; padding: 0 1; margin: 0 0 1 1; }
    Form TextArea { height: 5; border: none; margin: 0 0 1 1; padding: 0 1; }
    Form TextArea.whole { height: 1fr; min-height: 6; margin: 0; }
    Form Select { margin: 0 0 1 1; }
    Form SelectionList { height: auto; max-height: 8; border: none; margin: 0 0 1 1; }
    Form Button { margin: 0 0 1 1; background: $t-hover; color: $t-accent; }
    Form Static { color: $t-soft; }
    """

    def __init__(self, id: str | None = None, leave: Callable[[], object] | None = None) -> None:  # noqa: A002
        super().__init__(id=id, can_focus=False)
        self._leave = leave
        self.root: Field | None = None
        self.typed = Typed()
        self.is_json = False
        self._json = ""
        self._complete: Complete | None = None
        self._paths: dict[Widget, tuple[Field, Path]] = {}
        self._opened: set[Path] = set()

    # What it is for

    def show(self, root: Field, kept: Any = None, complete: Complete | None = None) -> None:
        """The form of `root`; with what was typed before, if it is known."""
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
        """No form."""
        self.root, self.typed, self.is_json, self._json = None, Typed(), False, ""
        self._draw()

    def keep(self) -> Any:
        """What was typed, to be given to `show` later."""
        return (self.typed.texts, self.is_json, self._json)

    def enter(self) -> None:
        """Put the focus on the first thing to fill in."""
        target = next((each for each in self.query("*") if each.focusable), None)
        if target is not None:
            target.focus()
        else:
            desk_of(self).notify("There is nothing to fill in: ctrl+r sends it.", timeout=3)

    def filled(self) -> Filled:
        """What was filled in, and what is no value."""
        if self.root is None:
            return Filled({})
        if not self.is_json:
            return from_texts(self.root, self.typed.texts)
        try:
            return Filled(json.loads(self._json or "{}"))
        except (ValueError, RecursionError) as error:
            return Filled(None, (Problem("", f"This is not JSON: {error}"),))

    def toggle(self) -> str | None:
        """From the form to JSON and back; what stands in the way, if something does."""
        if self.root is None:
            return None
        if self.is_json:
            filled = self.filled()
            if filled.problems:
                return filled.problems[0].message
            self.typed = Typed(to_texts(self.root, filled.value))
            self.is_json = False
        else:
            self._json, self.is_json = self._as_json(), True
        self._draw()
        self.call_after_refresh(self.enter)
        return None

    def _as_json(self) -> str:
        value = from_texts(self.root, self.typed.texts).value if self.root is not None else None
        return json.dumps({} if value is None else value, indent=2, ensure_ascii=False, default=str)

    def action_leave(self) -> None:
        """Back to the list of what can be called, or to where it was opened from."""
        if self._leave is not None:
            self._leave()
        else:
            desk_of(self).pane.main_list().focus()

    def action_null(self) -> None:
        """Set the field that has the focus to null, where that is a value."""
        found = self._paths.get(cast("Widget", desk_of(self).focused))
        if found is not None and found[0].nullable:
            self.typed.put(found[1], None)
            self._draw()

    def _draw(self) -> None:
        self._paths = {}
        self.remove_children()
        if self.root is None:
            return
        if self.is_json:
            self.mount(TextArea(self._json, classes="whole", compact=True, tab_behavior="focus"))
            return
        drawing = Drawing(self.root, self.typed, self._opened, self._complete)
        widgets = drawing.widgets()
        self._paths = drawing.paths
        self.mount_all(widgets)

    # What is typed

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if (found := self._paths.get(event.input)) is not None and found[1][-1:] != ("$new",):
            self._set(found[1], event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        found = self._paths.get(event.input)
        if found is not None and found[1][-1:] == ("$new",):
            if event.value.strip():
                self.typed.put((*found[1][:-1], event.value.strip()), "")
                self._draw()
            return
        self.screen.focus_next()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        if event.text_area.has_class("whole"):
            self._json = event.text_area.text
        elif (found := self._paths.get(event.text_area)) is not None:
            self._set(found[1], event.text_area.text)

    def on_select_changed(self, event: Select.Changed) -> None:
        event.stop()
        found = self._paths.get(event.select)
        if found is None:
            return
        field, path = found
        value = None if event.value is Select.NULL else event.value
        if field.kind != "choice":
            self._set(path, "" if value is None else cast("Any", value))
            return
        typed = self.typed.get(path)
        at = cast("dict[str, Any]", typed).get("$choice") if isinstance(typed, dict) else None
        if value != at:
            if value is None:
                self.typed.drop(path)
            else:
                branch = field.fields[cast("int", value)]
                self.typed.put(path, {"$choice": value, "value": to_texts(branch, initial(branch), self.root)})
            self._draw()

    def on_selection_list_selected_changed(self, event: SelectionList.SelectedChanged[int]) -> None:
        event.stop()
        if (found := self._paths.get(event.selection_list)) is not None:
            self._set(found[1], [found[0].options[at].value for at in sorted(event.selection_list.selected)])

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        found = self._paths.get(event.button)
        if found is None:
            return
        path = found[1]
        entries = self.typed.get(path)
        count = max(len(cast("list[Any]", entries)) if isinstance(entries, list) else 0, len(found[0].fields))
        match event.button.name:
            case "add":
                item = found[0].items
                self.typed.put((*path, count), to_texts(item, initial(item), self.root) if item is not None else "")
            case "remove":
                self.typed.drop((*path, count - 1))
            case _:
                self._opened.add(path)
        self._draw()

    def _set(self, path: Path, value: Any) -> None:
        if value == "" and self.typed.get(path) is None:
            return
        if value == "" and path and isinstance(path[-1], str):
            self.typed.drop(path)
        else:
            self.typed.put(path, value)
