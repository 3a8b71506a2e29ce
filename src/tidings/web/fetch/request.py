"""The types of fetching: what is asked for, what came, and what can go wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Self

MIB = 1024 * 1024


@dataclass(frozen=True)
class FetchLimits:
    """How much of anything is allowed. A request may ask for less, never for more."""

    max_bytes: int = 10 * MIB
    """Of a body, as it comes and again when it is unpacked."""
    timeout: float = 30.0
    """Seconds for everything together: names, connections, redirects, retries, the last byte."""
    max_redirects: int = 5
    per_host_minute: int = 60
    """Requests to one host in a minute."""
    per_host_at_once: int = 4
    at_once: int = 32
    retries: int = 2
    user_agent: str = "Tidings"
    """What sites see; the first word is the name that robots.txt knows it by."""


@dataclass(frozen=True)
class Request:
    """A page to be fetched. None: as the limits have it."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Sent to the host of `url` alone, not to where it redirects to."""
    etag: str | None = None
    last_modified: str | None = None
    """With one of them the answer may be `not_modified`."""
    accept: str | None = None
    respect_robots: bool = True
    insist: bool = True
    """Ask again if the site answers that it cannot serve it now. It is asked again in any case if it gave no answer."""
    timeout: float | None = None
    max_bytes: int | None = None
    max_redirects: int | None = None
    user_agent: str | None = None


@dataclass(frozen=True)
class Response:
    """What came, whatever its status."""

    url: str
    """Where it came from in the end."""
    requested: str
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    content_type: str
    """As the header has it, with the parameters that are some; empty without one that is a type."""
    retrieved_at: datetime
    etag: str | None = None
    last_modified: str | None = None
    not_modified: bool = False
    redirects: tuple[str, ...] = ()
    """The URLs that were left behind, in their order."""
    truncated: bool = False
    notes: tuple[str, ...] = ()
    """What a reader should know: that it was retried, that a rate limit held it up."""
    private: bool = False
    """Whether it came from an address that is not of the public internet."""


class FetchError(Exception):
    """A page could not be fetched. The text says why, and what to do."""

    kind: ClassVar[str] = "failed"
    """A word for programs."""

    def __init__(self, message: str, *, url: str, again: bool = False) -> None:
        super().__init__(message)
        self.url = url
        self.again = again
        """Whether the same request may go well a moment later."""

    def about(self, url: str) -> Self:
        """The same of another URL, to which it applies as well."""
        return type(self)(str(self).replace(self.url, url), url=url, again=self.again)


class BadUrl(FetchError):
    """It is no URL that can be fetched."""

    kind = "bad-url"


class BadRequest(FetchError):
    """A header of the request cannot be sent."""

    kind = "bad-request"


class Blocked(FetchError):
    """The address, the domain or the port is not allowed."""

    kind = "blocked"


class RobotsRefused(FetchError):
    """The site's robots.txt says no, or cannot be had and therefore means no."""

    kind = "robots"


class Unreachable(FetchError):
    """No such host, nobody listens, or the connection broke."""

    kind = "unreachable"


class FetchTimedOut(FetchError):
    """It was not there in time."""

    kind = "timeout"


class ResponseTooLarge(FetchError):
    """The body, unpacked or not, or its headers are over the limit."""

    kind = "too-large"


class TooManyRedirects(FetchError):
    """It leads on and on, or in a circle."""

    kind = "redirects"


class RateLimited(FetchError):
    """The limit of requests to the host, ours or its own, leaves no time for this one."""

    kind = "rate-limited"


class BadAnswer(FetchError):
    """What came is not HTTP, or is packed in a way that cannot be unpacked."""

    kind = "bad-answer"
