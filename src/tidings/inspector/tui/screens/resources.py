"""Resources: a list or a tree, templates with their forms, subscriptions, contents and changes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, Literal, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from tidings._kit.text import counted
from tidings._kit.uri_templates import expand, matches
from tidings.inspector.forms import template_schema
from tidings.inspector.server import InspectedServer
from tidings.inspector.tui.screens.calls import Callee, CallerPane, fault_parts
from tidings.inspector.tui.screens.requests import error_page, failed_read
from tidings.inspector.tui.screens.versions import Versions
from tidings.inspector.tui.widgets.bars import Bar, BarPart, Line
from tidings.inspector.tui.widgets.lists import RowList, Table
from tidings.inspector.tui.words import clock, one_line, size
from tidings.inspector.view.items import RequestView
from tidings.inspector.view.view import ServerView


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """A resource, a template, or a folder of resources."""

    kind: Literal["resource", "template", "folder"]
    key: str  # The URI, the template, or the common beginning of the URIs in a folder.
    label: str
    depth: int = 0
    item: Mapping[str, Any] | None = None
    count: int = 0  # The number of resources in a folder, at all depths.
    folded: bool = False


def as_tree(resources: Mapping[str, Any], folded: Iterable[str]) -> list[ResourceRow]:
    """Returns the resources in the folders of their URIs."""
    root: dict[str, Any] = {}
    for uri in resources:
        node = root
        *folders, name = parts_of(uri)
        for folder in folders:
            node = cast("dict[str, Any]", node.setdefault(folder, {}))
        node["\0" + name] = uri  # A resource and a folder may have the same name.
    return _grow(root, "", 0, resources, frozenset(folded))


def parts_of(uri: str) -> list[str]:
    """Splits `vault://note/a/b.md` into `vault://`, `note/`, `a/`, `b.md`."""
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


class TemplateCallee(Callee):
    """A resource template, which is read."""

    method = "resources/read"
    verb = "Read"

    def __init__(self, server: InspectedServer, template: str, item: Mapping[str, Any]) -> None:
        super().__init__(server, template, item, template_schema(template))
        self.description = self.description or str(item.get("name") or "")
        self.complete = partial(server.complete, "template", template)

    def params(self, value: Any) -> dict[str, Any]:
        return {"uri": expand(self.name, value)}

    def is_its(self, request: RequestView) -> bool:
        return request.method == self.method and matches(self.name, str(request.params.get("uri")))


EMPTY: Final = "This server lists no resources, or they are not loaded yet. When its list changes, it is loaded again."


class ResourcesPane(CallerPane):
    """The resources and templates of one server."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "subscribe", "Subscribe or unsubscribe", show=False),
        Binding("r", "read", "Read", show=False),
        Binding("w", "tree", "List or tree", show=False),
        *Versions.BINDINGS,
    ]

    def __init__(self, tab: str) -> None:
        table: Table[ResourceRow] = Table(lambda row: (row.kind, row.key), resource_text)
        super().__init__(tab, table, self._draw, noun="row", empty=EMPTY)
        self.versions = Versions()
        self._name, self._facts = Bar("ground"), Bar("ground")
        self.is_tree = False
        self.folded: set[str] = set()
        self._built: object = None
        self._template: str | None = None

    def detail(self) -> ComposeResult:
        with Vertical(classes="detail"):
            yield self._name
            yield self._facts
            yield self.versions
        yield self.caller

    def restart(self) -> None:
        self._built = self._template = None
        self.folded.clear()
        super().restart()

    def update_list(self) -> None:
        view = self.view
        loaded = [view.loaded_at.get(name) for name in ("resources", "templates")]
        unlisted = [uri for uri in view.subscriptions if uri not in view.resources]
        counts = len(view.resources), len(view.templates), len(self.folded)
        built = (view.name, *loaded, *counts, self.is_tree, *unlisted)
        if built != self._built:
            self._built = built
            resources = view.resources | {uri: {"uri": uri, "name": "not in the list"} for uri in unlisted}
            rows = [ResourceRow("template", uri, uri, item=item) for uri, item in view.templates.items()]
            if self.is_tree:
                rows += as_tree(resources, self.folded)
            else:
                rows += [ResourceRow("resource", uri, uri, item=item) for uri, item in resources.items()]
            self.rows.model.update(rows)
        self.column.said = counted(len(view.resources), "resource")
        if view.templates:
            self.column.said += ", " + counted(len(view.templates), "template")
        shape = "w as a list" if self.is_tree else "w as a tree"
        self.column.extra = [*fault_parts(view, "resources"), BarPart("  " + shape, "faint", "app.pane_do('tree')")]

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        event.stop()
        row = cast("ResourceRow", event.item)
        if row.kind == "folder":
            self.folded ^= {row.key}
            self.take()
        elif row.kind == "template":
            self.caller.form.enter()
        else:
            self.action_read()

    def action_read(self) -> None:
        row = self.rows.chosen
        if row is not None and row.kind == "resource":
            self.inspector.ask(lambda: self.server.read(row.key))

    def action_copy_as(self) -> None:
        row = self.rows.chosen
        if row is not None and row.kind == "resource":
            self.inspector.copy_as("resources/read", {"uri": row.key})
        else:
            super().action_copy_as()

    def action_subscribe(self) -> None:
        """Subscribes to the selected resource (a folder: to everything in it), or unsubscribes."""
        row = self.rows.chosen
        if row is None or row.kind == "template":
            return
        uri = row.key + "*" if row.kind == "folder" else row.key
        subscribed = uri in self.view.subscriptions
        self.inspector.attempt(self.server.unsubscribe(uri) if subscribed else self.server.subscribe(uri))

    def action_tree(self) -> None:
        self.is_tree = not self.is_tree
        self.take()

    def action_mode(self) -> None:
        self.versions.action_mode()

    def action_version(self, by: int) -> None:
        self.versions.action_version(by)

    def go(self, key: str) -> None:
        if not (self.rows.choose(("resource", key)) or self.rows.choose(("template", key))):
            self.folded.clear()
            self.take()
            self.rows.choose(("resource", key))

    def show_item(self, row: ResourceRow | None) -> None:
        self.set_class(row is not None and row.kind == "template", "template")
        if row is None or row.kind != "template":
            self._template = None
            self._show_resource(row)
        else:
            if self._template != row.key:
                self._template = row.key
                self.caller.show(TemplateCallee(self.server, row.key, row.item or {}))
            self.caller.take()

    def _show_resource(self, row: ResourceRow | None) -> None:
        if row is None:
            self._name.show([])
            self._facts.show([])
            self.versions.clear()
            return
        self._name.show([BarPart(one_line(row.key), "b-ink")], subscription_parts(self.view, row))
        if row.kind == "folder":
            self._facts.show([BarPart(counted(row.count, "resource"), "soft")])
            self.versions.clear("Enter folds and unfolds it. s subscribes to all that begins with this address.")
            return
        item = row.item or {}
        told = [str(item.get(key) or "") for key in ("title", "name", "mimeType")]
        told += [size(item["size"]) if isinstance(item.get("size"), int) else "", str(item.get("description") or "")]
        self._facts.show([BarPart(one_line(" · ".join(filter(None, dict.fromkeys(told)))), "soft")])
        if (error := failed_read(self.view, row.key)) is not None:
            self.versions.clear()
            self.versions.reader.show(error_page(error), (row.key, "failed"))
        elif versions := self.view.contents.get(row.key):
            self.versions.show(versions)
        else:
            self.versions.clear("Not read yet. r reads it; s subscribes, and shows what changes from then on.")

    def _draw(self, row: ResourceRow) -> list[tuple[Line, Line]]:
        indent = "  " * row.depth
        if row.kind == "folder":
            mark = "▸ " if row.folded else "▾ "
            left: Line = [(indent + mark, "faint"), (one_line(row.label), "soft")]
            return [(left, [(f"{row.count:,}", "faint")])]
        if row.kind == "template":
            return [([("{} ", "tools"), (one_line(row.label), "ink")], [("template", "faint")])]
        subscription = self.view.subscriptions.get(row.key)
        label = (one_line(row.label if self.is_tree else row.key), "ink")
        if subscription is None:
            return [([(f"{indent}  ", "faint"), label], [])]
        state = ("subscribed", "faint")
        if subscription.error is not None:
            state = ("failed", "bad")
        elif subscription.last_update is not None:
            state = (f"{subscription.updates:,}  {clock(subscription.last_update)}", "faint")
        return [([(indent, "faint"), ("● ", "accent"), label], [state])]


def resource_text(row: ResourceRow) -> str:
    """Returns the text for a filter."""
    item = row.item or {}
    return f"{row.key} {item.get('name') or ''} {item.get('title') or ''} {item.get('mimeType') or ''}"


def subscription_parts(view: ServerView, row: ResourceRow) -> list[BarPart]:
    """Returns the state of a subscription, and how to change it."""
    subscription = view.subscriptions.get(row.key + "*" if row.kind == "folder" else row.key)
    if subscription is None:
        return [BarPart("s subscribes", "faint", "app.pane_do('subscribe')")]
    if subscription.error is not None:
        return [BarPart("subscription failed: " + one_line(subscription.error.message, 80), "bad")]
    words = f"subscribed, {counted(subscription.updates, 'update')}"
    stale = [BarPart("  reading again", "warn")] if subscription.stale else []
    return [BarPart("● ", "accent"), BarPart(words, "soft"), *stale]
