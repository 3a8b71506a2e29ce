"""What a client reads and lists, and what it is told when there is no such thing. Reading never fetches."""

import json
from datetime import datetime

import pytest
from mcp.shared.exceptions import MCPError

from tests.web.agent import ERAS, STORY, Agent, at, html
from tests.web.fetch.servers import Ask

pytestmark = pytest.mark.anyio

NOT_FOUND = {"2026-07-28": -32602, "legacy": -32002}
NOWHERE = "0123456789abcdef"


async def refusal(agent: Agent, uri: str) -> MCPError:
    with pytest.raises(MCPError) as refused:
        await agent.client.read_resource(uri)
    assert refused.value.error.data == {"uri": uri}
    return refused.value


@pytest.mark.parametrize("era", ERAS)
async def test_each_part_of_a_version_is_a_resource_of_its_own(era: str) -> None:
    async with at(era=era) as agent:
        page = await agent.fetch()
        source = page["source_id"]
        packet = json.loads(await agent.read(f"webfetch://packet/{source}"))
        assert (packet["source_id"], packet["hashes"]["content_hash"] != "") == (source, True)
        normalized = json.loads(await agent.read(f"webfetch://normalized/{source}"))
        assert normalized == {key: value for key, value in packet.items() if key != "hashes"}
        (content,) = (await agent.client.read_resource(f"webfetch://content/{source}")).contents
        assert (content.text, content.mime_type) == (packet["content"], "text/markdown")


@pytest.mark.parametrize("era", ERAS)
async def test_a_page_is_its_newest_version_with_those_before_it(era: str) -> None:
    async with at(era=era) as agent:
        first = await agent.fetch()
        agent.site.pages["/"] = html(STORY, "And another thing happened.")
        second = await agent.fetch(cache_ttl_s=0)
        (content,) = (await agent.client.read_resource(first["page_uri"])).contents
        page = json.loads(content.text)
        assert content.mime_type == "application/json"
        assert (page["page_id"], page["url"], page["title"]) == (first["page_id"], agent.site.url(), "News")
        assert "And another thing happened." in page["content"]
        assert [each["source_id"] for each in page["versions"]] == [second["source_id"], first["source_id"]]
        assert page["versions"][1]["uri"] == first["uri"]
        assert content.meta is not None
        about = content.meta["dev.tidings/page"]
        assert about["watched"] is False
        assert datetime.fromisoformat(about["checked_at"])


async def test_what_a_page_says_does_not_depend_on_when_it_was_looked_at_again() -> None:
    async def unchanged(ask: Ask) -> None:
        if "if-none-match" in ask.headers:
            await ask.reply(status=304)
        else:
            await ask.reply(f"<title>News</title><p>{STORY}</p>".encode(), content_type="text/html", etag='"1"')

    async with at({"/": unchanged}) as agent:
        page = await agent.fetch()
        before = await agent.read(page["page_uri"])
        await agent.fetch(cache_ttl_s=0)
        assert await agent.read(page["page_uri"]) == before


@pytest.mark.parametrize("era", ERAS)
async def test_a_diff_can_begin_with_any_version(era: str) -> None:
    async with at(era=era) as agent:
        ids = []
        for number in range(3):
            agent.site.pages["/"] = html(STORY, f"It is day number {number} of the works.")
            ids.append((await agent.fetch(cache_ttl_s=0))["source_id"])
        page_id = (await agent.fetch())["page_id"]
        (content,) = (await agent.client.read_resource(f"webfetch://diff/{page_id}")).contents
        assert content.mime_type == "text/x-diff"
        assert "-It is day number 1" in content.text
        assert "+It is day number 2" in content.text
        assert f"--- webfetch://packet/{ids[1]}" in content.text
        assert "-It is day number 0" in await agent.read(f"webfetch://diff/{page_id}?from={ids[0]}")
        error = await refusal(agent, f"webfetch://diff/{page_id}?from={NOWHERE}")
        assert error.error.code == NOT_FOUND[era]


async def test_what_was_fetched_in_another_way_does_not_speak_for_a_page_that_is_watched() -> None:
    async with at({"/": html(STORY, "It is day one of the works.")}) as agent:
        page = await agent.fetch()
        await agent.call("watch", page=page["page_id"])
        before = await agent.read(page["page_uri"]), await agent.read(f"webfetch://diff/{page['page_id']}")
        other = await agent.fetch(extraction={"remove_selectors": ["p"]}, cache_ttl_s=0)
        assert (other["page_id"], other["source_id"] == page["source_id"]) == (page["page_id"], False)
        after = await agent.read(page["page_uri"]), await agent.read(f"webfetch://diff/{page['page_id']}")
        assert after == before


async def test_bytes_that_somebody_gave_do_not_speak_for_a_page_that_was_fetched() -> None:
    async with at() as agent:
        page = await agent.fetch()
        (given,) = (
            await agent.call("extract", text="<p>Quite another thing, said by nobody.</p>", url=agent.site.url())
        )["pages"]
        assert given["page_id"] == page["page_id"]
        assert STORY in json.loads(await agent.read(page["page_uri"]))["content"]
        assert "there is no version before" in await agent.read(f"webfetch://diff/{page['page_id']}")
        assert STORY in (await agent.fetch())["content"]


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_not_there_and_what_is_no_uri_of_ours_is_the_eras_error(era: str) -> None:
    async with at(era=era) as agent:
        for kind in ("packet", "content", "normalized", "screenshot", "raw", "page", "diff"):
            error = await refusal(agent, f"webfetch://{kind}/{NOWHERE}")
            assert error.error.code == NOT_FOUND[era]
            assert "fetch" in error.error.message
        for uri in ("webfetch://packet/xyz", f"webfetch://packet/{NOWHERE}?x=1", "webfetch://nothing", "other://x"):
            assert (await refusal(agent, uri)).error.code == NOT_FOUND[era]
        error = await refusal(agent, agent.site.url())
        assert (error.error.code, agent.site.paths()) == (NOT_FOUND[era], [])
        assert "Call the tool `fetch`" in error.error.message


async def test_a_part_that_was_not_kept_says_how_to_have_it_kept() -> None:
    async with at() as agent:
        page = await agent.fetch()
        assert "format.output 'raw'" in str(await refusal(agent, f"webfetch://raw/{page['source_id']}"))
        assert "render.screenshot" in str(await refusal(agent, f"webfetch://screenshot/{page['source_id']}"))


@pytest.mark.parametrize("era", ERAS)
async def test_packets_are_listed_newest_first_in_pages(era: str) -> None:
    pages = {
        f"/{number}": html(STORY, f"This is page number {number}.", title=f"Page {number}") for number in range(55)
    }
    async with at(pages, era=era) as agent:
        urls = [agent.site.url(path) for path in pages]
        for first in range(0, 55, 20):
            await agent.call("fetch", urls=urls[first : first + 20], max_tokens=1000)
        first = await agent.client.list_resources()
        assert (len(first.resources), first.next_cursor is not None) == (50, True)
        rest = await agent.client.list_resources(cursor=first.next_cursor)
        assert (len(rest.resources), rest.next_cursor) == (5, None)
        both = [*first.resources, *rest.resources]
        assert {each.title for each in both} == {f"Page {number}" for number in range(55)}
        moments = [each.annotations.last_modified for each in both]
        assert moments == sorted(moments, reverse=True)
        with pytest.raises(MCPError) as refused:
            await agent.client.list_resources(cursor="nonsense")
        assert refused.value.error.code == -32602


async def test_a_listed_packet_says_what_it_is() -> None:
    async with at({"/": html(STORY, title="Bad\u202e\u200b \n news")}) as agent:
        page = await agent.fetch()
        (listed,) = (await agent.client.list_resources()).resources
        assert listed.uri == page["uri"]
        assert listed.title == "Bad news"
        assert listed.description == f"127.0.0.1, {page['retrieved_at']}"
        assert listed.mime_type == "application/json"
        assert listed.size == pytest.approx(len((await agent.read(page["uri"])).encode()), rel=0.2)
        assert listed.annotations.last_modified == page["retrieved_at"]


async def test_the_templates_name_every_kind() -> None:
    async with at() as agent:
        templates = (await agent.client.list_resource_templates()).resource_templates
        assert {each.name for each in templates} == {
            "packet",
            "content",
            "normalized",
            "screenshot",
            "raw",
            "page",
            "diff",
        }
        assert all(each.title and each.description for each in templates)


async def test_the_list_is_told_of_when_versions_come_expire_and_make_room() -> None:
    async with at(max_entries=2, keep=1) as agent:
        for path in ("/a", "/b", "/c"):
            agent.site.pages[path] = html(STORY, f"This is {path}.")
            before = len(agent.server.told)
            await agent.fetch(path)
            assert agent.server.told[before:] == [((), True)]
        assert len((await agent.client.list_resources()).resources) == 2
        # A second later they are forgotten, and that is told as well.
        told = len(agent.server.told)
        while (await agent.client.list_resources()).resources:
            await agent.server.tells_of(since=told)
            told = len(agent.server.told)


@pytest.mark.parametrize("part", ["page", "diff"])
async def test_a_page_whose_versions_are_all_gone_is_to_be_fetched_again(part: str) -> None:
    async with at(keep=1) as agent:
        page = await agent.fetch()
        told = len(agent.server.told)
        while (await agent.client.list_resources()).resources:
            await agent.server.tells_of(since=told)
            told = len(agent.server.told)
        error = await refusal(agent, f"webfetch://{part}/{page['page_id']}")
        assert "is kept any more. `fetch` it again." in error.error.message


async def test_a_version_that_goes_while_it_is_read_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async with at() as agent:
        page = await agent.fetch()

        async def gone(_: str) -> None:
            return None

        monkeypatch.setattr(agent.server.store, "get", gone)
        assert "has just expired" in (await refusal(agent, page["page_uri"])).error.message
        assert "has just expired" in (await refusal(agent, f"webfetch://diff/{page['page_id']}")).error.message
