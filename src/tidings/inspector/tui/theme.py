"""The two color schemes, and the meaning of each color.

One accent for what is selected and what is fresh; green, amber and red for states only, each beside a word or a symbol;
four hues for the four kinds of change. Every pair of text and background passes AA.
"""

from typing import TYPE_CHECKING, Final, cast

from rich.style import Style
from textual.theme import Theme
from textual.widget import Widget

if TYPE_CHECKING:
    from tidings.inspector.tui.app import InspectorApp


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

# The schemes by the name of their theme.
SCHEMES: Final = {
    "tidings-dark": ColorScheme({name: dark for name, (dark, _) in _COLORS.items()}),
    "tidings-light": ColorScheme({name: light for name, (_, light) in _COLORS.items()}),
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
    scrollbar = ("background", "background-hover", "background-active", "corner-color")
    return Theme(
        name=name,
        primary=colors["accent"],
        secondary=colors["updated"],
        warning=colors["warn"],
        error=colors["bad"],
        success=colors["ok"],
        accent=colors["accent"],
        foreground=colors["ink"],
        background=colors["ground"],
        surface=colors["pane"],
        panel=colors["hover"],
        dark=name == "tidings-dark",
        variables={
            **{f"t-{each.replace('_', '-')}": color for each, color in colors.items()},
            **{f"scrollbar-{part}": colors["ground"] for part in scrollbar},
            **dict.fromkeys(("border", "footer-key-foreground", "scrollbar-active"), colors["accent"]),
            **dict.fromkeys(("border-blurred", "scrollbar"), colors["line"]),
            **dict.fromkeys(("block-cursor-background", "input-selection-background"), colors["chosen"]),
            **dict.fromkeys(("block-cursor-foreground", "block-cursor-blurred-foreground"), colors["ink"]),
            "block-cursor-text-style": "bold",
            "block-cursor-blurred-background": colors["chosen_blurred"],
            "scrollbar-hover": colors["faint"],
        },
    )


def inspector_of(widget: Widget) -> "InspectorApp":
    """Returns the app of a widget."""
    return cast("InspectorApp", widget.app)  # pyright: ignore[reportUnknownMemberType]


def colors_of(widget: Widget) -> ColorScheme:
    """Returns the color scheme of a widget."""
    return SCHEMES.get(inspector_of(widget).theme, SCHEMES["tidings-dark"])
