"""From a widget to the application that it is part of, and to the colours of the scheme in use."""

from typing import TYPE_CHECKING, cast

from textual.widget import Widget

from tidings.inspector.tui.inks import DARK, SCHEMES, Inks

if TYPE_CHECKING:
    from tidings.inspector.tui.app import InspectorApp


def desk_of(widget: Widget) -> "InspectorApp":
    """The application."""
    return cast("InspectorApp", widget.app)  # pyright: ignore[reportUnknownMemberType]


def inks_of(widget: Widget) -> Inks:
    """The colours of the scheme in use."""
    return SCHEMES.get(desk_of(widget).theme, DARK)
