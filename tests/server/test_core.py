"""What both eras share: a bus that comes and goes, and subscribers who do."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from tests.server.doubles import Reader, running, turns
from tests.server.serving import eventually
from tidings.bus import BusState
from tidings.bus.memory import MemoryBus
from tidings.changes import Change, Cursor, ResourceUpdated, ToolsListChanged
from tidings.errors import BusMismatch, BusUnavailable, LimitReached, SourceUnavailable, TransportError
from tidings.server import core as core_module
from tidings.server import notify as notify_module
from tidings.server.config import Limits
from tidings.server.core import Core
from tidings.server.policy import RequestContext, SubscriptionPolicy, client_key, client_name

pytestmark = pytest.mark.anyio

A, B = ResourceUpdated("note://a"), ResourceUpdated("note://b")


class ShakyBus(MemoryBus):
    """A bus that is out of reach when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.away: Exception | None = None
        self.tries = 0
        self.tried = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()

    def leave(self, error: Exception | None = None) -> None:
        self.away = error or BusUnavailable("the broker is away")

    def come_back(self) -> None:
        self.away = None

    async def publish(self, change: Change) -> Cursor:
        self.tries += 1
        self.tried.set()
        if self.away is not None:
            raise self.away
        cursor = await super().publish(change)
        await self.answers.wait()
        return cursor

    async def since(self, cursor: Cursor) -> Any:
        if self.away is not None:
            raise self.away
        return await super().since(cursor)

    async def until_tried(self, times: int) -> None:
        with anyio.fail_after(5):
            while self.tries < times:
                self.tried.clear()
                await self.tried.wait()


@pytest.fixture
async def bus(monkeypatch: pytest.MonkeyPatch) -> ShakyBus:
    monkeypatch.setattr(core_module, "_RETRY_SECONDS", 0)
    return ShakyBus()


@pytest.fixture
async def core(bus: ShakyBus) -> Core:
    core = Core(bus, SubscriptionPolicy(limits=Limits(streams=3, streams_per_client=2)))
    core.start()
    return core


def joined(core: Core, reader: Reader) -> Reader:
    core.join(reader)
    reader.open()
    return reader


async def publish_in_vain(core: Core, *changes: Change) -> None:
    for change in changes:
        with pytest.raises(TransportError, match=r"not stored yet\. This server keeps it.*is back"):
            await core.publish(change)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# Changes


async def test_what_is_published_reaches_those_who_asked_for_it_with_its_place_in_the_log(
    core: Core, bus: ShakyBus
) -> None:
    reader, other = joined(core, Reader("note://a", features=["tools"])), joined(core, Reader("note://b"))
    await core.publish(A)
    await core.publish(ToolsListChanged())
    assert reader.written == [A, ToolsListChanged()]
    assert reader.versions == [1, 2]
    assert other.written == []
    assert core.position == bus.head


async def test_a_log_that_was_lost_is_told_to_everyone(core: Core, caplog: pytest.LogCaptureFixture) -> None:
    readers = [joined(core, Reader("note://a", features=["tools"])), joined(core, Reader("feed://*"))]
    core.heard(Cursor("another", 0), None)
    assert set(readers[0].written) == {A, ToolsListChanged()}
    assert readers[1].written == [ResourceUpdated("feed://*")]
    assert core.position == Cursor("another", 0)
    assert warnings(caplog) == ["The log of changes was lost: 2 subscribers are told to read again."]


@pytest.mark.parametrize("error", [BusUnavailable("the broker is away"), BusMismatch("another log")], ids=repr)
async def test_what_a_bus_cannot_take_is_kept_and_published_when_it_is_back(
    core: Core, bus: ShakyBus, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    reader = joined(core, Reader("note://a", "note://b"))
    bus.leave(error)
    await publish_in_vain(core, A, B, A, B)
    await bus.until_tried(10)
    assert reader.written == []
    bus.come_back()
    await turns()
    assert reader.written == [A, B]
    assert warnings(caplog) == [
        f"Changes wait, and are published when the bus is back: {error}",
        "The bus is back, and has all changes that waited.",
    ]


async def test_too_many_changes_that_wait_become_one_that_stands_for_everything(
    core: Core, bus: ShakyBus, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notify_module, "_MOST_WAITING", 3)
    readers = [joined(core, Reader("note://a", features=["tools"])), joined(core, Reader("feed://*"))]
    other = Core(bus, SubscriptionPolicy(limits=Limits()))  # Another replica.
    other.start()
    there = joined(other, Reader("note://b"))
    before = bus.head
    bus.leave()
    await publish_in_vain(core, *(ResourceUpdated(f"note://{number}") for number in range(3)), A, B)
    assert len(core._unsent) == 1
    bus.come_back()
    await turns()
    assert set(readers[0].written) == {A, ToolsListChanged()}
    assert readers[1].written == [ResourceUpdated("feed://*")]
    assert there.written == [B]
    assert await core.since(before) is None
    assert await core.since(bus.head) == []
    assert "More changes waited for the bus than are kept: 2 subscribers are told to read again." in warnings(caplog)
    assert "The bus is back, and has all changes that waited." in warnings(caplog)


async def test_a_bus_that_leaves_again_is_waited_for_again(core: Core, bus: ShakyBus) -> None:
    reader = joined(core, Reader("note://a"))
    for round_ in (1, 2):
        bus.leave()
        await publish_in_vain(core, A)
        bus.come_back()
        await turns()
        assert reader.written == [A] * round_


async def test_a_change_that_fails_while_an_equal_one_is_on_its_way_is_not_lost(core: Core, bus: ShakyBus) -> None:
    reader = joined(core, Reader("note://a"))
    bus.leave()
    await publish_in_vain(core, A)
    bus.come_back()
    bus.answers.clear()
    await bus.until_tried(2)
    # The first is in the log, but the bus has not said so yet. Whoever heard of it may have read before this one.
    bus.leave()
    await publish_in_vain(core, A)
    bus.answers.set()
    bus.come_back()
    await turns(20)
    assert reader.written == [A, A]


async def test_a_server_that_stops_while_the_bus_is_away_does_not_wait_and_says_what_is_lost(
    core: Core, bus: ShakyBus, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = asyncio.all_tasks()
    bus.leave()
    await publish_in_vain(core, A, B)
    with anyio.fail_after(5):
        await core.aclose()
    assert warnings(caplog)[-1] == "2 changes could not be published before the stop."
    assert asyncio.all_tasks() == tasks


async def test_a_change_that_fails_while_the_bus_is_left_waits_for_the_next_start(core: Core, bus: ShakyBus) -> None:
    tasks = asyncio.all_tasks()
    reader = joined(core, Reader("note://a"))
    await core.aclose()
    bus.leave()
    await publish_in_vain(core, A)
    assert asyncio.all_tasks() == tasks
    bus.come_back()
    core.start()
    await turns()
    assert A in reader.written


async def test_what_could_not_be_published_before_the_stop_is_published_after_the_next_start(
    core: Core, bus: ShakyBus
) -> None:
    reader = joined(core, Reader("note://a"))
    bus.leave()
    await publish_in_vain(core, A)
    await core.aclose()
    bus.come_back()
    await turns()
    assert reader.written == []
    core.start()
    await turns()
    assert set(reader.written) == {A}


async def test_a_server_without_its_bus_for_too_long_sends_its_subscribers_away(
    bus: ShakyBus, caplog: pytest.LogCaptureFixture
) -> None:
    core = Core(bus, SubscriptionPolicy(limits=Limits(without_bus=0.05)))
    end = core.start()
    reader = joined(core, Reader("note://a"))
    bus.leave()
    await publish_in_vain(core, A)
    core.check_bus()
    await eventually(lambda: core.cut_off)
    assert reader.events == ["end"]
    assert "the broker is away" in core.trouble
    with pytest.raises(BusUnavailable, match=r"cut off from its bus.*the broker is away.*another replica"):
        core.check_bus()
    bus.come_back()
    await eventually(lambda: not core.cut_off)
    core.check_bus()
    assert core.trouble == ""
    assert reader.written == [A]
    assert "The bus is back: subscribers are accepted again." in warnings(caplog)
    end()


class StatedBus(MemoryBus):
    """A bus that says whether it is connected."""

    state = BusState(connected=True, since=0.0, waiting=0)


async def test_a_server_looks_whether_its_bus_is_there_although_nobody_publishes() -> None:
    bus = StatedBus()
    core = Core(bus, SubscriptionPolicy(limits=Limits(without_bus=0.05)))
    end = core.start()
    for is_connected in (False, True, False):
        bus.state = BusState(connected=is_connected, since=0.0, waiting=0, reason="" if is_connected else "no route")
        await eventually(lambda is_connected=is_connected: bool(core.cut_off) is not is_connected)
    core.begin_stop()
    assert core.trouble == "This server is stopping. Connect again in a moment."
    end()


async def test_a_server_that_has_nothing_to_send_closes_without_a_word(
    core: Core, caplog: pytest.LogCaptureFixture
) -> None:
    await core.publish(A)
    await core.aclose()
    assert warnings(caplog) == []


async def test_what_changed_since_a_cursor_comes_in_order(core: Core, bus: ShakyBus) -> None:
    start = bus.head
    for change in (A, B, A):
        await core.publish(change)
    entries = await core.since(start)
    assert entries is not None
    assert [(change, place.version) for place, change in entries] == [(B, 2), (A, 3)]
    assert [change for _, change in await core.since(start, {A}.__contains__) or ()] == [A]


async def test_what_changed_since_is_unknown_after_another_life_of_the_log_or_without_the_bus(
    core: Core, bus: ShakyBus, caplog: pytest.LogCaptureFixture
) -> None:
    assert await core.since(Cursor("another", 0)) is None
    assert warnings(caplog) == []
    bus.leave()
    assert await core.since(bus.head) is None
    assert "the broker is away" in warnings(caplog)[0]


# Subscribers


async def test_a_listen_stream_is_a_subscriber_while_it_lasts(core: Core) -> None:
    reader = Reader("note://a")
    assert core.streams_ended.is_set()
    async with core.joined(reader):
        reader.open()
        assert reader in core.hub
        assert not core.streams_ended.is_set()
    assert reader not in core.hub
    assert core.streams_ended.is_set()
    await core.publish(A)
    assert reader.written == []


async def test_the_last_stream_to_end_says_that_all_have_ended(core: Core) -> None:
    async with core.joined(Reader()):
        async with core.joined(Reader()), core.joined(Reader()):
            pass
        assert not core.streams_ended.is_set()
    assert core.streams_ended.is_set()


async def test_a_subscriber_can_leave_twice(core: Core) -> None:
    reader = joined(core, Reader("note://a"))
    core.leave(reader)
    core.leave(reader)
    assert len(core.hub) == 0


async def test_a_server_that_stops_takes_on_nobody_until_it_runs_again(core: Core) -> None:
    core.begin_stop()
    core.begin_stop()
    with pytest.raises(LimitReached, match="stopping") as refusal:
        core.admit("alice", streams=1)
    assert refusal.value.retryable
    with pytest.raises(LimitReached, match="stopping"):
        async with core.joined(Reader()):
            pass
    core.start()
    core.admit("alice", streams=1).release()


async def test_a_subscription_waits_until_its_source_is_watched(core: Core) -> None:
    reader, watched = joined(core, Reader()), asyncio.Event()
    core.hooks.add("on_first_subscriber", "note://*", watched.wait)
    async with running(lambda: core.subscribe(reader, "note://a")) as subscribed:
        assert not subscribed.is_set()
        # What changes from now on is not missed.
        await core.publish(A)
        assert reader.written == [A]
        watched.set()
        await subscribed.wait()


async def test_a_source_that_cannot_be_watched_is_refused_without_saying_why_and_leaves_nothing(core: Core) -> None:
    def fail() -> None:
        raise ConnectionError("password=secret")

    reader = joined(core, Reader())
    core.hooks.add("on_first_subscriber", "note://*", fail)
    with pytest.raises(SourceUnavailable, match="cannot be watched at present") as refusal:
        await core.subscribe(reader, "note://a")
    assert "secret" not in str(refusal.value)
    assert core.hub.subscriptions() == {}
    assert reader.subscriptions == set()
    await core.hooks.finish(5)


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "with another"])
async def test_a_subscriber_that_leaves_while_its_source_fails_is_refused_and_leaves_nothing(
    core: Core, others: int
) -> None:
    reader, gate = joined(core, Reader()), asyncio.Event()

    async def fail() -> None:
        await gate.wait()
        raise ConnectionError("no source")

    core.hooks.add("on_first_subscriber", "note://*", fail)
    for _ in range(others):
        joined(core, Reader("note://a"))
    asking = asyncio.ensure_future(core.subscribe(reader, "note://a"))
    await turns()
    core.leave(reader)
    gate.set()
    await asyncio.wait([asking], timeout=5)
    # With nobody left to watch it for, the source is let go, and its failure forgotten.
    assert isinstance(asking.exception(), SourceUnavailable if others else type(None))
    assert core.hub.subscriptions() == ({"note://a": 1} if others else {})
    await core.hooks.finish(5)


async def test_a_subscriber_that_leaves_and_gives_up_is_not_looked_for(core: Core) -> None:
    reader, gate = joined(core, Reader()), asyncio.Event()
    core.hooks.add("on_first_subscriber", "note://*", gate.wait)
    asking = asyncio.ensure_future(core.subscribe(reader, "note://a"))
    await turns()
    core.leave(reader)
    asking.cancel()
    await asyncio.wait([asking], timeout=5)
    assert asking.cancelled()
    assert reader.subscriptions == set()
    gate.set()
    await core.hooks.finish(5)


@pytest.mark.parametrize("gives_up", [0, 1], ids=["the first", "the second"])
async def test_of_two_who_ask_for_the_same_at_once_the_one_that_stays_is_subscribed(core: Core, gives_up: int) -> None:
    reader, gate = joined(core, Reader()), asyncio.Event()
    core.hooks.add("on_first_subscriber", "note://*", gate.wait)
    asking = [asyncio.ensure_future(core.subscribe(reader, "note://a")) for _ in range(2)]
    await turns()
    asking[gives_up].cancel()
    await turns()
    assert core.hub.subscriptions() == {"note://a": 1}
    gate.set()
    await asyncio.wait(asking, timeout=5)
    assert asking[gives_up].cancelled()
    assert asking[1 - gives_up].exception() is None
    assert core.hub.subscriptions() == {"note://a": 1}
    await core.publish(A)
    assert reader.written == [A]


async def test_when_all_who_ask_for_the_same_at_once_give_up_nothing_is_left(core: Core) -> None:
    reader, gate, calls = joined(core, Reader()), asyncio.Event(), list[str]()
    core.hooks.add("on_first_subscriber", "note://*", gate.wait)
    core.hooks.add("on_last_subscriber", "note://*", lambda: calls.append("last"))
    asking = [asyncio.ensure_future(core.subscribe(reader, "note://a")) for _ in range(3)]
    await turns()
    for request in asking:
        request.cancel()
    await asyncio.wait(asking, timeout=5)
    assert core.hub.subscriptions() == {}
    assert reader.subscriptions == set()
    gate.set()
    await core.hooks.finish(5)
    assert calls == ["last"]


async def test_all_who_ask_at_once_for_a_source_that_fails_are_refused_and_nothing_is_left(core: Core) -> None:
    reader, gate = joined(core, Reader()), asyncio.Event()

    async def fail() -> None:
        await gate.wait()
        raise ConnectionError("no source")

    core.hooks.add("on_first_subscriber", "note://*", fail)
    asking = [asyncio.ensure_future(core.subscribe(reader, "note://a")) for _ in range(2)]
    await turns()
    gate.set()
    await asyncio.wait(asking, timeout=5)
    assert [type(request.exception()) for request in asking] == [SourceUnavailable] * 2
    assert core.hub.subscriptions() == {}
    await core.hooks.finish(5)


async def test_to_give_up_asking_for_what_one_has_takes_nothing_away(core: Core) -> None:
    """A request that fails takes back no subscription but one that stands on it alone."""
    reader, gate = joined(core, Reader()), asyncio.Event()
    await core.subscribe(reader, "note://a")
    core.hooks.add("on_first_subscriber", "note://*", gate.wait)
    core.hooks.want("note://a", True)
    again = asyncio.ensure_future(core.subscribe(reader, "note://a"))
    await turns()
    assert not again.done()
    core.unsubscribe(reader, "note://a")
    anew = asyncio.ensure_future(core.subscribe(reader, "note://a"))
    await turns()
    again.cancel()
    gate.set()
    await asyncio.wait([again, anew], timeout=5)
    assert anew.exception() is None
    assert core.hub.subscriptions() == {"note://a": 1}
    await core.hooks.finish(5)


async def test_whoever_waits_for_a_source_is_told_to_come_back_when_the_server_stops(core: Core) -> None:
    reader, gate = joined(core, Reader()), asyncio.Event()
    core.hooks.add("on_first_subscriber", "note://*", gate.wait)
    asking = asyncio.ensure_future(core.subscribe(reader, "note://a"))
    await turns()
    core.begin_stop()
    await asyncio.wait([asking], timeout=5)
    assert isinstance(asking.exception(), LimitReached)
    assert core.hub.subscriptions() == {}
    gate.set()
    await core.hooks.finish(5)


async def test_to_unsubscribe_from_what_was_not_subscribed_to_changes_nothing(core: Core) -> None:
    reader = joined(core, Reader("note://a"))
    core.unsubscribe(reader, "note://b")
    core.unsubscribe(reader, "note://a")
    core.unsubscribe(reader, "note://a")
    assert core.hub.subscriptions() == {}


# Who a client is


def context(*, params: object = None, request: object = None) -> RequestContext:
    session = SimpleNamespace(client_params=params)
    return cast("RequestContext", SimpleNamespace(method="ping", session=session, request=request))


def request(*, host: str | None = "192.0.2.7", user: object = None) -> object:
    address = None if host is None else SimpleNamespace(host=host, port=4711)
    return SimpleNamespace(client=address, scope={} if user is None else {"user": user})


def test_a_client_is_called_by_its_name_and_where_it_is() -> None:
    params = SimpleNamespace(client_info=SimpleNamespace(name="editor", version="2.1"))
    assert client_name(context(params=params)) == "editor 2.1"
    assert client_name(context(params=params, request=request())) == "editor 2.1 at 192.0.2.7:4711"
    assert client_name(context(request=request(host=None))) == "unnamed client"


def test_a_long_name_of_a_client_is_cut() -> None:
    params = SimpleNamespace(client_info=SimpleNamespace(name="n" * 10_000, version="v" * 10_000))
    assert (
        client_name(context(params=params, request=request()))
        == "n" * 199 + "\N{HORIZONTAL ELLIPSIS} at 192.0.2.7:4711"
    )


def scope(host: str | None = "192.0.2.7", user: object = None) -> dict[str, Any]:
    return {"client": None if host is None else (host, 4711), **({} if user is None else {"user": user})}


def signed_in(client: str, subject: str | None, token: str, host: str = "192.0.2.7") -> dict[str, Any]:
    access = AccessToken(token=token, client_id=client, scopes=[], subject=subject)
    return scope(host, AuthenticatedUser(access))


def test_clients_are_told_apart_by_who_is_signed_in_else_by_where_they_are() -> None:
    alice = client_key(signed_in("app", "alice", "token-1"))
    assert alice != client_key(signed_in("app", "bob", "token-3"))
    assert "token" not in alice
    keys = {client_key(None), *(client_key(scope(host)) for host in ("192.0.2.7", "192.0.2.8", None))}
    assert len(keys | {alice}) == 5


def test_a_user_is_one_client_with_every_token_app_and_address() -> None:
    alice = client_key(signed_in("app", "alice", "token-1"))
    assert alice == client_key(signed_in("app", "alice", "token-2", "192.0.2.99"))
    assert alice == client_key(signed_in("another app", "alice", "token-3"))
    assert client_key(signed_in("one", None, "a")) != client_key(signed_in("two", None, "b"))


def test_an_address_of_ipv6_is_as_good_as_any_other_of_its_network() -> None:
    assert client_key(scope("2001:db8:1:2::1")) == client_key(scope("2001:db8:1:2:ffff::9"))
    assert client_key(scope("2001:db8:1:2::1")) != client_key(scope("2001:db8:1:3::1"))
    assert client_key(scope("::ffff:192.0.2.7")) == client_key(scope("192.0.2.7"))
    assert client_key(scope("fe80::1%eth0")) == client_key(scope("fe80::2%eth0"))
