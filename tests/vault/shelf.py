"""A small vault on the disk and its index, for the tests of what is read from it."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidings.vault import notes
from tidings.vault.index import Index
from tidings.vault.model import Entry, Kind, Stamp
from tidings.vault.paths import Vault
from tidings.vault.view import Status, View

KINDS: dict[str, Kind] = {".md": "note", ".canvas": "canvas", ".base": "base"}
WATCHING = Status("watching")
BEGINNING = 1_767_225_600
"""The first second of 2026. Each file that is put is a minute younger than the one before."""


class Shelf:
    """Files are put on the disk and into the index at once."""

    def __init__(self, *roots: Path) -> None:
        for root in roots:
            root.mkdir(exist_ok=True)
        self.vault = Vault(roots)
        self.index = Index(self.vault, memory=True)
        self._minutes = 0

    def put(self, files: Mapping[str, str | bytes]) -> None:
        entries = [self._entry(path, content) for path, content in files.items()]
        self.index.apply(entries, [])

    def drop(self, *paths: str) -> None:
        for path in paths:
            self.vault.locate(path).unlink()
        self.index.apply([], paths)

    def view(self, status: Status = WATCHING) -> View:
        return View(self.index.queries, self.vault, status)

    def _entry(self, path: str, content: str | bytes, **other: Any) -> Entry:
        data = content.encode() if isinstance(content, str) else content
        place = self.vault.locate(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        self._minutes += 1
        os.utime(place, (BEGINNING + 60 * self._minutes,) * 2)
        found = place.stat()
        kind = KINDS.get(place.suffix, "attachment")
        text = "" if kind == "attachment" else data.decode()
        return Entry(
            path=path,
            kind=kind,
            stamp=Stamp(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino),
            hash=None if kind == "attachment" else hashlib.blake2b(data, digest_size=8).hexdigest(),
            text=text,
            note=notes.parse(text, place.stem) if kind == "note" else None,
            problem=None,
        )
