"""How a change is named and carried in NATS: the subject is for the broker, which keeps the newest message of each;
the payload is for the reader, and says it all.

A subject is made of tokens between dots; `*`, `>`, spaces and control characters mean something else in it. So a URI
becomes one token, percent-encoded where it has to be, and readable where it can be. The line on which a client names a
subject is limited to 4096 bytes by default, so a long URI is replaced by its hash: what it was is in the payload.

May import: `changes`, `errors`.
"""

import hashlib
import re
from typing import Final
from urllib.parse import quote

from tidings.bus._shared import storable_key
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
