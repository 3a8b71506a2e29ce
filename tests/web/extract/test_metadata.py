"""What a page says of itself."""

import json

import pytest

from tidings.web.extract.html.page import PageMetadata, iso_date, read_metadata, read_page, web_address

URL = "https://harbour.example/a/b"


def known(head: str = "", body: str = "", tag: str = "<html>") -> PageMetadata:
    return read_metadata(read_page(f"{tag}<head>{head}</head><body>{body}</body></html>".encode(), URL))


def data(*values: object) -> str:
    return "".join(f"<script type='application/ld+json'>{json.dumps(value)}</script>" for value in values)


def test_json_ld_is_trusted_first() -> None:
    found = known(
        data(
            {"@context": "https://schema.org", "@graph": [
                {"@type": "WebSite", "name": "Harbour Times"},
                {"@type": ["NewsArticle"], "headline": "Winter", "author": [{"name": "Ann"}, {"name": "Bo"}, "Ann"],
                 "datePublished": "2024-01-02T03:04:05Z", "dateModified": "2024-01-03"},
            ]}
        )
        + "<title>Other</title><meta name=author content=Nobody><meta property=og:title content=Other>"
    )  # fmt: skip
    assert found.title == "Winter"
    assert found.author == "Ann, Bo"
    assert found.published_at == "2024-01-02T03:04:05+00:00"
    assert found.modified_at == "2024-01-03"
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


def test_nothing_is_made_up() -> None:
    assert known() == PageMetadata(None, None, None, None, None, None, None, None)


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
