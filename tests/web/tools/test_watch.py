"""`watch` and `unwatch`: for clients that cannot subscribe."""

import itertools

import anyio
import pytest

from tests.web.agent import ERAS, STORY, at, html
from tests.web.fetch.servers import Ask, text
from tidings.web.store.model import StoredWatch
from tidings.web.tools.watch import _listed

pytestmark = pytest.mark.anyio

QUICK = {"watch_min": 0.1, "watch_max": 0.3}


@pytest.mark.parametrize("era", ERAS)
async def test_a_page_is_watched_until_somebody_says_otherwise(era: str) -> None:
    async with at({"/": html(STORY)}, era=era, **QUICK) as agent:
        (watched,) = (await agent.call("watch", page=agent.site.url()))["watched"]
        assert watched["url"] == agent.site.url()
        assert watched["diff_uri"] in agent.text
        agent.site.pages["/"] = html(STORY, "The mill will be closed meanwhile, the mayor said on Tuesday.")
        await agent.server.tells_of(watched["diff_uri"])
        assert "+The mill will be closed" in (await agent.call("diff", page=watched["page_id"]))["diff"]
        listed = await agent.call("watch")
        assert [each["page_id"] for each in listed["watched"]] == [watched["page_id"]]
        said = await agent.call("unwatch", page=watched["page_uri"])
        assert said["still_watched"] is False
        assert (await agent.call("watch"))["watched"] == []
        assert "No page is watched" in agent.text


async def test_what_is_ignored_is_no_change() -> None:
    async with at({"/": html(STORY, "1,204 views")}, **QUICK) as agent:
        page = await agent.fetch()
        await agent.call(
            "watch", page=page["page_id"], ignore={"ready": "counters", "patterns": [r"Offer ends in \d+ s"]}
        )
        looks, enough = itertools.count(1), anyio.Event()

        async def counted(ask: Ask) -> None:
            if next(looks) == 3:
                enough.set()
            await html(STORY, "1,377 views")(ask)

        agent.site.pages["/"] = counted
        with anyio.fail_after(20):
            await enough.wait()
        assert (await agent.call("diff", page=page["page_id"]))["added"] == 0


async def test_what_cannot_be_watched_is_refused_with_the_cure() -> None:
    async with at(watch_min=10, watch_max=100, max_watches=1) as agent:
        page = await agent.fetch()
        said = await agent.refused("watch", page=page["page_id"], interval_s=5)
        assert said == "interval_s can be 10 to 100 here. Give that, or leave it out."
        assert "ignore: " in await agent.refused("watch", page=page["page_id"], ignore={"patterns": ["("]})
        assert "ready" in await agent.refused("watch", page=page["page_id"], ignore={"ready": ["weather"]})
        assert "fetch" in await agent.refused("watch", page="0123456789abcdef")
        assert "404" in await agent.refused("watch", page=agent.site.url("/gone"))
        (given,) = (await agent.call("extract", text=f"<p>{STORY}</p>"))["pages"]
        assert "can be fetched" in await agent.refused("watch", page=given["page_id"])
        await agent.call("watch", page=page["page_id"], interval_s=20)
        agent.site.pages["/b"] = html(STORY)
        assert "--max-watches" in await agent.refused("watch", page=agent.site.url("/b"))
        assert "No page" in await agent.refused("unwatch", page="https://example.org/never")


async def test_a_watched_page_that_fails_is_listed_with_why() -> None:
    async with at(**QUICK) as agent:
        page = await agent.fetch()
        failing = anyio.Event()

        async def broken(ask: Ask) -> None:
            failing.set()
            await ask.reply(b"", 500)

        await agent.call("watch", page=page["page_id"])
        agent.site.pages["/"] = broken
        with anyio.fail_after(20):
            await failing.wait()
            while not (listed := (await agent.call("watch"))["watched"][0]).get("failures"):
                await anyio.lowlevel.checkpoint()
        assert "500" in listed["problem"]


async def test_of_very_many_watched_pages_the_first_are_listed_and_the_others_counted() -> None:
    watch = StoredWatch("0123456789abcdef", "https://a.b/", "https://a.b/", True, 0, {}, 0.0, 0, {})
    said = _listed([watch] * 250).structured_content
    assert (len(said["watched"]), said["left_out"]) == (200, 50)


async def test_a_page_without_text_is_watched_with_a_word_about_that() -> None:
    scripts = text("<html><body><div id=app></div><script src=a.js></script></body></html>", content_type="text/html")
    async with at({"/": scripts}) as agent:
        (watched,) = (await agent.call("watch", page=agent.site.url()))["watched"]
        assert watched["note"].startswith("There is no text on it to watch so far: The page has no text")
        assert watched["note"] in agent.text
