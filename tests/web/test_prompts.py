"""The prompts: what each asks for, what it brings along, and what it says of arguments that are wrong."""

import pytest
from mcp.shared.exceptions import MCPError

from tests.web.agent import ERAS, SIGNED, STORY, Agent, at, html

pytestmark = pytest.mark.anyio


async def got(agent: Agent, prompt: str, **arguments: str) -> tuple[str, list[object]]:
    """What a prompt says, and what it brings along."""
    messages = (await agent.client.get_prompt(prompt, arguments)).messages
    return messages[0].content.text, [message.content for message in messages[1:]]


async def refused(agent: Agent, prompt: str, **arguments: str) -> str:
    with pytest.raises(MCPError) as error:
        await agent.client.get_prompt(prompt, arguments)
    assert error.value.error.code == -32602
    return error.value.error.message


@pytest.mark.parametrize("era", ERAS)
async def test_there_are_six_and_each_says_what_it_is_for(era: str) -> None:
    async with at(era=era) as agent:
        prompts = (await agent.client.list_prompts()).prompts
        assert [prompt.name for prompt in prompts] == [
            "summarise_page",
            "compare_pages",
            "extract_facts",
            "research",
            "what_changed",
            "watch_page",
        ]
        assert all(prompt.title and prompt.description for prompt in prompts)
        assert all(argument.description for prompt in prompts for argument in prompt.arguments)


async def test_a_page_that_is_known_comes_along_and_any_other_is_to_be_fetched() -> None:
    async with at() as agent:
        text, brought = await got(agent, "summarise_page", url="https://example.org/a", focus="money")
        assert "Begin with the tool `fetch`" in text
        assert "money" in text
        assert brought == []
        page = await agent.fetch()
        for name in (agent.site.url(), page["page_id"], page["uri"], page["page_uri"]):
            text, (content,) = await got(agent, "summarise_page", url=name)
            assert agent.site.url() in text
            assert "Begin with" not in text
            assert content.resource.uri == f"webfetch://content/{page['source_id']}"
            assert STORY in content.resource.text
        assert agent.site.paths().count("/") == 1


async def test_what_is_brought_along_is_bounded_and_says_so() -> None:
    long = [f"Line {number} of a very long page about bridges and mills." for number in range(500)]
    pages = {f"/{number}": html(*long, f"Number {number}.") for number in range(4)}
    async with at(pages) as agent:
        urls = [agent.site.url(path) for path in pages]
        await agent.call("fetch", urls=urls, max_tokens=100)
        text, brought = await got(agent, "compare_pages", urls=" ".join(urls), aspects="length")
        assert "length" in text
        assert len(brought) == 4
        assert all("more characters: read webfetch://content/" in content.resource.text for content in brought)
        assert sum(len(content.resource.text) for content in brought) < 40_000
        await agent.call("fetch", urls=[agent.site.url(f"/{number}?v={v}") for number in range(4) for v in range(5)])
        every = [agent.site.url(f"/{number}?v={v}") for number in range(4) for v in range(5)]
        _, brought = await got(agent, "extract_facts", urls=" ".join(every), facts="length")
        assert len(brought) == 20


async def test_a_page_that_vanished_is_to_be_fetched_again() -> None:
    async with at() as agent:
        text, brought = await got(agent, "summarise_page", url="webfetch://packet/0123456789abcdef")
        assert "Begin with" in text
        assert brought == []


async def test_research_begins_where_one_says_or_with_good_sources() -> None:
    async with at() as agent:
        text, _ = await got(agent, "research", question="Who pays for the bridge?")
        assert "No page is given" in text
        assert "Who pays for the bridge?" in text
        await agent.fetch()
        text, brought = await got(agent, "research", question="Who pays?", urls=agent.site.url())
        assert "No page is given" not in text
        assert len(brought) == 1


async def test_what_changed_is_told_with_the_difference_that_is_known() -> None:
    async with at() as agent:
        text, _ = await got(agent, "what_changed", url=agent.site.url())
        assert "nothing to compare with" in text
        first = await agent.fetch()
        agent.site.pages["/"] = html(STORY, "The works began on the first of March.")
        await agent.fetch(cache_ttl_s=0)
        text, _ = await got(agent, "what_changed", url=agent.site.url(), since=first["source_id"])
        assert "+The works began" in text
        assert f"page='{first['page_id']}'" in text


async def test_watching_is_explained_with_the_uri_to_subscribe_to() -> None:
    async with at() as agent:
        text, _ = await got(agent, "watch_page", url=agent.site.url(), matters="the price")
        assert "Fetch it, and subscribe" in text
        assert "the price" in text
        page = await agent.fetch()
        text, _ = await got(agent, "watch_page", url=agent.site.url())
        assert f"Subscribe to webfetch://diff/{page['page_id']}" in text
        assert "Every change" in text


async def test_arguments_that_are_wrong_are_named() -> None:
    async with at() as agent:
        assert "Which page?" in await refused(agent, "summarise_page", url=" ")
        assert "Which pages?" in await refused(agent, "extract_facts", urls=" ", facts="x")
        assert "Which facts?" in await refused(agent, "extract_facts", urls="https://a.b/", facts=" ")
        assert "two URLs or more" in await refused(agent, "compare_pages", urls="https://a.b/")
        assert "What is the question?" in await refused(agent, "research", question=" ")
        assert "is not a URI of this server" in await refused(agent, "watch_page", url="webfetch://packet/x")
        assert "1 to 20 URLs" in await refused(
            agent, "compare_pages", urls=" ".join(f"https://a.b/{number}" for number in range(30))
        )


async def test_who_wrote_a_page_and_when_comes_along() -> None:
    async with at({"/": SIGNED}) as agent:
        await agent.fetch()
        text, _ = await got(agent, "summarise_page", url=agent.site.url())
        assert '"News", by "Ann Miller", published 2026-01-02' in text
        agent.site.pages["/plain"] = html(STORY)
        await agent.fetch("/plain")
        text, _ = await got(agent, "summarise_page", url=agent.site.url("/plain"))
        assert "without an author, without a date; retrieved 20" in text


async def test_a_version_and_a_page_are_known_by_their_ids_and_what_is_no_page_is_refused() -> None:
    async with at() as agent:
        page = await agent.fetch()
        for name in (page["source_id"], page["page_id"]):
            _, (content,) = await got(agent, "summarise_page", url=name)
            assert STORY in content.resource.text
        assert await refused(agent, "summarise_page", url="nope") == (
            "nope cannot be fetched: it is not a complete URL; write it like https://example.org/page."
        )


async def test_names_that_are_wrong_are_told_with_the_nearest() -> None:
    async with at() as agent:
        assert "Did you mean 'summarise_page'?" in await refused(agent, "summarize_page", url="https://a.b/")
        assert "There is no argument 'uri'. Did you mean 'url'?" in await refused(agent, "summarise_page", uri="x")
        assert await refused(agent, "extract_facts", urls="https://a.b/") == "The argument 'facts' is missing."
