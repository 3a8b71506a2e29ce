"""The fold of a server's lists, and of what is different in them from one load to the next.

What is different belongs to the change that the server told last of this list. If it told none since it was connected,
it changed while the server was away, and is a change of its own.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tidings.inspector.reading import as_dicts, as_text, as_texts
from tidings.inspector.record_data import LIST_CHANGES, LIST_KEYS
from tidings.inspector.records import Record
from tidings.inspector.view_items import ChangeView, ErrorView, ListDifference

if TYPE_CHECKING:
    from tidings.inspector.views import ServerView


def _list(view: "ServerView", record: Record) -> None:
    data = record.data
    name = as_text(data.get("list")) or ""
    if name not in LIST_KEYS:
        return
    if (error := ErrorView.read(data.get("error"))) is not None:
        view.list_errors[name] = error
        return
    view.list_errors.pop(name, None)
    items: dict[str, dict[str, Any]] = getattr(view, name)
    before = dict(items)
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
    _tell(view, record, name, before)
    view.loaded_at[name] = record.at


def _tell(view: "ServerView", record: Record, name: str, before: dict[str, dict[str, Any]]) -> None:
    """Say with the change that led to this what is different; or make it a change of its own."""
    kind = LIST_CHANGES[name]
    since = record.at if view.connected_at is None else view.connected_at
    seq = view.list_changes.get(kind)
    change = None if seq is None else view.changes.get(seq)
    now: dict[str, dict[str, Any]] = getattr(view, name)
    if change is None or change.at < since:
        loaded = view.loaded_at.get(name)
        if loaded is None or loaded >= since or before == now:
            return
        change = ChangeView(record.seq, record.at, kind, None, away=True)
        view.changes.append(change, record.seq)
        view.list_changes[kind] = record.seq
    if change.items is None or before != now:
        # What comes later without a word is added, but says nothing of how soon the change was known.
        change.read, change.items = change.read or record.at, change.items or ListDifference()
        change.items.add(before, now)


FOLDS: Final[dict[str, Callable[["ServerView", Record], None]]] = {"list": _list}
