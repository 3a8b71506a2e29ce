"""The web server: pages of the web as resources that can be watched.

A page, from the site to a subscriber:

    fetch/           the only way to the network: checked, bounded, polite
    extract/         a body as text, in worker processes that can be killed
    documents/       text as documents: citations, warnings, chunks, summaries, differences
    pages.py         a URL to a version of its page
    store/           pages, versions and watches in SQLite, shared by processes
    ignore.py        what does not count as a change
    library.py       fetches, keeps and maps pages, and looks at them again
    watch/           looks at watched pages when they are due
    server.py        `WebServer`: publishes changes, and offers resources, tools and prompts

    browser/         pages as Chromium renders them
    site_map.py      the pages of a site
    page_options.py  the options of a fetch
    resources.py     `webfetch://` URIs: contents, lists, completions
    tools/           the tools
    prompts.py       the prompts
    settings.py      every limit and choice, in one table
    wiring.py        the running parts, made from the settings
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
