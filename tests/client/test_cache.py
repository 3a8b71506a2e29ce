"""The cache of a live client: what it returns, what it lets go of, and when."""

from collections.abc import Callable
from typing import Any

import pytest
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ReadResourceResult,
    ResourceLink,
)

from tests.client.invoked import contents, prompt, resource, template, tool
from tests.client.library import read_result
from tidings.client.cache import (
    Cache,
    CacheInfo,
    ContentCache,
    ContentKind,
    Invocation,
    ResourceRead,
    TemplateRead,
    ToolCall,
    place_of,
)
from tidings.client.config import CacheLimits

OSLO, ROME = "weather://oslo", "weather://rome"
CITY = "weather://{city}"
EACH: list[Invocation] = [resource(OSLO), template(CITY, OSLO), prompt("greet"), tool("add")]
each_kind = pytest.mark.parametrize("invocation", EACH, ids=lambda each: type(each).__name__)
OF_A_RESOURCE = EACH[:2]


class Clock:
    """Seconds that pass when a test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def get(cache: Cache, invocation: Invocation) -> Invocation | None:
    kind, key = place_of(invocation)
    getters: dict[ContentKind, Callable[[str], Invocation | None]] = {
        ContentKind.RESOURCE: cache.get_resource,
        ContentKind.TEMPLATE: cache.get_resource_template,
        ContentKind.PROMPT: cache.get_prompt,
        ContentKind.TOOL: cache.get_tool_call_result,
    }
    return getters[kind](key)


def clear(cache: Cache, invocation: Invocation) -> None:
    kind, key = place_of(invocation)
    {
        ContentKind.RESOURCE: cache.clear_resource,
        ContentKind.TEMPLATE: cache.clear_resource_template,
        ContentKind.PROMPT: cache.clear_prompt,
        ContentKind.TOOL: cache.clear_tool_call_result,
    }[kind](key)


def holding(*invocations: Invocation, **options: Any) -> ContentCache:
    cache = ContentCache(**options)
    for invocation in invocations:
        cache.put(invocation)
    return cache


@each_kind
def test_what_was_put_is_returned_as_the_very_same_object(invocation: Invocation) -> None:
    assert get(holding(*EACH), invocation) is invocation


@each_kind
def test_nothing_is_returned_for_what_was_never_put(invocation: Invocation) -> None:
    assert get(ContentCache(), invocation) is None


@each_kind
def test_clearing_one_thing_leaves_the_others(invocation: Invocation) -> None:
    cache = holding(*EACH)
    clear(cache, invocation)
    assert get(cache, invocation) is None
    assert [get(cache, other) for other in EACH if other is not invocation] == [
        other for other in EACH if other is not invocation
    ]


@each_kind
def test_clearing_what_is_not_there_does_nothing(invocation: Invocation) -> None:
    told: list[Any] = []
    clear(holding(on_change=lambda *change: told.append(change)), invocation)
    assert not told


def test_the_newest_replaces_what_was_there() -> None:
    newer = [resource(OSLO, "rain"), template(CITY, ROME, "sun"), prompt("greet", "hello"), tool("add", "3")]
    cache = holding(*EACH, *newer)
    assert [get(cache, each) for each in EACH] == newer
    assert len(cache) == 4
    assert cache.info.size == holding(*newer).info.size


def test_the_same_name_may_stand_for_something_of_each_kind() -> None:
    same: list[Invocation] = [resource("x:"), template("x:", "x:"), prompt("x:"), tool("x:")]
    cache = holding(*same)
    assert [get(cache, each) for each in same] == same


def test_clearing_everything_leaves_nothing() -> None:
    cache = holding(*EACH)
    cache.clear_all()
    assert [get(cache, each) for each in EACH] == [None] * 4
    assert (len(cache), cache.info.size) == (0, 0)


def test_a_changed_resource_goes_with_every_template_that_was_expanded_to_it() -> None:
    other = template("{+any}", ROME)
    cache = holding(resource(OSLO), resource(ROME), template(CITY, OSLO), template("weather://{name}", OSLO), other)
    cache.clear_resource_and_resource_template(OSLO)
    assert cache.get_resource(OSLO) is None
    assert cache.get_resource_template(CITY) is None
    assert cache.get_resource_template("weather://{name}") is None
    assert cache.get_resource(ROME) is not None
    assert cache.get_resource_template("{+any}") is other


def test_a_template_that_was_expanded_anew_no_longer_belongs_to_its_old_resource() -> None:
    cache = holding(template(CITY, OSLO), newer := template(CITY, ROME))
    cache.clear_resource_and_resource_template(OSLO)
    assert cache.get_resource_template(CITY) is newer
    cache.clear_resource_and_resource_template(ROME)
    assert cache.get_resource_template(CITY) is None


def test_a_resource_that_is_cleared_alone_leaves_its_templates() -> None:
    cache = holding(resource(OSLO), template(CITY, OSLO))
    cache.clear_resource(OSLO)
    assert cache.get_resource_template(CITY) is not None


def test_what_users_see_has_no_way_to_write() -> None:
    assert isinstance(ContentCache(), Cache)
    assert {name for name in dir(ContentCache) if not name.startswith("_")} - set(dir(Cache)) == {
        "put",
        "uris",
        "copies",
        "clear_content",
        "peek",
        "replace",
    }


def test_beyond_the_number_of_entries_what_was_used_longest_ago_goes_whatever_its_kind() -> None:
    cache = holding(*EACH, limits=CacheLimits(entries=4))
    get(cache, EACH[0])
    cache.put(resource(ROME))
    assert [get(cache, each) is not None for each in EACH] == [True, False, True, True]


def test_beyond_the_size_as_many_go_as_are_in_the_way() -> None:
    cache = holding(*(prompt(name, "x" * 30_000) for name in "abc"), limits=CacheLimits(size=100_000))
    cache.put(tool("large", "x" * 69_000))
    assert [cache.get_prompt(name) is not None for name in "abc"] == [False, False, True]
    assert 99_000 < cache.info.size <= 100_000


def test_what_is_larger_than_all_room_is_not_kept_and_displaces_nothing_but_its_older_self() -> None:
    cache = holding(*EACH, limits=CacheLimits(size=10_000))
    cache.put(resource(OSLO, "x" * 10_000))
    assert [get(cache, each) is not None for each in EACH] == [False, True, True, True]


@pytest.mark.parametrize("limits", [CacheLimits(entries=0), CacheLimits(size=0)])
def test_a_cache_without_room_keeps_nothing(limits: CacheLimits) -> None:
    cache = holding(*EACH, limits=limits)
    assert (len(cache), cache.info.size) == (0, 0)


@pytest.mark.parametrize("invocation", OF_A_RESOURCE, ids=lambda each: type(each).__name__)
def test_an_answer_is_let_go_when_the_time_that_its_server_gave_it_is_over(invocation: Invocation) -> None:
    clock = Clock()
    cache = holding(short := with_ttl(invocation, 1500), clock=clock)
    clock.now += 1.499
    assert get(cache, short) is short
    clock.now += 0.001
    assert get(cache, short) is None
    assert len(cache) == 0


@pytest.mark.parametrize("invocation", OF_A_RESOURCE, ids=lambda each: type(each).__name__)
def test_an_answer_outlives_its_time_while_a_subscription_keeps_it_current(invocation: Invocation) -> None:
    clock, held = Clock(), {OSLO}
    cache = holding(short := with_ttl(invocation, 1500), clock=clock, held=held.__contains__)
    clock.now += 3600
    assert get(cache, short) is short
    held.clear()
    assert get(cache, short) is None


def test_an_answer_without_a_time_is_kept() -> None:
    clock = Clock()
    cache = holding(*EACH, clock=clock)
    clock.now += 10**9
    assert [get(cache, each) for each in EACH] == EACH


def test_no_answer_is_kept_for_more_than_a_day_on_the_word_of_its_server() -> None:
    clock = Clock()
    cache = holding(resource(OSLO, ttl_ms=10**15), clock=clock)
    clock.now += 24 * 3600 - 1
    assert cache.get_resource(OSLO) is not None
    clock.now += 1
    assert cache.get_resource(OSLO) is None


def test_a_newer_answer_brings_its_own_time() -> None:
    clock = Clock()
    cache = holding(resource(OSLO, ttl_ms=1000), clock=clock)
    cache.put(resource(OSLO))
    clock.now += 2
    assert cache.get_resource(OSLO) is not None


def test_the_age_of_what_was_kept_elsewhere_counts() -> None:
    clock = Clock()
    cache = ContentCache(clock=clock)
    cache.put(resource(OSLO, ttl_ms=5000), age=4)
    cache.put(resource(ROME, ttl_ms=5000), age=5)
    assert cache.get_resource(OSLO) is not None
    assert len(cache) == 1
    clock.now += 1
    assert cache.get_resource(OSLO) is None


def test_an_age_below_zero_does_not_prolong_the_time() -> None:
    clock = Clock()
    cache = ContentCache(clock=clock)
    cache.put(resource(OSLO, ttl_ms=5000), age=-3600)
    clock.now += 5
    assert cache.get_resource(OSLO) is None


def test_each_put_and_each_removal_is_told_whatever_its_reason() -> None:
    told: list[tuple[Invocation | None, ContentKind, str]] = []
    clock = Clock()
    cache = ContentCache(
        CacheLimits(entries=2, size=10_000), clock=clock, on_change=lambda *change: told.append(change)
    )
    cache.put(first := resource(OSLO, ttl_ms=1000))
    cache.put(second := template(CITY, ROME))
    cache.put(third := prompt("greet"))
    assert told == [
        (first, ContentKind.RESOURCE, OSLO),
        (second, ContentKind.TEMPLATE, CITY),
        (None, ContentKind.RESOURCE, OSLO),
        (third, ContentKind.PROMPT, "greet"),
    ]
    told.clear()

    cache.clear_resource_and_resource_template(ROME)
    cache.put(first)
    clock.now += 1
    cache.get_resource(OSLO)
    cache.put(tool("add", "x" * 10_000))
    cache.clear_all()
    assert told == [
        (None, ContentKind.TEMPLATE, CITY),
        (first, ContentKind.RESOURCE, OSLO),
        (None, ContentKind.RESOURCE, OSLO),
        (None, ContentKind.TOOL, "add"),
        (None, ContentKind.PROMPT, "greet"),
    ]


def test_whoever_is_told_of_a_put_finds_it_there() -> None:
    found: list[Invocation | None] = []
    cache = ContentCache(on_change=lambda invocation, kind, key: found.append(cache.get_resource(key)))
    cache.put(read := resource(OSLO))
    assert found == [read]


IMAGE = ImageContent(data="A" * 11, mime_type="image/png")
SOUND = AudioContent(data="A" * 13, mime_type="audio/wav")
LINK = ResourceLink(name="link", uri="note://17")
BLOB = BlobResourceContents(uri=OSLO, blob="A" * 19)
STRUCTURED = {"ab": ["cde", {"f": None}, 1, True, 1.5]}


@pytest.mark.parametrize(
    ("invocation", "sent"),
    [
        (ResourceRead(OSLO, ReadResourceResult(contents=[BLOB, *contents(OSLO, "abc").contents])), 22),
        (TemplateRead(CITY, OSLO, {"city": "oslo"}, contents(OSLO, "abc")), 3),
        (prompt("greet", "abcd"), 4),
        (ToolCall("add", {}, CallToolResult(content=[IMAGE, SOUND]), success=True), 24),
        (ToolCall("add", {}, CallToolResult(content=[EmbeddedResource(resource=BLOB), LINK]), success=True), 28),
        (ToolCall("add", {}, CallToolResult(content=[], structured_content=STRUCTURED), success=True), 30),
        (ToolCall("add", {"much": "x" * 10_000}, None, success=False, error="no"), 0),
    ],
)
def test_the_size_is_about_that_of_what_the_server_sent(invocation: Invocation, sent: int) -> None:
    assert sent <= holding(invocation).info.size <= sent + 1_000


@pytest.mark.parametrize("letter", ["é", "я", "🎈"])
def test_a_text_that_takes_more_room_than_letters_counts_for_more(letter: str) -> None:
    encoded = len(
        (letter * 10_000).encode("utf-32-le" if letter == "🎈" else "utf-16-le" if letter == "я" else "latin-1")
    )
    assert encoded <= holding(resource(OSLO, letter * 10_000)).info.size <= encoded + 1_000


def with_ttl(invocation: Invocation, ttl_ms: int) -> Invocation:
    assert isinstance(invocation, ResourceRead | TemplateRead)
    if isinstance(invocation, ResourceRead):
        return resource(invocation.uri, ttl_ms=ttl_ms)
    return template(invocation.uri_template, invocation.expanded_uri, ttl_ms=ttl_ms)


def test_it_tells_how_it_was_used_and_how_large_it_is() -> None:
    cache = ContentCache()
    assert cache.info == CacheInfo(hits=0, misses=0, entries=0, size=0)
    cache.put(ResourceRead("note://a", read_result("note://a", "12345")))
    assert cache.get_resource("note://a") is not None
    assert cache.get_resource("note://b") is None
    assert cache.get_prompt("p") is None
    assert cache.peek("note://a") is not None
    assert cache.info == CacheInfo(hits=1, misses=2, entries=1, size=cache.info.size)
    assert 5 <= cache.info.size <= 500
