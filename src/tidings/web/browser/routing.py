"""What a browser asks for while it shows one page, answered through the fetcher.

Chromium has no network of its own. Each of its requests comes here, is refused or fetched like any other (the guard,
robots.txt, rate limits, size limits and all), and handed back. Only GET over HTTP is fetched. What a refused request
would have been for goes on without it; where it was a navigation, the page that is there stays.
"""

import html
import logging
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from tidings.web.browser.chromium import tried
from tidings.web.extract.model import ExtractWarning
from tidings.web.fetch.fetcher import Fetcher
from tidings.web.fetch.request import FetchError, FetchTimedOut, RateLimited, Request, Response, RobotsRefused
from tidings.web.fetch.urls import Url, parse

if TYPE_CHECKING:
    from playwright.async_api import Request as Asked
    from playwright.async_api import Route

logger = logging.getLogger(__name__)

_NEVER: Final = frozenset(("media", "websocket", "eventsource", "manifest", "ping", "texttrack", "cspreport"))
_PICTURES: Final = frozenset(("image", "font"))
"""Needed only where somebody looks at the page."""
_SHOWN: Final = frozenset(("text/html", "application/xhtml+xml", "text/plain", "application/xml", "text/xml", ""))
"""What a frame may be filled with: anything else would be a download, or a plug-in."""
_PASSED_ON: Final = frozenset(("authorization", "accept-language", "origin", "referer"))
_KEPT_BACK: Final = frozenset(
    (
        *("content-encoding", "content-length", "transfer-encoding", "connection", "keep-alive", "trailer"),
        *("set-cookie", "content-disposition", "alt-svc", "clear-site-data", "report-to", "nel", "refresh"),
        *("reporting-endpoints", "strict-transport-security", "link", "service-worker-allowed"),
    )
)
"""Headers that belong to the connection, or would make the browser do or keep something."""

_SHARED: Final = "access-control-allow-origin"
_NOBODY: Final = "https://nowhere.invalid"
"""Whom a site lets read it that says nothing: Playwright would let everybody."""
_PATIENCE: Final = 1.0
"""Seconds for a page to finish loading after it could not be left."""


@dataclass(frozen=True)
class RenderBudget:
    """What showing one page may cost."""

    requests: int = 200
    bytes: int = 32 * 1024 * 1024
    navigations: int = 20
    """Of the page and the frames in it."""


class Routing:
    """Answers everything that one page asks for."""

    def __init__(
        self,
        fetcher: Fetcher,
        request: Request,
        first: Response,
        *,
        until: float,
        budget: RenderBudget,
        block_third_party: bool = True,
        pictures: bool = False,
    ) -> None:
        """Start with `first`, the page itself, which came for `request`; fetch nothing after `until`."""
        self._fetcher = fetcher
        self._request = request
        self._meant = parse(request.url)
        self._ready: Response | None = first
        self._home = parse(first.url)
        self._private = first.private
        self._until = until
        self._budget = budget
        self._block = block_third_party
        self._skipped = _NEVER if pictures else _NEVER | _PICTURES
        self.loading = anyio.CancelScope()
        """For who waits until the page is loaded: ends when that may never be said."""
        self._scopes: set[anyio.CancelScope] = set()
        self._ended = False
        self._requests = self._bytes = self._navigations = 0
        self._limited = self._forbidden = 0
        self.late = 0
        """How many parts had not come when the time was up."""

    @property
    def busy(self) -> bool:
        """Whether something is being fetched."""
        return bool(self._scopes)

    def end(self) -> None:
        """Give up what is being fetched, and answer nothing any more."""
        self._ended = True
        for scope in self._scopes:
            scope.cancel()

    def warnings(self) -> Iterator[ExtractWarning]:
        """What the reader of the page should know."""
        if self._limited:
            yield ExtractWarning("rate_limited", f"{self._limited} parts of the page were left out: too many requests.")
        if self._forbidden:
            yield ExtractWarning(
                "robots_blocked", f"{self._forbidden} parts of the page were left out, as robots.txt asks."
            )

    async def __call__(self, route: "Route") -> None:
        """Answer one request, whatever becomes of the page meanwhile."""
        asked = route.request
        try:
            response = await self._response(asked)
        except FetchError as error:
            self._count(error)
            logger.debug("not fetched for the browser: %s", error)
            response = None
        if self._ended:
            return
        if response is None:
            await self._refuse(route)
        elif asked.is_navigation_request() and response.redirects and response is not self._ready:
            # Under the address it was asked by, what is relative in it would lead elsewhere.
            self._ready = response
            where = html.escape(response.url, quote=True)
            body = f'<meta http-equiv="refresh" content="0;url={where}">'
            await tried(route.fulfill(status=200, content_type="text/html; charset=utf-8", body=body))
        else:
            headers = {name: value for name, value in response.headers.items() if name not in _KEPT_BACK}
            headers.setdefault(_SHARED, _NOBODY)
            self._ready = None if response is self._ready else self._ready
            await tried(route.fulfill(status=response.status, headers=headers, body=response.body))

    async def _refuse(self, route: "Route") -> None:
        # The page stays when a navigation is aborted; any other error would be shown in its place.
        navigates = route.request.is_navigation_request()
        await tried(route.abort("aborted" if navigates else "blockedbyclient"))
        if navigates and _leaves(route.request):
            # Of a page that was about to be left, no browser says any more that it is loaded.
            self.loading.deadline = min(self.loading.deadline, anyio.current_time() + _PATIENCE)

    async def _response(self, asked: "Asked") -> Response | None:
        """What the browser gets; None if it gets nothing."""
        if asked.method != "GET" or asked.resource_type in self._skipped or self._ended:
            return None
        url = parse(asked.url)
        ready = self._ready
        if ready is not None and asked.is_navigation_request() and str(url) == str(parse(ready.url)):
            return ready
        if not self._affordable(asked) or self._foreign(url):
            return None
        with self._counted():
            response = await self._fetcher.fetch(self._asking(asked, url))
            self._bytes += len(response.body)
            return None if self._unwelcome(response, asked, url) else response
        return None

    def _affordable(self, asked: "Asked") -> bool:
        self._requests += 1
        self._navigations += asked.is_navigation_request()
        budget = self._budget
        return (
            self._requests <= budget.requests
            and self._navigations <= budget.navigations
            and self._bytes < budget.bytes
            and anyio.current_time() < self._until
        )

    @contextmanager
    def _counted(self) -> Generator[None]:
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)

    def _asking(self, asked: "Asked", url: Url) -> Request:
        """The request as the fetcher makes it: the caller's headers go to the page's own origin alone.

        And only if they were meant for it: where the page was led elsewhere, they were left behind.
        """
        given = {name: value for name, value in asked.headers.items() if name in _PASSED_ON or name.startswith("x-")}
        if url.origin == self._home.origin and self._meant.trusts(url):
            given |= self._request.headers
        left = self._budget.bytes - self._bytes
        return Request(
            str(url),
            headers=given,
            accept=asked.headers.get("accept", "*/*"),
            respect_robots=self._request.respect_robots,
            timeout=self._until - anyio.current_time(),
            max_bytes=min(left, self._request.max_bytes or left),
            max_redirects=self._request.max_redirects,
            user_agent=self._request.user_agent,
        )

    def _unwelcome(self, response: Response, asked: "Asked", url: Url) -> bool:
        where = parse(response.url)
        if self._foreign(where) or (response.private and not self._private):
            # A page of the internet has no business in a private network, whatever its own name leads to by now.
            return True
        if asked.is_navigation_request():
            return response.content_type.partition(";")[0].strip().lower() not in _SHOWN
        # The browser takes it for what it asked for: whether scripts may read it has to be seen to here. They may run
        # what they cannot read.
        shared = response.headers.get(_SHARED, "").strip() in {"*", self._home.origin}
        return not (shared or url.trusts(where) or asked.resource_type == "script")

    def _foreign(self, url: Url) -> bool:
        return self._block and site_of(url.host) != site_of(self._home.host)

    def _count(self, error: FetchError) -> None:
        self._limited += isinstance(error, RateLimited)
        self._forbidden += isinstance(error, RobotsRefused)
        self.late += isinstance(error, FetchTimedOut)


def _leaves(asked: "Asked") -> bool:
    """Whether it is the page that would be left, and not a frame in it."""
    from playwright.async_api import Error  # noqa: PLC0415 - the package is there only if rendering was asked for

    try:
        return asked.frame.parent_frame is None
    except Error:  # of a window that is not there yet
        return False


def site_of(host: str) -> str:
    """Whose a host is, as a rule: the last two labels of its name, or three where the second is short (`co.uk`)."""
    labels = host.split(".")
    if ":" in host or labels[-1].isdigit():
        return host  # an address
    number = 3 if len(labels) > 2 and len(labels[-2]) <= 3 and len(labels[-1]) == 2 else 2
    return ".".join(labels[-number:])
