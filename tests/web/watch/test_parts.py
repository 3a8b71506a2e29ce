"""Watches of a part of a page, and under a condition."""

from typing import Any

import pytest

from tests.web.agent import at
from tests.web.fetch.servers import Page, text
from tests.web.shelf import Changing, Shelf, both, shelf
from tidings.web.extract.model import ExtractOptions
from tidings.web.extract.part import BadPart, check_part
from tidings.web.extract.pool import extract
from tidings.web.page_options import FetchOptions
from tidings.web.watch.state import BadCondition, check_condition
from tidings.web.watch.watcher import TOOL

pytestmark = pytest.mark.anyio

PAGE = """<html><head><title>Mug</title></head><body><h1>Mug</h1><div id=p class="price now">49.90 EUR</div>
<h2>News</h2><p>The kiln burns again, and the first mugs of the year are cooling on the shelf outside.</p>
<h2>Visit</h2><p>We are open on weekdays from nine to five, and on the first Saturday of each month.</p></body>"""
JSON = '{"items": [{"name": "a", "price": 3}, {"name": "b", "tags": {"name": "c"}}]}'


@pytest.mark.parametrize(
    ("part", "found"),
    [
        ("css:.price", "49.90 EUR"),
        ("css:#p, h1", "49.90 EUR\nMug"),
        ("css:.none", ""),
        ("xpath://div[@id='p']/text()", "49.90 EUR"),
        ("xpath:count(//h2)", "2.0"),
        (r"regex:open on (\w+)", "weekdays"),
        (
            "heading:news",
            "## News\nThe kiln burns again, and the first mugs of the year are cooling on the shelf outside.",
        ),
    ],
)
def test_a_part_is_found_by(part: str, found: str) -> None:
    check_part(part)
    read = extract(PAGE.encode(), "text/html", "https://a.example/", ExtractOptions(part=part))
    assert read.markdown == found


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.items[0].name", "a"),
        ("$.items[-1].name", "b"),
        ("$.items[*].name", "a\nb"),
        ("$..name", "a\nb\nc"),
        ("$['items'][0]['price']", "3"),
        ("$.items[1].tags", '{"name": "c"}'),
        ("$.none[0]", ""),
    ],
)
def test_a_part_of_json_is_found_by(path: str, found: str) -> None:
    read = extract(JSON.encode(), "application/json", "https://a.example/", ExtractOptions(part=f"json:{path}"))
    assert sorted(read.markdown.split("\n")) == sorted(found.split("\n"))


@pytest.mark.parametrize("part", ["", "price", "css:", "css:a:hover", "xpath://[", "json:$.a b", "regex:(", "x:y"])
def test_a_part_that_cannot_be_used_is_refused(part: str) -> None:
    with pytest.raises(BadPart):
        check_part(part)


async def watched(here: Shelf, part: str = "", when: str = "", path: str = "/") -> str:
    fetched = await here.library.fetch(here.site.url(path), FetchOptions(part=part))
    await here.watcher.begin(fetched.entry.page_id, TOOL, when=when)
    here.heard()
    return fetched.entry.page_id


async def test_only_the_part_counts_and_each_part_is_a_page_of_its_own() -> None:
    page = Changing(PAGE, "text/html")
    async with shelf({"/": page}) as here:
        price = await watched(here, "css:.price")
        news = await watched(here, "heading:News")
        whole = await here.watch()
        assert len({price, news, whole}) == 3
        for old, new, told in (
            ("49.90", "44.90", [price]),
            ("kiln burns", "oven glows", [news, whole]),
            ("nine", "ten", [whole]),
        ):
            page.body = page.body.replace(old, new)
            await here.later()
            heard = here.heard()[0]
            assert all(uri in heard for each in told for uri in both(each)), old
            assert not any(uri in heard for each in {price, news} - set(told) for uri in both(each)), old


async def test_the_title_of_the_page_is_none_of_its_part() -> None:
    page = Changing(f"<title>Sold out soon? 3 visitors</title>{PAGE}", "text/html")
    async with shelf({"/": page}) as here:
        await watched(here, "css:.price")
        page.body = page.body.replace("3 visitors", "4 guests")
        await here.later()
        assert here.heard()[0] == []
    async with shelf({"/": page}) as here:
        sold = await watched(here, "css:.price", "contains sold")
        page.body = page.body.replace("49.90 EUR", "Sold out")
        await here.later()
        assert here.heard()[0] == both(sold)


@pytest.mark.parametrize(
    ("when", "steps"),
    [
        ("price below 45", [("49.90", False), ("44.90", True), ("46.00", False)]),
        ("availability is sold out", [("49.90", False), ("Sold out", True)]),
        ("below 45", [("49.90", False), ("44.90", True), ("43.90", False), ("46.00", False), ("40.00", True)]),
        ("contains sold", [("49.90", False), ("Sold out", True), ("sold again", False), ("49.90", False)]),
        ("lacks EUR", [("49.90 EUR", False), ("49.90", True)]),
        ("disappears", [("49.90", False), ("", True), ("", False), ("49.90", False), ("", True)]),
        ("appears", [("", False), ("49.90", True)]),
    ],
)
async def test_a_condition_is_told_of_when_it_begins_to_hold(when: str, steps: list[tuple[str, bool]]) -> None:
    def body(price: str) -> str:
        return PAGE.replace("49.90 EUR", price) if price else PAGE.replace('class="price now"', "")

    page = Changing(body(steps[0][0]), "text/html")
    async with shelf({"/": page}) as here:
        page_id = await watched(here, "css:.price", when)
        for price, told in steps:
            page.body = body(price)
            await here.later()
            assert here.heard()[0] == (both(page_id) if told else []), (price, told)


async def test_a_condition_on_a_fact_and_one_on_a_page_that_goes() -> None:
    data = '<script type="application/ld+json">{"@type": "Product", "offers": {"price": "%s"}}</script>'
    page = Changing(PAGE + data % "49.90", "text/html")
    async with shelf({"/": page}) as here:
        cheap = await watched(here, when="price below 45")
        page.body = PAGE + data % "44.90"
        await here.later()
        assert here.heard()[0] == both(cheap)
    async with shelf({"/": page}) as here:
        page_id = await watched(here, when="disappears")
        page.status = 404
        await here.later()
        await here.later()
        assert here.heard()[0] == both(page_id)


@pytest.mark.parametrize("when", ["", "cheap", "contains", "price below a lot", "x" * 400])
def test_a_condition_that_is_not_understood_is_refused(when: str) -> None:
    with pytest.raises(BadCondition):
        check_condition(when)


async def test_the_new_pages_of_a_site_are_told_and_those_that_go_are_not() -> None:
    def sitemap(*names: str) -> Page:
        rows = "".join(f"<url><loc>{{site}}/{name}</loc></url>" for name in names)
        return text(f"<urlset>{rows}</urlset>".replace("{site}", here.site.url("")), Content_Type="application/xml")

    async with shelf({"/": text("<p>Front</p>", Content_Type="text/html")}) as here:
        here.site.pages["/sitemap.xml"] = sitemap("a", "b")
        page_id = await watched(here, "site")
        for names, told in ((("b", "a"), False), (("b", "a", "c"), True), (("a", "c"), False)):
            here.site.pages["/sitemap.xml"] = sitemap(*names)
            await here.later()
            assert (here.heard()[0] == both(page_id)) is told, names


async def test_the_tool_watches_a_part_under_a_condition_and_refuses_what_it_does_not_understand() -> None:
    async with at({"/": text(PAGE, Content_Type="text/html")}) as agent:
        url = agent.site.url()
        data: dict[str, Any] = await agent.call("watch", page=url, part="css:.price", when="below 60")
        (one,) = data["watched"]
        assert one["url"] == f"{url} [css:.price]"
        assert "holds already" in one["note"]
        for bad in ({"part": "price"}, {"when": "soon"}):
            assert "Write" in await agent.refused("watch", page=url, **bad)
        ended = await agent.call("unwatch", page=url)
        assert ended["page_id"] == one["page_id"]


@pytest.mark.parametrize(
    ("path", "how"),
    [
        ("/", {"part": "css:.price"}),
        ("/", {"part": "css:.price, h1 > b[title]", "when": "price below 50"}),
        ("/", {"part": "heading:Harbour news"}),
        ("/", {"part": "regex:(?i)[a-z]+ ]?"}),
        ("/feed", {"part": "entries"}),
        ("/", {"part": "site"}),
        ("/", {"body": '{"query": "{ price }"}'}),
        ("/?a=[1]", {"part": "css:.price", "body": "{}"}),
        ("/?a=[1]", {}),
    ],
)
async def test_what_is_watched_is_known_by_the_address_that_the_list_shows(path: str, how: dict[str, str]) -> None:
    page = text(PAGE, Content_Type="text/html")
    feed = (
        "<rss version='2.0'><channel><title>News</title><item><title>One</title><link>/1</link></item></channel></rss>"
    )
    pages = {"/": page, "/?a=[1]": page, "/?a=%5B1%5D": page, "/feed": text(feed, Content_Type="application/rss+xml")}
    async with at(pages) as agent:
        url = agent.site.url(path)
        await agent.fetch(path)
        (begun,) = (await agent.call("watch", page=url, **how))["watched"]
        (listed,) = (await agent.call("watch"))["watched"]
        address = listed["url"]
        assert f"- {address} (" in agent.text
        (again,) = (await agent.call("watch", page=address, when="contains fish"))["watched"]
        assert again["page_id"] == begun["page_id"] == listed["page_id"]
        assert (await agent.call("diff", page=address))["page_id"] == begun["page_id"]
        (shown,) = (await agent.call("fetch", urls=[address]))["pages"]
        assert shown["page_id"] == begun["page_id"]
        if how:
            assert address in await agent.refused("unwatch", page=url)
        assert (await agent.call("unwatch", page=address))["url"] == address
        assert (await agent.call("watch"))["watched"] == []
