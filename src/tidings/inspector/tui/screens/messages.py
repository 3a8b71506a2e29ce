"""Messages: every JSON-RPC message on the wire, and every HTTP exchange, with secrets masked."""

from typing import Any, ClassVar, Final

from textual.binding import Binding, BindingType

from tidings._kit.bounded_json import shown
from tidings.inspector.tui.screens.screen import EntrySource, SourcesPane
from tidings.inspector.tui.theme import ColorScheme
from tidings.inspector.tui.widgets.bars import BarPart, Line
from tidings.inspector.tui.widgets.text import JoinedText, TextSource, Words, cut_page, is_cut, json_page
from tidings.inspector.tui.words import clock, one_line, size, took
from tidings.inspector.view.items import ExchangeView, MessageView


class MessagesPane(SourcesPane):
    """The messages and exchanges of one server."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("h", "source", "Messages or HTTP", show=False),
        Binding("p", "partner", "To its answer or request", show=False),
        Binding("e", "edit", "Edit and send", show=False),
        Binding("c", "copy_as", "Copy as", show=False),
    ]

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id, SOURCES)

    def say(self) -> None:
        other = "HTTP" if self.source == "messages" else "messages"
        self.column.extra = [BarPart(f"h shows {other}", "faint", "app.pane_do('source')")]

    def action_partner(self) -> None:
        message = self.column.rows.chosen
        if self.source == "messages" and message is not None and message.partner is not None:
            self.column.rows.choose(message.partner)

    def action_edit(self) -> None:
        if (request := self._request()) is not None:
            self.inspector.edit_request(*request)

    def action_copy_as(self) -> None:
        if (request := self._request()) is not None:
            self.inspector.copy_as(*request)

    def _request(self) -> tuple[str, Any] | None:
        """Returns the selected message if it is a request of ours; for a response, its request."""
        message = self.column.rows.chosen
        if self.source == "messages" and message is not None and message.kind in ("response", "error"):
            message = self.view.messages.get(message.partner) if message.partner is not None else None
        if self.source != "messages" or message is None or message.kind != "request" or message.incoming:
            self.inspector.notify("Choose a request that was sent, or its answer.", timeout=3)
            return None
        return str(message.method), message.body.get("params")


def message_text(message: MessageView) -> str:
    """Returns the text for a filter: the names, and the beginning of the message."""
    return f"{message.method or ''} {message.id or ''} {message.kind} {summary(message.body, 2000)}"


def exchange_text(exchange: ExchangeView) -> str:
    """Returns the text for a filter."""
    return f"{exchange.method} {exchange.url} {exchange.status or ''} {exchange.error or ''}"


def summary(body: dict[str, Any], limit: int = 160) -> str:
    """Returns the content of a message without its frame."""
    value = next((body[part] for part in ("params", "result", "error", "head") if part in body), "")
    return one_line(value if isinstance(value, str) else shown(value), limit)


def draw_message(message: MessageView, colors: ColorScheme) -> list[tuple[Line, Line]]:
    """Draws a row: time, direction, content."""
    arrow, ink = ("←", "updated") if message.incoming else ("→", "tools")
    name = message.method or ("answer" if message.kind == "response" else message.kind)
    left: Line = [
        (clock(message.at, millis=True), colors["faint"]),
        (f" {arrow} ", colors[ink]),
        (one_line(name), colors["bad" if message.kind == "error" else "ink"]),
    ]
    if message.kind in ("response", "error"):
        left.append((" answered", colors["soft"]) if message.kind == "response" else (" failed", colors["bad"]))
    left.append(("  " + summary(message.body), colors["faint"]))
    right = took(message.took) if message.incoming and message.took is not None else size(message.size)
    return [(left, [(right, colors["faint"])])]


def message_page(message: MessageView) -> TextSource:
    """Shows a whole message."""
    facts = [
        ("received" if message.incoming else "sent", "b-ink"),
        (f" at {clock(message.at, millis=True)}, {size(message.size)}", "soft"),
    ]
    if message.took is not None:
        facts.append((f", answered in {took(message.took)}", "soft"))
    hints = [f"p goes to its {'request' if message.incoming else 'answer'}"] if message.partner is not None else []
    if message.kind != "notification" and (message.partner is not None or not message.incoming):
        hints += ["e edits and sends it", "c copies it"]
    body = cut_page(message.body) if is_cut(message.body) else json_page(message.body)
    return JoinedText([Words(facts, [("   ".join(hints), "faint")], []) if hints else Words(facts, []), body])


def draw_exchange(exchange: ExchangeView, colors: ColorScheme) -> list[tuple[Line, Line]]:
    """Draws a row: time, request, response."""
    status = exchange.error or (str(exchange.status) if exchange.status else "waiting")
    failed = bool(exchange.error) or (exchange.status or 0) >= 400
    left: Line = [
        (clock(exchange.at, millis=True), colors["faint"]),
        (f" {one_line(exchange.method):<5}", colors["tools"]),
        (one_line(status) + " ", colors["bad" if failed else "soft"]),
        (one_line(exchange.url), colors["ink"]),
    ]
    right = "open stream" if exchange.is_stream and exchange.open else took(exchange.took)
    return [(left, [(right, colors["faint"])] if right else [])]


def exchange_page(exchange: ExchangeView) -> TextSource:
    """Shows a whole exchange: the headers in both directions, and its times."""
    began, answered, ended = (
        clock(at, millis=True) or "not yet" for at in (exchange.began, exchange.answered, exchange.ended)
    )
    times = f"began {began}   answered {answered}   ended {ended}   {size(exchange.received)} received"
    lines: list[list[tuple[str, str]]] = [
        [(f"{one_line(exchange.method)} ", "b-ink"), (one_line(exchange.url, 2000), "ink")],
        [(times, "soft")],
    ]
    if exchange.error:
        lines.append([(one_line(exchange.error, 2000), "bad")])
    answer = f"Answer {exchange.status or ''}"
    for title, headers in (("Sent", exchange.request_headers), (answer, exchange.response_headers)):
        lines += [[], [(title, "b-ink")]]
        for key, value in (headers or {}).items():
            lines.append([(f"{one_line(key)}: ", "updated"), (one_line(value, 2000), "ink")])
    return Words(*lines)


SOURCES: Final = {
    "messages": EntrySource(
        "message",
        "No message yet. Everything that goes over the wire appears here: C connects, and the first ones come.",
        message_text,
        draw_message,
        message_page,
        lambda message: message.partner,
    ),
    "exchanges": EntrySource(
        "exchange",
        "No HTTP exchange. A server at a URL has them; a command speaks over its input and output.",
        exchange_text,
        draw_exchange,
        exchange_page,
        lambda exchange: exchange.ended,
    ),
}
