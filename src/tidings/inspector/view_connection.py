"""The fold of what a server is: its entry, its connection, and who it says it is."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tidings.inspector.reading import as_dict, as_dict_or_none, as_float, as_int, as_size, as_text
from tidings.inspector.records import Record
from tidings.inspector.view_items import ErrorView

if TYPE_CHECKING:
    from tidings.inspector.views import ServerView


def _server(view: "ServerView", record: Record) -> None:
    if record.data.get("what") == "removed":
        view.removed = True
    elif (entry := as_dict_or_none(record.data.get("entry"))) is not None:
        view.entry = entry


def _state(view: "ServerView", record: Record) -> None:
    data = record.data
    view.state = as_text(data.get("state")) or "disconnected"
    view.tries = as_size(data.get("tries"))
    view.next_retry = as_float(data.get("next_retry"))
    error = ErrorView.read(data.get("error"))
    if view.state == "connected":
        view.was_connected, view.connected_at, view.error = True, record.at, None
    else:
        view.connected_at = view.pid = None  # Its number may be another's soon.
        view.asked.clear()  # What was asked on a connection that ended is never answered.
        if view.state != "connecting" or error is not None:
            view.error = error
        if view.state == "disconnected":
            view.was_connected = False


def _hello(view: "ServerView", record: Record) -> None:
    data = record.data
    view.transport = as_text(data.get("transport"))
    view.protocol_version = as_text(data.get("protocol_version"))
    view.server_info = as_dict(data.get("server_info")) or None
    view.capabilities = as_dict(data.get("capabilities")) or None
    view.instructions = as_text(data.get("instructions"))
    view.pid = as_int(data.get("pid"))


FOLDS: Final[dict[str, Callable[["ServerView", Record], None]]] = {
    "server": _server,
    "state": _state,
    "hello": _hello,
}
