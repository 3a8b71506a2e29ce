"""How a server of a session is connected to: the target, the options, and what of them may be shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from tidings.client.config import Backoff, CacheLimits, ClientConfig, Timeouts
from tidings.client.masking import shown_arguments

if TYPE_CHECKING:
    from mcp_types import LoggingLevel

    from tidings.client.addresses import Target
    from tidings.client.live import LiveClient
    from tidings.client.wire import Tap
    from tidings.inspector.catalog_entry import ServerEntry

CONFIG: Final = ClientConfig(
    timeouts=Timeouts(ping=2.0, ping_interval=1.0),
    backoff=Backoff(delays=(0.5, 1.0), tries=None),
    cache=CacheLimits(entries=1_000, size=32 * 2**20),
    concurrency=32,
    history=0,
    check_output=False,
)
"""A client that is looked at: whether its server is there is known within two seconds, and it never gives up. What a
tool returned is shown as it is, beside what is wrong with it, which is found out within bounds.
"""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a session needs to connect to a server. Made of a catalog's entry, or by hand."""

    name: str
    """Unique in the session."""
    target: object
    """What `tidings.connect` takes: a URL, a command, `file.json#name`, a server object."""
    era: str = "auto"
    headers: Mapping[str, str] | None = None
    token: str | None = None
    env: Mapping[str, str] | None = None
    cwd: str | Path | None = None
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    roots: Sequence[str | Path] | None = None
    log_level: "LoggingLevel | None" = "info"
    timeouts: Timeouts | None = None
    """The entry's own; how often it is asked whether it is there stays as it is."""
    entry: "ServerEntry | None" = None
    """The catalog's entry, if it was made of one."""

    @classmethod
    def of(cls, entry: "ServerEntry", environ: Mapping[str, str]) -> "Opening":
        """How to connect to what a catalog's entry says. `${NAME}` is looked up in `environ`, when it is connected."""
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
        """The target, understood.

        Raises:
            BadTarget: It cannot be.
        """
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
        """A client of this target, which asks the user what the server wants to know."""
        from tidings.client.live import LiveClient  # noqa: PLC0415 - imports the SDK
        from tidings.client.questions import ASK  # noqa: PLC0415 - imports the SDK
        from tidings.client.responders import roots_responder  # noqa: PLC0415 - imports the SDK

        config = CONFIG
        if self.timeouts is not None:
            quick = replace(self.timeouts, ping=CONFIG.timeouts.ping, ping_interval=CONFIG.timeouts.ping_interval)
            config = replace(CONFIG, timeouts=quick)
        return LiveClient(
            target,
            era=self.era,
            config=config,
            answer=lambda _: ASK,
            roots=None if self.roots is None else roots_responder(self.roots),
            log_level=self.log_level,
            tap=tap,
        )

    @property
    def shown(self) -> dict[str, Any]:
        """What it is, without its secrets."""
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
