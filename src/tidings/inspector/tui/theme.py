"""The two color schemes, and the meaning of each color.

One accent for what is selected and what is fresh; green, amber and red for states only, each beside a word or a symbol;
four hues for the four kinds of change. Every pair of text and background passes AA.
"""

import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, cast

from rich.style import Style
from textual.message_pump import MessagePump
from textual.theme import Theme
from textual.widget import Widget

if TYPE_CHECKING:
    from tidings.inspector.tui.app import InspectorApp

P = ParamSpec("P")
T = TypeVar("T", bound=MessagePump)


class ColorScheme(dict[str, Style]):
    """The styles of a scheme by name: `soft`, `b-ink` (bold; also i and u), `ink on chosen`, `on pane`."""

    def __init__(self, colors: dict[str, str]) -> None:
        super().__init__()
        self.colors = colors

    def __missing__(self, name: str) -> Style:
        ink, _, ground = f" {name}".partition(" on ")
        ways, _, ink = ink.strip().rpartition("-")
        style = Style(
            color=self.colors[ink] if ink else None,
            bgcolor=self.colors[ground] if ground else None,
            bold="b" in ways or None,
            italic="i" in ways or None,
            underline="u" in ways or None,
        )
        return self.setdefault(name, style)


# `colors`: each in the dark and in the light scheme. `roles` and `variables`: the color of each part of Textual.
# `sheet`: the keys that ? shows. `actions`: the key, the action, its title, more words for the command palette. `foot`:
# the keys of a focused part, and of the list of each tab.
_DATA, KEYS = (json.loads(Path(__file__).with_name(name).read_text("utf-8")) for name in ("colors.json", "keys.json"))

# The schemes by the name of their theme.
SCHEMES: Final = {
    f"tidings-{way}": ColorScheme({name: both[at] for name, both in _DATA["colors"].items()})
    for at, way in enumerate(("dark", "light"))
}

# The color of each kind of change.
KINDS: Final = {
    "resource-updated": "updated",
    "resources-list-changed": "resources",
    "tools-list-changed": "tools",
    "prompts-list-changed": "prompts",
}


def theme(name: str) -> Theme:
    """Returns a scheme as a Textual theme; style sheets use each color as `$t-name`."""
    colors = SCHEMES[name].colors
    variables = {each: str(colors.get(color, color)) for each, color in _DATA["variables"].items()}
    variables |= {f"t-{each.replace('_', '-')}": color for each, color in colors.items()}
    roles: dict[str, Any] = {role: colors[color] for role, color in _DATA["roles"].items()}
    return Theme(name, dark=name == "tidings-dark", variables=variables, **roles)


def inspector_of(widget: MessagePump) -> "InspectorApp":
    """Returns the app of a widget, or itself."""
    return cast("InspectorApp", widget.app)  # pyright: ignore[reportUnknownMemberType]


def in_background(action: Callable[Concatenate[T, P], Coroutine[Any, Any, None]]) -> Callable[Concatenate[T, P], None]:
    """Makes a method of a coroutine that waits for a dialog or a server. See `InspectorApp.attempt`."""

    def begin(owner: T, *arguments: P.args, **options: P.kwargs) -> None:
        inspector_of(owner).attempt(action(owner, *arguments, **options))

    return begin


def colors_of(widget: Widget) -> ColorScheme:
    """Returns the color scheme of a widget."""
    return SCHEMES.get(inspector_of(widget).theme, SCHEMES["tidings-dark"])
