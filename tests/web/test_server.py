"""`WebServer` as a program has it, and who is told of what."""

import signal
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

import tidings
from tests.server.serving import serving
from tests.server.wire import Session
from tests.web.agent import ERAS, STORY, at, html
from tests.web.fetch.servers import site
from tidings.bus.sqlite import SqliteBus
from tidings.changes import ResourcesListChanged, ResourceUpdated
from tidings.errors import BusUnavailable, NotSubscribable, ResourceNotFound, SourceUnavailable
from tidings.server import Waking
from tidings.web import wiring
from tidings.web.server import WebServer
from tidings.web.settings import BadSetting, Settings
from tidings.web.store.model import StoreError

pytestmark = pytest.mark.anyio

NEWS = "The mill will be closed meanwhile, the mayor said on Tuesday."
QUICK = {"watch_min": 0.1, "watch_max": 0.3}
NOWHERE = "0123456789abcdef"


async def test_processes_that_share_a_store_file_share_a_bus_beside_it_by_whichever_link(tmp_path: Path) -> None:
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "pages.db")
    async with Client(WebServer(Settings(store=link))):
        assert (tmp_path / "pages.db-bus").is_file()
    assert list(link.parent.iterdir()) == [link]


async def test_a_bus_beside_the_store_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "pages.db-bus").mkdir()
    with pytest.raises(BusUnavailable, match=r"pages\.db-bus cannot be used: it is a folder"):
        async with Client(WebServer(Settings(store=tmp_path / "pages.db"))):
            pass


def test_a_bus_that_is_shared_needs_a_store_that_is() -> None:
    with pytest.raises(BadSetting, match="Give --store FILE"):
        WebServer(bus="sqlite:///bus.db")
    with pytest.raises(BadSetting, match="Give --store FILE"):
        WebServer(bus=SqliteBus("bus.db"))


def test_its_pages_are_there_while_it_runs() -> None:
    with pytest.raises(RuntimeError, match="before it runs"):
        _ = WebServer().library


async def test_what_a_program_adds_is_served_beside() -> None:
    server = WebServer(title="Mine")

    @server.resource("note://one")
    def note() -> str:
        return "a note"

    async with Client(server) as client:
        (content,) = (await client.read_resource("note://one")).contents
        assert content.text == "a note"
        assert [each.uri for each in (await client.list_resources()).resources] == ["note://one"]


async def test_it_begins_anew_when_it_is_used_again() -> None:
    server = WebServer(Settings())
    for _ in range(2):
        async with Client(server) as client:
            assert (await client.list_resources()).resources == []
            await client.call_tool("extract", {"text": f"<p>{STORY}</p>"})
            assert len((await client.list_resources()).resources) == 1


async def test_pages_that_are_kept_in_a_file_are_there_after_a_restart(tmp_path: object) -> None:
    settings = Settings(store=tmp_path / "pages.db")  # type: ignore[operator]
    for _ in range(2):
        async with Client(WebServer(settings)) as client:
            await client.call_tool("extract", {"text": f"<p>{STORY}</p>", "canonical_url": "https://example.org/"})
            assert len((await client.list_resources()).resources) == 1


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_one_real_change_is_told_once_for_the_page_and_once_for_its_diff(era: str) -> None:
    async with at(**QUICK) as agent, tidings.connect(agent.server, era=era) as client:
        page = await agent.fetch()
        diff = f"webfetch://diff/{page['page_id']}"
        heard: list[object] = []
        client.on(ResourceUpdated, heard.append)
        client.on(ResourcesListChanged, heard.append)
        await client.subscribe([page["page_uri"], diff])
        agent.site.pages["/"] = html(STORY, NEWS)
        await agent.server.tells_of(diff)
        looks = anyio.Event()

        async def looked(ask: object) -> None:
            looks.set()
            await html(STORY, NEWS)(ask)  # type: ignore[arg-type]

        agent.site.pages["/"] = looked
        with anyio.fail_after(10):
            await looks.wait()
        updates = [uris for uris, _ in agent.server.told if uris]
        assert updates == [(page["page_uri"], diff)]
        assert NEWS in (await client.read_resource(diff)).text


@pytest.mark.parametrize("era", ERAS)
async def test_a_signal_to_stop_ends_a_long_call_with_a_word(era: str) -> None:
    asked, before = anyio.Event(), signal.getsignal(signal.SIGTERM)
    stops: list[int] = []

    async def never(_: object) -> None:
        asked.set()
        await anyio.sleep_forever()

    # As a web server has one: where nobody handles it, the signal ends the process.
    signal.signal(signal.SIGTERM, lambda number, _: stops.append(number))
    try:
        async with at({"/": never}, era=era) as agent:
            with anyio.fail_after(20):
                async with anyio.create_task_group() as tasks:

                    async def call() -> None:
                        with pytest.raises(MCPError, match="is stopping"):
                            await agent.client.call_tool("fetch", {"urls": [agent.site.url()]})

                    tasks.start_soon(call)
                    await asked.wait()
                    signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert stops == [signal.SIGTERM]


async def test_a_page_is_watched_for_its_subscribers_alone() -> None:
    async with at(**QUICK) as agent, tidings.connect(agent.server) as client:
        page = await agent.fetch()
        diff = f"webfetch://diff/{page['page_id']}"
        await client.subscribe([page["page_uri"], diff])
        assert (await agent.server.store.watch_of(page["page_id"])) is not None
        await client.unsubscribe(page["page_uri"])
        await agent.client.list_tools()
        assert (await agent.server.store.watch_of(page["page_id"])) is not None
        await client.unsubscribe(diff)
        with anyio.fail_after(10):
            while await agent.server.store.watch_of(page["page_id"]) is not None:
                await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_what_cannot_be_subscribed_to_says_what_can(era: str) -> None:
    async with at(max_watches=0) as agent, tidings.connect(agent.server, era=era) as client:
        page = await agent.fetch()
        with pytest.raises(NotSubscribable, match=page["page_uri"]):
            await client.subscribe(page["uri"])
        with pytest.raises(NotSubscribable, match="begins with a fixed version"):
            await client.subscribe(f"webfetch://diff/{page['page_id']}?from={page['source_id']}")
        with pytest.raises(NotSubscribable, match=r"webfetch://page/\{page_id\}"):
            await client.subscribe(f"webfetch://packet/{NOWHERE}")
        with pytest.raises(ResourceNotFound, match="`fetch` its URL first"):
            await client.subscribe(f"webfetch://page/{NOWHERE}")
        with pytest.raises(ResourceNotFound, match=r"nonsense' is not a URI of this server\. There are"):
            await client.subscribe("webfetch://page/nonsense")
        with pytest.raises(ResourceNotFound, match="Call the tool `fetch` with it"):
            await client.subscribe(agent.site.url())
        with pytest.raises(SourceUnavailable, match="--max-watches"):
            await client.subscribe(page["page_uri"])
        await client.subscribe("webfetch://page/*")
        await client.unsubscribe("webfetch://page/*")


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_the_error_of_an_unknown_page_has_its_uri_in_the_old_era() -> None:
    async with at(era="legacy") as agent:
        with pytest.raises(MCPError) as refused:
            await agent.client.subscribe_resource(f"webfetch://page/{NOWHERE}")
        assert refused.value.error.code == -32002
        assert refused.value.error.data["uri"] == f"webfetch://page/{NOWHERE}"


async def test_the_error_of_an_unknown_page_has_its_uri_in_the_modern_era() -> None:
    async with at() as agent:
        with pytest.raises(MCPError) as refused:
            await agent.client.listen(resource_subscriptions=[f"webfetch://page/{NOWHERE}"]).__aenter__()
        assert refused.value.error.code == -32602
        assert refused.value.error.data["uri"] == f"webfetch://page/{NOWHERE}"


async def test_a_store_that_fails_is_said_to_readers_and_subscribers_and_nothing_else_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with at() as agent, tidings.connect(agent.server) as client:
        page = await agent.fetch()

        async def broken(*_: object, **__: object) -> None:
            raise StoreError("The disk is full. Free some space.")

        with monkeypatch.context() as patched:
            for name in ("part", "page_of", "get"):
                patched.setattr(agent.server.store, name, broken)
            with pytest.raises(MCPError, match="The disk is full"):
                await agent.client.read_resource(page["uri"])
            with pytest.raises(SourceUnavailable, match="The disk is full"):
                await client.subscribe(page["page_uri"])
            assert await agent.refused("diff", page=page["page_id"]) == "The disk is full. Free some space."
            assert await agent.refused("fetch", urls=[agent.site.url()]) == (
                f"{agent.site.url()}: The disk is full. Free some space."
            )
        assert STORY in (await agent.fetch())["content"]


async def test_a_change_that_the_bus_does_not_take_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with at() as agent:

        async def lost(_: object) -> None:
            raise BusUnavailable("nobody listens")

        monkeypatch.setattr(agent.server._live._bus, "publish", lost)
        await agent.fetch()
    assert "Changes wait, and are published when the bus is back: nobody listens" in caplog.text


async def test_what_expires_is_forgotten_later_if_the_store_fails_now(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        """A store that fails, and then has nothing to forget."""

        def __init__(self) -> None:
            self.asked = anyio.Event()
            self.times = 0

        async def prune(self) -> tuple[str, ...]:
            self.times += 1
            if self.times == 1:
                raise StoreError("It is locked.")
            self.asked.set()
            return ()

        async def next_expiry(self) -> float | None:
            return None

    async def nobody(*_: object) -> None:
        raise AssertionError

    store = Broken()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wiring._prune, store, 0.01, nobody)
            await store.asked.wait()
            tasks.cancel_scope.cancel()
    assert "It is locked." in caplog.text


@pytest.mark.parametrize("output", ["markdown", "llm_packet"])
async def test_a_page_that_was_fetched_and_has_changed_is_named_in_other_results(output: str) -> None:
    settings = Settings(allow_private=("127.0.0.0/8",), requests_per_minute=10_000)
    server = WebServer(settings, waking=Waking(hints=True))
    async with site({"/": html(STORY)}) as place, serving(server.asgi()) as port:
        first, second = await Session.start(port), await Session.start(port)

        async def call(session: Session, tool: str, **arguments: Any) -> list[dict[str, Any]]:
            answer = await session.request("tools/call", {"name": tool, "arguments": arguments})
            return answer.json["result"]["content"]

        fetched = await call(first, "fetch", urls=[place.url()], format={"output": output})
        assert fetched[0]["type"] == "text"
        place.pages["/"] = html(STORY, NEWS)
        await call(second, "fetch", urls=[place.url()], cache_ttl_s=0)
        hint = (await call(first, "watch"))[1]["text"]
        assert hint.startswith("Changed since you last read")
        assert "webfetch://page/" in hint
        assert len(await call(second, "watch")) == 1
