"""Admission: every request passes this gate. A request that is refused learns nothing.

The address of the page has a token in its fragment, which no server and no log sees. The page exchanges the token for
a cookie and a key, once: a link that was used opens nothing, and an open page makes the next one. Everything below
`/api/` needs both. Scripts cannot read the cookie, but browsers send it to every port of this machine, where another
user may listen. The key is stored where only pages of our own port can read it. It is sent in `X-Tidings`, or in the
query if a browser sends no header (streams, pictures, frames). Besides:

- `Host` must be a name of this machine with this port: foreign names that lead here are refused (DNS rebinding).
- `Origin` and `Sec-Fetch-Site`, if a browser sends them, must say that the page is ours.
- A request that changes something must be JSON and carry the key in the header: no form of another page can send that.
- Responses carry a policy under which nothing but our own files runs.
"""

import hmac
import re
import secrets
import socket
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidings._kit.text import is_ip

ENTER: Final = "/api/enter"

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'none'; media-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
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


@dataclass
class Key:
    """The secrets that admit the page. They are never logged."""

    port: int
    # In the fragment of the page's address; in the cookie; the key that a page sends in addition to the cookie.
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _pass: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    word: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def cookie_name(self) -> str:
        """The name of the cookie. Cookies are shared between ports, so it has the port in it."""
        return f"tidings-{self.port}"

    @property
    def cookie(self) -> str:
        """The value of `Set-Cookie` for a right token."""
        return f"{self.cookie_name}={self._pass}; Path=/; HttpOnly; SameSite=Strict"

    def opens(self, token: object) -> bool:
        """Returns whether this is the token of the last link that was made. It opens once."""
        told = token.encode(errors="replace") if isinstance(token, str) else b""
        is_right = bool(self.token) and hmac.compare_digest(told, self.token.encode())
        if is_right:
            self.token = ""
        return is_right

    def renew(self) -> str:
        """Returns the token of another link. The link before it opens no more."""
        self.token = secrets.token_urlsafe(32)
        return self.token

    def admits(self, cookies: str) -> bool:
        """Returns whether the cookie is among these. Others may be set by any program of this machine."""
        pairs = (each.partition("=") for each in cookies.split(";"))
        said = [value.strip() for name, _, value in pairs if name.strip() == self.cookie_name]
        return any(hmac.compare_digest(each.encode(), self._pass.encode()) for each in said)

    def is_said(self, word: str) -> bool:
        return hmac.compare_digest(word.encode(errors="replace"), self.word.encode())


class Gate:
    """ASGI middleware that refuses requests, and adds the headers that every response carries."""

    def __init__(self, app: ASGIApp, key: Key, *, host: str = "127.0.0.1") -> None:
        self._app = app
        self._key = key
        self._beyond = host not in _LOOPBACK
        # On loopback, the name of this machine is not accepted: a network may lead it elsewhere.
        self._names = _LOOPBACK | ({host.lower(), socket.gethostname().lower()} if self._beyond else set[str]())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
                names = {name.lower() for name, _ in sent}
                message["headers"] = [*sent, *(each for each in _HEADERS if each[0] not in names)]
            await send(message)

        if not (status := self._refusal(scope)):
            await self._app(scope, receive, guarded)
            return
        headers = [(b"content-length", b"0"), (b"cache-control", b"no-store")]
        await guarded({"type": "http.response.start", "status": status, "headers": headers})
        await guarded({"type": "http.response.body", "body": b""})

    def _refusal(self, scope: Scope) -> int:  # noqa: PLR0911 - one for each reason
        """Returns the status of the refusal; 0 if the request may pass."""
        headers = Headers(scope=scope)

        def given(name: str, joint: str = ", ") -> str:
            return joint.join(headers.getlist(name))  # Of a repeated header, no value is overlooked.

        host = given("host")
        if not self._is_ours(host):
            return 421
        path = str(scope["path"])
        if not path.startswith("/api/") and path != "/api":
            return 0 if scope["method"] in _SAFE else 405
        if "origin" in headers and given("origin") != f"{scope.get('scheme', 'http')}://{host}":
            return 403
        if "sec-fetch-site" in headers and given("sec-fetch-site") not in ("same-origin", "none"):
            return 403
        safe, said = scope["method"] in _SAFE, given("x-tidings")
        if path != ENTER:
            query = parse_qs(scope.get("query_string", b"").decode("latin-1")) if safe else {}
            word = said or query.get("key", [""])[0]
            if not self._key.admits(given("cookie", "; ")) or not self._key.is_said(word):
                return 401
        kind = given("content-type").partition(";")[0].strip().lower()
        if not safe and (not said or kind != "application/json"):
            return 403
        return 0

    def _is_ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host.lower())
        if found is None or int(found["port"] or 80) != self._key.port:
            return False
        name = found["name"].strip("[]")
        # An IP address cannot be a foreign name that leads here.
        return name in self._names or (self._beyond and is_ip(name))
