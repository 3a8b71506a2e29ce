"""A random walk of the cache beside a plain list that does the same by looking at everything."""

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.client.invoked import prompt, resource, template, tool
from tidings._kit.bounded_json import weigh
from tidings.client.cache import (
    ContentCache,
    ContentKind,
    Invocation,
    ResourceRead,
    TemplateRead,
    place_of,
    read_uri,
)
from tidings.client.config import CacheLimits

LIMITS = CacheLimits(entries=5, size=10_000)

names = st.sampled_from(["a:", "b:", "c:", "d:"])
texts = st.integers(0, 110).map(("x" * 100).__mul__)
times = st.sampled_from([0, 0, 1000, 5000, 10**12])
invocations: st.SearchStrategy[Invocation] = st.one_of(
    st.builds(resource, names, texts, ttl_ms=times),
    st.builds(template, names, names, texts, ttl_ms=times),
    st.builds(prompt, names, texts),
    st.builds(tool, names, texts),
)


def size_of(invocation: Invocation) -> int:
    return weigh(invocation.result)


@dataclass
class Kept:
    """An entry of the model."""

    invocation: Invocation
    over: float | None

    @property
    def place(self) -> tuple[ContentKind, str]:
        return place_of(self.invocation)


class Walk(RuleBasedStateMachine):
    """The model is the list of entries in the order of use."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.held: set[str] = set()
        self.kept: list[Kept] = []
        self.followed: dict[tuple[ContentKind, str], Invocation] = {}
        self.cache = ContentCache(LIMITS, held=self.held.__contains__, clock=lambda: self.now, on_change=self.follow)

    def follow(self, invocation: Invocation | None, kind: ContentKind, key: str) -> None:
        if invocation is None:
            self.followed.pop((kind, key), None)
        else:
            self.followed[kind, key] = invocation

    def is_over(self, entry: Kept) -> bool:
        return entry.over is not None and self.now >= entry.over and read_uri(entry.invocation) not in self.held

    def forget(self, *places: tuple[ContentKind, str]) -> None:
        self.kept = [entry for entry in self.kept if entry.place not in places]

    @rule(invocation=invocations, age=st.sampled_from([0.0, 0.0, 0.5, 3.0, 10.0**6]))
    def put(self, invocation: Invocation, age: float) -> None:
        self.cache.put(invocation, age=age)
        over = None
        if isinstance(invocation, ResourceRead | TemplateRead) and invocation.result.ttl_ms:
            over = self.now + min(invocation.result.ttl_ms / 1000, 86400) - age
        new = Kept(invocation, over)
        self.forget(new.place)
        if size_of(invocation) <= LIMITS.size and not self.is_over(new):
            self.kept.append(new)
        while len(self.kept) > LIMITS.entries or sum(size_of(each.invocation) for each in self.kept) > LIMITS.size:
            self.kept.pop(0)

    @rule(kind=st.sampled_from(ContentKind), key=names)
    def get(self, kind: ContentKind, key: str) -> None:
        found = {
            ContentKind.RESOURCE: self.cache.get_resource,
            ContentKind.TEMPLATE: self.cache.get_resource_template,
            ContentKind.PROMPT: self.cache.get_prompt,
            ContentKind.TOOL: self.cache.get_tool_call_result,
        }[kind](key)
        entry = next((entry for entry in self.kept if entry.place == (kind, key)), None)
        self.forget((kind, key))
        if entry is None or self.is_over(entry):
            assert found is None
        else:
            assert found is entry.invocation
            self.kept.append(entry)

    @rule(kind=st.sampled_from(ContentKind), key=names)
    def clear(self, kind: ContentKind, key: str) -> None:
        {
            ContentKind.RESOURCE: self.cache.clear_resource,
            ContentKind.TEMPLATE: self.cache.clear_resource_template,
            ContentKind.PROMPT: self.cache.clear_prompt,
            ContentKind.TOOL: self.cache.clear_tool_call_result,
        }[kind](key)
        self.forget((kind, key))

    @rule(uri=names)
    def a_resource_changes(self, uri: str) -> None:
        self.cache.clear_resource_and_resource_template(uri)
        self.kept = [entry for entry in self.kept if read_uri(entry.invocation) != uri]

    @rule()
    def clear_all(self) -> None:
        self.cache.clear_all()
        self.kept.clear()

    @rule(seconds=st.floats(0, 10))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(uri=names)
    def subscribe_or_unsubscribe(self, uri: str) -> None:
        self.held ^= {uri}

    @invariant()
    def the_cache_is_as_the_model(self) -> None:
        assert len(self.cache) == len(self.kept)
        assert self.cache.info.size == sum(size_of(entry.invocation) for entry in self.kept)
        # Its order is what decides who goes next.
        assert [id(entry.invocation) for entry in self.cache._entries.values()] == [
            id(entry.invocation) for entry in self.kept
        ]

    @invariant()
    def the_limits_hold(self) -> None:
        assert len(self.cache) <= LIMITS.entries
        assert self.cache.info.size <= LIMITS.size

    @invariant()
    def whoever_followed_what_was_told_knows_what_is_there(self) -> None:
        assert self.followed == {entry.place: entry.invocation for entry in self.kept}

    @invariant()
    def nothing_is_left_behind_of_what_went(self) -> None:
        of_templates = [entry.invocation for entry in self.kept if isinstance(entry.invocation, TemplateRead)]
        assert self.cache._templates.keys() == {invocation.expanded_uri for invocation in of_templates}


@pytest.mark.parametrize("examples", [50, pytest.param(200, marks=pytest.mark.thorough)])
def test_a_random_walk_never_tells_the_cache_from_its_model(examples: int) -> None:
    run_state_machine_as_test(Walk, settings=settings(max_examples=examples, stateful_step_count=40))
