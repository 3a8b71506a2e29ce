"""An inspector as a process of its own, and its page in a real Chromium, as a person uses it."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import socket
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
from playwright.async_api import Browser, BrowserContext, Locator, Page, async_playwright, expect

from tests import forking

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
SCREENS = ROOT / "test-results" / "screens"
PATIENCE = 30
"""Seconds that a busy machine may take for what takes milliseconds."""
STARTED = 70
"""Seconds that it may take to start the programs of a test, all at once."""
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
TIDINGS = [sys.executable, "-m", "tidings"]

expect.set_options(timeout=PATIENCE * 1000)


def program(name: str, *arguments: str, era: str | None = None, connect: bool = True) -> dict[str, Any]:
    """An entry of a catalog for one of the programs beside this file."""
    return command(*forking.command(str(HERE / f"{name}.py"), *arguments), era=era, connect=connect)


def command(*words: str, era: str | None = None, connect: bool = True) -> dict[str, Any]:
    """An entry of a catalog for a command."""
    ours = {"autoConnect": connect} | ({} if era is None else {"era": era})
    return {"command": words[0], "args": list(words[1:]), "tidings": ours}


@dataclass
class Inspector:
    """An inspector that runs."""

    url: str
    """As it was printed, with the token."""
    folder: Path
    process: asyncio.subprocess.Process

    entered: dict[str, str] = field(default_factory=dict[str, str])
    """The headers of whoever came in first."""

    @property
    def base(self) -> str:
        return self.url.partition("/#")[0]

    async def link(self) -> str:
        """An address that opens the page, which each does only once."""
        own = {"origin": self.base, "x-tidings": "1"}
        async with httpx2.AsyncClient(base_url=self.base, headers={**own, **self.entered}) as http:
            if not self.entered:
                token = self.url.partition("#token=")[2]
                answer = (await http.post("/api/enter", json={"token": token})).raise_for_status()
                cookie = answer.headers["set-cookie"].partition(";")[0]
                self.entered = {"x-tidings": answer.json()["key"], "cookie": cookie}
            answer = (await http.post("/api/link", json={}, headers=self.entered)).raise_for_status()
            return f"{self.base}/#token={answer.json()['token']}"


@asynccontextmanager
async def inspecting(
    folder: Path, servers: Mapping[str, dict[str, Any]] | None = None, *options: str
) -> AsyncGenerator[Inspector]:
    """`tidings inspect` with a home and a catalog of its own, all in `folder`."""
    places = {name: str(folder / name.lower()) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
    catalog = folder / "servers.json"
    catalog.write_text(json.dumps({"mcpServers": dict(servers or {})}))
    process = await asyncio.create_subprocess_exec(
        *TIDINGS, "inspect", "--no-browser", "--port", "0", "--catalog", str(catalog), *options,
        cwd=folder,
        env={**os.environ, **places, "HOME": str(folder)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        with anyio.fail_after(PATIENCE):
            line = (await process.stdout.readline()).decode()
        found = re.search(r"http://\S+", line)
        assert found, f"tidings inspect printed no address, but: {line}"
        yield Inspector(found[0], folder, process)
    finally:
        if process.returncode is None:
            process.terminate()
        with anyio.move_on_after(10) as late:
            await process.communicate()
        if late.cancelled_caught:
            process.kill()
            await process.communicate()


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@asynccontextmanager
async def chromium() -> AsyncGenerator[Browser]:
    """Debian's Chromium."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Look:
    """One page that is open, and what went on in it."""

    page: Page
    inspector: Inspector
    outside: set[str] = field(default_factory=set[str])
    """Requests that left the inspector's own address."""
    faults: list[str] = field(default_factory=list[str])
    """What the page threw, or the browser refused it."""

    def __call__(self, testid: str) -> Locator:
        return self.page.get_by_test_id(testid)

    def rows(self, testid: str) -> Locator:
        return self(testid).get_by_role("option")

    def row(self, testid: str, text: str) -> Locator:
        """The first row of a list that has this text."""
        return self.rows(testid).filter(has_text=text).first

    async def go(self, to: str) -> None:
        """Go to an address within the page, as a click on a link does."""
        await self.page.evaluate("(to) => { location.hash = to }", to)

    async def screen(self, server: str, name: str, item: str = "") -> None:
        """Go to a screen of a server, and wait until it is there."""
        await self.go(f"#/{server}/{name}{f'/{item}' if item else ''}")
        await expect(self(f"screen-{name}")).to_be_visible()

    async def general(self, name: str, item: str = "") -> None:
        await self.screen("~", name, item)

    async def connected(self, server: str) -> None:
        """Wait until a server's entry on the left says so."""
        one = self("server").filter(has=self.page.get_by_text(server, exact=True))
        await expect(one).to_have_attribute("data-state", "connected", timeout=STARTED * 1000)
        await expect(one.locator(".dot")).to_have_class(re.compile(r"^dot\s*(svelte-\S+)?$"))
        await expect(one).to_contain_text(re.compile("quiet|/min"))

    async def overflow(self) -> int:
        """By how many pixels the page is wider than what shows it."""
        return await self.page.evaluate("document.documentElement.scrollWidth - innerWidth")

    async def picture(self, name: str) -> None:
        """Keep what is seen, to be looked at by people."""
        SCREENS.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=SCREENS / f"{name}.png")


@asynccontextmanager
async def looking(
    browser: Browser, inspector: Inspector, to: str = "/~/servers", **options: Any
) -> AsyncGenerator[Look]:
    """The page, opened by the address that was printed. Nothing may leave it, and nothing may fail in it.

    Without a screen in `to`, the page chooses one, and may subscribe to something there.
    """
    wanted: dict[str, Any] = {"viewport": {"width": 1440, "height": 880}, "color_scheme": "dark", **options}
    context = await browser.new_context(**wanted)
    context.set_default_timeout(PATIENCE * 1000)
    try:
        page = await context.new_page()
        look = Look(page, inspector)
        await _watch(context, look)
        await page.goto(await inspector.link() + (f"&to={to}" if to else ""))
        yield look
        assert not look.outside, look.outside
        assert not look.faults, look.faults
    finally:
        await context.close()


async def _watch(context: BrowserContext, look: Look) -> None:
    own = (f"{look.inspector.base}/", "data:", "blob:")
    context.on("request", lambda each: None if each.url.startswith(own) else look.outside.add(each.url))
    # What the page's own policy forbids is told as a request, too, but never leaves.
    context.on("requestfailed", lambda each: look.outside.discard(each.url) if each.failure == "csp" else None)
    look.page.on("pageerror", lambda error: look.faults.append(str(error)))
    look.page.on("console", lambda said: look.faults.append(said.text) if _is_fault(said.type, said.text) else None)


def _is_fault(kind: str, text: str) -> bool:
    # A request that the inspector refuses is told by the page itself, in words.
    return kind == "error" and "Failed to load resource" not in text
