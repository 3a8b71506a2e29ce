"""What passes between the server and a worker."""

import io
import json
import pickle
from queue import SimpleQueue

import pytest

from tidings.web.extract import worker as worker_module
from tidings.web.extract.dispatch import (
    Extracted,
    ExtractionFailed,
    ExtractOptions,
    ExtractWarning,
    FeedEntry,
    PageLink,
    Unsupported,
    sound,
)
from tidings.web.extract.frames import LARGEST, framed, length, read_answer, read_frame, written_answer
from tidings.web.extract.html.selectors import BadSelector
from tidings.web.extract.worker import READY, Job, answered, work

WHOLE = Extracted(
    kind="feed",
    method="rss",
    markdown="# Grüße",
    text="Grüße",
    title="t",
    page_count=3,
    links=(PageLink("a", "https://a.example/"),),
    warnings=(ExtractWarning("truncated", "cut"),),
    hidden=("h",),
    concealed=((0, 1), (4, 7)),
    entries=(FeedEntry("1", "t", "https://a.example/1", summary="s"),),
)
HTML: Job = (b"<p>Hello there", "text/html", "https://a.example/", ExtractOptions())


def test_what_was_found_arrives_as_it_was() -> None:
    assert read_answer(written_answer(WHOLE, last=True)) == (WHOLE, True)
    assert read_answer(written_answer(Extracted("a", "b"), last=False)) == (Extracted("a", "b"), False)


@pytest.mark.parametrize(
    "error", [Unsupported("video/mp4"), ExtractionFailed("bomb", "It is a bomb."), BadSelector("a:b")], ids=repr
)
def test_an_error_arrives_as_it_was(error: Unsupported | ExtractionFailed | BadSelector) -> None:
    arrived, last = read_answer(written_answer(error, last=False))
    assert type(arrived) is type(error)
    assert (str(arrived), last) == (str(error), False)
    assert vars(arrived) == vars(error)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"{}",
        b'{"last": true}',
        b'{"found": 3, "last": true}',
        b'{"found": {}, "last": false}',
        json.dumps(
            {"found": {"kind": "a", "links": [{"x": 1}], "warnings": [], "entries": [], "hidden": [], "concealed": []}}
        ).encode(),
        b'{"failed": 3, "last": true}',
        b"[" * 100_000,
        pickle.dumps(WHOLE),
    ],
)
def test_what_is_no_answer_is_refused(answer: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - which one does not matter
        read_answer(answer)


def test_frames_are_read_one_after_the_other() -> None:
    source = io.BytesIO(framed(b"one") + framed(b"") + framed(b"two")[:-1])
    assert (read_frame(source), read_frame(source)) == (b"one", b"")
    with pytest.raises(EOFError):
        read_frame(source)
    with pytest.raises(EOFError):
        read_frame(io.BytesIO(b"\0"))


def test_a_frame_of_no_sensible_size_is_refused() -> None:
    with pytest.raises(ValueError, match="frame"):
        length((LARGEST + 1).to_bytes(8, "big"))


def test_an_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(ExtractionFailed("bomb", "It is a bomb.")))
    assert (error.kind, str(error)) == ("bomb", "It is a bomb.")


def test_halves_of_characters_are_replaced_wherever_they_are() -> None:
    broken = Extracted("a", "b", title="\ud800", links=(PageLink("\udc00x", "u"), PageLink("y", "u")), page_count=1)
    whole = sound(broken)
    assert (whole.title, whole.links[0].text, whole.links[1]) == ("\ufffd", "\ufffdx", broken.links[1])
    assert sound(WHOLE) is WHOLE


def works(*jobs: Job, **limits: float) -> list[bytes]:
    """The frames that a worker writes for these jobs, in this process."""
    todo: SimpleQueue[Job] = SimpleQueue()
    for job in jobs:
        todo.put(job)
    target = io.BytesIO()
    options = {"memory": 1 << 40, "seconds": 60.0, "count": 100, "idle": 0.0, **limits}
    work(todo, target, **options)  # type: ignore[arg-type]
    source = io.BytesIO(target.getvalue())
    frames: list[bytes] = []
    while source.tell() < len(target.getvalue()):
        frames.append(read_frame(source))
    return frames


def test_a_worker_says_that_it_is_ready_and_answers_until_it_is_idle() -> None:
    ready, first, second = works(HTML, (b"x", "video/mp4", "", ExtractOptions()))
    assert ready == READY
    found, last = read_answer(first)
    assert isinstance(found, Extracted)
    assert (found.text, last) == ("Hello there", False)
    assert isinstance(read_answer(second)[0], Unsupported)


def test_a_worker_ends_after_its_last_job() -> None:
    frames = works(HTML, HTML, HTML, count=2)
    assert [read_answer(frame)[1] for frame in frames[1:]] == [False, True]


def test_a_worker_that_has_grown_ends() -> None:
    frames = works(HTML, HTML, memory=1_000_000)
    assert [read_answer(frame)[1] for frame in frames[1:]] == [True]


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (MemoryError(), "memory", "memory"),
        (RecursionError(), "bomb", "too deep"),
        (ZeroDivisionError("secret"), "broken", "ZeroDivisionError"),
    ],
)
def test_whatever_goes_wrong_is_an_answer(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: str, words: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(worker_module, "extract", fail)
    outcome = answered((b"", "text/html; x", "", ExtractOptions()))
    assert isinstance(outcome, ExtractionFailed)
    assert outcome.kind == kind
    assert words in str(outcome)
    assert "secret" not in str(outcome)


def test_a_worker_that_ran_out_of_memory_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "answered", lambda _: ExtractionFailed("memory", "m"))
    assert [read_answer(frame)[1] for frame in works(HTML, HTML)[1:]] == [True]
