"""What a sitemap lists, and where a page links to."""

import gzip
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.web import site_map
from tidings.web.site_map import BadSitemap, links_of, read_sitemap

AT = "https://example.org/sitemap.xml"
NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def listing(*urls: str) -> bytes:
    inner = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
    return f'<?xml version="1.0"?><urlset {NAMESPACE}>{inner}</urlset>'.encode()


def test_the_pages_of_a_sitemap_come_in_their_order_with_their_dates() -> None:
    body = f"""\ufeff
        <urlset {NAMESPACE}>
          <url><loc> https://example.org/a </loc><lastmod>2026-01-02</lastmod><priority>1</priority></url>
          <url><loc>https://example.org/b?x=1&amp;y=2</loc></url>
          <url><lastmod>2026-01-02</lastmod></url>
          <url><loc>/c</loc></url>
        </urlset>""".encode()

    read = read_sitemap(body, AT)

    assert read.pages == (
        ("https://example.org/a", "2026-01-02"),
        ("https://example.org/b?x=1&y=2", None),
        ("https://example.org/c", None),
    )
    assert (read.sitemaps, read.cut) == ((), False)


def test_an_index_points_to_other_sitemaps() -> None:
    body = f"<sitemapindex {NAMESPACE}><sitemap><loc>https://example.org/1.xml</loc></sitemap></sitemapindex>"

    assert read_sitemap(body.encode(), AT).sitemaps == ("https://example.org/1.xml",)


def test_a_sitemap_may_be_packed() -> None:
    assert read_sitemap(gzip.compress(listing("https://example.org/a")), AT).pages == (("https://example.org/a", None),)


def test_a_sitemap_may_be_a_list_of_lines() -> None:
    body = b"\xef\xbb\xbfhttps://example.org/a\r\n\r\nnot a url\n  https://example.org/b  \nftp://example.org/c\n"

    assert [url for url, _ in read_sitemap(body, AT).pages] == ["https://example.org/a", "https://example.org/b"]


def test_a_broken_sitemap_gives_what_could_be_read_of_it() -> None:
    body = listing("https://example.org/a")[: -len("</urlset>")] + b"<url><loc>https://example.org/b</url></urlset"

    assert ("https://example.org/a", None) in read_sitemap(body, AT).pages


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "no URLs"),
        (b"hello\n", "no URLs"),
        (b"<html><body>Not found</body></html>", "not a sitemap"),
        (b"<", "not XML|not a sitemap"),
        (b"\x1f\x8b\x08not gzip at all", "decompressed"),
    ],
)
def test_what_is_no_sitemap_is_said_to_be_none(body: bytes, says: str) -> None:
    with pytest.raises(BadSitemap, match=says):
        read_sitemap(body, AT)


def test_a_packed_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_map, "MOST_UNPACKED", 1024 * 1024)

    with pytest.raises(BadSitemap, match="1,048,576 bytes"):
        read_sitemap(gzip.compress(b" " * (2 * 1024 * 1024)), AT)


def test_entities_are_not_resolved_and_nothing_is_loaded() -> None:
    lines = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(12))
    body = f"""<!DOCTYPE urlset [<!ENTITY e0 "https://example.org/bomb">{lines}
        <!ENTITY file SYSTEM "file:///etc/passwd">]>
        <urlset {NAMESPACE}><url><loc>&e12;</loc></url><url><loc>&file;</loc></url>
        <url><loc>https://example.org/a</loc></url></urlset>""".encode()

    assert set(read_sitemap(body, AT).pages) <= {("https://example.org/a", None)}


def test_more_than_may_be_in_a_sitemap_is_cut_and_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_map, "MOST_URLS", 3)
    urls = [f"https://example.org/{number}" for number in range(5)]

    for body in (listing(*urls), "\n".join(urls).encode()):
        read = read_sitemap(body, AT)
        assert ([url for url, _ in read.pages], read.cut) == (urls[:3], True)


@pytest.mark.parametrize(
    "body",
    [
        b"<urlset>" + b"<a>" * 100_000,
        b"<urlset><url " + b" ".join(b'a%d="x"' % n for n in range(100_000)) + b"/></urlset>",
        b"<urlset>" + b"<url><loc>x</loc></url>" * 20_000,
    ],
)
def test_a_monster_of_a_sitemap_breaks_nothing(body: bytes) -> None:
    with suppress(BadSitemap):
        assert len(read_sitemap(body, AT).pages) <= site_map.MOST_URLS


def test_a_url_that_is_none_is_left_out() -> None:
    urls = ["http://[", "https://example.org/" + "x" * 3000, "javascript:alert(1)", "https://example.org/a"]

    assert read_sitemap(listing(*urls), AT).pages == (("https://example.org/a", None),)


def test_the_links_of_a_page_are_found_whatever_they_look_like() -> None:
    body = b"""<head><link rel="stylesheet" href="/style.css"></head><body>
        <a href="/a">A</a> <A class=x HREF='b.html#part'>B</A> <a
        href=c?x=1&amp;y=2>C</a> <a name="none">none</a> <abbr href="/no">no</abbr>
        <a href="mailto:x@example.org">mail</a> <a href="https://other.example/d">D</a> <a href="/a#again">A</a>
        <a href="http://[">broken</a> <a href="">empty</a>"""

    assert list(links_of(body, "https://example.org/dir/page")) == [
        "https://example.org/a",
        "https://example.org/dir/b.html",
        "https://example.org/dir/c?x=1&y=2",
        "https://other.example/d",
    ]


def test_links_begin_at_the_base_of_the_page() -> None:
    body = b'<base href="https://example.org/base/"><a href="a">A</a>'

    assert links_of(body, "https://example.org/") == {"https://example.org/base/a": "A"}


@pytest.mark.parametrize("body", [b"<a " * 500_000, b"<a href=x>" * 60_000, b"<a href='" + b"x" * 5_000_000])
def test_a_monster_of_a_page_breaks_nothing(body: bytes) -> None:
    assert len(links_of(body, "https://example.org/")) <= 1


@given(st.binary(max_size=300))
def test_no_bytes_break_it(body: bytes) -> None:
    for url in links_of(b"<a href='" + body + b"'><a " + body, AT):
        assert url.startswith("http")
    with suppress(BadSitemap):
        read_sitemap(b"<urlset>" + body, AT)
