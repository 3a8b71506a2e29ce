"""The two schemes, and what each colour means.

One accent for what is chosen and what is fresh; green, amber and red for states only, each beside a word or a shape;
four hues for the four kinds of change. Every pair of ink and ground passes AA.

From a widget to the application that it is part of, and to the colours of the scheme in use.
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
    """The colours of a scheme, by what they mean."""

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
        """The style of a colour's name: `soft`, `b-ink` (bold), `u-soft` (underlined), `ink on chosen`."""
        return _style(self, name)


@cache
def _style(inks: ColorScheme, name: str) -> Style:
    name, _, ground = name.partition(" on ")
    ways, _, name = name.rpartition("-")
    return Style(
        color=getattr(inks, name),
        bgcolor=getattr(inks, ground) if ground else None,
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
"""The colour of each kind of change."""


def theme(name: str, inks: ColorScheme, *, dark: bool) -> Theme:
    """The scheme as Textual wants it; each colour is there for style sheets, as `$t-name`."""
    ours = {f"t-{each.name.replace('_', '-')}": getattr(inks, each.name) for each in fields(inks)}
    return Theme(
        name=name,
        primary=inks.accent,
        secondary=inks.updated,
        warning=inks.warn,
        error=inks.bad,
        success=inks.ok,
        accent=inks.accent,
        foreground=inks.ink,
        background=inks.ground,
        surface=inks.pane,
        panel=inks.hover,
        dark=dark,
        variables={
            **ours,
            "border": inks.accent,
            "border-blurred": inks.line,
            "block-cursor-background": inks.chosen,
            "block-cursor-foreground": inks.ink,
            "block-cursor-text-style": "bold",
            "block-cursor-blurred-background": inks.chosen_blurred,
            "block-cursor-blurred-foreground": inks.ink,
            "input-selection-background": inks.chosen,
            "footer-key-foreground": inks.accent,
            "scrollbar": inks.line,
            "scrollbar-hover": inks.faint,
            "scrollbar-active": inks.accent,
            "scrollbar-background": inks.ground,
            "scrollbar-background-hover": inks.ground,
            "scrollbar-background-active": inks.ground,
            "scrollbar-corner-color": inks.ground,
        },
    )


SCHEMES: Final = {"tidings-dark": DARK, "tidings-light": LIGHT}
"""The schemes by the name of their theme."""

THEMES: Final = [theme(name, inks, dark=inks is DARK) for name, inks in SCHEMES.items()]


def desk_of(widget: Widget) -> "InspectorApp":
    """The application."""
    return cast("InspectorApp", widget.app)  # pyright: ignore[reportUnknownMemberType]


def inks_of(widget: Widget) -> ColorScheme:
    """The colours of the scheme in use."""
    return SCHEMES.get(desk_of(widget).theme, DARK)
