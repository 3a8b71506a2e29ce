"""Extraction in other processes, and the answers that pass between them. The processes are the kit's."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from tidings._kit.pool import Kind, WorkerFailed, WorkerPool
from tidings._kit.worker import LastAnswer
from tidings.web.extract import pool as pool_module
from tidings.web.extract.html.selectors import BadSelector
from tidings.web.extract.model import (
    Extracted,
    ExtractionFailed,
    ExtractOptions,
    ExtractWarning,
    FeedEntry,
    Unsupported,
)
from tidings.web.extract.pool import ExtractionPool, Failure, answer, decoded_outcome, encoded_outcome

URL = "https://harbour.example/"
LONG = 60.0
"""Seconds that nothing takes, on however busy a machine."""
WHOLE = Extracted(
    kind="feed",
    method="rss",
    markdown="# Grüße",
    text="Grüße",
    title="t",
    page_count=3,
    warnings=(ExtractWarning("truncated", "cut"),),
    hidden=("h",),
    concealed=((0, 1), (4, 7)),
    entries=(FeedEntry("1", "t", "https://a.example/1", summary="s"),),
)


@pytest.fixture
async def pool() -> AsyncIterator[ExtractionPool]:
    async with ExtractionPool(count=1, timeout=LONG) as pool:
        yield pool


@pytest.mark.anyio
async def test_pages_are_read_in_another_process_and_errors_come_as_what_they_are(pool: ExtractionPool) -> None:
    assert pool.pids == frozenset()
    assert (await pool.extract(b"<p>Hello there", "text/html", URL)).text == "Hello there"
    (pid,) = pool.pids
    assert pid != os.getpid()
    with pytest.raises(Unsupported, match="video/mp4"):
        await pool.extract(b"", "video/mp4", URL)
    with pytest.raises(BadSelector, match="a:b"):
        await pool.extract(b"<p>", "text/html", URL, ExtractOptions(remove_selectors=("a:b",)))
    with pytest.raises(ExtractionFailed, match="entities"):
        await pool.extract(b"<!DOCTYPE a [<!ENTITY a '&b;'>]><a/>", "text/xml", URL)
    line = "Wörter und mehr. " * 50 + "\n"
    assert (await pool.extract((line * 1_500).encode(), "text/plain", URL)).text == (line * 1_500).rstrip()
    assert pool.pids == {pid}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "becomes", "words"),
    [
        ("start", "crash", r"started: details"),
        ("busy", "busy", r"All 3 processes .* for 7 s: try again later"),
        ("timeout", "timeout", r"longer than 0\.5 s .*: ask for it as raw"),
        ("crash", "crash", r"crashed \(details\).*: ask for it as raw"),
        ("stopped", "stopped", "stopping"),
    ],
)
async def test_a_job_without_an_answer_says_why(
    monkeypatch: pytest.MonkeyPatch, kind: Kind, becomes: str, words: str
) -> None:
    async def ask(*_: object) -> None:
        raise WorkerFailed(kind, "details")

    monkeypatch.setattr(WorkerPool, "ask", ask)
    with pytest.raises(ExtractionFailed, match=words) as failed:
        await ExtractionPool(count=3, timeout=0.5, wait=7).extract(b"", "text/html", URL)
    assert failed.value.kind == becomes


@pytest.mark.anyio
async def test_only_who_has_entered_can_ask() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await ExtractionPool().extract(b"<p>", "text/html", URL)


def test_a_worker_imports_nothing_that_it_does_not_need() -> None:
    heavy = "{'mcp', 'pydantic', 'anyio', 'asyncio', 'httpx2', 'httpcore2', 'ssl', 'sqlite3', 'pypdfium2', 'h2'}"
    program = (
        f"import sys, tidings.web.extract.pool; print({heavy} & {{name.partition('.')[0] for name in sys.modules}})"
    )
    # Whoever measures coverage imports things of its own.
    bare = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    command = [sys.executable, "-P", "-c", program]
    printed = subprocess.run(command, env=bare, capture_output=True, text=True, check=True)
    assert printed.stdout == "set()\n"


def test_an_answer_arrives_as_it_was() -> None:
    assert decoded_outcome(encoded_outcome(WHOLE)) == WHOLE
    assert decoded_outcome(encoded_outcome(Extracted("a", "b"))) == Extracted("a", "b")
    found = decoded_outcome(answer((b"<p>Hello there", "text/html", URL, ExtractOptions())))
    assert isinstance(found, Extracted)
    assert found.text == "Hello there"


@pytest.mark.parametrize(
    "error", [Unsupported("video/mp4"), ExtractionFailed("bomb", "It is a bomb."), BadSelector("a:b")], ids=repr
)
def test_an_error_arrives_as_it_was(error: Failure) -> None:
    arrived = decoded_outcome(encoded_outcome(error))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"{}",
        b'["found"]',
        b'["found", 3]',
        b'["found", {}]',
        json.dumps(
            ["found", {"kind": "a", "warnings": [], "entries": [{"x": 1}], "hidden": [], "concealed": []}]
        ).encode(),
        b'["failed", 3]',
        b'["other", 3]',
        b'[["failed"], 3]',
        b"[" * 100_000,
        pickle.dumps(WHOLE),
    ],
)
def test_what_is_no_answer_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - which one does not matter
        decoded_outcome(content)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (MemoryError(), "memory", "memory"),
        (RecursionError(), "bomb", "too deep"),
        (ZeroDivisionError("secret"), "broken", "ZeroDivisionError"),
    ],
)
def test_whatever_goes_wrong_is_an_answer_and_the_last_one_when_memory_ran_out(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: str, words: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(pool_module, "extract", fail)
    content = answer((b"", "text/html; x", "", ExtractOptions()))
    outcome = decoded_outcome(content)
    assert isinstance(outcome, ExtractionFailed)
    assert outcome.kind == kind
    assert words in str(outcome)
    assert "secret" not in str(outcome)
    assert isinstance(content, LastAnswer) == (kind == "memory")


def test_halves_of_characters_are_replaced_wherever_they_are() -> None:
    broken = Extracted(
        "a", "b", title="\ud800", entries=(FeedEntry("1", "\udc00x", "u"), FeedEntry("2", "y", "u")), page_count=1
    )
    whole = decoded_outcome(encoded_outcome(broken))
    assert isinstance(whole, Extracted)
    assert (whole.title, whole.entries[0].title, whole.entries[1]) == ("\ufffd", "\ufffdx", broken.entries[1])
