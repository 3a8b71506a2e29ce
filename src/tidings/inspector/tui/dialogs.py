"""Dialogs: one line of text, a confirmation, the keys; a request to edit, or to copy as JSON, Python or shell text; for
servers (add, import, edit) and for saved sessions (list, name, export, delete).
"""

import json
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from tidings.client.masking import MASK
from tidings.errors import TidingsError
from tidings.inspector.catalog import CatalogError, ServerEntry
from tidings.inspector.session import SessionServers
from tidings.inspector.tui.words import one_line

T = TypeVar("T")


class Dialog(ModalScreen[T], Generic[T]):
    """A box in the middle of the screen: a title, the body, what is wrong, and a hint. Esc cancels."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Back", show=False)]

    def __init__(self, heading: str | Widget, hint: str | Widget) -> None:
        super().__init__()
        self._heading = Static(heading) if isinstance(heading, str) else heading
        self._hint = Static(hint, classes="soft", markup=False) if isinstance(hint, str) else hint

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._heading
            yield from self.body()
            yield Static("", classes="wrong", markup=False)
            yield self._hint

    def body(self) -> ComposeResult:
        """Yields the widgets between the heading and the hint."""
        yield from ()

    def complain(self, what: object) -> None:
        wrong = self.query_one(".wrong", Static)
        wrong.update(one_line(what, 400))
        wrong.set_class(bool(str(what)), "some")


UNCHANGED: Final = "Esc leaves everything as it is."


class Confirm(Dialog[bool | None]):
    """Asks for a confirmation."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,y", "dismiss(True)", "Yes", show=False)]

    def __init__(self, question: str, verb: str) -> None:
        super().__init__(Static(question + "\n", markup=False), f"Enter {verb}. {UNCHANGED}")


class Keys(Dialog[None]):
    """The list of keys. Any key closes it."""

    def __init__(self) -> None:
        super().__init__("", "")

    def compose(self) -> ComposeResult:
        with Vertical():
            sheet: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("keys.json").read_text("utf-8"))
            for title, keys in sheet.items():
                lines = [
                    f"[$t-accent]{key:<9}".replace("[ ]", r"\[ ]") + f"[/] [$t-ink]{words}[/]"
                    for key, words in keys.items()
                ]
                yield Static("\n".join([f"[b]{title}[/]", *lines]))

    def on_key(self) -> None:
        self.dismiss(None)

    def on_click(self) -> None:
        self.dismiss(None)


Asked = tuple[str, dict[str, Any]]  # A method and its parameters.


def without_meta(params: Any) -> dict[str, Any]:
    """Returns the parameters without `_meta`, which the client adds to every request."""
    given = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
    return {key: value for key, value in given.items() if key != "_meta"}


class EditRequest(Dialog[Asked | None]):
    """A request to edit and send."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+r", "send", "Send", priority=True, show=False)]

    def __init__(self, method: str, params: dict[str, Any]) -> None:
        self._method = method
        self._text = json.dumps(params, indent=2, ensure_ascii=False, default=str)
        masked = f" {MASK} stands for what was masked: give it anew." if MASK in self._text else ""
        super().__init__("[b]Edit the request, and send it[/]", f"\nctrl+r sends it. {UNCHANGED}{masked}")

    def body(self) -> ComposeResult:
        yield Input(self._method, compact=True)
        yield TextArea(self._text, classes="whole", compact=True, tab_behavior="focus")

    def on_mount(self) -> None:
        self.query_one(TextArea).focus()

    def action_send(self) -> None:
        method = self.query_one(Input).value.strip()
        try:
            params = json.loads(self.query_one(TextArea).text.strip() or "{}")
        except (ValueError, RecursionError) as error:
            self.complain(f"This is not JSON: {error}")
            return
        if not method or not isinstance(params, dict):
            self.complain("Parameters are a JSON object." if method else "The method is empty.")
            return
        self.dismiss((method, cast("dict[str, Any]", params)))


class AddServer(Dialog[tuple[ServerEntry, bool] | None]):
    """Asks for a URL or a command. Returns the entry, and whether it may get another name."""

    def __init__(self, servers: SessionServers) -> None:
        kept = servers.writable
        where = f"It is kept in {kept.path}." if kept is not None else "It is not kept: the catalog is only read."
        super().__init__("[b]Add a server[/]", f"Enter adds and connects it. {UNCHANGED} {where}")
        self._servers = servers

    def body(self) -> ComposeResult:
        where = "https://host/mcp, or the command that starts it: python server.py"
        yield Input(placeholder=where, compact=True, id="target")
        yield Input(placeholder="a name, if you like", compact=True, id="name")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        target, name = (self.query_one(f"#{each}", Input).value.strip() for each in ("target", "name"))
        if name and name in self._servers.session.servers:
            self.complain(f"There is a server called {name!r} already. Give this one another name.")
            return
        try:
            entry = self._servers.resolve(target, name or None)
        except (TidingsError, CatalogError) as error:
            self.complain(error)
            return
        self.dismiss((entry, not name))
