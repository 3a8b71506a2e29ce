"""A page is rendered as a browser shows it, and the browser gets nowhere that a fetch would not."""

import asyncio
import os
import signal
import struct
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.web.fetch.servers import LOOPBACK, ROOMY, Ask, Names, Site, fetcher, leads_to, silent, site, text
from tidings.web import wiring
from tidings.web.fetch import client as clients
from tidings.web.fetch.request import BadRequest, Blocked, FetchError, FetchTimedOut, Request
from tidings.web.page_options import RenderOptions
from tidings.web.pages import HttpFailed, NoRenderer, RenderedPage
from tidings.web.settings import Settings

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright: pip install 'tidings[render]'")
BrowserContext, Error = playwright.BrowserContext, playwright.Error

from tidings.web.browser.chromium import Browser, NoBrowser  # noqa: E402 - needs playwright
from tidings.web.browser.render import NotRendered, PageCamera, Renderer  # noqa: E402
from tidings.web.browser.routing import RenderBudget, Routing, site_of  # noqa: E402

pytestmark = pytest.mark.anyio
in_browser = pytest.mark.browser

FILLED = "<p id=stays>still here</p>"
USUAL = RenderBudget()
HERE = (ip_network("127.0.0.1/32"),)
"""The one address that may be fetched from: all else on loopback is as private as it ever is."""


def page(body: str) -> Any:
    return text(f"<!DOCTYPE html><title>A page</title><body>{FILLED}{body}", Content_Type="text/html; charset=utf-8")


def script(code: str) -> Any:
    return page(f"<script>{code}</script>")


@pytest.fixture(scope="module")
async def chromium() -> AsyncGenerator[Browser]:
    async with Browser() as running:
        yield running


@asynccontextmanager
async def rendering(
    chromium: Browser, pages: dict[str, Any], budget: RenderBudget = USUAL, limits: Settings = ROOMY, **options: Any
) -> AsyncGenerator[tuple[Site, Renderer]]:
    async with site(pages) as here, fetcher(limits, **{"allow_private": HERE, **options}) as fetching:
        yield here, Renderer(fetching, chromium, budget)


def kinds(rendered: RenderedPage) -> list[str]:
    return [warning.type for warning in rendered.warnings]


def processes() -> set[int]:
    """All that this process has started, and what they have."""
    found: set[int] = set()
    parents = {
        int(entry.name): int(entry.joinpath("stat").read_text().rpartition(")")[2].split()[1])
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and entry.joinpath("stat").exists()
    }
    for one in parents:
        above = one
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid() and one != os.getpid():
            found.add(one)
    return found


# What a page becomes


@in_browser
async def test_what_scripts_fetch_and_write_is_in_the_page(chromium: Browser) -> None:
    code = "fetch('/data').then(r => r.text()).then(t => { document.body.append(t + location.hash) })"
    async with rendering(chromium, {"/": script(code), "/data": text("from afar")}) as (here, renderer):
        rendered = await renderer.render(here.url("/") + "#part", RenderOptions())
    assert b"from afar#part" in rendered.html
    assert rendered.html.startswith(b"<!DOCTYPE html><html>")
    assert (rendered.url, rendered.screenshot, rendered.warnings) == (here.url("/"), None, ())


@in_browser
async def test_the_browser_starts_where_redirects_end(chromium: Browser) -> None:
    pages = {
        "/old": leads_to("/new/"),
        "/new/": script("fetch('near').then(r => r.text()).then(t => document.write(t))"),
    }
    async with rendering(chromium, {**pages, "/new/near": text("beside it")}) as (here, renderer):
        rendered = await renderer.render(here.url("/old"), RenderOptions())
    assert b"beside it" in rendered.html
    assert rendered.url == here.url("/new/")
    assert here.paths().count("/new/") == 1


@in_browser
async def test_a_page_that_goes_elsewhere_is_followed(chromium: Browser) -> None:
    pages = {"/": script("location = '/old'"), "/old": leads_to("/new/"), "/new/": page("<p>the end</p>")}
    async with rendering(chromium, pages) as (here, renderer):
        rendered = await renderer.render(here.url("/"), RenderOptions(selector="p + p"))
    assert b"the end" in rendered.html
    assert rendered.url == here.url("/new/")


async def test_an_error_of_the_site_is_told_as_one() -> None:
    async with site({"/": text("gone", 404)}) as here, fetcher() as fetching, Browser() as own:
        renderer = Renderer(fetching, own)
        with pytest.raises(HttpFailed, match="404"):
            await renderer.render(here.url("/"), RenderOptions())


async def test_what_is_not_html_is_not_rendered() -> None:
    pages = {"/": text("%PDF-1.7", Content_Type="application/pdf")}
    async with site(pages) as here, fetcher() as fetching, Browser() as own:
        renderer = Renderer(fetching, own)
        with pytest.raises(NotRendered, match=r"application/pdf.*mode 'http'"):
            await renderer.render(here.url("/"), RenderOptions())


@in_browser
async def test_dialogs_and_windows_hold_nothing_up(chromium: Browser) -> None:
    code = "alert(1); confirm(2); open('/window'); document.body.append('behind them')"
    async with rendering(chromium, {"/": script(code), "/window": page("")}) as (here, renderer):
        rendered = await renderer.render(here.url("/"), RenderOptions())
    assert b"behind them" in rendered.html
    assert "/window" not in here.paths()


@in_browser
async def test_the_callers_headers_go_to_the_pages_own_origin_alone(chromium: Browser) -> None:
    async with site({"/script": text("", Content_Type="text/javascript")}) as other:
        other.host = "localhost"
        body = f"<script src='/own'></script><script src='{other.url('/script', 'other.example')}'></script>"
        names = Names(other_example=[["127.0.0.1"]])
        pages = {"/": page(body), "/own": text("document.body.append(navigator.userAgent)")}
        async with rendering(chromium, pages, resolver=names) as (here, renderer):
            request = Request(here.url("/"), headers={"X-Secret": "s"}, user_agent="Reader/2")
            rendered = await renderer.render(here.url("/"), RenderOptions(block_third_party=False), request)
    secrets = {ask.path: ask.headers.get("x-secret") for ask in [*here.asked, *other.asked]}
    assert (secrets["/"], secrets["/own"], secrets["/script"]) == ("s", "s", None)
    assert b"Reader/2" in rendered.html


@in_browser
async def test_the_callers_headers_do_not_follow_a_page_that_was_led_elsewhere(chromium: Browser) -> None:
    pages = {"/": page("<script src='/own'></script>"), "/own": text("", Content_Type="text/javascript")}
    async with rendering(chromium, pages) as (here, renderer), site() as meant:
        meant.pages["/"] = leads_to(here.url("/"))
        request = Request(meant.url("/"), headers={"Authorization": "Bearer s"})
        await renderer.render(meant.url("/"), RenderOptions(), request)
    assert meant.asked[-1].headers["authorization"] == "Bearer s"
    assert {ask.path: ask.headers.get("authorization") for ask in here.asked} == {
        "/robots.txt": None,
        "/": None,
        "/own": None,
    }


READS = """(async () => {
    for (const url of %s) {
        let said = "kept";
        try { said = await (await fetch(url)).text(); } catch {}
        document.body.append(said + "; ");
    }
})()"""


@in_browser
async def test_scripts_read_of_other_origins_what_these_share(chromium: Browser) -> None:
    async with site() as other:
        other.pages |= {"/secret": text("secret"), "/open": text("open", Access_Control_Allow_Origin="*")}
        urls = [other.url("/secret"), "/led/secret", other.url("/open"), "/led/open", "/own"]
        pages = {
            "/": script(READS % urls),
            "/led/secret": leads_to(other.url("/secret")),
            "/led/open": leads_to(other.url("/open")),
            "/own": text("own"),
        }
        async with rendering(chromium, pages) as (here, renderer):
            rendered = await renderer.render(here.url("/"), RenderOptions())
    assert b"kept; kept; open; open; own; " in rendered.html


@in_browser
async def test_a_page_of_the_internet_reads_nothing_private_whatever_names_it_gives_it(
    chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "refusal", lambda address: None if str(address) == "127.0.0.1" else "private")
    names = Names(www_evil_example=[["127.0.0.1"]], in_evil_example=[["127.0.0.2"]])
    async with site(host="127.0.0.2") as inside:
        inside.pages["/"] = text("secret", Access_Control_Allow_Origin="*")
        secret = inside.url("/", "in.evil.example")
        pages = {"/": script(READS % [secret])}
        async with rendering(chromium, pages, resolver=names, allow_private=LOOPBACK) as (here, renderer):
            rendered = await renderer.render(here.url("/", "www.evil.example"), RenderOptions())
    assert b"kept; " in rendered.html


# Where the browser does not get

ATTACKS = {
    "fetch": "fetch('{to}/fetch').catch(() => 0)",
    "request": "let r = new XMLHttpRequest(); r.open('GET', '{to}/xhr'); r.send()",
    "frame": "document.body.innerHTML += `<iframe src='{to}/frame'></iframe><object data='{to}/object'></object>`",
    "picture": "document.body.innerHTML += `<img src='{to}/img'><video src='{to}/video' autoplay></video>`",
    "style": "document.head.innerHTML += `<style>@import '{to}/style'; p {{ background: url({to}/bg) }}</style>`",
    "hints": "document.head.innerHTML += `<link rel=preconnect href='{to}'><link rel=prefetch href='{to}/pre'>`",
    "script": "let s = document.createElement('script'); s.src = '{to}/script'; document.body.append(s)",
    "socket": "new WebSocket('{to}/socket'.replace('http', 'ws'))",
    "events": "new EventSource('{to}/events')",
    "beacon": "navigator.sendBeacon('{to}/beacon', 'x'); fetch('{to}/keep', {{method: 'POST', keepalive: true}})",
    "worker": "new Worker(URL.createObjectURL(new Blob([`fetch('{to}/w'); importScripts('{to}/i')`])))",
    "window": "window.open('{to}/window')",
    "move": "location = '{to}/move'",
    "refresh": "document.head.innerHTML += `<meta http-equiv=refresh content='0;url={to}/refresh'>`",
    "form": "document.body.innerHTML += `<form method=post action='{to}/form'></form>`; document.forms[0].submit()",
    "rtc": "self.RTCPeerConnection && new RTCPeerConnection({{iceServers: [{{urls: 'stun' + '{to}'.slice(4)}}]}})",
}


@in_browser
@pytest.mark.parametrize("name", ["{host}", "inner.example"])
async def test_no_request_of_a_page_reaches_a_private_address(chromium: Browser, name: str) -> None:
    async with site({"/": text("secret")}, host="127.0.0.2") as inner:
        to = inner.url("", name.format(host=inner.host))
        frames = [f"/{number}" for number in range(len(ATTACKS))]
        pages = {path: script(code.format(to=to)) for path, code in zip(frames, ATTACKS.values(), strict=True)}
        pages["/leads"] = leads_to(f"{to}/led")
        body = "".join(f"<iframe src='{path}'></iframe>" for path in [*frames, "/leads"])
        names = Names(inner_example=[["127.0.0.2"]])
        most = RenderBudget(navigations=100)
        async with rendering(chromium, {"/": page(body), **pages}, most, resolver=names) as (here, renderer):
            options = RenderOptions(block_third_party=False, screenshot=True, wait_until="networkidle")
            rendered = await renderer.render(here.url("/"), options, Request(here.url("/"), timeout=15))
    assert set(frames) <= set(here.paths())
    assert b"still here" in rendered.html
    assert inner.connections == 0


@in_browser
@pytest.mark.parametrize("attack", ["move", "refresh", "form"])
async def test_a_page_that_is_led_to_a_private_address_stays_where_it_is(chromium: Browser, attack: str) -> None:
    async with site({"/": text("secret")}, host="127.0.0.2") as inner:
        pages = {"/": script(ATTACKS[attack].format(to=inner.url("")))}
        async with rendering(chromium, pages) as (here, renderer):
            rendered = await renderer.render(here.url("/"), RenderOptions(block_third_party=False))
    assert b"still here" in rendered.html
    assert (rendered.url, rendered.warnings) == (here.url("/"), ())
    assert inner.connections == 0


async def test_a_private_page_is_refused_before_any_browser_starts() -> None:
    async with site() as here, fetcher(allow_private=()) as fetching, Browser() as own:
        renderer = Renderer(fetching, own)
        with pytest.raises(Blocked):
            await renderer.render(here.url("/"), RenderOptions())
    assert here.connections == 0


@in_browser
async def test_what_goes_past_the_routes_reaches_nobody(chromium: Browser) -> None:
    async with site() as here:
        context = await chromium.context()
        page = await context.new_page()
        with pytest.raises(Error, match="ERR_"):
            await page.goto(here.url("/"))
        with pytest.raises(Error, match="ERR_"):
            await page.goto(here.url("/", "localhost"))
        await context.close()
    assert here.connections == 0


@in_browser
async def test_data_is_asked_for_with_post_and_nothing_else_is_sent(chromium: Browser) -> None:
    code = """fetch('/graphql', {method: 'POST', body: '{"query": "{ name }"}'}).then(r => r.text())
    .then(t => document.body.append(t)); for (const [method, body] of [['PUT', 'x'], ['DELETE'], ['POST', '$TOKEN']])
    fetch('/never', {method, body}).catch(() => document.body.append('refused '))"""
    async with rendering(chromium, {"/": script(code), "/graphql": text("data of GraphQL")}) as (here, renderer):
        rendered = await renderer.render(here.url("/"), RenderOptions())
    assert b"data of GraphQL" in rendered.html
    assert rendered.html.count(b"refused ") >= 3
    assert "/never" not in here.paths()


@in_browser
@pytest.mark.parametrize("block", [True, False])
async def test_scripts_of_other_hosts_run_and_their_data_is_left_out_unless_it_is_asked_for(
    chromium: Browser, block: bool
) -> None:
    hosts = {f"{name}_example": [["127.0.0.1"]] for name in ("page", "static_page", "cdn", "www_doubleclick")}
    code = text("document.body.append(new URL(document.currentScript.src).hostname)")
    shared = text("data of others", access_control_allow_origin="*")
    async with rendering(chromium, {"/code": code, "/data": shared}, resolver=Names(**hosts)) as (here, renderer):
        tags = [f"<script src='{here.url('/code', host)}'></script>" for host in ("static.page.example", "cdn.example")]
        tags.append(f"<script src='{here.url('/code', 'www.doubleclick.example')}'></script>")
        tags.append(f"<script>fetch('{here.url('/data', 'cdn.example')}').then(r => r.text())"
                    ".then(t => document.body.append(t))</script>")  # fmt: skip
        here.pages["/"] = page("".join(tags))
        rendered = await renderer.render(here.url("/", "page.example"), RenderOptions(block_third_party=block))
    said = rendered.html.replace(b"http://", b"")
    assert b">static.page.example" in said
    assert b">cdn.example" in said
    assert (b"data of others<" in said) is not block
    assert (b">www.doubleclick.example" in said) is not block
    assert ("2 to other hosts" in rendered.missing) is block


@in_browser
async def test_a_page_of_many_parts_is_not_held_up_by_the_rate_limit_of_pages(chromium: Browser) -> None:
    parts = {f"/chunk{number}": text(f"window.n = (window.n || 0) + {number}") for number in range(80)}
    tags = "".join(f"<script src='{path}'></script>" for path in parts)
    here_: dict[str, Any] = {"/": page(f"{tags}<script>document.body.append('sum ' + window.n)</script>"), **parts}
    async with rendering(chromium, here_, limits=Settings(timeout=60, requests_per_minute=5)) as (here, renderer):
        rendered = await renderer.render(here.url("/"), RenderOptions())
    assert b"sum 3160" in rendered.html
    assert rendered.warnings == ()


# What it may cost


@in_browser
async def test_a_page_that_keeps_busy_is_told_as_far_as_it_came(chromium: Browser) -> None:
    pages = {"/": script("document.body.append('so far'); while (true) {}"), "/next": page("")}
    async with rendering(chromium, pages) as (here, renderer):
        rendered = await renderer.render(here.url("/"), RenderOptions(), Request(here.url("/"), timeout=3))
        after = await renderer.render(here.url("/next"), RenderOptions())
    assert b"so far" in rendered.html
    assert kinds(rendered) == ["render_timeout"]
    assert kinds(after) == []


@in_browser
async def test_a_part_that_never_comes_is_not_waited_for_beyond_the_deadline(chromium: Browser) -> None:
    async with rendering(chromium, {"/": page("<script src=/silent></script>"), "/silent": silent}) as (here, renderer):
        rendered = await renderer.render(here.url("/"), RenderOptions(), Request(here.url("/"), timeout=2))
    assert b"still here" in rendered.html
    assert kinds(rendered) == ["render_timeout"]


@in_browser
async def test_a_page_that_is_loaded_without_what_came_too_late_says_so(
    chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_fetch: Any = Routing._to_fetch  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(Routing, "_to_fetch", lambda *given: replace(to_fetch(*given), timeout=0.3))
    async with rendering(chromium, {"/": page("<script src=/silent></script>"), "/silent": silent}) as (here, renderer):
        rendered = await renderer.render(here.url("/"), RenderOptions())
    assert b"still here" in rendered.html
    assert [warning.message for warning in rendered.warnings] == ["The time was up before 1 of its parts had arrived."]


@in_browser
async def test_a_selector_is_waited_for(chromium: Browser) -> None:
    code = "setTimeout(() => document.body.innerHTML += '<b class=late>late</b>', 700)"
    async with rendering(chromium, {"/": script(code)}) as (here, renderer):
        url = here.url("/")
        found, missed = await asyncio.gather(
            renderer.render(url, RenderOptions(wait_until="commit", selector=".late")),
            renderer.render(url, RenderOptions(selector=".never"), Request(url, timeout=3)),
        )
        with pytest.raises(BadRequest, match="CSS selector"):
            await renderer.render(url, RenderOptions(selector="p[["))
    assert (b"late</b>" in found.html, kinds(found)) == (True, [])
    assert "'.never' was not there" in missed.warnings[0].message


@in_browser
async def test_a_page_is_given_more_time_if_that_is_asked_for(chromium: Browser) -> None:
    code = "setTimeout(() => document.body.append('late'), 500)"
    async with rendering(chromium, {"/": script(code)}) as (here, renderer):
        url = here.url("/")
        found, hurried = await asyncio.gather(
            renderer.render(url, RenderOptions(wait_until="domcontentloaded", wait_ms=900)),
            renderer.render(url, RenderOptions(wait_ms=60_000), Request(url, timeout=2.5)),
        )
    assert (b"late</body>" in found.html, kinds(found)) == (True, [])
    assert kinds(hurried) == ["render_timeout"]


@in_browser
async def test_a_page_that_grows_is_cut(chromium: Browser) -> None:
    async with rendering(chromium, {"/": script("document.body.append('ä'.repeat(1e6))")}) as (here, renderer):
        rendered = await renderer.render(here.url("/"), RenderOptions(), Request(here.url("/"), max_bytes=50_000))
    assert len(rendered.html) == 50_000
    assert kinds(rendered) == ["truncated"]


@in_browser
async def test_pictures_are_fetched_only_to_be_looked_at(chromium: Browser) -> None:
    pages = {"/": page("<img src=/picture><div style='height: 30000px'></div>"), "/picture": text("")}
    async with rendering(chromium, pages) as (here, renderer):
        plain = await renderer.render(here.url("/"), RenderOptions())
        assert "/picture" not in here.paths()
        shown = await renderer.render(here.url("/"), RenderOptions(screenshot=True))
    assert "/picture" in here.paths()
    assert plain.screenshot is None
    assert shown.screenshot is not None
    assert shown.screenshot.startswith(b"\x89PNG")
    assert struct.unpack(">II", shown.screenshot[16:24]) == (1280, 8000)
    assert kinds(shown) == ["truncated"]


@in_browser
async def test_a_picture_that_is_too_heavy_is_left_out(chromium: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.web.browser.render._HEAVIEST", 10)
    async with rendering(chromium, {"/": page("")}) as (here, renderer):
        rendered = await renderer.render(here.url("/"), RenderOptions(screenshot=True))
    assert rendered.screenshot is None
    assert kinds(rendered) == ["truncated"]


@in_browser
async def test_a_page_that_asks_for_ever_is_cut_off(chromium: Browser) -> None:
    code = "let n = 0; const ask = () => fetch('/part?' + n++).then(ask, ask); ask()"
    async with rendering(chromium, {"/": script(code), "/part": text("")}, RenderBudget(requests=5)) as (
        here,
        renderer,
    ):
        rendered = await renderer.render(here.url("/"), RenderOptions())
    assert b"still here" in rendered.html
    assert len([path for path in here.paths() if path.startswith("/part")]) == 5


@in_browser
async def test_a_page_that_loads_itself_again_and_again_is_cut_off(chromium: Browser) -> None:
    async with rendering(chromium, {"/": script("location.reload()")}, RenderBudget(navigations=3)) as (here, renderer):
        rendered = await renderer.render(here.url("/"), RenderOptions())
    assert b"still here" in rendered.html
    assert kinds(rendered) == []
    assert here.paths().count("/") <= 4


@in_browser
async def test_parts_that_robots_or_the_rate_limit_refuse_are_told_of(chromium: Browser) -> None:
    parts = "".join(f"<script src='/allowed{number}'></script>" for number in range(4))
    pages = {"/robots.txt": text("User-agent: *\nDisallow: /no"), "/": page("<script src=/no></script>" + parts)}
    pages["/allowed0"] = text("", 429, retry_after="300")
    limits = Settings(timeout=5, retries=0)
    async with rendering(chromium, pages, limits=limits) as (here, renderer):
        rendered = await renderer.render(here.url("/"), RenderOptions())
    assert sorted(kinds(rendered)) == ["rate_limited", "robots_blocked"]
    assert "/no" not in here.paths()


# The browser comes and goes


@in_browser
async def test_a_browser_that_dies_is_started_again() -> None:
    before = processes()

    async def deadly(ask: Ask) -> None:
        if not killed:
            killed.extend(processes() - before)
            for one in killed:
                if b"chromium" in Path(f"/proc/{one}/cmdline").read_bytes():
                    os.kill(one, signal.SIGKILL)
        await ask.reply(b"document.body.append('alive')", Content_Type="text/javascript")

    killed: list[int] = []
    pages = {"/": page("<script src=/deadly></script>"), "/deadly": deadly}
    async with site(pages) as here, fetcher() as fetching, Browser() as own:
        renderer = Renderer(fetching, own)
        rendered = await renderer.render(here.url("/"), RenderOptions())
        again = await renderer.render(here.url("/"), RenderOptions())
    assert killed
    assert b"alive" in rendered.html
    assert b"alive" in again.html
    assert processes() - before == set()


@in_browser
async def test_nothing_is_left_of_a_rendering_that_is_cancelled(chromium: Browser) -> None:
    waiting = anyio.Event()

    async def asked(ask: Ask) -> None:
        waiting.set()
        await silent(ask)

    async with (
        rendering(chromium, {"/": page("<script src=/asked></script>"), "/asked": asked}) as (here, renderer),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(renderer.render, here.url("/"), RenderOptions())
        with anyio.fail_after(20):
            await waiting.wait()
        tasks.cancel_scope.cancel()
    assert chromium._chromium is not None
    assert chromium._chromium.contexts == []


@in_browser
async def test_closing_ends_every_process() -> None:
    before = processes()
    async with site({"/": page("")}) as here, fetcher() as fetching, Browser() as own:
        renderer = Renderer(fetching, own)
        await renderer.render(here.url("/"), RenderOptions())
        started = processes() - before
    assert started
    assert not started & processes()


@in_browser
async def test_a_browser_that_gives_no_page_is_started_again(
    chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await chromium.context()).close()

    async def broken(**_: Any) -> None:
        raise Error("broken")

    monkeypatch.setattr(chromium._chromium, "new_context", broken)
    await (await chromium.context()).close()
    assert chromium.alive


@in_browser
async def test_a_page_that_cannot_be_closed_is_closed_with_the_browser(
    chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rendering(chromium, {"/": page("")}) as (here, renderer):
        with monkeypatch.context() as patch:
            patch.setattr("tidings.web.browser.render._CLOSING", 0.05)
            patch.setattr(BrowserContext, "close", lambda _: anyio.sleep_forever())
            rendered = await renderer.render(here.url("/"), RenderOptions())
        assert not chromium.alive
        again = await renderer.render(here.url("/"), RenderOptions())
    assert rendered.html == again.html


class Broken(Browser):
    """A browser that gives no page, however often it is asked."""

    async def context(self, **_: Any) -> BrowserContext:
        raise Error("broken")


async def test_a_page_that_breaks_every_browser_is_given_as_it_came() -> None:
    pages = {"/": page("")}
    async with site(pages) as here, fetcher() as fetching:
        renderer = Renderer(fetching, Broken())
        rendered = await renderer.render(here.url("/"), RenderOptions())
    assert b"still here" in rendered.html
    assert "crashed" in rendered.warnings[0].message


async def test_who_has_no_turn_in_time_is_told_to_come_again() -> None:
    async with site({"/": page("")}) as here, fetcher() as fetching:
        renderer = Renderer(fetching, Broken())
        for _ in range(4):
            await renderer._turns.acquire()
        with pytest.raises(FetchTimedOut, match="ask again"):
            await renderer.render(here.url("/"), RenderOptions(), Request(here.url("/"), timeout=0.5))


class Mute:
    """A page that answers nothing."""

    async def send(self, *_: Any) -> None:
        await anyio.sleep_forever()

    async def screenshot(self, **_: Any) -> None:
        raise Error("no picture")


async def test_a_page_that_answers_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.web.browser.render._LEAST", 0.02)
    mute: Any = Mute()
    camera = PageCamera(mute, mute, 1_000)
    assert await camera.html(anyio.current_time()) is None
    assert await camera.screenshot(anyio.current_time()) is None
    assert "No screenshot" in camera.warnings[0].message


@in_browser
async def test_a_page_that_lets_nobody_look_is_given_as_it_came(
    chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: Any) -> None:
        return None

    monkeypatch.setattr(PageCamera, "html", nothing)
    async with rendering(chromium, {"/": script("document.body.append('more')")}) as (here, renderer):
        rendered = await renderer.render(here.url("/"), RenderOptions(screenshot=True))
    assert rendered.html.endswith(b"</script>")
    assert kinds(rendered) == ["render_timeout"]


async def test_without_playwright_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unheard(_uris: Sequence[str], _listed: bool) -> None:
        raise AssertionError("nothing runs")

    monkeypatch.setattr(wiring, "find_spec", lambda _: None)
    with pytest.raises(NoRenderer, match=r"\[render\]"):
        async with wiring.running(Settings(render=True), unheard):
            pass


@pytest.mark.parametrize(
    ("program", "said"), [("/no/such/chromium", "apt-get install chromium"), ("/bin/false", "by hand")]
)
async def test_without_a_chromium_that_runs_it_is_said_what_to_do(program: str, said: str) -> None:
    async with site({"/": page("")}) as here, fetcher() as fetching, Browser(program) as broken:
        with pytest.raises(FetchError, match=said):
            await Renderer(fetching, broken).render(here.url("/"), RenderOptions())


async def test_nothing_is_started_when_all_is_closed() -> None:
    async with Browser() as closed:
        pass
    with pytest.raises(NoBrowser, match="stopping"):
        await closed.context()


@pytest.mark.parametrize(
    ("host", "of"),
    [
        ("www.example.org", "example.org"),
        ("example.org", "example.org"),
        ("cdn.shop.co.uk", "shop.co.uk"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("2001:db8::1", "2001:db8::1"),
    ],
)
def test_hosts_of_one_site_are_known_by_their_names(host: str, of: str) -> None:
    assert site_of(host) == of
