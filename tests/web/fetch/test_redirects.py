"""Pages that lead on: each hop is judged like the first."""

import pytest

from tests.web.fetch.servers import LOOPBACK, Names, fetcher, leads_to, site, text
from tidings.web.fetch.request import BadUrl, Blocked, Request, RobotsRefused, TooManyRedirects

pytestmark = pytest.mark.anyio

SECRET = {"Authorization": "Bearer secret", "X-Key": "secret"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_followed_and_told(status: int) -> None:
    pages = {"/a": leads_to("b?x=1", status), "/b": leads_to("/ü", status), "/%C3%BC": text("here")}
    async with site(pages) as here, fetcher() as fetch:
        response = await fetch.fetch(Request(here.url("/a")))
    assert (response.body, response.requested) == (b"here", here.url("/a"))
    assert response.url == here.url("/%C3%BC")
    assert response.redirects == (here.url("/a"), here.url("/b?x=1"))


async def test_a_location_in_utf_8_and_one_in_latin_1_are_understood() -> None:
    pages = {"/a": leads_to("/ü".encode().decode("latin-1")), "/b": leads_to("/ü"), "/%C3%BC": text("here")}
    async with site(pages) as here, fetcher() as fetch:
        assert (await fetch.fetch(Request(here.url("/a")))).body == b"here"
        assert (await fetch.fetch(Request(here.url("/b")))).body == b"here"


async def test_a_redirect_that_leads_nowhere_is_a_response() -> None:
    async with site({"/": text("choose", 302), "/300": text("choose", 300, Location="/x")}) as here, fetcher() as fetch:
        assert (await fetch.fetch(Request(here.url()))).body == b"choose"
        assert (await fetch.fetch(Request(here.url("/300")))).status == 300


@pytest.mark.parametrize(
    "location",
    [
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]:8080/",
        "http://[::ffff:10.0.0.1]/",
        "http://0x0a000001/",
        "//192.168.0.1/",
        "http://inside.example/",
        "http://both.example/",
        "http://127.0.0.1:22/",
        "https://blocked.example/",
    ],
)
async def test_a_hop_to_where_nobody_may_go_is_blocked(location: str) -> None:
    names = Names(
        inside_example=[["172.16.0.1"]], both_example=[["93.184.215.14", "10.0.0.1"]], blocked_example=[["1.1.1.1"]]
    )
    options = {"allow_private": LOOPBACK[:1], "block_domains": ["blocked.example"], "resolver": names}
    async with site({"/": leads_to(location)}) as here, fetcher(**options) as fetch:
        for respect in (True, False):
            with pytest.raises(Blocked, match="is not fetched"):
                await fetch.fetch(Request(here.url(), respect_robots=respect))


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "data:text/html,x", "javascript:1", "ftp://a.example/", "http://a@b/", "http://x:0/"],
)
async def test_a_hop_to_what_is_no_page_is_refused(location: str) -> None:
    async with site({"/": leads_to(location)}) as here, fetcher() as fetch:
        with pytest.raises(BadUrl, match="redirects to"):
            await fetch.fetch(Request(here.url()))


async def test_a_circle_is_seen_and_a_long_way_is_cut() -> None:
    pages = {"/self": leads_to("/self#again"), "/a": leads_to("/b"), "/b": leads_to("/a")}
    pages |= {f"/{n}": leads_to(f"/{n + 1}") for n in range(10)}
    pages["/10"] = text("the end")
    async with site(pages) as here, fetcher() as fetch:
        for path in ("/self", "/a"):
            with pytest.raises(TooManyRedirects, match="in a circle"):
                await fetch.fetch(Request(here.url(path)))
        with pytest.raises(TooManyRedirects, match="more than 5 times"):
            await fetch.fetch(Request(here.url("/0")))
        assert (await fetch.fetch(Request(here.url("/5")))).body == b"the end"
        with pytest.raises(TooManyRedirects, match="more than 0 times"):
            await fetch.fetch(Request(here.url("/9"), max_redirects=0))


async def test_own_headers_stay_with_the_host_they_were_meant_for() -> None:
    names = Names(a_example=[["127.0.0.1"]], b_example=[["127.0.0.1"]])
    async with site() as here, fetcher(resolver=names) as fetch:
        here.pages |= {
            "/start": leads_to("/same"),
            "/same": leads_to(here.url("/other", "b.example")),
            "/other": leads_to(here.url("/back", "a.example")),
            "/back": text("here"),
        }
        response = await fetch.fetch(Request(here.url("/start", "a.example"), headers=SECRET))
    sent = {ask.path: "x-key" in ask.headers and "authorization" in ask.headers for ask in here.asked}
    assert sent == {"/start": True, "/same": True, "/other": False, "/back": False, "/robots.txt": False}
    assert response.notes == ("The request's own headers were not sent on to b.example.",)


async def test_the_robots_txt_of_each_host_on_the_way_counts() -> None:
    names = Names(a_example=[["127.0.0.1"]], b_example=[["127.0.0.1"]])

    async with site() as here, fetcher(resolver=names) as fetch:

        async def robots(ask) -> None:
            strict = ask.headers["host"].startswith("b.example")
            await ask.reply(b"User-agent: *\nDisallow: /" if strict else b"")

        here.pages |= {"/robots.txt": robots, "/": leads_to(here.url("/page", "b.example")), "/page": text()}
        with pytest.raises(RobotsRefused, match=r"b\.example"):
            await fetch.fetch(Request(here.url("/", "a.example")))
    assert "/page" not in here.paths()


@pytest.mark.parametrize("location", ["http://10.0.0.1/robots.txt", "file:///etc/passwd", "/robots.txt"])
async def test_a_robots_txt_that_leads_astray_means_no(location: str) -> None:
    async with site({"/": text(), "/robots.txt": leads_to(location)}) as here, fetcher() as fetch:
        with pytest.raises(RobotsRefused, match="is unavailable"):
            await fetch.fetch(Request(here.url()))
    assert "/" not in here.paths()


async def test_what_a_redirect_says_is_not_read_to_its_end() -> None:
    pages = {"/": text(b"x" * 1_000_000, 302, Location="/page"), "/page": text("here")}
    async with site(pages) as here, fetcher() as fetch:
        assert (await fetch.fetch(Request(here.url()))).body == b"here"
