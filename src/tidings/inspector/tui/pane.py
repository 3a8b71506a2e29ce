"""What every tab is: a list on the left, the chosen thing on the right, brought up to date when asked."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, cast

from textual.containers import Vertical

from tidings.inspector.tui.rows import RowList

if TYPE_CHECKING:
    from tidings.inspector.tui.app import InspectorApp


class Pane(Vertical):
    """One tab. It is told which server it shows, and when there is something new to read from its view."""

    DEFAULT_CSS = """
    Pane { height: 1fr; }
    Pane .split { height: 1fr; }
    Pane .detail { width: 3fr; }
    .-wide Pane .detail { width: 4fr; }
    """

    @property
    def desk(self) -> "InspectorApp":
        """The application."""
        return cast("InspectorApp", self.app)

    @property
    def server(self) -> Any:
        """The server that is shown; None if there is none."""
        return self.desk.server

    @property
    def view(self) -> Any:
        """What is known of it."""
        return self.server.view if self.server is not None else None

    def restart(self) -> None:
        """Another server is shown from now on."""

    def take(self) -> None:
        """Read what is new."""

    def main_list(self) -> RowList:
        """The list that has the focus when the tab is opened."""
        return self.query(RowList).first()

    def go(self, key: str) -> None:
        """Choose the thing of this name."""
        self.main_list().choose(key)

    def attempt(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do this beside everything else; what a server or a person did wrong is said, and nothing breaks."""
        self.desk.attempt(work)
