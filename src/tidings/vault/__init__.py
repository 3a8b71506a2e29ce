"""The Obsidian vault server.

One edit of a note, from the disk to whoever listens:

    watch.py       sees that files may have changed
    keeper.py      keeps the index equal to the disk; searches.py compares searches, behind all else
    library.py     the whole: asks (through readers.py), writes, is told
    news.py        finds which resources are different, by comparing
    server.py      VaultServer: publishes that, and offers resources, tools and prompts

    text/          what a note's text holds, and how it is changed
    files/         where a path leads, and the one place that writes
    index/         from the disk into SQLite (scan.py), and questions to it (queries.py, graph.py)
    search/        Obsidian's search language, and what it finds
    resources/     what a vault:// URI gives; lists and completions
    tools/         what agents do
    prompts/       prompts, with what the vault holds on them

    front.py       what clients are told while the rest is still imported (front.json)
    view.py        what a question may look at, and how far that is to be trusted
    notify.py      triggers for programs that embed the server

`text` knows nothing of the others; `files` knows `text`; `index` both; `search`, `resources`, `tools` and `prompts` ask
the index. May import: `client`, `server`, `bus`, `changes`, `errors`, `lazy`.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidings._kit.lazy import lazy_names

if TYPE_CHECKING:
    from tidings.vault.files.paths import VaultUnusable
    from tidings.vault.server import VaultNotifier, VaultServer

__all__ = ["VaultNotifier", "VaultServer", "VaultUnusable"]

_HOMES = {
    "VaultNotifier": "tidings.vault.server",
    "VaultServer": "tidings.vault.server",
    "VaultUnusable": "tidings.vault.files.paths",
}

PACKAGES = ("watchfiles", "yaml", "platformdirs")
"""What the extra installs."""


def packages_missing(names: Iterable[str]) -> str:
    """That these packages are needed, and how to get them."""
    how = 'pip install "tidings[vault]" (in a clone: pip install ".[vault]")'
    return f"The vault server needs more packages ({', '.join(names)}): {how}"


if not TYPE_CHECKING:
    # The processes that only parse notes start quickly, without what the server needs.
    __getattr__ = lazy_names(__name__, _HOMES, extra=PACKAGES, missing=packages_missing)
