"""`chunk`, `compact` and `diff`: what is made of pages that are there already. None of them fetches."""

from typing import Any

import pytest

from tests.web.agent import STORY, at, html
from tests.web.fetch.servers import Page, text

pytestmark = pytest.mark.anyio

MANUAL = "<html><title>Manual</title><body><main><h1>Manual</h1>" + "".join(
    f"<h2>Part {number}</h2>"
    + f"<p>Turn the wheel of machine {number} to the left, and then wait for the bell. </p>" * 8
    for number in range(12)
)
PAGES = {"/": text(MANUAL, content_type="text/html")}


async def test_chunks_keep_to_their_budget_and_joined_they_are_the_content() -> None:
    async with at(PAGES) as agent:
        page = await agent.fetch(max_tokens=100_000)
        said = await agent.call("chunk", source_id=page["source_id"], max_tokens=400)
        assert said["total"] == len(said["chunks"]) > 2
        assert "".join(chunk["text"] for chunk in said["chunks"]) == page["content"]
        assert all(chunk["est_tokens"] <= 400 for chunk in said["chunks"])
        assert said["chunks"][0]["chunk_id"] == f"{page['source_id']}:c0"
        for chunk in said["chunks"]:
            assert page["content"][chunk["start_char"] : chunk["end_char"]] == chunk["text"]


async def test_chunks_that_do_not_fit_are_counted_and_can_be_had() -> None:
    async with at(PAGES) as agent:
        page = await agent.fetch()
        said = await agent.call("chunk", source_id=page["uri"], max_tokens=400, answer_tokens=500)
        assert len(said["chunks"]) < said["total"]
        assert f"go on with start={said['next_start']}" in agent.text
        seen = [chunk["chunk_id"] for chunk in said["chunks"]]
        while "next_start" in said:
            said = await agent.call(
                "chunk", source_id=page["uri"], max_tokens=400, answer_tokens=500, start=said["next_start"]
            )
            seen += [chunk["chunk_id"] for chunk in said["chunks"]]
        assert seen == [f"{page['source_id']}:c{number}" for number in range(said["total"])]
        said = await agent.call("chunk", source_id=page["uri"], start=99)
        assert "There is no chunk 99" in agent.text


async def test_a_text_of_ones_own_can_be_cut_too() -> None:
    async with at() as agent:
        said = await agent.call("chunk", packet={"content": "# A\n\nOne.\n"}, strategy="balanced")
        assert [chunk["chunk_id"] for chunk in said["chunks"]] == ["given:c0"]
        assert "source_id of a fetched page" in await agent.refused("chunk")
        assert "is not kept, or no longer" in await agent.refused("chunk", source_id="0123456789abcdef")
        assert "is not a source_id" in await agent.refused("compact", source_id="nonsense")


@pytest.mark.parametrize("mode", ["structural", "salience", "question_focused"])
async def test_a_page_is_shortened_in_its_own_words(mode: str) -> None:
    async with at(PAGES) as agent:
        page = await agent.fetch(max_tokens=100_000)
        arguments = {"source_id": page["source_id"], "max_tokens": 300, "mode": mode}
        said = await agent.call("compact", **arguments, question="What rings?", preserve=["procedures"])
        assert said["est_tokens"] <= 300
        assert said["summary"]
        assert said["summary"].splitlines()[0] in agent.text
        for quote in said["important_quotes"]:
            assert quote["text"] in page["content"]


async def test_chunks_can_be_shortened_as_they_came_or_as_texts() -> None:
    async with at(PAGES) as agent:
        page = await agent.fetch()
        chunks = (await agent.call("chunk", source_id=page["source_id"], max_tokens=400))["chunks"]
        said = await agent.call("compact", chunks=chunks[2:4], max_tokens=300)
        ids = {quote["chunk_id"] for quote in said["important_quotes"]}
        assert ids <= {chunk["chunk_id"] for chunk in chunks[2:4]}
        said = await agent.call("compact", chunks=[STORY, "The mill is old."], max_tokens=300)
        assert "The mill is old." in agent.text
        assert "text" in await agent.refused("compact", chunks=[{"body": "x"}])


async def test_a_budget_that_nothing_fits_is_refused() -> None:
    async with at() as agent:
        assert "Give" in await agent.refused("chunk", content=STORY, max_tokens=50, margin_ratio=0.9)


@pytest.mark.parametrize(
    ("tool", "options", "said"),
    [
        ("chunk", {"margin_ratio": 1.0}, "margin_ratio"),
        ("chunk", {"margin_ratio": -0.1}, "margin_ratio"),
        ("chunk", {"strategy": "sideways"}, "headings_first"),
        ("compact", {"max_tokens": 10}, "max_tokens"),
        ("compact", {"mode": "poetic"}, "structural"),
        ("compact", {"mode": "question_focused"}, "needs a `question`"),
        ("compact", {"mode": "question_focused", "question": " "}, "needs a `question`"),
        ("compact", {"preserve": ["jokes"]}, "numbers"),
    ],
)
async def test_an_option_that_is_none_is_refused_with_what_to_give(
    tool: str, options: dict[str, Any], said: str
) -> None:
    async with at() as agent:
        assert said in await agent.refused(tool, content=STORY, **options)


async def test_a_diff_says_what_changed_between_versions() -> None:
    async with at({"/": html(STORY, "It is said to cost two million.")}) as agent:
        first = await agent.fetch()
        said = await agent.call("diff", page=first["page_id"])
        assert (said["added"], said["removed"]) == (0, 0)
        assert "there is no version before" in agent.text
        agent.site.pages["/"] = html(STORY, "It is said to cost three million.")
        second = await agent.fetch(cache_ttl_s=0)
        assert second["page_id"] == first["page_id"]
        for name in (agent.site.url(), first["page_id"], first["page_uri"]):
            said = await agent.call("diff", page=name)
            assert (said["before"], said["after"]) == (first["source_id"], second["source_id"])
            assert "-It is said to cost two million." in said["diff"]
            assert "+It is said to cost three million." in said["diff"]
        said = await agent.call("diff", page=first["page_id"], since=second["source_id"])
        assert "has the same content" in said["diff"]
        assert "is not a version of" in await agent.refused("diff", page=first["page_id"], since="0123456789abcdef")
        assert "No page" in await agent.refused("diff", page="https://example.org/never")
        paths = agent.site.paths().count("/")
        assert paths == 2


async def test_what_changed_in_a_feed_is_told_by_its_entries() -> None:
    def feed(*titles: str) -> Page:
        items = "".join(
            f"<item><title>{title}</title><guid>{title}</guid><link>https://example.org/{title}</link></item>"
            for title in titles
        )
        body = f"<rss version='2.0'><channel><title>Feed</title>{items}</channel></rss>"
        return text(body, content_type="application/rss+xml")

    async with at({"/": feed("one", "two", "three")}) as agent:
        page = await agent.fetch()
        agent.site.pages["/"] = feed("zero", "one", "two")
        await agent.fetch(cache_ttl_s=0)
        said = await agent.call("diff", page=page["page_id"])
        assert "entries added: 1, changed: 0, removed: 0" in said["diff"]
        assert "zero" in said["diff"]
        assert (said["added"], said["removed"]) == (1, 0)


async def test_a_long_diff_goes_on_where_it_ended() -> None:
    async with at({"/": html(*(f"Old line {number} of the page that was." for number in range(200)))}) as agent:
        page = await agent.fetch()
        agent.site.pages["/"] = html(*(f"New line {number} of the page that is." for number in range(200)))
        await agent.fetch(cache_ttl_s=0)
        said = await agent.call("diff", page=page["page_id"], max_tokens=200)
        assert "go on with start=" in said["left_out"]
        assert said["left_out"] in agent.text
        whole = await agent.read(f"webfetch://diff/{page['page_id']}")
        rest = await agent.call("diff", page=page["page_id"], start=len(said["diff"]), max_tokens=100_000)
        assert said["diff"] + rest["diff"] == whole


async def test_either_kind_of_id_and_a_url_do_where_the_other_is_asked_for() -> None:
    async with at() as agent:
        page = await agent.fetch()
        for name in (page["source_id"], page["page_id"], page["page_uri"], page["uri"], agent.site.url()):
            assert (await agent.call("chunk", source_id=name))["source_id"] == page["source_id"]
            assert (await agent.call("diff", page=name))["page_id"] == page["page_id"]
        assert "is not kept, or no longer" in await agent.refused("chunk", source_id="https://example.org/")
        assert "No page '0123456789abcdef' is known here" in await agent.refused("diff", page="0123456789abcdef")


async def test_a_text_of_which_two_are_given_is_refused() -> None:
    async with at() as agent:
        both = {"source_id": (await agent.fetch())["source_id"], "content": "Another text."}
        assert await agent.refused("chunk", **both) == "Give source_id or content, not both."
        assert "Give content or chunks" in await agent.refused("compact", content="A text.", chunks=["A text."])


async def test_what_was_left_out_is_said_once_and_a_question_is_heeded_without_a_mode() -> None:
    long = [f"Paragraph {number} tells of mills and of millers." for number in range(200)]
    async with at({"/": html(*long, "The bell rings at noon.")}) as agent:
        page = await agent.fetch()
        said = await agent.call("compact", source_id=page["source_id"], max_tokens=100, question="When does it ring?")
        assert "The bell rings at noon." in said["summary"]
        assert agent.text.count("Left out:") == 1


async def test_a_diff_from_behind_its_end_says_how_long_it_is() -> None:
    async with at() as agent:
        page = await agent.fetch()
        await agent.call("diff", page=page["page_id"], start=99_999)
        assert "There is nothing from there on" in agent.text
