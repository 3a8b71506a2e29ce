"""`NatsAddress` and `Access`: servers, credentials and TLS, from a URL or from arguments.

An address as text has no secrets: errors and logs show it.
"""

import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from tidings._kit.text import is_ip
from tidings.errors import BusUnavailable

_PORT = 4222


@dataclass(frozen=True, slots=True)
class NatsAddress:
    """One server: from a URL, or named by another server of its cluster."""

    host: str
    port: int = _PORT
    tls: bool = False  # The URL asks for it.
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls_name: str | None = None  # The name in its certificate, if `host` is an IP address.

    @classmethod
    def parse(cls, url: str) -> Self:
        """Returns the address in `url`. The `ValueError` for one that is not valid does not show its password."""
        try:
            parts = urlsplit(url if "://" in url else f"nats://{url}")
            port = parts.port or _PORT
        except ValueError as error:
            # The message of the error may contain a part of the password.
            why = "look at its port and its brackets" if "@" in url else str(error)
            raise ValueError(f"The URL of a NATS server is not valid: {why}") from None
        if parts.scheme not in {"nats", "tls"}:
            raise ValueError(f"The URL of a NATS server must begin with nats:// or tls://, not with {parts.scheme}://")
        if not parts.hostname:
            raise ValueError("The URL of a NATS server must name its host, as in nats://localhost:4222")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError("The URL of a NATS server must end with its port. In a password, write '/' as %2F.")
        name, password = (part if part is None else unquote(part) for part in (parts.username, parts.password))
        # A user without a password is a token, as everywhere with NATS.
        user, token = (None, name) if password is None else (name, None)
        return cls(parts.hostname, port, parts.scheme == "tls", user, password, token)

    def beside(self, place: str) -> "NatsAddress | None":
        """Returns the address of another server of the cluster, which has the same credentials; None if not valid."""
        try:
            found = NatsAddress.parse(place)
        except ValueError:
            return None
        name = self.tls_name or self.host
        return replace(self, host=found.host, port=found.port, tls_name=name if is_ip(found.host) else None)

    @property
    def url(self) -> str:
        """The URL without secrets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.tls else 'nats'}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Access:
    """The credentials that are given as arguments, which come before those of a URL."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    credentials: Path | None = None
    tls: ssl.SSLContext | None = None

    def options(self, address: NatsAddress) -> dict[str, Any]:
        """Returns the options of the client library. Raises `BusUnavailable` if the credentials file is unusable."""
        named = self.user is not None or self.token is not None
        options: dict[str, Any] = {
            "servers": address.url,
            "user": self.user if named else address.user,
            "password": self.password if named else address.password,
            "token": self.token if named else address.token,
            "tls": self.tls,
            "tls_hostname": address.tls_name,
        }
        path = self.credentials
        if path is None:
            return options
        try:
            text = path.read_text("utf-8")  # Each time, because it may have been renewed.
        except (OSError, UnicodeDecodeError) as error:
            why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it is not text"
            raise BusUnavailable(
                f"The credentials file {path} cannot be used: {why}. Name a file that this user may read."
            ) from error
        # The client library would search for these lines for ever.
        if "BEGIN NATS USER JWT" not in text or "BEGIN USER NKEY SEED" not in text:
            raise BusUnavailable(
                f"{path} cannot be used: it is not a credentials file. Name one that nsc or the account's admin made."
            )
        return options | {"user_credentials": text}


def addresses(urls: str | Sequence[str]) -> list[NatsAddress]:
    """Returns the servers in `urls`: one URL, several with commas between, or a list."""
    texts = urls.split(",") if isinstance(urls, str) else list(urls)
    found = [NatsAddress.parse(text.strip()) for text in texts]
    if not found:
        raise ValueError("A NATS bus needs the URL of at least one server")
    return found
