"""Fetching a page, from its URL to its bytes.

    async with Fetcher(limits) as fetcher:
        response = await fetcher.fetch(Request("https://example.org/"))

For each hop, in this order: robots.txt, a turn at the host, one request through the guard, the body within its limit;
then another attempt, or the next hop, or the response. One deadline is over all of it. Whatever a server answers is a
`Response`; a `FetchError` says that there is none.

What a request comes down to: its URL, its headers, its limits. Checked before anything is sent.

One call of `fetch` on its way: what it has to keep to, what one URL gave, and what comes of it.
"""

import re
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio

from tidings.web.fetch.client import Progress, ResponseBody, read
from tidings.web.fetch.guard import FetchPolicy, Network, policy
from tidings.web.fetch.packings import ACCEPTED
from tidings.web.fetch.rates import NoTurn, Rates
from tidings.web.fetch.request import (
    BadAnswer,
    BadRequest,
    FetchError,
    FetchLimits,
    FetchTimedOut,
    RateLimited,
    Request,
    Response,
    TooManyRedirects,
    Unreachable,
)
from tidings.web.fetch.retries import RETRIED, pause, retry_after
from tidings.web.fetch.urls import Url, join, parse, shown

if TYPE_CHECKING:
    from tidings.web.fetch.client import Client, HttpAnswer
    from tidings.web.fetch.guard import Resolver
    from tidings.web.fetch.robots import Memory, Robots


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
class RequestPlan:
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


def plan(request: Request, limits: FetchLimits) -> RequestPlan:
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
    return RequestPlan(
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


def for_robots(url: Url, agent: str, limits: FetchLimits, max_bytes: int) -> RequestPlan:
    """The plan to fetch a robots.txt: five redirects, and no more than the first `max_bytes` of it."""
    return RequestPlan(
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


_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TYPE = re.compile(r"[\w.+-]{1,80}/[\w.+-]{1,80}", re.ASCII)
_PARAMETER = re.compile(r"""\s*[\w-]{1,40}\s*=\s*(?:[\w.:/+-]{1,80}|"[\w.:/+-]{1,80}")\s*""", re.ASCII)
_DRAINED = 64 * 1024
_DRAIN_SECONDS = 1.0


@dataclass
class Attempt:
    """One call of `fetch` on its way."""

    plan: RequestPlan
    until: float
    """By the fetcher's clock."""
    progress: Progress | None = None
    notes: list[str] = field(default_factory=list[str])
    doing: str = "waiting for its turn"
    """What it would be that took too long."""

    def note(self, text: str) -> None:
        """Tell the reader of the response, once."""
        if text not in self.notes:
            self.notes.append(text)


@dataclass(frozen=True)
class FetchHop:
    """What one URL gave."""

    url: Url
    status: int
    headers: Mapping[str, str]
    body: ResponseBody
    private: bool = False
    """Whether it came from an address that is not public."""

    @property
    def location(self) -> str | None:
        """Where it leads on to."""
        return self.headers.get("location") if self.status in _REDIRECTS else None


@contextmanager
def deadline(trip: Attempt) -> Generator[None]:
    """Ends what takes longer than the trip may.

    Raises:
        TooSlow: It did.
    """
    with anyio.move_on_after(trip.plan.timeout) as scope:
        yield
    if scope.cancelled_caught:
        late = f"{trip.plan.url} was not there within {trip.plan.timeout:g} s: {trip.doing}"
        cure = "give it more time (timeout_ms, as far as the server's --timeout allows), or try again later"
        raise FetchTimedOut(f"{late}; {cure}", url=str(trip.plan.url))


def next_url(left: Sequence[Url], location: str, most: int) -> Url:
    """The URL that the last of those `left` behind leads on to.

    Raises:
        BadUrl: It is none that can be fetched.
        TooManyRedirects: It leads in a circle, or there are more than `most`.
    """
    with suppress(UnicodeDecodeError):
        location = location.encode("latin-1").decode()  # Headers are bytes; most servers mean UTF-8.
    url, start = join(left[-1], location), left[0]
    if url in left:
        cause = "it redirects in a circle, perhaps because it wants cookies, which are never sent"
        raise TooManyRedirects(f"{start} cannot be fetched: {cause}; fetch another page of the site", url=str(start))
    if len(left) > most:
        cause = f"it redirects more than {most} times (the last time to {url})"
        raise TooManyRedirects(f"{start} cannot be fetched: {cause}; allow more with max_redirects", url=str(start))
    return url


async def body_of(url: Url, answer: "HttpAnswer", trip: Attempt) -> ResponseBody:
    """The body of an answer, if it is one that can be had; nothing for one that leads on.

    Raises:
        FetchError: It is too large, or broken.
    """
    if answer.status < 200 or (answer.status == 304 and not trip.plan.validators):
        odd = f"{url} answered with status {answer.status}, which nobody asked for"
        raise BadAnswer(f"{odd}; it is broken at its source", url=str(url))
    async with aclosing(answer.chunks()) as chunks:
        if answer.status in _REDIRECTS and "location" in answer.headers:
            return await _drained(chunks)
        most = trip.plan.max_bytes
        return await read(chunks, answer.headers, most, url=str(url), cut=trip.plan.cut, progress=trip.progress)


async def _drained(chunks: AsyncGenerator[bytes]) -> ResponseBody:
    # What a redirect says is of no interest; to read the little that it is keeps the connection.
    came = 0
    with anyio.move_on_after(_DRAIN_SECONDS):
        async for chunk in chunks:
            came += len(chunk)
            if came > _DRAINED:
                break
    return ResponseBody(b"")


def response(hop: FetchHop, left: Sequence[Url], trip: Attempt) -> Response:
    """What the trip came to."""
    if hop.status == 429:
        trip.note(f"{hop.url.host} says that it is asked too often (status 429).")
    if hop.body.truncated and not trip.plan.cut:
        trip.note("The packed body ended too early: what could be unpacked is here, the rest is missing.")
    headers = hop.headers
    return Response(
        url=str(hop.url),
        requested=str(trip.plan.url),
        status=hop.status,
        headers=headers,
        body=hop.body.data,
        content_type=_content_type(headers.get("content-type", "")),
        retrieved_at=datetime.now(UTC),
        etag=headers.get("etag"),
        last_modified=headers.get("last-modified"),
        not_modified=hop.status == 304,
        redirects=tuple(map(str, left)),
        truncated=hop.body.truncated,
        notes=tuple(trip.notes),
        private=hop.private,
    )


def _content_type(header: str) -> str:
    """The content type, and what of its parameters is one: it is told to readers, and no server shall speak to them."""
    kind, *parameters = header[:1_000].split(";")
    kind = kind.partition(",")[0].strip()
    if not _TYPE.fullmatch(kind):
        return ""
    return ";".join([kind, *filter(_PARAMETER.fullmatch, parameters)])


class Fetcher:
    """Fetches pages; owns the connections, and remembers what hosts ask for."""

    def __init__(
        self,
        limits: FetchLimits = FetchLimits(),  # noqa: B008 - a frozen value
        *,
        allow_private: Sequence[Network] = (),
        allow_domains: Sequence[str] = (),
        block_domains: Sequence[str] = (),
        resolver: "Resolver | None" = None,
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        """Ready at once: nothing is loaded or opened before the first request.

        Args:
            limits: How much of anything is allowed.
            allow_private: Networks that may be fetched from though they are not public.
            allow_domains: If there are any, nothing else is fetched. `example.org` is all below it too.
            block_domains: Are not fetched from.
            resolver: From names to addresses; the system's without one.
            tls: Whom to trust; whom the system trusts without one.
            clock: Seconds, for rate limits and for what is remembered.
            sleep: Waits for the next turn or attempt.
        """
        self.limits = limits
        self._policy: FetchPolicy = policy(allow_private, allow_domains, block_domains)
        self._resolver = resolver
        self._tls = tls
        self._clock = clock
        self._sleep = sleep
        self._closed = False
        self._client: Client | None = None
        self._robots: Memory | None = None
        self._rates = Rates(
            per_minute=limits.per_host_minute,
            per_host=limits.per_host_at_once,
            at_once=limits.at_once,
            clock=clock,
            sleep=sleep,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection; what is on its way fails."""
        self._closed = True
        if self._client is not None:
            await self._client.aclose()

    async def fetch(self, request: Request, progress: Progress | None = None) -> Response:
        """The page that `request` asks for.

        Raises:
            FetchError: It could not be had; the text says why, and what to do.
        """
        planned = plan(request, self.limits)
        trip = Attempt(planned, self._clock() + planned.timeout, progress)
        with deadline(trip):
            return await self._follow(trip)

    async def robots(self, url: str) -> "Robots":
        """What the robots.txt of the URL's site says.

        Raises:
            FetchError: The site cannot be reached.
        """
        planned = plan(Request(url), self.limits)
        trip = Attempt(planned, self._clock() + planned.timeout)
        with deadline(trip):
            return await self._robots_of(planned.url, trip)

    async def _follow(self, trip: Attempt) -> Response:
        plan, url, own = trip.plan, trip.plan.url, True
        left: list[Url] = []
        while True:
            if plan.respect_robots:
                await self._ask_robots(url, trip)
            hop = await self._hop(url, plan.headers(own=own), trip)
            if hop.location is None:
                return response(hop, left, trip)
            left.append(url)
            url = next_url(left, hop.location, plan.max_redirects)
            if own and plan.own and not left[-1].trusts(url):
                own = False
                trip.note(f"The request's own headers were not sent on to {url.host}.")

    async def _ask_robots(self, url: Url, trip: Attempt) -> None:
        trip.doing = f"the robots.txt of {url.host} had not come"
        try:
            robots = await self._robots_of(url, trip)
        except FetchError as error:
            raise error.about(str(url)) from error
        if rule := await robots.asked(url, trip.plan.agent):
            from tidings.web.fetch.robots import refused  # noqa: PLC0415 - it is loaded

            raise refused(url, rule)

    async def _robots_of(self, url: Url, trip: Attempt) -> "Robots":
        from tidings.web.fetch.robots import MAX_BYTES, Memory  # noqa: PLC0415 - loaded by whom it is needed

        async def load(where: Url) -> Response:
            return await self._follow(Attempt(for_robots(where, trip.plan.agent, self.limits, MAX_BYTES), trip.until))

        if self._robots is None:
            self._robots = Memory(self._clock)
        robots = await self._robots.of(url, load)
        return await robots.prepare(trip.plan.agent)

    async def _hop(self, url: Url, headers: Sequence[tuple[str, str]], trip: Attempt) -> FetchHop:
        """What `url` gives, after as many attempts as it takes, and as are allowed and in time."""
        attempt = 0
        while True:
            try:
                hop = await self._once(url, headers, trip)
            except Unreachable as error:
                # A connection may have been closed at the other end while it was idle: that is no reason to wait.
                seconds = pause(attempt - 1) if attempt else 0.0
                if not error.again or not self._may_retry(attempt, seconds, trip):
                    raise
                trip.note("It was asked again, as the connection had failed.")
            else:
                if hop.status not in RETRIED:
                    return hop
                seconds = self._pause_for(hop, attempt)
                if not trip.plan.insist or not self._may_retry(attempt, seconds, trip):
                    return hop
                trip.note(f"It was asked again, as it had answered with status {hop.status}.")
            await self._sleep(seconds)
            attempt += 1

    def _pause_for(self, hop: FetchHop, attempt: int) -> float:
        asked_for = retry_after(hop.headers.get("retry-after"), datetime.now(UTC))
        if asked_for:
            self._rates.hold(hop.url.host, asked_for)
        return pause(attempt, asked_for)

    def _may_retry(self, attempt: int, seconds: float, trip: Attempt) -> bool:
        return attempt < self.limits.retries and seconds < trip.until - self._clock() and not self._closed

    async def _once(self, url: Url, headers: Sequence[tuple[str, str]], trip: Attempt) -> FetchHop:
        trip.doing = f"its turn at {url.host} had not come"
        try:
            async with self._rates.turn(url.host, trip.until - self._clock()) as waited:
                if waited >= 1:
                    trip.note(f"The limit of requests to {url.host} held it up for {waited:.0f} s.")
                trip.doing = f"{url.host} had not answered"
                async with self._connections().get(url, headers) as answer:
                    trip.doing = "its body was still on the way"
                    body = await body_of(url, answer, trip)
                    return FetchHop(url, answer.status, answer.headers, body, answer.private)
        except NoTurn as late:
            raise _rate_limited(url, late, self.limits) from None

    def _connections(self) -> "Client":
        if self._closed:
            raise RuntimeError("the fetcher is closed")
        if self._client is None:
            from tidings.web.fetch.client import Client  # noqa: PLC0415 - loaded with the first request
            from tidings.web.fetch.guard import Guard  # noqa: PLC0415 - see above

            guard = Guard(self._policy, self._resolver)
            self._client = Client(guard, at_once=self.limits.at_once, tls=self._tls)
        return self._client


def _rate_limited(url: Url, late: NoTurn, limits: FetchLimits) -> RateLimited:
    why = (
        f"{url.host} asked to be left alone" if late.held else f"{limits.per_host_minute} requests a minute are allowed"
    )
    when = f"the next can be made in {late.seconds:.0f} s"
    return RateLimited(f"{url} is not fetched: {why}, and {when}; try again then", url=str(url), again=True)
