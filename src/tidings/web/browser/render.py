"""A page as a browser shows it: its HTML after its scripts ran, and a screenshot.

The page is fetched first, so that it fails in the usual way, and the browser starts after the redirects. One deadline
covers everything: the answer is the page as it is by then, with a warning, or the HTML as fetched. The HTML is read in
an isolated world, where scripts have redefined nothing, and cut there: it can grow without end.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast
from urllib.parse import urldefrag

import anyio
from playwright.async_api import CDPSession, Error, FloatRect, Page
from playwright.async_api import TimeoutError as PageTimeout

from tidings.web.browser.chromium import Browser, attempt
from tidings.web.browser.routing import RenderBudget, Routing
from tidings.web.extract.model import ExtractWarning
from tidings.web.fetch.fetcher import Fetcher
from tidings.web.fetch.request import BadRequest, FetchError, FetchTimedOut, Request, Response
from tidings.web.page_options import RenderOptions
from tidings.web.pages import RenderedPage, failed

logger = logging.getLogger(__name__)

_ACCEPT: Final = "text/html, application/xhtml+xml;q=0.9, */*;q=0.1"
_RENDERED: Final = frozenset(("text/html", "application/xhtml+xml", ""))
_AT_ONCE: Final = 4
_WIDTH, _HEIGHT = 1280, 800
_RESERVE: Final = 3.0  # Seconds of the deadline that are reserved for reading the page; at most a quarter of it.
_GRACE: Final = 2.0  # Seconds after the deadline to wait for a browser that hangs.
_CLOSING: Final = 5.0  # Seconds to close a page.
_SETTLING: Final = 5.0  # Seconds for a loaded page to finish the requests of its scripts.
_PULSE: Final = 0.1  # Seconds without a request after which it has finished.
_TALLEST: Final = 8_000  # Pixels of a screenshot.
_HEAVIEST: Final = 5 * 1024 * 1024  # Bytes of a screenshot.
_LEAST: Final = 0.5  # Seconds to read the page, even if the time is up.
_READ: Final = """(() => {
    const all = document.documentElement ? document.documentElement.outerHTML : "";
    const kind = document.doctype ? "<!DOCTYPE " + document.doctype.name + ">" : "";
    return {html: kind + all.slice(0, %d), whole: all.length <= %d, url: location.href,
            width: document.documentElement ? document.documentElement.scrollWidth : 0,
            height: document.documentElement ? document.documentElement.scrollHeight : 0};
})()"""
# Removes what could bypass the routes. The main protection is that the browser has no network.
_INIT_SCRIPT: Final = """
for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport", "SharedWorker"]) delete self[name];
self.open = () => null;
"""


@dataclass
class PageCamera:
    """Reads and photographs one page. Opened before the page loads, because a busy page cannot be entered later."""

    page: Page
    session: CDPSession
    most: int  # Bytes of HTML.
    warnings: list[ExtractWarning] = field(default_factory=list[ExtractWarning])  # About parts that were left out.
    _width: int = 0
    _height: int = 0

    async def settle(self, routing: Routing, until: float) -> None:
        """Waits until nothing is being fetched, for a few seconds at most by the page's own clock."""
        until = min(until, anyio.current_time() + _SETTLING)
        quiet = 0
        while quiet < 2 and anyio.current_time() < until:
            with anyio.move_on_at(until):
                try:
                    await self._run(f"new Promise((done) => setTimeout(done, {_PULSE * 1000:.0f}))", awaitPromise=True)
                except Error:  # The page is navigating.
                    await anyio.sleep(_PULSE)
            quiet = 0 if routing.busy else quiet + 1

    async def html(self, until: float) -> tuple[bytes, str | None] | None:
        """Returns the HTML as it is now, and the web address; None if it cannot be read. Stops busy scripts."""
        try:
            for patience in (0.5, 1.0):
                room = max((until - anyio.current_time()) * patience, _LEAST)
                with anyio.move_on_after(room):
                    return await self._read()
                with anyio.move_on_after(_LEAST):
                    await self._send("Runtime.terminateExecution")
                    await self._send("Emulation.setScriptExecutionDisabled", value=True)
        except Error:
            return None
        return None

    async def _send(self, method: str, **said: object) -> dict[str, Any]:
        return cast("dict[str, Any]", await cast("Any", self.session).send(method, said))

    async def _run(self, expression: str, **how: object) -> dict[str, Any]:
        frame = (await self._send("Page.getFrameTree"))["frameTree"]["frame"]["id"]
        world = await self._send("Page.createIsolatedWorld", frameId=frame, worldName="tidings")
        return await self._send("Runtime.evaluate", expression=expression, contextId=world["executionContextId"], **how)

    async def _read(self) -> tuple[bytes, str | None]:
        answer = await self._run(_READ % (self.most, self.most), returnByValue=True)
        found: dict[str, Any] = answer["result"]["value"]
        html = found["html"].encode("utf-8", "replace")
        if not found["whole"] or len(html) > self.most:
            html = html[: self.most]
            self.warnings.append(ExtractWarning("truncated", f"The rendered page is cut at {self.most:,} bytes."))
        self._width, self._height = found["width"], found["height"]
        url: str = found["url"].partition("#")[0]
        return html, url if url.startswith(("http://", "https://")) else None

    async def screenshot(self, until: float) -> bytes | None:
        """Returns a PNG of the page from its top, or of one screen if that is too large; None if both fail."""
        width, height = min(max(self._width, 1), 2_000), min(max(self._height, 1), _TALLEST)
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
                if clip is None or self._height > _TALLEST:
                    message = "The screenshot shows the upper part of the page."
                    self.warnings.append(ExtractWarning("truncated", message))
                return taken
        self.warnings.append(ExtractWarning("truncated", "No screenshot could be taken in time, or within its size."))
        return None


class NotRendered(FetchError, kind="not-rendered"):
    """The content type is not one that a browser renders."""


@dataclass(eq=False)
class Renderer:
    """Renders pages in one shared browser; pages share no state, and all their requests go through `fetcher`."""

    fetcher: Fetcher
    browser: Browser
    budget: RenderBudget = field(default_factory=RenderBudget)

    def __post_init__(self) -> None:
        self._turns = anyio.Semaphore(_AT_ONCE)

    async def render(self, url: str, options: RenderOptions, request: Request | None = None) -> RenderedPage:
        """Returns the page at `url` after its scripts ran, within the limits of `request`. Raises `FetchError`."""
        asked = replace(request or Request(url), url=url, etag=None, last_modified=None)
        limit = self.fetcher.limits.timeout
        timeout = limit if asked.timeout is None else min(asked.timeout, limit)
        until = anyio.current_time() + timeout
        first = await self.fetcher.fetch(replace(asked, accept=asked.accept or _ACCEPT))
        if first.status >= 400:
            raise failed(first)
        kind = first.content_type.partition(";")[0].strip().lower()
        if kind not in _RENDERED:
            message = f"{first.url} is {kind}, which is not rendered: fetch it with mode 'http'."
            raise NotRendered(message, url=asked.url)
        for _ in range(2):
            with anyio.move_on_at(until) as waiting:
                await self._turns.acquire()
            if waiting.cancelled_caught:
                raise FetchTimedOut(f"{url} was not rendered in time: the browser is busy; ask again later.", url=url)
            try:
                with anyio.move_on_at(until + _GRACE):
                    rendered = await self._rendered(asked, first, options, until, min(_RESERVE, timeout / 4))
                    if rendered is not None:
                        return rendered
            finally:
                self._turns.release()
        return RenderedPage(first.body, first.url, warnings=(_given_up("the browser crashed"),))

    async def _rendered(
        self, asked: Request, first: Response, options: RenderOptions, until: float, reserve: float
    ) -> RenderedPage | None:
        """Renders the page once; returns None if the browser crashed."""
        limits = self.fetcher.limits
        routing = Routing(self.fetcher, asked, first, options, self.budget, until - reserve)
        try:
            async with self._page(asked, routing) as page:
                most = min(asked.max_bytes or limits.max_bytes, limits.max_bytes)
                camera = PageCamera(page, await page.context.new_cdp_session(page), most)
                # The fragment was not sent, but is meant for the scripts of the page.
                fragment = urldefrag(asked.url).fragment
                where = f"{first.url}#{fragment}" if fragment else first.url
                late = await self._wait(camera, where, options, until - reserve, routing)
                seen = await camera.html(until)
                picture = await camera.screenshot(until) if options.screenshot and seen is not None else None
                if not self.browser.alive:
                    return None
        except Error as error:
            logger.debug("the browser crashed on %s: %s", asked.url, error.message)
            return None
        if late is None and (parts := routing.failed[FetchTimedOut]):
            # The parts have the same deadline as the page, which may count as loaded just before without them.
            late = ExtractWarning("render_timeout", f"The time was up before {parts} of its parts had arrived.")
        warnings = (*((late,) if late else ()), *routing.warnings(), *camera.warnings)
        if seen is None:
            lost = _given_up("its scripts kept the browser from reading it")
            return RenderedPage(first.body, first.url, warnings=(lost, *routing.warnings()))
        html, url = seen
        return RenderedPage(html, url or first.url, picture, warnings, routing.missing())

    @asynccontextmanager
    async def _page(self, asked: Request, routing: Routing) -> AsyncGenerator[Page]:
        context = await self.browser.context(
            user_agent=asked.user_agent or self.fetcher.limits.user_agent,
            viewport={"width": _WIDTH, "height": _HEIGHT},
            service_workers="block",
            accept_downloads=False,
        )
        try:
            await context.route("**/*", routing)
            await context.route_web_socket("**/*", lambda socket: attempt(socket.close()))
            await context.add_init_script(_INIT_SCRIPT)
            page = await context.new_page()
            context.on("page", lambda other: attempt(other.close()))
            yield page
        finally:
            routing.end()
            with anyio.CancelScope(shield=True):
                with anyio.move_on_after(_CLOSING) as closing:
                    await attempt(context.unroute_all(behavior="ignoreErrors"))
                    await attempt(context.close())
                if closing.cancelled_caught and self.browser.alive:
                    logger.warning("A page could not be closed: the browser is restarted.")
                    await self.browser.restart()

    async def _wait(
        self, camera: PageCamera, url: str, options: RenderOptions, until: float, routing: Routing
    ) -> ExtractWarning | None:
        """Waits as the options say; returns a warning if the time was up before."""
        pending = f"it had not reached {options.wait_until!r}"
        try:
            with routing.loading:
                await camera.page.goto(url, wait_until=options.wait_until, timeout=_milliseconds(until))
            if options.wait_until == "load":
                await camera.settle(routing, until)
            if options.selector:
                pending = f"{options.selector!r} was not there"
                selector, timeout = f"css={options.selector}", _milliseconds(until)
                await camera.page.wait_for_selector(selector, state="attached", timeout=timeout)
        except PageTimeout:
            return ExtractWarning("render_timeout", f"The time was up when {pending}: this is the page at that time.")
        except Error as error:
            if "parsing css selector" in error.message:
                message = f"{options.selector!r} is not a CSS selector: write one like #main or .article."
                raise BadRequest(message, url=url) from error
            logger.debug("the browser on %s: %s", url, error.message)
        seconds, left = options.wait_ms / 1000, max(0.0, until - anyio.current_time())
        await anyio.sleep(min(seconds, left))
        if seconds <= left:
            return None
        return ExtractWarning("render_timeout", "The time was up before wait_ms was: this is the page at that time.")


def _milliseconds(until: float) -> float:
    """Returns the milliseconds left; never 0, which would mean no limit."""
    return max(1.0, (until - anyio.current_time()) * 1000)


def _given_up(why: str) -> ExtractWarning:
    return ExtractWarning("render_timeout", f"The page was not rendered: {why}. This is the page without its scripts.")
