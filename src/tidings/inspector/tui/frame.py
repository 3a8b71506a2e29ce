"""The frame of every screen: the servers on the left, the facts on top, the tabs, the numbers below, and the timeline.

Changes are counted in slots of `SLOT` seconds.
"""

from collections import Counter
from typing import Final

from textual.strip import Strip
from textual.widget import Widget

from tidings._kit.text import counted
from tidings.inspector.tui.theme import KEYS, KINDS, colors_of
from tidings.inspector.tui.widgets.bars import Bar, BarPart, Drawn, Line, one_line, row
from tidings.inspector.view.view import ServerView, target_of

SLOT: Final = 5.0
SPAN: Final = 300.0  # The time span of the timeline, in seconds.

_SLOTS: Final = int(SPAN / SLOT)
_BARS: Final = " ▁▂▃▄▅▆▇█"


def slots_of(view: ServerView, now: float) -> list[Counter[str]]:
    """Returns the changes by kind in the slots of the span, the oldest first; the last one is not over yet."""
    slots = [Counter[str]() for _ in range(_SLOTS)]
    first = int(now // SLOT) - _SLOTS + 1
    for second, counts in view.pace:
        if 0 <= (slot := int(second // SLOT) - first) < _SLOTS:
            for kind, number in counts.items():  # Faster than `update`: this runs for each line that is drawn.
                slots[slot][kind] += number
    return slots


def bars(counts: list[int], width: int) -> str:
    """Draws numbers as `width` bars, the highest as a full block."""
    if not counts or width <= 0:
        return ""
    merged = [counts[at * len(counts) // width] if width >= len(counts) else 0 for at in range(width)]
    for at, each in enumerate(counts if width < len(counts) else ()):
        merged[at * width // len(counts)] += each
    top = max(merged)
    return "".join(_BARS[0 if not each else max(1, round(each * 8 / top))] for each in merged)


# The tabs in their order; `1` to `7` open them.
TABS: Final = ("live", "tools", "resources", "prompts", "tasks", "messages", "logs")

# The kinds of change, and their names in the timeline.
LEGEND: Final = {"resource-updated": "updated"} | {kind: KINDS[kind] for kind in list(KINDS)[1:]}

_STATES: Final = {
    "connected": ("●", "ok"),
    "connecting": ("◌", "warn"),
    "error": ("○", "warn"),
    "disconnecting": ("◌", "faint"),
    "disconnected": ("○", "faint"),
}


def state_mark(view: ServerView) -> tuple[str, str]:
    """Returns the symbol and the color of a server's state."""
    if str(view.state) == "disconnected" and view.error is not None:
        return "✕", "bad"
    return _STATES.get(str(view.state), ("○", "faint"))


def draw_server(view: ServerView, now: float) -> Drawn:
    """Draws a server in the list: its name and rate, and its state below."""
    mark, ink = state_mark(view)
    totals = [counts.total() for counts in slots_of(view, now)]
    connected = str(view.state) == "connected"
    below = f"{counted(sum(totals[-int(60 / SLOT) :]), 'change')} a minute" if connected else one_line(view.words)
    first: Line = [(mark + " ", ink), (one_line(view.title), "ink")]
    spark = [(bars(totals, 8).rstrip(), "accent")]
    return [(first, spark), ([("  " + below, "faint" if connected else ink)], [])]


def show_facts(bar: Bar, view: ServerView | None) -> None:
    """Shows the server's name, address, era, transport and connection. In little room, the connection stays."""
    mark = [BarPart("(•) ", "accent")]
    logo = [*mark, BarPart(f"{'Tidings':<28}", "b-ink")]
    key = [BarPart("ctrl+p", "soft", "app.command_palette")]
    find = [BarPart(" Find anything ", "faint", "app.command_palette"), *key]
    if view is None:
        bar.show([*logo, BarPart("no server yet")], find)
        return
    shape, ink = state_mark(view)
    name = [BarPart(one_line(view.title), "b-ink")]
    chips: list[BarPart] = []
    for fact in (view.protocol_version, view.transport):
        if fact:
            chips += [BarPart("  "), BarPart(f" {one_line(fact)} ", "soft on hover")]
    state = [BarPart("   "), BarPart(shape + " ", ink), BarPart(one_line(view.words), "soft" if ink == "ok" else ink)]
    last = getattr(next(reversed(view.requests.values()), None), "error", None)  # A revoked token closes no connection.
    if any(error is not None and error.code == "sign-in-needed" for error in (view.error, last)):
        button = BarPart(" Sign in ", "b-accent on chosen", "app.sign_in")
        state = [BarPart("   "), button, BarPart(" S", "faint"), *state]
    target = [BarPart("   "), BarPart(one_line(target_of(view.entry or {})), "faint")]
    bar.show(
        [*logo, *name, *chips, *state, *target],
        find,
        ([*logo, *name, *chips, *state], find),
        ([*mark, *name, *chips, *state], find),
        ([*mark, *name, *chips, *state], key),
        ([*mark, *name, *state], key),
        ([*mark, *name, *state], []),
        ([*mark, BarPart(one_line(view.title, 24), "b-ink"), *state], []),
    )


def show_tabs(bar: Bar, chosen: str, view: ServerView | None, questions: int) -> bool:
    """Shows the tabs with their numbers, and the waiting questions. Returns whether the questions fitted.

    A tab is never hidden: in little room its number goes first, then its name, except for the open one.
    """
    ways = [tab_parts(chosen, view, style) for style in ("noted", "named", "short", "numbered")]
    notice = question_parts(questions)
    told = any(bar.fits((way, notice)) for way in ways[:2])
    right = notice if told else []
    bar.show(ways[0], right, *((way, right) for way in ways[1:]))
    return told or not notice


def tab_parts(chosen: str, view: ServerView | None, style: str) -> list[BarPart]:
    """Returns the tabs: with numbers, as names, as short names, or as keys."""
    parts: list[BarPart] = []
    for number, name in enumerate(TABS, 1):
        on, action, label = name == chosen, f"app.tab('{name}')", name.capitalize()
        if not on and style in ("short", "numbered"):
            label = label[:3] if style == "short" else ""
        parts.append(BarPart(f" {number} ", "accent on chosen" if on else "faint", action))
        parts += [BarPart(label + " ", "b-ink on chosen" if on else "soft", action)] if label else []
        note = ""
        if view is not None and name in ("tools", "resources", "prompts") and (count := len(getattr(view, name))):
            note = f"{count:,} "
        elif view is not None and name == "tasks" and (running := running_requests(view)):
            note = f"{running} running "
        if style == "noted" and note:
            parts.append(BarPart(note, "soft on chosen" if on else "faint", action))
    return parts


def question_parts(questions: int) -> list[BarPart]:
    """Returns the number of waiting questions, and the key that opens them."""
    if not questions:
        return []
    words = f" {counted(questions, 'question')} {'waits' if questions == 1 else 'wait'}: a "
    return [BarPart(words, "b-warn on hover", "app.questions")]


def running_requests(view: ServerView) -> int:
    """Returns the number of a server's requests that have not ended."""
    return len(view.requests) - len(view.ended) - len(view.ended_aside)


def foot_keys(focused: Widget | None, tab: str) -> str:
    """Returns the keys of the part that has the focus."""
    parents = [] if focused is None else [type(each).__name__ for each in focused.ancestors_with_self]
    part = next((each for each in ("Form", "Input", "TextView") if each in parents), "list")
    return KEYS["foot"][part] + (KEYS["foot"].get(tab, "") if part == "list" else "")


def show_numbers(bar: Bar, view: ServerView | None, questions: int = 0, foot: str = "") -> None:
    """Shows the keys of the focused part, what is subscribed, runs and is kept, and questions that are not on top."""
    keys = [BarPart("? ", "accent", "app.keys"), BarPart(f"{foot or 'keys'}", "faint", "app.keys")]
    if view is None:
        bar.show([*keys, BarPart("n ", "accent"), BarPart("adds a server", "faint")])
        return
    messages = view.counts["messages"]
    ink = "warn" if messages.dropped else "soft"
    kept = [BarPart(f"{counted(messages.kept, 'message')} kept, {messages.dropped:,} dropped", ink)]
    few = [BarPart(f"{messages.dropped:,} dropped", ink)] if messages.dropped else []
    if notice := question_parts(questions):
        keys = [*notice, BarPart(" "), *keys]
    more = [*keys, BarPart("   "), BarPart(counted(len(view.subscriptions), "subscription"))]
    running = [BarPart("   "), BarPart(counted(running_requests(view), "request") + " running")]
    bar.show([*more, *running], kept, (more, kept), (keys, few), (keys, []))


class Timeline(Widget):
    """The changes of the last minutes, by kind."""

    def __init__(self) -> None:
        super().__init__()
        self._slots = [Counter[str]()]

    def show(self, view: ServerView, now: float) -> None:
        slots = slots_of(view, now)
        if slots != self._slots:
            self._slots = slots
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width, slots = self.size.width, self._slots
        left: Line = [(" ", "soft")]
        right: Line = []
        if y == 0:
            kinds = sum(slots, Counter[str]())
            for kind, name in LEGEND.items():
                left += [("■ ", KINDS[kind]), (f"{name} {kinds[kind]:,}   ", "soft")]
            right = [("last 5 minutes ", "faint")]
        elif y == 1:
            for at in range(width - 2):
                counts = slots[at * len(slots) // (width - 2)]
                ink = next((KINDS[kind] for kind in list(KINDS)[1:] if counts[kind]), None)
                left.append(("▪", ink) if ink else (" ", "soft"))
        else:
            left.append((bars([counts["resource-updated"] for counts in slots], width - 2), "updated"))
        return row(colors_of(self), "on ground", width, left, right)
