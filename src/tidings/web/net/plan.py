"""What a request comes down to: its URL, its headers, its limits. Checked before anything is sent."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tidings.web.net.model import BadRequest, Limits, Request
from tidings.web.net.packings import ACCEPTED
from tidings.web.net.urls import Url, parse, shown

ACCEPT = (
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, application/pdf;q=0.8, "
    "application/json;q=0.8, application/xml;q=0.7, */*;q=0.5"
)
_MOST_HEADERS = 50
_LONGEST_HEADER = 8_192
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_OURS = {
    "host": "it follows from the URL",
    "content-length": "nothing is sent but headers",
    "content-encoding": "nothing is sent but headers",
    "transfer-encoding": "nothing is sent but headers",
    "expect": "nothing is sent but headers",
    "connection": "connections are kept by the fetcher",
    "keep-alive": "connections are kept by the fetcher",
    "proxy-connection": "connections are kept by the fetcher",
    "te": "connections are kept by the fetcher",
    "trailer": "connections are kept by the fetcher",
    "upgrade": "connections are kept by the fetcher",
    "http2-settings": "connections are kept by the fetcher",
    "proxy-authorization": "there is no proxy",
    "accept-encoding": "bodies are unpacked by the fetcher",
    "if-none-match": "use etag",
    "if-modified-since": "use last_modified",
    "if-match": "use etag",
    "if-unmodified-since": "use last_modified",
    "if-range": "whole pages are fetched",
    "range": "whole pages are fetched",
}
"""Headers that a caller may not set, and why."""


@dataclass(frozen=True)
class Plan:
    """A request that can be sent."""

    url: Url
    own: Mapping[str, str]
    """The caller's headers, for the host of `url` alone."""
    accept: str
    agent: str
    validators: Mapping[str, str]
    timeout: float
    max_bytes: int
    max_redirects: int
    respect_robots: bool = True
    insist: bool = True
    cut: bool = False
    """Leave out what is over `max_bytes`, instead of failing."""

    def headers(self, *, own: bool) -> list[tuple[str, str]]:
        """What is sent; `own`: with the caller's headers."""
        headers = {"accept": self.accept, "user-agent": self.agent, "accept-encoding": ACCEPTED, **self.validators}
        return list((headers | dict(self.own) if own else headers).items())


def plan(request: Request, limits: Limits) -> Plan:
    """The plan for `request`: what it leaves open is as the limits have it, and nothing exceeds them.

    Raises:
        BadUrl: Its URL cannot be fetched.
        BadRequest: Its headers cannot be sent.
    """
    url = parse(request.url)
    own = _checked(request.headers, request.url)
    agent = own.pop("user-agent", None)
    validators = {"if-none-match": request.etag, "if-modified-since": request.last_modified}
    named = {"accept": request.accept or own.pop("accept", None) or ACCEPT}
    named |= {"user-agent": request.user_agent or agent or limits.user_agent}
    named |= {name: value for name, value in validators.items() if value is not None}
    for name, value in named.items():
        _check_value(name, value, request.url)
    return Plan(
        url=url,
        own=own,
        accept=named.pop("accept"),
        agent=named.pop("user-agent"),
        validators=named,
        timeout=_least(request.timeout, limits.timeout),
        max_bytes=int(_least(request.max_bytes, limits.max_bytes)),
        max_redirects=int(_least(request.max_redirects, limits.max_redirects)),
        respect_robots=request.respect_robots,
        insist=request.insist,
    )


def for_robots(url: Url, agent: str, limits: Limits, max_bytes: int) -> Plan:
    """The plan to fetch a robots.txt: five redirects, and no more than the first `max_bytes` of it."""
    return Plan(
        url, {}, "text/plain, */*;q=0.5", agent, {}, limits.timeout, max_bytes, 5, respect_robots=False, cut=True
    )


def _least(asked: float | None, limit: float) -> float:
    return limit if asked is None else max(0, min(asked, limit))


def _checked(headers: Mapping[str, str], url: str) -> dict[str, str]:
    if len(headers) > _MOST_HEADERS:
        raise BadRequest(f"{len(headers)} headers are too many; send at most {_MOST_HEADERS}", url=url)
    checked: dict[str, str] = {}
    for name, value in headers.items():
        lower = name.strip().lower()
        if not _NAME.fullmatch(lower):
            raise BadRequest(f"{shown(name)!r} is no name of a header; take letters, digits and hyphens", url=url)
        if lower in _OURS:
            raise BadRequest(f"the header {name} cannot be set: {_OURS[lower]}; leave it out", url=url)
        _check_value(name, value, url)
        checked[lower] = value.strip()
    return checked


def _check_value(name: str, value: str, url: str) -> None:
    if not _VALUE.fullmatch(value):
        why = "line breaks, control characters or characters beyond Latin-1"
        raise BadRequest(f"the header {name} has {why} in its value; leave them out", url=url)
    if len(value) > _LONGEST_HEADER:
        raise BadRequest(f"the header {name} is longer than {_LONGEST_HEADER:,} characters; shorten it", url=url)
