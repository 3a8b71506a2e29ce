"""A page as a browser shows it: fetched like any other, then run in Chromium, which asks for everything through us.

    async with Renderer(fetcher) as renderer:
        rendered = await renderer.render("https://example.org/", RenderOptions(screenshot=True))

The page itself is fetched first, so that what is refused, missing or not HTML is told as it always is, and so that the
browser starts where the redirects end. Its deadline is one for all: when it comes, what is there by then is the answer,
with a `render_timeout` warning; if the page lets nobody look at it, that is what was fetched.

Looking at a page that a browser shows: its elements as HTML, and a picture of it, both no larger than allowed.

The HTML is read in a world of its own within the page, where nothing of what the page's scripts redefined is to be
seen, and cut there: a page can grow without end, and would come over in one piece.
"""

import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast
from urllib.parse import urldefrag

import anyio

from tidings.web.browser.chromium import Browser, tried
from tidings.web.browser.routing import RenderBudget, Routing
from tidings.web.extract.model import ExtractWarning
from tidings.web.fetch.fetcher import Fetcher
from tidings.web.fetch.request import BadRequest, FetchError, FetchTimedOut, Request, Response
from tidings.web.page_options import RenderOptions
from tidings.web.pages import failed

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, FloatRect, Page


_TALLEST: Final = 8_000
"""Pixels of a picture."""
_HEAVIEST: Final = 5 * 1024 * 1024
"""Bytes of a picture."""
_LEAST: Final = 0.5
"""Seconds that a look takes at least, even if the time is up."""
_READ: Final = """(() => {
    const all = document.documentElement ? document.documentElement.outerHTML : "";
    const kind = document.doctype ? "<!DOCTYPE " + document.doctype.name + ">" : "";
    return {html: kind + all.slice(0, %d), whole: all.length <= %d, url: location.href,
            width: document.documentElement ? document.documentElement.scrollWidth : 0,
            height: document.documentElement ? document.documentElement.scrollHeight : 0};
})()"""


@dataclass(frozen=True)
class RenderedSnapshot:
    """A page's elements as HTML, and where it is."""

    html: bytes
    url: str | None
    """None: nowhere on the web."""
    width: int
    height: int


class PageCamera:
    """Looks at one page. Opened before the page is: one that keeps busy lets nobody in later."""

    def __init__(self, page: "Page", session: "CDPSession", most: int) -> None:
        self.page = page
        self._session = session
        self._most = most
        self._seen: RenderedSnapshot | None = None
        self._warnings: list[ExtractWarning] = []

    @staticmethod
    async def open(page: "Page", *, most: int) -> "PageCamera":
        """`most`: bytes of HTML."""
        return PageCamera(page, await page.context.new_cdp_session(page), most)

    def warnings(self) -> Iterator[ExtractWarning]:
        """What had to be left out."""
        yield from self._warnings

    async def rest(self, seconds: float, until: float) -> None:
        """Let so much time pass in the page, not beyond `until`: a slow one comes as far in it as any other."""
        from playwright.async_api import Error  # noqa: PLC0415 - the package is there only if rendering was asked for

        with anyio.move_on_at(until):
            try:
                await self._run(f"new Promise((done) => setTimeout(done, {seconds * 1000:.0f}))", awaitPromise=True)
            except Error:  # It is being left.
                await anyio.sleep(seconds)

    async def html(self, until: float) -> RenderedSnapshot | None:
        """The page as it is; None if it lets nobody look, or is gone.

        One that is too busy to be looked at is stopped: its scripts do not run any more then.
        """
        from playwright.async_api import Error  # noqa: PLC0415 - the package is there only if rendering was asked for

        try:
            for patience in (0.5, 1.0):
                room = max((until - anyio.current_time()) * patience, _LEAST)
                with anyio.move_on_after(room):
                    self._seen = await self._read()
                    return self._seen
                with anyio.move_on_after(_LEAST):
                    await self._send("Runtime.terminateExecution")
                    await self._send("Emulation.setScriptExecutionDisabled", value=True)
        except Error:
            return None
        return None

    async def _send(self, method: str, **said: object) -> dict[str, Any]:
        return cast("dict[str, Any]", await cast("Any", self._session).send(method, said))

    async def _run(self, expression: str, **how: object) -> dict[str, Any]:
        tree = await self._send("Page.getFrameTree")
        frame = tree["frameTree"]["frame"]["id"]
        world = await self._send("Page.createIsolatedWorld", frameId=frame, worldName="tidings")
        return await self._send("Runtime.evaluate", expression=expression, contextId=world["executionContextId"], **how)

    async def _read(self) -> RenderedSnapshot:
        answer = await self._run(_READ % (self._most, self._most), returnByValue=True)
        found: dict[str, Any] = answer["result"]["value"]
        html = found["html"].encode("utf-8", "replace")
        if not found["whole"] or len(html) > self._most:
            html = html[: self._most]
            self._warnings.append(ExtractWarning("truncated", f"What the page grew to is cut at {self._most:,} bytes."))
        url = found["url"].partition("#")[0]
        return RenderedSnapshot(
            html, url if url.startswith(("http://", "https://")) else None, found["width"], found["height"]
        )

    async def screenshot(self, until: float) -> bytes | None:
        """A PNG of the page from its top, or of what fits a screen if that is too much; None if even that is."""
        from playwright.async_api import Error  # noqa: PLC0415

        width = min(max(self._seen.width if self._seen else 0, 1), 2_000)
        height = min(max(self._seen.height if self._seen else 0, 1), _TALLEST)
        whole: FloatRect = {"x": 0, "y": 0, "width": width, "height": height}
        for clip in (whole, None):
            left = max(until - anyio.current_time(), _LEAST) * 1000
            try:
                taken = await self.page.screenshot(
                    type="png", full_page=clip is not None, clip=clip, timeout=left, animations="disabled"
                )
            except Error:
                break
            if len(taken) <= _HEAVIEST:
                if clip is None or (self._seen and self._seen.height > _TALLEST):
                    self._warnings.append(
                        ExtractWarning("truncated", "The screenshot shows the upper part of the page.")
                    )
                return taken
        self._warnings.append(ExtractWarning("truncated", "No screenshot could be taken in time, or within its size."))
        return None


logger = logging.getLogger(__name__)

_ACCEPT: Final = "text/html, application/xhtml+xml;q=0.9, */*;q=0.1"
_RENDERED: Final = frozenset(("text/html", "application/xhtml+xml", ""))
_AT_ONCE: Final = 4
_VIEW: Final = (1280, 800)
_RESERVE: Final = 3.0
"""Seconds of the deadline that are kept for looking at the page, or a quarter of it if that is less."""
_GRACE: Final = 2.0
"""Seconds behind the deadline after which a browser that does nothing any more is given up."""
_CLOSING: Final = 5.0
"""Seconds for a page to go."""
_SETTLING: Final = 5.0
"""Seconds that a loaded page has to get what its scripts asked for in the end."""
_PULSE: Final = 0.1
"""Seconds without a request after which it has."""
_ALONE: Final = """
for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport", "SharedWorker"]) delete self[name];
self.open = () => null;
"""
"""What could go past the routes is not there to begin with; that the browser has no network is what counts."""


class NotRendered(FetchError):
    """It is nothing that a browser has to show."""

    kind = "not-rendered"


@dataclass(frozen=True)
class RenderedPage:
    """A page as it was when the browser was done, or its time was up."""

    html: bytes
    """In UTF-8."""
    url: str
    screenshot: bytes | None = None
    """PNG."""
    warnings: tuple[ExtractWarning, ...] = ()


class Renderer:
    """Renders pages in one browser that all share; each page starts with nothing of the others."""

    def __init__(
        self,
        fetcher: Fetcher,
        *,
        budget: RenderBudget = RenderBudget(),  # noqa: B008 - a frozen value
        browser: Browser | None = None,
    ) -> None:
        """All that pages ask for comes through `fetcher`. A `browser` that is given is not closed with this."""
        self._fetcher = fetcher
        self._budget = budget
        self._own = browser is None
        self._browser = browser or Browser()
        self._turns = anyio.Semaphore(_AT_ONCE)

    async def __aenter__(self) -> Self:
        if self._own:
            await self._browser.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._own:
            await self._browser.__aexit__(kind, error, traceback)

    async def render(self, url: str, options: RenderOptions, request: Request | None = None) -> RenderedPage:
        """The page at `url` after its scripts ran.

        Args:
            url: Of the page.
            options: What to wait for, and what to leave out.
            request: The headers and limits to fetch it with.

        Raises:
            FetchError: It could not be fetched, it is not HTML, or there is no browser.
        """
        asked = replace(request or Request(url), url=url, etag=None, last_modified=None)
        limit = self._fetcher.limits.timeout
        timeout = limit if asked.timeout is None else min(asked.timeout, limit)
        until = anyio.current_time() + timeout
        first = await self._first(asked)
        for _ in range(2):
            async with self._turn(url, until):
                with anyio.move_on_at(until + _GRACE):
                    rendered = await self._shown(asked, first, options, until, min(_RESERVE, timeout / 4))
                    if rendered is not None:
                        return rendered
        return RenderedPage(first.body, first.url, warnings=(_given_up("the browser broke down"),))

    async def _first(self, asked: Request) -> Response:
        response = await self._fetcher.fetch(replace(asked, accept=asked.accept or _ACCEPT))
        if response.status >= 400:
            raise failed(response)
        kind = response.content_type.partition(";")[0].strip().lower()
        if kind not in _RENDERED:
            raise NotRendered(
                f"{response.url} is {kind}, which is not rendered: fetch it with mode 'http'.", url=asked.url
            )
        return response

    @asynccontextmanager
    async def _turn(self, url: str, until: float) -> AsyncGenerator[None]:
        with anyio.move_on_at(until) as waiting:
            await self._turns.acquire()
        if waiting.cancelled_caught:
            raise FetchTimedOut(f"{url} was not rendered in time: the browser is busy; ask again later.", url=url)
        try:
            yield
        finally:
            self._turns.release()

    async def _shown(
        self, asked: Request, first: Response, options: RenderOptions, until: float, reserve: float
    ) -> RenderedPage | None:
        """None: the browser died."""
        from playwright.async_api import Error  # noqa: PLC0415 - the package is there only if rendering was asked for

        limits = self._fetcher.limits
        routing = Routing(
            self._fetcher,
            asked,
            first,
            until=until - reserve,
            budget=self._budget,
            block_third_party=options.block_third_party,
            pictures=options.screenshot,
        )
        try:
            async with self._page(asked, routing) as page:
                sight = await PageCamera.open(page, most=min(asked.max_bytes or limits.max_bytes, limits.max_bytes))
                where = _with_fragment(first.url, asked.url)
                late = await self._wait(sight, where, options, until - reserve, routing)
                seen = await sight.html(until)
                picture = await sight.screenshot(until) if options.screenshot and seen is not None else None
                if not self._browser.alive:
                    return None
        except Error as error:
            logger.debug("the browser broke down on %s: %s", asked.url, error.message)
            return None
        if late is None and routing.late:
            # The time of its parts is up at the same moment as its own: without them, it may be loaded just before.
            late = ExtractWarning("render_timeout", f"The time was up before {routing.late} of its parts had come.")
        warnings = (*((late,) if late else ()), *routing.warnings(), *sight.warnings())
        if seen is None:
            lost = _given_up("its scripts let nobody look at it")
            return RenderedPage(first.body, first.url, warnings=(lost, *routing.warnings()))
        return RenderedPage(seen.html, seen.url or first.url, picture, warnings)

    @asynccontextmanager
    async def _page(self, asked: Request, routing: Routing) -> AsyncGenerator["Page"]:
        width, height = _VIEW
        context = await self._browser.context(
            user_agent=asked.user_agent or self._fetcher.limits.user_agent,
            viewport={"width": width, "height": height},
            service_workers="block",
            accept_downloads=False,
        )
        try:
            await context.route("**/*", routing)
            await context.route_web_socket("**/*", lambda socket: tried(socket.close()))
            await context.add_init_script(_ALONE)
            page = await context.new_page()
            context.on("page", lambda other: tried(other.close()))
            yield page
        finally:
            routing.end()
            with anyio.CancelScope(shield=True):
                await self._leave(context)

    async def _leave(self, context: "BrowserContext") -> None:
        with anyio.move_on_after(_CLOSING) as closing:
            await tried(context.unroute_all(behavior="ignoreErrors"))
            await tried(context.close())
        if closing.cancelled_caught and self._browser.alive:
            logger.warning("A page could not be closed: the browser is started again.")
            await self._browser.restart()

    async def _wait(
        self, sight: PageCamera, url: str, options: RenderOptions, until: float, routing: Routing
    ) -> ExtractWarning | None:
        """Wait for what the options say; a warning if it did not come in time."""
        from playwright.async_api import Error, TimeoutError  # noqa: A004, PLC0415 - only if rendering was asked for

        doing = f"it had not reached {options.wait_until!r}"
        try:
            with routing.loading:
                await sight.page.goto(url, wait_until=options.wait_until, timeout=_left(until))
            if options.wait_until == "load":
                await _settle(sight, routing, until)
            if options.selector:
                doing = f"{options.selector!r} was not there"
                await sight.page.wait_for_selector(f"css={options.selector}", state="attached", timeout=_left(until))
        except TimeoutError:
            return ExtractWarning("render_timeout", f"The time was up when {doing}: this is what was there by then.")
        except Error as error:
            if "parsing css selector" in error.message:
                message = f"{options.selector!r} is no CSS selector: write one like #main or .article."
                raise BadRequest(message, url=url) from error
            logger.debug("the browser on %s: %s", url, error.message)
        if options.wait_ms:
            return await _linger(options.wait_ms / 1000, until)
        return None


def _left(until: float) -> float:
    """Milliseconds; never 0, which means for ever."""
    return max(1.0, (until - anyio.current_time()) * 1000)


async def _linger(seconds: float, until: float) -> ExtractWarning | None:
    room = max(0.0, until - anyio.current_time())
    await anyio.sleep(min(seconds, room))
    if seconds <= room:
        return None
    return ExtractWarning("render_timeout", "The time was up before wait_ms was: this is what was there by then.")


async def _settle(sight: PageCamera, routing: Routing, until: float) -> None:
    """Wait while there is something on its way, but not for long: a page may ask for ever."""
    until = min(until, anyio.current_time() + _SETTLING)
    quiet = 0
    while quiet < 2 and anyio.current_time() < until:
        await sight.rest(_PULSE, until)
        quiet = 0 if routing.busy else quiet + 1


def _with_fragment(url: str, asked: str) -> str:
    """What is behind the `#` is for the scripts of the page; it was not sent."""
    fragment = urldefrag(asked).fragment
    return f"{url}#{fragment}" if fragment else url


def _given_up(why: str) -> ExtractWarning:
    return ExtractWarning("render_timeout", f"The page was given up: {why}. This is what came without its scripts.")
