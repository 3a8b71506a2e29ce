"""`Fetcher`: from a request to its response.

A request becomes a `FetchCall`, checked before anything is sent. For each URL, in this order: robots.txt, a turn at
the host, one request through the guard, the body within its limit; then a retry, or the next redirect, or the response.
One deadline covers all of it. Every answer is a `Response`, whatever its status; with a `FetchError`, there is none.
"""

import html
import json
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

import anyio

from tidings._kit.backoff import doubling, jittered, retry_after
from tidings._kit.decompress import ACCEPTED, PIECE, Corrupt, Decompressor, OverLimit
from tidings._kit.tasks import Progress
from tidings.web.fetch.rates import NoTurn, Rates
from tidings.web.fetch.request import (
    SECRET_NAME,
    BadAnswer,
    BadRequest,
    FetchError,
    FetchTimedOut,
    Proxy,
    RateLimited,
    Request,
    Response,
    ResponseTooLarge,
    TooManyRedirects,
    Unreachable,
)
from tidings.web.fetch.urls import FetchPolicy, Url, covers, join, parse, shown
from tidings.web.settings import MIB, Settings

if TYPE_CHECKING:
    from tidings._kit.address_guard import Resolver
    from tidings.web.fetch.client import Client, HttpAnswer
    from tidings.web.fetch.robots import Robots, RobotsCache

RETRIED = frozenset({408, 425, 429, 502, 503, 504})  # temporary statuses, after which the request is retried
ACCEPT = (
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, application/pdf;q=0.8, "
    "application/json;q=0.8, application/xml;q=0.7, */*;q=0.5"
)
_MOST_HEADERS = 50
_LONGEST_HEADER = 8_192
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_BODY_HEADERS = ("content-length", "content-encoding", "transfer-encoding", "expect")
_CONNECTION_HEADERS = ("connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "http2-settings")
# Headers that a caller may not set, and why.
_RESERVED = {
    "host": "it follows from the URL",
    **dict.fromkeys(_BODY_HEADERS, "a request has no body"),
    **dict.fromkeys(_CONNECTION_HEADERS, "the fetcher manages connections"),
    "proxy-authorization": "the operator chooses the proxy, with --proxy",
    "accept-encoding": "the fetcher decompresses bodies",
    **dict.fromkeys(("if-none-match", "if-match"), "use etag"),
    **dict.fromkeys(("if-modified-since", "if-unmodified-since"), "use last_modified"),
    **dict.fromkeys(("if-range", "range"), "only whole pages are fetched"),
}

Secrets = Mapping[str, tuple[Sequence[str], str]]  # the domains and the value, by the name
_UNREAD = re.compile(rb"<!--.*?(?:-->|$)|<(noscript|script|style|template)\b.*?(?:</\1|$)", re.IGNORECASE | re.DOTALL)
_META = re.compile(rb"<meta\s[^>]{0,2000}>", re.IGNORECASE)
_REFRESH = re.compile(rb"""http-equiv\s*=\s*["']?refresh\b""", re.IGNORECASE)
_TARGET = re.compile(
    rb"""content\s*=\s*["']?\s*(\d{1,5})[\d.]*\s*[;,]\s*(?:url\s*=\s*)?['"]?([^'">\s]+)""", re.IGNORECASE
)
_LOOKED_AT = 64 * 1024  # bytes of a page that are searched for a meta refresh
_SOON = 10  # seconds after which a page with a meta refresh is a redirect

_FOR_EVERY_HOST = ("accept", "user-agent")
_VALIDATORS = ("if-none-match", "if-modified-since")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TYPE = re.compile(r"[\w.+-]{1,80}/[\w.+-]{1,80}", re.ASCII)
_PARAMETER = re.compile(r"""\s*[\w-]{1,40}\s*=\s*(?:[\w.:/+-]{1,80}|"[\w.:/+-]{1,80}")\s*""", re.ASCII)
_DRAINED = 64 * 1024
_DRAIN_SECONDS = 1.0
_DELAYS = doubling(0.5, 8.0)


@dataclass
class FetchCall:
    """A checked request in progress."""

    request: Request
    url: Url
    common: Mapping[str, str]  # the headers for every host, with the validators
    own: Mapping[str, str]  # the caller's headers, for the host of `url` only
    timeout: float
    max_bytes: int
    max_redirects: int
    body: bytes
    secrets: Mapping[str, str]  # those that are sent, by name
    until: float = 0.0  # its deadline by the fetcher's clock
    progress: Progress | None = None  # called with the bytes received and the total; equal when it is complete
    cut: bool = False  # truncate at `max_bytes` instead of failing
    notes: list[str] = field(default_factory=list[str])  # for the response, each once
    pending: str = "waiting for its turn"  # the step it waits for, for the message of a timeout

    def headers(self, *, own: bool) -> list[tuple[str, str]]:
        return list({**self.common, **(self.own if own else {})}.items())


def plan(request: Request, limits: Settings, secrets: Secrets | None = None) -> FetchCall:
    """Returns the call for `request`, with secrets for their `$NAME`. Raises `BadUrl` or `BadRequest`."""
    url = parse(request.url)
    used: dict[str, str] = {}

    def secret(found: re.Match[str]) -> str:
        name = found[1]
        domains, value = (secrets or {}).get(name, ((), ""))
        if not value or not any(covers(each, url.host) for each in domains):
            why = f"${name} may not be sent to {url.host}, or is not set"
            raise BadRequest(f"{why}; the operator can allow it with --secrets {name}@{url.host}", url=request.url)
        used[name] = value
        return value

    if len(request.headers) > _MOST_HEADERS:
        why = f"{len(request.headers)} headers are too many; send at most {_MOST_HEADERS}"
        raise BadRequest(why, url=request.url)
    own: dict[str, str] = {}
    for name, value in request.headers.items():
        lower = name.strip().lower()
        if not _NAME.fullmatch(lower):
            why = f"{shown(name)!r} is not a header name; use letters, digits and hyphens"
            raise BadRequest(why, url=request.url)
        if lower in _RESERVED:
            why = f"the header {name} cannot be set: {_RESERVED[lower]}; leave it out"
            raise BadRequest(why, url=request.url)
        if lower in _FOR_EVERY_HOST and SECRET_NAME.search(value):
            why = "redirects send it to every host; use another header"
            raise BadRequest(f"the header {name} cannot have a secret: {why}", url=request.url)
        own[lower] = _checked(name, SECRET_NAME.sub(secret, value), request.url).strip()
    if request.body:
        kind = "json" if request.body.lstrip()[:1] in ("{", "[") else "x-www-form-urlencoded"
        own.setdefault("content-type", f"application/{kind}")
    accept, agent = (own.pop(name, None) for name in _FOR_EVERY_HOST)
    common = {
        "accept": request.accept or accept or ACCEPT,
        "user-agent": request.user_agent or agent or limits.user_agent,
        "accept-encoding": ACCEPTED,
        _VALIDATORS[0]: request.etag,
        _VALIDATORS[1]: request.last_modified,
    }
    return FetchCall(
        request,
        url,
        {name: _checked(name, value, request.url) for name, value in common.items() if value is not None},
        own,
        timeout=_least(request.timeout, limits.timeout),
        max_bytes=int(_least(request.max_bytes, limits.max_bytes)),
        max_redirects=int(_least(request.max_redirects, limits.max_redirects)),
        body=SECRET_NAME.sub(secret, request.body).encode(),
        secrets=used,
    )


def _veiled(secrets: Mapping[str, str], text: str) -> str:
    """Returns a text of a site, which may send back what it got, with the names of secrets for their values."""
    for name, value in secrets.items():
        for form in (value, html.escape(value), quote(value), quote(value, safe=""), json.dumps(value)[1:-1]):
            text = text.replace(form, f"${name}")
    return text


def _least(asked: float | None, limit: float) -> float:
    return limit if asked is None else max(0, min(asked, limit))


def _checked(name: str, value: str, url: str) -> str:
    if not _VALUE.fullmatch(value):
        why = "line breaks, control characters or characters beyond Latin-1"
        raise BadRequest(f"the header {name} has {why} in its value; remove them", url=url)
    if len(value) > _LONGEST_HEADER:
        raise BadRequest(f"the header {name} is longer than {_LONGEST_HEADER:,} characters; shorten it", url=url)
    return value


def _next_url(left: Sequence[Url], location: str, most: int) -> Url:
    """Returns the target of a redirect from the last URL of `left`."""
    with suppress(UnicodeDecodeError):
        location = location.encode("latin-1").decode()  # Headers are bytes; most servers mean UTF-8.
    url, start = join(left[-1], location), left[0]
    if url in left:
        cause = "it redirects in a circle, perhaps because it expects cookies, which are never sent"
        raise TooManyRedirects(f"{start} cannot be fetched: {cause}; fetch another page of the site", url=str(start))
    if len(left) > most:
        cause = f"it redirects more than {most} times (the last time to {url})"
        raise TooManyRedirects(f"{start} cannot be fetched: {cause}; allow more with max_redirects", url=str(start))
    return url


def _refreshed(response: Response, call: FetchCall) -> str | None:
    """Returns the target of a page that leads on by a meta refresh. One that does so late, or to itself, stays."""
    if response.status != 200 or "html" not in response.content_type.lower() or call.cut:
        return None
    head = _UNREAD.sub(b"", response.body[:_LOOKED_AT])
    for tag in _META.findall(head):
        if _REFRESH.search(tag) and (found := _TARGET.search(tag)):
            location = html.unescape(found[2].decode("utf-8", "replace"))
            with suppress(FetchError):
                target = join(parse(response.url), location)
                if str(target) != response.url:
                    after = int(found[1])
                    how = "by a meta refresh" if after <= _SOON else f"after {after} s, which was not waited for"
                    call.notes.append(f"{response.url} leads on to {target} {how}.")
                    return location if after <= _SOON else None
    return None


async def _body_of(url: Url, answer: "HttpAnswer", call: FetchCall) -> tuple[bytes, bool]:
    """Returns the body of an answer, empty for a redirect, and whether a part of it is missing."""
    if answer.status < 200 or (answer.status == 304 and call.common.keys().isdisjoint(_VALIDATORS)):
        message = f"{url} answered with the unexpected status {answer.status}; the fault is at the server"
        raise BadAnswer(message, url=str(url))
    async with aclosing(answer.chunks()) as chunks:
        if answer.status not in _REDIRECTS or "location" not in answer.headers:
            return await _read_body(chunks, answer.headers, str(url), call)
        # The body of a redirect is not used; reading a short one keeps the connection open.
        came = 0
        with anyio.move_on_after(_DRAIN_SECONDS):
            async for chunk in chunks:
                came += len(chunk)
                if came > _DRAINED:
                    break
        return b"", False


async def _read_body(
    chunks: AsyncIterator[bytes], headers: Mapping[str, str], url: str, call: FetchCall
) -> tuple[bytes, bool]:
    """Returns the body, decompressed. The limit counts for the compressed and for the decompressed body."""
    limit, progress = call.max_bytes, call.progress
    length = headers.get("content-length", "")
    total = int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else None
    hint = "allow more with max_bytes, or fetch a smaller page"
    if total is not None and total > limit and not call.cut:
        raise ResponseTooLarge(f"{url} has {_size(total)}, more than the {_size(limit)} allowed; {hint}", url=url)
    data = bytearray()
    try:
        encodings = headers.get("content-encoding", "").split(",")
        decompressor = Decompressor([name.strip().lower() for name in encodings], limit)
        received = reported = 0
        async for chunk in chunks:
            received += len(chunk)
            for piece in decompressor.feed(chunk):
                data += piece
            if progress is not None and received - reported >= PIECE:
                reported = received
                await progress(received, total)
        if progress is not None and (reported, total) != (received, received):
            await progress(received, received)
    except OverLimit:
        if call.cut:
            return bytes(data), True
        raise ResponseTooLarge(f"{url} has more than the {_size(limit)} allowed; {hint}", url=url) from None
    except Corrupt as error:
        raise BadAnswer(f"{url} cannot be decompressed: {error}; the fault is at the server", url=url) from None
    return bytes(data), decompressor.cut_short


def _size(count: int) -> str:
    return f"{count / MIB:.1f} MiB" if count >= MIB else f"{count:,} bytes"


def _content_type(header: str) -> str:
    """Returns the type and its well-formed parameters. Readers see it, so a server must not smuggle text into it."""
    kind, *parameters = header[:1_000].split(";")
    kind = kind.partition(",")[0].strip()
    if not _TYPE.fullmatch(kind):
        return ""
    return ";".join([kind, *filter(_PARAMETER.fullmatch, parameters)])


@dataclass(eq=False)
class Fetcher:
    """Fetches pages. Owns the connections, the rates of hosts and their robots.txt files. Opens nothing before."""

    limits: Settings = Settings()  # noqa: RUF009 - a frozen value; of the whole server
    _: KW_ONLY
    secrets: Secrets | None = None
    proxy: Proxy | None = None
    resolver: "Resolver | None" = None
    tls: ssl.SSLContext | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep

    def __post_init__(self) -> None:
        limits = self.limits
        self._policy = FetchPolicy(limits.allow_private, limits.allow_domain, limits.block_domain)
        self._rates = Rates(limits.requests_per_minute, limits.per_host, limits.at_once, self.clock, self.sleep)
        self._client: Client | None = None
        self._robots: RobotsCache | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Closes every connection; calls in progress fail."""
        self._closed = True
        if self._client is not None:
            await self._client.aclose()

    async def fetch(self, request: Request, progress: Progress | None = None) -> Response:
        """Returns the response to `request`. Raises `FetchError`, which says why there is none, and what to do."""
        with self._called(request, progress) as call:
            response = await self._follow(call)
        if not call.secrets:
            return response
        veiled = partial(_veiled, call.secrets)
        texts = {name: getattr(response, name) for name in ("url", "content_type", "etag", "last_modified")}
        return replace(
            response,
            body=veiled(response.body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape"),
            headers={name: veiled(value) for name, value in response.headers.items()},
            redirects=tuple(map(veiled, response.redirects)),
            notes=tuple(map(veiled, response.notes)),
            **{name: text and veiled(text) for name, text in texts.items()},
        )

    async def robots(self, url: str) -> "Robots":
        """Returns the robots.txt of the URL's site. Raises `FetchError` if the site cannot be reached."""
        with self._called(Request(url)) as call:
            return await self._robots_of(call.url, call)

    @contextmanager
    def _called(self, request: Request, progress: Progress | None = None) -> Generator[FetchCall]:
        """Begins a call. Raises `FetchTimedOut` if the block takes longer than its timeout."""
        call = plan(request, self.limits, self.secrets)
        call.until, call.progress = self.clock() + call.timeout, progress
        with anyio.move_on_after(call.timeout) as scope:
            try:
                yield call
            except FetchError as error:
                if not call.secrets:
                    raise
                message, url = (_veiled(call.secrets, text) for text in (str(error), error.url))
                raise type(error)(message, url=url, retryable=error.retryable) from None
        if scope.cancelled_caught:
            late = f"{call.url} did not arrive within {call.timeout:g} s: {call.pending}"
            hint = "allow more time (timeout_ms, up to the server's --timeout), or try again later"
            raise FetchTimedOut(f"{late}; {hint}", url=str(call.url))

    async def _follow(self, call: FetchCall) -> Response:
        url, own, body = call.url, True, call.body
        left: list[Url] = []
        while True:
            if call.request.respect_robots:
                call.pending = f"the robots.txt of {url.host} had not arrived"
                try:
                    robots = await self._robots_of(url, call)
                except FetchError as error:
                    about = str(error).replace(error.url, str(url))
                    raise type(error)(about, url=str(url), retryable=error.retryable) from error
                await robots.check(url, call.common["user-agent"])
            response = await self._hop(url, call.headers(own=own), call, body)
            location = response.headers.get("location") if response.status in _REDIRECTS else _refreshed(response, call)
            if location is None:
                if response.status == 429:
                    call.notes.append(f"{url.host} reports too many requests (status 429).")
                if response.truncated and not call.cut:
                    call.notes.append("The compressed body ended too early: the rest is missing.")
                return replace(response, redirects=tuple(map(str, left)), notes=tuple(dict.fromkeys(call.notes)))
            left.append(url)
            url = _next_url(left, location, call.max_redirects)
            if response.status not in (307, 308) or not left[-1].trusts(url):
                body = b""  # As browsers do, and never to another site.
            if own and call.own and not left[-1].trusts(url):
                own = False
                call.notes.append(f"The request's own headers were not sent on to {url.host}.")

    async def _robots_of(self, url: Url, call: FetchCall) -> "Robots":
        from tidings.web.fetch.robots import MAX_BYTES, RobotsCache  # noqa: PLC0415 - needs protego, so only on demand

        async def load(where: Url) -> Response:
            agent = call.common["user-agent"]
            asked = Request(str(where), accept="text/plain, */*;q=0.5", respect_robots=False, user_agent=agent)
            planned = plan(asked, self.limits)
            return await self._follow(
                replace(planned, max_bytes=MAX_BYTES, max_redirects=5, cut=True, until=call.until)
            )

        if self._robots is None:
            self._robots = RobotsCache(self.clock)
        return await self._robots.of(url, load)

    async def _hop(self, url: Url, headers: Sequence[tuple[str, str]], call: FetchCall, body: bytes) -> Response:
        """Requests `url`, and retries as often as the limits and the deadline allow."""
        attempt = 0
        while True:
            try:
                response = await self._once(url, headers, call, body)
            except Unreachable as error:
                # The peer may have closed an idle connection: the first retry needs no pause.
                seconds = _pause(attempt - 1) if attempt else 0.0
                if not error.retryable or not self._may_retry(attempt, seconds, call):
                    raise
                call.notes.append("The request was repeated because the connection failed.")
            else:
                if response.status not in RETRIED:
                    return response
                wanted = retry_after(response.headers.get("retry-after"), response.retrieved_at)
                if wanted:
                    self._rates.hold(url.host, wanted)
                seconds = _pause(attempt) if wanted is None else wanted + jittered(_DELAYS[0], below=1.0)
                if not call.request.insist or not self._may_retry(attempt, seconds, call):
                    return response
                call.notes.append(
                    f"The request was repeated because the server answered with status {response.status}."
                )
            await self.sleep(seconds)
            attempt += 1

    def _may_retry(self, attempt: int, seconds: float, call: FetchCall) -> bool:
        return attempt < self.limits.retries and seconds < call.until - self.clock() and not self._closed

    async def _once(self, url: Url, headers: Sequence[tuple[str, str]], call: FetchCall, body: bytes) -> Response:
        call.pending = f"it was still waiting for its turn at {url.host}"
        try:
            async with self._rates.turn(url.host, call.until - self.clock(), part=call.request.part) as waited:
                if waited >= 1:
                    call.notes.append(f"The rate limit for {url.host} delayed the request by {waited:.0f} s.")
                call.pending = f"{url.host} had not answered"
                async with self._connections().get(url, headers, body) as answer:
                    call.pending = "its body was incomplete"
                    body, truncated = await _body_of(url, answer, call)
                    return Response(
                        url=str(url),
                        requested=str(call.url),
                        status=answer.status,
                        headers=answer.headers,
                        body=body,
                        content_type=_content_type(answer.headers.get("content-type", "")),
                        retrieved_at=datetime.now(UTC),
                        etag=answer.headers.get("etag"),
                        last_modified=answer.headers.get("last-modified"),
                        not_modified=answer.status == 304,
                        truncated=truncated,
                        private=answer.private,
                    )
        except NoTurn as late:
            allowed = f"{self.limits.requests_per_minute} requests a minute are allowed"
            why = f"{url.host} asked for a pause" if late.held else allowed
            when = f"the next request is possible in {late.seconds:.0f} s"
            message = f"{url} is not fetched: {why}, and {when}; try again then"
            raise RateLimited(message, url=str(url), retryable=True) from None

    def _connections(self) -> "Client":
        if self._closed:
            raise RuntimeError("the fetcher is closed")
        if self._client is None:
            # They take long to import, so with the first request.
            from tidings._kit.address_guard import Guard  # noqa: PLC0415
            from tidings.web.fetch.client import Client  # noqa: PLC0415

            proxy = self.proxy
            guard = Guard(self._policy, self.resolver, proxy and (proxy.host, proxy.port))
            self._client = Client(guard, at_once=self.limits.at_once, proxy=proxy, tls=self.tls)
        return self._client


def _pause(attempt: int) -> float:
    return jittered(_DELAYS[min(attempt, len(_DELAYS) - 1)], below=0.5)
