"""The parts without widgets: feeds, what was typed, templates, trees, words."""

import pytest

from tidings._kit.uri_templates import expand, matches
from tidings.inspector.forms.build import form
from tidings.inspector.forms.values import from_texts
from tidings.inspector.records import Record
from tidings.inspector.tui.frame import bars, slots_of
from tidings.inspector.tui.widgets.bars import lines_of, one_line, size, took
from tidings.inspector.tui.widgets.forms import Typed
from tidings.inspector.tui.widgets.lists import CHUNK, ArrivingEntries, Table
from tidings.inspector.view.fold import fold
from tidings.inspector.view.rings import Ring
from tidings.inspector.view.view import ServerView


def filled(count: int, room: int = 100_000) -> Ring[int]:
    ring: Ring[int] = Ring(room)
    for number in range(1, count + 1):
        ring.append(number, number)
    return ring


def make_feed() -> ArrivingEntries[int]:
    return ArrivingEntries(lambda number: number, str)


def test_a_feed_shows_the_newest_first() -> None:
    feed = make_feed()
    feed.update(filled(3))
    assert [feed[at] for at in range(len(feed))] == [3, 2, 1]


def test_a_feed_that_does_not_follow_counts_what_it_holds_back() -> None:
    feed, ring = make_feed(), filled(3)
    feed.update(ring)
    feed.follow(False)
    ring.append(4, 4)
    feed.update(ring)
    assert (len(feed), feed.held, feed[0]) == (3, 1, 3)
    feed.follow(True)
    assert (len(feed), feed.held, feed[0]) == (4, 0, 4)


def test_a_feed_lets_go_of_what_its_source_dropped_and_keeps_its_place() -> None:
    feed, ring = make_feed(), filled(10, room=10)
    feed.update(ring)
    feed.follow(False)
    for number in range(11, 16):
        ring.append(number, number)
    feed.update(ring)
    assert feed[0] == 10
    assert len(feed) == 5
    assert feed.held == 5
    assert feed.find(8) == 2
    assert feed.find(3) is None


def test_a_filter_looks_at_a_long_history_step_by_step() -> None:
    feed, ring = make_feed(), filled(3 * CHUNK)
    feed.update(ring)
    feed.filter("7")
    first = len(feed)
    assert feed.searching
    while feed.searching:
        feed.update(ring)
    assert len(feed) == sum("7" in str(number) for number in range(1, 3 * CHUNK + 1)) > first


def test_a_table_finds_its_items_by_their_key() -> None:
    table: Table[str] = Table(lambda item: item, lambda item: item)
    table.update(["b", "a", "ab"])
    assert table.find("a") == 1
    table.filter("a")
    assert (len(table), table.total, table.find("a")) == (2, 3, 0)


def test_what_is_emptied_in_a_form_is_left_out_again() -> None:
    typed = Typed()
    typed.put(("filter", "tags", 1), "x")
    assert typed.texts == {"filter": {"tags": [None, "x"]}}
    text = {"type": "string"}
    below = {"type": "object", "properties": {"name": text, "tags": {"type": "array", "items": text}}}
    made = form({"type": "object", "properties": {"filter": below}})
    assert from_texts(made, typed.texts).value == {"filter": {"tags": ["x"]}}
    typed.put(("filter", "tags"), "")
    typed.put(("filter", "name"), "y")
    typed.put(("filter", "name"), "")
    assert from_texts(made, typed.texts).value == {}


@pytest.mark.parametrize(
    ("template", "values", "uri"),
    [
        ("a://{x}", {"x": "b/c d"}, "a://b%2Fc%20d"),
        ("a://{+x}", {"x": "b/c d"}, "a://b/c%20d"),
        ("a://b{?q,p}", {"q": "1", "p": ""}, "a://b?q=1"),
        ("a://b{?q*}", {"q": ["1", "2"]}, "a://b?q=1&q=2"),
        ("a://b{/x,y}{#z}", {"x": "1", "y": "2", "z": "3"}, "a://b/1/2#3"),
        ("a://{x:2}", {"x": "1234"}, "a://12"),
        ("a://b{x}", {}, "a://b"),
    ],
)
def test_a_template_becomes_a_uri(template: str, values: dict[str, object], uri: str) -> None:
    assert expand(template, values) == uri
    assert matches(template, uri)


def test_a_template_made_to_be_slow_is_not() -> None:
    assert not matches("a://" + "{+x}" * 40 + "!", "b://" + "a" * 1900)
    assert not matches("a://{+a}{+b}{+c}{+d}!", "a://" + "a" * 200)


def test_nothing_that_a_terminal_obeys_gets_through() -> None:
    assert one_line("a\x1b[2Jb\x07\u202ec\nd") == "a·[2Jb··c d"
    assert lines_of("a\r\nb\x9bc\x00") == ["a", "b·c·"]


def test_times_and_sizes_are_said_to_the_precision_that_matters() -> None:
    assert [took(each) for each in (None, 0.0141, 0.9999, 61, 7300)] == ["", "14 ms", "1.0 s", "1 min 1 s", "2 h 1 min"]
    assert [size(each) for each in (7, 1500, 2_500_000)] == ["7 B", "1.5 KB", "2.5 MB"]


def test_the_pace_is_that_of_the_last_minutes() -> None:
    view = ServerView("weather")
    for seq, at in enumerate((0.0, 950.0, 990.0, 999.0), 1):
        fold(view, Record(seq, at, "weather", "change", {"change": "resource-updated", "uri": "weather://oslo"}))
    slots = slots_of(view, 999.0)
    assert [counts["resource-updated"] for counts in slots[-12:]] == [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1]
    assert sum(counts.total() for counts in slots) == 3
    assert bars([0, 1, 8], 3) == " ▁█"


def test_a_server_is_called_by_its_own_name_if_that_of_its_entry_was_derived() -> None:
    view = ServerView("index")
    view.server_info = {"name": "everything", "title": "Everything Reference Server"}
    assert view.title == "index"
    view.entry = {"derived": True}
    assert view.title == "Everything Reference Server"


def test_a_feed_that_shows_the_oldest_first_finds_and_holds_back_as_others_do() -> None:
    feed, ring = ArrivingEntries[int](lambda number: number, str, oldest_first=True), filled(3)
    feed.update(ring)
    feed.follow(False)
    ring.append(4, 4)
    feed.update(ring)
    assert [feed[at] for at in range(len(feed))] == [1, 2, 3]
    assert (feed.held, feed.find(1), feed.find(3), feed.find(4)) == (1, 0, 2, None)
