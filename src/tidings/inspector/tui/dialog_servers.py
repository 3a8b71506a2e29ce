"""Servers are asked for: one to add, some to import, one to edit."""

from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, SelectionList, Static

from tidings.errors import TidingsError
from tidings.inspector.catalog import CatalogError, ServerEntry
from tidings.inspector.catalog_clients import FoundClient
from tidings.inspector.schemas import form, to_texts
from tidings.inspector.servers import Servers
from tidings.inspector.tui.bars import Bar, Part
from tidings.inspector.tui.dialogs import Dialog
from tidings.inspector.tui.forms import Form
from tidings.inspector.tui.words import one_line

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
    """Asks for a URL or a command, and gives the entry, and whether it may be called otherwise."""

    def __init__(self, servers: Servers) -> None:
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
    """Offers the servers that other clients know, to be ticked."""

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
                picks = [
                    (f"{one_line(entry.name)}  ({one_line(where)})", at) for at, (entry, where) in enumerate(self.found)
                ]
                yield SelectionList[int](*picks, compact=True)
                yield Static("Space ticks, Enter adds what is ticked. Esc leaves everything as it is.", classes="soft")
            else:
                yield Static("Neither Claude nor VS Code nor Cursor has a server here.", classes="soft")
            yield Static("\n".join(one_line(each) for each in self._problems[:12]), classes="soft", markup=False)

    def action_take(self) -> None:
        """Add what is ticked."""
        chosen = self.query_one(SelectionList[int]).selected if self.found else []
        self.dismiss([self.found[at][0] for at in chosen])


class EditServer(Dialog[str | None]):
    """A server's entry as a form, secrets masked; what stays masked stays as it was. Gives its name."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "save", "Save", priority=True, show=False),
        Binding("ctrl+j", "json", "Form or JSON", priority=True, show=False),
    ]
    DEFAULT_CSS = """
    EditServer > Vertical { height: 80vh; }
    EditServer Form { margin: 1 0 0 0; }
    """

    def __init__(self, servers: Servers, entry: ServerEntry) -> None:
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
                Part(" Save ", "b-accent on chosen", "screen.save"),
                Part(" ctrl+r", "faint", "screen.save"),
                Part("   JSON", "ink", "screen.json"),
                Part(" ctrl+j", "faint", "screen.json"),
            ],
            [Part("*** stays as it was", "faint")],
        )

    def action_json(self) -> None:
        """From the form to JSON and back."""
        self.complain(self.form.toggle() or "")

    def action_save(self) -> None:
        """Change the entry, and connect anew if it is connected."""
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
            known = await self._servers.change(self._name, edited)
        except (TidingsError, CatalogError) as error:
            self.complain(error)
            return
        self.dismiss(known.entry.name)


def entry_schema(*, is_command: bool) -> dict[str, Any]:
    """What an entry may have, for a form."""
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
    required = ["name", "command" if is_command else "url"]
    return {
        "type": "object",
        "properties": {"name": {"type": "string"}, **own, "tidings": _OWN},
        "required": required,
        "additionalProperties": False,
    }
