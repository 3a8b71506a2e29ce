"""The traffic: messages and HTTP exchanges, secrets masked; log messages, error output, notifications."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tidings._kit.bounded_json import is_cut, shown
from tidings.inspector.catalog.entry import LOG_LEVELS
from tidings.inspector.tui.screens.screen import EntrySource, SourcesPane
from tidings.inspector.tui.widgets.bars import Bar, BarPart, Drawn, Line, choice, clock, one_line, size, took
from tidings.inspector.tui.widgets.text import JoinedPage, PlainPage, TextPage, cut_page, json_page, text_page
from tidings.inspector.view.items import ExchangeView, LineView, LogView, MessageView, NotificationView
from tidings.inspector.view.rings import Ring


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
        other = "HTTP" if self.source == "messages" else "messages"
        self.column.extra = [BarPart(f"h shows {other}", "faint", "app.pane_do('source')")]

    def action_partner(self) -> None:
        message = self.rows.chosen
        if self.source == "messages" and message is not None and message.partner is not None:
            self.rows.choose(message.partner)

    def action_edit(self) -> None:
        message = self.rows.chosen if self.source == "messages" else None
        if message is not None and message.kind in ("response", "error"):
            message = self.view.messages.get(message.partner) if message.partner is not None else None
        if message is None or message.kind != "request" or message.incoming:
            self.inspector.notify("Choose a request that was sent, or its answer.", timeout=3)
        else:
            self.inspector.edit_request(str(message.method), message.body.get("params"))


def as_words(value: Any, limit: int = 300) -> str:
    """Returns a JSON value in one line."""
    return one_line(value if isinstance(value, str) else shown(value), limit)


class MessageSource(EntrySource):
    """JSON-RPC messages: time, direction, content."""

    precise = True
    noun = "message"
    empty = "No message yet. Everything that goes over the wire appears here: C connects, and the first ones come."

    def text(self, entry: MessageView) -> str:
        return f"{entry.method or ''} {entry.id or ''} {entry.kind} {self._summary(entry.body, 2000)}"

    def _summary(self, body: dict[str, Any], limit: int) -> str:
        """Returns the content of a message without its frame."""
        return as_words(next((body[part] for part in ("params", "result", "error", "head") if part in body), ""), limit)

    def draw(self, entry: MessageView) -> Drawn:
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
        return JoinedPage(*lines, [], cut_page(entry.body) if is_cut(entry.body) else json_page(entry.body))

    def state(self, entry: MessageView) -> object:
        return entry.partner


class ExchangeSource(EntrySource):
    """HTTP exchanges: time, request, response."""

    precise = True
    noun = "exchange"
    empty = "No HTTP exchange. A server at a URL has them; a command speaks over its input and output."

    def text(self, entry: ExchangeView) -> str:
        return f"{entry.method} {entry.url} {entry.status or ''} {entry.error or ''}"

    def draw(self, entry: ExchangeView) -> Drawn:
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


NEAR: Final = 500  # The number of records before and after a line of error output that are shown with it.
_TITLES: Final = {"logs": "Logs", "stderr": "Error output", "notifications": "Notifications"}
_INKS: Final = {"debug": "faint", "info": "soft", "notice": "updated", "warning": "warn"}


class LogsPane(SourcesPane):
    """The log messages, error output and notifications of one server."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "source", "Logs, error output, notifications", show=False),
        Binding("l", "level", "Show from the next level on", show=False),
        Binding("L", "ask", "Ask the server for another level", show=False),
    ]

    def __init__(self, tab: str) -> None:
        super().__init__(tab, {"logs": LogSource(), "stderr": LineSource(self), "notifications": NotificationSource()})
        self.level, self.asked, self._bar = "debug", "info", Bar("ground")

    def compose(self) -> ComposeResult:
        yield self._bar
        yield from super().compose()

    def entries(self) -> Sequence[Any] | Ring[Any]:
        entries, least = super().entries(), LOG_LEVELS.index(self.level)
        if self.source != "logs" or least == 0:
            return entries
        # An unknown level counts as the highest, so that it is never hidden.
        return [log for log in entries if log.level not in LOG_LEVELS or LOG_LEVELS.index(log.level) >= least]

    def say(self) -> None:
        parts: list[BarPart] = []
        for name, title in _TITLES.items():
            count = len(getattr(self.view, name))
            words = f" {title} {count:,} " if count else f" {title} "
            parts += [choice(words, f"source('{name}')", on=name == self.source), BarPart(" ")]
        right = [
            BarPart(f"from {self.level} on", "ink", "level"),
            BarPart(" l", "accent"),
            BarPart(f"   server sends {self.asked} on", "faint", "ask"),
            BarPart(" L", "accent"),
        ]
        brief = [BarPart(f"{self.level} on"), right[1], BarPart(f"   asked {self.asked}", "faint", "ask"), right[3]]
        self._bar.show(parts, right if self.source == "logs" else [], (parts, brief if self.source == "logs" else []))

    def action_level(self) -> None:
        self.level = LOG_LEVELS[(LOG_LEVELS.index(self.level) + 1) % 5]
        self.models["logs"].reset()
        self.take()

    def action_ask(self) -> None:
        if (server := self.inspector.server) is not None:
            self.asked = LOG_LEVELS[(LOG_LEVELS.index(self.asked) - 1) % 5]
            self.inspector.attempt(server.set_log_level(self.asked))
            self.say()


class LogSource(EntrySource):
    """Log messages: time, level, text."""

    noun = "log message"
    empty = "No log message. A server sends them from the level on that it is asked for: L asks for the next one."

    def text(self, entry: LogView) -> str:
        return f"{entry.level} {entry.logger or ''} {as_words(entry.data, 2000)}"

    def draw(self, entry: LogView) -> Drawn:
        level = (f" {one_line(entry.level)[:8]:<8} ", _INKS.get(entry.level, "bad"))
        left: Line = [(self.clock(entry.at), "faint"), level, (as_words(entry.data), "ink")]
        return [(left, [(one_line(entry.logger), "faint")] if entry.logger and not self.narrow else [])]

    def page(self, entry: LogView) -> TextPage:
        by = f" by {one_line(entry.logger)}" if entry.logger else ""
        level = (one_line(entry.level), "b-" + _INKS.get(entry.level, "bad"))
        body = text_page(entry.data) if isinstance(entry.data, str) else json_page(entry.data)
        return JoinedPage([level, (f" at {clock(entry.at, millis=True)}{by}", "soft")], [], body)


def output_page(lines: Ring[LineView], chosen: LineView | None = None) -> TextPage:
    """Shows a line of error output, or the last one, among those that were written with it, in reading order."""
    if (line := chosen or lines.last) is None:
        return TextPage()
    near = [each for each in lines.since(line.seq - NEAR) if abs(each.at - line.at) < 1 and each.seq < line.seq + NEAR]
    if len(near) == 1:
        return text_page(line.text)
    return JoinedPage(*(PlainPage(each.text, "ink" if each is chosen else "soft") for each in near))


class LineSource(EntrySource):
    """Lines of error output; the selected one is shown in its place. Invalid messages are marked."""

    oldest_first = True  # As a program's output is read, above all a traceback.
    noun = "line"
    empty = "No error output. What a command writes to its error output appears here, also after it has died."

    def __init__(self, pane: SourcesPane) -> None:
        self._pane = pane

    def text(self, entry: LineView) -> str:
        return entry.text

    def draw(self, entry: LineView) -> Drawn:
        mark = (" no message ", "bad") if entry.garbage else (" ", "soft")
        return [([(self.clock(entry.at), "faint"), mark, (one_line(entry.text.expandtabs(4)), "ink")], [])]

    def page(self, entry: LineView) -> TextPage:
        what = "sent on its output, and is no message" if entry.garbage else "error output"
        head: Line = [(f"{what}, at {clock(entry.at, millis=True)}", "soft")]
        return JoinedPage(head, [], output_page(self._pane.view.stderr, entry))

    def state(self, entry: LineView) -> object:
        return self._pane.view.stderr.total


class NotificationSource(EntrySource):
    """Notifications: time, method, parameters."""

    noun = "notification"
    empty = "No notification. Whatever a server tells by itself appears here."

    def text(self, entry: NotificationView) -> str:
        return f"{entry.method} {as_words(entry.params or {}, 2000)}"

    def draw(self, entry: NotificationView) -> Drawn:
        method, params = " " + one_line(entry.method), "  " + as_words(entry.params or {})
        return [([(self.clock(entry.at), "faint"), (method, "ink"), (params, "faint")], [])]

    def page(self, entry: NotificationView) -> TextPage:
        facts: Line = [(one_line(entry.method), "b-ink"), (f" at {clock(entry.at, millis=True)}", "soft")]
        return JoinedPage(facts, [], json_page(entry.params or {}))
