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


# Each color in the dark scheme, and in the light one.
_COLORS: Final = {
    "ground": ("#141617", "#fbfbfa"),
    "pane": ("#1a1d1e", "#ffffff"),
    "ink": ("#e7eaea", "#1d2022"),
    "soft": ("#a2abae", "#5d656b"),
    "faint": ("#858e92", "#6b7379"),
    "line": ("#2a2f31", "#dfe2e1"),
    "hover": ("#202425", "#f2f4f3"),
    "chosen": ("#17332e", "#dcefea"),
    "chosen_blurred": ("#1f2726", "#edf2f0"),
    "accent": ("#3fc1a8", "#0b7a68"),
    "ok": ("#48bb78", "#177a41"),
    "warn": ("#d69e2e", "#8f5d12"),
    "bad": ("#f56565", "#c53030"),
    "added": ("#12301f", "#e3f5ea"),
    "added_ink": ("#a7e8c0", "#14532d"),
    "added_mark": ("#1f5c3a", "#a9dfbd"),
    "removed": ("#3a1b1d", "#fdeaea"),
    "removed_ink": ("#f3b4b4", "#7f1d1d"),
    "removed_mark": ("#7a2f33", "#f3b5b5"),
    "updated": ("#63a7e6", "#2b6cb0"),
    "resources": ("#3fc1a8", "#0b7a68"),
    "tools": ("#a48be8", "#7450c2"),
    "prompts": ("#d9a441", "#8f5d12"),
}

DARK: Final = ColorScheme(**{name: dark for name, (dark, _) in _COLORS.items()})
LIGHT: Final = ColorScheme(**{name: light for name, (_, light) in _COLORS.items()})

# The color of each kind of change.
KINDS: Final = {
    "resource-updated": "updated",
    "resources-list-changed": "resources",
    "tools-list-changed": "tools",
    "prompts-list-changed": "prompts",
}

_ON_ACCENT: Final = ("border", "footer-key-foreground", "scrollbar-active")
_ON_GROUND: Final = tuple(
    f"scrollbar-{part}" for part in ("background", "background-hover", "background-active", "corner-color")
)


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
            **dict.fromkeys(_ON_ACCENT, colors.accent),
            **dict.fromkeys(_ON_GROUND, colors.ground),
            **dict.fromkeys(("border-blurred", "scrollbar"), colors.line),
            **dict.fromkeys(("block-cursor-background", "input-selection-background"), colors.chosen),
            **dict.fromkeys(("block-cursor-foreground", "block-cursor-blurred-foreground"), colors.ink),
            "block-cursor-text-style": "bold",
            "block-cursor-blurred-background": colors.chosen_blurred,
            "scrollbar-hover": colors.faint,
        },
    )


SCHEMES: Final = {"tidings-dark": DARK, "tidings-light": LIGHT}  # The schemes by the name of their theme.

THEMES: Final = [theme(name, colors, dark=colors is DARK) for name, colors in SCHEMES.items()]


def inspector_of(widget: Widget) -> "InspectorApp":
    """Returns the app of a widget."""
    return cast("InspectorApp", widget.app)  # pyright: ignore[reportUnknownMemberType]


def colors_of(widget: Widget) -> ColorScheme:
    """Returns the color scheme of a widget."""
    return SCHEMES.get(inspector_of(widget).theme, DARK)
