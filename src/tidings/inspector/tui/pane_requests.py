"""Requests: what was asked of the server, what runs, what came of it, and who was at fault."""

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from tidings.inspector.tui.bars import Part
from tidings.inspector.tui.column import Column
from tidings.inspector.tui.drawing import Line
from tidings.inspector.tui.feeds import Table
from tidings.inspector.tui.inks import Inks
from tidings.inspector.tui.pages import Words
from tidings.inspector.tui.pane import Pane
from tidings.inspector.tui.reader import Reader
from tidings.inspector.tui.results import request_page, request_state, subject_of
from tidings.inspector.tui.rows import RowList
from tidings.inspector.tui.words import clock, one_line
from tidings.inspector.view_items import RequestView

EMPTY: Final = (
    "No request yet. Calls, reads and prompts appear here as soon as they are asked for; x cancels what runs."
)


class RequestsPane(Pane):
    """The requests of one server, newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "cancel", "Cancel", show=False),
        Binding("o", "own", "Also the client's own", show=False),
        Binding("r", "repeat", "Send again", show=False),
        Binding("e", "edit", "Edit and send", show=False),
        Binding("c", "copy_as", "Copy as", show=False),
    ]

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.table: Table[RequestView] = Table(lambda request: request.id, request_text)
        self.column = Column(self.table, self._draw, noun="request", empty=EMPTY)
        self.aside = False
        self._reader = Reader(classes="detail")
        self._shown: object = None

    def compose(self) -> ComposeResult:
        with Horizontal(classes="split"):
            yield self.column
            yield self._reader

    def restart(self) -> None:
        self.table.reset()
        self.column.rows.restart()

    def take(self) -> None:
        if not self.has_server:
            return
        requests = [each for each in reversed(self.view.requests.values()) if self.aside or not each.aside]
        self.table.update(requests)
        own = "o hides the client's own" if self.aside else "o shows the client's own"
        self.column.extra = [Part(own, "faint", "app.pane_do('own')")]
        self.column.take()
        self._show(self.column.rows.chosen)

    def action_own(self) -> None:
        """Show or hide what the client asks for by itself."""
        self.aside = not self.aside
        self.take()

    def action_cancel(self) -> None:
        """Cancel the chosen request."""
        request = self.column.rows.chosen
        if request is not None and not request.over:
            self.desk.cancel(request.id)

    def action_repeat(self) -> None:
        """Ask for the same again."""
        request = self.column.rows.chosen
        if request is not None and self.has_server:
            self.desk.ask(lambda: self.server.request(request.method, request.params))

    def action_edit(self) -> None:
        """Change the chosen request, and send it."""
        if (request := self.column.rows.chosen) is not None:
            self.desk.edit_request(request.method, request.params)

    def action_copy_as(self) -> None:
        """The chosen request as something to paste."""
        if (request := self.column.rows.chosen) is not None:
            self.desk.copy_as(request.method, request.params)

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self._show(event.item)

    def _show(self, request: RequestView | None) -> None:
        reader = self._reader
        if request is None:
            self._shown = None
            reader.show(Words())
            return
        shown = (request.id, request.status, request.progress, request.message)
        if shown != self._shown:
            self._shown = shown
            reader.show(request_page(request), request.id)

    def _draw(self, request: RequestView, inks: Inks) -> list[tuple[Line, Line]]:
        words, ink = request_state(request, self.desk.now())
        left: Line = [
            (clock(request.created_at), inks["faint"]),
            (" " + one_line(request.method), inks["soft"]),
            ("  " + one_line(subject_of(request)), inks["ink"]),
        ]
        return [(left, [(words, inks[ink])])]


def request_text(request: RequestView) -> str:
    """What a filter looks in."""
    return f"{request.method} {subject_of(request)} {request.status}"
