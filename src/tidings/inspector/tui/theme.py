"""The two color schemes, and the meaning of each color.

One accent for what is selected and what is fresh; green, amber and red for states only, each beside a word or a symbol;
four hues for the four kinds of change. Every pair of text and background passes AA.
"""

from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Final, cast

from rich.style import Style
from textual.theme import Theme
from textual.widget import Widget

if TYPE_CHECKING:
    from tidings.inspector.tui.app import InspectorApp


@dataclass(frozen=True, slots=True)
class ColorScheme:
    """The colors of a scheme, by their meaning."""

    ground: str
    pane: str
    ink: str
    soft: str
    faint: str
    line: str
    hover: str
    chosen: str
    chosen_blurred: str
    accent: str
    ok: str
    warn: str
    bad: str
    added: str
    added_ink: str
    added_mark: str
    removed: str
    removed_ink: str
    removed_mark: str
    updated: str
    resources: str
    tools: str
    prompts: str

    def __getitem__(self, name: str) -> Style:
        """Returns the style of a color's name: `soft`, `b-ink` (bold), `u-soft` (underlined), `ink on chosen`."""
        return _style(self, name)


@cache
def _style(colors: ColorScheme, name: str) -> Style:
    name, _, ground = name.partition(" on ")
    ways, _, name = name.rpartition("-")
    return Style(
        color=getattr(colors, name),
        bgcolor=getattr(colors, ground) if ground else None,
        bold="b" in ways or None,
        underline="u" in ways or None,
    )


DARK: Final = ColorScheme(
    ground="#141617",
    pane="#1a1d1e",
    ink="#e7eaea",
    soft="#a2abae",
    faint="#858e92",
    line="#2a2f31",
    hover="#202425",
    chosen="#17332e",
    chosen_blurred="#1f2726",
    accent="#3fc1a8",
    ok="#48bb78",
    warn="#d69e2e",
    bad="#f56565",
    added="#12301f",
    added_ink="#a7e8c0",
    added_mark="#1f5c3a",
    removed="#3a1b1d",
    removed_ink="#f3b4b4",
    removed_mark="#7a2f33",
    updated="#63a7e6",
    resources="#3fc1a8",
    tools="#a48be8",
    prompts="#d9a441",
)

LIGHT: Final = ColorScheme(
    ground="#fbfbfa",
    pane="#ffffff",
    ink="#1d2022",
    soft="#5d656b",
    faint="#6b7379",
    line="#dfe2e1",
    hover="#f2f4f3",
    chosen="#dcefea",
    chosen_blurred="#edf2f0",
    accent="#0b7a68",
    ok="#177a41",
    warn="#8f5d12",
    bad="#c53030",
    added="#e3f5ea",
    added_ink="#14532d",
    added_mark="#a9dfbd",
    removed="#fdeaea",
    removed_ink="#7f1d1d",
    removed_mark="#f3b5b5",
    updated="#2b6cb0",
    resources="#0b7a68",
    tools="#7450c2",
    prompts="#8f5d12",
)

KINDS: Final = {
    "resource-updated": "updated",
    "resources-list-changed": "resources",
    "tools-list-changed": "tools",
    "prompts-list-changed": "prompts",
}
"""The color of each kind of change."""


def theme(name: str, colors: ColorScheme, *, dark: bool) -> Theme:
    """Returns the scheme as a Textual theme; style sheets use each color as `$t-name`."""
    ours = {f"t-{each.name.replace('_', '-')}": getattr(colors, each.name) for each in fields(colors)}
    return Theme(
        name=name,
        primary=colors.accent,
        secondary=colors.updated,
        warning=colors.warn,
        error=colors.bad,
        success=colors.ok,
        accent=colors.accent,
        foreground=colors.ink,
        background=colors.ground,
        surface=colors.pane,
        panel=colors.hover,
        dark=dark,
        variables={
            **ours,
            "border": colors.accent,
            "border-blurred": colors.line,
            "block-cursor-background": colors.chosen,
            "block-cursor-foreground": colors.ink,
            "block-cursor-text-style": "bold",
            "block-cursor-blurred-background": colors.chosen_blurred,
            "block-cursor-blurred-foreground": colors.ink,
            "input-selection-background": colors.chosen,
            "footer-key-foreground": colors.accent,
            "scrollbar": colors.line,
            "scrollbar-hover": colors.faint,
            "scrollbar-active": colors.accent,
            "scrollbar-background": colors.ground,
            "scrollbar-background-hover": colors.ground,
            "scrollbar-background-active": colors.ground,
            "scrollbar-corner-color": colors.ground,
        },
    )


SCHEMES: Final = {"tidings-dark": DARK, "tidings-light": LIGHT}
"""The schemes by the name of their theme."""

THEMES: Final = [theme(name, colors, dark=colors is DARK) for name, colors in SCHEMES.items()]


def inspector_of(widget: Widget) -> "InspectorApp":
    """Returns the app of a widget."""
    return cast("InspectorApp", widget.app)  # pyright: ignore[reportUnknownMemberType]


def colors_of(widget: Widget) -> ColorScheme:
    """Returns the color scheme of a widget."""
    return SCHEMES.get(inspector_of(widget).theme, DARK)
