"""`Poster`: signed POST requests to the URLs of webhooks, and what was answered.

Every URL is https, and each connection goes to an address of the public internet, checked for each request. Redirects
are not followed, and little of an answer is read. Imported with the first webhook.
"""

import asyncio
import ssl
import time
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httpcore2

from tidings._kit import event_wire
from tidings._kit.address_guard import AddressRefused, Guard, NoSuchHost, Resolver
from tidings._kit.addresses import AddressPolicy

_LOCAL: Final = tuple(map(ip_network, ("127.0.0.0/8", "::1/128")))
_MOST_READ: Final = 65_536
_CONNECTIONS: Final = 500
_LONGEST_URL: Final = 2_000


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a POST request, or the reason why there is none."""

    status: int = 0
    body: bytes = b""
    error: str = ""
    """The failure in a word of the draft; "address_refused" if nothing was sent."""
    reason: str = ""
    seconds: float = 0.0

    @property
    def is_final(self) -> bool:
        """The receiver will never take this message."""
        return self.status in (410, 413)

    @property
    def is_about_event(self) -> bool:
        """The receiver refuses this message, and may take others."""
        return 400 <= self.status < 500 and self.status not in (401, 403, 404, 408, 425, 429)


class Poster:
    """Posts to webhooks. `local` also allows http, and the addresses of this machine."""

    def __init__(
        self, *, seconds: float, local: bool, resolver: Resolver | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._seconds = seconds
        self._schemes = ("https", "http") if local else ("https",)
        self._guard = Guard(AddressPolicy(_LOCAL if local else ()), resolver)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls or httpcore2.default_ssl_context(),
            max_connections=_CONNECTIONS,
            max_keepalive_connections=_CONNECTIONS // 5,
            keepalive_expiry=15.0,
            network_backend=self._guard,
        )

    async def check(self, url: str) -> str:
        """Returns why `url` cannot be used; empty if it can, or if that is not known now."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            return "it is not a valid URL"
        if parts.scheme not in self._schemes:
            return f"it needs https, not {parts.scheme or 'nothing'}"
        if not host or "@" in parts.netloc or "#" in url or not url.isascii() or not url.isprintable() or " " in url:
            return "it needs a host, visible ASCII characters, and neither a user name nor a fragment"
        if len(url) > _LONGEST_URL:
            return f"it has more than {_LONGEST_URL} characters"
        try:
            async with asyncio.timeout(self._seconds):
                await self._guard.vetted(host, port or (443 if parts.scheme == "https" else 80))
        except AddressRefused:  # Its words may name an address that only this network knows.
            return "its host or port is not on the public internet"
        except (NoSuchHost, TimeoutError):
            pass  # Posting to it says so.
        return ""

    async def post(
        self, url: str, message_id: str, subscription_id: str, body: bytes, keys: Sequence[bytes]
    ) -> tuple[Answer, dict[str, str]]:
        """Returns the answer, and the headers that were sent, without the signature."""
        timestamp, began = int(time.time()), time.monotonic()
        headers = {
            "content-type": "application/json",
            event_wire.ID_HEADER: message_id,
            event_wire.TIMESTAMP_HEADER: str(timestamp),
            event_wire.SUBSCRIPTION_HEADER: subscription_id,
        }
        signed = {**headers, event_wire.SIGNATURE_HEADER: event_wire.signature(message_id, timestamp, body, keys)}
        status, read, error, reason = 0, b"", "", ""
        try:
            status, read = await self._exchange(url, signed, body)
        except AddressRefused as refused:
            error, reason = "address_refused", str(refused)
        except (TimeoutError, httpcore2.TimeoutException):
            error, reason = "timeout", f"no answer within {self._seconds:g} s"
        except NoSuchHost as missing:
            error, reason = "connection_refused", str(missing)
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError, ssl.SSLError) as failure:
            is_tls = isinstance(failure, ssl.SSLError) or "ssl" in str(failure).lower()
            error, reason = "tls_error" if is_tls else "connection_refused", str(failure) or type(failure).__name__
        else:
            if not 200 <= status < 300:
                error = "http_5xx" if status >= 500 else "http_4xx"
                reason = f"HTTP {status}" + (": redirects are not followed" if 300 <= status < 400 else "")
        return Answer(status, read, error, reason, time.monotonic() - began), headers

    async def _exchange(self, url: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        if refused := await self.check(url):  # A connection that was kept has an address of its own, from before.
            raise AddressRefused(refused)
        where = httpcore2.URL(url)
        named = [("host", urlsplit(url).netloc), *headers.items(), ("content-length", str(len(body)))]
        sent = [(name.encode(), value.encode()) for name, value in named]
        request = httpcore2.Request("POST", where, headers=sent, content=body)
        async with asyncio.timeout(self._seconds):
            response = await self._pool.handle_async_request(request)
        read = b""
        try:
            # Its status is known, and enough: a body that does not end, or breaks off, changes nothing.
            with suppress(TimeoutError, httpcore2.NetworkError, httpcore2.ProtocolError):
                async with asyncio.timeout(self._seconds), aclosing(aiter(cast("Any", response.stream))) as chunks:
                    async for chunk in chunks:
                        read += chunk
                        if len(read) > _MOST_READ:
                            break
        finally:
            await response.aclose()
        return response.status, read[:_MOST_READ]

    async def aclose(self) -> None:
        await self._pool.aclose()
