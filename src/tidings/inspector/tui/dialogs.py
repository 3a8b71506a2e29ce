"""Dialogs: one line of text, a confirmation, the keys; a request to edit, or to copy as JSON, Python or shell text; for
servers (add, import, edit) and for saved sessions (list, name, export, delete).
"""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, SelectionList, Static, TextArea

from tidings._kit.text import counted
from tidings.client.masking import MASK
from tidings.errors import TidingsError
from tidings.inspector import snippets
from tidings.inspector.catalog import CatalogError, ServerEntry
from tidings.inspector.catalog.clients import FoundClient
from tidings.inspector.forms import form, to_texts
from tidings.inspector.session import SessionServers
from tidings.inspector.sessions import saved
from tidings.inspector.sessions.journal import Journal
from tidings.inspector.sessions.saved import export_session
from tidings.inspector.tui.theme import in_background, inspector_of
from tidings.inspector.tui.widgets.bars import Bar, BarPart, Line, choice
from tidings.inspector.tui.widgets.forms import Form
from tidings.inspector.tui.widgets.lists import RowList, Table
from tidings.inspector.tui.widgets.text import PlainPage, TextView
from tidings.inspector.tui.words import one_line, size
from tidings.inspector.view.view import ServerView

if TYPE_CHECKING:
    from tidings.inspector.tui.app import InspectorApp

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


class AskLine(Dialog[str | None]):
    """Asks for one line. `check` returns what is wrong with it, or an empty text."""

    def __init__(self, title: str, value: str = "", hint: str = "", check: Callable[[str], str] | None = None) -> None:
        super().__init__(Static(title, markup=False), hint or f"Enter does it. {UNCHANGED}")
        self._value, self._check = value, check

    def body(self) -> ComposeResult:
        yield Input(self._value, compact=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        line = event.value.strip()
        wrong = "It is empty." if not line else self._check(line) if self._check is not None else ""
        if wrong:
            self.complain(wrong)
        else:
            self.dismiss(line)


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


SHAPES: Final = {"python": "Python", "json": "JSON", "shell": "Shell"}
_KINDS: Final = {method: kind for kind, method in snippets.METHODS.items()}

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


class CopyAs(Dialog[None]):
    """A request as text to paste, in three formats."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(f"{number},{name[0]}", f"shape('{name}')", label, show=False)
          for number, (name, label) in enumerate(SHAPES.items(), 1)),
        Binding("y,enter,c", "copy", "Copy", priority=True, show=False),
    ]  # fmt: skip

    def __init__(self, view: ServerView, method: str, params: dict[str, Any]) -> None:
        self._bar = Bar("pane")
        super().__init__(self._bar, "1 2 3 choose, y copies, if your terminal permits it. Secrets are not in it.")
        self._make: dict[str, Callable[[], str]] = {
            "python": lambda: snippets.as_python(view, _KINDS.get(method, "request"), method, params),
            "json": lambda: snippets.as_json(method, params),
            "shell": lambda: snippets.as_shell(view, method, params),
        }
        self.shape = "python"
        self.reader = TextView()

    @property
    def text(self) -> str:
        return self._make[self.shape]()

    def body(self) -> ComposeResult:
        yield self.reader

    def on_mount(self) -> None:
        self.reader.focus()
        self.call_after_refresh(self.action_shape, self.shape)

    def action_shape(self, name: str) -> None:
        self.shape = name
        parts: list[BarPart] = []
        for number, (each, label) in enumerate(SHAPES.items(), 1):
            parts += [choice(f" {number} {label} ", f"screen.shape('{each}')", on=each == name), BarPart(" ")]
        self._bar.show(parts)
        self.reader.show(PlainPage(self.text), name)

    def action_copy(self) -> None:
        inspector_of(self.reader).copy_to_clipboard(self.text)
        inspector_of(self.reader).notify("Copied, if your terminal permits it.", timeout=2)
        self.dismiss(None)


_TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_LIST: Final = {"type": "array", "items": {"type": "string"}}
_OWN: Final = {
    "type": "object",
    "properties": {
        "era": {"type": "string", "description": "auto, legacy, or a version"},
        "logLevel": {"enum": ["debug", "info", "notice", "warning", "error"]},
        "autoConnect": {"type": "boolean", "description": "whether to connect when the inspector starts"},
        "roots": {**_LIST, "description": "folders it may work in"},
        "timeouts": {"type": "object", "additionalProperties": {"type": "number"}},
    },
}


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


class ImportServers(Dialog[list[ServerEntry] | None]):
    """Offers the servers of other clients, with check boxes."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "take", "Import", priority=True, show=False)]

    def __init__(self, found: list[FoundClient]) -> None:
        self.found = [(entry, client.client) for client in found for entry in client.servers]
        problems = [one_line(f"{client.client}: {client.problem}") for client in found if client.problem]
        hint = "Neither Claude nor VS Code nor Cursor has a server here."
        if self.found:
            hint = "Space selects, Enter adds the selected servers, Esc cancels."
        super().__init__("[b]Import servers[/]", "\n".join([hint, *problems[:12]]))

    def body(self) -> ComposeResult:
        if self.found:
            labels = [f"{one_line(entry.name)}  ({one_line(where)})" for entry, where in self.found]
            yield SelectionList[int](*((label, at) for at, label in enumerate(labels)), compact=True)

    def action_take(self) -> None:
        chosen = self.query_one(SelectionList[int]).selected if self.found else []
        self.dismiss([self.found[at][0] for at in chosen])


class EditServer(Dialog[str | None]):
    """A server's entry as a form, with secrets masked; a masked value stays as it was. Returns its name."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "save", "Save", priority=True, show=False),
        Binding("ctrl+j", "json", "Form or JSON", priority=True, show=False),
    ]

    def __init__(self, servers: SessionServers, entry: ServerEntry) -> None:
        self._buttons = Bar("hover")
        super().__init__(Static(f"Edit {one_line(entry.name)}", markup=False), self._buttons)
        self._servers, self._name = servers, entry.name
        self._shown = {"name": entry.name, **entry.shown()}
        self._schema = entry_schema(is_command=entry.is_command)
        self.form = Form(leave=lambda: self.dismiss(None))

    def body(self) -> ComposeResult:
        yield self.form

    def on_mount(self) -> None:
        root = form(self._schema)
        known = {key: value for key, value in self._shown.items() if key in self._schema["properties"]}
        self.form.show(root, (to_texts(root, known), False, ""))
        self.form.call_after_refresh(self.form.enter)
        buttons = self.form.buttons("Save", "screen.save", "screen.json")
        self._buttons.show(buttons, [BarPart("*** stays as it was", "faint")])

    def action_json(self) -> None:
        self.complain(self.form.toggle() or "")

    def action_save(self) -> None:
        """Changes the entry, and reconnects if it is connected."""
        filled = self.form.filled()
        if filled.problems:
            self.complain(filled.problems[0].message)
            return
        self.run_worker(self._save(filled.value), exclusive=True)

    async def _save(self, value: dict[str, Any]) -> None:
        others = {key: each for key, each in self._shown.items() if key not in self._schema["properties"]}
        raw = {**others, **value}
        try:
            edited = ServerEntry.from_raw(str(raw.pop("name", "")).strip(), raw)
            changed = await self._servers.change(self._name, edited)
        except (TidingsError, CatalogError) as error:
            self.complain(error)
            return
        self.dismiss(changed.name)


def entry_schema(*, is_command: bool) -> dict[str, Any]:
    """Returns the JSON Schema of an entry, for a form."""
    needed = "command" if is_command else "url"
    texts = {**_TEXTS, "description": "${NAME} is looked up in the environment"}
    folder = {"type": "string", "description": "the folder it is started in"}
    own = {"args": _LIST, "env": texts, "cwd": folder} if is_command else {"headers": texts}
    return {
        "type": "object",
        "properties": {"name": {"type": "string"}, needed: {"type": "string"}, **own, "tidings": _OWN},
        "required": ["name", needed],
        "additionalProperties": False,
    }


NOTHING_KEPT = "Nothing of this session is kept: it was started with --no-journal, or its file cannot be written."


class Sessions(Dialog[None]):
    """The saved sessions, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "name", "Name", show=False),
        Binding("e", "export", "Export", show=False),
        Binding("d", "delete", "Delete", show=False),
    ]

    def __init__(self, journal: Journal) -> None:
        hint = f"m names, e exports, d deletes the chosen one.  {journal.path}"
        super().__init__("[b]Sessions that are kept[/]", hint)
        self._journal = journal
        self.table: Table[saved.SavedSession] = Table(
            lambda each: each.id, lambda each: f"{each.title or ''} {' '.join(each.servers)}"
        )
        self.list = RowList(self.table, self._draw, empty="Looking.", height=2)

    def body(self) -> ComposeResult:
        yield self.list

    def on_mount(self) -> None:
        self.list.focus()
        inspector_of(self).attempt(self._look())

    async def _look(self) -> None:
        self.table.update(await in_thread(self._journal, lambda: saved.list_sessions(self._journal.path)))
        self.list.empty = "None yet."
        self.list.take()

    def _draw(self, each: saved.SavedSession) -> list[tuple[Line, Line]]:
        state = "this one" if each.id == self._journal.session else "runs" if each.running else ""
        title = (one_line(each.title or f"Session {each.id}"), "ink" if each.title else "soft")
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.began))
        told = f"{began}   {counted(each.records, 'record')}, {size(each.bytes)}   "
        servers = one_line(", ".join(each.servers) or "no server")
        return [([title], [(state, "accent")]), ([(told, "faint"), (servers, "soft")], [])]

    @in_background
    async def action_name(self) -> None:
        if (chosen := self.list.chosen) is not None:
            await name_session(inspector_of(self), self._journal, chosen.id, chosen.title or "")
            await self._look()

    @in_background
    async def action_export(self) -> None:
        if (chosen := self.list.chosen) is not None:
            await export_to_file(inspector_of(self), self._journal, chosen.id)

    @in_background
    async def action_delete(self) -> None:
        if (chosen := self.list.chosen) is None:
            return
        name = one_line(chosen.title or f"session {chosen.id}")
        question = Confirm(f"Delete {name} and its {counted(chosen.records, 'record')}?", "deletes it")
        if await inspector_of(self).push_screen_wait(question):
            await in_thread(self._journal, lambda: saved.delete_session(self._journal.path, chosen.id))
            await self._look()


async def in_thread(journal: Journal, run: Callable[[], T]) -> T:
    """Runs a function in a thread once the journal is written. Raises `OSError` if the journal cannot be used."""

    def flushed() -> T:
        journal.flush(2.0)
        return run()

    try:
        return await asyncio.to_thread(flushed)
    except saved.JournalUnusable as error:
        raise OSError(str(error)) from None


async def name_session(inspector: "InspectorApp", journal: Journal, session: int, title: str = "") -> None:
    """Asks for a name, and gives it to a session."""
    name = await inspector.push_screen_wait(AskLine("A name for the session, to find it again", title))
    if name:
        await in_thread(journal, lambda: saved.rename_session(journal.path, session, name[:200]))
        inspector.notify("Named.", timeout=2)


async def export_to_file(inspector: "InspectorApp", journal: Journal, session: int) -> None:
    """Asks for a new file, and writes a session to it."""

    def check(line: str) -> str:
        path = Path(line).expanduser()
        if not path.parent.is_dir():
            return f"There is no folder {path.parent}."
        return f"There is a file {path} already. Choose another name." if path.exists() else ""

    heading, file = "Export the session as JSON Lines, to this file", f"tidings-session-{session}.jsonl"
    hint = "Enter writes it: secrets are masked in it. tidings mock FILE serves it."
    if line := await inspector.push_screen_wait(AskLine(heading, file, hint, check)):
        path = Path(line).expanduser()  # noqa: ASYNC240 - looks up the home folder only
        records = await in_thread(journal, lambda: export_session(saved.read_session(journal.path, session), path))
        inspector.notify(f"{counted(records, 'record')} in {one_line(path)}", timeout=6, markup=False)
