"""The requests of one page in the browser, answered through the fetcher: Chromium has no network of its own.

Each request is refused, or fetched like any other, with the guard, robots.txt and size limits. The parts of a page have
a budget of their own instead of the requests that a host gets in a minute. After a refused navigation the page stays.
By default it gets scripts of other hosts, as of a CDN, but not their data, frames and trackers.
"""

import html
import logging
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import anyio
from playwright.async_api import Error, Route
from playwright.async_api import Request as Asked

from tidings.web.browser.chromium import attempt
from tidings.web.extract.model import ExtractWarning
from tidings.web.fetch.fetcher import Fetcher
from tidings.web.fetch.request import SECRET_NAME, FetchError, RateLimited, Request, Response, RobotsRefused
from tidings.web.fetch.urls import Url, parse
from tidings.web.page_options import RenderOptions

logger = logging.getLogger(__name__)

_NEVER: Final = frozenset(("media", "websocket", "eventsource", "manifest", "ping", "texttrack", "cspreport"))
_TRACKERS: Final = re.compile(
    r"(?:^|\.)(?:google-analytics|googletagmanager|googlesyndication|googleadservices|doubleclick|facebook|hotjar|segment"
    r"|mixpanel|amplitude|taboola|outbrain|criteo|scorecardresearch|quantserve|adnxs|amazon-adsystem|clarity|newrelic"
    r"|nr-data|fullstory|chartbeat|parsely|permutive|onetrust|cookielaw|intercom|hubspot|hs-scripts)\.\w+$"
)
_DATA: Final = frozenset(("xhr", "fetch"))  # What may be asked for with POST, as GraphQL is.
_PICTURES: Final = frozenset(("image", "font"))  # Needed only for a screenshot.
# Content types that a frame may show; others would start a download or a plug-in.
_SHOWN: Final = frozenset(("text/html", "application/xhtml+xml", "text/plain", "application/xml", "text/xml", ""))
_PASSED_ON: Final = frozenset(("authorization", "accept-language", "content-type", "origin", "referer"))
_KEPT_BACK: Final = frozenset(  # Headers of the connection, and those that make the browser do or store something.
    ("content-encoding", "content-length", "transfer-encoding", "connection", "keep-alive", "trailer", "set-cookie",
     "content-disposition", "alt-svc", "clear-site-data", "report-to", "nel", "refresh", "reporting-endpoints",
     "strict-transport-security", "link", "service-worker-allowed")
)  # fmt: skip

_ALLOW_ORIGIN: Final = "access-control-allow-origin"
# The allowed origin of a response without one: Playwright would allow every origin.
_NOBODY: Final = "https://nowhere.invalid"
_PATIENCE: Final = 1.0  # Seconds for a page to finish loading after a refused navigation.


@dataclass(frozen=True)
class RenderBudget:
    """The limits of rendering one page with all its frames."""

    requests: int = 200
    bytes: int = 32 * 1024 * 1024
    navigations: int = 20


@dataclass(eq=False)
class Routing:
    """Answers all requests of one page, beginning with `first`: the response to `request`, which is the page itself."""

    fetcher: Fetcher
    request: Request
    first: Response
    options: RenderOptions
    budget: RenderBudget
    until: float  # nothing is fetched after this

    def __post_init__(self) -> None:
        self._ready: Response | None = self.first
        self._meant, self._home = parse(self.request.url), parse(self.first.url)
        self._skipped = _NEVER if self.options.screenshot else _NEVER | _PICTURES
        # The scope of waiting until the page is loaded; ends when that may never be reported.
        self.loading = anyio.CancelScope()
        self._scopes: set[anyio.CancelScope] = set()
        self._ended = False
        self._requests = self._bytes = self._navigations = 0
        self._left_out: Counter[str] = Counter()  # The parts that were left out, by the reason.
        self.failed: Counter[type[FetchError]] = Counter()  # Those that could not be fetched, by the error.

    @property
    def busy(self) -> bool:
        """True while something is being fetched."""
        return bool(self._scopes)

    def end(self) -> None:
        """Cancels all fetches, and answers nothing any more."""
        self._ended = True
        for scope in self._scopes:
            scope.cancel()

    def warnings(self) -> Iterator[ExtractWarning]:
        """Yields warnings about parts that were left out."""
        if limited := self.failed[RateLimited]:
            yield ExtractWarning("rate_limited", f"{limited} parts of the page were left out: too many requests.")
        if forbidden := self.failed[RobotsRefused]:
            message = f"{forbidden} parts of the page were left out, because robots.txt forbids them."
            yield ExtractWarning("robots_blocked", message)

    def missing(self) -> str:
        """Returns what was left out of the page, and why; empty if nothing was."""
        parts = [f"{number} {why}" for why, number in self._left_out.items()]
        return f"Of the requests of its scripts these were left out: {'; '.join(parts)}." if parts else ""

    async def __call__(self, route: Route) -> None:
        """Answers one request."""
        asked = route.request
        try:
            response = await self._response(asked)
        except FetchError as error:
            self.failed[type(error)] += 1
            self._left_out[f"failed ({error.kind})"] += 1
            logger.debug("not fetched for the browser: %s", error)
            response = None
        if self._ended:
            return
        if response is None:
            # The page stays when a navigation is aborted; for any other error the browser would show an error page.
            navigates = asked.is_navigation_request()
            await attempt(route.abort("aborted" if navigates else "blockedbyclient"))
            with suppress(Error):  # The window of the frame may not exist yet.
                if navigates and asked.frame.parent_frame is None:
                    # The browser never reports a page as loaded that was about to be left.
                    self.loading.deadline = min(self.loading.deadline, anyio.current_time() + _PATIENCE)
        elif asked.is_navigation_request() and response.redirects and response is not self._ready:
            # Under the original URL its relative links would be wrong.
            self._ready = response
            body = f'<meta http-equiv="refresh" content="0;url={html.escape(response.url, quote=True)}">'
            await attempt(route.fulfill(status=200, content_type="text/html; charset=utf-8", body=body))
        else:
            headers = {name: value for name, value in response.headers.items() if name not in _KEPT_BACK}
            headers.setdefault(_ALLOW_ORIGIN, _NOBODY)
            self._ready = None if response is self._ready else self._ready
            await attempt(route.fulfill(status=response.status, headers=headers, body=response.body))

    async def _response(self, asked: Asked) -> Response | None:
        """Returns the response for the browser, or None to refuse the request."""
        if asked.resource_type in self._skipped or self._ended:
            return None
        url = parse(asked.url)
        ready = self._ready
        if ready is not None and asked.is_navigation_request() and str(url) == str(parse(ready.url)):
            return ready
        if why := self._refusal(asked, url):
            self._left_out[why] += 1
            return None
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                response = await self.fetcher.fetch(self._to_fetch(asked, url))
            finally:
                self._scopes.discard(scope)
            self._bytes += len(response.body)
            return None if self._is_forbidden(response, asked, url) else response
        return None

    def _refusal(self, asked: Asked, url: Url) -> str:
        """Returns why a request is not sent, or nothing if it is."""
        data = asked.method == "POST" and asked.resource_type in _DATA and bool(asked.post_data)
        # `$NAME` would stand for a secret of the operator.
        if asked.method != "GET" and (not data or SECRET_NAME.search(asked.post_data or "")):
            return f"sent with {asked.method}"
        if self._is_third_party(url, asked):
            return "to other hosts (render.block_third_party false allows them)"
        self._requests += 1
        self._navigations += asked.is_navigation_request()
        counted = self._requests <= self.budget.requests and self._navigations <= self.budget.navigations
        fits = counted and self._bytes < self.budget.bytes and anyio.current_time() < self.until
        return "" if fits else "over the limit of one page"

    def _to_fetch(self, asked: Asked, url: Url) -> Request:
        given = {name: value for name, value in asked.headers.items() if name in _PASSED_ON or name.startswith("x-")}
        given = {name: value for name, value in given.items() if not SECRET_NAME.search(value)}
        # The caller's headers go only to the page's own origin, and only if it was not redirected to another one.
        if url.origin == self._home.origin and self._meant.trusts(url):
            given |= self.request.headers
        left = self.budget.bytes - self._bytes
        return Request(
            str(url),
            headers=given,
            accept=asked.headers.get("accept", "*/*"),
            respect_robots=self.request.respect_robots,
            timeout=self.until - anyio.current_time(),
            max_bytes=min(left, self.request.max_bytes or left),
            max_redirects=self.request.max_redirects,
            user_agent=self.request.user_agent,
            part=True,
            body=(asked.post_data or "") if asked.method == "POST" else "",
        )

    def _is_forbidden(self, response: Response, asked: Asked, url: Url) -> bool:
        where = parse(response.url)
        if self._is_third_party(where, asked) or (response.private and not self.first.private):
            # A public page must not reach a private network, even if its own name resolves there by now.
            return True
        if asked.is_navigation_request():
            return response.content_type.partition(";")[0].strip().lower() not in _SHOWN
        # The browser does not see redirects, so cross-origin access is checked here. A page may run scripts that it
        # may not read.
        shared = response.headers.get(_ALLOW_ORIGIN, "").strip() in {"*", self._home.origin}
        return not (shared or url.trusts(where) or asked.resource_type == "script")

    def _is_third_party(self, url: Url, asked: Asked) -> bool:
        """Returns whether a request goes to another site that it may not go to."""
        if not self.options.block_third_party or site_of(url.host) == site_of(self._home.host):
            return False
        return asked.resource_type != "script" or _TRACKERS.search(url.host) is not None


def site_of(host: str) -> str:
    """Returns the site of a host: the last two labels of its name, or three if the second is short (`co.uk`)."""
    labels = host.split(".")
    if ":" in host or labels[-1].isdigit():
        return host  # An address.
    number = 3 if len(labels) > 2 and len(labels[-2]) <= 3 and len(labels[-1]) == 2 else 2
    return ".".join(labels[-number:])
