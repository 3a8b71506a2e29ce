"""The vocabulary of change: what a filter wants, what a key and a cursor stand for, what a URI may be."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidings.changes import (
    MAX_URI_LENGTH,
    Change,
    Cursor,
    Filter,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
    change_from_key,
    change_key,
    check_subscription,
    check_uri,
)
from tidings.errors import InvalidUri

# Few letters and short, so that texts that are equal, and that begin alike, come up often.
uris = st.builds("{}:{}".format, st.sampled_from(["n", "note", "note2"]), st.text("/ab*:", max_size=4))
lists = st.sampled_from([ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()])
changes: st.SearchStrategy[Change] = lists | st.builds(ResourceUpdated, uris)
subscriptions = uris | uris.map(lambda uri: uri + "*") | st.sampled_from(["*", "n*", "note*", "note2*"])
filters = st.builds(
    Filter.of, st.lists(subscriptions, max_size=4), tools=st.booleans(), prompts=st.booleans(), resources=st.booleans()
)


def wanted(subscriber: Filter, change: Change) -> bool:
    """The definition, word for word: a URI wants itself, a prefix with `*` wants what begins so, a flag its list."""
    if isinstance(change, ResourceUpdated):
        return any(
            change.uri.startswith(text[:-1]) if text.endswith("*") else change.uri == text
            for text in subscriber.subscriptions
        )
    flags = {
        ToolsListChanged: subscriber.tools,
        PromptsListChanged: subscriber.prompts,
        ResourcesListChanged: subscriber.resources,
    }
    return flags[type(change)]


@given(filters, changes)
def test_a_filter_wants_what_its_subscriptions_and_flags_name(subscriber: Filter, change: Change) -> None:
    assert subscriber.wants(change) == wanted(subscriber, change)


@given(uris)
def test_a_subscription_to_a_uri_is_not_one_to_what_lies_below_it(uri: str) -> None:
    uri = uri.rstrip("*")
    assert Filter.of([uri]).wants(ResourceUpdated(uri))
    assert not Filter.of([uri]).wants(ResourceUpdated(uri + "/child"))
    assert Filter.of([uri + "*"]).wants(ResourceUpdated(uri + "/child"))


@given(st.lists(subscriptions))
def test_a_filter_gives_its_subscriptions_back_as_they_were_written(texts: list[str]) -> None:
    assert Filter.of(texts).subscriptions == frozenset(texts)


@given(filters)
def test_a_filter_is_false_when_it_wants_nothing(subscriber: Filter) -> None:
    samples = [ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()]
    samples += [ResourceUpdated(text.removesuffix("*")) for text in subscriber.subscriptions]
    assert bool(subscriber) == any(subscriber.wants(change) for change in samples)


def test_only_prefixes_make_the_number_of_changes_unknown() -> None:
    assert Filter.of(["note://a", "note://b"], tools=True).bounded
    assert not Filter.of(["note://a", "note://*"]).bounded


def test_a_filter_with_one_bad_subscription_is_refused_as_a_whole() -> None:
    with pytest.raises(InvalidUri, match="today"):
        Filter.of(["note://a", "today"])


@given(changes)
def test_a_key_stands_for_its_change(change: Change) -> None:
    assert change_from_key(change_key(change)) == change


@given(changes, changes)
def test_two_changes_have_one_key_exactly_when_they_are_equal(one: Change, other: Change) -> None:
    assert (change_key(one) == change_key(other)) == (one == other)


@pytest.mark.parametrize("key", ["", "tool", "resource", "resources ", "Tools", "resourcenote://a", " tools"])
def test_a_text_that_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="No change has the key"):
        change_from_key(key)


@given(st.text(min_size=1), st.integers(0, 2**63 - 1), st.sampled_from(["", "0", "1234", "5a5a5a5a"]))
def test_a_cursor_is_read_as_it_was_written(epoch: str, version: int, term: str) -> None:
    assert Cursor.parse(str(Cursor(epoch, version, term))) == Cursor(epoch, version, term)


@given(st.text() | st.none() | st.integers() | st.lists(st.text()) | st.dictionaries(st.text(), st.text()))
@example("e:9223372036854775808")
@example("e:9223372036854775807")
def test_whatever_a_client_sends_as_a_cursor_is_one_that_an_engine_can_look_up_or_none(sent: Any) -> None:
    cursor = Cursor.parse(sent)
    with closing(sqlite3.connect(":memory:")) as engine:
        assert cursor is None or engine.execute("SELECT ?", [cursor.version]).fetchone() == (cursor.version,)


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        ":",
        "e",
        "e:",
        ":1",
        "e:-1",
        "e:1.0",
        "e:\u0661",
        "e:²",
        "e: 1",
        "e:1 ",
        "e:1_0",
        "e:+1",
        "e:1-",
        "e:1-A",
        "e:1-a-b",
        "e:1-" + "a" * 17,
        "e:" + "9" * 19,
        b"e:1",
        7,
    ],
)
def test_what_is_no_cursor_is_an_unknown_past(garbage: object) -> None:
    assert Cursor.parse(garbage) is None


@given(st.text(min_size=1), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_cursors_of_one_epoch_are_ordered_by_version(epoch: str, one: int, other: int) -> None:
    assert (Cursor(epoch, one) < Cursor(epoch, other)) == (one < other)


GOOD_URIS = [
    "note://today",
    "vault://note/Caf%C3%A9.md",
    "vault://note/Café.md",
    "urn:isbn:0451450523",
    "a:",
    "x+y.z-1://h",
    "note://a*b",
    "note://{id}",
    "n:" + "a" * (MAX_URI_LENGTH - 2),
]
BAD_URIS: list[tuple[object, str]] = [
    (None, "a string .*, not NoneType"),
    (7, "a string .*, not int"),
    (b"note://a", "a string .*, not bytes"),
    ("", "begin with a scheme"),
    ("today", "begin with a scheme"),
    ("://x", "begin with a scheme"),
    ("1note://a", "begin with a scheme"),
    ("/etc/hosts", "begin with a scheme"),
    (" note://a", "begin with a scheme"),
    ("nöte://a", "begin with a scheme"),
    ("note://a b", "' ' at position 8"),
    ("note://a\n", r"'\\n' at position 8"),
    ("note://a\x00", r"'\\x00' at position 8"),
    ("note://\ud800", r"'\\ud800' at position 7"),
    ("note://a\u2028b", r"'\\u2028' at position 8"),
    ("n:" + "a" * (MAX_URI_LENGTH - 1), "at most 8192 characters, and this one has 8193"),
]


@pytest.mark.parametrize("uri", GOOD_URIS)
def test_a_uri_is_taken_as_it_is(uri: str) -> None:
    assert check_uri(uri) == uri
    assert check_subscription(uri) == uri


@pytest.mark.parametrize(("uri", "reason"), BAD_URIS)
def test_what_is_no_uri_is_refused_with_the_reason(uri: object, reason: str) -> None:
    with pytest.raises(InvalidUri, match=reason):
        check_uri(uri)
    with pytest.raises(InvalidUri, match=reason):
        check_subscription(uri)


def test_a_uri_with_spaces_is_shown_as_it_should_be_written() -> None:
    with pytest.raises(InvalidUri, match=r"'vault://search/apple%20pie%0A%C2%A0%3F'$"):
        check_uri("vault://search/apple pie\n\u00a0\ud800")


@pytest.mark.parametrize("text", ["*", "n*", "note*", "note:*", "note://*", "note://a/b*", "note://**", "x+y.z-1*"])
def test_a_prefix_is_the_beginning_of_a_uri_and_a_star(text: str) -> None:
    assert check_subscription(text) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("://x*", "begin as a URI does"),
        ("/notes/*", "begin as a URI does"),
        ("**", "begin as a URI does"),
        ("1*", "begin as a URI does"),
        ("note *", "begin as a URI does"),
        ("\ud800*", "begin as a URI does"),
        ("note://a b*", "spaces"),
        ("note://\udfff*", "spaces"),
        ("n" * MAX_URI_LENGTH + "*", "this one has 8193"),
    ],
)
def test_what_is_no_prefix_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidUri, match=reason):
        check_subscription(text)


@given(st.text(st.characters()) | st.text("note:/* \n\ud800\udfff", max_size=8))
def test_an_accepted_subscription_can_be_sent_and_a_refusal_can_be_printed(text: str) -> None:
    try:
        outcome = check_subscription(text)
    except InvalidUri as error:
        outcome = str(error)
    assert outcome.encode()
