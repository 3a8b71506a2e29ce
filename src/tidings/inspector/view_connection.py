"""The fold of what a server is: its entry, its connection, who it says it is, and its lists."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tidings.inspector.reading import as_dict, as_dict_or_none, as_dicts, as_float, as_int, as_size, as_text, as_texts
from tidings.inspector.record_data import LIST_KEYS
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
        view.connected_at = None
        view.asked.clear()  # What was asked on a connection that ended is never answered.
        if view.state != "connecting" or error is not None:
            view.error = error
        if view.state == "disconnected":
            view.was_connected, view.pid = False, None


def _hello(view: "ServerView", record: Record) -> None:
    data = record.data
    view.transport = as_text(data.get("transport"))
    view.protocol_version = as_text(data.get("protocol_version"))
    view.server_info = as_dict(data.get("server_info")) or None
    view.capabilities = as_dict(data.get("capabilities")) or None
    view.instructions = as_text(data.get("instructions"))
    view.pid = as_int(data.get("pid"))


def _list(view: "ServerView", record: Record) -> None:
    data = record.data
    name = as_text(data.get("list")) or ""
    if name not in LIST_KEYS:
        return
    if (error := ErrorView.read(data.get("error"))) is not None:
        view.list_errors[name] = error
        return
    view.list_errors.pop(name, None)
    view.loaded_at[name] = record.at
    items: dict[str, dict[str, Any]] = getattr(view, name)
    for gone in as_texts(data.get("removed")):
        items.pop(gone, None)
    for what in ("changed", "added"):
        for item in as_dicts(data.get(what)):
            if (key := as_text(item.get(LIST_KEYS[name]))) is not None:
                items[key] = item
    if isinstance(data.get("order"), list):
        first = [key for key in dict.fromkeys(as_texts(data["order"])) if key in items]
        ordered = {key: items[key] for key in first}
        setattr(view, name, {**ordered, **{key: item for key, item in items.items() if key not in ordered}})
    for what, kept in (("duplicates", view.duplicates), ("malformed", view.malformed)):
        if what in data:
            kept[name] = as_dicts(data[what])


FOLDS: Final[dict[str, Callable[["ServerView", Record], None]]] = {
    "server": _server,
    "state": _state,
    "hello": _hello,
    "list": _list,
}
