"""Two sessions side by side: differences in the lists, the answers and the times of each server.

Servers are paired by name; in two sessions of one server each, these two. Requests are paired by method and parameters,
in order: the second `search` for "x" with the second.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tidings._kit.bounded_json import as_dict, dumps, in_order
from tidings.inspector.records import LIST_NAMES
from tidings.inspector.view.diffs import Diff, diff_values
from tidings.inspector.view.items import RequestView
from tidings.inspector.view.view import ServerView, SessionView


@dataclass(frozen=True, slots=True)
class ItemChange:
    """An item of a list that changed."""

    name: str
    old: dict[str, Any]
    new: dict[str, Any]

    def diff(self) -> Diff:
        """Returns the differences."""
        return diff_values(self.old, self.new)


@dataclass(frozen=True, slots=True)
class ListComparison:
    """The differences of a list."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[ItemChange, ...]

    @property
    def same(self) -> bool:
        """True if there are none."""
        return not (self.added or self.removed or self.changed)


@dataclass(frozen=True, slots=True)
class RequestPair:
    """The same request in both sessions."""

    method: str
    params: dict[str, Any]
    old: RequestView
    new: RequestView

    @property
    def same(self) -> bool:
        """True if both answers are equal, apart from `_meta`."""
        return self.old.status == self.new.status and _answer(self.old) == _answer(self.new)

    @property
    def slower(self) -> float | None:
        """The seconds that the new one took longer; negative if it was faster."""
        return None if self.old.took is None or self.new.took is None else self.new.took - self.old.took

    def diff(self) -> Diff:
        """Returns the differences of the answers."""
        return diff_values(_answer(self.old), _answer(self.new))


@dataclass(frozen=True, slots=True)
class ServerComparison:
    """One server in two sessions."""

    name: str
    old: ServerView
    new: ServerView
    facts: dict[str, tuple[Any, Any]]
    """The facts that differ, old and new: version, capabilities, instructions."""
    lists: dict[str, ListComparison]
    requests: tuple[RequestPair, ...]
    only_old: tuple[RequestView, ...]
    """Requests of only one session."""
    only_new: tuple[RequestView, ...]
    changes: dict[str, tuple[int, int]]
    """For each URI or list: the number of kept changes, old and new."""
    errors: dict[str, tuple[int, int]]
    """For each error code of a request: the number, old and new."""

    @property
    def same(self) -> bool:
        """True if the facts, the lists and the answers are equal."""
        return not self.facts and all(each.same for each in self.lists.values()) and all(p.same for p in self.requests)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sessions side by side."""

    servers: tuple[ServerComparison, ...]
    only_old: tuple[str, ...] = field(default=())
    """Servers of only one session."""
    only_new: tuple[str, ...] = field(default=())


def compare(old: SessionView, new: SessionView) -> Comparison:
    """Compares two sessions."""
    if len(old.servers) == len(new.servers) == 1:
        (one,), (other,) = old.servers.values(), new.servers.values()
        return Comparison((compare_servers(one, other),))
    common = [name for name in old.servers if name in new.servers]
    return Comparison(
        tuple(compare_servers(old.servers[name], new.servers[name]) for name in common),
        tuple(name for name in old.servers if name not in new.servers),
        tuple(name for name in new.servers if name not in old.servers),
    )


def compare_servers(old: ServerView, new: ServerView) -> ServerComparison:
    """Compares one server in two sessions."""
    facts = {
        name: (before, now)
        for name in ("protocol_version", "server_info", "capabilities", "instructions")
        if (before := getattr(old, name)) != (now := getattr(new, name))
    }
    pairs, only_old, only_new = _paired(old.requests.values(), new.requests.values())
    return ServerComparison(
        new.name,
        old,
        new,
        facts,
        {name: _compare_lists(getattr(old, name), getattr(new, name)) for name in LIST_NAMES},
        pairs,
        only_old,
        only_new,
        _counts((change.uri or change.change for change in view.changes) for view in (old, new)),
        _counts((each.error.code for each in view.requests.values() if each.error is not None) for view in (old, new)),
    )


def _compare_lists(old: dict[str, dict[str, Any]], new: dict[str, dict[str, Any]]) -> ListComparison:
    return ListComparison(
        tuple(name for name in new if name not in old),
        tuple(name for name in old if name not in new),
        tuple(ItemChange(name, old[name], new[name]) for name in new if name in old and old[name] != new[name]),
    )


def _paired(
    old: Iterable[RequestView], new: Iterable[RequestView]
) -> tuple[tuple[RequestPair, ...], tuple[RequestView, ...], tuple[RequestView, ...]]:
    waiting: dict[str, list[RequestView]] = {}
    for request in _own(old):
        waiting.setdefault(_key(request), []).append(request)
    pairs: list[RequestPair] = []
    only_new: list[RequestView] = []
    for request in _own(new):
        if before := waiting.get(_key(request)):
            pairs.append(RequestPair(request.method, request.params, before.pop(0), request))
        else:
            only_new.append(request)
    return tuple(pairs), tuple(each for left in waiting.values() for each in left), tuple(only_new)


def _own(requests: Iterable[RequestView]) -> list[RequestView]:
    """Returns the requests of the user that ended."""
    return [request for request in requests if not request.aside and request.over]


def _key(request: RequestView) -> str:
    return request.method + dumps(in_order({key: each for key, each in request.params.items() if key != "_meta"}))


def _answer(request: RequestView) -> Any:
    if request.error is not None:
        return {"error": request.error.code, "message": request.error.message, "payload": request.error.payload}
    result: Any = request.result
    return {key: each for key, each in as_dict(result).items() if key != "_meta"} or result


def _counts(both: Iterable[Iterable[str]]) -> dict[str, tuple[int, int]]:
    old, new = (Counter(each) for each in both)
    return {name: (old[name], new[name]) for name in sorted({*old, *new})}
