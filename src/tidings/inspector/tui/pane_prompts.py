"""Prompts: what the server offers to say, a form for its arguments, and the messages it makes of them."""

from typing import Any

from tidings.inspector.schemas import prompt_form
from tidings.inspector.tui.caller import Callee
from tidings.inspector.tui.pane_listed import ListedPane


class PromptsPane(ListedPane):
    """The prompts of one server."""

    LIST = "prompts"
    EMPTY = "This server has no prompts, or they are not loaded yet."

    def callee(self, item: dict[str, Any]) -> Callee:
        name, server = str(item.get("name")), self.server

        async def complete(field: str, so_far: str, others: dict[str, str]) -> list[str]:
            return await server.complete("prompt", name, field, so_far, others)

        return Callee(
            key=f"{self.view.name}/prompts/{name}",
            name=name,
            verb="Get",
            form=prompt_form(item.get("arguments")),
            send=lambda value: server.get_prompt(name, value),
            asked=lambda value: ("prompts/get", {"name": name, "arguments": value}),
            is_its=lambda request: request.method == "prompts/get" and request.params.get("name") == name,
            description=str(item.get("description") or item.get("title") or ""),
            complete=complete,
        )
