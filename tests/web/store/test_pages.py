"""Pages: found by the URLs that were asked for, with their versions, for longer than these last."""

import pytest

from tests.web.store.sample import BEGIN, Clock, opened, packet, page_id_of, put, sha
from tidings.web.store.model import StoredPage
from tidings.web.store.store import Store
from tidings.web.store.transaction import VERSIONS

pytestmark = pytest.mark.anyio

A, B, C = "https://a.example/", "https://b.example/", "https://c.example/"
DAY = 86_400


async def page(store: Store, url: str) -> StoredPage:
    found = await store.page_of(url)
    assert found
    return found


def source(url: str, content: str, at: float = BEGIN) -> str:
    return packet(url, content, at)["source_id"]


async def test_a_page_is_found_by_its_id_and_by_the_url_that_was_asked_for() -> None:
    async with opened(clock=Clock()) as store:
        await put(store, A, "text", etag='"1"')
        for name in (page_id_of(A), A):
            found = await page(store, name)
            assert (found.page_id, found.address, found.url) == (page_id_of(A), A, A)
            assert (found.etag, found.last_modified, found.checked_at) == ('"1"', None, BEGIN)
        assert await store.page_of(B) is None
        assert await store.page_of("\ud800") is None


async def test_a_page_remembers_how_it_was_fetched_and_each_version_too() -> None:
    async with opened(clock=Clock()) as store:
        await put(store, A, "one", options={"mode": "http", "headers": {"X": "1"}})
        await put(store, A, "two", BEGIN + 1, options={"mode": "render"}, last_modified="Sun, 01 Mar 2026 12:00:00 GMT")
        found = await page(store, A)
        assert found.options == {"mode": "render"}
        assert found.last_modified == "Sun, 01 Mar 2026 12:00:00 GMT"
        assert [version.options for version in found.versions] == [
            {"mode": "render"},
            {"mode": "http", "headers": {"X": "1"}},
        ]


async def test_versions_come_newest_first_and_changes_are_told() -> None:
    clock = Clock()
    async with opened(clock=clock) as store:
        first = await put(store, A, "one")
        assert (first.new, first.changed) == (True, False)
        second = await put(store, A, "two", BEGIN + 10)
        assert (second.new, second.changed) == (True, True)
        found = await page(store, A)
        assert [version.source_id for version in found.versions] == [source(A, "two"), source(A, "one")]
        assert found.content_hash == found.versions[0].content_hash == sha("two")
        assert found.versions[0].title == f"About {A}"
        newest = await store.part(source(A, "two"), "packet")
        assert newest
        assert len(str(newest[0]).encode()) == found.versions[0].size


async def test_what_was_read_in_another_way_is_no_change() -> None:
    async with opened(clock=Clock()) as store:
        await put(store, A, "whole", options={"variant": "v"})
        other = await put(store, A, "a part", BEGIN + 1, options={"variant": "w", "selector": "main"})
        assert (other.new, other.changed) == (True, False)
        same = await put(store, A, "whole", BEGIN + 2, options={"variant": "v"})
        assert (same.new, same.changed) == (False, False)
        changed = await put(store, A, "another part", BEGIN + 3, options={"variant": "w"})
        assert changed.changed is True
        assert not (await put(store, A, "of neither", BEGIN + 4, options={"variant": 3})).changed


async def test_a_page_that_returns_to_what_it_said_before_has_changed() -> None:
    async with opened(clock=Clock()) as store:
        await put(store, A, "one")
        await put(store, A, "two", BEGIN + 10)
        back = await put(store, A, "one", BEGIN + 20)
        assert (back.new, back.changed) == (False, True)
        found = await page(store, A)
        assert [version.source_id for version in found.versions] == [source(A, "one"), source(A, "two")]
        assert [summary.source_id for summary in (await store.listing())[0]] == [source(A, "one"), source(A, "two")]


async def test_the_same_content_on_another_day_is_another_version_but_no_change() -> None:
    clock = Clock()
    async with opened(clock=clock, ttl=10 * DAY) as store:
        await put(store, A, "zero")
        await put(store, A, "one", BEGIN + 1)
        clock.now += DAY
        next_day = await put(store, A, "one", clock.now)
        assert (next_day.new, next_day.changed) == (True, False)


async def test_versions_follow_each_other_even_when_the_clock_steps_back() -> None:
    clock = Clock()
    async with opened(clock=clock) as store:
        await put(store, A, "one", BEGIN)
        clock.now -= 3600
        assert (await put(store, A, "two", clock.now)).changed
        assert [version.content_hash for version in (await page(store, A)).versions] == [sha("two"), sha("one")]


async def test_a_page_has_no_end_of_versions() -> None:
    async with opened(clock=Clock(), max_entries=1000) as store:
        gone = [(await put(store, A, f"version {number}", BEGIN + number)).gone for number in range(VERSIONS + 2)]
        assert gone == [()] * VERSIONS + [(source(A, "version 0"),), (source(A, "version 1"),)]
        assert len((await page(store, A)).versions) == VERSIONS


async def test_a_page_outlives_its_versions_and_still_knows_a_change() -> None:
    clock = Clock()
    async with opened(clock=clock) as store:
        await put(store, A, "one", etag='"1"')
        clock.now += 300
        await store.prune()
        found = await page(store, A)
        assert (found.versions, found.etag, found.content_hash) == ((), '"1"', sha("one"))
        again = await put(store, A, "two", clock.now)
        assert again.changed is True


async def test_pages_are_forgotten_when_there_are_too_many() -> None:
    clock = Clock()
    async with opened(clock=clock, max_pages=2, max_entries=1) as store:
        await put(store, A, "a")
        await put(store, B, "b")
        assert await store.begin_watch(page_id_of(B), explicit=True)
        await put(store, C, "c")
        assert await store.page_of(A) is None
        # Neither one that is watched nor one that has a version.
        await put(store, A, "a")
        assert await store.page_of(A)
        assert await store.page_of(B)
        assert await store.page_of(C) is None


async def test_a_page_given_as_bytes_has_nothing_to_fetch() -> None:
    async with opened(clock=Clock()) as store:
        await put(store, A, "text", fetched_by=None)
        assert (await page(store, page_id_of(A))).url is None
        assert await store.begin_watch(page_id_of(A), explicit=True) is None
        await put(store, A, "text")
        await put(store, A, "text", fetched_by=None)
        assert (await page(store, A)).url == A


async def test_a_page_that_was_looked_at_lives_on_unchanged() -> None:
    clock = Clock()
    async with opened(clock=clock, ttl=300) as store:
        await put(store, A, "old")
        await put(store, A, "new", BEGIN + 1, etag='"1"')
        clock.now += 200
        assert await store.checked(page_id_of(A), etag='"2"', last_modified=None)
        found = await page(store, A)
        assert (found.etag, found.checked_at) == ('"2"', BEGIN + 200)
        clock.now += 200
        # The newest alone.
        assert await store.prune() == (source(A, "old"),)
        assert await store.get(source(A, "new"))
        clock.now += 100
        assert not await store.checked(page_id_of(A), etag=None, last_modified=None)
        assert (await page(store, A)).checked_at == BEGIN + 500
        assert not await store.checked("0" * 16, etag=None, last_modified=None)
