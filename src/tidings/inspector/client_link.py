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
from tidings.inspector.catalog.entry import ServerEntry

if TYPE_CHECKING:
    from mcp_types import LoggingLevel

    from tidings.client.live import LiveClient
    from tidings.client.targets import Target
    from tidings.client.transports.tap import Tap

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
    target: object  #: A catalog's entry, or a target of `tidings.connect`, such as a server object.
    era: str = "auto"
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    roots: Sequence[str | Path] | None = None
    log_level: "LoggingLevel | None" = "info"
    timeouts: Timeouts | None = None  #: The entry's own. The intervals of liveness checks are always those of `CONFIG`.

    @classmethod
    def of(cls, entry: ServerEntry, environ: Mapping[str, str]) -> "ConnectionSpec":
        """Makes the spec of a catalog's entry. `${NAME}` is looked up in `environ` when it connects."""
        return cls(
            entry.name,
            entry,
            era=entry.era,
            environ=environ,
            roots=entry.roots or None,
            log_level=cast("LoggingLevel", entry.log_level or "info"),
            timeouts=replace(CONFIG.timeouts, **entry.timeouts),
        )

    def parsed(self) -> "Target":
        """Parses the target. Raises `BadTarget` if it is not valid."""
        from tidings.client.targets import parse_target, target_of  # noqa: PLC0415 - imports the SDK

        if isinstance(self.target, ServerEntry):
            return target_of(self.target.resolved(self.environ))
        return parse_target(self.target, environ=self.environ)

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
        if isinstance(self.target, ServerEntry):
            return {"name": self.name, **self.target.shown()}
        return {"name": self.name, "target": type(self.target).__name__, "tidings": {"era": self.era}}


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
