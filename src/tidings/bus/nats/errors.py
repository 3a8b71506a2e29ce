"""The errors of the broker of a `NatsBus`, with cause and cure."""

import socket
import ssl
from collections.abc import Sequence
from typing import Final

from tidings.errors import BusMismatch, BusUnavailable

Trouble = BusUnavailable | BusMismatch
TROUBLES: Final = (BusUnavailable, BusMismatch)

NO_TLS: Final = "the server offers no TLS"

# Causes by the error code of the JetStream API.
_API: dict[int, tuple[type[Trouble], str]] = {
    10002: (BusUnavailable, "the account has used up what JetStream grants it. Raise its limits."),
    10005: (BusUnavailable, "the cluster has too few servers for so many replicas. Add servers, or ask for fewer."),
    10008: (BusUnavailable, "the cluster has no leader at present. Wait until more than half of its servers run."),
    10023: (BusUnavailable, "the server has no room left for JetStream. Give it more, or delete what is not used."),
    10026: (BusUnavailable, "there are as many consumers as are permitted. Raise max_consumers."),
    10027: (BusUnavailable, "there are as many streams as are permitted. Raise the account's limit."),
    10028: (BusUnavailable, "there is no room left for the account's streams. Raise its limits."),
    10039: (BusUnavailable, "JetStream is off for this account. Enable it in the account's configuration."),
    10047: (BusUnavailable, "its disk or its JetStream limit has no room. Free some, or raise max_file_store."),
    10058: (BusUnavailable, "the stream was just created in another shape. Try again."),
    10065: (BusMismatch, "another stream holds these subjects. Give this bus another prefix, or delete that stream."),
    10074: (BusUnavailable, "more than one replica needs a cluster. Connect to one, or ask for one replica."),
    10076: (
        BusUnavailable,
        "JetStream is off. Start nats-server with -js. If its disk was full, restart it with room.",
    ),
    10077: (BusUnavailable, "the server could not store it. Look at its log, and at the room on its disk."),
    10113: (BusMismatch, "the account demands a limit in bytes for each stream. A bus cannot have one: lift that."),
}

# Causes by a part of the message of the server or the client library.
_TEXTS: Sequence[tuple[str, str]] = (
    ("authorization violation", "the server refuses the credentials. Correct user and password, token or file."),
    ("authentication expired", "the credentials have expired. Get new ones."),
    ("authentication timeout", "signing in took too long. Look at the load on the server."),
    ("maximum connections", "the server has as many connections as it accepts. Raise max_connections."),
    ("expecting info", "it is not a NATS server. Correct host and port."),
    ("unexpected eof", "it closed the connection. Look at its log."),
    (NO_TLS, "the server offers no TLS, so nothing was sent to it. Configure TLS there, or ask for none here."),
    ("permissions violation", "this user is not permitted to do this. Permit it in the server's configuration."),
    ("maximum payload", "the server accepts smaller messages only. Raise max_payload in its configuration to 1MB."),
    ("invalid user credentials", "the credentials file is not valid. Name one that nsc or the account's admin made."),
)

# Causes by the class of the error; the first that fits.
_KINDS: Sequence[tuple[type[BaseException] | tuple[type[BaseException], ...], str]] = (
    (
        ssl.SSLCertVerificationError,
        "its certificate is not trusted ({error.verify_message}). Give tls=ssl.create_default_context(cafile=...).",
    ),
    (ssl.SSLError, "the TLS handshake failed ({error.reason}). Compare the TLS settings of both sides."),
    (ConnectionRefusedError, "nothing listens there. Start nats-server, or correct host and port."),
    (socket.gaierror, "its host name is not known. Correct it, or check the name service."),
    (TimeoutError, "it did not answer within {seconds:g} s. Look at firewalls, and at whether it hangs."),
    (ModuleNotFoundError, 'a credentials file needs one more package: pip install "nats-py[nkeys]".'),
    (ConnectionError, "it closed the connection. Look at its log."),
)


class ApiError(Exception):
    """The JetStream API refused."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(code, description)
        self.code = code
        self.description = description


class NatsTimeout(Exception):
    """Nothing answers a subject: JetStream is off, or no stream has it."""

    def __init__(self) -> None:
        super().__init__("JetStream does not answer. Start nats-server with -js, or enable it for this account.")


class Interrupted(Exception):
    """The stream can no longer be read over this connection. The message is the reason, as a sentence."""


def explain(error: BaseException, place: str, *, seconds: float) -> Trouble:
    """Returns the named error for `error`, which the broker at `place` caused within `seconds`."""
    if isinstance(error, Trouble):
        return error
    if isinstance(error, ApiError):
        kind, cause = _API.get(error.code, (BusUnavailable, "look at the server's log."))
        return kind(f"The broker at {place} refused ({error.description}): {cause}")
    if isinstance(error, NatsTimeout | Interrupted):
        cause = str(error)
    elif known := next((cause for kind, cause in _KINDS if isinstance(error, kind)), None):
        cause = known.format(error=error, seconds=seconds)
    else:
        said = str(error).removeprefix("nats: ") or type(error).__name__
        cause = f"{said}: {next((cure for text, cure in _TEXTS if text in said.lower()), 'look at its log.')}"
    return BusUnavailable(f"The broker at {place} cannot be used: {cause}")
