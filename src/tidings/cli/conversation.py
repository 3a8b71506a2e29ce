"""The conversation of a one-shot command with a server: which client speaks, and the server's lists. Imports no SDK."""

import gc
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tidings._kit.bounded_json import as_dict, as_dict_or_none, as_list
from tidings._kit.suggest import did_you_mean
from tidings._kit.text import harmless, listed, one_line
from tidings.cli.exits import OneShotFailed, invalid_answer
from tidings.cli.oneshot import OneShotOptions
from tidings.errors import NotSupported
from tidings.inspector.records import ListKind

if TYPE_CHECKING:
    from tidings.cli.live_conversation import LiveConversation
    from tidings.cli.wire_client import WireClient

    Client = WireClient | LiveConversation

Item = dict[str, Any]
T = TypeVar("T")

_MAX_PAGES: Final = 1_000


@dataclass
class ListedItems:
    """A list of the server, with malformed items apart."""

    kind: ListKind
    items: list[Item] = field(default_factory=list[Item])
    malformed: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Each with "list", "item" and "reason"."""

    @property
    def ids(self) -> list[str]:
        return [str(item[self.kind.id]) for item in self.items]

    def find(self, name: str) -> Item:
        for item in self.items:
            if item[self.kind.id] == name:
                return item
        raise unknown(name, self)


def load(client: "Client", kind: ListKind) -> ListedItems:
    """Returns one of the server's lists, with all pages."""
    found, cursor, seen = ListedItems(kind), None, set[str]()
    for _ in range(_MAX_PAGES):
        page = client.request(kind.method, {} if cursor is None else {"cursor": cursor})
        if not isinstance(page.get(kind.key), list):
            raise invalid_answer(kind.method, f"it has no list {kind.key!r}", page)
        for item in as_list(page[kind.key]):
            if (reason := _complaint(kind, item)) is None:
                found.items.append(item)
            else:
                found.malformed.append({"list": kind.key, "item": item, "reason": reason})
        cursor = page.get("nextCursor")
        if not cursor:
            return found
        if not isinstance(cursor, str) or cursor in seen:
            reason = "its nextCursor is not a string, or was used before"
            raise invalid_answer(kind.method, reason, {"nextCursor": cursor})
        seen.add(cursor)
    raise invalid_answer(kind.method, f"it has more than {_MAX_PAGES:,} pages", {"nextCursor": cursor})


def load_if_any(client: "Client", kind: ListKind) -> ListedItems:
    """Returns one of the server's lists; an empty one if the server does not support it."""
    with suppress(NotSupported):  # Many servers with resources have no templates.
        if kind.capability in client.server.capabilities:
            return load(client, kind)
    return ListedItems(kind)


def converse(options: OneShotOptions, ask: Callable[["Client"], T]) -> T:
    """Connects, and calls `ask`, which must be safe to repeat: if the wire client cannot, the live client does."""
    gc.disable()  # The process ends soon.
    if options.suits_wire_client:
        from tidings.cli.wire_client import Unusual, WireClient

        with suppress(Unusual), WireClient(options) as wire_client:
            return ask(wire_client)
    from tidings.cli.live_conversation import LiveConversation

    with LiveConversation(options) as client:
        return ask(client)


def unknown(name: str, found: ListedItems, *more: ListedItems) -> OneShotFailed:
    """Returns the end of a command that named an item that the server does not have."""
    one, lists = found.kind.one, (found, *more)
    names = [each for each_list in lists for each in each_list.ids]
    has = " ".join(
        f"It has the {each.kind.word} {listed(each.ids)}." if each.ids else f"It has no {each.kind.word}."
        for each in lists
    )
    return OneShotFailed(
        f"The server has no {one} {name!r}.{did_you_mean(name, names, most=3, cutoff=0.5)} {has}",
        code=f"unknown-{one}",
        data={"has": names},
    )


def summary_of(item: Mapping[str, Any]) -> str:
    """Returns the title and the first paragraph of the description of an item, as one line."""
    texts = [text for text in (item.get("title"), item.get("description")) if isinstance(text, str) and text.strip()]
    return one_line(harmless(": ".join(texts)).strip().split("\n\n")[0])


def _complaint(kind: ListKind, item: object) -> str | None:
    if (given := as_dict_or_none(item)) is None:
        return "an item is not an object"
    for key in dict.fromkeys((kind.id, "name")):
        if not isinstance(given.get(key), str) or not given[key]:
            return f"the {key} of an item is {_shown(given.get(key))}, not a string"
    schema: object = given.get("inputSchema")
    arguments: object = given.get("arguments")
    names = [as_dict(each).get("name") for each in as_list(given.get("arguments"))]
    about = ""
    if kind.word == "tools" and as_dict_or_none(schema) is None:
        about = f"its inputSchema is {_shown(schema)}, not an object"
    elif kind.word == "tools" and as_dict(schema).get("type") != "object":
        about = 'its inputSchema has no "type": "object"'
    elif kind.word == "prompts" and arguments is not None and not isinstance(arguments, list):
        about = f"its arguments are {_shown(arguments)}, not a list"
    elif kind.word == "prompts" and not all(isinstance(name, str) for name in names):
        about = "one of its arguments has no name"
    return f"{given[kind.id]!r}: {about}" if about else None


def _shown(value: object) -> str:
    return "missing" if value is None else json.dumps(value)[:40]
