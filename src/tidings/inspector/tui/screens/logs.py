"""Logs: the server's log messages by level, its error output, and its other notifications."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tidings._kit.bounded_json import shown
from tidings.inspector.tui.screens.screen import EntrySource, SourcesPane
from tidings.inspector.tui.theme import ColorScheme
from tidings.inspector.tui.widgets.bars import Bar, BarPart, Line, choice
from tidings.inspector.tui.widgets.text import JoinedText, TextSource, Words, json_page, text_page
from tidings.inspector.tui.words import clock, one_line
from tidings.inspector.view.items import LineView, LogView, NotificationView
from tidings.inspector.view.rings import Ring

TITLES: Final = {"logs": "Logs", "stderr": "Error output", "notifications": "Notifications"}
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_INKS: Final = {"debug": "faint", "info": "soft", "notice": "updated", "warning": "warn"}


class LogsPane(SourcesPane):
    """The log messages, error output and notifications of one server."""

    DEFAULT_CSS = """
    LogsPane Column { width: 3fr; }
    LogsPane .detail { width: 2fr; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "source", "Logs, error output, notifications", show=False),
        Binding("l", "level", "Show from the next level on", show=False),
        Binding("L", "ask", "Ask the server for another level", show=False),
    ]

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id, SOURCES)
        self.level = "debug"
        self.asked = "info"
        self._bar = Bar("ground")

    def compose(self) -> ComposeResult:
        yield self._bar
        yield from super().compose()

    def entries(self) -> Sequence[Any] | Ring[Any]:
        entries, least = super().entries(), LEVELS.index(self.level)
        if self.source != "logs" or least == 0:
            return entries
        return [log for log in entries if level_of(log) >= least]

    def say(self) -> None:
        parts: list[BarPart] = []
        for name, title in TITLES.items():
            count = len(getattr(self.view, name))
            words = f" {title} {count:,} " if count else f" {title} "
            parts += [choice(words, f"source('{name}')", on=name == self.source), BarPart(" ")]
        right = [
            BarPart(f"from {self.level} on", "ink", "level"),
            BarPart(" l", "accent"),
            BarPart(f"   server sends {self.asked} on", "faint", "ask"),
            BarPart(" L", "accent"),
        ]
        self._bar.show(parts, right if self.source == "logs" else [])

    def action_level(self) -> None:
        self.level = LEVELS[(LEVELS.index(self.level) + 1) % 5]
        self.feeds["logs"].reset()
        self.take()

    def action_ask(self) -> None:
        if not self.has_server:
            return
        self.asked = LEVELS[(LEVELS.index(self.asked) - 1) % 5]
        self.inspector.attempt(self.server.set_log_level(self.asked))
        self.say()


def level_of(log: LogView) -> int:
    """Returns the severity of a message; an unknown level counts as the highest, so that it is never hidden."""
    return LEVELS.index(log.level) if log.level in LEVELS else len(LEVELS)


def as_words(value: Any, limit: int = 300) -> str:
    """Returns a log message in one line."""
    return one_line(value if isinstance(value, str) else shown(value), limit)


def log_text(log: LogView) -> str:
    """Returns the text for a filter."""
    return f"{log.level} {log.logger or ''} {as_words(log.data, 2000)}"


def notification_text(told: NotificationView) -> str:
    """Returns the text for a filter."""
    return f"{told.method} {as_words(told.params or {}, 2000)}"


def draw_log(log: LogView, colors: ColorScheme) -> list[tuple[Line, Line]]:
    """Draws a row: time, level, text."""
    left: Line = [
        (clock(log.at), colors["faint"]),
        (f" {one_line(log.level)[:8]:<8} ", colors[_INKS.get(log.level, "bad")]),
        (as_words(log.data), colors["ink"]),
    ]
    return [(left, [(one_line(log.logger), colors["faint"])] if log.logger else [])]


def log_page(log: LogView) -> TextSource:
    """Shows a whole log message."""
    facts = [
        (one_line(log.level), "b-" + _INKS.get(log.level, "bad")),
        (f" at {clock(log.at, millis=True)}" + (f" by {one_line(log.logger)}" if log.logger else ""), "soft"),
    ]
    body = text_page(log.data) if isinstance(log.data, str) else json_page(log.data)
    return JoinedText([Words(facts, []), body])


def draw_line(line: LineView, colors: ColorScheme) -> list[tuple[Line, Line]]:
    """Draws a line of error output; invalid messages are marked."""
    mark: Line = [(" no message ", colors["bad"])] if line.garbage else [(" ", colors["soft"])]
    return [([(clock(line.at), colors["faint"]), *mark, (one_line(line.text), colors["ink"])], [])]


def line_page(line: LineView) -> TextSource:
    """Shows a whole line."""
    what = "sent on its output, and is no message" if line.garbage else "error output"
    return JoinedText([Words([(f"{what}, at {clock(line.at, millis=True)}", "soft")], []), text_page(line.text)])


def draw_notification(told: NotificationView, colors: ColorScheme) -> list[tuple[Line, Line]]:
    """Draws a row: time, method."""
    left: Line = [
        (clock(told.at), colors["faint"]),
        (" " + one_line(told.method), colors["ink"]),
        ("  " + as_words(told.params or {}), colors["faint"]),
    ]
    return [(left, [])]


def notification_page(told: NotificationView) -> TextSource:
    """Shows a whole notification."""
    facts = [(one_line(told.method), "b-ink"), (f" at {clock(told.at, millis=True)}", "soft")]
    return JoinedText([Words(facts, []), json_page(told.params or {})])


SOURCES: Final = {
    "logs": EntrySource(
        "log message",
        "No log message. A server sends them from the level on that it is asked for: L asks for the next one.",
        log_text,
        draw_log,
        log_page,
    ),
    "stderr": EntrySource(
        "line",
        "No error output. What a command writes to its error output appears here, also after it has died.",
        lambda line: line.text,
        draw_line,
        line_page,
    ),
    "notifications": EntrySource(
        "notification",
        "No notification. Whatever a server tells by itself appears here.",
        notification_text,
        draw_notification,
        notification_page,
    ),
}
