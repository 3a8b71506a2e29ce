"""`ConnectionSpec`: how a session connects to one server, and the client that is made of it.

The client and the SDK are imported in a thread when the first server connects: a session starts without them.
"""

import gc
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from tidings.client.config import Backoff, CacheLimits, ClientConfig, Timeouts
from tidings.client.masking import shown_arguments

if TYPE_CHECKING:
    from mcp_types import LoggingLevel

    from tidings.client.live import LiveClient
    from tidings.client.targets import Target
    from tidings.client.transports.tap import Tap
    from tidings.inspector.catalog.entry import ServerEntry

# A client that is inspected notices a lost server within two seconds and never gives up. It does not check the results
# of tools: the inspector shows them beside their problems.
CONFIG: Final = ClientConfig(
    timeouts=Timeouts(ping=2.0, ping_interval=1.0),
    backoff=Backoff(delays=(0.5, 1.0), tries=None),
    cache=CacheLimits(entries=1_000, size=32 * 2**20),
    concurrency=32,
    history=0,
    check_output=False,
)
_importing: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class ConnectionSpec:
    """Everything a session needs to connect to a server. Made of a catalog's entry, or by hand."""

    name: str  #: Unique in the session.
    target: object  #: A target of `tidings.connect`: a URL, a command, `file.json#name`, a server object.
    era: str = "auto"
    headers: Mapping[str, str] | None = None
    token: str | None = None
    env: Mapping[str, str] | None = None
    cwd: str | Path | None = None
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    roots: Sequence[str | Path] | None = None
    log_level: "LoggingLevel | None" = "info"
    timeouts: Timeouts | None = None  #: The entry's own. The intervals of liveness checks are always those of `CONFIG`.
    entry: "ServerEntry | None" = None  #: The catalog's entry, if it was made of one.

    @classmethod
    def of(cls, entry: "ServerEntry", environ: Mapping[str, str]) -> "ConnectionSpec":
        """Makes the spec of a catalog's entry. `${NAME}` is looked up in `environ` when it connects."""
        return cls(
            entry.name,
            entry,
            era=entry.era,
            environ=environ,
            roots=entry.roots or None,
            log_level=cast("LoggingLevel", entry.log_level or "info"),
            timeouts=replace(CONFIG.timeouts, **entry.timeouts.raw()),
            entry=entry,
        )

    def parsed(self) -> "Target":
        """Parses the target. Raises `BadTarget` if it is not valid."""
        from tidings.client.targets import parse_target, target_of  # noqa: PLC0415 - imports the SDK

        if self.entry is not None:
            return target_of(self.entry.resolved(self.environ))
        return parse_target(
            self.target,
            headers=self.headers,
            token=self.token,
            auth=None,
            env=self.env,
            cwd=self.cwd,
            environ=self.environ,
        )

    def client(self, target: "Target", tap: "Tap") -> "LiveClient":
        """Makes a client that passes the server's questions to the user."""
        from tidings.client.live import LiveClient  # noqa: PLC0415 - imports the SDK
        from tidings.client.pending import ASK  # noqa: PLC0415 - imports the SDK
        from tidings.client.responders import roots_responder  # noqa: PLC0415 - imports the SDK
        from tidings.client.wiring import ClientWiring  # noqa: PLC0415 - imports the SDK

        ping, interval = CONFIG.timeouts.ping, CONFIG.timeouts.ping_interval
        timeouts = replace(self.timeouts or CONFIG.timeouts, ping=ping, ping_interval=interval)
        wiring = ClientWiring(
            target,
            era=self.era,
            config=replace(CONFIG, timeouts=timeouts),
            answer=lambda _: ASK,
            roots=None if self.roots is None else roots_responder(self.roots),
            log_level=self.log_level,
            tap=tap,
        )
        return LiveClient(wiring)

    @property
    def shown(self) -> dict[str, Any]:
        """The spec as JSON, without its secrets."""
        if self.entry is not None:
            return {"name": self.name, **self.entry.shown()}
        target: Any = self.target
        if isinstance(target, str):
            target = shown_arguments([target])[0][0]
        elif isinstance(target, list | tuple):
            target = shown_arguments([str(word) for word in cast("Sequence[object]", target)])[0]
        else:
            target = type(target).__name__
        return {"name": self.name, "target": target, "tidings": {"era": self.era}}


def import_client() -> None:
    """Imports what every connection needs. The first time takes most of a second."""
    with _importing:
        if "tidings.inspector.recorder" in sys.modules:
            return
        collects, interval = gc.isenabled(), sys.getswitchinterval()
        gc.disable()  # Imports leave no garbage; looking for some takes an eighth of the time.
        sys.setswitchinterval(0.0005)  # Others run meanwhile: the page may already be in use.
        try:
            import_module("tidings.client.live")
            import_module("tidings.inspector.recorder")
        finally:
            sys.setswitchinterval(interval)
            if collects:
                gc.enable()
