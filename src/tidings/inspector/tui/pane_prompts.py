"""Prompts: what the server offers to say, a form for its arguments, and the messages it makes of them."""

from typing import Any, Final

from textual.app import ComposeResult
from textual.containers import Horizontal

from tidings.inspector.schemas import prompt_form
from tidings.inspector.tui.caller import Callee, CallerPane
from tidings.inspector.tui.column import Column
from tidings.inspector.tui.feeds import Table
from tidings.inspector.tui.pane_tools import draw_tool, fault_parts, tool_text
from tidings.inspector.tui.rows import RowList

EMPTY: Final = "This server has no prompts, or they are not loaded yet."


class PromptsPane(CallerPane):
    """The prompts of one server."""

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.table: Table[dict[str, Any]] = Table(lambda prompt: prompt.get("name"), tool_text)
        self.column = Column(self.table, draw_tool, noun="prompt", empty=EMPTY)
        self._loaded: object = None
        self._prompt: dict[str, Any] | None = None

    def compose(self) -> ComposeResult:
        with Horizontal(classes="split"):
            yield self.column
            yield self.caller

    def restart(self) -> None:
        self._loaded = self._prompt = None
        self.table.reset()
        self.column.rows.restart()
        self.caller.show(None)

    def take(self) -> None:
        if not self.has_server:
            return
        loaded = (self.view.name, self.view.loaded_at.get("prompts"), len(self.view.prompts))
        if loaded != self._loaded:
            self._loaded = loaded
            self.table.update(list(self.view.prompts.values()))
        self.column.extra = fault_parts(self.view, "prompts")
        self.column.take()
        self._show(self.column.rows.chosen)
        self.caller.take()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self._show(event.item)

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        event.stop()
        self.caller.form.enter()

    def _show(self, prompt: dict[str, Any] | None) -> None:
        if prompt is not self._prompt:
            self._prompt = prompt
            self.caller.show(self._callee(prompt) if prompt is not None else None)

    def _callee(self, prompt: dict[str, Any]) -> Callee:
        name, server = str(prompt.get("name")), self.server

        async def complete(field: str, so_far: str, others: dict[str, str]) -> list[str]:
            return await server.complete("prompt", name, field, so_far, others)

        return Callee(
            key=f"{self.view.name}/prompts/{name}",
            name=name,
            verb="Get",
            form=prompt_form(prompt.get("arguments")),
            send=lambda value: server.get_prompt(name, value),
            asked=lambda value: ("prompts/get", {"name": name, "arguments": value}),
            is_its=lambda request: request.method == "prompts/get" and request.params.get("name") == name,
            description=str(prompt.get("description") or prompt.get("title") or ""),
            complete=complete,
        )
