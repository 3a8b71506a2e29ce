"""What changed in a feed, entry by entry."""

from hypothesis import given
from hypothesis import strategies as st

from tidings.web.documents.difference import FeedDiff, diff_feeds
from tidings.web.extract.model import FeedEntry


def made(name: str, **more: str) -> FeedEntry:
    return FeedEntry(**({"id": name, "title": f"Title {name}", "url": f"https://example.org/{name}"} | more))


A, B, C, D = (made(name) for name in "abcd")


def test_a_feed_that_is_the_same_has_no_news() -> None:
    found = diff_feeds([A, B], [A, B])
    assert found == FeedDiff((), (), ())
    assert found.same
    assert found.text() == ""
    assert diff_feeds([A, B], [B, A]).same


def test_what_was_added_removed_and_changed_is_told_apart() -> None:
    changed = made("b", title="Better", summary="Now with a summary")
    found = diff_feeds([A, B, C], [D, changed, C])
    assert found.added == (D,)
    assert found.removed == (A,)
    assert [(change.before, change.after, change.fields) for change in found.changed] == [
        (B, changed, ("title", "summary"))
    ]
    assert not found.same
    assert found.text() == (
        "+ Title d https://example.org/d\n"
        "~ Better https://example.org/b\n"
        "  - title: Title b\n"
        "  + title: Better\n"
        "  - summary: \n"
        "  + summary: Now with a summary\n"
        "- Title a https://example.org/a\n"
    )


def test_old_entries_that_fall_out_of_the_window_are_no_news() -> None:
    found = diff_feeds([B, C, D], [A, B])
    assert (found.added, found.removed, found.fallen_out) == ((A,), (), 2)
    assert found.text().endswith("[2 old entries fell out at the end of the feed]\n")


def test_entries_at_the_end_that_go_while_none_come_were_removed() -> None:
    found = diff_feeds([A, B, C], [A, B])
    assert (found.removed, found.fallen_out) == ((C,), 0)


def test_a_feed_of_which_nothing_is_left_was_replaced() -> None:
    found = diff_feeds([A, B], [C, D])
    assert (found.added, found.removed, found.fallen_out) == ((C, D), (A, B), 0)


def test_entries_without_an_id_are_known_by_what_they_have() -> None:
    by_url = FeedEntry("", "x", "https://example.org/x")
    by_title = FeedEntry("", "Only a title", "")
    assert diff_feeds([by_url, by_title], [by_title, by_url]).same


def test_two_entries_of_the_same_id_are_two() -> None:
    again = made("a", title="Again")
    assert diff_feeds([A], [A, again]).added == (again,)
    assert diff_feeds([A, again], [A, again]).same


def test_a_long_text_says_what_is_left_out() -> None:
    many = [made(str(number), published_at="2026-01-01", summary="word " * 200) for number in range(50)]
    text = diff_feeds([], many).text(max_chars=2000)
    assert len(text) < 2100
    assert "[45 more of 50 changes are left out]" in text
    assert "[700 characters]" in text
    assert "(2026-01-01)" in text
    assert "left out" not in diff_feeds([], many).text(None)


FEEDS = st.lists(st.builds(made, st.sampled_from("abcdef"), title=st.sampled_from(["x", "y"])), max_size=8)


@given(FEEDS, FEEDS)
def test_every_entry_is_accounted_for(before: list[FeedEntry], after: list[FeedEntry]) -> None:
    found = diff_feeds(before, after)
    assert len(before) - len(found.removed) - found.fallen_out == len(after) - len(found.added)
    assert all(change.before.id == change.after.id and change.before != change.after for change in found.changed)
