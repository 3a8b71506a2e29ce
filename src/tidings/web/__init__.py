"""The web-fetch server: pages as resources that can be watched.

May import: `client`, `server`, `bus`, `changes`, `errors`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidings.web.needs import PACKAGES, packages_missing

if TYPE_CHECKING:
    from tidings.web.server import WebServer
    from tidings.web.settings import Settings

__all__ = ["Settings", "WebServer"]

_HOMES = {"Settings": "tidings.web.settings", "WebServer": "tidings.web.server"}


def __getattr__(name: str) -> Any:
    # Imported when they are used: the processes that only read pages start quickly.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(_HOMES[name])
    except ModuleNotFoundError as error:
        if error.name not in PACKAGES:
            raise
        raise ImportError(packages_missing([error.name]), name=error.name) from error
    return getattr(module, name)
