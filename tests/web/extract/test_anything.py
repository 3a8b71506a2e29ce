"""Whatever comes, with whatever label: a result that says something, a result that says why not, or a clear error."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.web.extract.sample import article
from tests.web.extract.test_feeds import ATOM, RDF, RSS
from tests.web.extract.test_xml import LAUGHS
from tidings.web.extract.model import Caps, Extracted, ExtractionFailed, ExtractOptions, Unsupported
from tidings.web.extract.pool import READERS, extract

# A broken PDF may take the process with it, which is what workers are for.
LABELS = sorted({label.replace("*", "x") for label in READERS if "pdf" not in label} | {"", "nonsense", "a/b"})
SAMPLES = [
    article(),
    RSS,
    ATOM,
    RDF,
    LAUGHS,
    b'{"a": [1, 2, {"b": null}]}\n{"a": 2}',
    b"a,b;c\td\n1,2\n'\"",
    b"---\ntitle: x\n---\n# Heading\n\n[a](b) <!-- c --> ```\n",
    "\ufeffGrüße\n".encode("utf-16"),
    b"<a><b c='d'>e</b>f</a>",
]
URL = "https://harbour.example/thing"


def outcome(body: bytes, label: str) -> Extracted | Unsupported | ExtractionFailed:
    try:
        return extract(body, label, URL, ExtractOptions(caps=Caps(characters=5_000, rows=20, entries=5)))
    except (Unsupported, ExtractionFailed) as refused:
        return refused


def check(body: bytes, label: str) -> None:
    found = outcome(body, label)
    if isinstance(found, Unsupported):
        return
    if isinstance(found, ExtractionFailed):
        assert found.kind in {"bomb", "broken"}
        return
    assert found.text.strip() or found.empty
    assert found.markdown.strip() or found.empty
    json.dumps(found.text + found.markdown + (found.title or ""), ensure_ascii=False).encode()


@given(st.binary(max_size=200), st.sampled_from(LABELS))
def test_any_bytes_with_any_label(body: bytes, label: str) -> None:
    check(body, label)


@given(
    st.text(max_size=100), st.sampled_from(LABELS), st.sampled_from(["utf-8", "utf-16", "utf-16-le", "utf-7", "koi8-r"])
)
def test_any_text_in_any_encoding(text: str, label: str, encoding: str) -> None:
    check(text.encode(encoding, "replace"), f"{label}; charset={encoding}")


@given(
    st.sampled_from(SAMPLES),
    st.sampled_from(LABELS),
    st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 50), st.binary(max_size=12)), max_size=4),
)
def test_any_sample_broken_in_any_way(body: bytes, label: str, changes: list[tuple[int, int, bytes]]) -> None:
    for place, number, other in changes:
        at = place % (len(body) + 1)
        body = body[:at] + other + body[at + number :]
    check(body, label)


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("body", [b"", b" \r\n\t ", b"\0\0\0\0", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"])
def test_nothing_is_never_a_success(body: bytes, label: str) -> None:
    found = outcome(body, label)
    if isinstance(found, Unsupported):
        assert label == "a/b" or b"\0" in body
    else:
        assert isinstance(found, Extracted)
        assert (found.empty, found.text.strip()) == ("empty", "")


@pytest.mark.parametrize("label", READERS)
def test_every_reader_is_there(label: str) -> None:
    assert not isinstance(outcome(b"<a>b</a>", label.replace("*", "x")), Unsupported)
