"""Resources: their list, templates with their forms, subscriptions, contents and changes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from tidings._kit.text import counted
from tidings.inspector.tui.screens.calls import CallerPane, fault_parts, template
from tidings.inspector.tui.screens.live import Versions
from tidings.inspector.tui.screens.tasks import error_page, failed_read
from tidings.inspector.tui.widgets.bars import Bar, BarPart, Drawn, clock, one_line, size
from tidings.inspector.tui.widgets.lists import RowList, Table
from tidings.inspector.tui.widgets.text import PlainPage, TextPage, TextView
from tidings.inspector.view.view import ServerView


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """A resource or a template."""

    kind: Literal["resource", "template"]
    key: str  # The URI, or the template.
    item: Mapping[str, Any] | None = None


EMPTY: Final = "This server lists no resources, or they are not loaded yet. When its list changes, it is loaded again."


class ResourcesPane(CallerPane):
    """The resources and templates of one server."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "subscribe", "Subscribe or unsubscribe", show=False),
        Binding("r", "read", "Read", show=False),
        *Versions.BINDINGS,
    ]

    def __init__(self, tab: str) -> None:
        table: Table[ResourceRow] = Table(lambda row: (row.kind, row.key), resource_text)
        super().__init__(tab, table, self._draw, noun="row", empty=EMPTY)
        self.versions = Versions()
        self._name, self._facts = Bar("ground"), TextView(classes="about")
        self._facts.can_focus = False
        self._built: object = None
        self._template: str | None = None

    def detail(self) -> ComposeResult:
        with Vertical(classes="detail"):
            yield from (self._name, self._facts, self.versions)
        yield self.caller

    def restart(self) -> None:
        self._built = self._template = None
        super().restart()

    def update_list(self) -> None:
        view = self.view
        loaded = [view.loaded_at.get(name) for name in ("resources", "templates")]
        unlisted = [uri for uri in view.subscriptions if uri not in view.resources]
        built = (view.name, *loaded, len(view.resources), len(view.templates), *unlisted)
        if built != self._built:
            self._built = built
            resources = view.resources | {uri: {"uri": uri, "name": "not in the list"} for uri in unlisted}
            rows = [ResourceRow("template", uri, item) for uri, item in view.templates.items()]
            rows += [ResourceRow("resource", uri, item) for uri, item in resources.items()]
            self.rows.model.update(rows)
        self.column.said = counted(len(view.resources), "resource")
        if view.templates:
            self.column.said += ", " + counted(len(view.templates), "template")
        self.column.extra = fault_parts(view, "resources")

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        event.stop()
        row = cast("ResourceRow", event.item)
        if row.kind == "template":
            self.caller.form.enter()
        else:
            self.action_read()

    def action_read(self) -> None:
        row = self.rows.chosen
        if row is not None and row.kind == "resource":
            self.inspector.do(lambda: self.server.read(row.key))

    def action_subscribe(self) -> None:
        row = self.rows.chosen
        if row is None or row.kind == "template":
            return
        change = self.server.unsubscribe if row.key in self.view.subscriptions else self.server.subscribe
        self.inspector.attempt(change(row.key))

    def action_mode(self) -> None:
        self.versions.action_mode()

    def action_version(self, by: int) -> None:
        self.versions.action_version(by)

    def go(self, key: str) -> None:
        if not self.rows.choose(("resource", key)):
            self.rows.choose(("template", key))

    def show_item(self, row: ResourceRow | None) -> None:
        chosen, self._template = self._template, row.key if row is not None and row.kind == "template" else None
        self.set_class(self._template is not None, "template")
        if row is None:
            self._name.show([])
            self._facts.show(TextPage())
            self.versions.clear()
            return
        if row.kind == "template":
            if self._template != chosen:
                self.caller.show(template(self.server, row.key, row.item or {}))
            self.caller.take()
            return
        self._name.show([BarPart(one_line(row.key), "b-ink")], subscription_parts(self.view, row))
        item = row.item or {}
        told = [row.key] * (len(row.key) > self._name.size.width - 20)
        told += [str(item.get(key) or "") for key in ("title", "name", "mimeType")]
        told += [size(item["size"]) if isinstance(item.get("size"), int) else "", str(item.get("description") or "")]
        self._facts.show(PlainPage(one_line(" · ".join(filter(None, dict.fromkeys(told))), 600), "soft"))
        if (error := failed_read(self.view, row.key)) is not None:
            self.versions.clear()
            self.versions.reader.show(error_page(error), (row.key, "failed"))
        elif versions := self.view.contents.get(row.key):
            self.versions.show(versions)
        else:
            self.versions.clear("Not read yet. r reads it; s subscribes, and shows what changes from then on.")

    def _draw(self, row: ResourceRow) -> Drawn:
        if row.kind == "template":
            place = re.sub(r"\{[?&][^}]*\}", "", row.key)  # Its options tell little, and the form has them.
            return [([("{} ", "tools"), (one_line(place or row.key), "ink")], [])]
        subscription = self.view.subscriptions.get(row.key)
        label = (one_line(row.key), "ink")
        if subscription is None:
            return [([("  ", "faint"), label], [])]
        updates = f"{subscription.updates:,}  {clock(subscription.last_update)}"
        state = (updates if subscription.last_update is not None else "subscribed", "faint")
        return [([("● ", "accent"), label], [state if subscription.error is None else ("failed", "bad")])]


def resource_text(row: ResourceRow) -> str:
    """Returns the text for a filter."""
    item = row.item or {}
    return f"{row.key} {item.get('name') or ''} {item.get('title') or ''} {item.get('mimeType') or ''}"


def subscription_parts(view: ServerView, row: ResourceRow) -> list[BarPart]:
    """Returns the state of a subscription, and how to change it."""
    subscription = view.subscriptions.get(row.key)
    if subscription is None:
        return [BarPart("s subscribes", "faint", "app.pane_do('subscribe')")]
    if subscription.error is not None:
        return [BarPart("subscription failed: " + one_line(subscription.error.message, 80), "bad")]
    words = f"subscribed, {counted(subscription.updates, 'update')}"
    stale = [BarPart("  reading again", "warn")] if subscription.stale else []
    return [BarPart("● ", "accent"), BarPart(words, "soft"), *stale]
