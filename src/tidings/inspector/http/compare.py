"""Two sessions side by side, as the page shows them: differences in the lists, the answers and the times of servers.

Servers are paired by name; in two sessions of one server each, these two. Requests are paired by method and parameters,
in order: the second `search` for "x" with the second.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from tidings._kit.bounded_json import as_dict, dumps, in_order
from tidings.inspector.http.rows import shown_diff
from tidings.inspector.records import LIST_NAMES
from tidings.inspector.view.diffs import diff_values
from tidings.inspector.view.items import RequestView
from tidings.inspector.view.view import ServerView, SessionView

_MOST: Final = 200  # Changed items, and requests, that are listed for one server. The numbers are those of all.


def compare(old: SessionView, new: SessionView) -> dict[str, Any]:
    """Returns the servers of both sessions with their differences, and the names of those that only one has."""
    names = [name for name in old.servers if name in new.servers]
    pairs = [(old.servers[name], new.servers[name]) for name in names]
    if len(old.servers) == len(new.servers) == 1:
        pairs = list(zip(old.servers.values(), new.servers.values(), strict=True))
        names = [*old.servers, *new.servers]
    return {
        "servers": [_compare_servers(*pair) for pair in pairs],
        "only_old": [name for name in old.servers if name not in names],
        "only_new": [name for name in new.servers if name not in names],
    }


def _compare_servers(old: ServerView, new: ServerView) -> dict[str, Any]:
    facts = {
        name: [before, now]
        for name in ("protocol_version", "server_info", "capabilities", "instructions")
        if (before := getattr(old, name)) != (now := getattr(new, name))
    }
    lists = {name: _compare_lists(getattr(old, name), getattr(new, name)) for name in LIST_NAMES}
    pairs, only_old, only_new = _paired(old, new)
    different = [(one, other) for one, other in pairs if one.status != other.status or _answer(one) != _answer(other)]
    list_differs = any(each["added"] or each["removed"] or each["changed"] for each in lists.values())
    return {
        "name": new.name,
        "same": not facts and not list_differs and not different,
        "facts": facts,
        "lists": lists,
        "requests": {"total": len(pairs), "different": len(different)},
        "different": [_compare_answers(*pair) for pair in different[:_MOST]],
        "only_old": [each.title for each in only_old[:_MOST]],
        "only_new": [each.title for each in only_new[:_MOST]],
        # For each URI or list: the number of kept changes, old and new. For each error code of a request: likewise.
        "changes": _counts((change.uri or change.change for change in view.changes) for view in (old, new)),
        "errors": _counts((each.error.code for each in view.requests.values() if each.error) for view in (old, new)),
    }


def _compare_lists(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    changed = [name for name in new if name in old and old[name] != new[name]]
    return {
        "added": [name for name in new if name not in old],
        "removed": [name for name in old if name not in new],
        "changed": [{"name": each, "diff": shown_diff(diff_values(old[each], new[each]))} for each in changed[:_MOST]],
        "changed_total": len(changed),
    }


def _paired(
    old: ServerView, new: ServerView
) -> tuple[list[tuple[RequestView, RequestView]], list[RequestView], list[RequestView]]:
    """Returns the requests of the user that ended: pairs of the same one, and those of only one session."""
    before, after = (
        [request for request in view.requests.values() if not request.aside and request.over] for view in (old, new)
    )
    waiting: dict[str, list[RequestView]] = {}
    for request in before:
        waiting.setdefault(_key(request), []).append(request)
    pairs: list[tuple[RequestView, RequestView]] = []
    only_new: list[RequestView] = []
    for request in after:
        if same := waiting.get(_key(request)):
            pairs.append((same.pop(0), request))
        else:
            only_new.append(request)
    return pairs, [each for left in waiting.values() for each in left], only_new


def _key(request: RequestView) -> str:
    return request.method + dumps(in_order({key: each for key, each in request.params.items() if key != "_meta"}))


def _answer(request: RequestView) -> Any:
    if request.error is not None:
        return {"error": request.error.code, "message": request.error.message, "payload": request.error.payload}
    result: Any = request.result
    return {key: each for key, each in as_dict(result).items() if key != "_meta"} or result


def _compare_answers(old: RequestView, new: RequestView) -> dict[str, Any]:
    return {
        "method": new.method,
        "title": new.title,
        "params": new.params,
        "old": {"status": old.status, "took": old.took},
        "new": {"status": new.status, "took": new.took},
        "slower": None if old.took is None or new.took is None else new.took - old.took,
        "diff": shown_diff(diff_values(_answer(old), _answer(new))),
    }


def _counts(both: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    old, new = (Counter(each) for each in both)
    return {name: [old[name], new[name]] for name in sorted({*old, *new})}
