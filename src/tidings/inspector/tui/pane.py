"""What every tab is: a list on the left, the chosen thing on the right, brought up to date when asked."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from textual.containers import Vertical

from tidings.inspector.inspected import InspectedServer
from tidings.inspector.tui.desk import desk_of
from tidings.inspector.tui.rows import RowList
from tidings.inspector.views import ServerView

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
        return desk_of(self)

    @property
    def has_server(self) -> bool:
        """Whether there is a server to show."""
        return self.desk.server is not None

    @property
    def server(self) -> InspectedServer:
        """The server that is shown.

        Raises:
            LookupError: There is none.
        """
        if self.desk.server is None:
            raise LookupError("There is no server yet: n adds one.")
        return self.desk.server

    @property
    def view(self) -> ServerView:
        """What is known of it."""
        return self.server.view

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
