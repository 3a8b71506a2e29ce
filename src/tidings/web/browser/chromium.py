"""One Chromium that all renderings share, cut off from the network.

    async with Browser() as browser:
        context = await browser.context(user_agent="Tidings")

It is started when the first page needs it, started again after it died, and gone when this is closed. Whatever it asks
for has to be answered by routes: names resolve to nothing, addresses lie behind a proxy that does not exist, and what
could go past a proxy (WebRTC, QUIC) is off. Its sandbox is on, unless root runs it, for whom there is none.
"""

import os
import shutil
from collections.abc import Awaitable
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import anyio

from tidings.web.fetch.request import FetchError

if TYPE_CHECKING:
    from playwright.async_api import Browser as Chromium
    from playwright.async_api import BrowserContext, Playwright

NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
"""What the program is called on different systems."""
_ISOLATION: Final = (
    "--proxy-server=http://nowhere.invalid:9",
    "--proxy-bypass-list=<-loopback>",  # by default loopback is asked without the proxy
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--disable-background-networking",
    "--dns-prefetch-disable",
    "--js-flags=--max-old-space-size=512",
)
_START: Final = 30_000
"""Milliseconds to start in."""
_END: Final = 10.0
"""Seconds for it to go by itself."""


class NoBrowser(FetchError):
    """There is no Chromium, or nothing to drive it with. The text says how to get it."""

    kind = "no-browser"


class Browser:
    """The Chromium that is running, or will be."""

    def __init__(self, program: str | None = None) -> None:
        """`program`: where Chromium is, if not where programs are."""
        self._program = program
        self._playwright: Playwright | None = None
        self._chromium: Chromium | None = None
        self._starting = anyio.Lock()
        self._closed = False

    async def __aenter__(self) -> Self:
        if find_spec("playwright") is None:
            raise NoBrowser(
                "Pages cannot be rendered without Playwright: install it with `pip install 'tidings[render]'`, or "
                "leave out --render.",
                url="",
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closed = True
        with anyio.CancelScope(shield=True):
            await self._stop()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._chromium is not None and self._chromium.is_connected()

    async def context(self, **options: Any) -> "BrowserContext":
        """A new context, with nothing of what others left behind.

        Raises:
            NoBrowser: It cannot be started.
        """
        from playwright.async_api import Error  # noqa: PLC0415 - the package is there only if rendering was asked for

        try:
            return await (await self._running()).new_context(**options)
        except Error:
            # It may have died just now.
            await self.restart()
            return await (await self._running()).new_context(**options)

    async def restart(self) -> None:
        """End it, however it is; the next context starts it again."""
        async with self._starting:
            await self._stop()

    async def _running(self) -> "Chromium":
        async with self._starting:
            if self._chromium is None or not self._chromium.is_connected():
                await self._stop()
                self._chromium = await self._start()
            return self._chromium

    async def _start(self) -> "Chromium":
        from playwright.async_api import Error, async_playwright  # noqa: PLC0415

        if self._closed:
            raise NoBrowser("Nothing is rendered any more: the server is stopping.", url="")
        self._playwright = await async_playwright().start()
        try:
            return await self._playwright.chromium.launch(
                executable_path=self._found(self._playwright.chromium.executable_path),
                args=list(_ISOLATION),
                chromium_sandbox=os.geteuid() != 0,  # Chromium has none for root
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
                timeout=_START,
            )
        except Error as error:
            await self._stop()
            said = error.message.strip().partition("\n")[0]
            raise NoBrowser(
                f"Chromium does not start ({said}): run it by hand to see why, or fetch with mode 'http'.", url=""
            ) from error

    def _found(self, own: str) -> str:
        """Where Chromium is: as told, as the system has it, or as Playwright brought it."""
        found = self._program or next(filter(None, map(shutil.which, NAMES)), own)
        if Path(found).is_file():
            return found
        raise NoBrowser(
            "There is no Chromium to render with: install it with `apt-get install chromium` or `playwright install "
            "chromium`, or fetch with mode 'http'.",
            url="",
        )

    async def _stop(self) -> None:
        chromium, self._chromium = self._chromium, None
        playwright, self._playwright = self._playwright, None
        if chromium is not None:
            await tried(chromium.close())
        if playwright is not None:
            await tried(playwright.stop())


async def tried(step: Awaitable[object], seconds: float = _END) -> None:
    """Do what may be done already, or may not be possible any more: what is gone cannot be closed."""
    from playwright.async_api import Error  # noqa: PLC0415

    with anyio.move_on_after(seconds):
        try:
            await step
        except (Error, OSError):
            return
