"""The Obsidian vault server.

An edit of a note passes through these files, from the disk to the subscribers:

    watch.py             sees that files may have changed
    indexer.py           keeps the index equal to the disk
    change_detection.py  finds the resources that differ
    library.py           answers questions and writes, over the index
    server.py            VaultServer: publishes changes; offers resources, tools and prompts
"""

from functools import partial
from typing import TYPE_CHECKING

from tidings._kit import lazy

if TYPE_CHECKING:
    from tidings.vault.files.paths import VaultUnusable
    from tidings.vault.server import VaultNotifier, VaultServer

__all__ = ["VaultNotifier", "VaultServer", "VaultUnusable"]

_HOMES = {
    "VaultNotifier": "tidings.vault.server",
    "VaultServer": "tidings.vault.server",
    "VaultUnusable": "tidings.vault.files.paths",
}

PACKAGES = ("watchfiles", "yaml", "platformdirs")  # of the extra `vault`
packages_missing = partial(lazy.packages_missing, "The vault server", extra="vault")


if not TYPE_CHECKING:
    # Worker processes that only parse notes start fast, without what the server needs.
    __getattr__ = lazy.lazy_names(__name__, _HOMES, extra=PACKAGES, missing=packages_missing)
