"""A small vault on the disk and its index, for the tests of what is read from it."""

import os
from collections.abc import Mapping
from pathlib import Path

from tests.vault.building import build
from tidings.vault.files.paths import Vault
from tidings.vault.index.index import Index
from tidings.vault.view import IndexStatus, VaultView

WATCHING = IndexStatus("watching")
BEGINNING = 1_767_225_600
"""The first second of 2026. Each file that is put is a minute younger than the one before."""


class Shelf:
    """Files that are put on the disk are in the index at once."""

    def __init__(self, *roots: Path) -> None:
        for root in roots:
            root.mkdir(exist_ok=True)
        self.vault = Vault(roots)
        self.index = Index(self.vault, memory=True)
        self.minutes = 0

    def put(self, files: Mapping[str, str | bytes]) -> None:
        for path, content in files.items():
            place = self.vault.locate(path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content.encode() if isinstance(content, str) else content)
            self.minutes += 1
            os.utime(place, (BEGINNING + 60 * self.minutes,) * 2)
        self.look()

    def drop(self, *paths: str) -> None:
        for path in paths:
            self.vault.locate(path).unlink()
        self.look()

    def look(self) -> None:
        assert build(self.vault, self.index) == []

    def view(self, status: IndexStatus = WATCHING) -> VaultView:
        return VaultView(self.index.queries, self.vault, status)
