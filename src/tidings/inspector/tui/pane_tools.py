"""Tools: what the server can do, a form for it from its schema, and what came of each call."""

from typing import Any, Final, cast

from tidings.inspector.reading import as_dict
from tidings.inspector.schemas import check, check_output, form
from tidings.inspector.tui.bars import Part
from tidings.inspector.tui.caller import Callee
from tidings.inspector.tui.pane_listed import ListedPane

_HINTS: Final = (
    ("readOnlyHint", True, "reads only", "ok"),
    ("destructiveHint", True, "may destroy", "bad"),
    ("idempotentHint", True, "repeatable", "soft"),
    ("openWorldHint", True, "reaches outside", "soft"),
)


class ToolsPane(ListedPane):
    """The tools of one server."""

    LIST = "tools"
    EMPTY = "This server has no tools, or they are not loaded yet. When its list changes, it is loaded again by itself."

    def callee(self, item: dict[str, Any]) -> Callee:
        name = str(item.get("name"))
        schema, promised = item.get("inputSchema"), item.get("outputSchema")
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
            description=str(item.get("description") or item.get("title") or ""),
            badges=badges(item),
            check=lambda value: [problem.message for problem in check(schema, value)],
            check_result=checked,
        )


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
