"""What goes over the wire, for whoever listens in: each message and each HTTP exchange, with secrets masked.

`connect(target, tap=...)` tells a `Tap`. It is called where the message is sent or arrives, in that order: it must be
quick, and whatever it raises is logged and harms nothing. Without one, nothing of this costs anything.

From what goes over the wire to what a `Tap` is told: understood, masked, and no harm done whatever the tap does.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final, Protocol, cast

from pydantic_core import from_json, to_json

from tidings.client.masking import MASK, forms, looks_secret, masked, shown_url
from tidings.client.targets import Target


@dataclass(frozen=True, slots=True)
class Message:
    """One JSON-RPC message, as it was sent or arrived."""

    incoming: bool
    body: dict[str, Any]
    size: int
    """Bytes as sent."""
    exchange: int | None = None
    """The id of the HTTP exchange that carried it, if one did."""
    cut: bool = False
    """It was larger than `ClientConfig.max_message`, and was not kept. `body` has its id, if that was seen."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An HTTP exchange. Told when it begins, when the answer begins, and when it ends. Times are seconds since 1970.

    Those that an `auth` object makes to sign in are told too.
    """

    id: int
    method: str
    url: str
    """Without user, password and query."""
    request_headers: Mapping[str, str]
    status: int | None = None
    """None until the answer begins."""
    response_headers: Mapping[str, str] | None = None
    is_stream: bool = False
    """Whether the answer is a stream of events."""
    began: float = 0.0
    answered: float | None = None
    ended: float | None = None
    error: str | None = None
    """Why there was no answer, or not all of it."""
    received: int = 0
    """Bytes of the answer's body, unpacked. Known when it has ended."""


class Tap(Protocol):
    """Hears of everything that goes over the wire."""

    def message(self, message: Message) -> None:
        """A message is about to be sent, or has arrived."""
        ...

    def exchange(self, exchange: Exchange) -> None:
        """An HTTP exchange began, was answered, or ended."""
        ...


logger = logging.getLogger(__name__)

_SHOWN_HEADERS: Final = {"www-authenticate"}
"""What a server wants, not what it got; known secrets in it are masked all the same."""

_HIDDEN_HEADERS: Final = {"authorization", "cookie", "set-cookie"}
_URL_HEADERS: Final = {"location", "content-location", "referer", "link"}
_OUTER_KEYS: Final = {"jsonrpc", "id", "method", "params", "result", "error"}
_LEARNED: Final = 16
"""How many tokens that were got by signing in are looked for: the latest."""


class TapReporter:
    """Tells a tap of one client's messages and exchanges. Raises nothing."""

    def __init__(self, tap: Tap, target: Target) -> None:
        self._tap = tap
        self._own_headers = {name.lower() for name in getattr(target, "headers", ())}
        self._known = target.secrets
        self._secrets = target.secrets
        self._learned: deque[str] = deque(maxlen=_LEARNED)
        self._ids = count(1)

    def message(self, raw: bytes | str, *, incoming: bool, exchange: int | None = None) -> None:
        """Tell of a message, given as JSON. What is none is passed over."""
        try:
            parsed: Any = from_json(raw)
        except ValueError:
            return
        if isinstance(parsed, dict) and "jsonrpc" in parsed:
            body = cast("dict[str, Any]", parsed)
            size = len(raw) if isinstance(raw, bytes) else len(raw.encode())
            self._tell(self._tap.message, lambda: Message(incoming, self._masked_body(raw, body), size, exchange))

    def values(self, values: Mapping[str, Any], *, incoming: bool) -> None:
        """Tell of a message that was never JSON: between objects of one process."""
        try:
            raw = to_json({"jsonrpc": "2.0", **values})
        except ValueError:
            return
        self.message(raw, incoming=incoming)

    def too_large(self, size: int, *, request: str | int | None = None, exchange: int | None = None) -> None:
        """Tell of a message that was not kept. `request` is the id of what it would have answered."""
        body: dict[str, Any] = {"jsonrpc": "2.0"} | ({} if request is None else {"id": request})
        self._tell(self._tap.message, lambda: Message(True, body, size, exchange, cut=True))

    def begin(self, method: str, url: str, headers: Mapping[str, str]) -> Exchange:
        """Tell that an HTTP exchange begins."""
        if (token := headers.get("authorization")) and token not in self._learned:
            self._learned.append(token)
            self._secrets = self._known | forms(self._learned)
        shown = self._headers(headers)
        exchange = Exchange(next(self._ids), method, self.clean(shown_url(url)), shown, began=time.time())
        self._tell(self._tap.exchange, lambda: exchange)
        return exchange

    def answered(self, exchange: Exchange, status: int, headers: Mapping[str, str], *, is_stream: bool) -> Exchange:
        """Tell that the answer begins."""
        shown = self._headers(headers)
        now = replace(exchange, status=status, response_headers=shown, is_stream=is_stream, answered=time.time())
        self._tell(self._tap.exchange, lambda: now)
        return now

    def ended(self, exchange: Exchange, error: BaseException | None = None, *, received: int = 0) -> None:
        """Tell that it is over."""
        why = None if error is None else self.clean(f"{type(error).__name__}: {error}".rstrip(": "))
        self._tell(self._tap.exchange, lambda: replace(exchange, ended=time.time(), error=why, received=received))

    def clean(self, text: str) -> str:
        """`text` without a secret: one of the target's, or one that was got by signing in."""
        return masked(text, self._secrets)

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {name: self._header(name.lower(), value) for name, value in headers.items()}

    def _header(self, name: str, value: str) -> str:
        if name in _HIDDEN_HEADERS or name in self._own_headers or name.startswith("proxy-"):
            return MASK
        if looks_secret(name) and name not in _SHOWN_HEADERS:
            return MASK
        return self.clean(shown_url(value) if name in _URL_HEADERS else value)

    def _masked_body(self, raw: bytes | str, body: dict[str, Any]) -> dict[str, Any]:
        if not self._secrets:
            return body
        text = raw if isinstance(raw, str) else raw.decode(errors="replace")
        # What is written with escapes may be a secret, though it does not look like one.
        if "\\" not in text and not any(secret in text for secret in self._secrets):
            return body
        # Not in the text as a whole: a secret that is a number, or a word of the protocol's, would make it no JSON.
        return {key if key in _OUTER_KEYS else self.clean(key): self._masked(value) for key, value in body.items()}

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            return {self.clean(key): self._masked(each) for key, each in members.items()}
        if isinstance(value, list):
            return [self._masked(each) for each in cast("list[Any]", value)]
        if isinstance(value, int | float) and self.clean(str(value)) != str(value):
            return MASK
        return value

    @staticmethod
    def _tell(listener: Callable[[Any], None], make: Callable[[], Any]) -> None:
        try:
            listener(make())
        except Exception:
            logger.exception("A tap failed; the connection goes on")
