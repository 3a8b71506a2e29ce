"""No parser is reached by a bomb, and no honest page is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.web.extract.html.tree import scan
from tidings.web.extract.model import Caps

SMALL = Caps(elements=200, attributes=50)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<script>" + b"<b>" * 200_000, "elements"),
        (b"<!--" + b"<b>" * 200_000, "elements"),
        (b"<p>x" * 600_000, "elements"),
        (b"<br>" * 600_000, "elements"),
        (b"<div " + b" ".join(b"a%d=1" % number for number in range(200_000)) + b">", "attributes"),
        (b"<div " + b"a " * 200_000 + b">", "attributes"),
        (b"<div x='>' " + b"a< " * 200_000 + b">", "attributes"),
        ((b"<div " + b"a " * 9_000 + b">") * 6, "attributes"),
    ],
)
def test_a_bomb_is_refused_with_its_reason(body: bytes, reason: str) -> None:
    assert reason in (scan(body, Caps()) or "")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no tags at all, 1 < 2 and 3 > 2",
        b"<ul>" + b"<li>one<p>two" * 90 + b"</ul>",
        b"<table>" + b"<tr><td>a<td>b" * 30 + b"</table>",
        b"<dl>" + b"<dt>a<dd>b" * 40 + b"</dl>",
        b"<p>a" * 90,
        b"<img src=a><br><hr/><input>" * 20,
        b"<svg>" + b"<path d='M0'/>" * 90 + b"</svg>",
        b"<script>if (a<b) { x = '<div>' }</script>" * 5,
        b"<div>" * 15 + b"</div>" * 15,
    ],
)
def test_an_ordinary_page_is_not_refused(body: bytes) -> None:
    assert scan(body, SMALL) is None


@pytest.mark.parametrize(
    ("body", "elements"),
    [(b"<html><body><div><p>one<p>two</div><br></body></html>", 6), (b"<UL><li><ul\n><li><ul><li>x", 6)],
)
def test_elements_are_counted(body: bytes, elements: int) -> None:
    assert scan(body, Caps(elements=elements)) is None
    assert "elements" in (scan(body, Caps(elements=elements - 1)) or "")


@given(st.binary(max_size=300) | st.text("<>/ab='\" \n!-", max_size=300).map(str.encode))
def test_any_bytes_are_counted_without_an_error(body: bytes) -> None:
    assert scan(body, Caps(elements=300)) is None
