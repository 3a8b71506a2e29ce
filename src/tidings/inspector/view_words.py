"""How it stands, in words: short, plain, and true at the moment they are read."""

import math
import shlex
from typing import Any, Protocol, cast

from tidings.inspector.view_items import Count, ErrorView, ListDifference


class Standing(Protocol):
    """What of a server the words are about."""

    state: str
    tries: int
    next_retry: float | None
    last_answer_at: float | None
    was_connected: bool
    error: ErrorView | None


def connection_words(view: Standing, now: float) -> str:  # noqa: PLR0911 - one for each state
    """The truth about a connection: "connected, answered 2 ms ago", "lost; trying again in 3 s", "not connected"."""
    match view.state:
        case "connected":
            if view.last_answer_at is None:
                return "connected"
            return f"connected, answered {span(now - view.last_answer_at)} ago"
        case "connecting":
            return f"{_trouble(view)}; trying again now" if view.error is not None else "connecting"
        case "error":
            if view.next_retry is None:
                return _trouble(view)
            return f"{_trouble(view)}; trying again {_until(view.next_retry - now)}"
        case "disconnected":
            return "not connected" if view.error is None else f"gave up: {view.error.message}"
        case _:
            return view.state


def _trouble(view: Standing) -> str:
    return "lost" if view.was_connected else "not reached"


def _until(seconds: float) -> str:
    return f"in {span(math.ceil(seconds))}" if seconds > 0 else "now"


def span(seconds: float) -> str:
    """A duration: "2 ms", "3 s", "5 min", "2 h", "3 days"."""
    if seconds < 1:
        return f"{max(round(seconds * 1000), 0)} ms"
    for most, size, name in ((60, 1, "s"), (3600, 60, "min"), (2 * 86400, 3600, "h")):
        if seconds < most:
            return f"{int(seconds / size)} {name}"
    return f"{int(seconds / 86400)} days"


def question_words(number: int) -> str:
    """How many questions wait: "1 question waits for you". Nothing if there is none."""
    return "" if not number else "1 question waits for you" if number == 1 else f"{number:,} questions wait for you"


def kept_words(what: str, count: Count) -> str:
    """How much there is: "12,480 messages kept, 0 dropped"."""
    return f"{count.kept:,} {what} kept, {count.dropped:,} dropped"


def difference_words(items: ListDifference) -> str:
    """What is different in a list: "search added; 12 removed"."""
    found = [_named(names, what) for what in ("added", "removed", "changed") if (names := getattr(items, what))]
    if items.more:
        found.append(f"{items.more:,} more")
    return "; ".join(found) or "nothing is different"


def _named(names: list[str], what: str) -> str:
    return f"{', '.join(names) if len(names) < 4 else f'{len(names):,}'} {what}"


def target_of(entry: dict[str, Any]) -> str:
    """What a server is reached by, in one line: its address or its command. Secrets are masked in it already."""
    words: list[Any] = []
    for key in ("target", "url", "command", "args"):
        found = entry.get(key)
        words += cast("list[Any]", found) if isinstance(found, list) else [] if found is None else [found]
    return shlex.join(str(each) for each in words)[:1_000] if len(words) > 1 else str(words[0] if words else "")
