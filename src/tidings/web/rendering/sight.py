"""Looking at a page that a browser shows: its elements as HTML, and a picture of it, both no larger than allowed.

The HTML is read in a world of its own within the page, where nothing of what the page's scripts redefined is to be
seen, and cut there: a page can grow without end, and would come over in one piece.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from tidings.web.extract.model import Warning_

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, FloatRect, Page

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
class Seen:
    """A page's elements as HTML, and where it is."""

    html: bytes
    url: str | None
    """None: nowhere on the web."""
    width: int
    height: int


class Sight:
    """Looks at one page. Opened before the page is: one that keeps busy lets nobody in later."""

    def __init__(self, page: "Page", session: "CDPSession", most: int) -> None:
        self.page = page
        self._session = session
        self._most = most
        self._seen: Seen | None = None
        self._warnings: list[Warning_] = []

    @staticmethod
    async def open(page: "Page", *, most: int) -> "Sight":
        """`most`: bytes of HTML."""
        return Sight(page, await page.context.new_cdp_session(page), most)

    def warnings(self) -> Iterator[Warning_]:
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

    async def html(self, until: float) -> Seen | None:
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

    async def _read(self) -> Seen:
        answer = await self._run(_READ % (self._most, self._most), returnByValue=True)
        found: dict[str, Any] = answer["result"]["value"]
        html = found["html"].encode("utf-8", "replace")
        if not found["whole"] or len(html) > self._most:
            html = html[: self._most]
            self._warnings.append(Warning_("truncated", f"What the page grew to is cut at {self._most:,} bytes."))
        url = found["url"].partition("#")[0]
        return Seen(html, url if url.startswith(("http://", "https://")) else None, found["width"], found["height"])

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
                    self._warnings.append(Warning_("truncated", "The screenshot shows the upper part of the page."))
                return taken
        self._warnings.append(Warning_("truncated", "No screenshot could be taken in time, or within its size."))
        return None
