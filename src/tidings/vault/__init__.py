"""The Obsidian vault server: watching files, reading notes, the index, its resources and tools.

May import: `client`, `server`, `bus`, `changes`, `errors`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidings.vault.files.paths import VaultUnusable
    from tidings.vault.server import VaultServer

__all__ = ["VaultServer", "VaultUnusable"]

_HOMES = {"VaultServer": "tidings.vault.server", "VaultUnusable": "tidings.vault.files.paths"}


def __getattr__(name: str) -> Any:
    # Imported when they are used: the processes that only parse notes start quickly.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
