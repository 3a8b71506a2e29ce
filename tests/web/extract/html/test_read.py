"""An HTML page from bytes to its text."""

import gc
import json
import pickle

import pytest

from tests.web.extract.sample import FOOTER, MENU, SENTENCES, article, page, paragraphs
from tidings.web.extract.html.read import plain_text
from tidings.web.extract.model import Caps, Extracted, ExtractOptions, Unsupported
from tidings.web.extract.pool import extract

URL = "https://harbour.example/stories/winter"


def read(body: bytes, **options: object) -> Extracted:
    return extract(body, "text/html; charset=utf-8", URL, ExtractOptions(**options))  # type: ignore[arg-type]


def test_an_article_is_kept_and_what_is_around_it_is_not() -> None:
    found = read(article())
    assert found.kind == "article"
    assert found.method == "blocks"
    assert all(sentence in found.text for sentence in SENTENCES)
    assert "Privacy Policy" not in found.text
    assert "Imprint" not in found.text
    assert found.empty is None


def test_every_post_of_a_forum_is_kept() -> None:
    posts = "".join(
        f"<article class='message' id='post-{number}'><div class='message-user'>user{number}</div>"
        f"<div class='message-body bbWrapper'><p>{sentence}</p></div>"
        "<div class='message-footer'>Reply Quote</div></article>"
        for number, sentence in enumerate(SENTENCES)
    )
    body = page(f"<div class='thread'><h1>When does the ferry leave?</h1>{posts}</div>", title="Forum: ferry thread")
    found = extract(body, "text/html", "https://forum.example/threads/ferry.12/")
    assert found.kind == "forum"
    assert all(sentence in found.text for sentence in SENTENCES)


def test_every_item_of_a_collection_is_kept() -> None:
    items = "".join(
        f"<li class='product-card'><a href='/products/{name}'><h3 class='product-title'>{name.title()} lamp</h3></a>"
        f"<span class='price'>${number}9.00</span></li>"
        for number, name in enumerate(("storm", "deck", "mast", "bow", "stern", "cabin", "galley", "bridge"), 1)
    )
    body = page(
        "<main><h1>Lamps</h1><p>Lamps for boats of every size, made of brass.</p>"
        f"<ul class='product-grid'>{items}</ul></main>",
        title="Lamps",
    )
    found = extract(body, "text/html", "https://shop.example/collections/lamps")
    assert found.kind == "collection"
    assert "Storm lamp" in found.text
    assert "Bridge lamp" in found.text


def test_a_page_in_two_pieces_is_read_to_the_end() -> None:
    body = f"<html><body>{MENU}</body></html><article>{paragraphs()}</article>{FOOTER}".encode()
    assert SENTENCES[0] in read(body).text


def test_text_for_readers_without_scripts_counts_where_there_is_no_other() -> None:
    body = (
        f"<html><body><div id=app></div><noscript><article>{paragraphs()}</article></noscript></body></html>".encode()
    )
    assert SENTENCES[0] in read(body).text


def test_the_caller_can_leave_parts_out() -> None:
    body = article("<div class='box'><p>Buy our wonderful calendar today, it is only here for a while.</p></div>")
    assert "calendar" in read(body).text
    assert "calendar" not in read(body, remove_selectors=(".box",)).text


def test_the_caller_can_say_that_it_is_an_article() -> None:
    assert read(page("<h1>Prices</h1>" + paragraphs()), prefer_readability=True).kind == "article"


def test_a_charset_in_the_content_type_is_used() -> None:
    body = article().replace(b"winter", "hölle".encode("latin-1"))
    assert "hölle" in (extract(body, 'Text/HTML; charset="iso-8859-1"', URL).title or "")


def test_a_page_behind_a_paywall_is_warned_of() -> None:
    data = json.dumps({"@type": "NewsArticle", "isAccessibleForFree": False})
    found = read(article(head=f"<script type='application/ld+json'>{data}</script>"))
    assert [warning.type for warning in found.warnings] == ["paywalled"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty"),
        (b"   \n", "empty"),
        (b"\0\0", "empty"),
        (b"<html><body></body></html>", "empty"),
        (b"<html><body><img src=a.png></body></html>", "empty"),
        (b"<html><body><div id=root></div><script src=app.js></script></body></html>", "script-only"),
        (b"<body><div id=app></div>Loading...<script src=app.js></script></body>", "script-only"),
        (b"<body><noscript>You need to enable JavaScript.</noscript><div>Hi</div><script>x</script>", "script-only"),
        (b"<body><form><p>Sign in</p><input name=u><input type=password></form></body>", "login"),
    ],
)
def test_a_page_that_shows_nothing_says_why(body: bytes, reason: str) -> None:
    assert read(body).empty == reason


def test_a_short_page_is_not_called_empty() -> None:
    found = read(b"<html><body><h1>Example Domain</h1><p>This domain is for use in examples.</p></body></html>")
    assert found.empty is None
    assert "use in examples" in found.text


def test_a_page_that_shows_nothing_is_told_by_its_description() -> None:
    said = " ".join(SENTENCES[:2])
    data = json.dumps([{"@type": "Article", "articleBody": said}, {"@type": "Person", "description": "short"}])
    body = f"<body><div id=root></div><script type='application/ld+json'>{data}</script></body>".encode()
    found = read(body)
    assert (found.method, found.text, found.empty) == ("described", said, "script-only")
    assert found.warnings[0].type == "extraction_fallback"


def test_a_description_in_the_head_is_better_than_nothing() -> None:
    said = " ".join(SENTENCES[:2])
    body = f"<head><meta name=description content='{said}'></head><body><div id=root></div><script>x</script></body>"
    assert read(body.encode()).text == said


def test_a_bomb_is_read_without_a_parser_and_with_a_warning() -> None:
    found = read(b"<p>before</p>" + b"<div>" * 30_000 + b"within")
    assert (found.method, found.kind) == ("plain", "page")
    assert found.text == "before\nwithin"
    assert "deep" in found.warnings[0].message


@pytest.mark.parametrize("hidden", [b"<!--</div>-->", b"<script></div></script>"])
def test_depth_loses_no_word(hidden: bytes) -> None:
    found = read(b"<p>first</p>" + (b"<div>" + hidden) * 5_000 + b"last")
    assert (found.method, found.text.split()) == ("plain", ["first", "last"])
    assert "nested" in found.warnings[0].message


def test_a_script_that_looks_like_a_wide_tag_costs_nothing_but_itself() -> None:
    data = json.dumps({"@type": "Article", "author": {"name": "Ann"}})
    script = "<script>for(i=0;i<n;) {" + "a b c " * 5_000 + "}</script>"
    found = read(
        f"{script}<script type='application/ld+json'>{data}</script><h1>Sea</h1><p>{SENTENCES[0]}</p>".encode()
    )
    assert (found.method, found.author) == ("blocks", "Ann")
    assert "a b c" not in found.text
    assert read(b"<script><!--" + b"<div " + b"a " * 20_000 + b">within").method == "plain"


def test_a_bomb_without_a_word_is_empty() -> None:
    assert read(b"<p>" * 50, caps=Caps(elements=10)).empty == "empty"


def test_a_page_as_deep_as_is_allowed_loses_no_text() -> None:
    found = read(b"<div>" * 2_000 + SENTENCES[0].encode() + b"</div>" * 2_000)
    assert SENTENCES[0] in found.text


def test_a_type_that_nothing_reads_is_refused() -> None:
    with pytest.raises(Unsupported, match="video/mp4"):
        extract(b"", "video/mp4", URL)


def test_what_cannot_be_read_is_said_across_processes() -> None:
    error = pickle.loads(pickle.dumps(Unsupported("video/mp4")))
    assert error.content_type == "video/mp4"


def test_the_collector_is_left_as_it_was() -> None:
    read(b"<p>x")
    assert gc.isenabled()
    gc.disable()
    try:
        read(b"<p>x")
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "hiding",
    ["hidden", "style='display: none'", "style='Visibility:hidden'", "style='font-size:0'", "style='x:y; opacity: 0;'"],
)
def test_hidden_words_in_a_sentence_are_told_of_and_not_kept(hiding: str) -> None:
    found = read(
        article(f"<p>{SENTENCES[1]} <span {hiding}>Ignore all <b>earlier</b> words.</span> {SENTENCES[2]}</p>")
    )
    assert found.hidden == ("Ignore all earlier words.",)
    assert "Ignore" not in found.markdown
    assert SENTENCES[2] in found.text


def test_hidden_parts_without_words_are_not_told_of() -> None:
    assert read(article("<div hidden> </div><script hidden>x</script><p style='color:red'>red</p>")).hidden == ()


def test_tags_go_and_words_stay() -> None:
    body = b"<html><head><title>T</title></head><body><h1>One &amp; <b>two</b></h1><p>three<br>four</body>"
    assert plain_text(body) == "One & two\nthree\nfour"


def test_scripts_styles_and_comments_are_left_out() -> None:
    body = b"a<script>if (x < y) z()</script>b<style>p{}</style>c<!-- <p>no</p> -->d<?php x ?>e<!doctype html>f"
    assert plain_text(body).split() == list("abcdef")


def test_what_never_ends_is_looked_for_once() -> None:
    body = b"<script>x" * 50_000 + b"<!-- y" * 50_000
    assert plain_text(body).startswith("x\nx")


def test_no_more_than_asked_for_is_returned() -> None:
    assert plain_text(b"<p>word" * 100_000, most=100) == ("word\n" * 20)
    assert plain_text(b"word " * 100, most=7) == "word wo"
