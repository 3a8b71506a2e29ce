"""What does not count as a change of a watched page."""

import hashlib
from dataclasses import asdict
from typing import Any, cast
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.web import ignore as ignore_module
from tidings.web.documents.model import LLMPacket
from tidings.web.extract.model import FeedEntry
from tidings.web.ignore import READY, BadRule, IgnoreRules, same_content
from tidings.web.store.model import StoredVersion

NOTHING = IgnoreRules(ready=())


def version(content: str, *entries: FeedEntry) -> StoredVersion:
    digest = hashlib.sha256(content.encode()).hexdigest()
    packet = {"content": content, "hashes": {"content_hash": digest, "raw_hash": digest}}
    return StoredVersion(cast("LLMPacket", packet), "0" * 16, entries=entries)


def same(before: str, after: str, ignore: IgnoreRules) -> bool:
    return same_content(version(before), version(after), ignore)


def feed(*entries: tuple[str, str], note: str = "") -> StoredVersion:
    made = [FeedEntry(id=id_, title=title, url=f"https://example.org/{id_}") for id_, title in entries]
    return version(note + repr(entries), *made)


def test_the_same_text_is_the_same_and_another_is_not() -> None:
    assert same("One.", "One.", NOTHING)
    assert not same("One.", "Two.", NOTHING)


def test_white_space_alone_is_no_change() -> None:
    assert same("One.\n\nTwo.", "One. Two.\n", NOTHING)


@pytest.mark.parametrize(
    ("ready", "before", "after"),
    [
        ("dates", "On 2026-01-01 it rains", "On 2026-01-02T10:00:00Z it rains"),
        ("dates", "Seen 3 March 2026, 10:15 am.", "Seen 4 Mar. 2026, 9:59 pm."),
        ("dates", "Seen March 3rd, 2026.", "Seen December 24, 2027."),
        ("dates", "Am 3. März 2026 um 10:15", "Am 24. Dezember 2026 um 9:59"),
        ("dates", "Le 3 février 2026", "Le 14 août 2026"),
        ("dates", "El 3 de enero de 2026", "El 14 de agosto de 2027"),
        ("dates", "01/02/2026 and 1.2.26", "13/02/2026 and 3.2.26"),
        ("counters", "A post. 1,234 views, 5 comments", "A post. 1,299 views, 16 comments"),
        ("counters", "Views: 10 Likes (3)", "Views: 1.2k Likes (4)"),
        ("counters", "1.5M followers", "1.6M followers"),
        ("counters", "This page was viewed 7,423 times.", "This page was viewed 60,833 times."),
        ("counters", "Text\n\nViews 33\n\nMore", "Text\n\nViews 1,034\n\nMore"),
        ("counters", "**Views** 33 | Likes **5**", "**Views** 34 | Likes **1.2k**"),
        ("counters", "| Replies | 33 |", "| Replies | 34 |"),
        ("counters", "33\n\nComments", "34\n\nComments"),
        ("counters", "33 people found this helpful", "1,034 people found this helpful"),
        ("counters", "12 of 15 customers found this review useful.", "12 of 16 customers found this review useful."),
        ("counters", "One person marked this as helpful", "3 people marked this as helpful"),
        ("counters", "Helpful (3) Report", "Helpful (4) Report"),
        ("counters", "In total: 3 registered, 0 hidden and 2 guests", "In total: 1 registered, 1 hidden and 40 guests"),
        ("stamps", "The time now is 10:43 AM.", "The time now is 1:02 PM."),
        ("stamps", "It is currently Thu Nov 19, 2026 10:43 pm", "It is currently Fri Nov 20, 2026 1:04 am"),
        ("link-tokens", "[a](https://x.org/p?utm_campaign=4)", "[a](https://x.org/p?utm_campaign=5)"),
        ("link-tokens", "[m](/cdn-cgi/l/email-protection#4f89)", "[m](/cdn-cgi/l/email-protection#a5056b)"),
        ("link-tokens", r"![a \[b\]](https://x.org/a.png?v=1&Signature=5)", r"![a \[b\]](https://x.org/a.png?v=2)"),
        ("link-tokens", "![a](https://x.org/p6v?w=65&h=65&v=1234567)", "![a](https://x.org/p6v?w=90&h=90&v=1234568)"),
        ("link-tokens", "[a](https://x.org/a?b=1&X-Amz-Signature=4)", "[a](https://x.org/a?b=1&X-Amz-Signature=5)"),
        ("link-tokens", "[a](https://x.org/a?Expires=1&Signature=4)", "[a](https://x.org/a?Expires=2&Signature=5)"),
        ("relative-times", "Posted 5 minutes ago by A", "Posted 3 hours ago by A"),
        ("relative-times", "about an hour ago", "over 2 years ago"),
        ("relative-times", "vor 5 Minuten", "vor einer Stunde"),
        ("relative-times", "il y a 3 heures", "il y a un jour"),
        ("relative-times", "just now", "2m ago"),
        ("counters", "4 people are watching", "17 people are watching"),
        ("stamps", "Last updated: 18 November 2026, 10:15", "Last updated: 19 November 2026, 8:02"),
        (
            "stamps",
            "Page generated on 2026-11-18 at 10:15:03 in 0.03 s",
            "Page generated on 2026-11-19 at 11:02:59 in 0.03 s",
        ),
        ("stamps", "Server: 10:15:03 UTC", "Server: 10:15:09 UTC"),
        (
            "link-tokens",
            "[Go](https://a.example/?p=2&sid=0f3c9a7d1b2e)",
            "[Go](https://a.example/?p=2&sid=77aa9a7d1b2e)",
        ),
        ("link-tokens", "(/x?state=Zm9vYmFyMTIzNDU2Nzg5MA)", "(/x?state=QmFyRm9vMTIzNDU2Nzg5MA)"),
        ("relative-times", "3 days left to book", "2 days left to book"),
        ("relative-times", "2 days, 4 hours and 5 minutes remaining", "1 day, 23 hours and 58 minutes remaining"),
        ("relative-times", "The sale ends in 3d 4h 5m.", "The sale ends in 2d 23h 59m."),
        ("relative-times", "less than a minute ago", "a few seconds ago"),
        ("relative-times", "Seen 1 hour 5 minutes ago", "Seen 2 hours ago"),
        ("relative-times", "Updated today", "Updated yesterday"),
        ("tokens", "See 123e4567-e89b-12d3-a456-426614174000.", "See 00000000-e89b-12d3-a456-426614174111."),
        ("tokens", "[a](https://example.org/?sid=1&b=2)", "[a](https://example.org/?sid=77&b=2)"),
        ("tokens", "build 0123456789abcdef0123", "build fedcba9876543210ffff"),
        ("tokens", "key dGhpcyBpcyBub3QgYSBzZWNyZXQ1 end", "key aW4gYW55IHdheSBhdCBhbGwgMTIz end"),
    ],
)
def test_a_ready_pattern_ignores_what_it_is_called_after(ready: str, before: str, after: str) -> None:
    assert not same(before, after, NOTHING)
    assert same(before, after, IgnoreRules(ready=(ready,)))


@pytest.mark.parametrize("ready", READY)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The price is 10 euros.", "The price is 12 euros."),
        ("Version 1.2.3 is out.", "Version 1.2.4 is out."),
        ("Rain may come in the north.", "Sun may come in the north."),
        ("It lasted 5 days.", "It lasted 6 days."),
        ("She reads 12 books and likes 3", "She reads 13 books and likes 3"),
        ("- Downloads 3.1", "- Downloads 3.2"),
        ("Ratings 45%", "Ratings 46%"),
        ("Only 3 left in stock", "Only 2 left in stock"),
        ("33 people were hurt", "34 people were hurt"),
        ("The course ends in 2026", "The course ends in 2027"),
        ("Chapter 12 marks the end", "Chapter 13 marks the end"),
        ("Take it 3 times a day", "Take it 4 times a day"),
        ("![a](https://x.org/a.png)", "![a](https://x.org/b.png)"),
    ],
)
def test_a_ready_pattern_ignores_nothing_else(ready: str, before: str, after: str) -> None:
    assert not same(before, after, IgnoreRules(ready=(ready,)))


def test_the_number_in_the_address_of_a_picture_or_a_film_counts() -> None:
    assert not same("![a](https://x.org/a?id=1)", "![a](https://x.org/a?id=2)", IgnoreRules())
    assert not same("[a](https://x.org/watch?v=1)", "[a](https://x.org/watch?v=2)", IgnoreRules())


def test_teasers_in_another_order_are_the_same_and_text_in_another_order_is_not() -> None:
    def cards(*numbers: int) -> str:
        return "A story.\n\n" + "\n\n".join(f"### [Film {n}](/{n})\n\nSeen in {n}0 towns\n\n{n} €" for n in numbers)

    assert same(cards(1, 2, 3) + "\n\nThe end.", cards(3, 1, 2) + "\n\nThe end.", IgnoreRules())
    assert not same(cards(1, 2, 3), cards(3, 1, 4), IgnoreRules())
    assert not same("One.\n\nTwo.", "Two.\n\nOne.", IgnoreRules())


def test_relative_times_are_ignored_unless_the_caller_says_otherwise() -> None:
    assert same("5 minutes ago", "6 minutes ago", IgnoreRules())
    assert not same("5 minutes ago", "6 minutes ago", NOTHING)


def test_a_pattern_of_the_caller_is_ignored_line_by_line() -> None:
    ignore = IgnoreRules(patterns=(r"^Visitor no\. \d+$",), ready=())

    assert same("Visitor no. 5\nText", "Visitor no. 6\nText", ignore)
    assert not same("Visitor no. 5\nText", "Visitor no. 6\nOther", ignore)


def test_a_feed_that_only_puts_its_entries_in_another_order_or_drops_old_ones_has_not_changed() -> None:
    before = feed(("a", "A"), ("b", "B"), ("c", "C"))

    assert same_content(before, feed(("b", "B"), ("a", "A")), NOTHING)
    assert same_content(before, feed(("a", "A"), ("b", "B"), ("c", "C"), note="built today"), NOTHING)


def test_a_feed_with_a_new_or_a_different_entry_has_changed() -> None:
    before = feed(("a", "A"), ("b", "B"))

    assert not same_content(before, feed(("c", "C"), ("a", "A"), ("b", "B")), NOTHING)
    assert not same_content(before, feed(("a", "A, corrected"), ("b", "B")), NOTHING)


def test_the_rules_apply_to_the_entries_of_a_feed() -> None:
    before, after = feed(("a", "A, 5 minutes ago")), feed(("a", "A, 6 minutes ago"))

    assert same_content(before, after, IgnoreRules())


def test_a_page_that_became_a_feed_is_compared_by_its_text() -> None:
    assert not same_content(version("text"), feed(("a", "A")), NOTHING)


def test_a_pattern_that_takes_too_long_is_left_out_on_both_sides_and_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ignore_module, "SECONDS", 0.05)
    slow = r"(?:x+x+)+y"
    ignore = IgnoreRules(patterns=(slow, r"\d+"), ready=())

    # Only the second text lets it take long; the first has been cleaned by then.
    assert not same_content(version("1 xxy"), version("2 " + "x" * 5000 + " y"), ignore)
    assert [record.args for record in caplog.records] == [("0" * 16, slow)]
    assert same_content(version("1 " + "x" * 5000 + " y"), version("2 " + "x" * 5000 + " y"), ignore)


def test_a_pattern_that_takes_too_long_on_one_side_alone_is_left_out_on_both(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ignore_module, "SECONDS", 0.05)
    ignore = IgnoreRules(patterns=(r"(?:x+x+)+y", r"\d+"), ready=())

    assert same_content(version("x1" * 5000 + " y xxy"), version("x" * 5000 + " y xxy"), ignore)
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({"patterns": ("(",)}, "not a regular expression"),
        ({"patterns": ("(?R)",)}, "not a regular expression"),
        ({"patterns": ("(" * 200 + ")" * 200,)}, "pattern"),
        ({"patterns": ("a" * 501,)}, "shorter"),
        ({"patterns": ("a{1000000000}",)}, "repeats too often"),
        ({"patterns": ("((a{1,50}){1,50}){1,50}",)}, "repeats too often"),
        ({"patterns": ("x*",)}, "empty text"),
        ({"ready": ("moons",)}, "dates, counters, relative-times, stamps, link-tokens, tokens"),
        ({"selectors": ("p:has(a)",)}, "not supported"),
        ({"selectors": ("p",) * 51}, "50 ignore rules"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused_with_its_cause(rules: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRule, match=says):
        IgnoreRules(**rules)


def test_the_rules_are_the_same_after_they_were_kept() -> None:
    ignore = IgnoreRules(selectors=(".ad, nav > a",), patterns=(r"\d+",), ready=("dates",))

    assert IgnoreRules.from_json(asdict(ignore)) == ignore
    assert IgnoreRules.from_json(None) == IgnoreRules()


@given(st.text(max_size=300), st.sampled_from(sorted(READY)))
def test_a_text_says_the_same_as_itself_and_never_breaks_a_ready_pattern(text: str, ready: str) -> None:
    with patch.object(ignore_module.logger, "warning") as warned:
        same_content(version("x" + text), version("x " + text), IgnoreRules(ready=(ready,)))
    warned.assert_not_called()


def test_a_date_a_time_and_a_link_that_say_something_are_changes_by_default() -> None:
    for before, after in (
        ("The concert is on 12 December 2026 at 19:30.", "The concert is on 13 December 2026 at 19:30."),
        ("The ferry leaves at 10:15.", "The ferry leaves at 10:45."),
        ("[Download](https://a.example/get?version=1.2)", "[Download](https://a.example/get?version=1.3)"),
        ("[Download](https://a.example/x-1.2.zip)", "[Download](https://a.example/x-1.3.zip)"),
    ):
        assert not same_content(version(before), version(after), IgnoreRules())


def test_links_in_another_order_are_no_change_and_another_link_is() -> None:
    def listed(*links: str) -> str:
        return "More:\n\n" + "\n".join(f"- [{link}](https://a.example/{link})" for link in links) + "\n\nThe end."

    assert same_content(version(listed("a", "b", "c")), version(listed("c", "a", "b")), IgnoreRules())
    assert not same_content(version(listed("a", "b", "c")), version(listed("c", "a", "d")), IgnoreRules())
    assert not same_content(version("- one\n- two"), version("- two\n- one"), IgnoreRules())
    quoted = [listed(*links).replace("- [", "> > - [") for links in (("a", "b"), ("b", "a"))]
    assert same_content(version(quoted[0]), version(quoted[1]), IgnoreRules())
    one, two, three = (f"[{name}](https://a.example/{name})" for name in "abc")
    cell = f"| More: {one} {two} {three} | 1 |"
    assert same_content(version(cell), version(f"| More: {three} {one} {two} | 1 |"), IgnoreRules())
    assert not same_content(version(cell), version(f"| More: {three} {one} {one} | 1 |"), IgnoreRules())
    assert not same_content(version(f"First {one} {two}"), version(f"First {two} {one}"), IgnoreRules())
