"""The web server as an AI client sees it: a command that is started, spoken to, and woken by a site that changes."""

import os
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

import tidings
from tests import forking
from tests.cli.test_web import started
from tests.web.agent import STORY, html
from tests.web.fetch.servers import Site, site
from tidings.changes import ResourceUpdated
from tidings.errors import ResourceNotFound

pytestmark = pytest.mark.anyio

NEWS = "The mill will be closed meanwhile, the mayor said on Tuesday."
OPTIONS = (
    *("--allow-private", "127.0.0.0/8", "--watch-min", "0.2", "--watch-max", "0.5"),
    *("--requests-per-minute", "6000", "--workers", "1"),
)


@pytest.fixture
async def place() -> AsyncGenerator[Site]:
    async with site({"/": html(STORY)}) as running:
        yield running


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def command(*options: str) -> Sequence[str]:
    return forking.command("-m", "tidings", "web", *OPTIONS, *options)


def stdio() -> StdioServerParameters:
    name, *arguments = command()
    return StdioServerParameters(command=name, args=arguments, env=dict(os.environ))


async def page_of(client: Client, url: str) -> dict[str, str]:
    called = await client.call_tool("fetch", {"urls": [url]})
    assert not called.is_error, called.content
    return called.meta["dev.tidings/data"]["pages"][0]


async def test_a_stock_client_of_the_modern_era_fetches_subscribes_is_told_and_reads(place: Site) -> None:
    with anyio.fail_after(60):
        async with Client(stdio_client(stdio())) as client:
            page = await page_of(client, place.url())
            diff = f"webfetch://diff/{page['page_id']}"
            assert [each.uri for each in (await client.list_resources()).resources] == [page["uri"]]
            heard = set()
            async with client.listen(resource_subscriptions=[page["page_uri"], diff]) as told:
                place.pages["/"] = html(STORY, NEWS)
                async for event in told:
                    heard.add(event)
                    if len(heard) == 2:
                        break
            assert heard == {ResourceUpdated(page["page_uri"]), ResourceUpdated(diff)}
            (content,) = (await client.read_resource(diff)).contents
            assert f"+{NEWS}" in content.text
            assert len((await client.list_resources()).resources) == 2
            with pytest.raises(MCPError) as refused:
                await client.read_resource("webfetch://packet/0123456789abcdef")
            assert (refused.value.error.code, refused.value.error.data) == (
                -32602,
                {"uri": "webfetch://packet/0123456789abcdef"},
            )


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_a_stock_client_of_the_old_era_fetches_subscribes_is_told_and_reads(place: Site) -> None:
    told = anyio.Event()

    async def hear(message: object) -> None:
        if "webfetch://page/" in str(message):
            told.set()

    with anyio.fail_after(60):
        async with Client(stdio_client(stdio()), mode="legacy", message_handler=hear) as client:
            page = await page_of(client, place.url())
            await client.subscribe_resource(page["page_uri"])
            place.pages["/"] = html(STORY, NEWS)
            await told.wait()
            (content,) = (await client.read_resource(page["page_uri"])).contents
            assert NEWS in content.text
            for uri in ("webfetch://packet/0123456789abcdef", "webfetch://packet/malformed"):
                with pytest.raises(MCPError) as refused:
                    await client.read_resource(uri)
                assert (refused.value.error.code, refused.value.error.data) == (-32002, {"uri": uri})
            with pytest.raises(MCPError) as refused:
                await client.subscribe_resource("webfetch://page/0123456789abcdef")
            assert refused.value.error.code == -32002


@contextmanager
def served(way: str, tmp_path: Path) -> Generator[str | Sequence[str]]:
    """Where a client finds the server: a command to start, or an address."""
    if way == "stdio":
        yield command()
    else:
        with started("--http", "0", "--store", tmp_path / "pages.db", *OPTIONS) as (_, url):
            yield url


@pytest.mark.parametrize("era", ["auto", "legacy"])
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_a_live_client_that_watches_is_woken_with_the_diff_and_then_lets_the_site_alone(
    place: Site, way: str, era: str, tmp_path: Path
) -> None:
    with served(way, tmp_path) as target, anyio.fail_after(90):
        async with tidings.connect(target, era=era) as client:
            called = await client.call_tool("fetch", {"urls": [place.url()]})
            assert called.result is not None
            page_id = called.result.meta["dev.tidings/data"]["pages"][0]["page_id"]
            texts = []
            async for diff in client.watch(f"webfetch://diff/{page_id}"):
                texts.append(diff.text)
                if len(texts) == 3:
                    break
                place.pages["/"] = html(STORY, f"{NEWS} {len(texts)}")
            assert "there is no version before" in texts[0]
            assert f"+{NEWS} 1" in texts[1]
            assert f"-{NEWS} 1\n+{NEWS} 2" in texts[2]
            with pytest.raises(ResourceNotFound):
                await client.subscribe("webfetch://page/0123456789abcdef")
            # Nobody listens any more: whoever watches another page sees that this one is left alone.
            await client.unsubscribe(f"webfetch://diff/{page_id}")
            place.pages["/other"] = html(STORY)
            called = await client.call_tool("fetch", {"urls": [place.url("/other")]})
            assert called.result is not None
            other = called.result.meta["dev.tidings/data"]["pages"][0]["page_id"]
            asked = seen = 0
            async for _ in client.watch(f"webfetch://page/{other}"):
                seen += 1
                if seen == 2:  # A look at the first page that was under way has ended.
                    asked = place.paths().count("/")
                if seen == 4:
                    break
                place.pages["/other"] = html(STORY, f"{NEWS} {seen}")
            assert place.paths().count("/") == asked


async def test_two_that_share_a_store_notify_each_others_subscribers(place: Site, tmp_path: Path) -> None:
    shared = ("--store", tmp_path / "pages.db")
    with started("--http", "0", *shared, *OPTIONS) as (_, one), started("--http", "0", *shared, *OPTIONS) as (_, two):
        with anyio.fail_after(90):
            async with tidings.connect(one) as first, tidings.connect(two) as second:
                called = await first.call_tool("fetch", {"urls": [place.url()]})
                assert called.result is not None
                page = called.result.meta["dev.tidings/data"]["pages"][0]
                assert (await second.read_resource(page["uri"])).text
                seen = 0
                async for read in second.watch(page["page_uri"]):
                    seen += 1
                    if seen == 2:
                        assert NEWS in read.text
                        break
                    place.pages["/"] = html(STORY, NEWS)
