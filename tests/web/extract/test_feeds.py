"""Feeds: RSS and Atom."""

import pytest

from tidings.web.extract.model import Caps, Extracted, ExtractionFailed, ExtractOptions
from tidings.web.extract.pool import extract

URL = "https://harbour.example/feed"

RSS = b"""<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:atom="http://www.w3.org/2005/Atom"
     xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:media="http://search.yahoo.com/mrss/">
<channel>
  <title>Harbour news</title>
  <link>https://harbour.example/</link>
  <atom:link href="https://harbour.example/feed" rel="self"/>
  <description>What happens at the quay</description>
  <language>en-gb</language>
  <lastBuildDate>Tue, 02 Jan 2024 10:00:00 GMT</lastBuildDate>
  <item>
    <media:title>a picture</media:title>
    <title>Ferry &amp; fog</title>
    <link>/news/1</link>
    <guid isPermaLink="false">news-1</guid>
    <pubDate>Mon, 01 Jan 2024 09:30:00 +0100</pubDate>
    <dc:creator>Ada Brook</dc:creator>
    <description>&lt;p&gt;No &lt;b&gt;ferry&lt;/b&gt; today.&lt;/p&gt;&lt;p&gt;Fog.&lt;/p&gt;
      &lt;script&gt;x()&lt;/script&gt;</description>
    <content:encoded><![CDATA[<p>The long story.</p>]]></content:encoded>
  </item>
  <item>
    <title>Second</title>
    <guid>https://harbour.example/news/2</guid>
    <author>ben@harbour.example (Ben Hale)</author>
    <content:encoded><![CDATA[<p>Only the &eacute;nding.</p>]]></content:encoded>
  </item>
</channel></rss>"""

ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="de">
  <title type="html">Hafen &amp;amp; mehr</title>
  <subtitle>Vom Kai</subtitle>
  <updated>2024-01-02T10:00:00Z</updated>
  <author><name>Ada Brook</name><email>ada@harbour.example</email></author>
  <link rel="self" href="https://harbour.example/atom"/>
  <link href="https://harbour.example/"/>
  <entry>
    <id>tag:harbour.example,2024:1</id>
    <title type="text">1 &lt; 2</title>
    <link rel="edit" href="/edit/1"/>
    <link rel="alternate" href="/news/1"/>
    <published>2024-01-01T09:30:00+01:00</published>
    <updated>2024-01-02T09:30:00+01:00</updated>
    <content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>Kein <b>Boot</b></p><p>heute.</p></div></content>
  </entry>
</feed>"""

RDF = b"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
  xmlns:dc="http://purl.org/dc/elements/1.1/">
<channel rdf:about="https://harbour.example/"><title>Old harbour</title><link>https://harbour.example/</link></channel>
<item rdf:about="https://harbour.example/old/1"><title>Old news</title><link>https://harbour.example/old/1</link>
<dc:date>2003-02-01</dc:date><description>Long ago.</description></item>
</rdf:RDF>"""


def read(body: bytes, kind: str = "application/rss+xml", **caps: int) -> Extracted:
    return extract(body, kind, URL, ExtractOptions(caps=Caps(**caps)))


def rss(items: bytes) -> bytes:
    return b"<rss><channel><title>T</title>%s</channel></rss>" % items


def test_an_rss_feed_is_read_by_entry() -> None:
    found = read(RSS)
    first, second = found.entries
    assert (found.kind, found.method, found.title, found.language) == ("feed", "rss", "Harbour news", "en-gb")
    assert (first.id, first.title, first.url) == ("news-1", "Ferry & fog", "https://harbour.example/news/1")
    assert (first.published_at, first.author) == ("2024-01-01T09:30:00+01:00", "Ada Brook")
    assert first.summary == "No ferry today.\nFog."
    assert (second.id, second.url) == ("https://harbour.example/news/2", "https://harbour.example/news/2")
    assert (second.author, second.summary, second.published_at) == ("Ben Hale", "Only the énding.", None)


def test_the_text_of_a_feed_is_that_of_its_entries() -> None:
    found = read(RSS)
    assert found.markdown.startswith(
        "# Harbour news\n\nWhat happens at the quay\n\n## [Ferry & fog](https://harbour.example/news/1)\n\n"
        "2024-01-01T09:30:00+01:00 · Ada Brook\n\nNo ferry today.\n\nFog."
    )
    assert "Ferry & fog\n2024-01-01T09:30:00+01:00 · Ada Brook\n\nNo ferry today." in found.text
    assert found.empty is None


def test_an_atom_feed_is_read_by_entry() -> None:
    found = read(ATOM, "application/atom+xml")
    (entry,) = found.entries
    assert (found.method, found.title, found.language, found.author) == ("atom", "Hafen & mehr", "de", "Ada Brook")
    assert (entry.id, entry.title, entry.url) == (
        "tag:harbour.example,2024:1",
        "1 < 2",
        "https://harbour.example/news/1",
    )
    assert (entry.published_at, entry.updated_at) == ("2024-01-01T09:30:00+01:00", "2024-01-02T09:30:00+01:00")
    assert entry.summary == "Kein Boot\nheute."


def test_an_rdf_feed_is_read_by_entry() -> None:
    found = read(RDF, "application/rdf+xml")
    (entry,) = found.entries
    assert (found.method, found.title) == ("rdf", "Old harbour")
    assert (entry.id, entry.published_at) == ("https://harbour.example/old/1", "2003-02-01")


@pytest.mark.parametrize(
    "label", ["text/xml", "application/xml", "text/html", "text/plain", "", "application/octet-stream"]
)
@pytest.mark.parametrize("body", [RSS, ATOM, RDF, b"\xef\xbb\xbf" + RSS, b"\n <!-- x -->" + ATOM])
def test_a_feed_is_one_whatever_it_is_labelled(label: str, body: bytes) -> None:
    found = read(body, label)
    assert found.kind == "feed"
    assert found.entries
    assert not found.warnings


def test_a_feed_with_a_document_type_is_read() -> None:
    declared = b'<!DOCTYPE rss PUBLIC "-//Netscape//DTD RSS 0.91//EN" "http://nowhere.example/rss.dtd">'
    assert len(read(declared + RSS[RSS.index(b"<rss") :], "text/xml").entries) == 2


def test_html_entities_that_nobody_declared_are_understood() -> None:
    body = b"<rss><channel><title>Caf&eacute; &nosuch; &amp; bar</title><item><title>x</title></item></channel></rss>"
    assert read(body).title == "Café &nosuch; & bar"


def test_a_broken_feed_is_read_as_far_as_it_goes_and_said_to_be_broken() -> None:
    found = read(RSS[: RSS.index(b"<title>Second")])
    assert found.entries[0].id == "news-1"
    assert found.warnings[0].type == "extraction_fallback"
    assert "not well-formed" in found.warnings[0].message


def test_an_ampersand_alone_breaks_nothing() -> None:
    found = read(RSS.replace(b"Ferry &amp; fog", b"Ferry & fog"))
    assert found.entries[0].title.startswith("Ferry")
    assert len(found.entries) == 2


def test_entries_without_ids_have_some_that_stay() -> None:
    body = rss(b"<item><title>a</title></item><item><description>b</description></item>")
    first, second = (entry.id for entry in read(body).entries)
    assert first != second
    assert (first, second) == tuple(entry.id for entry in read(body).entries)


def test_entries_with_the_same_id_are_told_apart() -> None:
    body = (
        b"<rss><channel><title>T</title>" + b"<item><guid>same</guid><title>a</title></item>" * 3 + b"</channel></rss>"
    )
    assert [entry.id for entry in read(body).entries] == ["same", "same#2", "same#3"]


def test_items_beside_the_channel_and_without_one_are_found() -> None:
    assert len(read(b"<rss><channel><title>T</title></channel><item><title>a</title></item></rss>").entries) == 1
    assert len(read(b"<rss><item><title>a</title></item></rss>").entries) == 1
    assert len(read(b"<channel><title>T</title><item><title>a</title></item></channel>").entries) == 1


def test_an_enclosure_is_where_an_entry_leads_if_nothing_else_is() -> None:
    body = b"<rss><channel><item><title>a</title><enclosure url='/a.mp3'/></item></channel></rss>"
    assert read(body).entries[0].url == "https://harbour.example/a.mp3"


def test_links_that_lead_nowhere_on_the_web_are_left_out() -> None:
    body = b"<rss><channel><item><title>a</title><link>javascript:x()</link></item></channel></rss>"
    assert read(body).entries[0].url == ""
    assert "## a" in read(body).markdown


def test_more_entries_than_are_given_are_counted() -> None:
    body = b"<rss><channel><title>T</title>" + b"<item><title>a</title></item>" * 30 + b"</channel></rss>"
    found = read(body, entries=10)
    assert len(found.entries) == 10
    assert "30 entries: the first 10 are given, 20 are left out" in found.warnings[0].message


def test_a_long_entry_is_cut_where_a_word_ends_and_said_to_be() -> None:
    body = (
        b"<rss><channel><title>T</title><item><title>a</title><description>"
        + b"word " * 100
        + b"</description></item></channel></rss>"
    )
    found = read(body, summary=52)
    assert found.entries[0].summary == "word " * 10 + "…"
    assert found.warnings[0].type == "truncated"


def test_a_feed_without_entries_is_said_to_have_none() -> None:
    found = read(b"<rss><channel><title>Quiet</title></channel></rss>")
    assert (found.text, found.empty) == ("Quiet", None)
    assert found.warnings[0].type == "empty"
    assert read(b"<rss></rss>").empty == "empty"


@pytest.mark.parametrize("body", [b"", b"  \n", b"\xef\xbb\xbf"])
def test_no_body_is_empty(body: bytes) -> None:
    assert read(body).empty == "empty"


def test_what_is_no_feed_is_read_as_what_it_is() -> None:
    assert read(b"<catalogue><boat>Elsa</boat></catalogue>").method == "xml"
    assert read(b"<!doctype html><title>Error</title><p>Not found, sorry, not found at all.</p>").method == "blocks"
    with pytest.raises(ExtractionFailed, match="no element"):
        read(b"Not a feed, sorry.")


def test_a_title_cannot_become_markup() -> None:
    body = rss(b"<item><title>a](https://evil.example) [b</title><link>/x</link></item>")
    assert r"## [a\](https://evil.example) \[b](https://harbour.example/x)" in read(body).markdown


def test_of_a_feed_with_fifty_thousand_entries_the_first_are_given() -> None:
    items = b"".join(
        b"<item><title>%d</title><link>/%d</link><guid>%d</guid></item>" % (n, n, n) for n in range(50_000)
    )
    found = read(rss(items))
    assert (len(found.entries), found.entries[0].title) == (500, "0")
    assert "49,500 are left out" in found.warnings[0].message
