"""`SessionRecords`: the part of each legacy session that all replicas share, as records on their bus.

A record is changed by compare-and-set. One that was lost is written anew from what a replica knew of it.
"""

import json
import logging
import secrets
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST

from tidings.bus import Records
from tidings.errors import LimitReached, MessageTooLarge, TransportError

logger = logging.getLogger(__name__)

MOST_LETTER_BYTES: Final = 500_000
_LETTER_SECONDS: Final = 120.0
_ENDED_SECONDS: Final = 30.0  # For which the other replicas are kept from writing a session that was ended anew.
_MOST_LETTERS: Final = 256
_MOST_REPLICAS: Final = 16
_MOST_TRIES: Final = 100  # Of a write, if others write the same record at the same time.
_SMALL: Final = 2_000  # Characters of what sessions share.
_ENDED: Final = b""  # The record of a session that was ended a moment ago.


class SessionEnded(MCPError):
    """The session of a request has been ended, or is not its sender's."""

    def __init__(self) -> None:
        super().__init__(INVALID_REQUEST, "Session not found")


@dataclass(slots=True)
class SessionRecord:
    """The part of a session that all replicas share."""

    owner: list[str | None] | None  # The principal that opened it, if it signed in.
    since: str  # The cursor at the handshake.
    handshake: dict[str, Any] = field(default_factory=dict[str, Any])  # The parameters of `initialize`. None with SSE.
    server: list[Any] = field(default_factory=list[Any])  # The name, protocol version and capabilities in its answer.
    subscriptions: dict[str, str] = field(default_factory=dict[str, str])  # Each with the cursor at its beginning.
    endpoint: str = ""  # The path of its messages, with SSE.
    level: str = ""  # The last level of `logging/setLevel`.
    stream: str = ""  # The replica through which the event stream was opened last.
    replicas: list[str] = field(default_factory=list[str])  # Those that hold the session, and may be gone.
    letters: list[str] = field(default_factory=list[str])  # Messages for other replicas, the latest last.
    edition: int = 0  # Higher with each change: that of an older copy is lower.
    life: str = ""  # Another one each time that it was lost, and that a replica has written what it knew of it.

    def __post_init__(self) -> None:
        # Many clients are one program, and these never change: one object for all saves memory.
        self.handshake, self.server = _one_of(self.handshake), _one_of(self.server)

    def encode(self) -> bytes:
        return zlib.compress(json.dumps(asdict(self), separators=(",", ":")).encode(), 1)

    @classmethod
    def decode(cls, data: bytes) -> "SessionRecord":
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in json.loads(zlib.decompress(data)).items() if name in known})

    def is_older_than(self, known: "SessionRecord") -> bool:
        """Returns whether it may lack something that was `known` to a replica: it was lost, or is an older copy."""
        return self.life != known.life or self.edition < known.edition

    def complete(self, known: "SessionRecord") -> None:
        """Adds what it may lack. A resource that was unsubscribed from in that moment may come back."""
        if self.is_older_than(known):
            if self.life == known.life:
                self.life = secrets.token_hex(4)  # So that the other replicas complete it, too.
            self.subscriptions = {**known.subscriptions, **self.subscriptions}
            self.stream = self.stream or known.stream

    def joined_by(self, replica: str) -> None:
        self.replicas = [*(each for each in self.replicas if each != replica), replica][-_MOST_REPLICAS:]

    def add_letter(self, letter: str) -> None:
        self.letters = [*self.letters, letter][-_MOST_LETTERS:]


def _one_of(value: Any) -> Any:
    """Returns one object for all that are equal to `value`, if they are small."""
    text = json.dumps(value)
    return _read(text) if len(text) <= _SMALL else value


@lru_cache(maxsize=64)
def _read(text: str) -> Any:
    return json.loads(text)


class SessionRecords:
    """The records of all sessions on one bus. One of a session that nobody uses for `idle` seconds expires."""

    def __init__(self, stored: Records, idle: float) -> None:
        self._stored = stored
        self._idle = idle
        self._seconds = idle * 1.5  # Kept alive four times in `idle`.
        self._has_worked: bool | None = None  # The bus has stored a record. None: it was not asked yet.

    async def work(self) -> bool:
        """Returns whether this bus has stored a record. The user of the bus may lack a permission for that."""
        if not self._has_worked:
            try:
                await self._stored.put(_key("probe"), b"", seconds=self._idle)
            except TransportError as error:
                if self._has_worked is None:
                    logger.warning("Sessions are not shared with other replicas: %s", error)
                self._has_worked = False
                return False
            self._has_worked = True
        return True

    async def get(self, session_id: str) -> SessionRecord | None:
        found = await self._stored.get(_key(session_id))
        return SessionRecord.decode(found.value) if found and found.value != _ENDED else None

    async def create(self, session_id: str, record: SessionRecord) -> bool:
        """Stores a new record. Returns False if there is one, or the records of this bus have never worked."""
        if not await self.work():
            return False
        try:
            if not await self._stored.put(_key(session_id), record.encode(), seconds=self._seconds, revision=0):
                logger.warning("A new session has the id of an existing one. It is not shared.")
                return False
        except TransportError as error:
            # It may be stored, and other replicas may have it. If not, it is when it changes.
            logger.warning("The session of a client is not shared with other replicas yet: %s", error)
        except ValueError as error:  # This handshake is too large for a record.
            logger.warning("The session of a client is not shared with other replicas: %s", error)
            return False
        return True

    async def change(
        self, session_id: str, known: SessionRecord | None, change: Callable[[SessionRecord], object]
    ) -> SessionRecord:
        """Applies `change` to a record, or to what is `known` if it was lost. Raises `LimitReached`, `SessionEnded`."""
        for _ in range(_MOST_TRIES):
            found = await self._stored.get(_key(session_id))
            if found is not None and found.value != _ENDED:
                record = SessionRecord.decode(found.value)
            elif found is None and known is not None:
                record = replace(known, life=secrets.token_hex(4))
            else:
                raise SessionEnded
            change(record)
            revision = found.revision if found else 0
            if await self._stored.put(_key(session_id), record.encode(), seconds=self._seconds, revision=revision):
                return record
        text = "Too many requests change this session at the same time. Try again in a moment."
        raise LimitReached(text, data={"limit": "session", "scope": "server"})

    async def end(self, session_id: str, *, has_others: bool) -> None:
        """Ends a session. If other replicas hold it, that is noted: a write of theirs would bring a record back."""
        if has_others:
            await self._stored.put(_key(session_id), _ENDED, seconds=_ENDED_SECONDS)
        else:
            await self._stored.delete(_key(session_id))

    async def put_letter(self, letter: str, message: bytes) -> None:
        if len(message) > MOST_LETTER_BYTES:
            raise MessageTooLarge(f"This message is for another replica, which gets at most {MOST_LETTER_BYTES} bytes.")
        await self._stored.put(f"letter/{letter}", message, seconds=_LETTER_SECONDS)

    async def letter(self, letter: str) -> bytes | None:
        found = await self._stored.get(f"letter/{letter}")
        return found and found.value


def _key(session_id: str) -> str:
    return f"session/{session_id}"
