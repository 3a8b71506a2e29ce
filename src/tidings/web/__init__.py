"""The web-fetch server: pages as resources that can be watched.

One page, from the site to whoever listens:

    net/           the one way to the network: vetted, bounded, polite
    extract/       what a body says, read by processes that can be killed
    packets/       what that becomes: packets, citations, warnings, chunks, summaries
    pages/         from a URL to a version of its page
    store/         pages, versions and watches in SQLite, shared by processes; and what differs between versions
    watch/         looking at pages again: when, by whom, and what counts as a change
    library.py     the whole: fetches, reads, keeps, maps
    server.py      WebServer: publishes what changed, and offers resources, tools and prompts

    sites/         which pages a site has
    rendering/     pages as Chromium shows them
    resources/     what a webfetch:// URI gives; lists and completions
    tools/         what agents do
    prompts/       prompts, with the pages that they are about
    settings.py    every limit and choice, one table (setting.py: how one is read and checked)
    parts.py       the running parts, made of the settings
    needs.py       what the extra brings

`net` and `extract` know nothing of the others; `packets` knows their types; `store` and `pages` what is before them;
`watch` all of these. May import: `client`, `server`, `bus`, `changes`, `errors`, `lazy`.
"""

from typing import TYPE_CHECKING

from tidings._kit.lazy import lazy_names
from tidings.web.needs import PACKAGES, packages_missing

if TYPE_CHECKING:
    from tidings.web.server import WebServer
    from tidings.web.settings import Settings

__all__ = ["Settings", "WebServer"]

_HOMES = {"Settings": "tidings.web.settings", "WebServer": "tidings.web.server"}

if not TYPE_CHECKING:
    # The processes that only read pages start quickly, without what the server needs.
    __getattr__ = lazy_names(__name__, _HOMES, extra=PACKAGES, missing=packages_missing)
