"""How much of a session is kept in memory and in its journal, as values."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Bounds, each for one server of a session. What goes beyond them is dropped, the oldest first, and counted."""

    messages: int = 20_000
    message_bytes: int = 64 * 2**20
    logs: int = 20_000
    notifications: int = 20_000
    changes: int = 20_000
    stderr: int = 10_000
    exchanges: int = 5_000
    requests: int = 2_000
    """Those that ended; what runs is kept in any case."""
    ring_bytes: int = 32 * 2**20
    """For each of the others: logs, notifications, changes, error output, exchanges, results of requests."""
    versions: int = 20
    """Versions of a resource's content."""
    contents: int = 1_000
    """Resources whose content is kept."""
    contents_bytes: int = 256 * 2**20
    """All versions of all resources together."""
    record_bytes: int = 2**20
    """A larger message, log message or notification is cut."""
    content_bytes: int = 8 * 2**20
    """A larger content or result is cut: its hash, its size and its beginning are kept."""
    records: int = 20_000
    """Records of all servers that `Session.since` still knows; for a reader who was away for a moment."""
    recent_bytes: int = 64 * 2**20
    """What those may take."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"SessionLimits needs {each.name} >= 1, not {value!r}")
