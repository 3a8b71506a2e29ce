"""What is put comes out as it went in, newest first, until its time or its room is over."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.web.store.sample import BEGIN, Clock, entry, opened, packet, page_id_of, put
from tidings.web.extract.model import FeedEntry
from tidings.web.store.model import PageFacts

pytestmark = pytest.mark.anyio

A, B, C = "https://a.example/", "https://b.example/", "https://c.example/"


def source(url: str, content: str, at: float = BEGIN) -> str:
    return packet(url, content, at)["source_id"]


@pytest.fixture(params=["memory", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "store.db" if request.param == "file" else None


async def test_an_entry_comes_out_as_it_went_in(place: Path | None) -> None:
    feed = (FeedEntry("1", "One", A, "2026-01-01", None, "Ann", "said"), FeedEntry("2", "Two", B))
    given_ = entry(A, "# Text\n\nmore", raw=b"\0raw", raw_type="text/html", screenshot=b"\x89PNG", feed=feed)
    async with opened(place, clock=Clock()) as store:
        assert (await store.put(given_, PageFacts(A))).new
        found = await store.get(given_.packet["source_id"])
        assert found is not None
        assert found.packet == given_.packet
        assert list(found.packet) == list(given_.packet)
        assert (found.raw, found.raw_type, found.screenshot) == (b"\0raw", "text/html", b"\x89PNG")
        assert found.entries == feed
        assert found.page_id == page_id_of(A)
        assert found.size > len(b"\0raw\x89PNG# Text\n\nmore")


async def test_each_part_can_be_had_alone() -> None:
    given_ = entry(A, "# Text", raw=b"\0raw", screenshot=b"\x89PNG")
    given_.packet["raw_excerpt"] = "excerpt"
    async with opened(clock=Clock()) as store:
        await store.put(given_, PageFacts(A))
        source_id = given_.packet["source_id"]
        parts = {kind: await store.part(source_id, kind) for kind in ("packet", "content", "normalized", "raw")}
        picture = await store.part(source_id, "screenshot")
        assert picture
        assert picture == (b"\x89PNG", "image/png")
        texts = {kind: part[0] for kind, part in parts.items() if part}
        assert json.loads(texts["packet"]) == given_.packet
        normalized = {key: value for key, value in given_.packet.items() if key not in {"hashes", "raw_excerpt"}}
        assert json.loads(texts["normalized"]) == normalized
        assert texts["content"] == "# Text"
        assert texts["raw"] == b"\0raw"
        assert {part[1] for part in parts.values() if part} == {
            "application/json",
            "text/markdown",
            "text/html; charset=utf-8",
        }


async def test_a_part_that_an_entry_does_not_have_is_not_there() -> None:
    async with opened(clock=Clock()) as store:
        await put(store, A, "text")
        assert await store.part(source(A, "text"), "raw") is None
        assert await store.part(source(A, "text"), "screenshot") is None
        assert await store.part("0" * 16, "content") is None
        assert await store.get("never\ud800there") is None


@given(content=st.text(st.characters(categories=None)), title=st.text(st.characters(categories=None)))
async def test_no_text_is_beyond_the_store(content: str, title: str) -> None:
    made = entry(A, content, title=title)
    async with opened(clock=Clock()) as store:
        await store.put(made, PageFacts(A))
        found = await store.get(made.packet["source_id"])
        assert found
        assert found.packet == made.packet
        (summary,), _ = await store.listing()
        assert summary.title == title.encode(errors="replace").decode()


async def test_entries_are_listed_newest_first_with_what_a_list_shows() -> None:
    async with opened(clock=Clock()) as store:
        await put(store, A, "first", BEGIN, raw=b"raw", title="First")
        await put(store, C, "third", BEGIN + 20, screenshot=b"png")
        await put(store, B, "sécond", BEGIN + 10)
        summaries, following = await store.listing()
        assert following is None
        assert [summary.address for summary in summaries] == [C, B, A]
        last = summaries[-1]
        assert (last.source_id, last.page_id, last.title) == (source(A, "first"), page_id_of(A), "First")
        part = await store.part(last.source_id, "packet")
        assert part
        assert isinstance(part[0], str)
        assert last.size == len(part[0].encode())


async def test_a_list_is_read_in_pages_while_entries_come_and_go() -> None:
    async with opened(clock=Clock(), max_entries=1000) as store:
        # Several of the same moment: the order among them has to be one, too.
        urls = [f"https://example.org/{number}" for number in range(120)]
        for number, url in enumerate(urls):
            await put(store, url, "text", BEGIN + number // 7)
        first, after = await store.listing()
        assert len(first) == 50
        await put(store, "https://example.org/new", "text", BEGIN + 1000)
        second, after = await store.listing(after)
        third, end = await store.listing(after)
        assert end is None
        assert [summary.address for summary in (*first, *second, *third)] == urls[::-1]


async def test_a_page_of_the_list_that_is_just_full_is_the_last() -> None:
    async with opened(clock=Clock()) as store:
        for number in range(4):
            await put(store, f"https://example.org/{number}", "text", BEGIN + number)
        first, after = await store.listing(limit=2)
        second, end = await store.listing(after, limit=2)
        assert (len(first), len(second), end) == (2, 2, None)


@pytest.mark.parametrize("cursor", ["", "x", "1", "1.", ".1", "1.2.3", "1.-2", "٣.٣", "9" * 30 + ".1", "1 .2"])
async def test_a_cursor_that_nobody_gave_is_refused(cursor: str) -> None:
    async with opened(clock=Clock()) as store:
        with pytest.raises(ValueError, match="Begin the list without one"):
            await store.listing(cursor)


async def test_ids_are_completed() -> None:
    async with opened(clock=Clock()) as store:
        await put(store, A, "first")
        await put(store, B, "second", BEGIN + 1)
        ids = [source(B, "second"), source(A, "first")]
        assert await store.source_ids() == ids
        assert await store.source_ids(ids[1][:6]) == [ids[1]]
        assert await store.source_ids("%") == await store.source_ids("\ud800") == []
        assert await store.source_ids(limit=1) == ids[:1]
        assert await store.page_ids() == [page_id_of(B), page_id_of(A)]
        assert await store.page_ids(page_id_of(A)[:6]) == [page_id_of(A)]


async def test_an_entry_is_there_until_its_time_is_over_and_not_a_moment_longer() -> None:
    clock = Clock()
    async with opened(clock=clock, ttl=300) as store:
        await put(store, A, "text")
        source_id = source(A, "text")
        assert await store.next_expiry() == BEGIN + 300
        clock.now = BEGIN + 299.999
        assert await store.get(source_id)
        assert await store.prune() == ()
        clock.now = BEGIN + 300
        assert await store.get(source_id) is None
        assert await store.part(source_id, "content") is None
        assert await store.listing() == ([], None)
        assert await store.source_ids() == []
        page = await store.page_of(A)
        assert page
        assert page.versions == ()
        assert await store.prune() == (source_id,)
        assert await store.prune() == ()
        assert await store.next_expiry() is None


async def test_an_entry_put_again_lives_anew_and_is_not_new() -> None:
    clock = Clock()
    async with opened(clock=clock, ttl=300) as store:
        await put(store, A, "text")
        clock.now += 200
        again = await put(store, A, "text", clock.now)
        assert (again.new, again.changed, again.gone) == (False, False, ())
        clock.now += 200
        found = await store.get(source(A, "text"))
        assert found
        assert found.packet["retrieved_at"].endswith("12:03:20+00:00")
        assert len((await store.listing())[0]) == 1


async def test_what_expired_unnoticed_is_new_when_it_is_put_again() -> None:
    clock = Clock()
    async with opened(clock=clock, ttl=300) as store:
        await put(store, A, "text")
        clock.now += 300
        assert (await put(store, A, "text", clock.now)).new


async def test_an_entry_put_again_keeps_what_nobody_asked_for_this_time() -> None:
    async with opened(clock=Clock()) as store:
        made = entry(A, "text", raw=b"raw", raw_type="text/x", screenshot=b"png")
        await store.put(made, PageFacts(A))
        bare = entry(A, "text", BEGIN + 1)
        bare.packet["hashes"]["raw_hash"] = made.packet["hashes"]["raw_hash"]
        await store.put(bare, PageFacts(A))
        found = await store.get(made.packet["source_id"])
        assert found
        assert (found.raw, found.screenshot) == (b"raw", b"png")
        # Other bytes that say the same: the raw ones of before are not this version's.
        await store.put(entry(A, "text", BEGIN + 2), PageFacts(A))
        found = await store.get(made.packet["source_id"])
        assert found
        assert (found.raw, found.raw_type, found.screenshot) == (None, None, b"png")


async def test_the_oldest_go_when_there_are_too_many() -> None:
    async with opened(clock=Clock(), max_entries=2) as store:
        assert (await put(store, A, "a")).gone == ()
        assert (await put(store, B, "b")).gone == ()
        assert (await put(store, C, "c")).gone == (source(A, "a"),)
        # It arrived last, whatever time it says.
        assert (await put(store, A, "old", BEGIN - 9999)).gone == (source(B, "b"),)
        assert await store.source_ids() == [source(C, "c"), source(A, "old", BEGIN - 9999)]


async def test_the_oldest_go_when_there_are_too_many_bytes() -> None:
    async with opened(clock=Clock(), max_bytes=10_000) as store:
        await put(store, A, "a", raw=b"." * 3000)
        await put(store, B, "b", screenshot=b"." * 3000)
        assert (await put(store, C, "c" * 6000)).gone == (source(A, "a"), source(B, "b"))
        found = await store.get(source(C, "c" * 6000))
        assert found
        assert 6000 < found.size <= 10_000


async def test_room_is_made_of_what_expired_first_and_that_is_told() -> None:
    clock = Clock()
    async with opened(clock=clock, ttl=300, max_entries=2) as store:
        await put(store, A, "a")
        clock.now += 200
        await put(store, B, "b")
        clock.now += 200
        assert (await put(store, C, "c")).gone == (source(A, "a"),)
        assert await store.get(source(B, "b"))


async def test_an_entry_too_large_for_the_store_is_kept_without_its_bytes() -> None:
    async with opened(clock=Clock(), max_bytes=10_000) as store:
        await put(store, A, "text", raw=b"." * 9000, screenshot=b"." * 5000)
        found = await store.get(source(A, "text"))
        assert found
        assert (found.raw, found.screenshot) == (None, b"." * 5000)
        # They are not taken over from before, either.
        await put(store, A, "text", raw=b"." * 9000, screenshot=b"." * 10_000)
        found = await store.get(source(A, "text"))
        assert found
        assert (found.raw, found.screenshot) == (None, None)


async def test_what_a_version_had_before_is_not_kept_when_there_is_no_room_for_it() -> None:
    async with opened(clock=Clock(), max_bytes=10_000) as store:
        await put(store, A, "text", screenshot=b"." * 8000)
        made = entry(A, "text", raw=b"." * 5000)
        await store.put(made, PageFacts(A))
        found = await store.get(source(A, "text"))
        assert found
        assert (found.raw, found.screenshot) == (b"." * 5000, None)


async def test_a_text_larger_than_the_store_is_refused_and_nothing_is_lost() -> None:
    async with opened(clock=Clock(), max_bytes=10_000) as store:
        await put(store, A, "text")
        with pytest.raises(match=r"https://b\.example/ takes 1.,... bytes.*10,000.*Let the store hold"):
            await put(store, B, "b" * 10_000, raw=b"raw")
        assert await store.get(source(A, "text"))
        assert await store.page_of(B) is None


async def test_versions_are_listed_by_their_times_however_they_came_and_were_written() -> None:
    async with opened(clock=Clock(BEGIN + 5)) as store:
        await put(store, C, "after", BEGIN + 10)
        other = entry(A, "between")
        other.packet["retrieved_at"] = "2026-03-01T14:00:07+02:00"
        await store.put(other, PageFacts(A))
        await put(store, B, "before", BEGIN)
        summaries, _ = await store.listing()
        assert [summary.retrieved_at[-14:] for summary in summaries] == [
            "12:00:10+00:00",
            "14:00:07+02:00",
            "12:00:00+00:00",
        ]
