"""Turns at a host."""

import anyio
import pytest

from tests.web.fetch.servers import Time
from tidings.web.fetch import rates as rates_module
from tidings.web.fetch.rates import LONGEST_HOLD, NoTurn, Rates

pytestmark = pytest.mark.anyio


def made(time: Time, per_minute: int = 3, per_host: int = 2, at_once: int = 4) -> Rates:
    return Rates(per_minute=per_minute, per_host=per_host, at_once=at_once, clock=time, sleep=time.sleep)


async def take(rates: Rates, host: str = "a.example", patience: float = 1_000.0) -> float:
    async with rates.turn(host, patience) as waited:
        return waited


async def test_a_host_has_so_many_turns_in_any_minute() -> None:
    time = Time()
    rates = made(time)
    assert [await take(rates) for _ in range(3)] == [0, 0, 0]
    time.now += 20
    assert await take(rates) == 40
    assert time.now == 1_060
    assert [await take(rates) for _ in range(2)] == [0, 0]
    assert await take(rates) == 60


async def test_hosts_do_not_wait_for_each_other() -> None:
    rates = made(Time(), per_minute=1)
    assert await take(rates, "a.example") == 0
    assert await take(rates, "b.example") == 0


async def test_a_turn_that_comes_too_late_is_refused_at_once() -> None:
    time = Time()
    rates = made(time, per_minute=1)
    await take(rates)
    with pytest.raises(NoTurn) as late:
        await take(rates, patience=59)
    assert (late.value.seconds, late.value.held) == (60, False)
    assert time.slept == []
    assert await take(rates, patience=61) == 60


async def test_a_host_that_asked_for_it_is_left_alone() -> None:
    time = Time()
    rates = made(time)
    rates.hold("a.example", 30)
    rates.hold("a.example", 10)
    with pytest.raises(NoTurn) as late:
        await take(rates, patience=20)
    assert late.value.held
    assert await take(rates) == 30


async def test_no_host_is_left_alone_for_ever() -> None:
    time = Time()
    rates = made(time)
    rates.hold("a.example", 1e9)
    assert await take(rates) == LONGEST_HOLD


async def test_whoever_gives_up_leaves_the_turn_to_others() -> None:
    time = Time()
    asleep = anyio.Event()

    async def sleep(_: float) -> None:
        asleep.set()
        await anyio.sleep_forever()

    rates = Rates(per_minute=1, per_host=2, at_once=4, clock=time, sleep=sleep)
    await take(rates)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take, rates)
        await asleep.wait()
        with pytest.raises(NoTurn) as behind:
            await take(rates, patience=0)
        tasks.cancel_scope.cancel()
    with pytest.raises(NoTurn) as alone:
        await take(rates, patience=0)
    assert (behind.value.seconds, alone.value.seconds) == (120, 60)


async def test_only_so_many_are_at_a_host_at_once_and_others_pass_by() -> None:
    rates = made(Time(), per_minute=100, per_host=2, at_once=3)
    here: list[str] = []
    done = anyio.Event()
    three = anyio.Event()

    async def visit(host: str) -> None:
        async with rates.turn(host, 10):
            here.append(host)
            if len(here) == 3:
                three.set()
            await done.wait()

    async with anyio.create_task_group() as tasks:
        for host in ("a", "a", "a", "a", "b", "b"):
            tasks.start_soon(visit, host)
        with anyio.fail_after(5):
            await three.wait()
        await anyio.wait_all_tasks_blocked()
        assert sorted(here) == ["a", "a", "b"]
        done.set()
    assert len(here) == 6


async def test_hosts_that_nobody_asks_for_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates_module, "_MANY_HOSTS", 3)
    time = Time()
    rates = made(time)
    await take(rates, "old.example")
    rates.hold("held.example", 500)
    time.now += 61
    await take(rates, "new.example")
    await take(rates, "newest.example")
    assert sorted(rates._hosts) == ["held.example", "new.example", "newest.example"]
