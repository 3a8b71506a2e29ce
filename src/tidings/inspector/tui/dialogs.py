"""What is asked for a moment: a server to add, servers to import, and the sheet of keys."""

from collections.abc import Collection
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, SelectionList, Static

from tidings.errors import TidingsError
from tidings.inspector.catalog import ServerEntry
from tidings.inspector.tui.shelf import Found, Shelf
from tidings.inspector.tui.words import one_line

SHEET: Final = (
    (
        "Everywhere",
        (
            ("1 … 7", "the tabs"),
            ("[ ]", "the server before, after"),
            ("tab", "from list to detail and on"),
            ("ctrl+p", "find anything by its name"),
            ("a", "questions that wait for you"),
            ("n  i", "add a server; import servers"),
            ("C D R", "connect, disconnect, reconnect"),
            ("t", "dark or light"),
            ("q", "quit"),
        ),
    ),
    (
        "In a list",
        (
            ("j k ↑ ↓", "move"),
            ("g G", "first, last; g follows again"),
            ("space", "hold back what arrives"),
            ("/", "find; Esc shows all again"),
            ("Enter", "open"),
            ("Esc", "to the servers"),
        ),
    ),
    (
        "In a form",
        (
            ("ctrl+r", "call, read, answer"),
            ("ctrl+j", "as JSON and back"),
            ("ctrl+x", "cancel, refuse"),
            ("ctrl+n", "null"),
            ("Esc", "back to the list"),
        ),
    ),
    (
        "Resources",
        (
            ("s", "subscribe, unsubscribe"),
            ("r", "read"),
            ("w", "list or tree"),
            ("v", "changes, rendered, source"),
            (", .", "earlier, later version"),
        ),
    ),
    (
        "Requests, messages, logs",
        (
            ("x", "cancel a request"),
            ("r", "send a request again"),
            ("o", "the client's own requests"),
            ("h", "HTTP exchanges"),
            ("p", "from a request to its answer"),
            ("s", "logs, errors, notifications"),
            ("l L", "show, ask for another level"),
            ("y", "copy what is shown"),
        ),
    ),
)
"""Every key and what it does."""

_BOX: Final = """
    width: 110; max-width: 95%; height: auto; max-height: 90%; background: $t-pane; border: round $t-line; padding: 1 2;
"""


class Keys(ModalScreen[None]):
    """The sheet of keys. Any key closes it."""

    DEFAULT_CSS = f"""
    Keys {{ align: center middle; }}
    Keys > Vertical {{ {_BOX} layout: grid; grid-size: 2; grid-gutter: 1 3; grid-rows: auto; overflow-y: auto; }}
    Keys Static {{ height: auto; }}
    """

    def compose(self) -> ComposeResult:
        with Vertical():
            for title, keys in SHEET:
                lines = "\n".join(f"[$t-accent]{_escaped(f'{key:<9}')}[/] [$t-ink]{words}[/]" for key, words in keys)
                yield Static(f"[b]{title}[/]\n{lines}")

    def on_key(self) -> None:
        self.dismiss(None)

    def on_click(self) -> None:
        self.dismiss(None)


class AddServer(ModalScreen[ServerEntry | None]):
    """Asks for a URL or a command, and gives the entry for the catalog."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Back")]
    DEFAULT_CSS = f"""
    AddServer {{ align: center middle; }}
    AddServer > Vertical {{ {_BOX} }}
    AddServer Input {{ height: 1; border: none; margin: 1 0; padding: 0 1; }}
    AddServer #wrong {{ color: $t-bad; height: auto; }}
    AddServer .soft {{ color: $t-soft; }}
    """

    def __init__(self, shelf: Shelf, taken: Collection[str]) -> None:
        super().__init__()
        self._shelf, self._taken = shelf, taken

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("[b]Add a server[/]")
            yield Input(
                placeholder="https://host/mcp, or the command that starts it: python server.py",
                compact=True,
                id="target",
            )
            yield Input(placeholder="a name, if you like", compact=True, id="name")
            yield Static("", id="wrong", markup=False)
            yield Static("Enter adds and connects it. Esc leaves everything as it is.", classes="soft")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        target, name = (self.query_one(f"#{each}", Input).value.strip() for each in ("target", "name"))
        try:
            entry = self._shelf.entry(target, name or None, self._taken)
        except (TidingsError, ValueError) as error:
            self.query_one("#wrong", Static).update(one_line(error, 400))
            return
        self.dismiss(entry)


class ImportServers(ModalScreen[list[ServerEntry] | None]):
    """Offers the servers that other clients know, to be ticked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back"),
        Binding("enter", "take", "Import", priority=True),
    ]
    DEFAULT_CSS = f"""
    ImportServers {{ align: center middle; }}
    ImportServers > Vertical {{ {_BOX} }}
    ImportServers SelectionList {{ height: auto; max-height: 20; border: none; margin: 1 0; background: $t-ground; }}
    ImportServers .soft {{ color: $t-soft; height: auto; }}
    """

    def __init__(self, shelf: Shelf, taken: Collection[str]) -> None:
        super().__init__()
        self._shelf, self._taken = shelf, taken
        self.found: list[Found] = []

    def compose(self) -> ComposeResult:
        self.found, said = self._shelf.elsewhere(self._taken)
        with Vertical():
            yield Static("[b]Import servers[/]")
            if self.found:
                picks = [
                    (f"{one_line(each.entry.name)}  ({one_line(each.where)})", at) for at, each in enumerate(self.found)
                ]
                yield SelectionList[int](*picks, compact=True)
                yield Static("Space ticks, Enter adds what is ticked. Esc leaves everything as it is.", classes="soft")
            else:
                yield Static(
                    "Neither your catalog nor Claude, VS Code or Cursor has a server that is not shown.",
                    classes="soft",
                )
            yield Static("\n".join(one_line(each) for each in said[:12]), classes="soft", markup=False)

    def action_take(self) -> None:
        """Add what is ticked."""
        chosen = self.query_one(SelectionList[int]).selected if self.found else []
        self.dismiss([self.found[at].entry for at in chosen])


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")
