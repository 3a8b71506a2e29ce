"""Text that a page carries as data."""

import html
import json

from tests.web.extract.sample import SENTENCES
from tidings.web.extract.dispatch import extract
from tidings.web.extract.html.page import described, discourse, read_page

URL = "https://forum.example/t/ferry/12"


def preloaded(value: object) -> bytes:
    data = html.escape(json.dumps(value), quote=True)
    return (
        f'<html><body><div id="data-preloaded" data-preloaded="{data}"></div><script>x</script></body></html>'.encode()
    )


def topic(*posts: object) -> bytes:
    return preloaded({"site": "{}", "topic_12": json.dumps({"post_stream": {"posts": posts}})})


POST = {"username": "mo<b>", "created_at": "2024-01-28T15:06:55.809Z", "cooked": f"<p>{SENTENCES[0]}</p>"}


def test_the_posts_of_a_forum_that_draws_itself_are_found() -> None:
    found = extract(topic(POST, {**POST, "username": "ann"}), "text/html", URL)
    assert (found.kind, found.method, found.empty) == ("forum", "discourse", None)
    assert found.text.splitlines()[:3] == ["mo<b>", "January 28, 2024, 3:06pm", SENTENCES[0]]
    assert "ann" in found.text


def test_a_post_without_a_date_is_a_post() -> None:
    posts = discourse(read_page(topic({**POST, "created_at": "soon"}), URL))
    assert posts is not None
    assert SENTENCES[0].encode() in posts


def test_data_that_is_no_topic_is_nothing() -> None:
    for value in ([], {"topic_1": "[]"}, {"topic_1": "{"}, {"topic_1": 7}, {"site": "{}"}):
        assert discourse(read_page(preloaded(value), URL)) is None


def test_a_bomb_in_a_post_does_not_reach_the_parser() -> None:
    found = extract(topic({**POST, "cooked": "<div>" * 5_000}), "text/html", URL)
    assert found.method != "discourse"


def test_too_much_data_is_not_read() -> None:
    assert discourse(read_page(topic({**POST, "cooked": "x" * 6_000_000}), URL)) is None


def test_a_page_that_tells_little_of_itself_is_not_described() -> None:
    assert described(read_page(b"<meta name=description content='Short.'><p>x", URL)) is None
