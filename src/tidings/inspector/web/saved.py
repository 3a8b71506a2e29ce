"""Saved calls: what one wants to ask again, under a name, in a small file that only its user can read."""

import json
import os
import secrets
from pathlib import Path
from typing import Any, Final, cast

from tidings.inspector.bounds import dumps, weigh
from tidings.inspector.reading import as_dict
from tidings.inspector.web.answers import Problem

KINDS: Final = ("call", "read", "prompt", "request")
_MOST: Final = 500
_MOST_BYTES: Final = 2**20


class SavedCalls:
    """The saved calls of a user; without a file, those of this session."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._calls: dict[str, dict[str, Any]] = {}
        self._unwritten = False
        """Whether some of them are here alone, because they could not be written."""
        self._look()

    def _look(self) -> None:
        """Another inspector may have saved some, or deleted some."""
        if self._path is not None:
            found = {each["id"]: each for each in _read(self._path)}
            self._calls = {**found, **self._calls} if self._unwritten else found

    def all(self) -> list[dict[str, Any]]:
        """All of them, in the order in which they were saved."""
        return list(self._calls.values())

    def add(self, name: str, server: str, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        """Save one more.

        Raises:
            Problem: It is too large, or there are too many.
        """
        self._look()
        if len(self._calls) >= _MOST:
            raise Problem(409, "too-many-saved", f"There are {_MOST} saved calls already.", "Delete some.")
        if weigh(data, _MOST_BYTES) > _MOST_BYTES:
            raise Problem(413, "body-too-large", "It is too large to be saved.", "Save it without its large values.")
        call: dict[str, Any] = {
            "id": secrets.token_hex(8),
            "name": name[:200],
            "server": server,
            "kind": kind,
            "data": data,
        }
        self._calls[call["id"]] = call
        self._write()
        return call

    def remove(self, known: str) -> bool:
        """Delete one; returns whether it was there."""
        self._look()
        found = self._calls.pop(known, None) is not None
        if found:
            self._write()
        return found

    def _write(self) -> None:
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            beside = self._path.with_name(f"{self._path.name}.{os.getpid()}.new")
            handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(dumps({"saved": self.all()}))
            beside.replace(self._path)
            self._unwritten = False
        except OSError as error:
            self._unwritten = True
            message = f"It is saved until the inspector ends: {self._path} cannot be written ({error.strerror})."
            raise Problem(500, "not-saved", message, "Look at its permissions.", who="this program") from None


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
        calls = cast("list[dict[str, Any]]", found["saved"])
        return [each for each in calls if _is_call(each)]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return []  # None yet, or not ours: what is saved next begins anew.


def _is_call(value: Any) -> bool:
    call = as_dict(value)
    texts = all(isinstance(call.get(key), str) for key in ("id", "name", "server", "kind"))
    return texts and call["kind"] in KINDS and isinstance(call.get("data"), dict)
