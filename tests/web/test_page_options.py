"""What may be asked for with a page."""

import json
from typing import Any

import pytest

from tidings.web.page_options import Extraction, FetchOptions, RenderOptions

URL = "https://example.org/"
EVERYTHING = FetchOptions(
    mode="render",
    user_agent="Reader",
    respect_robots=False,
    max_bytes=1000,
    render=RenderOptions(wait_until="networkidle", wait_ms=5, block_third_party=False, screenshot=True, selector="#x"),
    extraction=Extraction(
        keep_tables=False, keep_code_blocks=False, remove_selectors=[".ad", "nav"], prefer_readability=True
    ),
    include_raw_excerpt=True,
)


@pytest.mark.parametrize("options", [FetchOptions(), EVERYTHING])
def test_what_the_store_keeps_of_them_makes_the_same_options_again(options: FetchOptions) -> None:
    kept = json.loads(json.dumps(options.to_json(URL)))

    assert FetchOptions.from_json(kept) == options
    assert FetchOptions.from_json(kept).variant(URL) == options.variant(URL) == kept["variant"]


def test_what_an_older_or_newer_server_kept_is_understood_as_far_as_it_goes() -> None:
    kept = {"mode": "http", "extraction": {"bounds": 5, "later": 1}, "render": {"later": 1}, "later": True}

    assert FetchOptions.from_json(kept) == FetchOptions(mode="http")


@pytest.mark.parametrize(
    "change",
    [
        {"mode": "http"},
        {"user_agent": "Reader"},
        {"max_bytes": 10},
        {"headers": {"accept-language": "de"}},
        {"extraction": Extraction(remove_selectors=["nav"])},
        {"render": RenderOptions(screenshot=True)},
        {"include_raw_excerpt": True},
        {"respect_robots": False},
    ],
)
def test_options_that_may_change_the_answer_make_another_variant(change: dict[str, Any]) -> None:
    assert FetchOptions(**change).variant(URL) != FetchOptions().variant(URL)


@pytest.mark.parametrize("change", [{"timeout": 3.0}, {"cache_ttl": 0.0}, {"max_redirects": 1}, {"keep_raw": True}])
def test_options_that_only_say_how_it_is_got_do_not(change: dict[str, Any]) -> None:
    assert FetchOptions(**change).variant(URL) == FetchOptions().variant(URL)


def test_what_was_fetched_by_another_url_is_another_variant() -> None:
    assert FetchOptions().variant(URL) != FetchOptions().variant(URL + "other")


def test_how_it_would_be_rendered_makes_no_difference_to_a_page_that_is_not() -> None:
    rendered = RenderOptions(screenshot=True)

    assert FetchOptions(mode="http", render=rendered).variant(URL) == FetchOptions(mode="http").variant(URL)


def test_headers_are_compared_whatever_their_capitals_and_never_kept() -> None:
    one = FetchOptions(headers={"Authorization": "Bearer swordfish", "X-A": "1"})
    same = FetchOptions(headers={"x-a": "1", "authorization": "Bearer swordfish"})
    other = FetchOptions(headers={"authorization": "Bearer other", "x-a": "1"})

    assert one.variant(URL) == same.variant(URL) != other.variant(URL)
    assert "swordfish" not in json.dumps(one.to_json(URL))
    assert FetchOptions.from_json(one.to_json(URL)).headers == {}


def test_selectors_are_added_to_those_that_were_asked_for_once() -> None:
    options = FetchOptions(extraction=Extraction(remove_selectors=["nav"])).without((".ad", "nav"))

    assert options.extraction.remove_selectors == ["nav", ".ad"]
    assert FetchOptions().without(()).variant(URL) == FetchOptions().variant(URL)


def test_the_request_carries_them() -> None:
    options = EVERYTHING.model_copy(update={"headers": {"a": "b"}, "timeout": 3.0, "max_redirects": 2})

    request = options.request("https://example.org/")

    assert request.url == "https://example.org/"
    assert (request.headers, request.timeout, request.max_redirects) == ({"a": "b"}, 3.0, 2)
    assert (request.user_agent, request.respect_robots, request.max_bytes) == ("Reader", False, 1000)
