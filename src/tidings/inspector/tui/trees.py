"""Resources as rows: a list in the server's order, or a tree by the parts of their addresses."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """A resource, a template, or a folder that holds some."""

    kind: Literal["resource", "template", "folder"]
    key: str
    """The URI, the template, or what the addresses in a folder begin with."""
    label: str
    depth: int = 0
    item: Mapping[str, Any] | None = None
    count: int = 0
    """How many resources a folder holds, at all depths."""
    folded: bool = False


def as_list(resources: Mapping[str, Any], templates: Mapping[str, Any]) -> list[ResourceRow]:
    """The templates, then the resources, in the server's order."""
    rows = [ResourceRow("template", uri, uri, item=item) for uri, item in templates.items()]
    rows += [ResourceRow("resource", uri, uri, item=item) for uri, item in resources.items()]
    return rows


def as_tree(resources: Mapping[str, Any], templates: Mapping[str, Any], folded: Iterable[str]) -> list[ResourceRow]:
    """The templates, then the resources under the folders that their addresses name."""
    closed = frozenset(folded)
    rows = [ResourceRow("template", uri, uri, item=item) for uri, item in templates.items()]
    root: dict[str, Any] = {}
    for uri in resources:
        node = root
        *folders, name = parts_of(uri)
        for folder in folders:
            node = cast("dict[str, Any]", node.setdefault(folder, {}))
        node["\0" + name] = uri  # A resource and a folder may have the same name.
    return rows + _grow(root, "", 0, resources, closed)


def parts_of(uri: str) -> list[str]:
    """`vault://note/a/b.md` as `vault://`, `note/`, `a/`, `b.md`."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return [uri]
    *folders, name = rest.split("/")
    return [scheme + separator, *(folder + "/" for folder in folders), name or "/"]


def _grow(
    node: dict[str, Any], prefix: str, depth: int, resources: Mapping[str, Any], closed: frozenset[str]
) -> list[ResourceRow]:
    rows: list[ResourceRow] = []
    for name, below in node.items():
        if isinstance(below, str):
            rows.append(ResourceRow("resource", below, name[1:], depth, resources[below]))
            continue
        path = prefix + name
        is_folded = path in closed
        inner = _grow(below, path, depth + 1, resources, frozenset() if is_folded else closed)
        count = sum(row.kind == "resource" for row in inner) + sum(row.count for row in inner if row.folded)
        rows.append(ResourceRow("folder", path, name, depth, count=count, folded=is_folded))
        if not is_folded:
            rows += inner
    return rows
