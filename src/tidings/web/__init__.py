"""The web server: pages of the web as resources that can be watched.

A page goes from its site to a subscriber through `fetch/` (checked, bounded, polite: the only way to the network),
`extract/` (a body as text, in worker processes that can be killed), `documents/` (citations, warnings, chunks,
differences), `pages.py` (a URL to a version of its page), `store/` (versions and watches in SQLite, shared by
processes), `library.py` (fetched, kept, looked at again), `watch/` (when they are due) and `server.py` (`WebServer`).
"""

from functools import partial
from typing import TYPE_CHECKING

from tidings._kit.lazy import lazy_names, packages_missing

if TYPE_CHECKING:
    from tidings.web.server import WebServer
    from tidings.web.settings import Settings

__all__ = ["Settings", "WebServer"]

PACKAGES = ("lxml", "pypdfium2", "protego", "httpcore2", "h2", "brotli", "idna", "platformdirs")  # of the extra `web`

_HOMES = {"Settings": "tidings.web.settings", "WebServer": "tidings.web.server"}

if not TYPE_CHECKING:
    # Worker processes start quickly, without what the server needs.
    __getattr__ = lazy_names(
        __name__, _HOMES, extra=PACKAGES, missing=partial(packages_missing, "The web server", extra="web")
    )
