"""One way to name many URIs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.changes import Filter, ResourceUpdated
from tidings.errors import InvalidUri
from tidings.server.patterns import Pattern

words = st.text("abc/:*", max_size=6)


@pytest.mark.parametrize(
    ("pattern", "uri", "variables"),
    [
        ("note://a", "note://a", {}),
        ("note://a", "note://ab", None),
        ("note://*", "note://a/b", {}),
        ("note://*", "note://*", {}),
        ("note://*", "note:/", None),
        ("*", "x:y", {}),
        ("feed://{id}", "feed://7", {"id": "7"}),
        ("feed://{id}", "feed://*", {"id": "*"}),
        ("feed://{id}", "feed://a/b", None),
        ("feed://{+path}", "feed://a/b", {"path": "a/b"}),
        ("feed://{id}/{part}", "feed://7/x", {"id": "7", "part": "x"}),
        ("feed://{id}", "feed://%C3%A6", {"id": "æ"}),
    ],
)
def test_a_pattern_matches_what_it_names_and_gives_the_variables(
    pattern: str, uri: str, variables: dict[str, str] | None
) -> None:
    assert Pattern(pattern).match(uri) == variables


@pytest.mark.parametrize("text", ["", "note", "two words:x", "not a scheme*", "note://a b"])
def test_a_text_that_is_neither_uri_nor_prefix_nor_template_is_refused(text: str) -> None:
    with pytest.raises(InvalidUri):
        Pattern(text)


@pytest.mark.parametrize("text", ["feed://{id", "feed://{}", "feed://{a}{", "feed://{a b}"])
def test_a_broken_template_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not a URI template") as refusal:
        Pattern(text)
    assert repr(text) in str(refusal.value)


@given(words, words)
def test_a_uri_or_prefix_matches_what_a_filter_for_it_wants(pattern: str, uri: str) -> None:
    pattern, uri = "x:" + pattern, "x:" + uri
    wanted = Filter.of([pattern]).wants(ResourceUpdated(uri))
    assert (Pattern(pattern).match(uri) is not None) is wanted


def test_a_prefix_is_covered_only_by_a_prefix() -> None:
    """A template says nothing of all that a prefix can match: `feed://*` hears of `feed://a/b` too."""
    assert Pattern("feed://{id}").covers("feed://a")
    assert not Pattern("feed://{id}").covers("feed://*")
    assert Pattern("feed://*").covers("feed://a*")
    assert not Pattern("feed://a*").covers("feed://*")
