"""Dialogs for servers (add, import, edit) and for saved sessions (list, name, export, delete)."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, SelectionList, Static

from tidings._kit.text import counted
from tidings.errors import TidingsError
from tidings.inspector.catalog import CatalogError, ServerEntry
from tidings.inspector.catalog.clients import FoundClient
from tidings.inspector.forms import form, to_texts
from tidings.inspector.servers import SessionServers
from tidings.inspector.sessions.export import export_session
from tidings.inspector.sessions.journal import Journal
from tidings.inspector.sessions.saved import (
    JournalUnusable,
    SavedSession,
    delete_session,
    list_sessions,
    read_session,
    rename_session,
)
from tidings.inspector.tui.dialogs import AskLine, Confirm, Dialog
from tidings.inspector.tui.theme import inspector_of
from tidings.inspector.tui.widgets.bars import Bar, BarPart, Line
from tidings.inspector.tui.widgets.entries import Table
from tidings.inspector.tui.widgets.forms import Form
from tidings.inspector.tui.widgets.lists import RowList
from tidings.inspector.tui.words import one_line, size

if TYPE_CHECKING:
    from tidings.inspector.tui.app import InspectorApp


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
        super().__init__()
        self._servers = servers

    def compose(self) -> ComposeResult:
        kept = self._servers.writable
        where = f" It is kept in {kept.path}." if kept is not None else " It is not kept: the catalog is only read."
        with Vertical():
            yield Static("[b]Add a server[/]")
            yield Input(
                placeholder="https://host/mcp, or the command that starts it: python server.py",
                compact=True,
                id="target",
            )
            yield Input(placeholder="a name, if you like", compact=True, id="name")
            yield Static("", classes="wrong", markup=False)
            yield Static(f"Enter adds and connects it. Esc leaves everything as it is.{where}", classes="soft")

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
    DEFAULT_CSS = """
    ImportServers SelectionList { height: auto; max-height: 20; border: none; margin: 1 0; background: $t-ground; }
    """

    def __init__(self, found: list[FoundClient]) -> None:
        super().__init__()
        self.found = [(entry, client.client) for client in found for entry in client.servers]
        self._problems = [f"{client.client}: {client.problem}" for client in found if client.problem]

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("[b]Import servers[/]")
            if self.found:
                labels = [f"{one_line(entry.name)}  ({one_line(where)})" for entry, where in self.found]
                yield SelectionList[int](*((label, at) for at, label in enumerate(labels)), compact=True)
                yield Static("Space selects, Enter adds the selected servers, Esc cancels.", classes="soft")
            else:
                yield Static("Neither Claude nor VS Code nor Cursor has a server here.", classes="soft")
            yield Static("\n".join(one_line(each) for each in self._problems[:12]), classes="soft", markup=False)

    def action_take(self) -> None:
        chosen = self.query_one(SelectionList[int]).selected if self.found else []
        self.dismiss([self.found[at][0] for at in chosen])


class EditServer(Dialog[str | None]):
    """A server's entry as a form, with secrets masked; a masked value stays as it was. Returns its name."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "save", "Save", priority=True, show=False),
        Binding("ctrl+j", "json", "Form or JSON", priority=True, show=False),
    ]
    DEFAULT_CSS = """
    EditServer > Vertical { height: 80vh; }
    EditServer Form { margin: 1 0 0 0; }
    """

    def __init__(self, servers: SessionServers, entry: ServerEntry) -> None:
        super().__init__()
        self._servers, self._name = servers, entry.name
        self._shown = {"name": entry.name, **entry.shown()}
        self._schema = entry_schema(is_command=entry.is_command)
        self.form = Form(leave=lambda: self.dismiss(None))
        self._buttons = Bar("hover")

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(f"Edit {one_line(self._name)}", markup=False)
            yield self.form
            yield Static("", classes="wrong", markup=False)
            yield self._buttons

    def on_mount(self) -> None:
        root = form(self._schema)
        known = {key: value for key, value in self._shown.items() if key in self._schema["properties"]}
        self.form.show(root, (to_texts(root, known), False, ""))
        self.form.call_after_refresh(self.form.enter)
        self._buttons.show(
            [
                BarPart(" Save ", "b-accent on chosen", "screen.save"),
                BarPart(" ctrl+r", "faint", "screen.save"),
                BarPart("   JSON", "ink", "screen.json"),
                BarPart(" ctrl+j", "faint", "screen.json"),
            ],
            [BarPart("*** stays as it was", "faint")],
        )

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
    if is_command:
        own: dict[str, Any] = {
            "command": {"type": "string"},
            "args": _LIST,
            "env": {**_TEXTS, "description": "${NAME} is looked up in the environment"},
            "cwd": {"type": "string", "description": "the folder it is started in"},
        }
    else:
        own = {
            "url": {"type": "string"},
            "headers": {**_TEXTS, "description": "${NAME} is looked up in the environment"},
        }
    return {
        "type": "object",
        "properties": {"name": {"type": "string"}, **own, "tidings": _OWN},
        "required": ["name", "command" if is_command else "url"],
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
    DEFAULT_CSS = """
    Sessions RowList { height: auto; max-height: 24; min-height: 4; margin: 1 0; }
    """

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal
        self.table: Table[SavedSession] = Table(lambda each: each.id, session_text)
        self.list = RowList(self.table, self._draw, empty="Looking.", height=2)

    @property
    def _inspector(self) -> "InspectorApp":
        return inspector_of(self)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("[b]Sessions that are kept[/]")
            yield self.list
            yield Static(f"m names, e exports, d deletes the chosen one.  {self._journal.path}", classes="soft")

    def on_mount(self) -> None:
        self.list.focus()
        self._again()

    def _again(self) -> None:
        self._inspector.attempt(self._look())

    async def _look(self) -> None:
        found = await in_thread(lambda: (self._journal.flush(1.0), list_sessions(self._journal.path))[1])
        self.table.update(found)
        self.list.empty = "None yet."
        self.list.take()

    def _draw(self, each: SavedSession) -> list[tuple[Line, Line]]:
        state = "this one" if each.id == self._journal.session else "runs" if each.running else ""
        first: Line = [(one_line(each.title or f"Session {each.id}"), "ink" if each.title else "soft")]
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.began))
        told = f"{began}   {counted(each.records, 'record')}, {size(each.bytes)}   "
        servers = one_line(", ".join(each.servers) or "no server")
        return [(first, [(state, "accent")]), ([(told, "faint"), (servers, "soft")], [])]

    def action_name(self) -> None:
        if (chosen := self.list.chosen) is not None:
            name_session(self._inspector, self._journal, chosen.id, chosen.title or "", self._again)

    def action_export(self) -> None:
        if (chosen := self.list.chosen) is not None:
            export_to_file(self._inspector, self._journal, chosen.id)

    def action_delete(self) -> None:
        if (chosen := self.list.chosen) is None:
            return

        async def delete() -> None:
            await in_thread(lambda: delete_session(self._journal.path, chosen.id))
            await self._look()

        name = one_line(chosen.title or f"session {chosen.id}")
        self._inspector.push_screen(
            Confirm(f"Delete {name} and its {counted(chosen.records, 'record')}?", "deletes it"),
            lambda sure: self._inspector.attempt(delete()) if sure else None,
        )


async def in_thread(run: Callable[[], Any]) -> Any:
    """Runs a function in a thread. Raises `OSError` if the journal cannot be used."""
    try:
        return await asyncio.to_thread(run)
    except JournalUnusable as error:
        raise OSError(str(error)) from None


def name_session(
    inspector: "InspectorApp", journal: Journal, session: int, title: str = "", then: Callable[[], None] | None = None
) -> None:
    """Asks for a name, and gives it to a session."""

    async def name(line: str) -> None:
        await in_thread(lambda: (journal.flush(1.0), rename_session(journal.path, session, line[:200])))
        inspector.notify("Named.", timeout=2)
        if then is not None:
            then()

    inspector.push_screen(
        AskLine("A name for the session, to find it again", title),
        lambda line: inspector.attempt(name(line)) if line else None,
    )


def export_to_file(inspector: "InspectorApp", journal: Journal, session: int) -> None:
    """Asks for a new file, and writes a session to it."""

    async def export(path: Path) -> None:
        records = await in_thread(
            lambda: (journal.flush(2.0), export_session(read_session(journal.path, session), path))[1]
        )
        inspector.notify(f"{counted(records, 'record')} in {one_line(path)}", timeout=6, markup=False)

    def check(line: str) -> str:
        path = Path(line).expanduser()
        if not path.parent.is_dir():
            return f"There is no folder {path.parent}."
        return f"There is a file {path} already. Choose another name." if path.exists() else ""

    inspector.push_screen(
        AskLine(
            "Export the session as JSON Lines, to this file",
            f"tidings-session-{session}.jsonl",
            "Enter writes it: secrets are masked in it. tidings mock FILE serves it.",
            check,
        ),
        lambda line: inspector.attempt(export(Path(line).expanduser())) if line else None,
    )


def session_text(each: SavedSession) -> str:
    """Returns the text for a filter."""
    return f"{each.title or ''} {' '.join(each.servers)}"
