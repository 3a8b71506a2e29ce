"""Pages: fetched, read, kept, and answered from what is kept."""

import gzip
import json
from typing import Any

import anyio
import pytest

from tests.web.fetch.servers import Ask, in_turn, leads_to, silent, text
from tests.web.shelf import Changing, InThread, Shelf, both, shelf
from tidings.web.extract.model import Extracted, ExtractionFailed, ExtractWarning
from tidings.web.extract.pool import ExtractionPool
from tidings.web.fetch.request import BadRequest, FetchError, Request, ResponseTooLarge, Unreachable
from tidings.web.library import Fetched, WebLibrary
from tidings.web.page_options import Extraction, FetchOptions, RenderOptions
from tidings.web.pages import HttpFailed, NoRenderer
from tidings.web.resources import address, read
from tidings.web.store.model import StoredPage

pytestmark = pytest.mark.anyio

ARTICLE = """<html><head><title>On rain</title></head><body><article><h1>On rain</h1>
<p>It has been raining in the north for three days, and the rivers are as high as they have been in years.</p>
<p>In the south it is dry, and people there wait for the rain that the north would gladly do without.</p>
</article></body></html>"""
SCRIPT = """<html><head><title>App</title></head><body><div id="root"></div><script src="/app.js"></script>
<noscript>You need to enable JavaScript to run this app.</noscript></body></html>"""


def html(body: str, **headers: str) -> Any:
    return text(body, Content_Type="text/html; charset=utf-8", **headers)


def warnings(fetched: Fetched) -> list[str]:
    return [warning["type"] for warning in fetched.entry.packet["warnings"]]


async def test_a_page_is_fetched_read_and_kept() -> None:
    async with shelf({"/rain": html(ARTICLE)}) as here:
        fetched = await here.library.fetch(here.site.url("/rain#part"))
        kept = await here.store.get(fetched.entry.packet["source_id"])

        assert "raining in the north" in fetched.entry.packet["content"]
        assert fetched.entry.packet["metadata"].get("title") == "On rain"
        assert fetched.entry.packet["original_url"] == here.site.url("/rain")
        assert kept is not None
        assert kept.packet == fetched.entry.packet
        assert kept.raw is None
        assert not fetched.from_cache
        assert here.heard() == ([], 1)


async def test_a_page_is_read_in_worker_processes() -> None:
    async with ExtractionPool(count=1) as workers, shelf({"/rain": html(ARTICLE)}, workers=workers) as here:
        fetched = await here.library.fetch(here.site.url("/rain"))

        assert "raining in the north" in fetched.entry.packet["content"]
        assert len(workers.pids) == 1


async def test_a_fresh_page_is_answered_without_a_request() -> None:
    async with shelf({"/": html(ARTICLE)}, cache_ttl=60) as here:
        first = await here.library.fetch(here.site.url())
        here.clock.now += 59
        second = await here.library.fetch(here.site.url())

        assert second.from_cache
        assert second.entry.packet == first.entry.packet
        assert len(here.requests()) == 1


async def test_an_older_page_is_asked_for_with_what_is_known_and_answered_from_the_store_if_it_still_is() -> None:
    page = Changing(ARTICLE, "text/html", Last_Modified="Thu, 01 Jan 2026 00:00:00 GMT")
    async with shelf({"/": page}, cache_ttl=60) as here:
        first = await here.library.fetch(here.site.url())
        here.clock.now += 60
        second = await here.library.fetch(here.site.url())
        third = await here.library.fetch(here.site.url())

        assert (second.from_cache, second.not_modified) == (False, True)
        assert second.entry.packet == first.entry.packet
        assert third.from_cache, "to have been told that it still is makes it fresh again"
        _, again = here.requests()
        assert again.headers["if-none-match"].startswith('"')
        assert again.headers["if-modified-since"] == "Thu, 01 Jan 2026 00:00:00 GMT"


async def test_no_freshness_is_taken_for_granted_when_the_caller_wants_none() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        await here.library.fetch(here.site.url())
        page.body = "two"
        fetched = await here.library.fetch(here.site.url(), FetchOptions(cache_ttl=0))

        assert fetched.entry.packet["content"].strip() == "two"
        assert fetched.put is not None
        assert fetched.put.changed


@pytest.mark.parametrize(
    "other",
    [
        {"headers": {"accept-language": "de"}},
        {"user_agent": "Other"},
        {"extraction": Extraction(remove_selectors=["nav"])},
        {"mode": "http"},
    ],
)
async def test_a_page_fetched_in_another_way_is_no_answer_nor_asked_for_conditionally(other: dict[str, Any]) -> None:
    async with shelf({"/": Changing(ARTICLE, "text/html")}) as here:
        await here.library.fetch(here.site.url())
        fetched = await here.library.fetch(here.site.url(), FetchOptions(**other))
        back = await here.library.fetch(here.site.url())

        assert not fetched.from_cache
        assert not back.from_cache
        assert [ask.headers.get("if-none-match") for ask in here.requests()] == [None, None, None]


async def test_a_page_that_claims_to_be_another_is_no_answer_for_that_one() -> None:
    claims = '<link rel="canonical" href="/victim">' + ARTICLE.replace("rain", "gold")
    same = '"the same"'
    pages = {"/evil": html(claims, ETag=same), "/victim": html(ARTICLE, ETag=same)}
    async with shelf(pages) as here:
        await here.library.fetch(here.site.url("/evil"))
        fetched = await here.library.fetch(here.site.url("/victim"))

        assert not fetched.from_cache
        assert "rain" in fetched.entry.packet["content"]
        assert "if-none-match" not in here.requests()[-1].headers
        evil, victim = await page_at(here, "/evil"), await page_at(here, "/victim")
        assert evil.page_id != victim.page_id
        for page, word in ((evil, "gold"), (victim, "rain")):
            found = json.loads(str((await read(here.store, address("page", page.page_id))).content))
            assert word in found["content"]
            assert found["url"] == page.address
        claim = await read(here.store, address("page", evil.page_id))
        assert json.loads(str(claim.content))["canonical_url"] == victim.address


async def page_at(here: Shelf, path: str) -> StoredPage:
    page = await here.store.page_of(here.site.url(path))
    assert page is not None
    return page


async def test_pages_with_the_same_canonical_link_are_watched_each_by_its_own_url() -> None:
    def shirt(colour: str) -> str:
        said = f"<p>The shirt comes in {colour}, is made of cotton and can be washed at forty degrees.</p>"
        return f'<html><head><link rel=canonical href="/shirt"></head><body><h1>Shirt</h1>{said}</body></html>'

    colours = {"variant=1": "red", "variant=2": "red"}

    async def shop(ask: Ask) -> None:
        await ask.reply(shirt(colours[ask.path.partition("?")[2]]).encode(), Content_Type="text/html")

    async with shelf({"/shirt": shop}) as here:
        ids = [await here.watch(f"/shirt?{query}") for query in colours]
        assert len(set(ids)) == 2
        for number, query in enumerate(colours):
            colours[query] = "blue"
            await here.later()
            assert here.heard()[0] == both(ids[number])


async def test_not_modified_of_a_version_that_went_meanwhile_is_fetched_again() -> None:
    page = Changing("one")
    async with shelf({"/": page}, cache_ttl=60, storing={"ttl": 100.0}) as here:
        first = await here.library.fetch(here.site.url())

        async def pruned(ask: Ask) -> None:
            if "if-none-match" in ask.headers:
                here.clock.now += 50
                await here.store.prune()
            await page(ask)

        here.site.pages["/"] = pruned
        here.clock.now += 60
        fetched = await here.library.fetch(here.site.url())

        assert fetched.entry.packet["content"] == first.entry.packet["content"]
        assert not fetched.not_modified
        assert page.not_modified == 1
        assert await here.store.get(fetched.entry.packet["source_id"]) is not None


async def test_not_modified_that_nobody_asked_for_is_an_error() -> None:
    async with shelf({"/": text("", 304)}) as here:
        with pytest.raises(FetchError, match="304"):
            await here.library.fetch(here.site.url())


async def test_many_who_ask_at_once_share_one_request_and_each_hears_of_its_progress() -> None:
    let_go = anyio.Event()

    async def slow(ask: Ask) -> None:
        await let_go.wait()
        await ask.reply(b"x" * 100_000, Content_Type="text/plain")

    async with shelf({"/": slow}) as here:
        results: list[Fetched] = []
        told: list[tuple[int, int]] = []

        async def ask(number: int) -> None:
            async def progress(done: int, _: int | None) -> None:
                told.append((number, done))

            results.append(await here.library.fetch(here.site.url(), FetchOptions(), progress))

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(ask, number)
            await anyio.wait_all_tasks_blocked()
            let_go.set()

        assert len(results) == 5
        assert len({id(result.entry) for result in results}) == 1
        assert len(here.requests()) == 1
        assert {number for number, done in told if done == 100_000} == set(range(5))


class Waiting:
    """A page that says when it is asked for, and answers when it may."""

    def __init__(self) -> None:
        self.asked = anyio.Event()
        self.let_go = anyio.Event()

    async def __call__(self, ask: Ask) -> None:
        self.asked.set()
        await self.let_go.wait()
        await ask.reply(b"here", Content_Type="text/plain")


async def test_a_request_that_nobody_waits_for_is_given_up_and_the_next_one_asks_anew() -> None:
    page = Waiting()
    async with shelf({"/": in_turn(page, text("there", Content_Type="text/plain"))}) as here:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(here.library.fetch, here.site.url())
                await page.asked.wait()
                tasks.cancel_scope.cancel()
            fetched = await here.library.fetch(here.site.url())

        assert fetched.entry.packet["content"].strip() == "there"


async def test_leaving_the_library_gives_up_what_is_on_its_way() -> None:
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks, shelf({"/": silent}) as here:

            async def ask() -> None:
                with pytest.raises(BaseException):  # noqa: B017, PT011 - cancelled, from another's point of view
                    await here.library.fetch(here.site.url())

            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (404, "Not Found"),
        (410, "gone for good"),
        (401, "login"),
        (403, "refuses"),
        (429, "too many requests"),
        (500, "later"),
    ],
)
async def test_an_answer_that_is_an_error_is_one_with_its_status_its_title_and_a_cure(status: int, says: str) -> None:
    page = html('<title>Oh "no"\u200b &amp; more\nlines</title><p>Some text that is long enough.</p>')
    body = text('<title>Oh "no"\u200b &amp; more\nlines</title>', status, Content_Type="text/html; charset=utf-8")
    async with shelf({"/": body, "/good": page}) as here:
        with pytest.raises(HttpFailed, match=says) as caught:
            await here.library.fetch(here.site.url())

        assert caught.value.status == status
        assert str(status) in str(caught.value)
        assert "\"Oh 'no' & more lines\"" in str(caught.value)
        assert here.heard() == ([], 0)


async def test_an_error_with_a_status_that_has_no_name_is_told_all_the_same() -> None:
    async with shelf({"/": text("", 499)}) as here:
        with pytest.raises(HttpFailed, match="answered 499: check the request"):
            await here.library.fetch(here.site.url())


async def test_what_nothing_reads_is_kept_as_bytes_and_said_to_be_what_it_is() -> None:
    image = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
    async with shelf({"/a/picture%20one.png": text(image, Content_Type="image/png")}) as here:
        fetched = await here.library.fetch(here.site.url("/a/picture one.png"))

        packet = fetched.entry.packet
        assert packet["content"].startswith("image/png, 264 bytes, SHA-256 ")
        assert packet["metadata"].get("title") == "picture one.png"
        assert (fetched.entry.raw, fetched.entry.raw_type) == (image, "image/png")
        assert "extraction_fallback" in warnings(fetched)


async def test_other_bytes_of_the_same_size_are_another_version() -> None:
    page = in_turn(*(text(b"\x89PNG\r\n\x1a\n" + byte, Content_Type="image/png") for byte in (b"\0", b"\1")))
    async with shelf({"/": page}) as here:
        await here.library.fetch(here.site.url())
        fetched = await here.library.fetch(here.site.url(), FetchOptions(cache_ttl=0))

        assert fetched.put is not None
        assert fetched.put.changed


async def test_the_bytes_are_kept_when_they_are_asked_for_and_fetched_anew_if_they_were_not() -> None:
    async with shelf({"/": Changing(ARTICLE, "text/html")}) as here:
        plain = await here.library.fetch(here.site.url())
        with_raw = await here.library.fetch(here.site.url(), FetchOptions(keep_raw=True))
        again = await here.library.fetch(here.site.url(), FetchOptions(keep_raw=True))

        assert plain.entry.raw is None
        assert (with_raw.entry.raw, with_raw.entry.raw_type) == (ARTICLE.encode(), "text/html")
        assert again.from_cache
        assert again.entry.raw == ARTICLE.encode()
        assert [ask.headers.get("if-none-match") for ask in here.requests()] == [None, None]
        assert (await here.library.fetch(here.site.url())).from_cache, "who does not ask for bytes may get them"


async def test_an_empty_page_is_no_success_without_a_word() -> None:
    async with shelf({"/": html(""), "/nothing": text("", 204)}) as here:
        for path in ("/", "/nothing"):
            assert "empty" in warnings(await here.library.fetch(here.site.url(path)))


async def test_a_page_of_scripts_says_so_and_what_to_do() -> None:
    async with shelf({"/": html(SCRIPT)}) as here:
        fetched = await here.library.fetch(here.site.url())

        said = [warning["message"] for warning in fetched.entry.packet["warnings"] if warning["type"] == "empty"]
        assert len(said) == 1
        assert "--render" in said[0]


@pytest.mark.parametrize(("why", "says"), [("login", "login"), ("scanned", "pictures"), ("empty", "no text")])
async def test_why_a_page_says_nothing_is_said(why: str, says: str) -> None:
    class Empty(InThread):
        async def extract(self, *_: Any) -> Extracted:
            return Extracted("page", "none", empty=why)

    async with shelf({"/": html(ARTICLE)}, workers=Empty()) as here:
        fetched = await here.library.fetch(here.site.url())

        assert says in next(each["message"] for each in fetched.entry.packet["warnings"] if each["type"] == "empty")


async def test_a_page_that_ended_too_early_says_so() -> None:
    cut = gzip.compress(ARTICLE.encode() * 50)[:-200]
    async with shelf({"/": text(cut, Content_Type="text/html", Content_Encoding="gzip")}) as here:
        assert "truncated" in warnings(await here.library.fetch(here.site.url()))


async def test_when_to_ask_again_is_told_if_the_site_says_so() -> None:
    async with shelf({"/": text("", 503, Retry_After="120")}) as here:
        with pytest.raises(HttpFailed, match="in 120 s"):
            await here.library.fetch(here.site.url())


async def test_a_library_that_tells_nobody_works_as_well() -> None:
    async with shelf({"/": text("x"), "/2": text("y")}) as here:
        alone = WebLibrary(here.library.fetcher, InThread(), here.store)
        assert (await alone.fetch(here.site.url())).entry.packet["content"].strip() == "x"


async def test_selectors_that_are_not_understood_are_an_error_of_the_request() -> None:
    async with shelf({"/": html(ARTICLE)}) as here:
        options = FetchOptions(extraction=Extraction(remove_selectors=["p:hover"]))
        with pytest.raises(BadRequest, match="not supported"):
            await here.library.fetch(here.site.url(), options)


async def test_a_page_that_cannot_be_read_is_an_error_and_nothing_is_kept() -> None:
    class Broken(InThread):
        async def extract(self, *_: Any) -> Extracted:
            raise ExtractionFailed("bomb", "It is a bomb: leave it.")

    async with shelf({"/": html(ARTICLE)}, workers=Broken()) as here:
        with pytest.raises(ExtractionFailed, match="bomb"):
            await here.library.fetch(here.site.url())
        assert await here.store.page_of(here.site.url()) is None


async def test_a_redirect_is_recorded_and_its_target_is_another_page() -> None:
    async with shelf({"/old": leads_to("/new"), "/new": html(ARTICLE)}) as here:
        fetched = await here.library.fetch(here.site.url("/old"))

        assert fetched.entry.packet["canonical_url"] == here.site.url("/new")
        assert fetched.entry.packet.get("final_url") == here.site.url("/new")
        assert (await page_at(here, "/old")).page_id == fetched.entry.page_id
        assert await here.store.page_of(here.site.url("/new")) is None
        assert (await here.library.fetch(here.site.url("/old"))).from_cache


async def test_bytes_that_the_caller_has_become_a_version_without_any_request() -> None:
    async with shelf({}) as here:
        fetched = await here.library.extract(ARTICLE.encode(), "text/html", here.site.url("/x"), FetchOptions())

        assert "raining in the north" in fetched.entry.packet["content"]
        assert fetched.entry.packet["canonical_url"] == here.site.url("/x")
        assert here.requests() == []
        assert here.heard() == ([], 1)


async def test_bytes_that_the_caller_has_are_no_answer_for_who_fetches() -> None:
    async with shelf({"/": html(ARTICLE)}) as here:
        await here.library.extract(b"Something else", "text/plain", here.site.url(), FetchOptions())
        fetched = await here.library.fetch(here.site.url())

        assert "raining" in fetched.entry.packet["content"]


async def test_pdf_files_are_kept_as_bytes_where_they_are_not_to_be_read() -> None:
    body = b"%PDF-1.4 whatever"
    async with shelf({"/": text(body, Content_Type="application/pdf")}, pdf=False) as here:
        fetched = await here.library.fetch(here.site.url())

        assert fetched.entry.raw == body
        assert fetched.entry.packet["content"].startswith("application/pdf")


async def test_the_limits_of_a_request_are_kept_to() -> None:
    async with shelf({"/": text("x" * 5000), "/slow": silent}) as here:
        with pytest.raises(ResponseTooLarge):
            await here.library.fetch(here.site.url(), FetchOptions(max_bytes=1000))
        port = here.site.port
    async with shelf({}) as here:
        with pytest.raises(Unreachable):
            await here.library.fetch(f"http://127.0.0.1:{port}/")


async def test_what_is_evicted_to_make_room_is_told_as_a_change_of_the_list() -> None:
    pages = {f"/{number}": text(f"page {number}", Content_Type="text/plain") for number in range(3)}
    async with shelf(pages, storing={"max_entries": 2}) as here:
        results = [await here.library.fetch(here.site.url(path)) for path in pages]

        assert results[2].put is not None
        assert results[2].put.gone == (results[0].entry.packet["source_id"],)
        assert here.heard() == ([], 3)


async def test_what_expired_is_told_even_if_what_came_was_there_before() -> None:
    pages = {path: text(path, Content_Type="text/plain") for path in ("/old", "/new")}
    async with shelf(pages, storing={"ttl": 100.0}) as here:
        await here.fetch("/old")
        here.clock.now += 60
        await here.fetch("/new")
        here.heard()
        here.clock.now += 60
        again = await here.library.fetch(here.site.url("/new"), FetchOptions(cache_ttl=0))

        assert again.put is not None
        assert (again.put.new, len(again.put.gone)) == (False, 1)
        assert here.heard() == ([], 1)


class Rendered:
    def __init__(self, html: str, url: str, screenshot: bytes | None = None) -> None:
        self.html = html.encode()
        self.url = url
        self.screenshot = screenshot
        self.warnings = (ExtractWarning("render_timeout", "It was not quite done."),)
        self.missing = ""


class Renderer:
    """Renders what a test says, instead of a browser."""

    def __init__(self, html: str = ARTICLE, error: FetchError | None = None) -> None:
        self.html = html
        self.error = error
        self.asked: list[tuple[str, RenderOptions]] = []

    async def render(self, url: str, options: RenderOptions, request: Request) -> Rendered:
        self.asked.append((url, options))
        if self.error:
            raise self.error
        return Rendered(self.html, url, b"\x89PNG" if options.screenshot else None)


async def test_a_page_of_scripts_is_rendered_where_that_is_offered() -> None:
    renderer = Renderer()
    async with shelf({"/": html(SCRIPT)}, renderer=renderer) as here:
        fetched = await here.library.fetch(here.site.url())

        assert "raining in the north" in fetched.entry.packet["content"]
        assert warnings(fetched) == ["render_timeout"]
        assert len(renderer.asked) == 1


async def test_a_page_with_text_is_not_rendered_unless_it_is_asked_for() -> None:
    renderer = Renderer()
    async with shelf({"/": html(ARTICLE)}, renderer=renderer) as here:
        await here.library.fetch(here.site.url())
        assert renderer.asked == []
        await here.library.fetch(here.site.url(), FetchOptions(mode="render"))
        assert len(renderer.asked) == 1


async def test_with_mode_http_nothing_is_rendered() -> None:
    renderer = Renderer()
    async with shelf({"/": html(SCRIPT)}, renderer=renderer) as here:
        fetched = await here.library.fetch(here.site.url(), FetchOptions(mode="http"))

        assert "empty" in warnings(fetched)
        assert renderer.asked == []


async def test_a_page_that_says_nothing_even_when_it_is_rendered_says_so() -> None:
    async with shelf({"/": html(SCRIPT)}, renderer=Renderer(SCRIPT)) as here:
        fetched = await here.library.fetch(here.site.url())

        message = next(each["message"] for each in fetched.entry.packet["warnings"] if each["type"] == "empty")
        assert "rendering" in message
        assert "--render" not in message


async def test_a_page_that_cannot_be_rendered_is_what_it_is_without() -> None:
    renderer = Renderer(error=FetchError("The browser is gone.", url="x"))
    async with shelf({"/": html(SCRIPT)}, renderer=renderer) as here:
        fetched = await here.library.fetch(here.site.url())

        assert {"empty", "extraction_fallback"} <= set(warnings(fetched))


async def test_a_screenshot_is_kept_beside_the_packet() -> None:
    async with shelf({"/": html(ARTICLE)}, renderer=Renderer()) as here:
        options = FetchOptions(render=RenderOptions(screenshot=True))
        fetched = await here.library.fetch(here.site.url(), options)
        kept = await here.store.get(fetched.entry.packet["source_id"])

        assert kept is not None
        assert kept.screenshot == b"\x89PNG"


async def test_what_a_browser_does_not_show_is_fetched_without_a_screenshot_and_says_so() -> None:
    class NotRendered(FetchError, kind="not-rendered"):
        pass

    renderer = Renderer(error=NotRendered("It is text.", url="x"))
    options = FetchOptions(render=RenderOptions(screenshot=True), cache_ttl=0)
    async with shelf({"/": text("plain", Content_Type="text/plain")}, renderer=renderer) as here:
        fetched = await here.library.fetch(here.site.url(), options)

        assert fetched.entry.packet["content"].strip() == "plain"
        assert "There is no screenshot: It is text." in [each["message"] for each in fetched.entry.packet["warnings"]]
        renderer.error = FetchError("The browser is gone.", url="x")
        with pytest.raises(FetchError, match="browser"):
            await here.library.fetch(here.site.url(), options)


@pytest.mark.parametrize("options", [FetchOptions(mode="render"), FetchOptions(render=RenderOptions(screenshot=True))])
async def test_without_a_renderer_what_needs_one_is_refused_with_a_cure(options: FetchOptions) -> None:
    async with shelf({"/": html(ARTICLE)}) as here:
        with pytest.raises(NoRenderer, match="--render"):
            await here.library.fetch(here.site.url(), options)


async def test_a_packed_page_is_read() -> None:
    packed = text(gzip.compress(ARTICLE.encode()), Content_Type="text/html", Content_Encoding="gzip")
    async with shelf({"/": packed}) as here:
        fetched = await here.library.fetch(here.site.url(), FetchOptions(include_raw_excerpt=True))

        assert "raining" in fetched.entry.packet["content"]
        assert "On rain" in fetched.entry.packet["raw_excerpt"]


async def test_a_page_that_must_not_be_stored_is_requested_each_time() -> None:
    async with shelf({"/": html(ARTICLE, Cache_Control="private, No-Store")}) as here:
        for _ in range(3):
            assert not (await here.library.fetch(here.site.url())).from_cache
        assert len(here.requests()) == 3
