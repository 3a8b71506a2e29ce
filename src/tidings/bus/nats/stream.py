"""The JetStream stream behind a `NatsBus`: a compacted log, because it keeps one message for each subject.

**What the log still covers.** Messages go for two reasons. One that is replaced by a newer one of its subject is no
loss: whoever asks for everything after a place gets the newer one. One that is dropped to make room is a loss. Nothing
in the stream tells the two apart: both leave a hole, and both move `first_seq`. So the stream has only one limit that
drops, `max_msgs`, and that is higher than the history of any bus. Then the number of messages tells:

- Let n(c) be how many messages there are after a place c. To replace a message never makes n(c) smaller: at most one
  after c goes, and one comes.
- Messages are dropped oldest first, and only when there are `max_msgs`. Once one after c was dropped, all that are left
  are after c, and so they stay: n(c) is `max_msgs` from then on, or one less for a moment.
- So as long as n(c) is less than that, nothing after c was dropped. A history of h entries, h being less, covers c if
  n(c) <= h: that is what "the newest h" means anyway. Age is for the reader to judge, by the time of each message: a
  limit of age in the stream, or one of bytes, would drop while n(c) is small.

`max_msgs` is only ever raised, since another bus may count on it. What was dropped before that is told by the mark.

**The mark** is a message of its own subject, the only one that is no change. It carries the epoch and a *floor*: what
is before the floor is not covered, whatever n(c) says. It is written by compare-and-set, so there is one truth, and
everybody hears of a new one in the order of the log. It is written anew before it becomes so old that it could be
dropped. So a stream without a mark was created, emptied or overwritten by somebody: a new epoch begins. The time at
which the stream was created is a part of the epoch too, for the sake of copies.

May import: `changes`, `errors`.

How a change is named and carried in NATS: the subject is for the broker, which keeps the newest message of each;
the payload is for the reader, and says it all.

A subject is made of tokens between dots; `*`, `>`, spaces and control characters mean something else in it. So a URI
becomes one token, percent-encoded where it has to be, and readable where it can be. The line on which a client names a
subject is limited to 4096 bytes by default, so a long URI is replaced by its hash: what it was is in the payload.

May import: `changes`, `errors`.

What the stream of a `NatsBus` has to be like.

May import: `errors`.
"""

import asyncio
import base64
import hashlib
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from tidings.bus import History
from tidings.bus.nats import errors
from tidings.bus.nats.connection import NatsConnection
from tidings.bus.nats.errors import ApiError
from tidings.bus.shared import storable_key
from tidings.changes import Change, ResourceUpdated, change_from_key, change_key

LONGEST_TOKEN: Final = 512
"""Characters of an encoded URI. Room is left in the line for the prefix and for where to send the answer."""

LARGEST_PAYLOAD: Final = 65_536
"""Bytes: more than any change has, since a URI has at most 8192 characters."""

_PREFIX = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


class Subjects:
    """The subjects of one bus, which all begin with `prefix`, and the name of the stream that holds them."""

    def __init__(self, prefix: str) -> None:
        if not _PREFIX.fullmatch(prefix) or len(prefix) > 128:
            raise ValueError(
                "A prefix is a name of letters, digits, _ and -, or several of them with dots between, "
                f"and has at most 128 characters; this one is not: {prefix!a}"
            )
        self.prefix = prefix
        self.all = f"{prefix}.>"
        self.stream = prefix.replace(".", "_")
        """A stream's name has no dots."""
        self.mark = f"{prefix}.log"
        """Of the one message that is no change: see `_nats_stream`."""

    def of(self, change: Change) -> str:
        """Where `change` goes: the same for equal changes, another for others."""
        if not isinstance(change, ResourceUpdated):
            return f"{self.prefix}.{change_key(change)}"
        # `quote` leaves the dot as it is, and encodes the percent sign, so that no two URIs become one.
        token = quote(change.uri, safe=":/?#[]@!$&'()+,;=").replace(".", "%2E")
        if len(token) <= LONGEST_TOKEN:
            return f"{self.prefix}.resource.{token or '%'}"
        return f"{self.prefix}.long.{hashlib.sha256(change.uri.encode()).hexdigest()}"


def payload(change: Change) -> bytes:
    """What a message says.

    Raises:
        InvalidUri: The change names a resource by a text that cannot be sent.
    """
    return storable_key(change).encode()


def change_in(data: bytes) -> Change | None:
    """The change that a message tells of; None if it tells of none."""
    try:
        return change_from_key(data.decode())
    except ValueError:
        return None


_FORBIDDEN: Final = ("mirror", "sources", "sealed", "no_ack", "subject_transform", "persist_mode")
"""What would make it something else than a log that keeps what it has acknowledged."""


class StreamShape:
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


SPARE: Final = 16_384
"""Messages that are kept beyond twice the history: for the mark, and for readers that are slow for a moment."""

_FORMAT: Final = 1
_NOT_FOUND: Final = {10014, 10037, 10059}
_NAME_IN_USE: Final = 10058
_OUTDATED: Final = {10071, 10164}
"""Compare-and-set found another message than expected."""

_ATTEMPTS: Final = 10
_PATIENCE: Final = 1.0
"""Seconds after which a question is asked again."""

_NEVER: Final = 2**62


@dataclass(frozen=True, slots=True)
class Mark:
    """What the mark says, and where it stands."""

    epoch: str
    floor: int
    seq: int


@dataclass(frozen=True, slots=True)
class StreamState:
    """How it stands with the stream. Times are in nanoseconds since 1970, by the broker's clock."""

    created: str
    first: int
    last: int
    last_at: int
    now: int
    limit: int
    """How many messages there may be; 0: any number."""
    narrow: bool
    """It drops more than it may."""

    def epoch(self, mark: Mark) -> str:
        """The epoch in which the stream is, for all who use it."""
        return hashlib.sha256(f"{mark.epoch} {self.created}".encode()).hexdigest()[:12]


class NatsStream:
    """The stream of a bus, over one connection. Each method may raise what `NatsConnection.ask` does."""

    def __init__(self, connection: NatsConnection, subjects: Subjects, history: History, replicas: int) -> None:
        self.name = subjects.stream
        self._connection = connection
        self._subjects = subjects
        self._shape = StreamShape(subjects, limit=2 * history.entries + SPARE, replicas=replicas)
        self.mark_lasts = (history.entries + SPARE) // 2
        """After so many messages the mark is written anew."""

    @staticmethod
    def may_have_dropped(count: int, found: StreamState) -> bool:
        """Whether, with `count` messages after a place, some after it may have been dropped, or may be any moment."""
        return 0 < found.limit <= count + SPARE // 4

    async def find(self) -> StreamState:
        """How it stands with the stream now."""
        return self._found(await self._api("STREAM.INFO"))

    async def prepare(self) -> StreamState:
        """Create the stream if it is missing, check it if it is there, and give it room for the history.

        Raises:
            BusMismatch: It is there, and not of the shape that a bus needs.
        """
        for _ in range(_ATTEMPTS):
            try:
                answer = await self._api("STREAM.INFO")
            except ApiError as error:
                if error.code not in _NOT_FOUND:
                    raise
                try:
                    answer = await self._api("STREAM.CREATE", self._shape.wanted)
                except ApiError as refusal:
                    # Another process has created it at the same time.
                    if refusal.code != _NAME_IN_USE:
                        raise
                    continue
            return self._found(await self._adapt(answer))
        raise ApiError(_NAME_IN_USE, "stream name already in use")

    def _found(self, answer: dict[str, Any]) -> StreamState:
        config, state, now = answer["config"], answer["state"], answer.get("ts")
        last_at = nanoseconds(state["last_ts"])
        return StreamState(
            created=answer["created"],
            first=state["first_seq"],
            last=state["last_seq"],
            last_at=last_at,
            now=nanoseconds(now) if now else last_at,
            limit=max(config["max_msgs"], 0),
            narrow=bool(self._shape.lifted(config)),
        )

    async def _adapt(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Lift what does not suffice for the history."""
        found = answer["config"]
        self._shape.check(found, self._connection.address.url)
        lifted = self._shape.lifted(found)
        if lifted:
            await self._raise_floor()
        lifted |= self._shape.multiplied(found)
        return await self._api("STREAM.UPDATE", found | lifted) if lifted else answer

    async def _raise_floor(self) -> None:
        """Limits are about to be lifted, and what they have dropped so far would then go unnoticed."""
        for _ in range(_ATTEMPTS):
            mark = await self.mark()
            if mark is None or await self.set_mark(mark.epoch, None, expected=mark.seq):
                return

    async def mark(self) -> Mark | None:
        """The mark, if there is one.

        Raises:
            BusMismatch: It was written by another version.
        """
        try:
            answer = await self._api("STREAM.MSG.GET", {"last_by_subj": self._subjects.mark})
        except ApiError as error:
            if error.code in _NOT_FOUND:
                return None
            raise
        message = answer["message"]
        return self.mark_in(base64.b64decode(message.get("data", "")), message["seq"])

    def mark_in(self, data: bytes, seq: int) -> Mark:
        """The mark in a message. Its epoch is empty if somebody has put something else there.

        Raises:
            BusMismatch: It was written by another version.
        """
        try:
            said: dict[str, Any] = json.loads(data)
            version, epoch, floor = said["format"], str(said["epoch"]), said.get("floor")
            mark = Mark(epoch, seq - 1 if floor is None else int(floor), seq)
        except (ValueError, TypeError, KeyError):
            return Mark("", seq - 1, seq)
        if version != _FORMAT:
            raise errors.other_format(self.name, self._connection.address.url, version)
        return mark

    async def set_mark(self, epoch: str, floor: int | None, *, expected: int) -> Mark | None:
        """Write the mark where the one at `expected` was, 0 for none; None if another is there meanwhile.

        The `floor` None is right before the mark itself.
        """
        body = {"format": _FORMAT, "epoch": epoch, "floor": floor}
        headers = {"Nats-Expected-Stream": self.name, "Nats-Expected-Last-Subject-Sequence": str(expected)}
        try:
            answer = await self._ask(self._subjects.mark, body, headers)
        except ApiError as error:
            if error.code in _OUTDATED:
                return None
            raise
        return Mark(epoch, answer["seq"] - 1 if floor is None else floor, answer["seq"])

    async def probe(self, mark: Mark) -> None:
        """Find out, without writing anything, whether this process may write: a mark that never was is not there."""
        await self.set_mark(mark.epoch, mark.floor, expected=_NEVER)

    async def first_after(self, at: int) -> int | None:
        """The first message that was stored after the time `at`; None if there is none."""
        moment = datetime.fromtimestamp((at + 1) // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        try:
            answer = await self._api("STREAM.MSG.GET", {"start_time": f"{moment}.{(at + 1) % 10**9:09}Z"})
        except ApiError as error:
            if error.code in _NOT_FOUND:
                return None
            raise
        return answer["message"]["seq"]

    async def read_from(self, start: int, inbox: str, *, name: str, beat: float) -> int:
        """Have all messages from `start` on sent to `inbox`, in order; how many there are now."""
        config = {
            "name": name,
            "deliver_subject": inbox,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": start,
            "ack_policy": "none",
            "max_deliver": 1,
            "flow_control": True,
            "idle_heartbeat": round(beat * 10**9),
            "inactive_threshold": 10 * 10**9,
            "mem_storage": True,
            "num_replicas": 1,
        }
        answer = await self._api("CONSUMER.CREATE", {"stream_name": self.name, "config": config}, suffix=f".{name}")
        return answer["num_pending"] + answer["delivered"]["consumer_seq"]

    async def _api(self, what: str, body: object = None, *, suffix: str = "") -> dict[str, Any]:
        return await self._ask(f"$JS.API.{what}.{self.name}{suffix}", body)

    async def _ask(self, subject: str, body: object, headers: dict[str, str] | None = None) -> dict[str, Any]:
        """The answer to a question, which is asked again and again: a cluster without a leader says nothing at all.

        Nothing that is asked here does harm when it is asked twice.
        """
        while not self._connection.ended.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    return await self._connection.ask(subject, body, headers)
        raise self._connection.ended.result()


def nanoseconds(text: str) -> int:
    """A time as the broker writes it, in nanoseconds since 1970; 0 for "never"."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    seconds = datetime.fromisoformat(whole + "+00:00").timestamp()
    return max(0, round(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9] or 0))
