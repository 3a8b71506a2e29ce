"""Who watches which page, when it is to be looked at, and by whom."""

from pathlib import Path

import pytest

from tests.web.store.sample import BEGIN, Clock, opened, packet, page_id_of, put
from tidings.web.store.model import StoredWatch
from tidings.web.store.store import Store

pytestmark = pytest.mark.anyio

A, B, C = "https://a.example/", "https://b.example/", "https://c.example/"
ID = page_id_of(A)


def source(url: str, content: str, at: float = BEGIN) -> str:
    return packet(url, content, at)["source_id"]


async def claimed(store: Store, limit: int = 10, lease: float = 60) -> list[str]:
    return [watch.address for watch in await store.due(limit, lease)]


async def test_a_watch_says_what_there_is_to_know() -> None:
    async with opened(clock=Clock()) as store:
        await put(store, A, "text", fetched_by=f"{A}fetch")
        assert not (await store.page_of(A)).watched  # pyright: ignore[reportOptionalMemberAccess]
        watch = await store.begin_watch(ID, explicit=True, options={"ignore": ["#clock"]}, next_at=BEGIN + 60)
        expected = StoredWatch(ID, f"{A}fetch", A, True, 0, {"ignore": ["#clock"]}, BEGIN + 60, 0, {})
        assert watch == expected
        assert await store.watch_of(ID) == expected
        assert await store.watches() == await store.watches(explicit=True) == [expected]
        assert (await store.page_of(A)).watched  # pyright: ignore[reportOptionalMemberAccess]
        assert not await store.end_watch(ID, explicit=True)
        assert await store.watch_of(ID) is None
        assert await store.watches() == []


async def test_a_page_that_nobody_knows_cannot_be_watched() -> None:
    async with opened(clock=Clock()) as store:
        assert await store.begin_watch(ID, explicit=False) is None
        assert await store.watch_of(ID) is None
        assert not await store.end_watch(ID, explicit=False)


async def test_a_page_is_watched_until_the_last_who_wanted_it(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "store"
    async with opened(path, clock=clock) as one, opened(path, clock=clock) as other:
        await put(one, A, "text")
        await one.begin_watch(ID, explicit=False)
        await other.begin_watch(ID, explicit=False, options={"of": "a subscription"})
        watch = await one.begin_watch(ID, explicit=True, options={"of": "the tool"})
        assert watch
        assert (watch.explicit, watch.subscribers, watch.options) == (True, 2, {"of": "the tool"})
        assert await one.end_watch(ID, explicit=True)
        watch = await one.watch_of(ID)
        assert watch
        assert (watch.explicit, watch.subscribers, watch.options) == (False, 2, {"of": "a subscription"})
        assert await one.watches(explicit=True) == []
        assert await one.end_watch(ID, explicit=False)
        assert not await other.end_watch(ID, explicit=False)


async def test_to_watch_again_keeps_the_schedule_and_may_bring_it_forward() -> None:
    async with opened(clock=Clock()) as store:
        await put(store, A, "text")
        await store.begin_watch(ID, explicit=True, options={"a": 1}, next_at=BEGIN + 60)
        later = await store.begin_watch(ID, explicit=True, options={"a": 1}, next_at=BEGIN + 90)
        assert later
        assert (later.next_at, later.options) == (BEGIN + 60, {"a": 1})
        earlier = await store.begin_watch(ID, explicit=True, options={}, next_at=BEGIN + 30)
        assert earlier
        assert (earlier.next_at, earlier.options) == (BEGIN + 30, {})
        same = await store.begin_watch(ID, explicit=False)
        assert same
        assert same.next_at == BEGIN + 30


async def test_due_pages_are_claimed_those_that_wait_longest_first() -> None:
    clock = Clock()
    async with opened(clock=clock) as store:
        for number, url in enumerate((B, A, C)):
            await put(store, url, "text")
            await store.begin_watch(page_id_of(url), explicit=True, next_at=BEGIN + number)
        assert await store.next_due() == BEGIN
        clock.now = BEGIN + 1
        assert await claimed(store, limit=1) == [B]
        assert await claimed(store) == [A]
        assert await claimed(store) == []
        assert await store.next_due() == BEGIN + 2
        clock.now = BEGIN + 2
        assert await claimed(store) == [C]
        assert await store.next_due() == BEGIN + 61


async def test_a_claim_ends_when_the_page_is_given_back() -> None:
    clock = Clock()
    async with opened(clock=clock) as store:
        await put(store, A, "text")
        await store.begin_watch(ID, explicit=True)
        assert await claimed(store) == [A]
        assert await store.reschedule(ID, BEGIN + 100, failures=2, state={"interval": 100})
        watch = await store.watch_of(ID)
        assert watch
        assert (watch.next_at, watch.failures, watch.state) == (BEGIN + 100, 2, {"interval": 100})
        assert not await store.reschedule(ID, BEGIN + 200)
        clock.now = BEGIN + 100
        assert await claimed(store) == [A]
        await store.release(ID)
        assert await claimed(store) == [A]
        assert await store.reschedule(ID, BEGIN + 300)
        watch = await store.watch_of(ID)
        assert watch
        assert (watch.next_at, watch.failures, watch.state) == (BEGIN + 300, 0, {"interval": 100})


async def test_a_claim_that_ran_out_is_taken_over_and_the_late_one_is_told(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "store"
    async with opened(path, clock=clock) as slow, opened(path, clock=clock) as other:
        await put(slow, A, "text")
        await slow.begin_watch(ID, explicit=True)
        assert await claimed(slow, lease=30) == [A]
        clock.now += 29.9
        assert await claimed(other) == []
        clock.now += 0.1
        assert await other.next_due() == clock.now
        assert await claimed(other) == [A]
        assert not await slow.reschedule(ID, BEGIN + 100)
        await slow.release(ID)
        assert await claimed(slow) == []
        assert await other.reschedule(ID, BEGIN + 200)
        # Late, but nobody else came: it still counts.
        clock.now = BEGIN + 200
        assert await claimed(slow, lease=1) == [A]
        clock.now += 100
        assert await slow.reschedule(ID, BEGIN + 400)


async def test_a_claim_of_a_watch_that_ended_meanwhile_leaves_nothing() -> None:
    async with opened(clock=Clock()) as store:
        await put(store, A, "text")
        await store.begin_watch(ID, explicit=True)
        assert await claimed(store) == [A]
        await store.end_watch(ID, explicit=True)
        assert not await store.reschedule(ID, BEGIN + 1)
        assert await store.watches() == []
        assert await store.next_due() is None


async def test_subscriptions_end_with_their_process_and_explicit_watches_do_not(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "store"
    async with opened(path, clock=clock) as store:
        for url in (A, B):
            await put(store, url, "text")
        await store.begin_watch(page_id_of(A), explicit=True, options={"kept": True}, next_at=BEGIN + 5)
        await store.begin_watch(page_id_of(B), explicit=False)
        assert await claimed(store) == [B]
    async with opened(path, clock=clock) as store:
        (watch,) = await store.watches()
        assert (watch.address, watch.options, watch.next_at) == (A, {"kept": True}, BEGIN + 5)


async def test_a_process_that_gives_no_sign_of_life_is_forgotten(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "store"
    async with opened(path, clock=clock, alive=90) as dead, opened(path, clock=clock, alive=90) as alive:
        for url in (A, B):
            await put(dead, url, "text")
        await dead.begin_watch(page_id_of(A), explicit=False)
        await dead.begin_watch(page_id_of(B), explicit=True)
        assert set(await claimed(dead, lease=10_000)) == {A, B}
        await alive.begin_watch(page_id_of(B), explicit=False)
        clock.now += 89
        await alive.heartbeat()
        assert await claimed(alive) == []
        clock.now += 1
        # What it had claimed is free at once, however long it wanted it for.
        assert await claimed(alive) == [B]
        assert [watch.address for watch in await alive.watches()] == [B]


async def test_a_process_that_only_slept_is_back_with_what_it_watched(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "store"
    async with opened(path, clock=clock, alive=90) as sleeper, opened(path, clock=clock, alive=90) as other:
        for url in (A, B):
            await put(sleeper, url, "text")
            await sleeper.begin_watch(page_id_of(url), explicit=False, options={"mine": True})
        await sleeper.end_watch(page_id_of(B), explicit=False)
        clock.now += 1000
        assert await claimed(other) == []
        assert await other.watches() == []
        await sleeper.heartbeat()
        (watch,) = await other.watches()
        assert (watch.address, watch.subscribers, watch.options) == (A, 1, {"mine": True})
        assert await claimed(other) == [A]


async def test_two_versions_of_a_watched_page_stay_whatever_their_age() -> None:
    clock = Clock()
    async with opened(clock=clock, ttl=300) as store:
        for number in range(4):
            await put(store, A, f"version {number}", BEGIN + number)
        await put(store, B, "text")
        await store.begin_watch(ID, explicit=True)
        clock.now += 10_000
        assert set(await store.prune()) == {source(A, "version 0"), source(A, "version 1"), source(B, "text")}
        assert await store.next_expiry() is None
        page = await store.page_of(A)
        assert page
        assert [version.source_id for version in page.versions] == [source(A, "version 3"), source(A, "version 2")]
        assert await store.get(source(A, "version 2"))
        assert await store.part(source(A, "version 3"), "content")
        assert len((await store.listing())[0]) == 2
        assert await store.checked(ID, etag=None, last_modified=None)
        await store.end_watch(ID, explicit=True)
        assert await store.next_expiry() == BEGIN + 300
        assert await store.prune() == (source(A, "version 2"),)


async def test_of_two_pinned_versions_one_says_something_else() -> None:
    clock = Clock()
    async with opened(clock=clock, ttl=300) as store:
        await put(store, A, "before")
        await store.begin_watch(ID, explicit=True)
        for day in range(1, 4):
            clock.now = BEGIN + day * 86_400
            await put(store, A, "after", clock.now)
        await store.prune()
        page = await store.page_of(A)
        assert page
        assert [version.source_id for version in page.versions][1:] == [source(A, "before")]


async def test_the_versions_that_are_watched_stay_though_others_are_newer() -> None:
    clock = Clock()
    watched, other = {"variant": "watched"}, {"variant": "other"}
    async with opened(clock=clock, ttl=300) as store:
        for number in range(3):
            await put(store, A, f"watched {number}", BEGIN + number, options=watched)
        await store.begin_watch(ID, explicit=True, options={"fetch": watched})
        for number in range(3):
            await put(store, A, f"other {number}", BEGIN + 10 + number, options=other)
        clock.now += 10_000
        assert set(await store.prune()) == {source(A, "watched 0"), source(A, "other 0")}
        page = await store.page_of(A)
        assert page
        assert [version.options["variant"] for version in page.versions] == ["other"] * 2 + ["watched"] * 2
        await store.begin_watch(ID, explicit=True, options={"fetch": "something else"})
        assert set(await store.prune()) == {source(A, "watched 1"), source(A, "watched 2")}


async def test_watched_pages_are_kept_beside_the_number_of_entries() -> None:
    async with opened(clock=Clock(), max_entries=1) as store:
        for number in range(3):
            url = f"https://example.org/{number}"
            await put(store, url, "text")
            await store.begin_watch(page_id_of(url), explicit=True)
            assert (await put(store, url, "more", BEGIN + 1)).gone == ()
        await put(store, A, "text")
        assert (await put(store, B, "text")).gone == (source(A, "text"),)
        assert len((await store.listing())[0]) == 7


async def test_bytes_are_a_limit_for_watched_pages_too(caplog: pytest.LogCaptureFixture) -> None:
    async with opened(clock=Clock(), max_bytes=20_000) as store:
        urls = [f"https://example.org/{number}" for number in range(3)]
        for url in urls:
            await put(store, url, "old", raw=b"." * 1000)
            await store.begin_watch(page_id_of(url), explicit=True)
            await put(store, url, "new", BEGIN + 1, screenshot=b"." * 1000)
        assert not caplog.records
        small = await store.get(source(urls[0], "old"))
        assert small
        # First go versions that are not the newest of their page, ...
        large = "a" * (20_000 - 5 * small.size - 100)
        assert (await put(store, A, large)).gone == (source(urls[0], "old"), source(urls[1], "old"))
        assert "watched pages alone need more than the 20000 bytes" in caplog.text
        # ... and at last whatever there is.
        gone = (await put(store, C, "c" * (20_000 - small.size - 100))).gone
        assert gone == (source(A, large), source(urls[2], "old"), *(source(url, "new") for url in urls))
        assert len(await store.watches()) == 3
        assert len(caplog.records) == 1


async def test_a_clock_that_steps_back_keeps_nothing_waiting(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "store"
    async with opened(path, clock=clock, ttl=300, alive=90) as dead, opened(path, clock=clock, ttl=300) as store:
        for url in (A, B, C, "https://nobody.example/"):
            await put(store, url, "text")
        await store.begin_watch(page_id_of(A), explicit=True, next_at=BEGIN + 60)
        await dead.begin_watch(page_id_of(B), explicit=False)
        await store.begin_watch(page_id_of(C), explicit=True)
        assert set(await claimed(dead, lease=30)) == {B, C}
        clock.now -= 36_000
        assert await claimed(store) == []
        assert await store.next_due() == clock.now + 30
        assert await store.prune() == ()
        assert await store.next_expiry() == clock.now + 300
        clock.now += 30
        assert set(await claimed(store)) == {B, C}
        clock.now += 30
        assert A in await claimed(store)
        clock.now += 30
        await store.heartbeat()
        assert {watch.address for watch in await store.watches()} == {A, C}
        clock.now += 300
        assert set(await store.prune()) == {source(B, "text"), source("https://nobody.example/", "text")}
