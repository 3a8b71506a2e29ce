"""Tools: what the server can do, a form for it from its schema, and what came of each call."""

from typing import Any, Final, cast

from textual.app import ComposeResult
from textual.containers import Horizontal

from tidings.inspector.reading import as_dict
from tidings.inspector.schemas import check, check_output, form
from tidings.inspector.tui.bars import Part
from tidings.inspector.tui.caller import Callee, CallerPane
from tidings.inspector.tui.column import Column
from tidings.inspector.tui.drawing import Line
from tidings.inspector.tui.feeds import Table
from tidings.inspector.tui.inks import Inks
from tidings.inspector.tui.rows import RowList
from tidings.inspector.tui.words import one_line
from tidings.inspector.views import ServerView

EMPTY: Final = (
    "This server has no tools, or they are not loaded yet. When its list changes, it is loaded again by itself."
)
_HINTS: Final = (
    ("readOnlyHint", True, "reads only", "ok"),
    ("destructiveHint", True, "may destroy", "bad"),
    ("idempotentHint", True, "repeatable", "soft"),
    ("openWorldHint", True, "reaches outside", "soft"),
)


class ToolsPane(CallerPane):
    """The tools of one server."""

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.table: Table[dict[str, Any]] = Table(lambda tool: tool.get("name"), tool_text)
        self.column = Column(self.table, draw_tool, noun="tool", empty=EMPTY)
        self._loaded: object = None
        self._tool: dict[str, Any] | None = None

    def compose(self) -> ComposeResult:
        with Horizontal(classes="split"):
            yield self.column
            yield self.caller

    def restart(self) -> None:
        self._loaded = self._tool = None
        self.table.reset()
        self.column.rows.restart()
        self.caller.show(None)

    def take(self) -> None:
        if not self.has_server:
            return
        loaded = (self.view.name, self.view.loaded_at.get("tools"), len(self.view.tools))
        if loaded != self._loaded:
            self._loaded = loaded
            self.table.update(list(self.view.tools.values()))
        self.column.extra = fault_parts(self.view, "tools")
        self.column.take()
        self._show(self.column.rows.chosen)
        self.caller.take()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self._show(event.item)

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        event.stop()
        self.caller.form.enter()

    def _show(self, tool: dict[str, Any] | None) -> None:
        if tool is not self._tool:
            self._tool = tool
            self.caller.show(self._callee(tool) if tool is not None else None)

    def _callee(self, tool: dict[str, Any]) -> Callee:
        name = str(tool.get("name"))
        schema, promised = tool.get("inputSchema"), tool.get("outputSchema")
        server = self.server

        def checked(result: Any) -> list[str] | None:
            if not isinstance(promised, dict) or as_dict(result).get("isError") is True:
                return None
            return [
                problem.message
                for problem in check_output(cast("Any", promised), as_dict(result).get("structuredContent"))
            ]

        return Callee(
            key=f"{self.view.name}/tools/{name}",
            name=name,
            verb="Call",
            form=form(schema),
            send=lambda value: server.call(name, value),
            asked=lambda value: ("tools/call", {"name": name, "arguments": value}),
            is_its=lambda request: request.method == "tools/call" and request.params.get("name") == name,
            description=str(tool.get("description") or tool.get("title") or ""),
            badges=badges(tool),
            check=lambda value: [problem.message for problem in check(schema, value)],
            check_result=checked,
        )


def tool_text(tool: dict[str, Any]) -> str:
    """What a filter looks in."""
    return f"{tool.get('name')} {tool.get('title') or ''} {tool.get('description') or ''}"


def draw_tool(tool: dict[str, Any], inks: Inks) -> list[tuple[Line, Line]]:
    """A row: the name, and what it is for."""
    description = tool.get("title") or tool.get("description") or ""
    return [([(one_line(tool.get("name")), inks["ink"]), ("  " + one_line(description), inks["faint"])], [])]


def badges(tool: dict[str, Any]) -> list[Part]:
    """What the server says of a tool: a hint, never a promise."""
    hints = tool.get("annotations")
    if not isinstance(hints, dict):
        return []
    given = cast("dict[str, Any]", hints)
    parts: list[Part] = []
    for key, wanted, words, ink in _HINTS:
        if given.get(key) is wanted:
            parts += [Part(f" {words} ", f"{ink} on hover"), Part(" ")]
    return parts


def fault_parts(view: ServerView, name: str) -> list[Part]:
    """What is wrong with a list: that it could not be loaded, or that items of it are not as the protocol says."""
    if (error := view.list_errors.get(name)) is not None:
        return [Part(f"not loaded: {one_line(error.message, 80)}", "bad")]
    bad, twice = len(view.malformed.get(name) or ()), len(view.duplicates.get(name) or ())
    words = [f"{bad} malformed"] * bool(bad) + [f"{twice} twice"] * bool(twice)
    return [Part(", ".join(words), "bad")] if words else []
