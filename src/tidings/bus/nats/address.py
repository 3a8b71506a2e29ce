"""Where the broker of a `NatsBus` is, and how to sign in there.

An address as text has no secrets: it is what errors and logs say.

May import: `errors`, `nats`.
"""

import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self
from urllib.parse import SplitResult, unquote, urlsplit

from nats.aio.client import RawCredentials

from tidings.bus.nats import errors

_PORT = 4222


@dataclass(frozen=True, slots=True)
class NatsAddress:
    """One server: from a URL, or told of by another server of its cluster."""

    host: str
    port: int = _PORT
    tls: bool = False
    """Whether the URL asks for it."""
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls_name: str | None = None
    """The name that its certificate is for, where `host` is only a number."""

    @classmethod
    def parse(cls, url: str) -> Self:
        """The address in `url`.

        Raises:
            ValueError: It is not one. What is wrong is said without the URL, which may hold a password.
        """
        try:
            parts = urlsplit(url if "://" in url else f"nats://{url}")
            port = parts.port or _PORT
        except ValueError as error:
            raise ValueError(f"The URL of a NATS server is not one: {_without_secrets(error, url)}") from None
        if parts.scheme not in {"nats", "tls"}:
            raise ValueError(f"The URL of a NATS server begins with nats:// or tls://, not with {parts.scheme}://")
        if not parts.hostname:
            raise ValueError("The URL of a NATS server names its host, as in nats://localhost:4222; this one does not")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError("The URL of a NATS server ends with its port; encode what belongs to a password (%2F)")
        return cls(parts.hostname, port, parts.scheme == "tls", *_sign_in(parts))

    def beside(self, place: str) -> "NatsAddress | None":
        """Another server of the same cluster, which calls itself `place`; it is signed in to in the same way."""
        try:
            found = NatsAddress.parse(place)
        except ValueError:
            return None
        name = self.tls_name or self.host
        return replace(self, host=found.host, port=found.port, tls_name=name if _is_number(found.host) else None)

    @property
    def url(self) -> str:
        """Without secrets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.tls else 'nats'}://{host}:{self.port}"

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True, slots=True)
class Access:
    """How to sign in, where the URL does not say it."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    credentials: Path | None = None
    tls: ssl.SSLContext | None = None

    def options(self, address: NatsAddress) -> dict[str, Any]:
        """What the client library is to be told, for `address`.

        Raises:
            BusUnavailable: The credentials file cannot be used.
        """
        named = self.user is not None or self.token is not None
        options: dict[str, Any] = {
            "servers": address.url,
            "user": self.user if named else address.user,
            "password": self.password if named else address.password,
            "token": self.token if named else address.token,
            "tls": self.tls,
            "tls_hostname": address.tls_name,
        }
        if self.credentials is not None:
            options["user_credentials"] = _read(self.credentials)
        return options


def addresses(urls: str | Sequence[str]) -> list[NatsAddress]:
    """The servers that `urls` names: one, several with commas between, or a list.

    Raises:
        ValueError: One of them is not a URL, or there is none.
    """
    texts = urls.split(",") if isinstance(urls, str) else list(urls)
    found = [NatsAddress.parse(text.strip()) for text in texts]
    if not found:
        raise ValueError("A NATS bus needs the URL of at least one server")
    return found


def _sign_in(parts: SplitResult) -> tuple[str | None, str | None, str | None]:
    """User, password and token in a URL. What stands alone is a token, as everywhere with NATS."""
    if parts.username is None:
        return None, None, None
    if parts.password is None:
        return None, None, unquote(parts.username)
    return unquote(parts.username), unquote(parts.password), None


def _without_secrets(error: ValueError, url: str) -> str:
    said = str(error)
    return "look at its port and its brackets" if "@" in url else said


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _read(path: Path) -> RawCredentials:
    """What the credentials file says. It may have been renewed since the last time, so it is read each time."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it is not a text"
        raise errors.file_unusable(path, f"{why}. Name a file that this user may read.") from error
    # The client library would look for these lines for ever.
    if "BEGIN NATS USER JWT" not in text or "BEGIN USER NKEY SEED" not in text:
        raise errors.file_unusable(path, "it is no credentials file. Name one that nsc or the account's admin made.")
    return RawCredentials(text)
