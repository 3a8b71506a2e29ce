"""The types of fetching: a request, a response, and the errors."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

SECRET_NAME = re.compile(r"\$([A-Z_][A-Z0-9_]*)")  # stands for a secret of the operator in a header or a body


@dataclass(frozen=True)
class Proxy:
    """An HTTP proxy. It connects to sites, so it resolves their names again."""

    host: str
    port: int
    login: tuple[str, str] | None = field(default=None, repr=False)  # a user and a password


@dataclass(frozen=True)
class Request:
    """A page to fetch. Options that are None are as in `Settings`; a request may ask for less, never for more."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])  # sent to the host of `url` only
    body: str = ""  # sent with POST, to the host of `url` only
    etag: str | None = None
    last_modified: str | None = None  # with `etag` or `last_modified` the response may be `not_modified`
    accept: str | None = None
    respect_robots: bool = True
    part: bool = False  # of a page that is rendered, which has its own budget: it takes none of the host's minute
    insist: bool = True  # retry after a temporary error status; failed connections are retried in any case
    timeout: float | None = None
    max_bytes: int | None = None
    max_redirects: int | None = None
    user_agent: str | None = None


@dataclass(frozen=True)
class Response:
    """The answer of a site, with any status."""

    url: str  # the URL after all redirects
    requested: str
    status: int
    headers: Mapping[str, str]  # names are in lower case
    body: bytes
    content_type: str  # the header's content type with its well-formed parameters; empty if it has no valid type
    retrieved_at: datetime
    etag: str | None = None
    last_modified: str | None = None
    not_modified: bool = False
    redirects: tuple[str, ...] = ()  # the URLs that redirected, in order
    truncated: bool = False
    notes: tuple[str, ...] = ()  # for the reader, e.g. that the request was retried or delayed by a rate limit
    private: bool = False  # true if it came from an address outside the public internet


class FetchError(Exception):
    """A page could not be fetched. The message says why, and what to do."""

    kind: ClassVar[str] = "failed"  # for programs

    def __init_subclass__(cls, *, kind: str) -> None:
        cls.kind = kind

    def __init__(self, message: str, *, url: str, retryable: bool = False) -> None:
        super().__init__(message)
        self.url = url
        self.retryable = retryable  # true if the same request may succeed a moment later


class BadUrl(FetchError, kind="bad-url"):
    """The text is not a URL that can be fetched."""


class BadRequest(FetchError, kind="bad-request"):
    """A header of the request cannot be sent."""


class Blocked(FetchError, kind="blocked"):
    """The address, the domain or the port is not allowed."""


class RobotsRefused(FetchError, kind="robots"):
    """The site's robots.txt forbids the page, or is unavailable, which forbids everything."""


class Unreachable(FetchError, kind="unreachable"):
    """The host does not exist, nothing listens there, or the connection broke."""


class FetchTimedOut(FetchError, kind="timeout"):
    """The page did not arrive in time."""


class ResponseTooLarge(FetchError, kind="too-large"):
    """The headers or the body, compressed or not, exceed the limit."""


class TooManyRedirects(FetchError, kind="redirects"):
    """The page redirects too often, or in a circle."""


class RateLimited(FetchError, kind="rate-limited"):
    """Our limit or the host's own leaves no time for this request."""


class BadAnswer(FetchError, kind="bad-answer"):
    """The answer is not HTTP, or its body cannot be decompressed."""
