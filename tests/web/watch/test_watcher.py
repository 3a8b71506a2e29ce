"""Watched pages: looked at when they are due, and told of once when they have changed."""

import logging
import threading
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import anyio
import pytest

from tests.web.fetch.servers import Ask, leads_to, silent, site, text
from tests.web.shelf import BEGINNING, PACE, Changing, Clock, InThread, both, shelf
from tidings.web.extract.model import Extracted, ExtractionFailed
from tidings.web.ignore import IgnoreRules
from tidings.web.library import PageUnknown
from tidings.web.page_options import Extraction, FetchOptions
from tidings.web.settings import Settings
from tidings.web.store.model import StoredWatch, StoreError
from tidings.web.watch.state import Intervals, WatchPlan, WatchState
from tidings.web.watch.watcher import TOOL, TooManyWatches

pytestmark = pytest.mark.anyio


def feed(*titles: str) -> str:
    items = "".join(
        f"<item><guid>{title}</guid><title>{title}</title><link>https://example.org/{title}</link></item>"
        for title in titles
    )
    return f'<?xml version="1.0"?><rss version="2.0"><channel><title>News</title>{items}</channel></rss>'


async def test_a_page_that_has_changed_is_told_of_once_with_its_diff_and_the_list() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        page.body = "two"
        assert await here.later() == 1

        assert here.heard() == (both(page_id), 1)
        known = await here.store.page_of(page_id)
        assert known is not None
        assert len(known.versions) == 2
        newest = await here.store.get(known.versions[0].source_id)
        assert newest is not None
        assert newest.packet["content"].strip() == "two"
        await here.later()
        await here.later()
        assert here.heard() == ([], 0)


async def test_a_page_that_has_not_changed_costs_one_request_without_a_body_and_no_word() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        await here.watch()
        for looks in range(1, 4):
            await here.later()
            assert page.not_modified == looks
        assert len(here.requests()) == 3
        assert here.heard() == ([], 0)


async def test_a_page_without_validators_is_compared_by_its_text() -> None:
    page = Changing("one", validators=False)
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        await here.later()
        assert here.heard() == ([], 0)
        page.body = "two"
        await here.later()
        assert here.heard() == (both(page_id), 1)


async def test_a_page_that_was_looked_at_and_is_the_same_is_fresh_for_who_fetches_it() -> None:
    async with shelf({"/": Changing("one", validators=False)}) as here:
        await here.watch()
        await here.later()
        assert (await here.library.fetch(here.site.url())).from_cache


async def test_bytes_that_differ_where_the_text_does_not_are_no_change() -> None:
    words = "<p>It rains in the north, and the rivers are as high as they have been in years.</p>"
    page = Changing(f"<html><body><!-- 1 -->{words}</body></html>", "text/html")
    async with shelf({"/": page}) as here:
        await here.watch()
        page.body = f"<html><head><script>var x = 2</script></head><body class=new><!-- 2 -->{words}</body></html>"
        await here.later()

        assert here.heard() == ([], 0)


async def test_a_subscription_to_a_page_that_has_changed_since_it_was_fetched_tells_it_at_the_first_look() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        page_id = await here.fetch()
        here.clock.now += 5000
        page.body = "two"
        await here.watcher.begin(page_id, "subscription")
        here.heard()

        assert await here.later(0) == 1
        assert here.heard() == (both(page_id), 1)


@pytest.mark.parametrize("now", ["one", "two"])
async def test_a_page_of_which_nothing_was_kept_is_told_of_when_it_can_be_read_again(now: str) -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        page_id = await here.fetch()
        here.clock.now += 100_000
        await here.store.prune()
        page.body = now
        await here.watcher.begin(page_id, "subscription")
        here.heard()

        assert await here.later(0) == 1
        assert here.heard() == (both(page_id), 1)
        await here.later()
        assert here.heard() == ([], 0)


async def test_a_page_that_was_just_fetched_is_not_asked_for_again_before_its_time() -> None:
    async with shelf({"/": Changing("one")}) as here:
        await here.watch()
        assert await here.later(PACE.least - 1) == 0
        assert await here.later(1) == 1


async def test_a_change_that_somebody_fetched_is_told_to_those_who_watch_without_another_request() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        await here.later()
        here.requests()
        page.body = "two"
        async with here.watcher:
            await here.fetch(options=FetchOptions(cache_ttl=0))
            await here.announced(page_id)

        assert here.heard() == (both(page_id), 1)
        assert len(here.requests()) == 1
        await here.later()
        assert here.heard() == ([], 0)


async def test_a_change_that_somebody_fetched_before_the_first_look_is_told() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        page.body = "two"
        await here.fetch(options=FetchOptions(cache_ttl=0))
        here.heard()
        await here.later()

        assert here.heard()[0] == both(page_id)


async def test_a_page_fetched_in_another_way_is_no_change_of_what_is_watched_and_hides_none() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        await here.later()
        page.body = "two"
        await here.fetch(options=FetchOptions(headers={"accept-language": "de"}))
        here.heard()
        await here.later()
        assert here.heard()[0] == both(page_id)
        await here.fetch(options=FetchOptions(headers={"accept-language": "fr"}))
        here.heard()
        await here.later()
        assert here.heard() == ([], 0)
        assert page.not_modified == 2, "what the watch knows is not lost with another way of fetching"


async def test_what_is_to_be_ignored_is_no_change_and_nothing_new_is_kept() -> None:
    page = Changing("Some text\n\nSeen by 5 people")
    async with shelf({"/": page}) as here:
        page_id = await here.watch(ignore=IgnoreRules(patterns=(r"Seen by \d+ people",)))
        for seen in range(6, 9):
            page.body = f"Some text\n\nSeen by {seen} people"
            await here.later()
        assert here.heard() == ([], 0)
        known = await here.store.page_of(page_id)
        assert known is not None
        assert len(known.versions) == 1
        await here.later()
        assert page.not_modified == 1, "the site is asked with the validators of what was seen last"
        page.body = "Some other text\n\nSeen by 9 people"
        await here.later()
        assert here.heard() == (both(page_id), 1)


async def test_who_fetches_a_page_gets_what_others_ignore() -> None:
    page = Changing("Some text\n\nSeen by 5 people")
    async with shelf({"/": page}) as here:
        await here.watch(ignore=IgnoreRules(patterns=(r"Seen by \d+ people",)))
        page.body = "Some text\n\nSeen by 6 people"
        await here.later()
        fetched = await here.library.fetch(here.site.url())

        assert "6 people" in fetched.entry.packet["content"]
        here.heard()
        await here.later()
        assert here.heard() == ([], 0)


async def test_parts_that_are_to_be_ignored_are_left_out_before_comparing() -> None:
    words = "<p>It rains in the north, and the rivers are as high as they have been in years.</p>"
    page = Changing(
        f"<body>{words}<p class=visits>5 so far, and there may be more of them soon</p></body>", "text/html"
    )
    async with shelf({"/": page}) as here:
        page_id = await here.watch(ignore=IgnoreRules(selectors=(".visits",)))
        await here.later()
        assert here.heard()[0] == [], "to read it in another way is no change of the page"
        page.body = page.body.replace("5 so far", "6 so far")
        await here.later()
        assert here.heard()[0] == []
        page.body = page.body.replace("the north", "the south")
        await here.later()
        assert here.heard()[0] == both(page_id)


async def test_a_feed_is_compared_by_its_entries() -> None:
    page = Changing(feed("a", "b"), "application/rss+xml")
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        page.body = feed("b", "a").replace("News", "News of today")
        await here.later()
        assert here.heard()[0] == []
        page.body = feed("c", "b")
        await here.later()
        assert here.heard()[0] == both(page_id)


async def test_a_page_that_redirects_elsewhere_stays_the_page_that_is_watched() -> None:
    pages: dict[str, Any] = {"/latest": leads_to("/1"), "/1": text("one"), "/2": text("two")}
    async with shelf(pages) as here:
        page_id = await here.watch("/latest")
        here.site.pages["/latest"] = leads_to("/2")
        await here.fetch("/2")
        here.heard()
        await here.later()

        assert here.heard() == (both(page_id), 1)
        known = await here.store.page_of(page_id)
        assert known is not None
        newest = await here.store.get(known.versions[0].source_id)
        assert newest is not None
        assert newest.packet["content"].strip() == "two"
        assert newest.packet["original_url"] == here.site.url("/latest")
        assert newest.packet.get("final_url") == here.site.url("/2")
        other = await here.store.page_of(here.site.url("/2"))
        assert other is not None
        assert other.page_id != page_id
        assert len(other.versions) == 1


async def test_a_page_that_is_gone_for_good_says_so_once_and_is_looked_at_less_and_less() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        page.status = 410
        await here.later(PACE.least)

        assert here.heard() == (both(page_id), 1)
        known = await here.store.page_of(page_id)
        assert known is not None
        newest = await here.store.get(known.versions[0].source_id)
        assert newest is not None
        assert "410 Gone" in newest.packet["content"]
        assert newest.packet["status"] == 410
        assert await here.later(2 * PACE.least - 1) == 0
        assert await here.later(1) == 1
        assert await here.later(4 * PACE.least - 1) == 0
        assert await here.later(1) == 1
        assert here.heard() == ([], 0)
        page.status = 200
        await here.later()
        assert here.heard()[0] == both(page_id), "that it is back is a change as well"


async def test_a_set_interval_is_kept_while_a_page_is_missing_and_its_return_is_told() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        page_id = await here.watch(cause=TOOL, every=30.0)
        await here.later(PACE.least)
        page.status = 404
        for _ in range(4):
            assert await here.later(30) == 1
        assert here.heard() == (both(page_id), 1)
        page.status = 200
        assert await here.later(30) == 1
        assert here.heard()[0] == both(page_id)
        known = await here.store.page_of(page_id)
        assert known is not None
        newest = await here.store.get(known.versions[0].source_id)
        assert newest is not None
        assert newest.packet["content"].strip() == "one"


async def test_a_page_that_is_missing_once_is_not_taken_to_be_gone() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        page.status = 404
        await here.later()
        assert here.heard() == ([], 0)
        page.status = 200
        await here.later()
        assert here.heard() == ([], 0)
        page.status = 404
        await here.later()
        await here.later()
        assert here.heard() == (both(page_id), 1)
        await here.later()
        assert here.heard() == ([], 0)


async def test_who_fetches_a_page_that_is_gone_gets_no_tombstone_for_an_answer() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        await here.watch()
        page.status = 410
        await here.later()
        with pytest.raises(Exception, match="410 Gone"):
            await here.fetch()


async def test_a_page_that_is_empty_once_is_not_taken_to_have_changed() -> None:
    page = Changing("<p>It rains in the north, and the rivers are as high as ever.</p>", "text/html")
    said = page.body
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        page.body = ""
        await here.later()
        page.body = said
        await here.later()
        assert here.heard() == ([], 0)
        page.body = ""
        await here.later()
        await here.later()
        assert here.heard() == (both(page_id), 1)


async def test_failures_make_the_wait_longer_each_time_and_say_why() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        page.status = 500
        waits: list[float] = []
        await here.later(PACE.least)
        for failures in range(1, 4):
            watch = await here.store.watch_of(page_id)
            assert watch is not None
            assert watch.failures == failures
            assert "500" in (WatchState.from_json(watch.state).problem or "")
            waits.append(watch.next_at - here.clock.now)
            await here.later(waits[-1])
        assert waits == [20, 40, 80]
        page.status = 200
        page.body = "two"
        await here.later()
        watch = await here.store.watch_of(page_id)
        assert watch is not None
        assert (watch.failures, WatchState.from_json(watch.state).problem) == (0, None)
        assert here.heard() == (both(page_id), 1)


async def test_a_site_that_says_when_to_come_again_is_left_alone_until_then() -> None:
    page = Changing("one", Retry_After="5000")
    async with shelf({"/": page}) as here:
        await here.watch()
        page.status = 503
        await here.later()
        assert len(here.requests()) == 1
        assert await here.later(4999) == 0
        assert await here.later(1) == 1


async def test_a_look_that_the_rate_limit_leaves_no_time_for_is_no_failure() -> None:
    limits = Settings(timeout=3.0, requests_per_minute=3, retries=0)
    async with shelf({"/": Changing("one"), "/2": Changing("two")}, limits=limits) as here:
        ids = [await here.watch("/"), await here.watch("/2")]
        await here.later()

        assert here.requests() == []
        for page_id in ids:
            watch = await here.store.watch_of(page_id)
            assert watch is not None
            assert (watch.failures, watch.next_at - here.clock.now) == (0, PACE.least)


async def test_a_look_that_no_worker_had_time_for_is_no_failure() -> None:
    class Busy(InThread):
        async def extract(self, *args: Any) -> Extracted:
            if self.read:
                raise ExtractionFailed("busy", "Try again later.")
            return await super().extract(*args)

    page = Changing("one")
    async with shelf({"/": page}, workers=Busy()) as here:
        page_id = await here.watch()
        page.body = "two"
        await here.later()
        watch = await here.store.watch_of(page_id)
        assert watch is not None
        assert watch.failures == 0


@pytest.mark.parametrize("error", [ExtractionFailed("bomb", "It is a bomb."), RuntimeError("a mistake")])
async def test_a_page_that_cannot_be_read_any_more_fails_alone(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(InThread):
        async def extract(self, body: bytes, *args: Any) -> Extracted:
            if body == b"broken":
                raise error
            return await super().extract(body, *args)

    bad, good = Changing("one"), Changing("one")
    async with shelf({"/bad": bad, "/good": good}, workers=Broken()) as here:
        bad_id, good_id = await here.watch("/bad"), await here.watch("/good")
        bad.body, good.body = "broken", "two"
        with caplog.at_level(logging.CRITICAL):
            await here.later()

        assert here.heard() == (both(good_id), 1)
        watch = await here.store.watch_of(bad_id)
        assert watch is not None
        assert watch.failures == 1
        assert WatchState.from_json(watch.state).problem


async def test_a_look_that_takes_too_long_is_given_up_before_its_claim_ends() -> None:
    page = Changing("one")
    async with shelf({"/": page}, watching={"lease": 0.2}) as here:
        page_id = await here.watch()
        here.site.pages["/"] = silent
        await here.later()
        watch = await here.store.watch_of(page_id)
        assert watch is not None
        assert watch.failures == 1


async def test_robots_are_respected_at_each_look() -> None:
    page = Changing("one")
    async with shelf({"/": page, "/robots.txt": text("User-agent: *\nDisallow: /private")}) as here:
        await here.watch()
        here.site.pages["/"] = leads_to("/private")
        await here.later()

        assert [ask.path for ask in here.requests()] == ["/"]


async def test_the_interval_follows_what_the_page_does_and_says() -> None:
    page, steady = Changing("0"), Changing("one", Cache_Control="max-age=700")
    async with shelf({"/": page, "/steady": steady}) as here:
        page_id, steady_id = await here.watch("/"), await here.watch("/steady")
        waits: list[float] = []
        await here.later(PACE.least)
        for number in range(1, 4):
            watch = await here.store.watch_of(page_id)
            assert watch is not None
            waits.append(watch.next_at - here.clock.now)
            page.body = str(number)
            await here.later(waits[-1])
        assert waits == [100, 50, 25]
        watch = await here.store.watch_of(steady_id)
        assert watch is not None
        assert watch.next_at == BEGINNING + PACE.least + 700


async def test_an_interval_that_was_asked_for_is_kept_to() -> None:
    async with shelf({"/": Changing("one", Cache_Control="max-age=700")}) as here:
        page_id = await here.watch(cause=TOOL, every=30.0)
        for _ in range(3):
            await here.later(30)
            watch = await here.store.watch_of(page_id)
            assert watch is not None
            assert watch.next_at == here.clock.now + 30


async def test_chance_makes_the_wait_longer() -> None:
    limits = {"limits": type(PACE)(first=100.0, least=10.0, most=1000.0, jitter=0.5), "random": lambda: 1.0}
    async with shelf({"/": Changing("one")}, watching=limits) as here:
        page_id = await here.watch()
        await here.later(PACE.least)
        watch = await here.store.watch_of(page_id)
        assert watch is not None
        assert watch.next_at == here.clock.now + 150


async def test_a_page_is_watched_until_the_last_cause_is_gone() -> None:
    async with shelf({"/": Changing("one")}) as here:
        page_id = await here.watch(cause="page")
        await here.watcher.begin(page_id, "diff")
        await here.watcher.begin(page_id, "diff")
        await here.watcher.begin(page_id, TOOL)

        assert await here.watcher.end(page_id, "page")
        assert await here.watcher.end(page_id, "diff")
        assert await here.later() == 1
        assert not await here.watcher.end(page_id, TOOL)
        assert await here.later() == 0
        assert not await here.watcher.end(page_id, "never begun")


async def test_a_watch_that_ends_while_the_store_fails_is_ended_when_it_works_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with shelf({"/": Changing("one")}, watching={"rest": 0.01}) as here:
        page_id = await here.watch()
        ends = here.store.end_watch

        async def locked(*_: Any, **__: Any) -> bool:
            raise StoreError("it is locked")

        monkeypatch.setattr(here.store, "end_watch", locked)
        with pytest.raises(StoreError):
            await here.watcher.end(page_id, "subscription")
        monkeypatch.setattr(here.store, "end_watch", ends)
        async with here.watcher:
            with anyio.fail_after(20):
                while await here.store.watch_of(page_id):  # noqa: ASYNC110 - ended by a task of its own
                    await anyio.sleep(0.01)
        await here.later()
        assert here.requests() == []


async def test_who_comes_back_after_a_watch_could_not_be_ended_is_still_told(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        ends = here.store.end_watch

        async def locked(*_: Any, **__: Any) -> bool:
            raise StoreError("it is locked")

        monkeypatch.setattr(here.store, "end_watch", locked)
        with pytest.raises(StoreError):
            await here.watcher.end(page_id, "subscription")
        monkeypatch.setattr(here.store, "end_watch", ends)
        await here.watcher.begin(page_id, "subscription")
        page.body = "two"
        async with here.watcher:
            here.clock.now += PACE.most
            await here.watcher.nudge(page_id)
            with anyio.fail_after(20):
                while not here.told:  # noqa: ASYNC110 - told by a task of its own
                    await anyio.sleep(0.01)
        assert here.heard()[0] == both(page_id)


async def test_a_page_that_nobody_knows_cannot_be_watched() -> None:
    async with shelf({"/": Changing("one")}) as here:
        given = await here.library.extract(b"text", "text/plain", here.site.url("/given"))
        for page_id in ("0" * 16, given.entry.page_id, here.site.url("/given")):
            with pytest.raises(PageUnknown):
                await here.watcher.begin(page_id, "subscription")


async def test_a_page_that_went_while_its_watch_began_cannot_be_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(*_: Any, **__: Any) -> None:
        return None

    async with shelf({"/": Changing("one")}) as here:
        page_id = await here.fetch()
        monkeypatch.setattr(here.store, "begin_watch", none)
        with pytest.raises(PageUnknown):
            await here.watcher.begin(page_id, "subscription")


async def test_no_more_pages_are_watched_than_may_be() -> None:
    async with shelf({f"/{n}": Changing(f"{n}") for n in range(3)}, watching={"most": 2}) as here:
        ids = [await here.fetch(f"/{number}") for number in range(3)]
        for page_id in ids[:2]:
            await here.watcher.begin(page_id, "subscription")
        with pytest.raises(TooManyWatches, match="--max-watches"):
            await here.watcher.begin(ids[2], "subscription")
        await here.watcher.begin(ids[1], TOOL)
        await here.watcher.end(ids[0], "subscription")
        await here.watcher.begin(ids[2], "subscription")


async def test_a_change_that_could_not_be_told_is_told_at_the_next_look(caplog: pytest.LogCaptureFixture) -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        page.body = "two"
        here.deaf = True
        with caplog.at_level(logging.CRITICAL):
            await here.later()
        here.deaf = False
        await here.later()
        assert here.heard()[0] == both(page_id)
        await here.later()
        assert here.heard() == ([], 0)


async def test_a_watch_by_the_tool_survives_a_restart_and_tells_what_changed_meanwhile(tmp_path: Path) -> None:
    page, clock, path = Changing("one"), Clock(), tmp_path / "pages"
    async with site({"/": page}) as here:
        async with shelf(here=here, clock=clock, path=path) as before:
            page_id = await before.watch(cause=TOOL)
            await before.later()
        page.body = "two"
        async with shelf(here=here, clock=clock, path=path) as after:
            assert await after.later() == 1
            assert after.heard() == (both(page_id), 1)


async def test_a_subscription_ends_with_its_process(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "pages"
    async with site({"/": Changing("one")}) as here:
        async with shelf(here=here, clock=clock, path=path) as before:
            await before.watch()
        async with shelf(here=here, clock=clock, path=path) as after:
            assert await after.later() == 0


async def test_a_process_that_stopped_between_storing_and_telling_loses_nothing(tmp_path: Path) -> None:
    page, clock, path = Changing("one"), Clock(), tmp_path / "pages"
    async with site({"/": page}) as here:
        async with shelf(here=here, clock=clock, path=path) as before:
            page_id = await before.watch(cause=TOOL)
            await before.later()
            page.body = "two"
            telling = anyio.Event()

            async def never_done(*_: Any) -> None:
                telling.set()
                await anyio.sleep_forever()

            before.library.on_change = never_done
            with anyio.fail_after(20):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(before.later)
                    await telling.wait()
                    tasks.cancel_scope.cancel()
        async with shelf(here=here, clock=clock, path=path) as after:
            assert await after.later(0) == 1
            assert after.heard()[0] == both(page_id)
            await after.later()
            assert after.heard() == ([], 0)


@pytest.mark.parametrize("looks", [0, 1])
@pytest.mark.parametrize("away", [1.0, 1000.0])
async def test_a_process_that_was_killed_between_storing_and_telling_a_subscriber_loses_nothing(
    looks: int, away: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, clock, path = Changing("one"), Clock(), tmp_path / "pages"
    async with site({"/": page}) as here:
        async with shelf(here=here, clock=clock, path=path) as before:
            page_id = await before.watch()
            for _ in range(looks):
                await before.later()
            page.body = "two"
            telling = anyio.Event()

            async def never_done(*_: Any) -> None:
                telling.set()
                await anyio.sleep_forever()

            before.library.on_change = never_done
            with anyio.fail_after(20):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(before.later)
                    await telling.wait()
                    # Whoever is killed takes no leave.
                    monkeypatch.setattr("tidings.web.store.watches.leave", lambda _: None)
                    monkeypatch.setattr("tidings.web.store.store.Store.release", AsyncMock())
                    tasks.cancel_scope.cancel()
        clock.now += away
        async with shelf(here=here, clock=clock, path=path) as after:
            await after.watcher.begin(page_id, "subscription")
            await after.later()
            await after.later()
            assert after.heard() == (both(page_id), 0)


async def test_of_two_processes_on_one_store_only_one_looks_at_a_page(tmp_path: Path) -> None:
    pages = {f"/{number}": Changing("one") for number in range(40)}
    clock, path = Clock(), tmp_path / "pages"
    async with (
        shelf(dict(pages), clock=clock, path=path) as one,
        shelf(here=one.site, clock=clock, path=path) as other,
    ):
        ids = [await one.watch(each) for each in pages]
        for page_id in ids[:20]:
            await other.watcher.begin(page_id, "subscription")
        changed = {"/3", "/21", "/39"}
        for each in changed:
            pages[each].body = "two"
        clock.now += PACE.most
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.look_at_all_due)
            tasks.start_soon(other.look_at_all_due)

        assert sorted(ask.path for ask in one.requests()) == sorted(pages)
        expected = [uri for each in changed for uri in both(ids[list(pages).index(each)])]
        assert sorted(one.told + other.told) == sorted(expected)
        assert one.lists + other.lists == len(changed)


async def test_a_page_whose_process_is_gone_is_looked_at_by_another(tmp_path: Path) -> None:
    page, clock, path = Changing("one"), Clock(), tmp_path / "pages"
    async with shelf({"/": page}, clock=clock, path=path) as one, shelf(here=one.site, clock=clock, path=path) as other:
        page_id = await one.watch()
        await other.watcher.begin(page_id, "subscription")
        page.body = "two"
        clock.now += PACE.most
        # It claims the page, and is never heard of again.
        assert len(await one.store.due(1, 180.0)) == 1
        assert await other.look_at_all_due() == 0
        clock.now += 180
        assert await other.look_at_all_due() == 1
        assert other.heard()[0] == both(page_id)


async def test_a_change_that_is_found_while_nobody_watches_is_announced_for_clients_that_were_cut_off() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here, here.watcher:
        page_id = await here.watch()
        await here.watcher.end(page_id, "subscription")
        page.body = "two"
        await here.fetch(options=FetchOptions(cache_ttl=0))
        assert here.heard() == (both(page_id), 1)


async def test_a_change_that_one_process_fetched_is_told_though_only_another_has_subscribers(tmp_path: Path) -> None:
    page, clock, path = Changing("one"), Clock(), tmp_path / "pages"
    async with (
        site({"/": page}) as here,
        shelf(here=here, clock=clock, path=path) as one,
        shelf(here=here, clock=clock, path=path) as other,
    ):
        page_id = await one.watch()
        await one.later()
        page.body = "two"
        async with other.watcher:
            await other.fetch(options=FetchOptions(cache_ttl=0))
            await other.announced(page_id)
        assert other.heard()[0] == both(page_id)
        assert await one.later(0) == 0


async def test_a_look_on_its_way_swallows_neither_a_change_that_somebody_fetched_nor_its_validators() -> None:
    page, slow = Changing("one"), anyio.Event()

    async def first_slowly(ask: Ask) -> None:
        if not slow.is_set():
            slow.set()
            await arrived.wait()
            await ask.reply(b"one", Content_Type="text/plain", ETag='"of one"')
        else:
            await page(ask)

    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        arrived = anyio.Event()
        here.site.pages["/"] = first_slowly
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(here.later)
                await slow.wait()
                page.body = "two"
                here.library.on_new_version = here.watcher.nudge
                await here.fetch(options=FetchOptions(cache_ttl=0))
                arrived.set()

        assert here.heard()[0] == both(page_id)
        known = await here.store.page_of(page_id)
        assert known is not None
        assert known.etag != '"of one"'


async def test_it_runs_by_itself_and_stops_at_once_with_what_it_claimed_given_back() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        page.body = "two"
        here.clock.now += PACE.most
        with anyio.fail_after(20):
            async with here.watcher:
                while not here.told:  # noqa: ASYNC110 - told by a task of its own
                    await anyio.sleep(0.01)
            asked = anyio.Event()

            async def waits(_: Ask) -> None:
                asked.set()
                await anyio.sleep_forever()

            here.site.pages["/"] = waits
            here.clock.now += PACE.most
            async with here.watcher:
                await asked.wait()
                beginning = anyio.current_time()
        assert anyio.current_time() - beginning < 10
        assert here.heard() == (both(page_id), 1)
        assert len(await here.store.due(5, 180.0)) == 1, "nobody has to wait until a claim ends that nobody holds"


async def test_what_is_being_claimed_when_it_stops_is_given_back() -> None:
    async with shelf({"/": Changing("one")}) as here:
        await here.watch()
        here.clock.now += PACE.most
        slow = threading.Event()
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                begun = here.store._in_thread(slow.wait)  # pyright: ignore[reportPrivateUsage]
                async with here.watcher:
                    await anyio.wait_all_tasks_blocked()
                    tasks.start_soon(_set_later, slow)
                await begun
        assert len(await here.store.due(5, 180.0)) == 1


async def _set_later(event: threading.Event) -> None:
    await anyio.sleep(0.1)
    event.set()


async def test_no_more_pages_are_looked_at_at_once_than_may_be_and_of_one_host_half_of_that() -> None:
    at_once = most = 0

    class Counted(Changing):
        async def __call__(self, ask: Ask) -> None:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await anyio.sleep(0.005)
            at_once -= 1
            await super().__call__(ask)

    pages = {f"/{number}": Counted("one") for number in range(12)}
    limits = Settings(timeout=20.0, requests_per_minute=10_000, retries=0, per_host=20)
    async with shelf(dict(pages), limits=limits, watching={"at_once": 6, "rest": 0.01}) as here:
        for path in pages:
            await here.watch(path)
        most = 0
        here.clock.now += PACE.most
        with anyio.fail_after(20):
            async with here.watcher:
                while len(set(here.site.paths())) < 12:
                    # Those of a host that has its share are put off for five seconds.
                    here.clock.now += 5
                    await anyio.sleep(0.02)
        assert most == 3


async def test_a_page_is_put_off_no_longer_than_the_shortest_interval() -> None:
    asked = anyio.Event()

    async def never(_: Ask) -> None:
        asked.set()
        await anyio.sleep_forever()

    pace = {"limits": Intervals(least=1.0), "at_once": 2, "rest": 0.01}
    async with shelf({"/": Changing("one"), "/2": Changing("two")}, watching=pace) as here:
        for path in ("/", "/2"):
            await here.watch(path)
            here.site.pages[path] = never
        here.clock.now += 1000.0
        put_off = anyio.Event()
        reschedule = here.store.reschedule

        async def rescheduled(page_id: str, next_at: float, **how: Any) -> None:
            assert next_at <= here.clock.now + 1.0
            put_off.set()
            await reschedule(page_id, next_at, **how)

        here.store.reschedule = rescheduled  # type: ignore[method-assign]
        with anyio.fail_after(20):
            async with here.watcher:
                await asked.wait()
                await put_off.wait()


async def test_while_all_hands_are_full_the_process_says_that_it_lives() -> None:
    async with shelf({"/": Changing("one"), "/2": Changing("two")}, watching={"at_once": 1}) as here:
        page_id = await here.watch("/")
        asked = anyio.Event()

        async def waits(_: Ask) -> None:
            asked.set()
            await anyio.sleep_forever()

        here.site.pages["/"] = waits
        here.clock.now += PACE.most
        beaten = anyio.Event()
        beat = here.store.heartbeat

        async def heartbeat() -> None:
            await beat()
            beaten.set()

        here.store.heartbeat = heartbeat  # type: ignore[method-assign]
        with anyio.fail_after(20):
            async with here.watcher:
                await asked.wait()
                await here.watcher.begin(page_id, "another")
                await beaten.wait()


async def test_a_slow_host_does_not_keep_the_pages_of_others_waiting() -> None:
    slow = {f"/{number}": Changing("one") for number in range(6)}
    page = Changing("one")
    asked = 0

    async def never(_: Ask) -> None:
        nonlocal asked
        asked += 1
        await anyio.sleep_forever()

    limits = Settings(timeout=20.0, requests_per_minute=10_000, retries=0, per_host=20)
    async with (
        site({"/": page}, host="::1") as there,
        shelf(dict(slow), limits=limits, watching={"at_once": 4}) as here,
    ):
        for path in slow:
            await here.watch(path)
            here.site.pages[path] = never
        here.clock.now += 1
        page_id = (await here.library.fetch(f"http://[::1]:{there.port}/")).entry.page_id
        await here.watcher.begin(page_id, "subscription")
        here.heard()
        page.body = "two"
        here.clock.now += PACE.most
        with anyio.fail_after(20):
            async with here.watcher:
                while not here.told:  # noqa: ASYNC110 - told by a task of its own
                    await anyio.sleep(0.01)
        assert here.heard()[0] == both(page_id)
        assert asked <= 2
        put_off = [watch for watch in await here.store.watches() if watch.next_at == here.clock.now + 5]
        assert len(put_off) == 4


async def test_a_store_that_cannot_be_read_for_a_while_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    page = Changing("one")
    async with shelf({"/": page}, watching={"rest": 0.01}) as here:
        page_id = await here.watch()
        page.body = "two"
        here.clock.now += PACE.most
        due, failures = here.store.due, [StoreError("It is locked."), ValueError("odd")]

        async def sometimes(limit: int, lease: float) -> list[StoredWatch]:
            if failures:
                raise failures.pop()
            return await due(limit, lease)

        monkeypatch.setattr(here.store, "due", sometimes)
        with caplog.at_level(logging.CRITICAL), anyio.fail_after(20):
            async with here.watcher:
                while not here.told:  # noqa: ASYNC110 - told by a task of its own
                    await anyio.sleep(0.01)
        assert here.heard()[0] == both(page_id)


async def test_a_look_that_cannot_be_written_down_is_made_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        page_id = await here.watch()

        async def broken(*_: Any, **__: Any) -> Any:
            raise StoreError("The disk is full.")

        page.body = "two"
        with monkeypatch.context() as patched, caplog.at_level(logging.CRITICAL):
            patched.setattr(here.store, "put", broken)
            await here.later()
            patched.setattr(here.store, "watch_of", broken)
            await here.watcher.nudge(page_id)
        assert here.heard() == ([], 0)
        await here.later()
        assert here.heard()[0] == both(page_id)


async def test_a_clock_that_steps_back_hides_no_change_and_keeps_nobody_waiting() -> None:
    page = Changing("one")
    async with shelf({"/": page, "/other": Changing("other")}) as here:
        page_id = await here.watch()
        other = await here.fetch("/other")
        await here.later()
        here.clock.now -= 500_000
        page.body = "two"
        assert not (await here.library.fetch(here.site.url("/other"))).from_cache
        begun = await here.watcher.begin(other, "subscription")
        assert begun.next_at <= here.clock.now + PACE.least
        here.heard()
        await here.later()
        assert here.heard()[0] == both(page_id)


async def test_who_only_slept_knows_what_was_told_already() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        page.body = "two"
        await here.later()
        assert here.heard()[0] == both(page_id)
        here.clock.now += 86_000
        await here.store.prune()
        assert await here.later(0) == 1
        assert here.heard()[0] == []


async def test_a_url_that_leads_to_another_page_is_not_taken_for_the_same_because_its_marks_are() -> None:
    async def of_one(ask: Ask) -> None:
        same = ask.headers.get("if-none-match") == '"1"'
        await ask.reply(b"" if same else ask.path.encode(), 304 if same else 200, Content_Type="text/plain", ETag='"1"')

    async with shelf({"/": leads_to("/one"), "/one": of_one, "/two": of_one}) as here:
        page_id = await here.watch()
        await here.later()
        assert len(here.requests()) == 2
        here.site.pages["/"] = leads_to("/two")
        await here.later()
        assert here.heard()[0] == both(page_id)
        here.requests()
        await here.later()
        assert len(here.requests()) == 2
        found = await here.library.fetch(here.site.url(), FetchOptions(cache_ttl=0))
        assert found.entry.packet["content"].strip() == "/two"


async def test_a_watch_that_cannot_be_understood_does_not_end_the_looks_at_others(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Changing("one")
    async with shelf({"/": page, "/odd": Changing("odd")}) as here:
        page_id, odd = await here.watch(), await here.watch("/odd")
        understood = WatchPlan.from_json

        def from_json(said: Any, url: str) -> WatchPlan:
            if url.endswith("/odd"):
                raise TypeError("of another time")
            return understood(said, url)

        monkeypatch.setattr(WatchPlan, "from_json", from_json)
        page.body = "two"
        assert await here.later() == 2
        assert here.heard()[0] == both(page_id)
        assert "is checked again when its claim ends" in caplog.text
        assert await here.store.watch_of(odd) is not None


async def test_what_a_server_of_another_version_wrote_is_understood_as_far_as_it_goes() -> None:
    wish = WatchPlan.from_json({"ignore": {"ready": ["moons"]}}, "https://example.org/")

    assert wish == WatchPlan("https://example.org/", FetchOptions())
    assert WatchState.from_json({"later": 1}) == WatchState()
    assert WatchState.from_json({"validators": {"etag": "1"}}) == WatchState()


async def test_bytes_that_somebody_gave_for_a_watched_page_are_no_change_of_it_and_cost_no_more_than_one_body() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        await here.watch()
        await here.later()
        await here.library.extract(b"something else", "text/plain", here.site.url())
        here.heard()
        await here.later()
        await here.later()
        assert here.heard() == ([], 0)
        assert page.not_modified == 3


async def test_bytes_that_somebody_gave_before_the_first_look_hide_nothing() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        await here.library.extract(b"something else", "text/plain", here.site.url())
        here.heard()
        await here.later()
        assert here.heard() == ([], 0)
        await here.later()
        assert page.not_modified == 1
        page.body = "two"
        await here.later()
        assert here.heard()[0] == both(page_id)


async def test_a_page_that_nobody_watches_is_not_looked_at_when_somebody_fetches_it() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here, here.watcher:
        await here.fetch()
        page.body = "two"
        page_id = await here.fetch(options=FetchOptions(cache_ttl=0))
        assert await here.store.watch_of(page_id) is None
        with pytest.raises(PageUnknown):
            await here.library.bury("0" * 16, "x", FetchOptions(), 410)


async def test_a_rule_that_takes_too_long_is_named_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tidings.web.ignore.SECONDS", 0.05)
    page = Changing("one " + "x" * 5000 + " y")
    async with shelf({"/": page}) as here:
        page_id = await here.watch(ignore=IgnoreRules(patterns=("(?:x+x+)+y",)))
        page.body = page.body.replace("one", "two")
        await here.later()
        assert here.heard()[0] == both(page_id)
        assert "(?:x+x+)+y" in caplog.text


async def test_a_wish_and_a_state_are_the_same_after_they_were_kept() -> None:
    page = Changing("one")
    async with shelf({"/": page}) as here:
        page_id = await here.fetch(options=FetchOptions(extraction=Extraction(keep_tables=False)))
        ignore = IgnoreRules(selectors=(".x",), patterns=("y+",), ready=("dates",))
        watch = await here.watcher.begin(page_id, TOOL, ignore=ignore, every=20.0)
        wish = WatchPlan.from_json(watch.options, "?")

        assert (wish.url, wish.ignore, wish.every) == (here.site.url(), ignore, 20.0)
        assert wish.options == FetchOptions(extraction=Extraction(keep_tables=False, remove_selectors=[".x"]))
        assert WatchPlan.from_json(wish.to_json(), "?") == wish
        await here.later()
        kept = await here.store.watch_of(page_id)
        assert kept is not None
        state = WatchState.from_json(kept.state)
        assert state.seen is not None
        assert WatchState.from_json(state.to_json()) == state


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.thorough)])
async def test_many_pages_cost_one_request_each_and_exactly_those_that_changed_are_announced(count: int) -> None:
    pages = {f"/{number}": Changing(f"text {number}", validators=number % 20 > 1) for number in range(count)}
    limits = Settings(timeout=60.0, requests_per_minute=10**9, retries=0, per_host=8)
    async with shelf(dict(pages), limits=limits) as here:
        fetched = [await here.library.fetch(here.site.url(path)) for path in pages]
        ids = {path: each.entry.page_id for path, each in zip(pages, fetched, strict=True)}
        for page_id in ids.values():
            await here.watcher.begin(page_id, "subscription")
        here.heard()
        here.requests()
        changed = [path for number, path in enumerate(pages) if number % 20 == 0]
        for path in changed:
            pages[path].body += ", changed"

        assert await here.later(PACE.most) == count

        assert sorted(ask.path for ask in here.requests()) == sorted(pages)
        offered = sum(page.validators for path, page in pages.items() if path not in changed)
        assert sum(page.not_modified for page in pages.values()) == offered == count * 9 // 10
        told, lists = here.heard()
        assert sorted(told) == sorted(uri for path in changed for uri in both(ids[path]))
        assert lists == len(changed) == count // 20
        assert await here.later(PACE.least / 2) == 0, "at most one request in an interval"
