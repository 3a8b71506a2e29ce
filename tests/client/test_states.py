"""The state machine of a connection: its table, and a real connection that is driven through it at random."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tidings.client.config import TRANSITIONS, Backoff, ClientConfig, Signal, State, Timeouts
from tidings.client.connection import Connection
from tidings.client.events import EventHub, StateChanged
from tidings.errors import (
    BadTarget,
    CommandFailed,
    ConnectFailed,
    ConnectionLost,
    ConnectTimedOut,
    GaveUp,
    NotAuthorized,
    SessionExpired,
    TidingsError,
)

TURNS = 12
"""As often as this the event loop turns at most before whatever was begun has come to rest."""

FAILURES: list[TidingsError] = [
    ConnectFailed("nobody there"),
    ConnectTimedOut("too slow"),
    CommandFailed("ended at once"),
    NotAuthorized("no"),
    BadTarget("what"),
    SessionExpired("who"),
]
SOME = st.integers(0, 6)
"""How often the event loop turns after something happened, before the next thing does."""

LOSSES: list[TidingsError] = [ConnectionLost("gone"), SessionExpired("who")]


def test_every_state_can_be_reached_and_left_for_good() -> None:
    reached = {State.DISCONNECTED}
    for _ in State:
        reached |= {new for (old, _), new in TRANSITIONS.items() if old in reached}
    assert reached == set(State)
    ending = {State.DISCONNECTED}
    for _ in State:
        ending |= {old for (old, _), new in TRANSITIONS.items() if new in ending}
    assert ending == set(State)
    assert {signal for _, signal in TRANSITIONS} == set(Signal)


@given(st.lists(st.sampled_from(Signal), max_size=30))
def test_a_walk_stays_within_the_table(signals: list[Signal]) -> None:
    state = State.DISCONNECTED
    for signal in signals:
        if (state, signal) in TRANSITIONS:
            state = TRANSITIONS[state, signal]
            assert state in State
        else:
            with pytest.raises(KeyError):
                TRANSITIONS[state, signal]


class _Link:
    """As much of a link as a connection needs, and slow to close."""

    def __init__(self) -> None:
        self.error: TidingsError | None = None
        self._over = asyncio.Event()
        self.is_open = True

    @property
    def over(self) -> bool:
        return self._over.is_set()

    async def until_over(self) -> None:
        await self._over.wait()

    def gone(self) -> TidingsError:
        return self.error or ConnectionLost("gone")

    def lose(self, error: TidingsError) -> None:
        if not self.over:
            self.error = error
            self._over.set()

    async def close(self, seconds: float = 2.0) -> None:
        self._over.set()
        for _ in range(2 if seconds else 1):
            await asyncio.sleep(0)
        self.is_open = False


class _Complaints(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


class ConnectionMachine(RuleBasedStateMachine):
    """A connection whose links are opened, refused and lost by the rules."""

    @initialize(tries=st.sampled_from([0, 1, 3, None]), lost=st.sampled_from([0, 1, 3, None]), patient=st.booleans())
    def begin(self, tries: int | None, lost: int | None, patient: bool) -> None:
        self.complaints = _Complaints()
        logging.getLogger("tidings").addHandler(self.complaints)
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda _, context: self.complaints.said.append(str(context)))
        events = EventHub()
        events.on(StateChanged, self.note)
        config = ClientConfig(
            backoff=Backoff(delays=(3600.0 if patient else 0.0,), jitter=0, tries=tries, lost_tries=lost),
            timeouts=Timeouts(ping_interval=3600),
        )
        options: Any = {"attach": self.attach, "detach": self.detach, "gave_up": self.given_up.append}
        self.connection = Connection("server", self.open_link, config, events, **options)
        self.start(self.connection.connect, TURNS)

    def __init__(self) -> None:
        super().__init__()
        self.openings: list[asyncio.Future[_Link]] = []
        self.links: list[_Link] = []
        self.waiters: list[asyncio.Task[Any]] = []
        self.told: list[StateChanged] = []
        self.given_up: list[TidingsError] = []
        self.attached = 0

    def note(self, event: StateChanged) -> None:
        self.told.append(event)

    async def open_link(self, seconds: float) -> tuple[Any, Any]:
        opening: asyncio.Future[_Link] = asyncio.get_running_loop().create_future()
        self.openings.append(opening)
        try:
            return await opening, self
        except asyncio.CancelledError:
            if opening.done() and not opening.cancelled() and opening.exception() is None:
                await opening.result().close(0)  # As one that is cancelled does in the last moment.
            raise

    async def ping(self) -> None:
        """As a feed."""

    async def attach(self, link: Any, feed: Any) -> None:
        self.attached += 1

    async def detach(self) -> None:
        self.attached -= 1
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def turns(self, count: int) -> None:
        async def wait() -> None:
            for _ in range(count):
                await asyncio.sleep(0)

        self.loop.run_until_complete(wait())

    def start(self, act: Callable[[], Any], count: int = 0) -> None:
        self.waiters.append(self.loop.create_task(act()))
        self.turns(count)

    # What users do.

    @rule(count=SOME)
    def connect(self, count: int) -> None:
        self.start(self.connection.connect, count)

    @rule(count=SOME)
    def reconnect(self, count: int) -> None:
        self.start(self.connection.reconnect, count)

    @rule(count=SOME)
    def disconnect(self, count: int) -> None:
        self.start(self.connection.disconnect, count)

    @rule()
    def wait_for_a_link(self) -> None:
        self.start(self.connection.ready)

    @precondition(lambda self: any(not waiter.done() for waiter in self.waiters))
    @rule(data=st.data())
    def lose_patience(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from([waiter for waiter in self.waiters if not waiter.done()])).cancel()

    # What becomes of it.

    @property
    def opening(self) -> list[asyncio.Future[_Link]]:
        return [opening for opening in self.openings if not opening.done()]

    @property
    def open(self) -> list[_Link]:
        return [link for link in self.links if link.is_open]

    @precondition(lambda self: self.opening)
    @rule(count=SOME)
    def succeed(self, count: int) -> None:
        link = _Link()
        self.links.append(link)
        self.opening[0].set_result(link)
        self.turns(count)

    @precondition(lambda self: self.opening)
    @rule(error=st.sampled_from(FAILURES), count=SOME)
    def fail(self, error: TidingsError, count: int) -> None:
        self.opening[0].set_exception(error)
        self.turns(count)

    @precondition(lambda self: any(not link.over for link in self.links))
    @rule(error=st.sampled_from(LOSSES), count=SOME)
    def lose(self, error: TidingsError, count: int) -> None:
        for link in self.links:
            link.lose(error)
        self.turns(count)

    @rule()
    def come_to_rest(self) -> None:
        self.turns(TURNS)
        state = self.connection.state
        assert (self.connection.link is not None) == (state is State.CONNECTED)
        assert bool(self.opening) == (state is State.CONNECTING)
        assert bool(self.open) == (state is State.CONNECTED)
        assert self.attached == (state is State.CONNECTED)
        if state in (State.DISCONNECTED, State.CONNECTED):
            for waiter in self.waiters:
                assert waiter.done()

    # What always holds.

    @invariant()
    def the_state_is_where_the_table_leads(self) -> None:
        state = State.DISCONNECTED
        for event in self.told:
            assert event.old is state
            state = TRANSITIONS[state, event.signal]
            assert event.new is state
        assert self.connection.state is state

    @invariant()
    def what_is_told_is_consistent(self) -> None:
        for event in self.told:
            wrong = event.new is State.ERROR or event.signal is Signal.GIVE_UP
            assert (event.error is not None) >= wrong
            assert event.next_retry is None or event.new is State.ERROR
            assert not isinstance(event.error, GaveUp) or event.signal is Signal.GIVE_UP
            if event.new is State.CONNECTED:
                assert (event.error, event.tries) == (None, 0)
        assert len(self.given_up) == sum(event.signal is Signal.GIVE_UP for event in self.told)

    @invariant()
    def at_most_one_link_is_open_or_opened(self) -> None:
        assert len(self.opening) + len(self.open) <= 1

    @invariant()
    def nobody_complains(self) -> None:
        assert not self.complaints.said

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        self.turns(1)
        self.start(self.connection.disconnect)
        self.turns(3 * TURNS)
        assert self.connection.state is State.DISCONNECTED
        assert (self.opening, self.open, self.attached, self.connection.link) == ([], [], 0, None)
        for waiter in self.waiters:
            assert waiter.done()
            if not waiter.cancelled() and (error := waiter.exception()) is not None:
                assert isinstance(error, TidingsError)
                assert error.code
                assert not isinstance(error, GaveUp) or isinstance(error.__cause__, TidingsError)
        assert not asyncio.all_tasks(self.loop)
        self.loop.close()
        logging.getLogger("tidings").removeHandler(self.complaints)
        self.nobody_complains()


@pytest.mark.anyio
@pytest.mark.parametrize("place", ["open", "attach"])
async def test_a_fault_of_this_program_is_told_and_leaves_nobody_waiting(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    link, signals, given_up = _Link(), [], []

    async def do(step: str) -> Any:
        if step == place:
            raise RuntimeError("a fault")
        return link, "a feed"

    events = EventHub()
    events.on(StateChanged, lambda event: signals.append((event.signal, event.new)))
    options: Any = {
        "attach": lambda link, feed: do("attach"),
        "detach": lambda: do("detach"),
        "gave_up": given_up.append,
    }
    connection = Connection("server", lambda _: do("open"), ClientConfig(), events, **options)
    with pytest.raises(ConnectionLost, match="unexpectedly: RuntimeError"):
        await connection.connect()
    assert link.is_open is (place == "open")
    assert signals == [
        (Signal.CONNECT, State.CONNECTING),
        (Signal.TRANSPORT_ERROR, State.ERROR),
        (Signal.GIVE_UP, State.DISCONNECTED),
    ]
    assert [type(error) for error in given_up] == [ConnectionLost]
    assert [record.exc_info is not None for record in caplog.records] == [True]


@pytest.mark.parametrize("examples", [80, pytest.param(400, marks=pytest.mark.thorough)])
def test_a_connection_keeps_to_the_table_whatever_happens_when(examples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.client.connection._EXPIRED", 0.0)  # Time must not matter.
    run_state_machine_as_test(ConnectionMachine, settings=settings(max_examples=examples, stateful_step_count=30))
