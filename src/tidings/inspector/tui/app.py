"""The app: the current server and tab, the clock that updates the screen, the keys and their actions.

A record only sets a mark (`_dirty`). A clock checks it `RATE` times a second and reads what is new from the view, so
that the screen costs the same for one notification as for five thousand.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Final, Literal, cast

from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import ContentSwitcher

from tidings._kit.bounded_json import as_dict
from tidings.client.accounts import default_accounts
from tidings.errors import TidingsError
from tidings.inspector.catalog.entry import CatalogError
from tidings.inspector.server import InspectedServer
from tidings.inspector.session import Session, SessionServers
from tidings.inspector.tui import dialogs
from tidings.inspector.tui.frame import TABS, draw_server, foot_keys, show_facts, show_numbers, show_tabs
from tidings.inspector.tui.screens.calls import ListedPane
from tidings.inspector.tui.screens.live import LivePane
from tidings.inspector.tui.screens.messages import LogsPane, MessagesPane
from tidings.inspector.tui.screens.questions import Questions
from tidings.inspector.tui.screens.resources import ResourcesPane
from tidings.inspector.tui.screens.screen import Pane
from tidings.inspector.tui.screens.tasks import TasksPane
from tidings.inspector.tui.theme import KEYS, SCHEMES, in_background, theme
from tidings.inspector.tui.widgets.bars import Bar, one_line
from tidings.inspector.tui.widgets.lists import RowList, Table
from tidings.inspector.view.items import RequestView

EMPTY: Final = "No server yet. n adds one: a URL, or a command."
RATE: Final = 12  # The largest number of screen updates per second.
MOST_FOUND: Final = 50  # The largest number of matches that the command palette offers.
_WATCHED_AT_ONCE: Final = 5
_PAUSE: Final = 500  # The number of names after which other tasks get their turn.

PANES: Final[dict[str, Callable[[str], Pane]]] = {
    "live": LivePane,
    "tools": ListedPane,
    "resources": ResourcesPane,
    "prompts": ListedPane,
    "tasks": TasksPane,
    "messages": MessagesPane,
    "logs": LogsPane,
}

_WRONG: Final = (TidingsError, CatalogError, ValueError, LookupError, OSError)  # Faults of a server, a file or the user


class Everything(Provider):
    """Finds items of all servers for the command palette."""

    async def search(self, query: str) -> Hits:
        matcher, inspector = self.matcher(query), cast("InspectorApp", self.app)
        hits: list[Hit] = []
        for name, server in inspector.session.servers.items():
            things = [("live", "", "server")]
            for items in ("tools", "prompts", "templates", "resources"):
                tab, kind = "resources" if items == "templates" else items, f"{items[:-1]} of {one_line(name)}"
                things += [(tab, key, kind) for key in getattr(server.view, items)]
            for at, (tab, key, kind) in enumerate(things):
                if at % _PAUSE == _PAUSE - 1:
                    await asyncio.sleep(0)
                label = one_line(key or name)
                if (score := matcher.match(label)) > 0:
                    show = partial(inspector.choose, name, tab, key or None)
                    hits.append(Hit(score, matcher.highlight(label), show, text=label, help=kind))
        for hit in sorted(hits, key=lambda each: each.score, reverse=True)[:MOST_FOUND]:
            yield hit

    async def discover(self) -> Hits:
        inspector = cast("InspectorApp", self.app)
        for name in inspector.session.servers:
            yield DiscoveryHit(one_line(name), partial(inspector.choose, name, "live"), help="server")


class InspectorApp(App[None]):
    """The inspector of one open session. Without `servers`, which know the catalog, nothing is saved.

    `lands`: a server that connects is watched at once, or its tools are shown if it has no subscriptions.
    """

    TITLE = "Tidings"
    COMMANDS: ClassVar[set[Any]] = App.COMMANDS | {Everything}
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (112, "-medium"), (140, "-wide")]  # noqa: RUF012 - as Textual has it

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"tab('{name}')", name.capitalize()) for number, name in enumerate(TABS, 1)),
        Binding("left_square_bracket", "server(-1)", "Server before"),
        Binding("right_square_bracket", "server(1)", "Next server"),
        *(Binding(key, action, title) for key, action, title, _ in KEYS["actions"] if key),
    ]

    CSS_PATH = "app.tcss"

    def __init__(
        self,
        session: Session,
        servers: SessionServers | None = None,
        now: Callable[[], float] = time.time,
        *,
        dark: bool = True,
        lands: bool = False,
    ) -> None:
        super().__init__()
        self.session, self.servers = session, servers or SessionServers(session, None, {})
        self.now, self.tab = now, "live"
        self.server: InspectedServer | None = None
        self._landed: set[InspectedServer] | None = set() if lands else None
        self._split = 40  # The width of lists, in percent.
        self.ticks = 0  # The number of screen updates.
        self._dirty, self._said = True, 0.0
        self._unlisten: Callable[[], Any] | None = None
        self._servers: Table[InspectedServer] = Table(lambda server: server.view.name, lambda server: server.view.name)
        # Held, not looked up: the clock may tick while a dialog is open, or when the screen is being taken down.
        self._facts, self._tabs, self._numbers = Bar(id="facts"), Bar(id="tabs"), Bar(id="numbers")
        self._listed = RowList(
            self._servers, lambda server: draw_server(server.view, now()), height=2, name="servers", empty=EMPTY
        )
        self._questions = Questions(id="questions")
        self.panes = {name: pane(name) for name, pane in PANES.items()}
        for name in SCHEMES:
            self.register_theme(theme(name))
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
        self._unlisten = self.session.listen(lambda _: self.touch())
        self.tick()
        self.pane.rows.focus()
        self.set_interval(1 / RATE, self.tick)
        self._say_problems()

    @in_background
    async def _say_problems(self) -> None:
        notice = self.session.journal.notice if self.session.journal is not None else None
        _, problems = await self.servers.listing()
        for words in filter(None, [notice, *problems[:3]]):
            self.notify(one_line(words), severity="warning", timeout=12, markup=False)

    def on_resize(self) -> None:
        self.touch()
        self.call_after_refresh(self.tick)  # What stands on top depends on how wide it is.

    def on_unmount(self) -> None:
        if self._unlisten is not None:
            self._unlisten()

    def touch(self) -> None:
        self._dirty = True

    def tick(self) -> None:
        """Updates the screen if there is something new, and once a second, because ages are shown."""
        now = self.now()
        if not self._listed.is_attached or (not self._dirty and abs(now - self._said) < 1.0):
            return
        self._dirty = False
        self._said = now
        self.ticks += 1
        servers = list(self.session.servers.values())
        self._servers.update(servers)
        self._listed.take()
        if self.server not in servers:
            self._show(servers[0] if servers else None)
        if self.server is not None and self._landed is not None and self.server not in self._landed:
            self._land(self.server, self._landed)
        view = None if self.server is None else self.server.view
        show_facts(self._facts, view)
        waiting = sum(len(server.view.questions) for server in servers)
        told = show_tabs(self._tabs, self.tab, view, waiting)
        foot = "Esc back" if self.screen.is_modal else foot_keys(self.focused, self.tab)
        show_numbers(self._numbers, view, 0 if told else waiting, foot)
        self._questions.take()
        self.pane.take()

    def _land(self, server: InspectedServer, landed: set[InspectedServer]) -> None:
        """Watches the first resources of a server that has just connected, or shows its tools if it cannot."""
        view, stated = server.view, as_dict(server.view.capabilities)
        loaded = view.loaded_at.keys() | view.list_errors
        if view.state != "connected" or any(each in stated and each not in loaded for each in ("tools", "resources")):
            return
        landed.add(server)
        can_watch = as_dict(stated.get("resources")).get("subscribe") is True or stated.get("subscriptions") is not None
        if can_watch and not view.subscriptions:
            for uri in islice(view.resources, _WATCHED_AT_ONCE):
                self.attempt(server.subscribe(uri))
        if not view.subscriptions and not (can_watch and view.resources) and self.tab == "live" and view.tools:
            self.action_tab("tools")

    @property
    def pane(self) -> Pane:
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
            self.pane.rows.focus()

    def choose(self, server: str, tab: str | None = None, key: str | None = None) -> None:
        self._listed.choose(server)
        if (found := self.session.servers.get(server, self.server)) is not self.server:
            self._show(found)
        if tab is not None:
            self.action_tab(tab)
        if key is not None:
            self.tick()
            self.pane.go(key)
            self.pane.take()  # The next key is already meant for it.

    def action_tab(self, name: str) -> None:
        self.tab = name
        self.query_one(ContentSwitcher).current = name
        self.touch()
        self.tick()
        self.pane.rows.focus()

    def action_server(self, by: int) -> None:
        self._listed.action_move(by)

    def action_focus_servers(self) -> None:
        self._listed.focus()

    async def action_pane_do(self, what: str) -> None:
        """Runs an action of the open tab, for a clickable word in the head of a list."""
        await self.pane.run_action(what)

    def action_questions(self) -> None:
        self._questions.toggle()

    def action_filter(self) -> None:
        self.pane.remove_class("zoom-detail")
        self.pane.column.action_filter()

    def action_zoom(self) -> None:
        self.pane.zoom(self.focused)
        self.set_class(self.pane.has_class("zoom-list") or self.pane.has_class("zoom-detail"), "zoomed")

    def action_split(self, by: int) -> None:
        self._split = max(20, min(self._split + by, 75))
        for pane in self.panes.values():
            pane.column.styles.width = f"{self._split}%"

    # Actions. None of them waits: long work runs in the background, and a failure is shown as a message.

    def attempt(self, work: Coroutine[Any, Any, Any]) -> None:
        """Runs work in the background. Faults of a server or the user are shown as a message."""

        async def tried() -> None:
            try:
                await work
            except _WRONG as error:
                self._say_wrong(error)
            self.touch()

        self.run_worker(tried(), exclusive=False)

    def do(self, action: Callable[[], Any]) -> Any:
        """Does something at once, such as sending a request, whose outcome arrives as records."""
        self.touch()
        try:
            return action()
        except _WRONG as error:
            self._say_wrong(error)

    def _say_wrong(self, error: object) -> None:
        self.notify(one_line(error), severity="error", timeout=8, markup=False)

    def cancel(self, request: RequestView | None) -> None:
        server = self.server
        if server is None or request is None or request.over:
            return
        if not self.do(lambda: server.cancel(request.id)):
            self.notify("The request has already ended.", timeout=2)

    @in_background
    async def edit_request(self, method: str, params: Any) -> None:
        if (server := self.server) is None:
            return
        if asked := await self.push_screen_wait(dialogs.EditRequest(method, params)):
            self.do(lambda: server.request(*asked))
            self.action_tab("messages")
            self.pane.rows.choose_newest()

    def action_send_any(self) -> None:
        self.edit_request("ping", {})

    def action_connection(self, what: Literal["connect", "disconnect", "reconnect"]) -> None:
        if self.server is not None:
            self.attempt(getattr(self.server, what)())

    @in_background
    async def action_add(self) -> None:
        if given := await self.push_screen_wait(dialogs.AddServer(self.servers)):
            entry, rename = given
            name = (await self.servers.add(entry, rename=rename)).name
            self.touch()
            self.tick()
            self.choose(name)

    @in_background
    async def action_remove_server(self) -> None:
        name = "" if self.server is None else self.server.name
        kept = " It is removed from the catalog too." if self.servers.writable is not None else ""
        asked = dialogs.Confirm(f"Remove {one_line(name)}?{kept}", "removes it")
        if name and await self.push_screen_wait(asked):
            await self.servers.remove(name)

    def action_scheme(self) -> None:
        self.theme = "tidings-light" if self.theme == "tidings-dark" else "tidings-dark"
        self.touch()

    @in_background
    async def action_sign_in(self) -> None:
        server = self.server
        if server is not None and (url := self._url()) and await self.push_screen_wait(dialogs.SignInDialog(url)):
            await server.aclose()  # Its next client uses the account.
            await server.connect()

    @in_background
    async def action_sign_out(self) -> None:
        from tidings.client.sign_in import sign_out  # noqa: PLC0415 - imports the SDK's OAuth, which is slow

        server = self.server
        if server is None or not (url := self._url()):
            return
        if (account := default_accounts().get(url)) is None:
            self.notify("Nobody is signed in to this server.", timeout=3)
        elif await self.push_screen_wait(dialogs.Confirm(f"Sign out {one_line(account.name)}?", "signs out")):
            outcome = "revoked" if await sign_out(account) else "forgotten here"
            self.notify(f"Signed out. The tokens were {outcome}.")
            await server.aclose()
            await server.connect()

    def _url(self) -> str:
        """Returns the URL of the current server; if it has none, says so."""
        entry = self.server.view.entry if self.server is not None else None
        if not (url := str(as_dict(entry).get("url") or "")):
            self.notify("Only a server at a URL has a sign-in.", timeout=3)
        return url

    def action_keys(self) -> None:
        self.push_screen(dialogs.Keys())

    def action_command_palette(self) -> None:
        if not CommandPalette.is_open(cast("App[object]", self)):
            self.push_screen(CommandPalette(placeholder="Find a server, a tool, a resource, an action"))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        for _, action, title, words in KEYS["actions"]:
            yield SystemCommand(title, words, partial(self.run_action, action))
