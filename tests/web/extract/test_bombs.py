"""Bodies that are out to harm: each ends in a clear error or a truthful result, and the workers go on."""

import gzip
from collections.abc import AsyncIterator

import anyio
import pytest

from tests.web.extract.pdfs import many_pages, packed_page
from tests.web.extract.test_xml import LAUGHS, QUADRATIC
from tidings.web.extract.model import Caps, ExtractionFailed, ExtractOptions
from tidings.web.extract.pool import ExtractionPool, extract

pytestmark = pytest.mark.anyio

URL = "https://harbour.example/"

RESULTS = {
    "30,000 elements nested": (b"<div>" * 30_000 + b"harbour", "text/html", "extraction_fallback"),
    "200,000 attributes": (
        b"<div " + b" ".join(b"a%d=1" % number for number in range(200_000)) + b">harbour",
        "text/html",
        "extraction_fallback",
    ),
    "200,000 paragraphs": (b"<p>harbour" + b"<p>x" * 200_000, "text/html", "extraction_fallback"),
    "a million brackets": (b"harbour" + b"[" * 1_000_000, "application/json", "extraction_fallback"),
    "a line of ten million letters": (b"harbour" + b"x" * 10_000_000, "text/plain", "truncated"),
    "a table of a line of ten million letters": (b"harbour," + b"x" * 10_000_000, "text/csv", "truncated"),
    "a table of 200,000 rows": (b"harbour,b\n" + b"1,2\n" * 200_000, "text/csv", "truncated"),
    "a PDF of 20,000 pages": (many_pages(20_000), "application/pdf", "truncated"),
    "a feed of 10,000 entries": (
        b"<rss><channel><title>harbour</title>" + b"<item><title>a</title></item>" * 10_000 + b"</channel></rss>",
        "application/rss+xml",
        "truncated",
    ),
}
"""What is in the result, and which warning."""

ERRORS = {
    "entities of entities": (LAUGHS, "application/xml", "bomb"),
    "entities by the thousand": (QUADRATIC, "application/rss+xml", "bomb"),
    "XML nested": (b"<a>" * 30_000, "application/xml", "bomb"),
    "a packed bomb": (gzip.compress(b"\0" * 40_000_000), "text/html", "bomb"),
    "a PDF that is none": (b"%PDF-1.7" + b"<<" * 200_000, "application/pdf", "broken"),
}


@pytest.fixture(scope="module")
async def workers() -> AsyncIterator[ExtractionPool]:
    async with ExtractionPool(count=1, timeout=60.0) as workers:
        yield workers


async def goes_on(workers: ExtractionPool) -> None:
    assert (await workers.extract(b"<p>Hello there", "text/html", URL)).text == "Hello there"


@pytest.mark.parametrize("name", RESULTS)
async def test_a_bomb_is_read_truthfully(workers: ExtractionPool, name: str) -> None:
    body, kind, warning = RESULTS[name]
    found = await workers.extract(body, kind, URL)
    assert warning in [one.type for one in found.warnings]
    assert "harbour" in found.text or found.page_count == 20_000
    assert found.empty is None
    await goes_on(workers)


@pytest.mark.parametrize("name", ERRORS)
async def test_a_bomb_is_refused(workers: ExtractionPool, name: str) -> None:
    body, kind, reason = ERRORS[name]
    with pytest.raises(ExtractionFailed) as refused:
        await workers.extract(body, kind, URL)
    assert refused.value.kind == reason
    await goes_on(workers)


async def test_a_pdf_that_is_drawn_without_end_is_ended() -> None:
    endless = packed_page(b"BT /F1 1 Tf " + b"1 0 Td (aaaaaaaaaa) Tj " * 1_500_000 + b"ET")
    async with ExtractionPool(count=1, timeout=1.0) as workers:
        with pytest.raises(ExtractionFailed, match="ask for it as raw") as refused:
            await workers.extract(endless, "application/pdf", URL)
        assert refused.value.kind in {"timeout", "memory", "crash"}
        assert workers.pids == frozenset()
    async with ExtractionPool(count=1) as workers:
        await goes_on(workers)


async def test_a_bomb_that_is_cut_says_how_much_is_left_out(workers: ExtractionPool) -> None:
    found = await workers.extract(b"<p>harbour" * 260_000, "text/html", URL)
    assert [one.type for one in found.warnings] == ["extraction_fallback", "truncated"]
    assert "2,079,999 characters" in found.warnings[1].message


async def test_bombs_at_once_keep_nobody_from_reading(workers: ExtractionPool) -> None:
    async with anyio.create_task_group() as group:
        for name in ("30,000 elements nested", "a million brackets", "a table of 200,000 rows"):
            body, kind, _ = RESULTS[name]
            group.start_soon(workers.extract, body, kind, URL)
        group.start_soon(goes_on, workers)


def test_a_long_base_does_not_make_a_long_address_of_every_link() -> None:
    links = b"<a href=y>some words here now</a> " * 500
    base = f"https://example.org/{'x' * 15_000}/"
    options = ExtractOptions(caps=Caps(characters=100_000))
    found = extract(b"<article><p>" + links + b"</p></article>", "text/html", base, options)
    assert len(found.markdown) <= 100_000
    assert len(found.text) == 500 * len("some words here now ") - 1
    assert [warning.type for warning in found.warnings] == ["truncated"]
    images = b"<p>words <img alt=a src=z>" * 500
    assert len(extract(images, "text/html", base, options).markdown) <= 100_000


def test_a_page_of_more_characters_than_are_written_is_cut_with_a_word() -> None:
    page = b"".join(b"<p>This is sentence number %d of the page.</p>" % n for n in range(500))
    found = extract(page, "text/html", "https://example.org/", ExtractOptions(caps=Caps(characters=5_000)))
    assert 4_000 < len(found.markdown) <= 5_000
    assert len(found.text) <= 5_000
    assert "left out" in found.warnings[-1].message


def test_a_wall_of_backticks_is_fenced_at_once() -> None:
    found = extract(b"<pre>" + b"`" * 300_000 + b"</pre>", "text/html", "https://example.org/")
    assert found.markdown.startswith("`" * 300_001 + "\n")
