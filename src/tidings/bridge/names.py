"""The names of upstream items as clients of the bridge see them.

With one server, everything keeps its name. With several, tools and prompts get the server's name and `_` in front, and
the schemes of URIs get it with a `+`: `list_issues` of "github" is `github_list_issues`, and its `repo://a/b` is
`github+repo://a/b`. Both are reversible and do not depend on what the other servers have, so that a name stays the same
while servers come and go.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from tidings._kit.bounded_json import as_dict

Json = dict[str, Any]
Rename = Callable[[str], str]

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)")
_NAME: Final = re.compile(r"[a-z][a-z0-9.-]*")
_LONGEST_NAME: Final = 32


def server_name(text: str, taken: Mapping[str, object]) -> str:
    """Returns a short name for a server, made from any text, that is not `taken`."""
    name = re.sub(r"[^a-z0-9.-]+", "-", text.lower()).strip("-.")[:_LONGEST_NAME].strip("-.")
    if not _NAME.fullmatch(name):
        name = f"server-{name}".rstrip("-")
    number, unique = 1, name
    while unique in taken:
        number += 1
        unique = f"{name}-{number}"
    return unique


class Naming:
    """The names of one server's items: `out` for clients, `back` for the server. `prefix` is empty for the only one."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def name_out(self, name: str) -> str:
        return f"{self.prefix}_{name}" if self.prefix else name

    def name_back(self, name: str) -> str:
        return name.removeprefix(f"{self.prefix}_") if self.prefix else name

    def uri_out(self, uri: str) -> str:
        return f"{self.prefix}+{uri}" if self.prefix else uri

    def uri_back(self, uri: str) -> str:
        return uri.removeprefix(f"{self.prefix}+") if self.prefix else uri

    def item_out(self, kind: str, item: Mapping[str, Any]) -> Json:
        """Returns an item of a list as clients see it."""
        if not self.prefix:
            return dict(item)
        match kind:
            case "resources":
                return {**item, "uri": self.uri_out(str(item["uri"]))}
            case "templates":
                return {**item, "uriTemplate": self.uri_out(str(item["uriTemplate"]))}
            case _:
                return {**item, "name": self.name_out(str(item["name"]))}

    def result_out(self, result: Json) -> Json:
        """Returns a result in which the URIs of resources are those that clients use."""
        if not self.prefix:
            return result
        renamed = dict(result)
        if isinstance(blocks := result.get("content"), list):
            renamed["content"] = [self._block_out(block) for block in cast("list[Any]", blocks)]
        if isinstance(contents := result.get("contents"), list):
            renamed["contents"] = [self._with_uri(each) for each in cast("list[Any]", contents)]
        if isinstance(messages := result.get("messages"), list):
            renamed["messages"] = [self._message_out(message) for message in cast("list[Any]", messages)]
        return renamed

    def _message_out(self, message: Any) -> Any:
        known = as_dict(message)
        return {**known, "content": self._block_out(known["content"])} if "content" in known else message

    def _block_out(self, block: Any) -> Any:
        known = as_dict(block)
        if known.get("type") == "resource_link":
            return self._with_uri(block)
        if known.get("type") == "resource":
            return {**known, "resource": self._with_uri(known.get("resource"))}
        return block

    def _with_uri(self, holder: Any) -> Any:
        known = as_dict(holder)
        return {**known, "uri": self.uri_out(known["uri"])} if isinstance(known.get("uri"), str) else holder


def owner_of_uri(uri: str, prefixes: Mapping[str, object]) -> str | None:
    """Returns the prefix among `prefixes` that the scheme of a URI begins with."""
    scheme = _SCHEME.match(uri)
    prefix, plus, _ = (scheme[0] if scheme else "").partition("+")
    return prefix if plus and prefix in prefixes else None


def owner_of_name(name: str, prefixes: Mapping[str, object]) -> str | None:
    """Returns the prefix among `prefixes` that a tool or prompt has: the longest, if there are several."""
    fitting = [prefix for prefix in prefixes if name.startswith(f"{prefix}_")]
    return max(fitting, key=len, default=None)
