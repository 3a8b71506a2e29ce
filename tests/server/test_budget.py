"""How streams, sessions and memory are shared among clients."""

import sys
from contextlib import suppress
from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tidings.errors import LimitReached
from tidings.server.budget import STREAM_BYTES, Budget, Place, subscription_bytes
from tidings.server.config import Limits

NAMES = ("streams", "sessions", "memory")


def held_by(budget: Budget, client: str) -> dict[str, int]:
    return dict(zip(NAMES, budget._held.get(client, (0, 0, 0)), strict=True))


def fill(budget: Budget, client: str, **amounts: int) -> int:
    """Take as often as possible; how often that was."""
    for taken in range(1000):
        try:
            budget.take(client, **amounts)
        except LimitReached:
            return taken
    raise AssertionError("there is no end")


def test_a_greedy_client_gets_half_the_next_one_half_of_the_rest_and_there_is_still_room() -> None:
    budget = Budget(Limits(streams=48))
    assert [fill(budget, client, streams=1) for client in ("greedy", "second", "third")] == [24, 12, 6]
    budget.take("honest", streams=1)


@pytest.mark.parametrize("greedy", [1, 2, 3, 5])
@pytest.mark.parametrize("name", NAMES)
def test_greedy_clients_that_take_in_turn_get_equal_parts_and_leave_one(greedy: int, name: str) -> None:
    size = 60 * (2**20 if name == "memory" else 1)
    budget = Budget(Limits(**{"streams": 60, "streams_per_client": 60, name: size}))
    for _ in range(60):
        for client in range(greedy):
            with suppress(LimitReached):
                budget.take(str(client), **{name: size // 60})
    shares = [held_by(budget, str(client))[name] * 60 // size for client in range(greedy)]
    assert all(60 // (greedy + 1) - 1 <= share <= 60 // (greedy + 1) for share in shares)
    budget.take("honest", **{name: size // 60})


@pytest.mark.parametrize("streams", [2, 3, 5, 8, 50])
def test_however_small_a_server_is_one_client_does_not_get_all_of_it(streams: int) -> None:
    budget = Budget(Limits(streams=streams))
    assert 0 < fill(budget, "greedy", streams=1) < streams
    budget.take("honest", streams=1)


def test_where_there_is_room_for_one_the_first_gets_it() -> None:
    budget = Budget(Limits(streams=1, sessions=1))
    place = budget.take("first", streams=1, sessions=1)
    with pytest.raises(LimitReached) as refusal:
        budget.take("second", streams=1)
    assert refusal.value.data == {"limit": "streams", "max": 1, "scope": "server"}
    place.release()
    budget.take("second", streams=1, sessions=1)


def test_a_client_may_have_a_few_however_little_is_free() -> None:
    budget = Budget(Limits(streams=100, streams_per_client=100))
    for client in range(24):
        for _ in range(4):
            budget.take(str(client), streams=1)
    assert [fill(budget, "late", streams=1), fill(budget, "too late", streams=1)] == [4, 0]


@pytest.mark.parametrize("streams", [20_000, 100_000])
def test_as_many_streams_as_the_limit_says_fit_into_the_memory_of_the_guide(streams: int) -> None:
    more = {} if streams == 20_000 else {"streams": streams, "memory": 3_000_000_000}
    budget = Budget(Limits(**more))
    memory = STREAM_BYTES + 3_000 + subscription_bytes(f"https://example.org/news/{number}" for number in range(5))
    for number in range(streams):
        budget.take(f"client {number // 4}", streams=1, memory=memory)
    with pytest.raises(LimitReached):
        budget.take("late", streams=1)


def test_one_client_has_the_same_part_of_everything() -> None:
    budget = Budget(Limits(streams=1000, streams_per_client=100, sessions=500, memory=50 * 2**20))
    assert fill(budget, "one", streams=1) == 100
    assert fill(budget, "one", sessions=1) == 50
    assert fill(budget, "one", memory=2**20) == 5


def test_a_refusal_says_what_there_is_too_much_of_and_whose_it_is() -> None:
    budget = Budget(Limits(streams=100, streams_per_client=2, memory=10 * 2**20))
    fill(budget, "one", streams=1)
    with pytest.raises(LimitReached, match=r"This client has 2 streams .* it can have 2\. Close one") as refusal:
        budget.take("one", streams=1)
    assert refusal.value.data == {"limit": "streams_per_client", "max": 2, "scope": "client"}
    with pytest.raises(LimitReached, match="Subscribe to a prefix") as refusal:
        budget.take("one", memory=2**20 + 1)
    assert refusal.value.data == {"limit": "memory", "max": 2**20, "scope": "client"}
    with pytest.raises(LimitReached, match="bytes of memory") as refusal:
        budget.take("one", memory=11 * 2**20)
    assert refusal.value.data == {"limit": "memory", "max": 10 * 2**20, "scope": "server"}


def test_what_is_refused_in_part_is_not_taken_at_all() -> None:
    budget = Budget(Limits(sessions=1))
    budget.take("one", streams=1, sessions=1, memory=1)
    with pytest.raises(LimitReached):
        budget.take("two", streams=1, sessions=1, memory=1)
    assert budget.used == {"streams": 1, "sessions": 1, "memory": 1}


def test_a_place_that_was_left_takes_nothing_more() -> None:
    budget = Budget(Limits())
    place = budget.take("one", streams=1, memory=10)
    place.keep("request", 20)
    place.release()
    place.release()
    place.grow(memory=5)
    place.keep("request", 40)
    assert budget.used == {"streams": 0, "sessions": 0, "memory": 0}
    assert not budget._held


def test_what_is_kept_under_a_name_takes_the_place_of_what_was() -> None:
    budget = Budget(Limits(memory=1000))
    place = budget.take("one", memory=100)
    place.keep("request", 200)
    place.keep("request", 50)
    place.keep("handshake", 10)
    with pytest.raises(LimitReached):
        place.keep("request", 1000)
    assert budget.used["memory"] == 160


def test_a_subscription_takes_what_its_text_takes_and_more() -> None:
    for text in ("note://a", "note://" + "x" * 8000, "note://\N{BALLOON}" + "x" * 8000):
        assert subscription_bytes([text]) > sys.getsizeof(text)
    assert subscription_bytes(["a:b", "a:c"]) == 2 * subscription_bytes(["a:b"])


class Clients(RuleBasedStateMachine):
    """Clients come, grow, shrink and go. The model is the list of their places."""

    LIMITS = Limits(streams=12, streams_per_client=7, sessions=9, memory=1000)
    FEW: Final = {"streams": 4, "sessions": 4, "memory": 500}

    def __init__(self) -> None:
        super().__init__()
        self.budget = Budget(self.LIMITS)
        self.places: list[tuple[str, Place, dict[str, int]]] = []

    def held(self, client: str, name: str) -> int:
        return sum(amounts[name] for owner, _, amounts in self.places if owner == client)

    def used(self, name: str) -> int:
        return sum(amounts[name] for _, _, amounts in self.places)

    @rule(
        client=st.sampled_from("abc"), streams=st.integers(0, 2), sessions=st.integers(0, 2), memory=st.integers(0, 400)
    )
    def come(self, client: str, **amounts: int) -> None:
        free = {name: getattr(self.LIMITS, name) - self.used(name) for name in NAMES}
        refusal: Any = None
        try:
            place = self.budget.take(client, **amounts)
        except LimitReached as error:
            refusal = error.data
        if refusal is None:
            self.places.append((client, place, amounts))
            for name in NAMES:
                assert not amounts[name] or self.held(client, name) <= max(self.FEW[name], free[name])
            assert not amounts["streams"] or self.held(client, "streams") <= self.LIMITS.streams_per_client
        else:
            name = refusal["limit"].removesuffix("_per_client")
            assert self.held(client, name) + amounts[name] > min(free[name], self.FEW[name])
            assert (refusal["scope"] == "server") == (amounts[name] > free[name])

    @precondition(lambda self: self.places)
    @rule(data=st.data(), memory=st.integers(-300, 300))
    def change(self, data: st.DataObject, memory: int) -> None:
        _, place, amounts = data.draw(st.sampled_from(self.places))
        memory = max(memory, -amounts["memory"])
        try:
            place.grow(memory=memory)
        except LimitReached:
            assert memory > 0
        else:
            amounts["memory"] += memory

    @precondition(lambda self: self.places)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        gone = data.draw(st.sampled_from(self.places))
        self.places.remove(gone)
        gone[1].release()

    @invariant()
    def the_accounts_agree_with_the_places(self) -> None:
        assert self.budget.used == {name: self.used(name) for name in NAMES}
        assert all(self.used(name) <= getattr(self.LIMITS, name) for name in NAMES)
        for client in "abc":
            assert held_by(self.budget, client) == {name: self.held(client, name) for name in NAMES}

    def teardown(self) -> None:
        for _, place, _ in self.places:
            place.release()
        assert self.budget.used == dict.fromkeys(NAMES, 0)
        assert not self.budget._held


@pytest.mark.parametrize("walks", [30, pytest.param(300, marks=pytest.mark.thorough)])
def test_the_accounts_of_clients_that_come_and_go_are_right_at_every_moment(walks: Any) -> None:
    run_state_machine_as_test(Clients, settings=settings(max_examples=walks, stateful_step_count=30))
