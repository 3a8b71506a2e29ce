"""The pages of a site."""

import gzip
from typing import Any

import pytest

from tests.web.fetch.servers import text
from tests.web.shelf import shelf
from tidings.web import site_map
from tidings.web.fetch.request import Unreachable
from tidings.web.pages import HttpFailed
from tidings.web.site_map import Mapper, SitePage

pytestmark = pytest.mark.anyio


def html(body: str) -> Any:
    return text(body, Content_Type="text/html; charset=utf-8")


def listing(*urls: str, kind: str = "url", modified: str = "") -> bytes:
    whole = "urlset" if kind == "url" else "sitemapindex"
    date = f"<lastmod>{modified}</lastmod>" if modified else ""
    return f"<{whole}>{''.join(f'<{kind}><loc>{url}</loc>{date}</{kind}>' for url in urls)}</{whole}>".encode()


async def test_the_links_of_a_page_and_its_sitemap_come_in_this_order_each_once() -> None:
    async with shelf({}) as here:
        here.site.pages |= {
            "/": html(
                "<a href='/about#us'>About</a><a href='https://other.example/'>other</a><a href='/about'>About</a>"
            ),
            "/sitemap.xml": text(listing(here.site.url("/about"), here.site.url("/deep"), modified="2026-01-02")),
        }
        found = await here.library.map(here.site.url())

        assert found.pages == (
            SitePage(here.site.url("/about"), "page", title="About"),
            SitePage(here.site.url("/deep"), "sitemap", "2026-01-02"),
        )
        assert (found.total, found.notes) == (2, ())
        assert "/sitemap.xml" in here.site.paths()


async def test_other_hosts_are_left_out() -> None:
    async with shelf(
        {"/": html("<a href='https://other.example/'>x</a><a href='ftp://x/'>y</a><a href='http://u:p@x/'>z</a>")}
    ) as here:
        assert (await here.library.map(here.site.url())).pages == ()


async def test_a_limit_leaves_out_the_rest_and_says_how_many_there_are() -> None:
    links = "".join(f"<a href='/{number}'>x</a>" for number in range(10))
    async with shelf({"/": html(links)}) as here:
        found = await here.library.map(here.site.url(), limit=3)

        assert ([page.url for page in found.pages], found.total) == ([here.site.url(f"/{n}") for n in range(3)], 10)


async def test_the_sitemaps_that_robots_name_are_read_instead_of_the_usual_one_with_those_they_point_to() -> None:
    async with shelf({}) as here:
        url = here.site.url
        here.site.pages |= {
            "/": html(""),
            "/robots.txt": text(f"User-agent: *\nSitemap: {url('/index.xml')}\nSitemap: /plain.txt"),
            "/index.xml": text(listing(url("/one.xml.gz"), url("/index.xml"), kind="sitemap")),
            "/one.xml.gz": text(gzip.compress(listing(url("/1"))), Content_Type="application/gzip"),
            "/plain.txt": text(f"{url('/2')}\n{url('/3')}", Content_Type="text/plain"),
        }
        found = await here.library.map(url())

        assert {page.url for page in found.pages} == {url("/1"), url("/2"), url("/3")}
        assert "/sitemap.xml" not in here.site.paths()
        assert here.site.paths().count("/index.xml") == 1


async def test_sitemaps_are_followed_a_few_steps_only_and_what_is_not_read_is_said() -> None:
    async with shelf({}) as here:
        url = here.site.url
        for number in range(10):
            here.site.pages[f"/s{number}.xml"] = text(listing(url(f"/s{number + 1}.xml"), kind="sitemap"))
        here.site.pages |= {"/": html(""), "/robots.txt": text("Sitemap: /s0.xml")}
        found = await here.library.map(url())

        read = [path for path in here.site.paths() if path.endswith(".xml")]
        assert read == [f"/s{number}.xml" for number in range(site_map.DEEPEST)]
        assert any("further sitemaps" in note for note in found.notes)


async def test_no_more_sitemaps_are_read_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_map, "MOST_SITEMAPS", 3)
    async with shelf({}) as here:
        url = here.site.url
        for number in range(6):
            here.site.pages[f"/s{number}.xml"] = text(listing(url(f"/{number}")))
        here.site.pages |= {
            "/": html(""),
            "/sitemap.xml": text(listing(*(url(f"/s{number}.xml") for number in range(6)), kind="sitemap")),
        }
        found = await here.library.map(url())

        assert sum(path.endswith(".xml") for path in here.site.paths()) == 3
        assert any("4 further sitemaps" in note for note in found.notes)


async def test_what_cannot_be_had_is_noted_and_keeps_nothing_back() -> None:
    async with shelf({}) as here:
        here.site.pages |= {
            "/": html("<a href=/a>A</a>"),
            "/robots.txt": text(f"Sitemap: {here.site.url('/gone')}\nSitemap: {here.site.url('/sitemap.xml')}"),
            "/sitemap.xml": html("<p>This is not the sitemap that you are looking for.</p>"),
        }
        found = await here.library.map(here.site.url())

        assert [page.url for page in found.pages] == [here.site.url("/a")]
        assert len(found.notes) == 2
        assert any("404" in note for note in found.notes)
        assert any("not a sitemap" in note for note in found.notes)


async def test_a_sitemap_that_lists_too_much_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.web.site_map.MOST_URLS", 2)
    async with shelf({}) as here:
        urls = [here.site.url(f"/{number}") for number in range(5)]
        here.site.pages |= {"/": html(""), "/sitemap.xml": text(listing(*urls))}
        found = await here.library.map(here.site.url())

        assert (len(found.pages), len(found.notes)) == (2, 1)


class NoRobots:
    """Fetches, and cannot have a robots.txt."""

    def __init__(self, sites: Any) -> None:
        self.fetch = sites.fetch

    async def robots(self, url: str) -> Any:
        raise Unreachable("Nobody is there.", url=url)


async def test_a_robots_file_that_cannot_be_had_is_noted() -> None:
    async with shelf({"/": html("<a href=/a>A</a>")}) as here:
        found = await Mapper(NoRobots(here.library.fetcher)).map(here.site.url(), limit=10)

        assert [page.url for page in found.pages] == [here.site.url("/a")]
        assert any("robots.txt: Nobody" in note for note in found.notes)


async def test_a_page_that_cannot_be_had_is_an_error() -> None:
    async with shelf({}) as here:
        with pytest.raises(HttpFailed, match="404"):
            await here.library.map(here.site.url("/none"))
