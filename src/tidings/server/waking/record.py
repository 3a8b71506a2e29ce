"""`TaskRecord`: a task as the bus keeps it, and as the tasks extension shows it.

A record is a value: whoever changes it makes another one, and the store puts it in place of the one that it was made
from. A record whose status is final never changes.
"""

import json
import time
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, Self

from tidings._kit.text import one_line

Json = dict[str, Any]
Status = Literal["working", "input_required", "completed", "failed", "cancelled"]

FINAL: Final[frozenset[Status]] = frozenset({"completed", "failed", "cancelled"})
_LONGEST_MESSAGE: Final = 500


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """The state of one task. Times are in seconds since the epoch."""

    kind: Literal["wait", "call"]
    created: float
    ends: float
    """When it is forgotten: its ttl is counted from `created`."""
    poll: float
    updated: float = 0.0
    status: Status = "working"
    message: str = ""
    asked: Json = field(default_factory=dict[str, Any])
    """The input requests that are not answered, by key."""
    answers: Json = field(default_factory=dict[str, Any])
    """The answers that its runner has not taken yet, by key."""
    result: Json | None = None
    error: Json | None = None
    uris: tuple[str, ...] = ()
    """The subscriptions of a wait."""
    since: str = ""
    """The cursor after which a wait looks for changes."""
    texts: dict[str, str] = field(default_factory=dict[str, str])
    """The texts that its reader knows: the digest for each resource."""
    own: bool = False
    """Its caller's own changes end a wait, too."""
    until: float = 0.0
    """When a wait completes although nothing has changed."""
    runner: str = ""
    """The process that runs a call."""

    @classmethod
    def parse(cls, value: bytes) -> Self:
        """Returns the record in bytes of a bus. Raises `ValueError` or `TypeError` if it is something else."""
        fields: Json = json.loads(value)
        fields["uris"] = tuple(fields["uris"])
        return cls(**fields)

    def __bytes__(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    @property
    def seconds_left(self) -> float:
        """Until it is forgotten."""
        return self.ends - time.time()

    # Each of these returns the record after something has happened.

    def saying(self, message: str) -> Self:
        return self._now(message=one_line(message, _LONGEST_MESSAGE))

    def completed(self, result: Json) -> Self:
        return self._now(status="completed", result=result, asked={}, answers={}, message="")

    def failed(self, error: Json) -> Self:
        return self._now(status="failed", error=error, asked={}, answers={}, message="")

    def cancelled(self, message: str) -> Self:
        return self._now(status="cancelled", asked={}, answers={}, message=message)

    def asking(self, open_: Json) -> Self:
        """`open_` are the questions for which its runner waits, by key. Some may be answered already."""
        asked = {key: request for key, request in open_.items() if key not in self.answers}
        answers = {key: answer for key, answer in self.answers.items() if key in open_}
        return self._now(status="input_required" if asked else "working", asked=asked, answers=answers)

    def answered(self, answers: Json) -> Self:
        """Answers to what was not asked, or was answered before, are left out."""
        given = {key: answer for key, answer in answers.items() if key in self.asked}
        if not given:
            return self
        asked = {key: request for key, request in self.asked.items() if key not in given}
        status = "input_required" if asked else "working"
        return self._now(status=status, asked=asked, answers={**self.answers, **given})

    def kept_for(self, seconds: float) -> Self:
        """It is forgotten in `seconds`, if it would not be sooner."""
        return replace(self, ends=min(self.ends, time.time() + seconds))

    def _now(self, **changes: Any) -> Self:
        return replace(self, updated=time.time(), **changes)

    # On the wire

    def summary(self, task_id: str) -> Json:
        """Returns the fields that every answer about the task has."""
        return {
            "taskId": task_id,
            "status": self.status,
            "createdAt": _iso(self.created),
            "lastUpdatedAt": _iso(self.updated or self.created),
            "ttlMs": round((self.ends - self.created) * 1000),
            "pollIntervalMs": max(round(self.poll * 1000), 1),
            **({"statusMessage": self.message} if self.message else {}),
        }

    def details(self, task_id: str) -> Json:
        """Returns the answer to `tasks/get`."""
        more: Json = {}
        match self.status:
            case "input_required":
                more["inputRequests"] = self.asked
            case "completed":
                more["result"] = self.result
            case "failed":
                more["error"] = self.error
            case _:
                pass
        return {**self.summary(task_id), **more}


def _iso(time_: float) -> str:
    return datetime.fromtimestamp(time_, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
