"""Messages: every JSON-RPC message as it went over the wire, and every HTTP exchange; secrets masked."""

from typing import Any, ClassVar, Final

from textual.binding import Binding, BindingType

from tidings.inspector.tui.screens.screen import EntrySource, SourcesPane
from tidings.inspector.tui.theme import ColorScheme
from tidings.inspector.tui.widgets.bars import BarPart, Line
from tidings.inspector.tui.widgets.text import JoinedText, TextSource, Words, cut_page, is_cut, json_page
from tidings.inspector.tui.words import clock, compact, one_line, size, took
from tidings.inspector.view.items import ExchangeView, MessageView


class MessagesPane(SourcesPane):
    """The wire of one server."""

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
        """From a request to its answer and back."""
        message = self.column.rows.chosen
        if self.source == "messages" and message is not None and message.partner is not None:
            self.column.rows.choose(message.partner)

    def action_edit(self) -> None:
        """Change the chosen request, and send it."""
        if (request := self._request()) is not None:
            self.desk.edit_request(*request)

    def action_copy_as(self) -> None:
        """The chosen request as something to paste."""
        if (request := self._request()) is not None:
            self.desk.copy_as(*request)

    def _request(self) -> tuple[str, Any] | None:
        """The chosen message, if it is a request of ours; of an answer, what was asked."""
        message = self.column.rows.chosen
        if self.source == "messages" and message is not None and message.kind in ("response", "error"):
            message = self.view.messages.get(message.partner) if message.partner is not None else None
        if self.source != "messages" or message is None or message.kind != "request" or message.incoming:
            self.desk.notify("Choose a request that was sent, or its answer.", timeout=3)
            return None
        return str(message.method), message.body.get("params")


def message_text(message: MessageView) -> str:
    """What a filter looks in: the names, and the beginning of what was said."""
    return f"{message.method or ''} {message.id or ''} {message.kind} {summary(message.body, 2000)}"


def exchange_text(exchange: ExchangeView) -> str:
    """What a filter looks in."""
    return f"{exchange.method} {exchange.url} {exchange.status or ''} {exchange.error or ''}"


def summary(body: dict[str, Any], limit: int = 160) -> str:
    """What a message says besides its frame."""
    for part in ("params", "result", "error", "head"):
        if part in body:
            value = body[part]
            return one_line(value if isinstance(value, str) else compact(value), limit)
    return ""


def draw_message(message: MessageView, inks: ColorScheme) -> list[tuple[Line, Line]]:
    """A row: when, which way, what."""
    arrow, ink = ("←", "updated") if message.incoming else ("→", "tools")
    name = message.method or ("answer" if message.kind == "response" else message.kind)
    left: Line = [
        (clock(message.at, millis=True), inks["faint"]),
        (f" {arrow} ", inks[ink]),
        (one_line(name), inks["bad" if message.kind == "error" else "ink"]),
    ]
    if message.kind == "response":
        left.append((" answered", inks["soft"]))
    if message.kind == "error":
        left.append((" failed", inks["bad"]))
    left.append(("  " + summary(message.body), inks["faint"]))
    right = took(message.took) if message.incoming and message.took is not None else size(message.size)
    return [(left, [(right, inks["faint"])])]


def message_page(message: MessageView) -> TextSource:
    """All of a message."""
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


def draw_exchange(exchange: ExchangeView, inks: ColorScheme) -> list[tuple[Line, Line]]:
    """A row: when, what, and what came of it."""
    status = exchange.error or (str(exchange.status) if exchange.status else "waiting")
    failed = bool(exchange.error) or (exchange.status or 0) >= 400
    left: Line = [
        (clock(exchange.at, millis=True), inks["faint"]),
        (f" {one_line(exchange.method):<5}", inks["tools"]),
        (one_line(status) + " ", inks["bad" if failed else "soft"]),
        (one_line(exchange.url), inks["ink"]),
    ]
    right = "open stream" if exchange.is_stream and exchange.open else took(exchange.took)
    return [(left, [(right, inks["faint"])] if right else [])]


def exchange_page(exchange: ExchangeView) -> TextSource:
    """All of an exchange: its headers both ways, and its times."""
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
    for title, headers in (
        ("Sent", exchange.request_headers),
        (f"Answer {exchange.status or ''}", exchange.response_headers),
    ):
        lines += [[], [(title, "b-ink")]]
        lines += [
            [(f"{one_line(key)}: ", "updated"), (one_line(value, 2000), "ink")]
            for key, value in (headers or {}).items()
        ]
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
