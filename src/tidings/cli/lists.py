"""The server's lists for one-shot commands: all pages, with what is malformed put aside."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from tidings.cli.exits import Failed, malformed
from tidings.cli.talking import Talk
from tidings.cli.terminal import listed
from tidings.errors import NotSupported
from tidings.inspector.near import near

Item = dict[str, Any]


@dataclass(frozen=True)
class Kind:
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
        Kind("tools", "tool", "tools/list", "tools", "name", "tools"),
        Kind("resources", "resource", "resources/list", "resources", "uri", "resources"),
        Kind("templates", "template", "resources/templates/list", "resourceTemplates", "uriTemplate", "resources"),
        Kind("prompts", "prompt", "prompts/list", "prompts", "name", "prompts"),
    )
}
_MAX_PAGES: Final = 1_000


@dataclass
class Listed:
    """A list as the server has it."""

    kind: Kind
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


def load(talk: Talk, kind: Kind) -> Listed:
    """One of the server's lists, all pages.

    Raises:
        TidingsError: The server does not give it.
        Failed: What it gives is no list.
    """
    found, cursor, seen = Listed(kind), None, set[str]()
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


def load_if_any(talk: Talk, kind: Kind) -> Listed:
    """The same; empty if the server does not have such a list."""
    if kind.capability not in talk.capabilities:
        return Listed(kind)
    try:
        return load(talk, kind)
    except NotSupported:  # Many servers with resources know nothing of templates.
        return Listed(kind)


def _broken(kind: Kind, reason: str, payload: Any) -> Failed:
    return malformed(f"The server's answer to {kind.method} is not what the protocol says: {reason}.", payload)


def _complaint(kind: Kind, item: object) -> str | None:
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


def unknown(found: Listed, name: str, more: Iterable[Listed] = ()) -> Failed:
    """The end of a command that named what the server does not have."""
    lists = [found, *more]
    one = found.kind.one
    names = [each for each_list in lists for each in each_list.ids]
    close = near(name, names, most=3, cutoff=0.5)
    meant = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    has = " ".join(
        f"It has the {each.kind.word} {listed(each.ids)}." if each.ids else f"It has no {each.kind.word}."
        for each in lists
    )
    return Failed(f"The server has no {one} {name!r}.{meant} {has}", code=f"unknown-{one}", data={"has": names})


def title_of(item: Mapping[str, Any]) -> str:
    """What people call an item, and what it is for."""
    title, description = item.get("title"), item.get("description")
    texts = [text for text in (title, description) if isinstance(text, str) and text.strip()]
    return ": ".join(texts)
