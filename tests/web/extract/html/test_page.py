"""The metadata of a page, its dates and its embedded data."""

import json

import pytest

from tidings.web.extract.html.page import (
    described,
    iso_date,
    moment,
    pdf_moment,
    read_page,
    web_address,
    with_metadata,
)
from tidings.web.extract.model import Extracted

URL = "https://harbour.example/a/b"


def known(head: str = "", body: str = "", tag: str = "<html>") -> Extracted:
    page = read_page(f"{tag}<head>{head}</head><body>{body}</body></html>".encode(), URL)
    return with_metadata(Extracted("page", "blocks"), page)


def data(*values: object) -> str:
    return "".join(f"<script type='application/ld+json'>{json.dumps(value)}</script>" for value in values)


def test_json_ld_is_trusted_first() -> None:
    found = known(
        data(
            {"@context": "https://schema.org", "@graph": [
                {"@type": "WebSite", "name": "Harbour Times"},
                {"@type": ["NewsArticle"], "headline": "Winter", "author": [{"name": "Ann"}, {"name": "Bo"}, "Ann"],
                 "datePublished": "2024-01-02T03:04:05Z"},
            ]}
        )
        + "<title>Other</title><meta name=author content=Nobody><meta property=og:title content=Other>"
    )  # fmt: skip
    assert found.title == "Winter"
    assert found.author == "Ann, Bo"
    assert found.published_at == "2024-01-02T03:04:05+00:00"
    assert found.site_name == "Harbour Times"


def test_meta_tags_are_trusted_next() -> None:
    found = known(
        "<title>x</title><meta property=og:title content='Winter'><meta property=og:site_name content='Times'>"
        "<meta name=author content='Ann'><meta property=article:published_time content='2024-05-06T07:08:09+02:00'>"
        "<meta name=description content=' A  story. '><link rel='shortcut canonical' href='/winter'>",
        tag="<html lang=en-GB>",
    )
    assert (found.title, found.site_name, found.author) == ("Winter", "Times", "Ann")
    assert found.published_at == "2024-05-06T07:08:09+02:00"
    assert found.description == "A story."
    assert found.canonical_url == "https://harbour.example/winter"
    assert found.language == "en-GB"


def test_the_elements_of_the_page_are_trusted_last() -> None:
    found = known("", "<h1>Winter <b>here</b></h1><a rel=author href=/ann>Ann</a><time datetime=2024-05-06>May</time>")
    assert (found.title, found.author, found.published_at) == ("Winter here", "Ann", "2024-05-06")


def test_the_title_is_the_headline_that_readers_see() -> None:
    site = "<meta property=og:site_name content=Times>"
    stated = f"<title>Winter, and what to see</title>{site}<meta property=og:title content='Winter &amp;#8217;24'>"
    assert known(stated, "<h1>Times</h1><h1>What to see in winter</h1>").title == "What to see in winter"
    assert known(stated, "<h1>Menu</h1><p>A story.").title == "Winter \N{RIGHT SINGLE QUOTATION MARK}24"


@pytest.mark.parametrize(
    ("line", "author", "date"),
    [
        ("<p>By Ann Sea, editor | 3rd May 2024", "Ann Sea, editor", "2024-05-03"),
        ("<p>Written by: Ann Sea<p>Updated May 3, 2024, 4 min read", "Ann Sea", "2024-05-03"),
        ("<p>May 3, 2024 by Ann Sea", "Ann Sea", "2024-05-03"),
        ("<div class=author-name>Ann Sea</div><p>by the sea", "Ann Sea", None),
        ("<div class=post-author>About the author</div><p>May 2024<p>31 Feb 2024", None, None),
        ("<p>Stand by for more<p>3/5/2024", None, None),
    ],
)
def test_a_byline_near_the_headline_has_the_author_and_the_date(
    line: str, author: str | None, date: str | None
) -> None:
    found = known("", f"<h1>Winter</h1>{line}")
    assert (found.author, found.published_at) == (author, date)


def test_nothing_is_made_up() -> None:
    assert known() == Extracted("page", "blocks")


@pytest.mark.parametrize("title", ["Winter | Times", "Times \N{EN DASH} Winter", "Winter :: times", "Winter"])
def test_the_name_of_the_site_is_no_part_of_the_title(title: str) -> None:
    assert known(f"<title>{title}</title><meta property=og:site_name content=Times>").title == "Winter"


def test_a_title_keeps_its_own_dashes() -> None:
    assert (
        known("<title>Winter - a story</title><meta property=og:site_name content=Times>").title == "Winter - a story"
    )


def test_the_publisher_is_the_site_where_no_other_is_named() -> None:
    assert known(data({"@type": "Article", "publisher": {"name": "Times"}})).site_name == "Times"
    assert known(data({"@type": "Article", "publisher": "Times"})).site_name is None


def test_an_author_that_is_an_address_is_none() -> None:
    assert known("<meta property=article:author content='https://social.example/ann'>").author is None
    assert known("", "<a rel=author href=/> </a>").author is None


def test_one_of_several_times_is_the_date_only_if_it_says_so() -> None:
    times = "<time datetime=2024-01-01>a</time><time datetime=2024-02-02{}>b</time>"
    assert known("", times.format("")).published_at is None
    assert known("", times.format(" itemprop=datePublished")).published_at == "2024-02-02"


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2024-01-02", "2024-01-02"),
        ("2024/1/2", "2024-01-02"),
        (" 2024-01-02T03:04:05Z ", "2024-01-02T03:04:05+00:00"),
        ("2024-01-02 something", "2024-01-02"),
        ("2024-13-02", None),
        ("02.01.2024", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_dates_are_read_or_left_out(text: str, date: str | None) -> None:
    assert iso_date(text) == date


@pytest.mark.parametrize(
    ("link", "address"),
    [
        ("../c", "https://harbour.example/c"),
        ("//other.example/x", "https://other.example/x"),
        ("javascript:alert(1)", None),
        ("data:text/html,x", None),
        ("mailto:a@b.example", None),
        ("http://[::1", None),
    ],
)
def test_an_address_leads_to_the_web_or_nowhere(link: str, address: str | None) -> None:
    assert web_address(URL, link) == address


def test_hostile_data_is_survived() -> None:
    deep: object = {"@type": "Article", "headline": "deep"}
    for _ in range(50):
        deep = [deep]
    broken = "<script type='application/ld+json'>{not json</script><script type='application/ld+json'></script>"
    odd = data({"@type": 7, "author": 3}, {"@type": "Article", "headline": ["x"], "author": {"name": None}}, deep)
    assert known(broken + odd + "<base href='http://[bad'><meta property=og:url content='http://[bad'>").title is None
    assert known("<meta name=x><meta content=y><html lang='../..'>").language is None


TOPIC_URL = "https://forum.example/t/ferry/12"


def test_a_page_that_tells_little_of_itself_is_not_described() -> None:
    assert described(read_page(b"<meta name=description content='Short.'><p>x", TOPIC_URL)) is None


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("Mon, 01 Jan 2024 09:30:00 +0100", "2024-01-01T09:30:00+01:00"),
        ("Mon, 01 Jan 2024 09:30:00 GMT", "2024-01-01T09:30:00+00:00"),
        ("Mon, 01 Jan 2024 09:30:00 EST", "2024-01-01T09:30:00-05:00"),
        ("01 January 2024 09:30:00 -0000", "2024-01-01T09:30:00+00:00"),
        ("  1 Jan\n24 09:30 GMT", "2024-01-01T09:30:00+00:00"),
        ("2024-01-01T09:30:00Z", "2024-01-01T09:30:00+00:00"),
        ("2024-01-01 09:30:00 +0100", "2024-01-01T09:30:00+01:00"),
        ("2024-01-01 09:30 UTC", "2024-01-01T09:30:00+00:00"),
        ("2024-01-01 09:30:00", "2024-01-01T09:30:00"),
        ("2024-01-01", "2024-01-01"),
        ("2024/1/2", "2024-01-02"),
        ("2024-13-45", None),
        ("yesterday", None),
        ("Mon, 99 Jan 2024 99:30:00 GMT", None),
        ("", None),
        (None, None),
        ("x" * 10_000, None),
    ],
)
def test_dates_of_feeds(written: str | None, told: str | None) -> None:
    assert moment(written) == told


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("D:20240131120000+01'00'", "2024-01-31T12:00:00+01:00"),
        ("D:20240131120000-05'30", "2024-01-31T12:00:00-05:30"),
        ("D:20240131120000Z", "2024-01-31T12:00:00+00:00"),
        ("D:20240131120000Z00'00'", "2024-01-31T12:00:00+00:00"),
        ("20240131120000", "2024-01-31T12:00:00"),
        ("D:20240131", "2024-01-31"),
        ("D:2024", None),
        ("D:20241399", None),
        ("D:20240131990000", None),
        ("D:20240131120000+99'00'", None),
        ("2024-01-31", "2024-01-31"),
        ("Wed Jan 31", None),
        ("", None),
    ],
)
def test_dates_of_documents(written: str, told: str | None) -> None:
    assert pdf_moment(written) == told


def test_a_type_in_json_ld_that_is_not_text_is_ignored() -> None:
    data = '<script type="application/ld+json">{"@type": {"a": 1}, "headline": "No"}</script><title>Yes</title>'
    assert known(data).title == "Yes"
