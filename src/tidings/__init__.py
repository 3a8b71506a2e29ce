"""Live MCP for Python: publish a change once, and every subscriber hears of it; connect once, and stay fresh.

The names below are the public API; everything else may change. They are imported when they are first used, so that
`import tidings` and the one-shot commands start quickly.
"""

from typing import TYPE_CHECKING

from tidings._kit.lazy import lazy_names
from tidings._version import __version__

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

_NAMES = {
    "changes": (
        "Change",
        "Cursor",
        "PromptsListChanged",
        "ResourceUpdated",
        "ResourcesListChanged",
        "ToolsListChanged",
    ),
    "client": ("LiveClient", "connect"),
    "errors": ("TidingsError",),
    "server": ("LiveServer", "attach"),
}
_HOMES = {name: f"tidings.{file}" for file, names in _NAMES.items() for name in names}

if not TYPE_CHECKING:  # A type checker is to find names that are misspelt.
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
