"""Dialogs: a confirmation, the keys, a request to edit, a server to add, and the steps of a sign-in."""

import asyncio
import json
import os
import webbrowser
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from tidings._kit.bounded_json import as_dict
from tidings._kit.process import can_open_browser
from tidings.client.masking import MASK
from tidings.errors import TidingsError
from tidings.inspector.catalog.entry import CatalogError, ServerEntry
from tidings.inspector.session import SessionServers
from tidings.inspector.tui.theme import KEYS, in_background, inspector_of
from tidings.inspector.tui.widgets.bars import Line, one_line
from tidings.inspector.tui.widgets.text import TextPage, TextView

if TYPE_CHECKING:
    from tidings.client.accounts import Account
    from tidings.client.sign_in import SigningIn

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
    """The list of keys."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,q,question_mark", "dismiss(None)", "Back", show=False)]

    def __init__(self) -> None:
        super().__init__("", "")

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            sheet: dict[str, dict[str, str]] = KEYS["sheet"]
            for title, keys in sheet.items():
                shown = ((f"{key:<9}".replace("[ ]", r"\[ ]"), words) for key, words in keys.items())
                lines = [f"[$t-accent]{key}[/] [$t-ink]{words}[/]" for key, words in shown]
                yield Static("\n".join([f"[b]{title}[/]", *lines]))

    def on_click(self) -> None:
        self.dismiss(None)


class EditRequest(Dialog[tuple[str, dict[str, Any]] | None]):
    """A request to edit and send: its method and its parameters."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+r", "send", "Send", priority=True, show=False)]

    def __init__(self, method: str, params: Any) -> None:
        self._method = method
        # The client adds `_meta` to every request.
        given = {key: value for key, value in as_dict(params).items() if key != "_meta"}
        self._text = json.dumps(given, indent=2, ensure_ascii=False, default=str)
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
        if method and isinstance(params, dict):
            self.dismiss((method, cast("dict[str, Any]", params)))
        else:
            self.complain("Parameters are a JSON object." if method else "The method is empty.")


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
            self.dismiss((self._servers.resolve(target, name or None), not name))
        except (TidingsError, CatalogError) as error:
            self.complain(error)


class SignInDialog(Dialog[bool | None]):
    """Signs in to a server, and shows each step. Where no browser opens, its last address is pasted."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+y", "copy", "Copy the address", show=False, priority=True)]

    def __init__(self, url: str) -> None:
        hint = "The browser comes back by itself. Elsewhere: ctrl+y copies the address; paste the one it ends at here."
        super().__init__(Static(f"Sign in to {one_line(url)}", markup=False), hint)
        self._url = url
        self._signing_in: SigningIn | None = None
        self._work: asyncio.Task[Account] | None = None
        self._steps = TextView()
        self._pasted = Input(placeholder="the address that the browser shows", compact=True)

    def body(self) -> ComposeResult:
        yield self._steps
        yield self._pasted

    def on_mount(self) -> None:
        self._pasted.focus()
        self._begin()

    @in_background
    async def _begin(self) -> None:
        from tidings.client.sign_in import SigningIn  # noqa: PLC0415 - imports the SDK's OAuth, which is slow

        signing_in = SigningIn(self._url, open_browser=self._lead, on_step=lambda _: self._show(signing_in))
        self._signing_in, self._work = signing_in, asyncio.create_task(signing_in.run())
        try:
            await self._work
            self.dismiss(True)
        except TidingsError as error:
            self.complain(error.message)

    def action_copy(self) -> None:
        if self._signing_in is not None:
            inspector_of(self).copy_to_clipboard(self._signing_in.address)

    def _lead(self, address: str) -> None:
        if can_open_browser(os.environ):
            asyncio.get_running_loop().run_in_executor(None, webbrowser.open, address)

    def _show(self, signing_in: "SigningIn") -> None:
        lines: list[Line] = []
        for step in signing_in.steps:
            lines.append([(f"{step.name}  ", "b-ink"), (one_line(step.words), "soft")])
            lines += [[("  " + json.dumps(each), "faint")] for each in (step.request, step.answer) if each is not None]
        if signing_in.address:
            lines += [[], [("Open: ", "soft"), (signing_in.address, "accent")]]
        self._steps.show(TextPage(*lines), self._url)
        self._steps.scroll_end(animate=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            if self._signing_in is not None:
                self._signing_in.finish(event.value)
                self.complain("")
        except ValueError as error:
            self.complain(error)

    def on_unmount(self) -> None:
        if self._work is not None:
            self._work.cancel()
