"""Who may come in. Every request goes through here, and what does not pass learns nothing.

The page is given a token in the fragment of its address, which no server and no log ever sees; it trades the token,
once, for a cookie and a key. All of `/api/` needs both. The cookie no script can read, but browsers send it to every
port of this machine, behind which another user may listen; the key is kept where only pages of our own port can read
it, and is sent in `X-Tidings`, or in the query where a browser sends no header (streams, pictures, frames). Besides:

- `Host` has to be a name of this machine, with this port: a foreign name that leads here is refused (DNS rebinding).
- `Origin` and `Sec-Fetch-Site`, if a browser sends them, have to say that the page is ours.
- What changes something has to be JSON and to carry the key in the header: no form of another page can send that.
- Answers carry a policy under which nothing runs but our own files.
"""

import hmac
import ipaddress
import re
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ENTER: Final = "/api/enter"

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'none'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-dns-prefetch-control", b"off"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
_SAFE: Final = frozenset({"GET", "HEAD"})
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True)
class Key:
    """What the page is let in with. Neither half is ever written to a log."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    """In the fragment of the page's address."""
    _pass: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    """In the cookie."""
    word: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    """What a page has to say beside the cookie."""

    @property
    def cookie_name(self) -> str:
        """With the port, because cookies do not know of ports: two inspectors do not disturb each other."""
        return f"tidings-{self.port}"

    @property
    def cookie(self) -> str:
        """What is set once the token was right."""
        return f"{self.cookie_name}={self._pass}; Path=/; HttpOnly; SameSite=Strict"

    def opens(self, token: object) -> bool:
        """Whether this is the token."""
        return isinstance(token, str) and hmac.compare_digest(token.encode(errors="replace"), self.token.encode())

    def admits(self, cookies: str) -> bool:
        """Whether the cookie is among these, whatever the others are: any program of this machine may set some."""
        pairs = (each.partition("=") for each in cookies.split(";"))
        said = [value.strip() for name, _, value in pairs if name.strip() == self.cookie_name]
        return any(hmac.compare_digest(each.encode(), self._pass.encode()) for each in said)

    def is_said(self, word: str) -> bool:
        """Whether this is what a page has to say."""
        return hmac.compare_digest(word.encode(errors="replace"), self.word.encode())


class Gate:
    """ASGI middleware: what passes goes on, with the headers that every answer carries."""

    def __init__(self, app: App, key: Key, *, host: str = "127.0.0.1") -> None:
        self._app = app
        self._key = key
        self._beyond = host not in _LOOPBACK
        # Who serves this machine alone is never called by its name, which a network may lead elsewhere.
        beyond = {host.lower(), socket.gethostname().lower()} if self._beyond else set[str]()
        self._names = _LOOPBACK | beyond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                sent: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
                names = {name.lower() for name, _ in sent}
                message["headers"] = [*sent, *(each for each in _HEADERS if each[0] not in names)]
            await send(message)

        refusal = self._refusal(scope)
        if refusal:
            await _refuse(guarded, refusal)
        else:
            await self._app(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> int:  # noqa: PLR0911 - one for each reason
        """The status of the answer to what may not pass; 0 if it may."""
        headers = _headers(scope)
        host = headers.get("host", "")
        if not self._is_ours(host):
            return 421
        path = str(scope["path"])
        if not path.startswith("/api/") and path != "/api":
            return 0 if scope["method"] in _SAFE else 405
        origin = headers.get("origin")
        if origin is not None and origin != f"{scope.get('scheme', 'http')}://{host}":
            return 403
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403
        safe, said = scope["method"] in _SAFE, headers.get("x-tidings", "")
        if path != ENTER:
            word = said or (_in_query(scope) if safe else "")
            if not self._key.admits(headers.get("cookie", "")) or not self._key.is_said(word):
                return 401
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if not safe and (not said or kind != "application/json"):
            return 403
        return 0

    def _is_ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host.lower())
        if found is None or int(found["port"] or 80) != self._key.port:
            return False
        name = found["name"].strip("[]")
        # An address in figures cannot be a foreign name that leads here; it is ours if we listen beyond this machine.
        return name in self._names or (self._beyond and _is_ip(name))


def _headers(scope: Scope) -> dict[str, str]:
    """The headers by name. One that is sent twice counts as both, so that the second cannot hide behind the first."""
    found: dict[str, str] = {}
    for raw_name, raw in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw.decode("latin-1")
        if name in found:
            found[name] += ("; " if name == "cookie" else ", ") + value
        else:
            found[name] = value
    return found


def _in_query(scope: Scope) -> str:
    """The key, where it had to be part of an address."""
    query: bytes = scope.get("query_string", b"")
    return parse_qs(query.decode("latin-1")).get("key", [""])[0] if b"key=" in query else ""


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


async def _refuse(send: Send, status: int) -> None:
    headers = [(b"content-length", b"0"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
