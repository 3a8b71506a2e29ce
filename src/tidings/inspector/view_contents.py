"""The fold of what changes: changes with their hops, subscriptions, and the versions of what is subscribed to."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tidings.inspector.reading import as_dict, as_dict_or_none, as_dicts, as_float, as_int, as_size, as_text, as_texts
from tidings.inspector.record_data import CHANGE_METHODS
from tidings.inspector.records import Record
from tidings.inspector.rings import Ring
from tidings.inspector.view_items import ChangeView, ContentVersion, ErrorView, NotificationView, SubscriptionView

if TYPE_CHECKING:
    from tidings.inspector.views import ServerView

_SEPARATOR: Final = re.compile(r"[/?#]")
_METHODS: Final[dict[str, str]] = {change: method for method, change in CHANGE_METHODS.items()}


def _change(view: "ServerView", record: Record) -> None:
    data = record.data
    times = as_dict(data.get("times"))
    name, uri, size = as_text(data.get("change")) or "", as_text(data.get("uri")), as_size(data.get("size"))
    change = ChangeView(
        record.seq,
        record.at,
        name,
        uri,
        as_text(data.get("cursor")),
        as_float(times.get("source")),
        as_float(times.get("published")),
        as_float(times.get("received")),
        as_size(data.get("merged")),
    )
    view.changes.append(change, record.seq, size)
    if uri is None:
        view.list_changes[name] = record.seq
    method, params = _METHODS.get(name, name), None if uri is None else {"uri": uri}
    view.notifications.append(NotificationView(record.seq, record.at, method, params), record.seq, size)
    _updated(view, change)


def _updated(view: "ServerView", change: ChangeView) -> None:
    """Tell the subscriptions that this change is of."""
    if change.uri is None:
        return
    for subscription in _covering(view, change.uri):
        subscription.updates += 1
        subscription.last_update, subscription.last_uri, subscription.last_change = change.at, change.uri, change.seq
        subscription.merged += change.merged > 0


def _covering(view: "ServerView", uri: str) -> list[SubscriptionView]:
    """The subscriptions that this resource is of: its own, one to what it is a part of, and prefixes."""
    subscriptions = view.subscriptions
    if not subscriptions:
        return []
    found = [subscriptions[each] for each in view.prefixes if uri.startswith(each[:-1])]
    if (own := subscriptions.get(uri)) is not None:
        return [own, *found]
    for place in reversed([each.start() for each in _SEPARATOR.finditer(uri)]):
        if (whole := subscriptions.get(uri[:place])) is not None:
            return [whole, *found]
    return found


def _content(view: "ServerView", record: Record) -> None:
    data = record.data
    if (uri := as_text(data.get("uri"))) is None:
        return
    versions = _versions(view, uri)
    last, digest = versions.last, as_text(data.get("hash")) or ""
    contents: object = data.get("contents")
    change = as_int(data.get("change"))
    if last is not None and last.hash == digest:
        last.confirmed = record.at
        version, before = last, last
    else:
        kept = as_dict_or_none(contents) or as_dicts(contents)
        size = as_size(data.get("size"))
        version = ContentVersion(record.seq, record.at, uri, digest, kept, size, as_float(data.get("took")), change)
        before = last
        # What is cut takes no more than its head.
        weight = size if isinstance(kept, list) else min(size, len(as_text(kept.get("head")) or ""))
        versions.append(version, record.seq, weight)
        _make_room(view, uri)
        was_away = last is not None and (last.confirmed or last.at) < (view.connected_at or 0)
        # Of what nobody listens to, no one knows when it changed.
        if was_away and change is None and any(_covering(view, uri)):
            change = version.change = record.seq
            found = ChangeView(record.seq, record.at, "resource-updated", uri, away=True)
            view.changes.append(found, record.seq)
            _updated(view, found)
    if change is not None and (shown := view.changes.get(change)) is not None:
        shown.read, shown.content = record.at, version.seq
        shown.before = None if before is None else before.seq
    for subscription in _covering(view, uri):
        subscription.last_read, subscription.error = record.at, None
        subscription.last_answered = max(subscription.last_answered, change or 0)


def _versions(view: "ServerView", uri: str) -> Ring[ContentVersion]:
    """The versions of this URI, which is then the one that was looked at last."""
    versions = view.contents.pop(uri, None)
    if versions is None:
        subscription = view.subscriptions.get(uri)
        versions = _ring(view) if subscription is None else subscription.versions
    view.contents[uri] = versions
    while len(view.contents) > view.limits.contents:
        _let_go(view, next(iter(view.contents)))
    return versions


def _ring(view: "ServerView") -> Ring[ContentVersion]:
    return Ring(view.limits.versions, view.limits.contents_bytes)


def _make_room(view: "ServerView", newest: str) -> None:
    """While all contents together take too much, let the oldest versions go of what was read longest ago."""
    total = sum(versions.bytes for versions in view.contents.values())
    for uri in tuple(view.contents):
        versions = view.contents[uri]
        while total > view.limits.contents_bytes and len(versions) > (1 if uri == newest else 0):
            total -= versions.drop_oldest()
            view.contents_dropped += 1
        if total <= view.limits.contents_bytes:
            return


def _let_go(view: "ServerView", uri: str) -> None:
    versions = view.contents.pop(uri)
    view.contents_dropped += len(versions)
    versions.clear()


def _content_failed(view: "ServerView", record: Record) -> None:
    uri, error = as_text(record.data.get("uri")) or "", ErrorView.read(record.data.get("error"))
    for subscription in _covering(view, uri):
        subscription.error = error


def _subscriptions(view: "ServerView", record: Record) -> None:
    uris = list(dict.fromkeys(as_texts(record.data.get("uris"))))
    before = view.subscriptions
    view.subscriptions = {uri: before.get(uri) or SubscriptionView(uri, record.at, _kept(view, uri)) for uri in uris}
    view.prefixes = tuple(uri for uri in uris if uri.endswith("*"))


def _kept(view: "ServerView", uri: str) -> Ring[ContentVersion]:
    versions = view.contents.get(uri)
    return _ring(view) if versions is None else versions


def _subscription_failed(view: "ServerView", record: Record) -> None:
    subscription = view.subscriptions.get(as_text(record.data.get("uri")) or "")
    if subscription is not None:
        subscription.error = ErrorView.read(record.data.get("error"))


FOLDS: Final[dict[str, Callable[["ServerView", Record], None]]] = {
    "change": _change,
    "content": _content,
    "content-failed": _content_failed,
    "subscriptions": _subscriptions,
    "subscription-failed": _subscription_failed,
}
