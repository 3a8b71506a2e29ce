"""Which client speaks for a one-shot command: the small one where that will do, else the live one.

A command says what it wants to know (`question`) and what to do with it (`then`). What it wants to know is safe to ask
twice; a tool call is not, and goes to the live client from the beginning.

The server's lists for one-shot commands: all pages, with what is malformed put aside.
"""

import gc
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar, cast

from tidings._kit.suggest import closest
from tidings.cli.exits import OneShotFailed, failed, malformed
from tidings.cli.oneshot import Asked
from tidings.cli.terminal import listed
from tidings.errors import NotSupported, TidingsError

T = TypeVar("T")


class Conversation(Protocol):
    """A conversation with a server, as both clients have it. What they return is what the server sent."""

    @property
    def name(self) -> str:
        """The server, as people call it."""
        ...

    @property
    def transport(self) -> str:
        """How it is spoken to: stdio, http, sse."""
        ...

    @property
    def protocol_version(self) -> str:
        """The version that both sides agreed on."""
        ...

    @property
    def server_info(self) -> dict[str, Any] | None:
        """Who the server says it is."""
        ...

    @property
    def capabilities(self) -> dict[str, Any]:
        """What it says it can do."""
        ...

    @property
    def instructions(self) -> str | None:
        """What it tells models about its use."""
        ...

    @property
    def took(self) -> float:
        """Seconds until it was connected."""
        ...

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request."""
        ...

    def ping(self) -> float:
        """Seconds that the server takes to answer."""
        ...


def converse(asked: Asked, question: Callable[[Conversation], T], then: Callable[[T], object]) -> None:
    """Ask the server, and do something with the answer before the server is let go.

    Raises:
        Failed: There is no answer.
    """
    gc.disable()  # A process that ends in a moment has no garbage worth looking for.
    try:
        if not asked.is_ordinary or not _quickly(asked, question, then):
            _at_length(asked, question, then)
    except TidingsError as error:
        raise failed(error, is_command=asked.chosen.is_command) from error


def _quickly(asked: Asked, question: Callable[[Conversation], T], then: Callable[[T], object]) -> bool:
    """False if this is not for the small client after all."""
    from tidings.cli.wire_client import Unusual, WireClient

    client = WireClient(asked.chosen.entry, era=asked.era, timeout=asked.timeout, can_ask=asked.can_ask)
    try:
        client.open()
        answer = question(client)
        then(answer)
    except Unusual:
        return False
    finally:
        client.close()
    return True


def _at_length(asked: Asked, question: Callable[[Conversation], T], then: Callable[[T], object]) -> None:
    from tidings.cli.live_conversation import LiveTalk

    with LiveTalk(asked) as client:
        then(question(client))


Item = dict[str, Any]


@dataclass(frozen=True)
class ListKind:
    """One of the server's lists: what it is called, how it is asked for, and what its items are known by."""

    word: str
    one: str
    method: str
    key: str
    id: str
    capability: str


KINDS: Final = {
    kind.word: kind
    for kind in (
        ListKind("tools", "tool", "tools/list", "tools", "name", "tools"),
        ListKind("resources", "resource", "resources/list", "resources", "uri", "resources"),
        ListKind("templates", "template", "resources/templates/list", "resourceTemplates", "uriTemplate", "resources"),
        ListKind("prompts", "prompt", "prompts/list", "prompts", "name", "prompts"),
    )
}
_MAX_PAGES: Final = 1_000


@dataclass
class ListedItems:
    """A list as the server has it."""

    kind: ListKind
    items: list[Item] = field(default_factory=list[Item])
    malformed: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """What is no item, each with the reason."""

    @property
    def ids(self) -> list[str]:
        """What the items are known by."""
        return [str(item[self.kind.id]) for item in self.items]

    @property
    def twice(self) -> list[str]:
        """What several items are known by."""
        return [name for name, times in Counter(self.ids).items() if times > 1]

    def find(self, name: str) -> Item | None:
        """The item that is known by this."""
        return next((item for item in self.items if item[self.kind.id] == name), None)


def load(talk: Conversation, kind: ListKind) -> ListedItems:
    """One of the server's lists, all pages.

    Raises:
        TidingsError: The server does not give it.
        Failed: What it gives is no list.
    """
    found, cursor, seen = ListedItems(kind), None, set[str]()
    for _ in range(_MAX_PAGES):
        page = talk.request(kind.method, {} if cursor is None else {"cursor": cursor})
        items = page.get(kind.key)
        if not isinstance(items, list):
            raise _broken(kind, f"it has no list {kind.key!r}", page)
        for item in cast("list[Any]", items):
            if (reason := _complaint(kind, item)) is None:
                found.items.append(item)
            else:
                found.malformed.append({"list": kind.key, "item": item, "reason": reason})
        cursor = page.get("nextCursor")
        if not cursor:
            return found
        if not isinstance(cursor, str) or cursor in seen:
            raise _broken(kind, "its nextCursor is none, or leads back to where it was", {"nextCursor": cursor})
        seen.add(cursor)
    raise _broken(kind, f"it has more than {_MAX_PAGES:,} pages", {"nextCursor": cursor})


def load_if_any(talk: Conversation, kind: ListKind) -> ListedItems:
    """The same; empty if the server does not have such a list."""
    if kind.capability not in talk.capabilities:
        return ListedItems(kind)
    try:
        return load(talk, kind)
    except NotSupported:  # Many servers with resources know nothing of templates.
        return ListedItems(kind)


def _broken(kind: ListKind, reason: str, payload: Any) -> OneShotFailed:
    return malformed(f"The server's answer to {kind.method} is not what the protocol says: {reason}.", payload)


def _complaint(kind: ListKind, item: object) -> str | None:
    """What is wrong with an item; None if nothing is."""
    if not isinstance(item, dict):
        return "one is no object"
    given = cast("Item", item)
    for key in dict.fromkeys((kind.id, "name")):
        if not isinstance(given.get(key), str) or not given[key]:
            return f"the {key} of one is {_type(given.get(key))}, not a text"
    about = _about_schema(given) if kind.word == "tools" else _about_arguments(given) if kind.word == "prompts" else ""
    return f"{given[kind.id]!r}: {about}" if about else None


def _about_schema(tool: Item) -> str:
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict):
        return f"its inputSchema is {_type(schema)}, not an object"
    return "" if cast("Item", schema).get("type") == "object" else 'its inputSchema has no "type": "object"'


def _about_arguments(prompt: Item) -> str:
    arguments = prompt.get("arguments")
    if arguments is not None and not isinstance(arguments, list):
        return f"its arguments are {_type(arguments)}, not a list"
    for each in cast("list[Any]", arguments or []):
        if not isinstance(each, dict) or not isinstance(cast("Item", each).get("name"), str):
            return "one of its arguments has no name"
    return ""


def _type(value: object) -> str:
    return "missing" if value is None else json.dumps(value)[:40]


def unknown(found: ListedItems, name: str, more: Iterable[ListedItems] = ()) -> OneShotFailed:
    """The end of a command that named what the server does not have."""
    lists = [found, *more]
    one = found.kind.one
    names = [each for each_list in lists for each in each_list.ids]
    close = closest(name, names, most=3, cutoff=0.5)
    meant = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    has = " ".join(
        f"It has the {each.kind.word} {listed(each.ids)}." if each.ids else f"It has no {each.kind.word}."
        for each in lists
    )
    return OneShotFailed(f"The server has no {one} {name!r}.{meant} {has}", code=f"unknown-{one}", data={"has": names})


def title_of(item: Mapping[str, Any]) -> str:
    """What people call an item, and what it is for."""
    title, description = item.get("title"), item.get("description")
    texts = [text for text in (title, description) if isinstance(text, str) and text.strip()]
    return ": ".join(texts)
