"""`SessionFile`: a session that is recorded straight into a file, in the form of an exported one.

For programs that have clients of their own, such as the bridge. The file can be imported by the inspector, and served
by `tidings mock`. Only its owner can read it; secrets are masked.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from tidings._kit.bounded_json import dumps, mapped
from tidings.client.live import LiveClient
from tidings.client.targets import Target
from tidings.client.transports.tap import Tap
from tidings.inspector.catalog.catalog import free_name
from tidings.inspector.recorder import KnownServer, Recorder
from tidings.inspector.records import Record, SessionLimits
from tidings.inspector.sessions.saved import EXPORT_VERSION
from tidings.inspector.view.fold import fold_session
from tidings.inspector.view.view import SessionView

_MOST_BYTES: Final = 2**28  # After that, nothing more is recorded.
_FEW: Final = 200
_LIMITS: Final = SessionLimits(
    messages=_FEW,
    message_bytes=2**20,
    logs=_FEW,
    notifications=_FEW,
    changes=_FEW,
    stderr=_FEW,
    exchanges=_FEW,
    requests=_FEW,
    ring_bytes=2**20,
    versions=2,
    contents=_FEW,
    contents_bytes=2**22,
)


class SessionFile:
    """A file that sessions with servers are recorded in. Raises `OSError` if it cannot be written."""

    def __init__(self, path: Path) -> None:
        # What has happened is needed to record what follows. Little of it, because nobody looks at it here.
        self._view = SessionView(_LIMITS, time.time)
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii")
        self._left = _MOST_BYTES
        self._numbers = count(1)
        self._write({"tidings": "session", "version": EXPORT_VERSION, "servers": [], "exported_at": time.time()})

    def observe(self, name: str, target: Target) -> tuple[Tap, Callable[[LiveClient], None]]:
        """Returns the tap for a client that is about to be made, and a function to call with it."""
        unique = free_name(name, self._view.servers)
        self._record(unique, "server", {"what": "added", "entry": {"name": unique}})
        known = KnownServer(partial(self._record, unique), self._view.servers[unique])
        known.wire.start_client()
        ids = count(1)

        def mask(value: Any) -> Any:
            return mapped(value, lambda each: target.clean(each) if isinstance(each, str) else each)

        def seen(client: LiveClient) -> None:
            Recorder(client, known, lambda: f"{unique}-{next(ids)}", mask)

        return known.wire, seen

    def _record(self, server: str, kind: str, data: dict[str, Any]) -> Record | None:
        record = Record(next(self._numbers), time.time(), server, kind, data)
        fold_session(self._view, record)
        self._write(record.to_json())
        return record

    def _write(self, value: dict[str, Any]) -> None:
        line = dumps(value) + "\n"
        self._left -= len(line)
        if self._left > 0 and not self._file.closed:
            self._file.write(line)
            self._file.flush()

    def close(self) -> None:
        self._file.close()
