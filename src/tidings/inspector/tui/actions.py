"""What one can do with servers and sessions, from anywhere: the keys and the palette lead here.

Nothing that is done here waits: what takes time runs beside everything else, and what goes wrong is said.

Everything by name: servers, tools, resources, templates and prompts, in the command palette.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from textual.app import App, SystemCommand
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.screen import Screen

from tidings.errors import TidingsError
from tidings.inspector.catalog import CatalogError, ServerEntry
from tidings.inspector.server import InspectedServer
from tidings.inspector.servers import SessionServers
from tidings.inspector.session import Session
from tidings.inspector.sessions.journal import Journal
from tidings.inspector.tui import dialogs, server_dialogs
from tidings.inspector.tui import dialogs as dialogs_module
from tidings.inspector.tui.words import counted, one_line

if TYPE_CHECKING:
    from tidings.inspector.tui.app import InspectorApp


_WRONG = (TidingsError, CatalogError, ValueError, LookupError, OSError)
"""What a server, a file or a person did wrong."""


class Actions(App[None]):
    """The application's actions."""

    session: Session
    servers: SessionServers
    server: InspectedServer | None

    def touch(self) -> None:
        """There is something to show that no record told of."""
        raise NotImplementedError

    def choose(self, server: str, tab: str | None = None, key: str | None = None) -> None:
        """Show a server, a tab of it, and a thing on it."""
        raise NotImplementedError

    def action_tab(self, name: str) -> None:
        """Open a tab."""
        raise NotImplementedError

    @property
    def _desk(self) -> "InspectorApp":
        return cast("InspectorApp", self)

    # How things are done

    def attempt(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do this beside everything else; what a server or a person did wrong is said, and nothing breaks."""

        async def tried() -> None:
            try:
                await work
            except _WRONG as error:
                self.say_wrong(error)
            self.touch()

        self.run_worker(tried(), exclusive=False)

    def do(self, action: Callable[[], Any]) -> Any:
        """Do this now; what was wrong with it is said."""
        try:
            return action()
        except _WRONG as error:
            self.say_wrong(error)
            return None

    def say_wrong(self, error: object) -> None:
        """Say what went wrong."""
        self.notify(one_line(error), severity="error", timeout=8, markup=False)

    def ask(self, send: Callable[[], Any]) -> None:
        """Send a request; what comes of it arrives as records."""
        self.do(send)
        self.touch()

    def cancel(self, request: str) -> None:
        """Cancel a request of the server that is shown."""
        server = self.server
        if server is not None and not self.do(lambda: server.cancel(request)):
            self.notify("It has ended already.", timeout=2)
        self.touch()

    # Requests

    def edit_request(self, method: str, params: Any) -> None:
        """Offer a request to be changed, and send it."""
        server = self.server
        if server is None:
            return

        def send(asked: dialogs_module.Asked | None) -> None:
            if asked is not None:
                self.ask(lambda: server.request(*asked))
                self.action_tab("requests")
                self._desk.pane.main_list().choose_newest()

        self.push_screen(dialogs_module.EditRequest(method, dialogs_module.without_meta(params)), send)

    def copy_as(self, method: str, params: Any) -> None:
        """Show a request as something to paste."""
        if self.server is not None:
            given = dialogs_module.without_meta(params)
            self.push_screen(dialogs_module.CopyAs(self.server.view, method, given))

    def action_new_request(self) -> None:
        """Send any request."""
        self.edit_request("ping", {})

    # Servers

    def action_connect(self) -> None:
        """Connect the server that is shown."""
        if self.server is not None:
            self.attempt(self.server.connect())

    def action_disconnect(self) -> None:
        """End its connection; it does not come back by itself."""
        if self.server is not None:
            self.attempt(self.server.disconnect())

    def action_reconnect(self) -> None:
        """Connect it anew, now."""
        if self.server is not None:
            self.attempt(self.server.reconnect())

    def action_add(self) -> None:
        """Ask for a server, and add it."""

        async def add(entry: ServerEntry, rename: bool) -> None:
            self._chosen((await self.servers.add(entry, rename=rename)).entry.name)

        self.push_screen(
            server_dialogs.AddServer(self.servers), lambda given: self.attempt(add(*given)) if given else None
        )

    def action_import_servers(self) -> None:
        """Offer the servers that other clients know."""

        async def offer() -> None:
            found = await self.servers.clients()
            self.push_screen(
                server_dialogs.ImportServers(found), lambda given: self.attempt(take(given)) if given else None
            )

        async def take(entries: list[ServerEntry]) -> None:
            imported = await self.servers.take(entries)
            known = f", {len(imported.known)} were there already" if imported.known else ""
            self.notify(f"{counted(len(imported.added), 'server')} added{known}. C connects one.", timeout=5)
            if imported.added:
                self._chosen(imported.added[-1].name)

        self.attempt(offer())

    def action_edit_server(self) -> None:
        """Change the entry of the server that is shown."""

        async def offer(name: str) -> None:
            known = await self.servers.find(name)
            self.push_screen(
                server_dialogs.EditServer(self.servers, known.entry), lambda name: self._chosen(name) if name else None
            )

        if self.server is not None:
            self.attempt(offer(self.server.name))

    def action_clone_server(self) -> None:
        """Add the server that is shown once more."""

        async def clone(name: str) -> None:
            self._chosen((await self.servers.clone(name)).entry.name)

        if self.server is not None:
            self.attempt(clone(self.server.name))

    def action_remove_server(self) -> None:
        """Forget the server that is shown, if that is meant."""
        if self.server is None:
            return
        name = self.server.name
        kept = " It is taken out of the catalog as well." if self.servers.writable is not None else ""
        self.push_screen(
            dialogs.Confirm(f"Remove {one_line(name)}?{kept}", "removes it"),
            lambda sure: self.attempt(self.servers.remove(name)) if sure else None,
        )

    def _chosen(self, name: str) -> None:
        """Show a server that was added or changed a moment ago."""
        self.touch()
        self._desk.tick()
        self.choose(name)

    # Sessions

    @property
    def _journal(self) -> Journal | None:
        journal = self.session.journal
        if journal is None or journal.session is None:
            self.notify(server_dialogs.NOTHING_KEPT, severity="warning", timeout=5)
            return None
        return journal

    def action_sessions(self) -> None:
        """The sessions that are kept."""
        if (journal := self._journal) is not None:
            self.push_screen(server_dialogs.Sessions(journal))

    def action_name_session(self) -> None:
        """Give this session a name."""
        if (journal := self._journal) is not None and journal.session is not None:
            server_dialogs.name_session(self._desk, journal, journal.session)

    def action_export_session(self) -> None:
        """Write this session to a file."""
        if (journal := self._journal) is not None and journal.session is not None:
            server_dialogs.export_to_file(self._desk, journal, journal.session)

    # The rest

    def action_scheme(self) -> None:
        """From dark to light and back."""
        self.theme = "tidings-light" if self.theme == "tidings-dark" else "tidings-dark"
        self.touch()

    def action_keys(self) -> None:
        """Which keys there are."""
        self.push_screen(dialogs.Keys())

    def action_command_palette(self) -> None:
        """Everything by name."""
        if not CommandPalette.is_open(cast("App[object]", self)):
            self.push_screen(CommandPalette(placeholder="Find a server, a tool, a resource, an action"))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        yield SystemCommand("Add a server", "A URL, or the command that starts it", self.action_add)
        yield SystemCommand("Import servers", "From the settings of other clients", self.action_import_servers)
        yield SystemCommand("Connect", "The server that is shown", self.action_connect)
        yield SystemCommand("Disconnect", "The server that is shown", self.action_disconnect)
        yield SystemCommand("Reconnect", "The server that is shown, now", self.action_reconnect)
        yield SystemCommand("Edit the server", "Its address, its options", self.action_edit_server)
        yield SystemCommand("Clone the server", "The same once more", self.action_clone_server)
        yield SystemCommand("Remove the server", "Here, and in the catalog", self.action_remove_server)
        yield SystemCommand("Send any request", "By its method and parameters", self.action_new_request)
        yield SystemCommand("Sessions", "Those that are kept", self.action_sessions)
        yield SystemCommand("Name this session", "To find it again", self.action_name_session)
        yield SystemCommand("Export this session", "As JSON Lines", self.action_export_session)
        yield SystemCommand("Dark or light", "The other scheme", self.action_scheme)
        yield SystemCommand("Questions", "What servers ask of you", self._desk.action_questions)
        yield SystemCommand("Keys", "Which keys there are", self.action_keys)
        yield SystemCommand("Quit", "Disconnect everything, and end", self.action_quit)


MOST: Final = 50
"""So many are offered for what was typed."""
PAUSE: Final = 500
"""After so many names, others get their turn."""

Thing = tuple[str, str, str, str]
"""A server's name, a tab, what the thing is known by, and its kind in words."""


class Everything(Provider):
    """Finds what all servers have."""

    @property
    def _desk(self) -> "InspectorApp":
        return cast("InspectorApp", self.app)

    def _things(self) -> Iterator[Thing]:
        for name, server in self._desk.session.servers.items():
            view = server.view
            yield name, "live", "", "server"
            for tab, kind, items in (
                ("tools", "tool", view.tools),
                ("prompts", "prompt", view.prompts),
                ("resources", "template", view.templates),
                ("resources", "resource", view.resources),
            ):
                for key in items:
                    yield name, tab, key, kind

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        hits: list[Hit] = []
        for at, (name, tab, key, kind) in enumerate(self._things()):
            if at % PAUSE == PAUSE - 1:
                await asyncio.sleep(0)
            label = one_line(key or name)
            score = matcher.match(label)
            if score > 0:
                show = partial(self._desk.choose, name, tab, key or None)
                where = kind if kind == "server" else f"{kind} of {one_line(name)}"
                hits.append(Hit(score, matcher.highlight(label), show, text=label, help=where))
        for hit in sorted(hits, key=lambda each: each.score, reverse=True)[:MOST]:
            yield hit

    async def discover(self) -> Hits:
        for name in self._desk.session.servers:
            label = one_line(name)
            yield DiscoveryHit(label, partial(self._desk.choose, name, "live"), help="server")
