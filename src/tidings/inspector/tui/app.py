"""The application: which server and which tab are shown, the clock that brings the screen up to date, and the keys.

Records only leave a mark here (`_dirty`). A clock looks at the marks `RATE` times a second and reads what is new from
the view, so that the screen costs the same whether one notification arrives or five thousand.
"""

import time
from collections.abc import Callable
from typing import Any, ClassVar, Final

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import ContentSwitcher

from tidings.inspector.records import Record
from tidings.inspector.server import InspectedServer
from tidings.inspector.servers import SessionServers
from tidings.inspector.session import Session
from tidings.inspector.tui.actions import Actions, Everything
from tidings.inspector.tui.frame import TABS, ChangeRate, draw_server, show_facts, show_numbers, show_tabs
from tidings.inspector.tui.screens.calls import PromptsPane, ToolsPane
from tidings.inspector.tui.screens.live import LivePane
from tidings.inspector.tui.screens.logs import LogsPane
from tidings.inspector.tui.screens.messages import MessagesPane
from tidings.inspector.tui.screens.questions import Questions
from tidings.inspector.tui.screens.requests import RequestsPane
from tidings.inspector.tui.screens.resources import ResourcesPane
from tidings.inspector.tui.screens.screen import Pane
from tidings.inspector.tui.theme import THEMES
from tidings.inspector.tui.widgets.bars import Bar
from tidings.inspector.tui.widgets.entries import Table
from tidings.inspector.tui.widgets.lists import RowList
from tidings.inspector.tui.words import one_line

EMPTY: Final = "No server yet. n adds one: a URL, or a command. i imports what other clients have."
RATE: Final = 12
"""So many times a second the screen is brought up to date, at most."""

PANES: Final[dict[str, type[Pane]]] = {
    "live": LivePane,
    "tools": ToolsPane,
    "resources": ResourcesPane,
    "prompts": PromptsPane,
    "requests": RequestsPane,
    "messages": MessagesPane,
    "logs": LogsPane,
}


class InspectorApp(Actions):
    """The inspector of one session.

    Args:
        session: Open, with its servers added or about to be.
        servers: The same servers and the catalog that keeps them; without one, nothing is kept.
        now: The clock, in seconds since the epoch.
        dark: The scheme to begin with.
    """

    TITLE = "Tidings"
    COMMANDS: ClassVar[set[Any]] = App.COMMANDS | {Everything}
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - as Textual declares it
        (0, "-narrow"),
        (100, "-medium"),
        (140, "-wide"),
    ]

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        *(Binding(str(number), f"tab('{name}')", name.capitalize()) for number, name in enumerate(TABS, 1)),
        Binding("left_square_bracket", "server(-1)", "Server before"),
        Binding("right_square_bracket", "server(1)", "Next server"),
        Binding("a", "questions", "Questions"),
        Binding("n", "add", "Add a server"),
        Binding("i", "import_servers", "Import servers"),
        Binding("E", "edit_server", "Edit the server"),
        Binding("X", "remove_server", "Remove the server"),
        Binding("S", "sessions", "Sessions"),
        Binding("C", "connect", "Connect"),
        Binding("D", "disconnect", "Disconnect"),
        Binding("R", "reconnect", "Reconnect"),
        Binding("t", "scheme", "Dark or light"),
        Binding("question_mark", "keys", "Keys"),
    ]

    CSS = """
    Screen { color: $t-ink; }
    CommandPalette Input:focus { background: $t-hover; }
    CommandPalette SearchIcon { display: none; }
    Select > SelectCurrent { background: $t-hover; }
    #body { height: 1fr; }
    #servers { width: 32; background: $t-pane; border-right: vkey $t-line; }
    .-narrow #servers { display: none; }
    #tabs { height: 2; border-bottom: hkey $t-line; }
    ContentSwitcher { height: 1fr; }
    .-narrow Caller, .-medium Caller { layout: vertical; }
    .-narrow Caller .form, .-medium Caller .form {
        width: 1fr; height: 1fr; border-right: none; border-bottom: hkey $t-line;
    }
    .-narrow Caller .result, .-medium Caller .result { width: 1fr; height: 1fr; }
    Input, TextArea, Select { background: $t-hover; }
    Input:focus, TextArea:focus { background: $t-chosen; }
    TextArea.whole:focus { background: $t-hover; }
    Input.-invalid, Input.-invalid:focus { background: $t-removed; }
    Button { min-width: 8; }
    Toast { background: $t-hover; }
    """

    def __init__(
        self,
        session: Session,
        *,
        servers: SessionServers | None = None,
        now: Callable[[], float] = time.time,
        dark: bool = True,
    ) -> None:
        super().__init__()
        self.session = session
        self.servers = servers or SessionServers(session, None, {})
        self.now = now
        self.tab = "live"
        self.server: InspectedServer | None = None
        self.ticks = 0
        """How many times the screen was brought up to date."""
        self.paces: dict[str, ChangeRate] = {}
        self._dirty = True
        self._said = 0.0
        self._unlisten: Callable[[], Any] | None = None
        self._servers: Table[InspectedServer] = Table(lambda server: server.view.name, lambda server: server.view.name)
        # Held, not looked up: the clock may tick while a dialog is open, or when the screen is being taken down.
        self._facts, self._tabs, self._numbers = Bar(id="facts"), Bar(id="tabs"), Bar(id="numbers")
        self._listed = RowList(self._servers, draw_server(self.pace, now), height=2, id="servers", empty=EMPTY)
        self._questions = Questions(id="questions")
        self.panes = {name: pane(id=name) for name, pane in PANES.items()}
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = "tidings-dark" if dark else "tidings-light"

    def compose(self) -> ComposeResult:
        yield self._facts
        with Horizontal(id="body"):
            yield self._listed
            with Vertical():
                yield self._tabs
                with ContentSwitcher(initial="live"):
                    yield from self.panes.values()
                yield self._questions
        yield self._numbers

    def on_mount(self) -> None:
        self._unlisten = self.session.listen(self.heard)
        for server in self.session.servers.values():
            for change in server.view.changes:
                self.pace(server.view.name).add(change.at, change.change)
        self.tick()
        self.pane.main_list().focus()
        self.set_interval(1 / RATE, self.tick)
        self.attempt(self._say_problems())

    async def _say_problems(self) -> None:
        """What could not be read or cannot be kept: nobody should find out later."""
        notice = self.session.journal.notice if self.session.journal is not None else None
        _, problems = await self.servers.listing()
        for words in [notice, *problems[:3]]:
            if words:
                self.notify(one_line(words), severity="warning", timeout=12, markup=False)

    def on_resize(self) -> None:
        self.touch()
        self.call_after_refresh(self.tick)  # What stands on top depends on how wide it is.

    def on_unmount(self) -> None:
        if self._unlisten is not None:
            self._unlisten()

    # What arrives

    def heard(self, record: Record) -> None:
        """A record arrived: remember that there is something to show."""
        self._dirty = True
        view = self.session.view.servers.get(record.server)
        newest = None if view is None else view.changes.last
        if newest is not None and newest.seq == record.seq:
            self.pace(record.server).add(record.at, newest.change)

    def pace(self, name: str) -> ChangeRate:
        """The pace of the server of this name."""
        return self.paces.setdefault(name, ChangeRate())

    def touch(self) -> None:
        """There is something to show that no record told of."""
        self._dirty = True

    def tick(self) -> None:
        """Bring the screen up to date if there is something new; and once a second, because ages are shown."""
        now = self.now()
        if not self._listed.is_attached:
            return
        if not self._dirty and abs(now - self._said) < 1.0:
            return
        self._dirty = False
        self._said = now
        self.ticks += 1
        self._take_servers()
        view = self.server.view if self.server is not None else None
        show_facts(self._facts, view)
        waiting = sum(len(server.view.questions) for server in self.session.servers.values())
        told = show_tabs(self._tabs, self.tab, view, waiting)
        show_numbers(self._numbers, view, 0 if told else waiting)
        self._questions.take()
        self.pane.take()

    def _take_servers(self) -> None:
        servers = list(self.session.servers.values())
        self._servers.update(servers)
        self._listed.take()
        if self.server not in servers:
            self._show(servers[0] if servers else None)

    # Which server, which tab

    @property
    def pane(self) -> Pane:
        """The tab that is open."""
        return self.panes[self.tab]

    def _show(self, server: InspectedServer | None) -> None:
        self.server = server
        for pane in self.panes.values():
            pane.restart()
        self.touch()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        if event.rows.id == "servers" and event.item is not None and event.item is not self.server:
            self._show(event.item)

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        if event.rows.id == "servers":
            self.pane.main_list().focus()

    def choose(self, server: str, tab: str | None = None, key: str | None = None) -> None:
        """Show a server, a tab of it, and a thing on it."""
        self._listed.choose(server)
        found = self.session.servers.get(server)
        if found is not None and found is not self.server:
            self._show(found)
        if tab is not None:
            self.action_tab(tab)
        if key is not None:
            self.tick()
            self.pane.go(key)
            self.pane.take()  # The next key is already meant for it.

    def action_tab(self, name: str) -> None:
        """Open a tab."""
        self.tab = name
        self.query_one(ContentSwitcher).current = name
        self.touch()
        self.tick()
        self.pane.main_list().focus()

    def action_server(self, by: int) -> None:
        """To the next server."""
        self._listed.action_move(by)

    def action_focus_servers(self) -> None:
        """Esc in a list: to the servers."""
        self._listed.focus()

    async def action_pane_do(self, what: str) -> None:
        """What a word in the head of a list does when it is clicked: an action of the tab that is open."""
        await self.pane.run_action(what)

    def action_questions(self) -> None:
        """Open or close the panel of questions."""
        self._questions.toggle()
