"""What surrounds every screen: the servers on the left, the facts on top, the tabs, the numbers below."""

from collections.abc import Callable
from typing import Final

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
from tidings.inspector.view_words import target_of
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
    """The server's name, address, era, transport and the truth about its connection: where there is little room, the
    truth stays.
    """
    mark = [Part("(•) ", "accent")]
    logo = [*mark, Part(f"{'Tidings':<28}", "b-ink")]
    key = [Part("ctrl+p", "soft", "app.command_palette")]
    find = [Part(" Find anything ", "faint", "app.command_palette"), *key]
    if view is None:
        bar.show([*logo, Part("no server yet")], find)
        return
    shape, ink = state_mark(view)
    name = [Part(one_line(view.name), "b-ink")]
    chips: list[Part] = []
    for fact in (view.protocol_version, view.transport):
        if fact:
            chips += [Part("  "), Part(f" {one_line(fact)} ", "soft on hover")]
    state = [Part("   "), Part(shape + " ", ink), Part(one_line(view.words), "soft" if ink == "ok" else ink)]
    target = [Part("   "), Part(one_line(target_of(view.entry or {})), "faint")]
    bar.show(
        [*logo, *name, *chips, *state, *target],
        find,
        ([*logo, *name, *chips, *state], find),
        ([*mark, *name, *chips, *state], find),
        ([*mark, *name, *chips, *state], key),
        ([*mark, *name, *state], key),
        ([*mark, *name, *state], []),
        ([*state[1:], Part("   "), *name], []),
    )


def show_tabs(bar: Bar, chosen: str, view: ServerView | None, questions: int) -> bool:
    """The tabs with their numbers, and how many questions wait; whether there was room to say that.

    A tab is never hidden: where there is little room, its note goes first, then its name, but for the open one's.
    """
    ways = [tab_parts(chosen, view, style) for style in ("noted", "named", "short", "numbered")]
    notice = question_parts(questions)
    told = [(way, notice) for way in ways[:2] if bar.fits((way, notice))]
    if notice and told:
        bar.show(*told[0])
        return True
    none: list[Part] = []
    bar.show(ways[0], none, *((way, none) for way in ways[1:]))
    return not notice


def tab_parts(chosen: str, view: ServerView | None, style: str) -> list[Part]:
    """The tabs: with their notes, by their names, by the beginnings of these, or by their numbers."""
    parts: list[Part] = []
    for number, name in enumerate(TABS, 1):
        on = name == chosen
        action = f"app.tab('{name}')"
        label = name.capitalize()
        if not on and style in ("short", "numbered"):
            label = label[:3] if style == "short" else ""
        parts.append(Part(f" {number} ", "accent on chosen" if on else "faint", action))
        if label:
            parts.append(Part(label + " ", "b-ink on chosen" if on else "soft", action))
        if style == "noted" and (note := tab_note(name, view)):
            parts.append(Part(note + " ", "soft on chosen" if on else "faint", action))
    return parts


def question_parts(questions: int) -> list[Part]:
    """How many questions wait, and the key that opens them."""
    if not questions:
        return []
    words = f" {counted(questions, 'question')} {'waits' if questions == 1 else 'wait'}: a "
    return [Part(words, "b-warn on hover", "app.questions")]


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


def show_numbers(bar: Bar, view: ServerView | None, questions: int = 0) -> None:
    """What is subscribed, what runs, what is kept and what was dropped; and the questions, where there was no room for
    them on top.
    """
    keys = [Part("? ", "accent", "app.keys"), Part("keys  ", "faint", "app.keys")]
    if view is None:
        bar.show([*keys, Part("n ", "accent"), Part("adds a server", "faint")])
        return
    messages = view.counts["messages"]
    ink = "warn" if messages.dropped else "soft"
    kept = [Part(f"{counted(messages.kept, 'message')} kept, {messages.dropped:,} dropped", ink)]
    few = [Part(f"{messages.dropped:,} dropped", ink)] if messages.dropped else []
    subscriptions = [Part(counted(len(view.subscriptions), "subscription"))]
    running = [Part("   "), Part(counted(running_requests(view), "request") + " running")]
    notice = question_parts(questions)
    asked = [*notice, Part("  ")] if notice else []
    bar.show(
        [*keys, *asked, *subscriptions, *running],
        kept,
        ([*keys, *asked, *subscriptions], few),
        ([*keys, *asked], few),
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
