"""The tools of the web server: which there are, and what a client may want to know before it lets an agent call them.

What they do is in `tools_fetch.py`, `tools_text.py` and `tools_watch.py`; a method's docstring is what agents are told.
"""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp_types import ToolAnnotations

from tidings.server.schemas import compact_tool
from tidings.web.tools.tools_fetch import FetchTools
from tidings.web.tools.tools_text import TextTools
from tidings.web.tools.tools_watch import WatchTools

if TYPE_CHECKING:
    from tidings.web.server import WebServer

# Nothing that a page could see is changed by any of them. `fetch` asks the world; it adds to what is stored here, which
# nobody has to be asked for.
_LOOKS = ToolAnnotations(read_only_hint=True, open_world_hint=True)
_THINKS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_WATCHES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=True)


def register(server: "WebServer") -> None:
    """Add the tools to a server."""
    fetch, text, watch = FetchTools(server), TextTools(server), WatchTools(server)
    for function, title, hints in (
        (fetch.fetch, "Fetch pages", _LOOKS),
        (fetch.extract, "Read bytes that you have", _LOOKS),
        (fetch.map, "List the pages of a site", _LOOKS),
        (text.chunk, "Cut a page into chunks", _THINKS),
        (text.compact, "Shorten a page", _THINKS),
        (text.diff, "See what changed on a page", _THINKS),
        (watch.watch, "Watch a page", _WATCHES),
        (watch.unwatch, "Stop watching a page", _WATCHES),
    ):
        _add(server, function, title, hints)


def _add(server: "WebServer", function: Callable[..., Any], title: str, hints: ToolAnnotations) -> None:
    told = " ".join((inspect.getdoc(function) or "").split())
    server.add_tool(function, title=title, description=told, annotations=hints)
    compact_tool(server, function.__name__)
