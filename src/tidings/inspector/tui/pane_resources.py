"""Resources: a list or a tree, templates with their fields, subscriptions, contents, and what changed."""

from typing import ClassVar, Final, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from tidings.inspector.schemas import template_form
from tidings.inspector.tui.bars import Bar, Part
from tidings.inspector.tui.caller import Callee, CallerPane
from tidings.inspector.tui.column import Column
from tidings.inspector.tui.drawing import Line
from tidings.inspector.tui.feeds import Table
from tidings.inspector.tui.inks import Inks
from tidings.inspector.tui.pane_listed import fault_parts
from tidings.inspector.tui.results import error_page, failed_read, versions_of
from tidings.inspector.tui.rows import RowList
from tidings.inspector.tui.trees import ResourceRow, as_list, as_tree
from tidings.inspector.tui.uris import expand, matches
from tidings.inspector.tui.versions import Versions
from tidings.inspector.tui.words import clock, counted, one_line, size
from tidings.inspector.views import ServerView

EMPTY: Final = "This server lists no resources, or they are not loaded yet. When its list changes, it is loaded again."


class ResourcesPane(CallerPane):
    """The resources and templates of one server."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "subscribe", "Subscribe or unsubscribe", show=False),
        Binding("r", "read", "Read", show=False),
        Binding("w", "tree", "List or tree", show=False),
        Binding("v", "mode", "Changes, rendered, source", show=False),
        Binding("comma", "version(-1)", "Earlier version", show=False),
        Binding("full_stop", "version(1)", "Later version", show=False),
    ]

    DEFAULT_CSS = """
    ResourcesPane Caller { display: none; }
    ResourcesPane.template Caller { display: block; }
    ResourcesPane.template .detail { display: none; }
    """

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.table: Table[ResourceRow] = Table(lambda row: (row.kind, row.key), resource_text)
        self.column = Column(self.table, self._draw, noun="row", empty=EMPTY)
        self.versions = Versions()
        self._name, self._facts = Bar("ground"), Bar("ground")
        self.is_tree = False
        self.folded: set[str] = set()
        self._built: object = None
        self._template: str | None = None

    def compose(self) -> ComposeResult:
        with Horizontal(classes="split"):
            yield self.column
            with Vertical(classes="detail"):
                yield self._name
                yield self._facts
                yield self.versions
            yield self.caller

    def restart(self) -> None:
        self._built = self._template = None
        self.folded.clear()
        self.table.reset()
        self.column.rows.restart()
        self.caller.show(None)

    def take(self) -> None:
        if not self.has_server:
            return
        view = self.view
        loaded = [view.loaded_at.get(name) for name in ("resources", "templates")]
        built = (
            view.name,
            *loaded,
            len(view.resources),
            len(view.templates),
            self.is_tree,
            len(self.folded),
            *self._extra(),
        )
        if built != self._built:
            self._built = built
            self._build()
        self.column.said = counted(len(view.resources), "resource")
        if view.templates:
            self.column.said += ", " + counted(len(view.templates), "template")
        shape = "w as a list" if self.is_tree else "w as a tree"
        self.column.extra = [*fault_parts(view, "resources"), Part("  " + shape, "faint", "app.pane_do('tree')")]
        self.column.take()
        self._show(self.column.rows.chosen)

    def _extra(self) -> list[str]:
        """What is subscribed to, or was read, and is in no list: it is shown all the same."""
        listed = self.view.resources
        return [uri for uri in self.view.subscriptions if uri not in listed]

    def _build(self) -> None:
        view = self.view
        resources = dict(view.resources) | {uri: {"uri": uri, "name": "not in the list"} for uri in self._extra()}
        rows = as_tree(resources, view.templates, self.folded) if self.is_tree else as_list(resources, view.templates)
        self.table.update(rows)

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self._show(event.item)

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

    # What one can do

    @property
    def _row(self) -> ResourceRow | None:
        return self.column.rows.chosen

    def action_read(self) -> None:
        """Read the chosen resource."""
        row = self._row
        if row is not None and row.kind == "resource":
            self.desk.ask(lambda: self.server.read(row.key))

    def action_copy_as(self) -> None:
        """Reading the chosen resource, as something to paste."""
        if self._row is not None and self._row.kind == "resource":
            self.desk.copy_as("resources/read", {"uri": self._row.key})
        else:
            super().action_copy_as()

    def action_subscribe(self) -> None:
        """Subscribe to the chosen resource (a folder: to all that is in it), or end that."""
        row = self._row
        if row is None or row.kind == "template":
            return
        uri = row.key + "*" if row.kind == "folder" else row.key
        if uri in self.view.subscriptions:
            self.attempt(self.server.unsubscribe(uri))
        else:
            self.attempt(self.server.subscribe(uri))

    def action_tree(self) -> None:
        """From the list to the tree and back."""
        self.is_tree = not self.is_tree
        self.take()

    def action_mode(self) -> None:
        """The next way to look at the content."""
        self.versions.action_mode()

    def action_version(self, by: int) -> None:
        """An earlier or a later version."""
        self.versions.action_version(by)

    def go(self, key: str) -> None:
        rows = self.column.rows
        if not (rows.choose(("resource", key)) or rows.choose(("template", key))):
            self.folded.clear()
            self.take()
            rows.choose(("resource", key))

    # The chosen one

    def _show(self, row: ResourceRow | None) -> None:
        self.set_class(row is not None and row.kind == "template", "template")
        if row is None or row.kind != "template":
            self._template = None
            self._show_resource(row)
        else:
            if self._template != row.key:
                self._template = row.key
                self.caller.show(self._callee(row))
            self.caller.take()

    def _show_resource(self, row: ResourceRow | None) -> None:
        name, facts = self._name, self._facts
        if row is None:
            name.show([])
            facts.show([])
            self.versions.clear()
            return
        name.show([Part(one_line(row.key), "b-ink")], subscription_parts(self.view, row))
        if row.kind == "folder":
            facts.show([Part(counted(row.count, "resource"), "soft")])
            self.versions.clear("Enter folds and unfolds it. s subscribes to all that begins with this address.")
            return
        item = row.item or {}
        told = [str(item.get(key)) for key in ("title", "name", "mimeType") if item.get(key)]
        if isinstance(item.get("size"), int):
            told.append(size(item["size"]))
        told.append(str(item.get("description") or ""))
        facts.show([Part(one_line(" · ".join(part for part in dict.fromkeys(told) if part)), "soft")])
        versions = versions_of(self.view, row.key)
        if (error := failed_read(self.view, row.key, versions)) is not None:
            self.versions.clear()
            self.versions.reader.show(error_page(error), (row.key, "failed"))
        elif versions:
            self.versions.show(versions)
        else:
            self.versions.clear("Not read yet. r reads it; s subscribes, and shows what changes from then on.")

    def _callee(self, row: ResourceRow) -> Callee:
        template, server, item = row.key, self.server, row.item or {}

        async def complete(field: str, so_far: str, others: dict[str, str]) -> list[str]:
            return await server.complete("template", template, field, so_far, others)

        return Callee(
            key=f"{self.view.name}/templates/{template}",
            name=template,
            verb="Read",
            form=template_form(template),
            send=lambda value: server.read(expand(template, value)),
            asked=lambda value: ("resources/read", {"uri": expand(template, value)}),
            is_its=lambda request: (
                request.method == "resources/read" and matches(template, str(request.params.get("uri")))
            ),
            description=str(item.get("description") or item.get("title") or item.get("name") or ""),
            complete=complete,
        )

    def _draw(self, row: ResourceRow, inks: Inks) -> list[tuple[Line, Line]]:
        indent = "  " * row.depth
        if row.kind == "folder":
            mark = "▸ " if row.folded else "▾ "
            left: Line = [(indent + mark, inks["faint"]), (one_line(row.label), inks["soft"])]
            return [(left, [(f"{row.count:,}", inks["faint"])])]
        if row.kind == "template":
            return [([("{} ", inks["tools"]), (one_line(row.label), inks["ink"])], [("template", inks["faint"])])]
        subscription = self.view.subscriptions.get(row.key)
        mark, ink = ("● ", "accent") if subscription is not None else ("  ", "faint")
        right: Line = []
        if subscription is not None:
            if subscription.error is not None:
                right = [("failed", inks["bad"])]
            elif subscription.last_update is not None:
                right = [(f"{subscription.updates:,}  {clock(subscription.last_update)}", inks["faint"])]
            else:
                right = [("subscribed", inks["faint"])]
        label = row.label if self.is_tree else row.key
        return [([(indent, inks["faint"]), (mark, inks[ink]), (one_line(label), inks["ink"])], right)]


def resource_text(row: ResourceRow) -> str:
    """What a filter looks in."""
    item = row.item or {}
    return f"{row.key} {item.get('name') or ''} {item.get('title') or ''} {item.get('mimeType') or ''}"


def subscription_parts(view: ServerView, row: ResourceRow) -> list[Part]:
    """Whether it is subscribed to, and how to change that."""
    subscription = view.subscriptions.get(row.key + "*" if row.kind == "folder" else row.key)
    if subscription is None:
        return [Part("s subscribes", "faint", "app.pane_do('subscribe')")]
    if subscription.error is not None:
        return [Part("subscription failed: " + one_line(subscription.error.message, 80), "bad")]
    words = f"subscribed, {counted(subscription.updates, 'update')}"
    stale = [Part("  reading again", "warn")] if subscription.stale else []
    return [Part("● ", "accent"), Part(words, "soft"), *stale]
