"""Messages: every JSON-RPC message on the wire, and every HTTP exchange, with secrets masked."""

from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from tidings._kit.bounded_json import is_cut, shown
from tidings.inspector.tui.screens.screen import EntrySource, SourcesPane
from tidings.inspector.tui.widgets.bars import BarPart, Line
from tidings.inspector.tui.widgets.text import JoinedPage, TextPage, cut_page, json_page
from tidings.inspector.tui.words import clock, one_line, size, took
from tidings.inspector.view.items import ExchangeView, MessageView


class MessagesPane(SourcesPane):
    """The messages and exchanges of one server."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("h", "source", "Messages or HTTP", show=False),
        Binding("p", "partner", "To its answer or request", show=False),
        Binding("e", "edit", "Edit and send", show=False),
    ]

    def __init__(self, tab: str) -> None:
        super().__init__(tab, {"messages": MessageSource(), "exchanges": ExchangeSource()})

    def say(self) -> None:
        for source in self.sources.values():
            source.narrow = self.inspector.size.width < 140
        other = "HTTP" if self.source == "messages" else "messages"
        self.column.extra = [BarPart(f"h shows {other}", "faint", "app.pane_do('source')")]

    def action_partner(self) -> None:
        message = self.rows.chosen
        if self.source == "messages" and message is not None and message.partner is not None:
            self.rows.choose(message.partner)

    def action_edit(self) -> None:
        if (request := self._request()) is not None:
            self.inspector.edit_request(*request)

    def _request(self) -> tuple[str, Any] | None:
        """Returns the selected message if it is a request of ours; for a response, its request."""
        message = self.rows.chosen
        if self.source == "messages" and message is not None and message.kind in ("response", "error"):
            message = self.view.messages.get(message.partner) if message.partner is not None else None
        if self.source != "messages" or message is None or message.kind != "request" or message.incoming:
            self.inspector.notify("Choose a request that was sent, or its answer.", timeout=3)
            return None
        return str(message.method), message.body.get("params")


class MessageSource(EntrySource):
    """JSON-RPC messages: time, direction, content."""

    noun = "message"
    empty = "No message yet. Everything that goes over the wire appears here: C connects, and the first ones come."

    def text(self, entry: MessageView) -> str:
        return f"{entry.method or ''} {entry.id or ''} {entry.kind} {self._summary(entry.body, 2000)}"

    def _summary(self, body: dict[str, Any], limit: int) -> str:
        """Returns the content of a message without its frame."""
        value = next((body[part] for part in ("params", "result", "error", "head") if part in body), "")
        return one_line(value if isinstance(value, str) else shown(value), limit)

    def draw(self, entry: MessageView) -> list[tuple[Line, Line]]:
        arrow = (" ← ", "updated") if entry.incoming else (" → ", "tools")
        name = entry.method or ("answer" if entry.kind == "response" else entry.kind)
        ink = "bad" if entry.kind == "error" else "ink"
        left: Line = [(self.clock(entry.at), "faint"), arrow, (one_line(name.removeprefix("notifications/")), ink)]
        if entry.kind in ("response", "error"):
            left.append((" answered", "soft") if entry.kind == "response" else (" failed", "bad"))
        left.append(("  " + self._summary(entry.body, 160), "faint"))
        right = took(entry.took) if entry.incoming and entry.took is not None else size(entry.size)
        return [(left, [(right, "faint")])]

    def page(self, entry: MessageView) -> TextPage:
        answered = f", answered in {took(entry.took)}" if entry.took is not None else ""
        facts = f" at {clock(entry.at, millis=True)}, {size(entry.size)}{answered}"
        lines: list[Line] = [[("received" if entry.incoming else "sent", "b-ink"), (facts, "soft")]]
        hints = [f"p goes to its {'request' if entry.incoming else 'answer'}"] if entry.partner is not None else []
        if entry.kind != "notification" and (entry.partner is not None or not entry.incoming):
            hints.append("e edits and sends it")
        if hints:
            lines.append([("   ".join(hints), "faint")])
        body = cut_page(entry.body) if is_cut(entry.body) else json_page(entry.body)
        return JoinedPage([TextPage(*lines, []), body])

    def state(self, entry: MessageView) -> object:
        return entry.partner


class ExchangeSource(EntrySource):
    """HTTP exchanges: time, request, response."""

    noun = "exchange"
    empty = "No HTTP exchange. A server at a URL has them; a command speaks over its input and output."

    def text(self, entry: ExchangeView) -> str:
        return f"{entry.method} {entry.url} {entry.status or ''} {entry.error or ''}"

    def draw(self, entry: ExchangeView) -> list[tuple[Line, Line]]:
        status = entry.error or (str(entry.status) if entry.status else "waiting")
        failed = bool(entry.error) or (entry.status or 0) >= 400
        left: Line = [
            (self.clock(entry.at), "faint"),
            (f" {one_line(entry.method):<5}", "tools"),
            (one_line(status) + " ", "bad" if failed else "soft"),
            (one_line(entry.url), "ink"),
        ]
        right = "open stream" if entry.is_stream and entry.open else took(entry.took)
        return [(left, [(right, "faint")] if right else [])]

    def page(self, entry: ExchangeView) -> TextPage:
        times = {"began": entry.began, "answered": entry.answered, "ended": entry.ended}
        told = [f"{what} {clock(at, millis=True) or 'not yet'}" for what, at in times.items()]
        lines: list[Line] = [
            [(f"{one_line(entry.method)} ", "b-ink"), (one_line(entry.url, 2000), "ink")],
            [("   ".join([*told, f"{size(entry.received)} received"]), "soft")],
        ]
        if entry.error:
            lines.append([(one_line(entry.error, 2000), "bad")])
        answer = f"Answer {entry.status or ''}"
        for title, headers in (("Sent", entry.request_headers), (answer, entry.response_headers)):
            lines += [[], [(title, "b-ink")]]
            for key, value in (headers or {}).items():
                lines.append([(f"{one_line(key)}: ", "updated"), (one_line(value, 2000), "ink")])
        return TextPage(*lines)

    def state(self, entry: ExchangeView) -> object:
        return entry.ended
