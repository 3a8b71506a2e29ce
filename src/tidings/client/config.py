"""The settings of a live client, as values. Times are in seconds."""

from dataclasses import dataclass, field, fields
from typing import Any

from tidings._kit.backoff import Backoff, is_number

__all__ = ["Backoff", "CacheLimits", "ClientConfig", "ListChanged", "Poll", "Timeouts"]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long things may take."""

    connect: float = 30.0
    """From the first byte to the end of the handshake, for one attempt. The time to sign in is not counted."""

    request: float = 60.0
    """For an answer to one request. Progress starts it anew, of any request, unless `progress_resets` is off."""

    total: float = 300.0
    """For one request in all: its turn in the queue, a reconnection, progress. A person's answer is not counted."""

    answer: float = 300.0
    """For a person, a function or a script to answer what the server asks; and for a person to sign in."""

    ping: float = 10.0
    """For an answer to a liveness check."""

    ping_interval: float = 30.0
    """Between liveness checks."""

    progress_resets: bool = True

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "progress_resets" and (not is_number(value) or not value > 0):
                raise ValueError(f"Timeouts needs {each.name} > 0 seconds, not {value!r}")


@dataclass(frozen=True, slots=True)
class ListChanged:
    """Which of the server's lists are mirrored: loaded when connected, and again when the server says they changed."""

    tools: bool = True
    resources: bool = True
    """Resources and resource templates: the protocol has one notification for both."""
    prompts: bool = True
    unadvertised: bool = False
    """Reload on notifications even from a server that did not say it would send them."""


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """How much the cache may hold. What was used longest ago goes first."""

    entries: int = 10_000
    size: int = 256 * 2**20
    """Bytes of content, for all entries together."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"CacheLimits needs {each.name} >= 0, not {value!r}")


@dataclass(frozen=True, slots=True)
class Poll:
    """How often a watched resource is read where the server offers no subscription to it.

    It begins at `interval` seconds, and grows by half with each read that found nothing new, up to `longest`. A
    change brings it back to `interval`. Each wait varies at random by `jitter` of itself, and is never shorter than
    the time for which the server said its answer holds.
    """

    interval: float = 5.0
    longest: float = 60.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if not (is_number(self.interval) and is_number(self.longest) and 0 < self.interval <= self.longest):
            raise ValueError(f"Poll needs 0 < interval <= longest, not {self.interval!r} and {self.longest!r}")
        if not is_number(self.jitter) or not 0 <= self.jitter < 1:
            raise ValueError(f"Poll needs 0 <= jitter < 1, not {self.jitter!r}")


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Everything that can be set about a live client."""

    timeouts: Timeouts = field(default_factory=Timeouts)
    backoff: Backoff = field(default_factory=Backoff)
    list_changed: ListChanged = field(default_factory=ListChanged)
    cache: CacheLimits = field(default_factory=CacheLimits)
    poll: Poll = field(default_factory=Poll)
    concurrency: int = 1
    """Requests of the user's that may run at once. Refreshes have a lane of their own."""
    history: int = 100
    """Requests that are remembered after they ended."""
    max_message: int = 32 * 2**20
    """Bytes of one message from the server. A longer one is refused."""
    max_pages: int = 1_000
    """Pages of one list. A server that has more, or never ends, is refused."""
    check_output: bool = True
    """Whether what a tool returns is checked against the schema that its server announced, and refused if it does not
    fit. What takes longer than about a second to check, or a pattern that is not evidently quick, is let through."""

    def __post_init__(self) -> None:
        for name, least in (("concurrency", 1), ("history", 0), ("max_message", 1024), ("max_pages", 1)):
            value: Any = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"ClientConfig needs {name} >= {least}, not {value!r}")
