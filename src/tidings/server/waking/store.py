"""Tasks on the bus: `TaskRecord`, a task as it is kept and as the tasks extension shows it, and `TaskStore`.

A task id is a seal for one principal with the key of a record in it, so only keys that were given out are looked for.
Every process keeps a view of the records that it knows, and looks again when another one publishes a notice: asking for
a task that nobody changes touches neither the disk nor the network. A record is a value, and a final one never changes.
"""

import json
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, Self

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from tidings._kit.text import iso, one_line
from tidings.bus.shared import LARGEST_VALUE
from tidings.changes import ResourceUpdated
from tidings.errors import TransportError
from tidings.server.core import Core
from tidings.server.notify import TASKS

Json = dict[str, Any]
Status = Literal["working", "input_required", "completed", "failed", "cancelled"]

_LONGEST_MESSAGE: Final = 500


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """The state of one task. Times are in seconds since the epoch."""

    kind: Literal["wait", "call"]
    created: float
    ends: float  # The time at which it is forgotten: its ttl is counted from `created`.
    poll: float
    updated: float = 0.0
    status: Status = "working"
    message: str = ""
    asked: Json = field(default_factory=dict[str, Any])  # The input requests that are not answered, by key.
    answers: Json = field(default_factory=dict[str, Any])  # The answers that its runner has not taken yet, by key.
    result: Json | None = None
    error: Json | None = None
    uris: tuple[str, ...] = ()  # The subscriptions of a wait.
    since: str = ""  # The cursor after which a wait looks for changes.
    texts: dict[str, str] = field(default_factory=dict[str, str])
    """The texts that its reader knows: the digest for each resource."""
    own: bool = False  # Its caller's own changes end a wait, too.
    until: float = 0.0  # The time at which a wait completes although nothing has changed.
    runner: str = ""  # The process that runs a call.

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
        return self.status in ("completed", "failed", "cancelled")

    @property
    def seconds_left(self) -> float:
        return self.ends - time.time()

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
        return replace(self, ends=min(self.ends, time.time() + seconds))

    def _now(self, **changes: Any) -> Self:
        return replace(self, updated=time.time(), **changes)

    def summary(self, task_id: str) -> Json:
        return {
            "taskId": task_id,
            "status": self.status,
            "createdAt": iso(self.created, milliseconds=True),
            "lastUpdatedAt": iso(self.updated or self.created, milliseconds=True),
            "ttlMs": round((self.ends - self.created) * 1000),
            "pollIntervalMs": max(round(self.poll * 1000), 1),
            **({"statusMessage": self.message} if self.message else {}),
        }

    def details(self, task_id: str) -> Json:
        more = {"input_required": ("inputRequests", self.asked), "completed": ("result", self.result)}
        more["failed"] = "error", self.error
        return {**self.summary(task_id), **dict([more[self.status]] if self.status in more else [])}


_KEY_BYTES: Final = 16
_NOTICE_CHARACTERS: Final = 3  # Of a key: the log keeps each distinct notice, so there must not be many.
_LONGEST_PREFIX: Final = 40
_LONGEST_ID: Final = 128
_SPEAKING: Final = re.compile(r"[^A-Za-z0-9_-]")
_SURE_SECONDS: Final = 300.0  # A view is read again after this time, even if no notice came.
_VIEW_BYTES: Final = 32 * 2**20
_ENTRY_BYTES: Final = 2_000  # What a view takes beside its value.

Edit = Callable[[TaskRecord], TaskRecord]


@dataclass(slots=True)
class _View:
    record: TaskRecord
    revision: int
    read_at: float
    size: int


class UnknownTask(MCPError):
    """There is no such task, or it is somebody else's, or it has expired."""

    def __init__(self) -> None:
        super().__init__(INVALID_PARAMS, "There is no such task: its id is wrong, or it has expired.")


class TaskStore:
    """Creates, finds and changes tasks."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._views: OrderedDict[str, _View] = OrderedDict()
        self._size = 0
        # By the start of the key, and by it.
        self._watched: dict[str, dict[str, tuple[Callable[[str], None], ...]]] = {}
        self._noticed: dict[str, float] = {}  # When each start was last noticed.
        self._all_noticed = 0.0

    def new_id(self, prefix: str, holder: str) -> tuple[str, str]:
        """Returns the key of a new task, and its id for `holder`."""
        key, start = secrets.token_hex(_KEY_BYTES), _SPEAKING.sub("-", prefix)[:_LONGEST_PREFIX]
        return key, f"{start}.{self._core.seals.seal(f'task {start} {holder}', key)}"

    async def key_of(self, task_id: str, holder: str) -> str:
        """Returns the key in an id. Raises `UnknownTask` if it was not given to `holder`."""
        start, _, seal = task_id.partition(".")
        if len(task_id) > _LONGEST_ID or (key := await self._core.seals.open(f"task {start} {holder}", seal)) is None:
            raise UnknownTask
        return key

    async def create(self, key: str, record: TaskRecord) -> None:
        """Stores a new task. When this returns, every replica finds it. Raises `BusUnavailable`."""
        stored = await self._core.records.put(_place(key), bytes(record), seconds=record.seconds_left, revision=0)
        if stored is not None:
            self._see(key, record, stored.revision, len(stored.value), time.monotonic())

    async def find(self, key: str, *, sure_for: float = _SURE_SECONDS) -> TaskRecord:
        """Returns a task. A view that is older than `sure_for` seconds is not enough. Raises `UnknownTask`."""
        record = self.sure_view(key, sure_for)
        return (await self._read(key)).record if record is None else record

    def sure_view(self, key: str, sure_for: float = _SURE_SECONDS) -> TaskRecord | None:
        """Returns a task as `find` would, if that needs no read."""
        if (view := self._views.get(key)) is None or view.record.seconds_left <= 0:
            return None
        noticed = max(self._noticed.get(_start(key), 0.0), self._all_noticed)
        if not view.record.is_final and not noticed < view.read_at > time.monotonic() - sure_for:
            return None
        self._views.move_to_end(key)
        return view.record

    async def change(self, key: str, edit: Edit) -> TaskRecord:
        """Puts what `edit` returns in place of a task, unless that is final, and returns what is there then."""
        view = self._views.get(key) or await self._read(key)
        while not view.record.is_final:
            record = edit(view.record)
            if record is view.record:
                break
            value = bytes(record)
            if len(value) > LARGEST_VALUE:
                raise ValueError(f"A task takes at most {LARGEST_VALUE} bytes, and this one would take {len(value)}.")
            seconds = max(record.seconds_left, 1.0)
            stored = await self._core.records.put(_place(key), value, seconds=seconds, revision=view.revision)
            if stored is not None:
                view = self._see(key, record, stored.revision, len(value), time.monotonic())
                with suppress(TransportError):  # The notice is obeyed here, kept, and published when the bus is back.
                    await self._core.publish(ResourceUpdated(TASKS + _start(key)))
                break
            view = await self._read(key)
        return view.record

    def watch(self, key: str, changed: Callable[[str], None]) -> None:
        near = self._watched.setdefault(_start(key), {})
        near[key] = (*near.get(key, ()), changed)

    def unwatch(self, key: str, changed: Callable[[str], None]) -> None:
        """Ends `watch`, if it was called with the same."""
        near = self._watched.get(_start(key), {})
        if left := tuple(each for each in near.get(key, ()) if each != changed):
            near[key] = left
        elif near.pop(key, None) is not None and not near:
            del self._watched[_start(key)]

    def noticed(self, start: str | None) -> None:
        """Hears that a task whose key begins with `start` has changed; None if that cannot be known of any."""
        now = time.monotonic()
        if start is None:
            self._all_noticed = now
        elif len(start) == _NOTICE_CHARACTERS:
            self._noticed[start] = now
        for near in tuple(self._watched.values()) if start is None else (self._watched.get(start, {}),):
            for key in tuple(near):
                self.told(key)

    def told(self, key: str) -> None:
        for changed in self._watched.get(_start(key), {}).get(key, ()):
            changed(key)

    async def _read(self, key: str) -> _View:
        asked_at = time.monotonic()
        found = await self._core.records.get(_place(key))
        if found is None:
            self._forget(key)
            raise UnknownTask
        try:
            record = TaskRecord.parse(found.value)
        except (ValueError, TypeError, KeyError):
            raise UnknownTask from None
        if record.seconds_left <= 0:
            raise UnknownTask
        return self._see(key, record, found.revision, len(found.value), asked_at)

    def _see(self, key: str, record: TaskRecord, revision: int, size: int, read_at: float) -> _View:
        self._forget(key)
        view = self._views[key] = _View(record, revision, read_at, size + _ENTRY_BYTES)
        self._size += view.size
        while self._size > _VIEW_BYTES and len(self._views) > 1:
            self._forget(next(iter(self._views)))
        return view

    def _forget(self, key: str) -> None:
        if (view := self._views.pop(key, None)) is not None:
            self._size -= view.size


def _start(key: str) -> str:
    return key[:_NOTICE_CHARACTERS]


def _place(key: str) -> str:
    return f"task/{key}"
