"""The settings of a client, as values, and the states of a connection, as data. Times are in seconds."""

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

from tidings._kit.backoff import Backoff, is_number

QUESTION_TASKS: Final[dict[str, Any]] = {
    "list": {},
    "cancel": {},
    "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
}
"""The capability `tasks` of a legacy client that answers questions as tasks."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits, in seconds."""

    connect: float = 30.0
    """For one attempt to connect, including the handshake. The time that a person takes to sign in does not count."""
    request: float = 60.0
    """For an answer to one request. Each progress notification restarts this limit."""
    total: float = 300.0
    """For one request in all, including the queue and reconnections. The time for a person's answer does not count."""
    answer: float = 300.0
    """For an answer to a question of the server, by a person, a function or a script. Also for a person to sign in."""
    ping: float = 10.0
    """For the answer to a liveness check."""
    ping_interval: float = 30.0
    """The time between liveness checks."""
    silence: float = 600.0
    """For a silent stream of changes, if the server neither sends keep-alives nor states how often it sends them. After
    that, the client connects again, and reads everything again."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not is_number(value) or not value > 0:
                raise ValueError(f"Timeouts needs {each.name} > 0 seconds, not {value!r}")


@dataclass(frozen=True, slots=True)
class ListChanged:
    """The lists that the client mirrors: it loads them when it connects, and again when they change."""

    tools: bool = True
    resources: bool = True
    """Resources and resource templates. The protocol has one notification for both."""
    prompts: bool = True


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """Limits on the size of the cache. The least recently used entries are dropped first."""

    entries: int = 10_000
    size: int = 256 * 2**20
    """Bytes of content, in all entries together."""

    def __post_init__(self) -> None:
        _check_whole(self, entries=0, size=0)


@dataclass(frozen=True, slots=True)
class Poll:
    """The pauses between reads of a resource that is watched without a subscription.

    The pause begins at `interval` seconds, and grows by half with each read that finds nothing new, up to `longest`. A
    change resets it to `interval`. It varies at random by the fraction `jitter`, and is never shorter than the lifetime
    that the server states for the content.
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
    """All settings of a client."""

    timeouts: Timeouts = field(default_factory=Timeouts)
    backoff: Backoff = field(default_factory=Backoff)
    list_changed: ListChanged = field(default_factory=ListChanged)
    cache: CacheLimits = field(default_factory=CacheLimits)
    poll: Poll = field(default_factory=Poll)
    concurrency: int = 1
    """The number of the user's requests that run at the same time. Refreshes do not count."""
    history: int = 100
    """The number of ended requests that are remembered."""
    max_message: int = 32 * 2**20
    """The maximum size of one message from the server, in bytes. A larger one is refused."""
    max_pages: int = 1_000
    """The maximum number of pages in one list. A list with more pages is refused."""
    max_items: int = 1_000_000
    """The maximum number of items in one list. Further items are left out."""
    check_output: bool = True
    """Check each tool result against the schema that the server announced, and refuse it if it does not fit. A result
    or a pattern that takes longer than about a second to check is accepted."""
    tasks: bool = True
    """Tell the server that this client accepts a task as the answer to a tool call. Otherwise, a server answers when
    the tool has ended, or refuses the call."""

    def __post_init__(self) -> None:
        _check_whole(self, concurrency=1, history=0, max_message=1024, max_pages=1, max_items=1)


def _check_whole(settings: object, **least: int) -> None:
    """Raises `ValueError` unless these settings are whole numbers, and at least so much."""
    for name, limit in least.items():
        value: Any = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < limit:
            raise ValueError(f"{type(settings).__name__} needs {name} >= {limit}, not {value!r}")


class State(StrEnum):
    """The state of a connection."""

    DISCONNECTED = "disconnected"
    """The client was never asked to connect, was disconnected on purpose, or has given up."""
    CONNECTING = "connecting"
    """An attempt is in progress."""
    CONNECTED = "connected"
    """The handshake is done, and the server answers."""
    DISCONNECTING = "disconnecting"
    """The connection is being closed on purpose."""
    ERROR = "error"
    """An attempt failed, or the connection was lost. Another attempt follows, unless the client gives up."""


class Signal(StrEnum):
    """An event that changes the state."""

    CONNECT = "connect"
    HANDSHAKE_COMPLETE = "handshake_complete"
    TIMEOUT = "timeout"
    TRANSPORT_ERROR = "transport_error"
    CONNECTION_LOST = "connection_lost"
    RECONNECT = "reconnect"
    GIVE_UP = "give_up"
    DISCONNECT = "disconnect"
    CLEANUP_COMPLETE = "cleanup_complete"


TRANSITIONS: Final[dict[tuple[State, Signal], State]] = {
    (State.DISCONNECTED, Signal.CONNECT): State.CONNECTING,
    (State.CONNECTING, Signal.HANDSHAKE_COMPLETE): State.CONNECTED,
    (State.CONNECTING, Signal.TIMEOUT): State.ERROR,
    (State.CONNECTING, Signal.TRANSPORT_ERROR): State.ERROR,
    (State.CONNECTING, Signal.DISCONNECT): State.DISCONNECTING,
    (State.CONNECTED, Signal.CONNECTION_LOST): State.ERROR,
    (State.CONNECTED, Signal.DISCONNECT): State.DISCONNECTING,
    (State.ERROR, Signal.RECONNECT): State.CONNECTING,
    (State.ERROR, Signal.GIVE_UP): State.DISCONNECTED,
    (State.ERROR, Signal.DISCONNECT): State.DISCONNECTING,
    (State.DISCONNECTING, Signal.CLEANUP_COMPLETE): State.DISCONNECTED,
}
"""All transitions. A signal without one in the current state is a fault in this program."""
