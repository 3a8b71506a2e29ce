"""What surrounds every screen: the servers on the left, the facts on top, the tabs, the numbers below."""

from collections.abc import Callable
from typing import Any, Final, cast

from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from tidings.inspector.inspected import InspectedServer
from tidings.inspector.tui.bars import Bar, Part
from tidings.inspector.tui.desk import inks_of
from tidings.inspector.tui.drawing import Line, row
from tidings.inspector.tui.inks import KINDS, Inks
from tidings.inspector.tui.pace import Pace, bars
from tidings.inspector.tui.rows import Draw
from tidings.inspector.tui.words import counted, one_line
from tidings.inspector.views import ServerView

TABS: Final = ("live", "tools", "resources", "prompts", "requests", "messages", "logs")
"""The tabs in their order; `1` to `7` lead to them."""

LEGEND: Final = {"resource-updated": "updated"} | {kind: KINDS[kind] for kind in list(KINDS)[1:]}
"""The kinds of change and what the strip calls them."""

_STATES: Final = {
    "connected": ("●", "ok"),
    "connecting": ("◌", "warn"),
    "error": ("○", "warn"),
    "disconnecting": ("◌", "faint"),
    "disconnected": ("○", "faint"),
}


def state_mark(view: ServerView) -> tuple[str, str]:
    """The shape and the colour of a server's state."""
    mark, ink = _STATES.get(str(view.state), ("○", "faint"))
    if str(view.state) == "disconnected" and view.error is not None:
        return "✕", "bad"
    return mark, ink


def draw_server(paces: Callable[[str], Pace], now: Callable[[], float]) -> Draw:
    """How the list of servers draws one: its name and pace, and below what there is to say."""

    def draw(server: InspectedServer, inks: Inks) -> list[tuple[Line, Line]]:
        view = server.view
        mark, ink = state_mark(view)
        pace = paces(view.name)
        connected = str(view.state) == "connected"
        below = f"{counted(pace.a_minute(now()), 'change')} a minute" if connected else one_line(view.words)
        spark = pace.spark(now(), 8).rstrip()
        first: Line = [(mark + " ", inks[ink]), (one_line(view.name), inks["ink"])]
        ground = "faint" if connected else ink
        return [(first, [(spark, inks["accent"])]), ([("  " + below, inks[ground])], [])]

    return draw


def show_facts(bar: Bar, view: ServerView | None) -> None:
    """The server's name, address, era, transport and the truth about its connection."""
    logo = [Part("(•) ", "accent"), Part(f"{'Tidings':<28}", "b-ink")]
    find = [Part(" Find anything ", "faint", "app.command_palette"), Part("ctrl+p", "soft", "app.command_palette")]
    if view is None:
        bar.show([*logo, Part("no server yet")], find)
        return
    mark, ink = state_mark(view)
    chips: list[Part] = []
    for fact in (view.protocol_version, view.transport):
        if fact:
            chips += [Part("  "), Part(f" {one_line(fact)} ", "soft on hover")]
    bar.show(
        [
            *logo,
            Part(one_line(view.name), "b-ink"),
            *chips,
            Part("   "),
            Part(mark + " ", ink),
            Part(one_line(view.words), "soft" if ink == "ok" else ink),
            Part("   "),
            Part(one_line(target_of(view)), "faint"),
        ],
        find,
    )


def target_of(view: ServerView) -> str:
    """What one would type to reach this server."""
    entry: dict[str, Any] = view.entry or {}
    if entry.get("url"):
        return str(entry["url"])
    target = entry.get("target") or [entry.get("command") or "", *(entry.get("args") or ())]
    return " ".join(map(str, cast("list[Any]", target))) if isinstance(target, list) else str(target)


def show_tabs(bar: Bar, chosen: str, view: ServerView | None, questions: int) -> None:
    """The tabs with their numbers, and how many questions wait."""
    parts: list[Part] = []
    for number, name in enumerate(TABS, 1):
        on = name == chosen
        action = f"app.tab('{name}')"
        parts.append(Part(f" {number} ", "accent on chosen" if on else "faint", action))
        parts.append(Part(name.capitalize() + " ", "b-ink on chosen" if on else "soft", action))
        if note := tab_note(name, view):
            parts.append(Part(note + " ", "soft on chosen" if on else "faint", action))
    waiting = f" {counted(questions, 'question')} {'waits' if questions == 1 else 'wait'} a "
    bar.show(parts, [Part(waiting, "b-warn on hover", "app.questions")] if questions else [])


def tab_note(name: str, view: ServerView | None) -> str:
    """The number beside a tab's name."""
    if view is None:
        return ""
    if name in ("tools", "resources", "prompts"):
        count = len(getattr(view, name))
        return f"{count:,}" if count else ""
    if name == "requests":
        running = running_requests(view)
        return f"{running} running" if running else ""
    return ""


def running_requests(view: ServerView) -> int:
    """How many of a server's requests have not ended."""
    return len(view.requests) - len(view.ended) - len(view.ended_aside)


def show_numbers(bar: Bar, view: ServerView | None) -> None:
    """What is subscribed, what runs, what is kept and what was dropped."""
    keys = [Part("? ", "accent", "app.keys"), Part("keys  ", "faint", "app.keys")]
    if view is None:
        bar.show([*keys, Part("n ", "accent"), Part("adds a server", "faint")])
        return
    messages = view.counts["messages"]
    kept = f"{counted(messages.kept, 'message')} kept, {messages.dropped:,} dropped"
    bar.show(
        [
            *keys,
            Part(counted(len(view.subscriptions), "subscription")),
            Part("   "),
            Part(counted(running_requests(view), "request") + " running"),
        ],
        [Part(kept, "warn" if messages.dropped else "soft")],
    )


class Timeline(Widget):
    """The last minutes: how many changes of each kind came when."""

    DEFAULT_CSS = """
    Timeline { height: 4; background: $t-ground; border-bottom: hkey $t-line; }
    """

    def __init__(self, id: str | None = None) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self._pace = Pace()
        self._now = 0.0
        self._drawn: object = None

    def show(self, pace: Pace, now: float) -> None:
        """Show this pace as of now."""
        self._pace, self._now = pace, now
        shown = [dict(counts) for counts in pace.slots(now)]
        if shown != self._drawn:
            self._drawn = shown
            self.refresh()

    def render_line(self, y: int) -> Strip:
        inks, width = inks_of(self), self.size.width
        ground = Style(bgcolor=inks.ground)
        if y == 0:
            kinds = self._pace.kinds(self._now)
            legend: Line = [(" ", inks["soft"])]
            for kind, name in LEGEND.items():
                legend += [("■ ", inks[KINDS[kind]]), (f"{name} {kinds[kind]:,}   ", inks["soft"])]
            return row(width, legend, [("last 5 minutes ", inks["faint"])], ground)
        if y == 1:
            return row(width, self._rare(inks, width), None, ground)
        updated = [counts["resource-updated"] for counts in self._pace.slots(self._now)]
        return row(width, [(" ", inks["soft"]), (bars(updated, width - 2), inks["updated"])], None, ground)

    def _rare(self, inks: Inks, width: int) -> Line:
        """A mark for each slot in which a list changed."""
        slots = self._pace.slots(self._now)
        line: Line = [(" ", inks["soft"])]
        for at in range(width - 2):
            counts = slots[at * len(slots) // (width - 2)]
            kind = next((kind for kind in list(KINDS)[1:] if counts[kind]), None)
            line.append(("▪", inks[KINDS[kind]]) if kind else (" ", inks["soft"]))
        return line
