"""MCP Events on the wire, for both sides: names, error codes, and Standard Webhooks signatures.

This is SEP-3415, a draft. For its next version, change this file. The draft has no methods for what became of
deliveries: those of Tidings are `DELIVERIES` (`{subscriptionId?, limit?}`, with an answer of `subscriptions` and
`deliveries`, newest first and without secrets) and `REDELIVER` (`{subscriptionId, eventId}`). They answer to the owner
of a subscription.
"""

import base64
import binascii
import hmac
import secrets
from collections.abc import Iterable, Mapping
from typing import Final

EXTENSION: Final = "io.modelcontextprotocol/events"  # In `capabilities.extensions`, as the draft has it.
CAPABILITY: Final = "events"  # In the capabilities themselves, as the sketch before it and ChatGPT have it.

LIST: Final = "events/list"
POLL: Final = "events/poll"
STREAM: Final = "events/stream"
SUBSCRIBE: Final = "events/subscribe"
UNSUBSCRIBE: Final = "events/unsubscribe"
DELIVERIES: Final = "dev.tidings/events/deliveries"
REDELIVER: Final = "dev.tidings/events/redeliver"

ACTIVE: Final = "notifications/events/active"
EVENT: Final = "notifications/events/event"
HEARTBEAT: Final = "notifications/events/heartbeat"
ERROR: Final = "notifications/events/error"
TERMINATED: Final = "notifications/events/terminated"

# The error codes of the sketch, which ChatGPT uses, and those of the draft, which are provisional.
NOT_FOUND: Final = (-32011, -32023)
FORBIDDEN: Final = (-32012, -32024)
EXHAUSTED: Final = (-32013, -32025)
UNSUPPORTED: Final = (-32014, -32026)
CALLBACK_FAILED: Final = (-32015, -32027)

HEARTBEAT_SECONDS: Final = 30.0  # At least so often. A stream is dead after twice that.
MOST_BYTES: Final = 262_144  # Of the body of a webhook.
TOLERANCE: Final = 300.0  # Seconds by which the timestamp of a webhook may be off.

ID_HEADER: Final = "webhook-id"
TIMESTAMP_HEADER: Final = "webhook-timestamp"
SIGNATURE_HEADER: Final = "webhook-signature"
SUBSCRIPTION_HEADER: Final = "x-mcp-subscription-id"

_PREFIX: Final = "whsec_"
_SECRET_FORM: Final = "A webhook secret is whsec_ and the base64 of 24 to 64 random bytes"  # noqa: S105


def new_secret() -> str:
    """Makes a secret for webhooks."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def secret_key(secret: str) -> bytes:
    """Returns the key in a secret. Raises `ValueError`, without the secret, if it has the wrong form."""
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX).encode(), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        key = b""
    if not secret.startswith(_PREFIX) or not 24 <= len(key) <= 64:
        raise ValueError(f"{_SECRET_FORM}.")
    return key


def signature(message_id: str, timestamp: int, body: bytes, keys: Iterable[bytes]) -> str:
    """Returns the signatures of a webhook, one for each key: more than one while a secret is replaced."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return " ".join(f"v1,{base64.b64encode(hmac.digest(key, signed, 'sha256')).decode()}" for key in keys)


def complaint(headers: Mapping[str, str], body: bytes, keys: Iterable[bytes], now: float) -> str | None:
    """Returns the reason why a webhook is not to be trusted; None if it is. `headers` has lower-case names."""
    message_id, sent, given = (headers.get(name, "") for name in (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER))
    if not (message_id and sent.isascii() and sent.isdecimal() and len(sent) < 16 and given):
        return f"{ID_HEADER}, {TIMESTAMP_HEADER} or {SIGNATURE_HEADER} is missing or invalid"
    if abs(now - int(sent)) > TOLERANCE:
        return f"{TIMESTAMP_HEADER} is more than {TOLERANCE:.0f} s off: check both clocks"
    ours = [each.encode() for each in signature(message_id, int(sent), body, keys).split()]
    theirs = given.encode().split()[:16]
    # Every pair is compared, so that the time tells nothing.
    if not sum(hmac.compare_digest(one, other) for one in ours for other in theirs):
        return "no signature fits"
    return None
