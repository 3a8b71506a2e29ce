"""Logs: the server's log messages by level, its error output, and its other notifications."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tidings._kit.bounded_json import shown
from tidings.inspector.catalog import LOG_LEVELS
from tidings.inspector.tui.screens.screen import EntrySource, SourcesPane
from tidings.inspector.tui.widgets.bars import Bar, BarPart, Line, choice
from tidings.inspector.tui.widgets.text import JoinedPage, TextPage, json_page, text_page
from tidings.inspector.tui.words import clock, one_line
from tidings.inspector.view.items import LineView, LogView, NotificationView
from tidings.inspector.view.rings import Ring

TITLES: Final = {"logs": "Logs", "stderr": "Error output", "notifications": "Notifications"}
_INKS: Final = {"debug": "faint", "info": "soft", "notice": "updated", "warning": "warn"}


class LogsPane(SourcesPane):
    """The log messages, error output and notifications of one server."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "source", "Logs, error output, notifications", show=False),
        Binding("l", "level", "Show from the next level on", show=False),
        Binding("L", "ask", "Ask the server for another level", show=False),
    ]

    def __init__(self, tab: str) -> None:
        super().__init__(tab, {"logs": LogSource(), "stderr": LineSource(), "notifications": NotificationSource()})
        self.level = "debug"
        self.asked = "info"
        self._bar = Bar("ground")

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
        self.level = LOG_LEVELS[(LOG_LEVELS.index(self.level) + 1) % 5]
        self.models["logs"].reset()
        self.take()

    def action_ask(self) -> None:
        if not self.has_server:
            return
        self.asked = LOG_LEVELS[(LOG_LEVELS.index(self.asked) - 1) % 5]
        self.inspector.attempt(self.server.set_log_level(self.asked))
        self.say()


def as_words(value: Any, limit: int = 300) -> str:
    """Returns a log message in one line."""
    return one_line(value if isinstance(value, str) else shown(value), limit)


class LogSource(EntrySource):
    """Log messages: time, level, text."""

    noun = "log message"
    empty = "No log message. A server sends them from the level on that it is asked for: L asks for the next one."

    def text(self, entry: LogView) -> str:
        return f"{entry.level} {entry.logger or ''} {as_words(entry.data, 2000)}"

    def draw(self, entry: LogView) -> list[tuple[Line, Line]]:
        level = (f" {one_line(entry.level)[:8]:<8} ", _INKS.get(entry.level, "bad"))
        left: Line = [(clock(entry.at), "faint"), level, (as_words(entry.data), "ink")]
        return [(left, [(one_line(entry.logger), "faint")] if entry.logger else [])]

    def page(self, entry: LogView) -> TextPage:
        by = f" by {one_line(entry.logger)}" if entry.logger else ""
        level = (one_line(entry.level), "b-" + _INKS.get(entry.level, "bad"))
        body = text_page(entry.data) if isinstance(entry.data, str) else json_page(entry.data)
        return JoinedPage([TextPage([level, (f" at {clock(entry.at, millis=True)}{by}", "soft")], []), body])


class LineSource(EntrySource):
    """Lines of error output; invalid messages are marked."""

    noun = "line"
    empty = "No error output. What a command writes to its error output appears here, also after it has died."

    def text(self, entry: LineView) -> str:
        return entry.text

    def draw(self, entry: LineView) -> list[tuple[Line, Line]]:
        mark = (" no message ", "bad") if entry.garbage else (" ", "soft")
        return [([(clock(entry.at), "faint"), mark, (one_line(entry.text), "ink")], [])]

    def page(self, entry: LineView) -> TextPage:
        what = "sent on its output, and is no message" if entry.garbage else "error output"
        facts = TextPage([(f"{what}, at {clock(entry.at, millis=True)}", "soft")], [])
        return JoinedPage([facts, text_page(entry.text)])


class NotificationSource(EntrySource):
    """Notifications: time, method, parameters."""

    noun = "notification"
    empty = "No notification. Whatever a server tells by itself appears here."

    def text(self, entry: NotificationView) -> str:
        return f"{entry.method} {as_words(entry.params or {}, 2000)}"

    def draw(self, entry: NotificationView) -> list[tuple[Line, Line]]:
        method, params = " " + one_line(entry.method), "  " + as_words(entry.params or {})
        return [([(clock(entry.at), "faint"), (method, "ink"), (params, "faint")], [])]

    def page(self, entry: NotificationView) -> TextPage:
        facts: Line = [(one_line(entry.method), "b-ink"), (f" at {clock(entry.at, millis=True)}", "soft")]
        return JoinedPage([TextPage(facts, []), json_page(entry.params or {})])
