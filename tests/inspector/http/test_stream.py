"""The stream: in order, each once, resumable, and bounded however slow its reader is."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.inspector.http.page import PATIENCE, Page, opened
from tests.inspector.http.sample import sample
from tidings.inspector.http import feed as feeding
from tidings.inspector.http.feed import MOST_STREAMS, FeedResponse, PageFeed
from tidings.inspector.server import ConnectionSpec
from tidings.inspector.session import Session

pytestmark = pytest.mark.anyio


@pytest.fixture
async def page() -> AsyncGenerator[Page]:
    async with opened() as page:
        await page.add(sample()[0])
        yield page


def flood(session: Session, number: int, server: str = "demo") -> None:
    """So many log messages at once."""
    for each in range(number):
        session.record(server, "log", {"level": "info", "logger": None, "data": f"line {each}", "size": 10})


async def collect(page: Page, after: int, until: int) -> list[dict[str, Any]]:
    """The batches after a record, up to another."""
    batches: list[dict[str, Any]] = []
    with anyio.fail_after(PATIENCE):
        async with page.stream(after) as events:
            async for name, batch in events:
                assert name == "batch"
                batches.append(batch)
                if batch["to"] >= until:
                    break
    return batches


async def test_what_happens_is_told_in_order_and_once(page: Page) -> None:
    after = page.session.seq
    flood(page.session, 100)
    batches = await collect(page, after, page.session.seq)
    rows = [row for batch in batches for row in batch["rows"] if row["kind"] == "log"]
    assert [row["text"] for row in rows] == [f"line {each}" for each in range(100)]
    assert batches[-1]["facts"]["demo"]["counts"]["log"]["total"] == 100


async def test_a_flood_of_5000_is_told_whole_in_few_batches_and_counted(page: Page) -> None:
    after = page.session.seq
    with anyio.fail_after(PATIENCE):
        async with page.stream(after) as events:
            for _ in range(5):
                flood(page.session, 1_000)
                await anyio.lowlevel.checkpoint()
            rows: list[Any] = []
            batches = held = 0
            async for _, batch in events:
                batches += 1
                held += batch["held"]
                rows += [row for row in batch["rows"] if row["kind"] == "log"]
                if len(rows) + held >= 5_000:
                    break
    assert len(rows) == 5_000
    assert held == 0
    assert batches < 100
    assert batch["facts"]["demo"]["counts"]["log"] == {"total": 5_000, "kept": 5_000, "dropped": 0}


async def test_a_reader_who_was_away_goes_on_where_they_were(page: Page) -> None:
    after = page.session.seq
    flood(page.session, 10)
    first = await collect(page, after, page.session.seq)
    flood(page.session, 10)
    response = page.http.stream("GET", "/api/stream", headers={"Last-Event-ID": str(first[-1]["to"])})
    with anyio.fail_after(PATIENCE):
        async with response as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    batch = json.loads(line[6:])
                    break
    assert [row["text"] for row in batch["rows"] if row["kind"] == "log"] == [f"line {each}" for each in range(10)]


@pytest.mark.parametrize("after", ["999999999", "x", "", "-5"])
async def test_a_reader_of_another_past_is_told_to_begin_anew(page: Page, after: str) -> None:
    with anyio.fail_after(PATIENCE):
        async with page.stream(after) as events:
            async for name, _ in events:
                assert name == "reset"


async def test_a_reader_whose_past_is_gone_is_told_to_begin_anew(page: Page) -> None:
    after = page.session.seq
    flood(page.session, feeding.MOST_KEPT + 10)
    with anyio.fail_after(PATIENCE):
        async with page.stream(after) as events:
            assert [name async for name, _ in events] == ["reset"]


async def test_a_slow_reader_gets_the_newest_and_the_number_of_the_rest() -> None:
    async with Session() as session:
        await session.add(ConnectionSpec("demo", sample()[0]), connect=False)
        feed = PageFeed(session)
        with feed.reader(session.seq) as reader:
            flood(session, 12_000)
            batch = feed.batch(reader)
            assert batch is not None
            assert len(batch["rows"]) == feeding.MOST_IN_BATCH
            assert batch["held"] == 12_000 - feeding.MOST_IN_BATCH
            assert batch["rows"][-1]["text"] == "line 11999"
            flood(session, 50_000)
            batch = feed.batch(reader)
            assert batch is not None
            assert len(batch["rows"]) + batch["held"] == 50_000
            assert feed.batch(reader) is None


async def test_each_step_of_a_request_is_told_so_that_a_page_asks_how_far_it_is() -> None:
    async with Session() as session:
        await session.add(ConnectionSpec("it", sample()[0]), connect=False)
        feed = PageFeed(session)
        session.record("it", "request", {"id": "r1", "method": "tools/call", "params": {}, "status": "in_progress"})
        with feed.reader(session.seq) as reader:
            session.record("it", "progress", {"id": "r1", "progress": 1, "total": 2})
            batch = feed.batch(reader)
    assert batch is not None
    assert [(row["kind"], row["id"]) for row in batch["rows"]] == [("request", "r1")]


async def test_the_row_of_a_change_is_sent_again_when_its_content_was_read() -> None:
    async with Session() as session:
        await session.add(ConnectionSpec("it", sample()[0]), connect=False)
        feed = PageFeed(session)
        with feed.reader(session.seq) as reader:
            times = {"received": session.clock()}
            change = session.record("it", "change", {"change": "resource-updated", "uri": "x:y", "times": times})
            assert change is not None
            contents = [{"uri": "x:y", "text": "new"}]
            session.record("it", "content", {"uri": "x:y", "contents": contents, "hash": "1", "change": change.seq})
            batch = feed.batch(reader)
    assert batch is not None
    assert [(row["seq"], "fresh_ms" in row) for row in batch["rows"]] == [(change.seq, False), (change.seq, True)]


async def test_a_reader_who_does_not_read_is_cut_off_and_costs_one_batch() -> None:
    async with Session() as session:
        await session.add(ConnectionSpec("demo", sample()[0]), connect=False)
        feed = PageFeed(session)
        sent: list[int] = []
        stuck = asyncio.Event()

        async def send(message: Any) -> None:
            sent.append(len(message.get("body", b"")))
            if len(sent) > 2:
                stuck.set()
                await asyncio.Event().wait()

        async def receive() -> Any:
            await asyncio.Event().wait()

        stream = FeedResponse(feed, session.seq, asyncio.Event(), patience=0.2)
        with anyio.fail_after(PATIENCE):
            task = asyncio.create_task(stream({"type": "http"}, receive, send))
            flood(session, 10)
            await stuck.wait()
            flood(session, 30_000)
            await task
        assert len(sent) == 3
        assert sum(sent) < 100_000


async def test_servers_that_come_and_go_are_told(page: Page) -> None:
    after = page.session.seq
    await page.session.add(ConnectionSpec("second", sample()[0]), connect=False)
    batches = await collect(page, after, page.session.seq)
    assert batches[-1]["facts"]["second"]["state"] == "disconnected"
    assert "lists" in batches[-1]["facts"]["second"]
    after = page.session.seq
    await page.session.remove("second")
    assert (await collect(page, after, page.session.seq))[-1]["facts"] == {"second": None}


async def test_only_what_was_touched_is_told(page: Page) -> None:
    after = page.session.seq
    flood(page.session, 1)
    facts = (await collect(page, after, page.session.seq))[-1]["facts"]["demo"]
    assert "counts" in facts
    assert "subscriptions" not in facts
    assert "capabilities" not in facts


async def test_a_change_of_a_subscription_is_told_with_its_versions(page: Page) -> None:
    server = page.session.servers["demo"]
    await server.subscribe("note://one")
    await page.until(lambda: len(server.view.subscriptions["note://one"].versions) == 1)
    after = page.session.seq
    change = {"change": "resource-updated", "uri": "note://one", "times": {"received": 1.0}, "merged": 0}
    page.session.record("demo", "change", change)
    batches = await collect(page, after, page.session.seq)
    facts = batches[-1]["facts"]["demo"]
    assert facts["subscriptions"]["note://one"]["updates"] == 1
    assert "all_subscriptions" not in facts
    assert facts["pace"][-1][1] == 1
    row = batches[0]["rows"][0]
    assert (row["kind"], row["change"], row["uri"]) == ("change", "resource-updated", "note://one")


async def test_saved_calls_and_the_catalog_are_told_to_be_stale(page: Page) -> None:
    with anyio.fail_after(PATIENCE):
        async with page.stream(page.session.seq) as events:
            await page.post("/api/saved", {"name": "n", "server": "demo", "kind": "read", "data": {"uri": "x:y"}})
            async for _, batch in events:
                if batch.get("stale"):
                    break
    assert batch["stale"] == ["saved"]


async def test_streams_end_when_the_inspector_does() -> None:
    with anyio.fail_after(PATIENCE):
        async with opened() as page, page.stream(page.session.seq) as events:
            page.serving.stop()
            assert [name async for name, _ in events] == []


async def test_of_many_pages_the_newest_read_and_the_others_are_told_to_rest() -> None:
    async with opened() as page, AsyncExitStack() as stack:
        first = await stack.enter_async_context(page.stream(0))
        for _ in range(MOST_STREAMS):
            await stack.enter_async_context(page.stream(0))
        with anyio.fail_after(PATIENCE):
            assert [name async for name, _ in first][-1] == "rest"
        assert len(page.serving.inspector.streams) == MOST_STREAMS
