"""The fetcher: the plan of a request, redirects, retries, robots.txt, rate limits, deadlines."""

import gzip
from dataclasses import replace

import anyio
import pytest

from tests.web.fetch.servers import (
    LOOPBACK,
    ROOMY,
    Ask,
    Names,
    Page,
    Time,
    fetcher,
    in_turn,
    leads_to,
    raw,
    silent,
    site,
    text,
)
from tidings.web.fetch.fetcher import RETRIED, Fetcher, plan
from tidings.web.fetch.request import (
    BadRequest,
    BadUrl,
    Blocked,
    FetchTimedOut,
    RateLimited,
    Request,
    RobotsRefused,
    TooManyRedirects,
    Unreachable,
)
from tidings.web.settings import Settings

LIMITS = Settings(timeout=30, max_bytes=1_024, max_redirects=5, user_agent="Tidings/1")
URL = "https://example.org/"


def sent(request: Request, *, own: bool = True) -> dict[str, str]:
    return dict(plan(request, LIMITS).headers(own=own))


def test_markdown_is_asked_for_first() -> None:
    assert sent(Request(URL))["accept"].startswith("text/markdown, text/html;q=0.9")
    assert sent(Request(URL, accept="text/css"))["accept"] == "text/css"
    assert sent(Request(URL, headers={"Accept": "image/png"}))["accept"] == "image/png"


def test_a_request_may_ask_for_less_and_never_for_more() -> None:
    less = plan(Request(URL, timeout=1, max_bytes=10, max_redirects=0), LIMITS)
    assert (less.timeout, less.max_bytes, less.max_redirects) == (1, 10, 0)
    more = plan(Request(URL, timeout=100, max_bytes=10_000, max_redirects=50), LIMITS)
    assert (more.timeout, more.max_bytes, more.max_redirects) == (30, 1_024, 5)
    assert plan(Request(URL, timeout=-1), LIMITS).timeout == 0


def test_own_headers_are_for_the_first_host_alone() -> None:
    request = Request(URL, headers={"Authorization": "Bearer x", "Cookie": "a=b"}, etag='"1"', last_modified="then")
    assert sent(request).keys() >= {"authorization", "cookie", "if-none-match", "if-modified-since"}
    assert sent(request, own=False).keys() == {
        *("accept", "user-agent", "accept-encoding", "if-none-match", "if-modified-since")
    }


def test_the_agent_is_named_by_the_request_its_header_or_the_limits() -> None:
    assert sent(Request(URL))["user-agent"] == "Tidings/1"
    assert sent(Request(URL, headers={"User-Agent": "Other/2"}), own=False)["user-agent"] == "Other/2"
    assert sent(Request(URL, headers={"User-Agent": "Other/2"}, user_agent="Third"))["user-agent"] == "Third"


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "content-length", "Content-Encoding", "Transfer-Encoding", "Connection", "KEEP-ALIVE", "TE"),
        *("Trailer", "Upgrade", "Expect", "Proxy-Authorization", "Proxy-Connection", "Accept-Encoding", "Range"),
        *("If-None-Match", "If-Modified-Since", "HTTP2-Settings", " Host "),
    ],
)
def test_headers_that_are_the_fetchers_own_cannot_be_set(name: str) -> None:
    with pytest.raises(BadRequest, match="leave it out"):
        plan(Request(URL, headers={name: "x"}), LIMITS)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", ":authority", "ä", "a\x00"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(BadRequest, match="not a header name"):
        plan(Request(URL, headers={name: "x"}), LIMITS)


@pytest.mark.parametrize("value", ["a\r\nHost: evil.example", "a\nb", "a\x00", "a\x7f", "\u2028", "日本"])
def test_a_value_that_would_be_more_than_one_is_refused(value: str) -> None:
    for request in (
        Request(URL, headers={"X-Thing": value}),
        Request(URL, etag=value),
        Request(URL, last_modified=value),
        Request(URL, accept=value),
        Request(URL, user_agent=value),
    ):
        with pytest.raises(BadRequest, match="in its value"):
            plan(request, LIMITS)


def test_too_many_or_too_long_headers_are_refused() -> None:
    with pytest.raises(BadRequest, match="too many"):
        plan(Request(URL, headers={f"x-{n}": "y" for n in range(51)}), LIMITS)
    with pytest.raises(BadRequest, match="longer than"):
        plan(Request(URL, headers={"x": "y" * 8_193}), LIMITS)


def test_a_bad_url_is_refused_before_anything_else() -> None:
    with pytest.raises(BadUrl):
        plan(Request("file:///etc/passwd", headers={"Host": "x"}), LIMITS)


def test_statuses_that_stay_are_not_asked_again() -> None:
    assert not RETRIED & {200, 304, 400, 401, 403, 404, 410, 500, 501}


pytestmark = pytest.mark.anyio


async def test_a_page_comes_with_its_headers_and_where_it_came_from() -> None:
    page = text("hello", Content_Type="text/html; charset=utf-8", ETag='"1"', Last_Modified="then", Set_Cookie="a=b")
    async with site({"/page": page}) as here, fetcher() as fetch:
        response = await fetch.fetch(Request(here.url("/x/../page#part")))
    assert (response.status, response.body) == (200, b"hello")
    assert response.url == response.requested == here.url("/page")
    assert response.content_type == "text/html; charset=utf-8"
    assert (response.etag, response.last_modified) == ('"1"', "then")
    assert response.headers["content-length"] == "5"
    assert "set-cookie" not in response.headers
    assert (response.truncated, response.not_modified) == (False, False)
    assert (response.redirects, response.notes) == ((), ())


async def test_it_asks_for_markdown_first_names_itself_and_sends_no_cookies() -> None:
    async with site({"/": text("x", Set_Cookie="session=1")}) as here, fetcher() as fetch:
        await fetch.fetch(Request(here.url()))
        await fetch.fetch(Request(here.url(), headers={"X-Thing": "a"}, user_agent="Other/1"))
    _, first, second = here.asked
    assert first.headers["accept"].startswith("text/markdown")
    assert first.headers["user-agent"] == "Tidings"
    assert first.headers["host"] == f"127.0.0.1:{here.port}"
    assert first.headers["accept-encoding"] == "gzip, deflate, br"
    assert (second.headers["x-thing"], second.headers["user-agent"]) == ("a", "Other/1")
    assert "cookie" not in second.headers


async def test_connections_are_kept_and_used_again() -> None:
    async with site({"/": text(), "/r": leads_to("/")}) as here, fetcher() as fetch:
        for _ in range(3):
            await fetch.fetch(Request(here.url("/r")))
    assert here.connections == 1


async def test_an_ipv6_address_is_fetched_from() -> None:
    async with site(host="::1") as here, fetcher() as fetch:
        url = f"http://[::1]:{here.port}/"
        assert (await fetch.fetch(Request(url))).url == url
    assert here.asked[0].headers["host"] == f"[::1]:{here.port}"


async def test_a_packed_page_is_unpacked_and_progress_is_told_in_bytes_that_came() -> None:
    body = bytes(range(256)) * 2_000
    packed = gzip.compress(body, 0)
    told: list[tuple[int, int | None]] = []

    async def progress(came: int, total: int | None) -> None:
        told.append((came, total))

    async with site({"/": text(packed, Content_Encoding="gzip")}) as here, fetcher() as fetch:
        response = await fetch.fetch(Request(here.url()), progress)
    assert response.body == body
    assert told[-1] == (len(packed), len(packed))
    assert [came for came, _ in told] == sorted({came for came, _ in told})
    assert len(told) > 2


async def test_a_body_without_a_length_has_no_total_until_it_is_here() -> None:
    told: list[tuple[int, int | None]] = []

    async def progress(came: int, total: int | None) -> None:
        told.append((came, total))

    body = b"hello" * 30_000
    page = raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    async with site({"/": page}) as here, fetcher() as fetch:
        assert (await fetch.fetch(Request(here.url()), progress)).body == body
    assert told[-1] == (len(body), len(body))
    assert {total for _, total in told[:-1]} == {None}


async def test_whatever_the_status_it_is_a_response() -> None:
    async with site({"/500": text("broken", 500), "/204": raw(b"HTTP/1.1 204 X\r\n\r\n")}) as here, fetcher() as fetch:
        missing = await fetch.fetch(Request(here.url("/404")))
        broken = await fetch.fetch(Request(here.url("/500")))
        nothing = await fetch.fetch(Request(here.url("/204")))
    assert [(r.status, r.body) for r in (missing, broken, nothing)] == [
        (404, b"nothing here"),
        (500, b"broken"),
        (204, b""),
    ]


async def test_a_page_that_has_not_changed_is_not_sent_again() -> None:
    async def page(ask: Ask) -> None:
        known = ask.headers.get("if-none-match") == '"1"' or "if-modified-since" in ask.headers
        await (ask.send(b'HTTP/1.1 304 X\r\nETag: "1"\r\n\r\n') if known else ask.reply(b"hello", ETag='"1"'))

    async with site({"/": page, "/r": leads_to("/")}) as here, fetcher() as fetch:
        first = await fetch.fetch(Request(here.url()))
        again = await fetch.fetch(Request(here.url(), etag=first.etag))
        moved = await fetch.fetch(Request(here.url("/r"), last_modified="then"))
    assert (first.not_modified, again.not_modified, moved.not_modified) == (False, True, True)
    assert (again.status, again.body, again.etag) == (304, b"", '"1"')


async def test_robots_txt_is_asked_first_and_its_refusal_names_the_cure() -> None:
    pages = {"/robots.txt": text("User-agent: *\nDisallow: /private"), "/": text(), "/private": text("secret")}
    async with site(pages) as here, fetcher() as fetch:
        await fetch.fetch(Request(here.url()))
        with pytest.raises(RobotsRefused, match=r"its robots.txt forbids it.*respect_robots=false"):
            await fetch.fetch(Request(here.url("/private")))
        assert here.paths() == ["/robots.txt", "/"]
        assert (await fetch.fetch(Request(here.url("/private"), respect_robots=False))).body == b"secret"


async def test_robots_txt_that_fails_means_no() -> None:
    async with site({"/robots.txt": text("", 503), "/": text()}) as here, fetcher() as fetch:
        with pytest.raises(RobotsRefused, match="is unavailable"):
            await fetch.fetch(Request(here.url()))
    assert here.paths() == ["/robots.txt"]


async def test_robots_txt_may_be_elsewhere_and_long() -> None:
    rules = "User-agent: *\nDisallow: /first\n" + "# padding\n" * 60_000 + "Disallow: /last\n"
    pages = {"/robots.txt": leads_to("/elsewhere"), "/elsewhere": text(rules), "/first": text(), "/last": text()}
    async with site(pages) as here, fetcher() as fetch:
        with pytest.raises(RobotsRefused):
            await fetch.fetch(Request(here.url("/first")))
        assert (await fetch.fetch(Request(here.url("/last")))).status == 200


async def test_robots_txt_can_be_asked_for_by_itself() -> None:
    pages = {"/robots.txt": text("Sitemap: /map.xml\nUser-agent: *")}
    async with site(pages) as here, fetcher() as fetch:
        robots = await fetch.robots(here.url("/any/page"))
    assert robots.sitemaps() == (here.url("/map.xml"),)


async def test_an_answer_that_may_change_is_asked_for_again() -> None:
    time = Time()
    pages = {"/": in_turn(text("busy", 503), text("busy", 429, Retry_After="3"), text("hello"))}
    async with site(pages) as here, fetcher(replace(ROOMY, retries=2), clock=time, sleep=time.sleep) as fetch:
        response = await fetch.fetch(Request(here.url()))
    assert response.body == b"hello"
    assert len(response.notes) == 2
    assert "status 503" in response.notes[0]
    assert "status 429" in response.notes[1]
    assert 0.25 <= time.slept[0] <= 0.5
    assert 3 <= time.slept[1] <= 3.5


async def test_each_pause_is_longer_up_to_a_limit_and_spread_by_chance() -> None:
    time = Time()
    limits = replace(ROOMY, retries=6, timeout=100.0)
    async with site({"/": text("busy", 503)}) as here, fetcher(limits, clock=time, sleep=time.sleep) as fetch:
        assert (await fetch.fetch(Request(here.url()))).status == 503
    assert len(time.slept) == 6
    for slept, longest in zip(time.slept, (0.5, 1, 2, 4, 8, 8), strict=True):
        assert longest / 2 <= slept <= longest


async def test_who_does_not_insist_takes_the_first_answer_and_is_asked_again_only_for_want_of_one() -> None:
    time = Time()
    pages = {"/": in_turn(text("busy", 503), text("hello")), "/cut": in_turn(raw(b""), text("hello"))}
    async with site(pages) as here, fetcher(replace(ROOMY, retries=2), clock=time, sleep=time.sleep) as fetch:
        assert (await fetch.fetch(Request(here.url(), insist=False))).status == 503
        assert (await fetch.fetch(Request(here.url("/cut"), insist=False))).body == b"hello"


async def test_the_last_answer_counts_when_attempts_or_time_run_out() -> None:
    time = Time()
    pages = {"/": text("busy", 429), "/later": text("busy", 503, Retry_After="Fri, 31 Dec 2100 23:59:59 GMT")}
    async with site(pages) as here, fetcher(replace(ROOMY, retries=1), clock=time, sleep=time.sleep) as fetch:
        response = await fetch.fetch(Request(here.url()))
        assert (response.status, here.paths().count("/")) == (429, 2)
        assert any("too many requests" in note for note in response.notes)
        assert (await fetch.fetch(Request(here.url("/later")))).status == 503
        assert here.paths().count("/later") == 1
        with pytest.raises(RateLimited, match="asked for a pause"):
            await fetch.fetch(Request(here.url()))
    assert sum(time.slept) < 1


async def test_a_connection_that_breaks_is_made_again_at_once() -> None:
    time = Time()
    pages = {"/": in_turn(raw(), raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), text("hello"))}
    async with site(pages) as here, fetcher(replace(ROOMY, retries=2), clock=time, sleep=time.sleep) as fetch:
        response = await fetch.fetch(Request(here.url()))
    assert response.body == b"hello"
    assert response.notes == ("The request was repeated because the connection failed.",)
    assert time.slept[0] == 0
    assert time.slept[1] > 0


async def test_the_limit_of_requests_to_a_host_holds_back_or_refuses() -> None:
    time = Time()
    limits = Settings(timeout=100, requests_per_minute=2)
    async with site() as here, fetcher(limits, clock=time, sleep=time.sleep) as fetch:
        await fetch.fetch(Request(here.url()))
        response = await fetch.fetch(Request(here.url()))
        assert response.notes == ("The rate limit for 127.0.0.1 delayed the request by 60 s.",)
        await fetch.fetch(Request(here.url()))
        with pytest.raises(
            RateLimited, match="2 requests a minute are allowed, and the next request is possible in 60 s"
        ):
            await fetch.fetch(Request(here.url(), timeout=10))


async def test_a_site_that_is_not_there_is_unreachable() -> None:
    async with site() as here:
        pass
    async with fetcher(resolver=Names()) as fetch:
        with pytest.raises(Unreachable, match=r"cannot be reached: nothing listens on port \d+") as refused:
            await fetch.fetch(Request(here.url("/page")))
        assert refused.value.url == here.url("/page")
        assert refused.value.retryable
        with pytest.raises(Unreachable, match=r"nowhere\.example cannot be resolved") as unknown:
            await fetch.fetch(Request("https://nowhere.example/page"))
        assert not unknown.value.retryable


async def test_a_page_in_time_is_not_the_matter_of_one_that_is_late() -> None:
    async with site({"/": text(), "/silent": silent}) as here, fetcher() as fetch:
        with pytest.raises(FetchTimedOut, match=r"within 0.05 s: .*; allow more time"):
            await fetch.fetch(Request(here.url("/silent"), timeout=0.05, respect_robots=False))
        assert (await fetch.fetch(Request(here.url()))).status == 200


async def test_a_cancelled_request_leaves_nothing_behind() -> None:
    reached = anyio.Event()

    async def stalls(ask: Ask) -> None:
        await ask.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        reached.set()
        await anyio.sleep_forever()

    async with site({"/": text(), "/stalls": stalls}) as here, fetcher(replace(ROOMY, per_host=1)) as fetch:
        for _ in range(3):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(fetch.fetch, Request(here.url("/stalls")))
                await reached.wait()
                tasks.cancel_scope.cancel()
            reached = anyio.Event()
        assert (await fetch.fetch(Request(here.url()))).status == 200


async def test_a_closed_fetcher_fetches_nothing() -> None:
    async with fetcher() as fetch, Fetcher():
        pass
    async with site() as here:
        with pytest.raises(RuntimeError, match="closed"):
            await fetch.fetch(Request(here.url()))


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
    options = {"allow_private": LOOPBACK[:1], "block_domain": ["blocked.example"], "resolver": names}
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


@pytest.mark.parametrize(
    ("head", "found"),
    [
        ('<meta http-equiv="refresh" content="0; url=/new">', "new"),
        ("<META CONTENT='3;URL=\"/new?a=1&amp;b=2\"' HTTP-EQUIV=Refresh>", "new"),
        ('<meta http-equiv="refresh" content="300; url=/new">', "old"),
        ('<meta http-equiv="refresh" content="5">', "old"),
        ('<meta http-equiv="refresh" content="0; url=/old">', "old"),
        ('<noscript><meta http-equiv="refresh" content="0; url=/new"></noscript>', "old"),
        ('<!-- <meta http-equiv="refresh" content="0; url=/new"> -->', "old"),
        ('<meta http-equiv="refresh" content="0; url=javascript:alert(1)">', "old"),
    ],
)
async def test_a_meta_refresh_is_a_redirect_if_it_comes_soon(head: str, found: str) -> None:
    page = text(f"<html><head>{head}</head><body>old</body></html>", Content_Type="text/html")
    async with site({"/old": page, "/new": text("new")}) as here, fetcher() as fetch:
        response = await fetch.fetch(Request(here.url("/old"), headers={"x-key": "1"}))

        assert found in response.body.decode()
        assert (response.redirects == (here.url("/old"),)) == (found == "new")
        assert any("leads on to" in note for note in response.notes) == (found == "new" or "300" in head)


async def test_a_meta_refresh_is_under_the_rules_of_redirects() -> None:
    def leads(target: str) -> Page:
        return text(f'<meta http-equiv=refresh content="0;url={target}">', Content_Type="text/html")

    pages = {"/in": leads("http://10.0.0.1/"), "/a": leads("/b"), "/b": leads("/a")}
    async with site(pages) as here, fetcher() as fetch:
        with pytest.raises(Blocked):
            await fetch.fetch(Request(here.url("/in")))
        with pytest.raises(TooManyRedirects):
            await fetch.fetch(Request(here.url("/a")))
        with pytest.raises(TooManyRedirects):
            await fetch.fetch(Request(here.url("/in"), max_redirects=0))
