"""`Seals`: texts that only the replicas of this server can write and read, such as the cursors of private changes.

Two seals of the same content differ, and only the length of the content shows: write numbers in a fixed width. The
replicas share one key, a record on their bus. Without it, each process has a key of its own.
"""

import hmac
import logging
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tidings.bus import Records
from tidings.bus.shared import LONGEST_STAY
from tidings.errors import TransportError

logger = logging.getLogger(__name__)

_RECORD: Final = "key/seals"
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_LOOK_SECONDS: Final = 10.0  # Anybody can send a text that is no seal: the bus is not asked about each.
_TRIES: Final = 3


class Seals:
    """Writes and reads seals. `records` are those of the bus, if it has any."""

    def __init__(self, records: Records | None) -> None:
        self._records = records
        self._key = secrets.token_bytes(_KEY_BYTES)
        self._cipher = AESGCM(self._key)
        self._looked = float("-inf")

    def seal(self, purpose: str, content: str) -> str:
        """Returns `content` as a seal that opens for the same `purpose` only. A purpose may name a principal."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + self._cipher.encrypt(nonce, content.encode(), purpose.encode())
        return urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def digest(self, purpose: str, content: str) -> str:
        """Returns a mark of `content`: every replica makes the same, and nobody else can."""
        return hmac.new(self._key, f"{purpose} {content}".encode(), "sha256").hexdigest()[:32]

    async def open(self, purpose: str, text: str) -> str | None:
        """Returns the content of a seal; None if `text` is not one for this `purpose`, or its key is lost."""
        content = self._open(purpose, text)
        if content is None and time.monotonic() - self._looked >= _LOOK_SECONDS:
            await self.share_key()  # This replica may have been unable to share its key before.
            content = self._open(purpose, text)
        return content

    async def share_key(self) -> None:
        """Takes the key of the other replicas. If there is none, they take this one."""
        is_first, self._looked = self._looked < 0, time.monotonic()
        if self._records is None:
            return
        try:
            for _ in range(_TRIES):
                if (found := await self._records.get(_RECORD)) is not None:
                    self._cipher = AESGCM(found.value)
                    self._key = found.value
                    return
                if await self._records.put(_RECORD, self._key, seconds=LONGEST_STAY, revision=0) is not None:
                    return
        except (TransportError, ValueError) as error:  # It cannot be reached, or has something else there.
            if is_first:
                logger.warning("Other replicas cannot read what this one encrypts: no shared key (%s)", error)

    def _open(self, purpose: str, text: str) -> str | None:
        try:
            sealed = urlsafe_b64decode(text.encode() + b"==")
            if urlsafe_b64encode(sealed).rstrip(b"=") != text.encode():
                return None  # Python ignores what does not belong into it: there is one way to write a seal.
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], purpose.encode()).decode()
        except (ValueError, InvalidTag):
            return None
