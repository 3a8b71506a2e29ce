"""What the stream of a `NatsBus` has to be like.

May import: `errors`.
"""

from typing import Any, Final

from tidings.bus import _nats_errors as errors
from tidings.bus._nats_subjects import LARGEST_PAYLOAD, Subjects

_FORBIDDEN: Final = ("mirror", "sources", "sealed", "no_ack", "subject_transform", "persist_mode")
"""What would make it something else than a log that keeps what it has acknowledged."""


class Shape:
    """The configuration of a stream of so many messages at least, in so many replicas at least."""

    def __init__(self, subjects: Subjects, *, limit: int, replicas: int) -> None:
        self._name = subjects.stream
        self._limit = limit
        self._replicas = replicas
        self._fixed: dict[str, Any] = {
            "subjects": [subjects.all],
            "retention": "limits",
            "storage": "file",
            "discard": "old",
            "max_msgs_per_subject": 1,
        }

    @property
    def wanted(self) -> dict[str, Any]:
        """For a stream that is to be created."""
        return self._fixed | {
            "name": self._name,
            "description": "Changes that Tidings carries between processes",
            "max_msgs": self._limit,
            "max_age": 0,
            "max_bytes": -1,
            "max_msg_size": -1,
            "num_replicas": self._replicas,
            # What is taken out by hand would be missed, and nobody would know.
            "deny_delete": True,
            "deny_purge": True,
        }

    def check(self, found: dict[str, Any], place: str) -> None:
        """Whether a stream that was `found` at `place` can be used.

        Raises:
            BusMismatch: It cannot; the error names what differs.
        """
        differences = [(key, found.get(key), value) for key, value in self._fixed.items() if found.get(key) != value]
        differences += [(key, found[key], None) for key in _FORBIDDEN if found.get(key)]
        if 0 <= found.get("max_msg_size", -1) < LARGEST_PAYLOAD:
            differences.append(("max_msg_size", found["max_msg_size"], -1))
        if differences:
            raise errors.other_shape(self._name, place, differences)

    def lifted(self, found: dict[str, Any]) -> dict[str, Any]:
        """The limits that drop more than they may, as they have to be. None is ever lowered: others may count on it."""
        changes: dict[str, Any] = {}
        if 0 < found["max_msgs"] < self._limit:
            changes["max_msgs"] = self._limit
        if found["max_age"] > 0:
            changes["max_age"] = 0
        if found["max_bytes"] > 0:
            changes["max_bytes"] = -1
        return changes

    def multiplied(self, found: dict[str, Any]) -> dict[str, Any]:
        """More replicas, if there are too few."""
        return {"num_replicas": self._replicas} if found["num_replicas"] < self._replicas else {}
