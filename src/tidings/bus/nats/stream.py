"""The JetStream stream behind a `NatsBus`: its subjects and payloads, its configuration, its first and last message.

It keeps one message for each subject, so it is a compacted log. A hole may be a message that was replaced, which is no
loss, or one that was dropped to make room, which is one. So the stream has only one limit that drops messages,
`max_msgs`, higher than the history of any bus: as long as fewer messages than that are after a position, nothing after
it was dropped. (Replacing one never makes their number smaller, and they are dropped oldest first.) It is only ever
raised, because another bus may rely on it. A limit of age or bytes would break this, so the reader judges age.

The *mark* is a message with a subject of its own, the only one that is not a change. It carries the epoch and a
*floor*: what is before that is not covered. It is written by compare-and-set, and anew before it is old enough to be
dropped: a stream without one was created, emptied or overwritten, and a new epoch begins. Because of copies, the time
at which the stream was created is part of the epoch, too. Each mark begins a term (`Terms`): a process writes one over
each connection before its first change there, unless another process has done so since it connected.

The subject is for the broker, the payload for the reader. In a subject, a URI is one token, percent-encoded where
necessary. Clients may name subjects of 4096 bytes by default, so a long URI is replaced by its hash.
"""

import asyncio
import base64
import hashlib
import json
import re
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from tidings.bus import History
from tidings.bus.nats.connection import NatsConnection
from tidings.bus.nats.errors import ApiError
from tidings.bus.shared import Terms, new_term
from tidings.changes import Change, ResourceUpdated, change_from_key, change_key
from tidings.errors import BusMismatch

LONGEST_TOKEN: Final = 512  # Characters of an encoded URI, with room for the prefix and the subject of the answer.
LARGEST_PAYLOAD: Final = 65_536  # Bytes. No change has more, because a URI has at most 8192 characters.
SPARE: Final = 16_384  # Messages beyond twice the history: for the mark, and for readers that are slow for a while.
_FORMAT: Final = 1
_NOT_FOUND: Final = {10014, 10037, 10059}
_NAME_IN_USE: Final = 10058
OUTDATED: Final = {10071, 10164}  # Compare-and-set found a message other than the expected one.
_ATTEMPTS: Final = 10
_PATIENCE: Final = 1.0  # Seconds after which a request is repeated.
_NEVER: Final = 2**62
_START_AFRESH: Final = (
    "It only holds recent changes: stop what uses it and delete it (nats stream rm), or give this bus another prefix."
)

# Settings with which a stream would not keep everything that it has acknowledged.
_FORBIDDEN: Final = ("mirror", "sources", "sealed", "no_ack", "subject_transform", "persist_mode")

_PREFIX = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


class Subjects:
    """The subjects of one bus, or of its records, and the name of their stream. All begin with `prefix`."""

    def __init__(self, prefix: str, *, records: bool = False) -> None:
        if not _PREFIX.fullmatch(prefix) or len(prefix) > 128:
            raise ValueError(
                "A prefix must be one or more names of letters, digits, _ and - with dots between, "
                f"and have at most 128 characters, not {prefix!a}"
            )
        # No prefix has this sign, so that no log has the subjects of records.
        self.prefix = prefix = f"{prefix}~records" if records else prefix
        self.all = f"{prefix}.>"
        self.stream = prefix.replace(".", "_")  # Its name must not have dots.
        self.mark = f"{prefix}.log"

    def of(self, change: Change) -> str:
        """Returns the subject of `change`: the same for equal changes, another for others."""
        if not isinstance(change, ResourceUpdated):
            return f"{self.prefix}.{change_key(change)}"
        token = _token(change.uri)
        if len(token) <= LONGEST_TOKEN:
            return f"{self.prefix}.resource.{token or '%'}"
        return f"{self.prefix}.long.{hashlib.sha256(change.uri.encode()).hexdigest()}"

    def of_record(self, key: str) -> str:
        return f"{self.prefix}.{_token(key)}"


def _token(text: str) -> str:
    """Returns `text` as one token of a subject."""
    # `quote` keeps the dot, and encodes the percent sign, so that no two texts have the same token.
    return quote(text, safe=":/?#[]@!$&'()+,;=").replace(".", "%2E")


def change_in(data: bytes) -> Change | None:
    """Returns the change in a message; None if there is none."""
    try:
        return change_from_key(data.decode())
    except ValueError:
        return None


class StreamShape:
    """The configuration of a stream for a `history`, in at least `replicas` replicas."""

    cure = _START_AFRESH

    def __init__(self, subjects: Subjects, history: History, replicas: int) -> None:
        self.subjects = subjects
        self.history = history
        self.mark_lasts = (history.entries + SPARE) // 2  # Messages after which the mark is written anew.
        self.replicas = replicas
        self._limit = 2 * history.entries + SPARE
        self._fixed: dict[str, Any] = {
            "subjects": [subjects.all],
            "retention": "limits",
            "storage": "file",
            "discard": "old",
            "max_msgs_per_subject": 1,
        }

    @property
    def wanted(self) -> dict[str, Any]:
        """The configuration of a new stream."""
        return self._fixed | {
            "name": self.subjects.stream,
            "description": "Changes that Tidings carries between processes",
            "max_msgs": self._limit,
            "max_age": 0,
            "max_bytes": -1,
            "max_msg_size": -1,
            "num_replicas": self.replicas,
            # A message that is deleted by hand would be missed, and nothing would show it.
            "deny_delete": True,
            "deny_purge": True,
        }

    def check(self, found: dict[str, Any], place: str) -> None:
        """Raises `BusMismatch`, with the differences, if the stream `found` at `place` cannot be used."""
        differences = [(key, found.get(key), value) for key, value in self._fixed.items() if found.get(key) != value]
        differences += [(key, found[key], None) for key in _FORBIDDEN if found.get(key)]
        if 0 <= found.get("max_msg_size", -1) < LARGEST_PAYLOAD:
            differences.append(("max_msg_size", found["max_msg_size"], -1))
        if differences:
            listed = ", ".join(f"{what} is {ours!r} and not {wanted!r}" for what, ours, wanted in differences)
            text = f"This bus cannot use the stream {self.subjects.stream} at {place}: {listed}. {self.cure}"
            raise BusMismatch(text)

    def lifted(self, found: dict[str, Any]) -> dict[str, Any]:
        """Returns new values for the limits that are too low. None is ever lowered: others may rely on it."""
        too_low = {
            "max_msgs": 0 < found["max_msgs"] < self._limit,
            "max_age": found["max_age"] > 0,
            "max_bytes": found["max_bytes"] > 0,
        }
        return {key: self.wanted[key] for key, low in too_low.items() if low}


class RecordsShape(StreamShape):
    """The configuration of the stream of records. Its numbers begin with the time: no other stream repeats them."""

    cure = "Delete it (nats stream rm) while nothing uses it, which ends all sessions, or give this bus another prefix."

    def __init__(self, prefix: str, replicas: int) -> None:
        super().__init__(Subjects(prefix, records=True), History(), replicas)
        self._fixed["allow_msg_ttl"] = True
        self._limit = -1

    @property
    def wanted(self) -> dict[str, Any]:
        own = {"description": "Records that Tidings keeps for its processes", "first_seq": time.time_ns() // 1000}
        return super().wanted | own | {"deny_delete": False, "deny_purge": False}


@dataclass(frozen=True, slots=True)
class Mark:
    """The content of the mark, and its position."""

    epoch: str
    floor: int
    seq: int
    terms: Terms = field(default_factory=Terms)


@dataclass(frozen=True, slots=True)
class StreamState:
    """The state of the stream. Times are in nanoseconds since 1970, by the broker's clock."""

    created: str
    first: int
    last: int
    last_at: int
    now: int
    limit: int  # The largest number of messages; 0 for no limit.
    narrow: bool  # Its limits are too low.

    def epoch(self, mark: Mark) -> str:
        """Returns the epoch of the stream, the same for every process."""
        return hashlib.sha256(f"{mark.epoch} {self.created}".encode()).hexdigest()[:12]

    def may_have_dropped(self, count: int) -> bool:
        """Returns whether messages after a position may have been dropped, or may be soon, with `count` left."""
        return 0 < self.limit <= count + SPARE // 4


class NatsStream:
    """The stream of a bus, over one connection. Each method may raise the errors of `NatsConnection.ask`."""

    def __init__(self, connection: NatsConnection, shape: StreamShape) -> None:
        self.name = shape.subjects.stream
        self.connection = connection
        self.shape = shape

    async def prepare(self) -> None:
        """Creates the stream, or raises its limits for the history. Raises `BusMismatch` if a bus cannot use it."""
        for _ in range(_ATTEMPTS):
            try:
                found = (await self._api("STREAM.INFO"))["config"]
            except ApiError as error:
                if error.code not in _NOT_FOUND:
                    raise
                try:
                    found = (await self._api("STREAM.CREATE", self.shape.wanted))["config"]
                except ApiError as refusal:
                    # Another process created it at the same time.
                    if refusal.code != _NAME_IN_USE:
                        raise
                    continue
            self.shape.check(found, self.connection.address.url)
            changes = self.shape.lifted(found)
            # Once limits are raised, what they dropped so far can no longer be seen: the mark gets a new floor.
            for _ in range(_ATTEMPTS if changes else 0):
                mark = await self.mark()
                if mark is None or await self.replace(mark, floor=None):
                    break
            if found["num_replicas"] < self.shape.replicas:
                changes["num_replicas"] = self.shape.replicas
            if changes:
                await self._api("STREAM.UPDATE", found | changes)
            return
        raise ApiError(_NAME_IN_USE, "stream name already in use")

    async def find(self) -> StreamState:
        answer = await self._api("STREAM.INFO")
        config, state, now = answer["config"], answer["state"], answer.get("ts")
        last_at = nanoseconds(state["last_ts"])
        return StreamState(
            created=answer["created"],
            first=state["first_seq"],
            last=state["last_seq"],
            last_at=last_at,
            now=nanoseconds(now) if now else last_at,
            limit=max(config["max_msgs"], 0),
            narrow=bool(self.shape.lifted(config)),
        )

    async def mark(self) -> Mark | None:
        """Returns the mark, if there is one. Raises `BusMismatch` if it was written by another version."""
        message = await self.newest(self.shape.subjects.mark)
        return None if message is None else self.mark_in(base64.b64decode(message.get("data", "")), message["seq"])

    async def newest(self, subject: str) -> dict[str, Any] | None:
        return await self._message({"last_by_subj": subject})

    async def _message(self, which: dict[str, str]) -> dict[str, Any] | None:
        try:
            return (await self._api("STREAM.MSG.GET", which))["message"]
        except ApiError as error:
            if error.code in _NOT_FOUND:
                return None
            raise

    def mark_in(self, data: bytes, seq: int) -> Mark:
        """Returns the mark in a message: see `mark`. Its epoch is empty if the message is something else."""
        try:
            said: dict[str, Any] = json.loads(data)
            version, epoch, floor = said["format"], str(said["epoch"]), said.get("floor")
            # Marks of version 0.1 begin no term.
            terms, term = Terms.parse(said.get("terms", "")), said.get("term")
            mark = Mark(epoch, seq - 1 if floor is None else int(floor), seq, terms.begin(seq, term) if term else terms)
        except (ValueError, TypeError, KeyError, AttributeError):
            return Mark("", seq - 1, seq)
        if version != _FORMAT:
            raise BusMismatch(
                f"The stream {self.name} at {self.connection.address.url} was written by another version of Tidings "
                f"(format {version}). Let all processes use the same version. {_START_AFRESH}"
            )
        return mark

    async def replace(self, mark: Mark, *, floor: int | None) -> bool:
        """Writes `mark` anew, and begins a term. A floor of None is right before it. False: there is another by now."""
        return await self._set_mark(mark.epoch, floor, mark.terms, mark.seq)

    async def begin_epoch(self, before: Mark | None) -> None:
        """Replaces the mark, if there is one, unless another process does so at the same time."""
        await self._set_mark(secrets.token_hex(8), None, Terms(), before.seq if before else 0)

    async def _set_mark(self, epoch: str, floor: int | None, terms: Terms, expected: int) -> bool:
        body = {"format": _FORMAT, "epoch": epoch, "floor": floor, "terms": str(terms), "term": new_term()}
        headers = {"Nats-Expected-Stream": self.name, "Nats-Expected-Last-Subject-Sequence": str(expected)}
        try:
            await self._ask(self.shape.subjects.mark, body, headers)
        except ApiError as error:
            if error.code in OUTDATED:
                return False
            raise
        return True

    async def probe(self, mark: Mark) -> None:
        """Checks, without writing anything, whether this process may write: it expects a mark that never existed."""
        await self._set_mark(mark.epoch, mark.floor, Terms(), _NEVER)

    async def store(self, subject: str, data: bytes, headers: dict[str, str]) -> int:
        """Stores a message, and returns its number. Not repeated: it may have been stored if this fails."""
        return (await self.connection.ask(subject, data, {"Nats-Expected-Stream": self.name} | headers))["seq"]

    async def purge(self, subject: str) -> None:
        """Deletes the message of `subject`, if there is one."""
        try:
            await self._api("STREAM.PURGE", {"filter": subject})
        except ApiError as error:
            if error.code not in _NOT_FOUND:
                raise

    async def first_after(self, at: int) -> int | None:
        """Returns the first message that was stored after the time `at`; None if there is none."""
        moment = datetime.fromtimestamp((at + 1) // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        message = await self._message({"start_time": f"{moment}.{(at + 1) % 10**9:09}Z"})
        return None if message is None else message["seq"]

    async def read_from(self, start: int, inbox: str, *, name: str, beat: float) -> int:
        """Lets the broker send all messages from `start` on to `inbox`, in order. Returns their present number."""
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
        """Returns the answer to a request. It is safe to repeat, as a cluster without a leader does not answer."""
        while not self.connection.ended.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    return await self.connection.ask(subject, body, headers)
        raise self.connection.ended.result()


def nanoseconds(text: str) -> int:
    """Returns a time of the broker in nanoseconds since 1970; 0 for "never"."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    seconds = datetime.fromisoformat(whole + "+00:00").timestamp()
    return max(0, round(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9] or 0))
