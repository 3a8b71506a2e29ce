"""What may be typed: ids by their beginnings, and by the titles and URLs of their pages."""

import pytest
from mcp_types import PromptReference, ResourceTemplateReference

from tests.web.agent import STORY, Agent, at, html

pytestmark = pytest.mark.anyio

PACKET = ResourceTemplateReference(type="ref/resource", uri="webfetch://packet/{source_id}")
PAGE = ResourceTemplateReference(type="ref/resource", uri="webfetch://page/{page_id}")
PROMPT = PromptReference(type="ref/prompt", name="summarise_page")


async def typed(agent: Agent, ref: PromptReference | ResourceTemplateReference, name: str, value: str) -> list[str]:
    return (await agent.client.complete(ref, {"name": name, "value": value})).completion.values


async def test_an_id_is_found_by_its_beginning_and_by_the_title_of_its_page() -> None:
    async with at({"/mill": html(STORY, title="The old mill"), "/bridge": html(STORY, title="A new bridge")}) as agent:
        mill, bridge = await agent.fetch("/mill"), await agent.fetch("/bridge")
        both = [bridge["source_id"], mill["source_id"]]
        assert await typed(agent, PACKET, "source_id", "") == both
        assert mill["source_id"] in await typed(agent, PACKET, "source_id", mill["source_id"][:4])
        assert await typed(agent, PACKET, "source_id", "OLD mill") == [mill["source_id"]]
        assert await typed(agent, PAGE, "page_id", "new bridge") == [bridge["page_id"]]
        assert await typed(agent, PAGE, "page_id", "no such thing") == []


async def test_the_versions_to_compare_with_are_those_of_the_page_that_is_given() -> None:
    async with at({"/mill": html(STORY, title="The old mill"), "/bridge": html(STORY, title="A new bridge")}) as agent:
        mill, bridge = await agent.fetch("/mill"), await agent.fetch("/bridge")
        diff = ResourceTemplateReference(type="ref/resource", uri="webfetch://diff/{page_id}{?from}")
        changed = PromptReference(type="ref/prompt", name="what_changed")
        for ref, name, page in (
            (diff, "from", {"page_id": mill["page_id"]}),
            (changed, "since", {"url": agent.site.url("/mill")}),
            (changed, "since", {"url": mill["uri"]}),
        ):
            asked = {"name": name, "value": ""}
            assert (await agent.client.complete(ref, asked, page)).completion.values == [mill["source_id"]]
        for unknown in ("https://example.org/", "webfetch://page/nonsense"):
            found = await agent.client.complete(changed, {"name": "since", "value": ""}, {"url": unknown})
            assert found.completion.values == []
        assert await typed(agent, changed, "since", "") == [bridge["source_id"], mill["source_id"]]


async def test_a_url_is_found_by_what_it_holds_and_by_its_title() -> None:
    async with at({"/mill": html(STORY, title="The old mill"), "/bridge": html(STORY, title="A new bridge")}) as agent:
        await agent.fetch("/mill")
        await agent.fetch("/bridge")
        mill, bridge = agent.site.url("/mill"), agent.site.url("/bridge")
        assert await typed(agent, PROMPT, "url", "127.0.0.1") == [bridge, mill]
        assert await typed(agent, PROMPT, "url", "/mill") == [mill]
        assert await typed(agent, PROMPT, "urls", f"{mill} bri") == [f"{mill} {bridge}"]
        assert await typed(agent, PROMPT, "focus", "x") == []
