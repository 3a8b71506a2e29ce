"""One Chromium for all renderings, cut off from the network: the seam to Playwright.

It starts with the first page, starts again after a crash, and ends when this is closed. All its requests must be
answered by routes: names do not resolve, the proxy does not exist, and features that bypass a proxy (WebRTC, QUIC) are
off. Its sandbox is on, except for root, for whom Chromium has none.
"""

import os
import shutil
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import anyio
from playwright.async_api import Browser as Chromium
from playwright.async_api import BrowserContext, Error, Playwright, async_playwright

from tidings.web.fetch.request import FetchError

# The names of the program on different systems. The first has no windows, and needs half the processor time.
NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_ISOLATION: Final = (
    "--proxy-server=http://nowhere.invalid:9",
    "--proxy-bypass-list=<-loopback>",  # By default the proxy is not used for loopback.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--disable-background-networking",
    "--dns-prefetch-disable",
    "--js-flags=--max-old-space-size=512",
)
_END_SECONDS: Final = 10.0


class NoBrowser(FetchError, kind="no-browser"):
    """Chromium is missing, or does not start. The message says what to do."""


class Browser:
    """The shared Chromium. `program` is its path, if it is not found by its usual names."""

    def __init__(self, program: str | None = None) -> None:
        self._program = program
        self._playwright: Playwright | None = None
        self._chromium: Chromium | None = None
        self._starting = anyio.Lock()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._closed = True
        with anyio.CancelScope(shield=True):
            await self._stop()

    @property
    def alive(self) -> bool:
        """True while it runs."""
        return self._chromium is not None and self._chromium.is_connected()

    async def context(self, **options: Any) -> BrowserContext:
        """Returns a new context, which shares nothing with others. Raises `NoBrowser`."""
        try:
            return await (await self._running()).new_context(**options)
        except Error:
            # It may have crashed just now.
            await self.restart()
            return await (await self._running()).new_context(**options)

    async def restart(self) -> None:
        """Ends the browser; the next context starts it again."""
        async with self._starting:
            await self._stop()

    async def _running(self) -> Chromium:
        async with self._starting:
            if self._chromium is None or not self._chromium.is_connected():
                await self._stop()
                self._chromium = await self._start()
            return self._chromium

    async def _start(self) -> Chromium:
        if self._closed:
            raise NoBrowser("No page can be rendered: the server is stopping.", url="")
        self._playwright = await async_playwright().start()
        try:
            return await self._playwright.chromium.launch(
                executable_path=self._found(self._playwright.chromium.executable_path),
                args=list(_ISOLATION),
                chromium_sandbox=os.geteuid() != 0,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
                timeout=30_000,
            )
        except Error as error:
            await self._stop()
            reason = error.message.strip().partition("\n")[0]
            hint = "run it by hand to see why, or fetch with mode 'http'"
            raise NoBrowser(f"Chromium does not start ({reason}): {hint}.", url="") from error

    def _found(self, bundled: str) -> str:
        """Returns the path of Chromium: the configured one, the system's, or the one that Playwright installed."""
        found = self._program or next(filter(None, map(shutil.which, NAMES)), bundled)
        if Path(found).is_file():
            return found
        how = "install it with `apt-get install chromium` or `playwright install chromium`"
        raise NoBrowser(f"There is no Chromium to render with: {how}, or fetch with mode 'http'.", url="")

    async def _stop(self) -> None:
        chromium, self._chromium = self._chromium, None
        playwright, self._playwright = self._playwright, None
        if chromium is not None:
            await attempt(chromium.close())
        if playwright is not None:
            await attempt(playwright.stop())


async def attempt(step: Awaitable[object], seconds: float = _END_SECONDS) -> None:
    """Awaits a step that may fail because the page or the browser is gone already."""
    with anyio.move_on_after(seconds), suppress(Error, OSError):
        await step
