"""What a request comes down to."""

import pytest

from tidings.web.fetch.fetcher import RETRIED, plan
from tidings.web.fetch.request import BadRequest, BadUrl, FetchLimits, Request

LIMITS = FetchLimits(timeout=30, max_bytes=1_000, max_redirects=5, user_agent="Tidings/1")
URL = "https://example.org/"


def sent(request: Request, *, own: bool = True) -> dict[str, str]:
    return dict(plan(request, LIMITS).headers(own=own))


def test_markdown_is_asked_for_first() -> None:
    assert sent(Request(URL))["accept"].startswith("text/markdown, text/html;q=0.9")
    assert sent(Request(URL, accept="text/css"))["accept"] == "text/css"
    assert sent(Request(URL, headers={"Accept": "image/png"}))["accept"] == "image/png"


def test_a_request_may_ask_for_less_and_never_for_more() -> None:
    less = plan(Request(URL, timeout=1, max_bytes=10, max_redirects=0), LIMITS)
    assert (less.timeout, less.max_bytes, less.max_redirects) == (1, 10, 0)
    more = plan(Request(URL, timeout=100, max_bytes=10_000, max_redirects=50), LIMITS)
    assert (more.timeout, more.max_bytes, more.max_redirects) == (30, 1_000, 5)
    assert plan(Request(URL, timeout=-1), LIMITS).timeout == 0


def test_own_headers_are_for_the_first_host_alone() -> None:
    request = Request(URL, headers={"Authorization": "Bearer x", "Cookie": "a=b"}, etag='"1"', last_modified="then")
    assert sent(request).keys() >= {"authorization", "cookie", "if-none-match", "if-modified-since"}
    assert sent(request, own=False).keys() == {
        *("accept", "user-agent", "accept-encoding", "if-none-match", "if-modified-since")
    }


def test_the_agent_is_named_by_the_request_its_header_or_the_limits() -> None:
    assert sent(Request(URL))["user-agent"] == "Tidings/1"
    assert sent(Request(URL, headers={"User-Agent": "Other/2"}), own=False)["user-agent"] == "Other/2"
    assert sent(Request(URL, headers={"User-Agent": "Other/2"}, user_agent="Third"))["user-agent"] == "Third"


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "content-length", "Content-Encoding", "Transfer-Encoding", "Connection", "KEEP-ALIVE", "TE"),
        *("Trailer", "Upgrade", "Expect", "Proxy-Authorization", "Proxy-Connection", "Accept-Encoding", "Range"),
        *("If-None-Match", "If-Modified-Since", "HTTP2-Settings", " Host "),
    ],
)
def test_headers_that_are_the_fetchers_own_cannot_be_set(name: str) -> None:
    with pytest.raises(BadRequest, match="leave it out"):
        plan(Request(URL, headers={name: "x"}), LIMITS)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", ":authority", "ä", "a\x00"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(BadRequest, match="not a header name"):
        plan(Request(URL, headers={name: "x"}), LIMITS)


@pytest.mark.parametrize("value", ["a\r\nHost: evil.example", "a\nb", "a\x00", "a\x7f", "\u2028", "日本"])
def test_a_value_that_would_be_more_than_one_is_refused(value: str) -> None:
    for request in (
        Request(URL, headers={"X-Thing": value}),
        Request(URL, etag=value),
        Request(URL, last_modified=value),
        Request(URL, accept=value),
        Request(URL, user_agent=value),
    ):
        with pytest.raises(BadRequest, match="in its value"):
            plan(request, LIMITS)


def test_too_many_or_too_long_headers_are_refused() -> None:
    with pytest.raises(BadRequest, match="too many"):
        plan(Request(URL, headers={f"x-{n}": "y" for n in range(51)}), LIMITS)
    with pytest.raises(BadRequest, match="longer than"):
        plan(Request(URL, headers={"x": "y" * 8_193}), LIMITS)


def test_a_bad_url_is_refused_before_anything_else() -> None:
    with pytest.raises(BadUrl):
        plan(Request("file:///etc/passwd", headers={"Host": "x"}), LIMITS)


def test_statuses_that_stay_are_not_asked_again() -> None:
    assert not RETRIED & {200, 304, 400, 401, 403, 404, 410, 500, 501}
