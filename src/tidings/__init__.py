"""Live MCP for Python: publish a change once, and every subscriber hears of it; connect once, and stay fresh.

The names below are the public API; everything else may change. They are imported when they are first used, so that
`import tidings` and the one-shot commands start quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidings.changes import (
        Change,
        Cursor,
        PromptsListChanged,
        ResourcesListChanged,
        ResourceUpdated,
        ToolsListChanged,
    )
    from tidings.client import LiveClient, connect
    from tidings.errors import TidingsError
    from tidings.server import LiveServer, attach

__version__ = "0.1.0"

__all__ = [
    "Change",
    "Cursor",
    "LiveClient",
    "LiveServer",
    "PromptsListChanged",
    "ResourceUpdated",
    "ResourcesListChanged",
    "TidingsError",
    "ToolsListChanged",
    "__version__",
    "attach",
    "connect",
]

_HOMES = {
    "Change": "tidings.changes",
    "Cursor": "tidings.changes",
    "LiveClient": "tidings.client",
    "LiveServer": "tidings.server",
    "PromptsListChanged": "tidings.changes",
    "ResourceUpdated": "tidings.changes",
    "ResourcesListChanged": "tidings.changes",
    "TidingsError": "tidings.errors",
    "ToolsListChanged": "tidings.changes",
    "attach": "tidings.server",
    "connect": "tidings.client",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
