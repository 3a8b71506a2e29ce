"""The connection: the task that drives the state machine.

It opens one link after another. It checks that the server answers. When a link ends, it opens the next after a pause
that grows. All other code sees the state, the current link, or a named error.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from copy import copy
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mcp.shared.exceptions import MCPError

from tidings import errors
from tidings._kit.backoff import jittered
from tidings._kit.tasks import Wakeup
from tidings._kit.telemetry import measure
from tidings.client.config import TRANSITIONS, ClientConfig, Signal, State
from tidings.client.events import EventHub, StateChanged
from tidings.client.failures import AWAY, is_broken_off
from tidings.client.link import Link
from tidings.client.queue import QueueEntry
from tidings.client.subscriptions import ChangeFeed
from tidings.client.transports.http import current_call
from tidings.errors import TidingsError

logger = logging.getLogger(__name__)

_EXPIRED: Final = 0.5  # Seconds within which a session that the server forgot is opened anew.
_LAG: Final = 0.5  # Seconds by which a timer may be late before this program counts as busy.
_SHORT: Final = 5.0  # Seconds. After a connection that lasted no longer, the next attempt comes later each time.


@dataclass(eq=False, repr=False)
class Connection:
    """The state of a client's connection, and the task that changes it."""

    name: str
    open_link: Callable[[float], Awaitable[tuple[Link, ChangeFeed]]]  # Within so many seconds.
    config: ClientConfig
    events: EventHub
    _: KW_ONLY
    attach: Callable[[Link, ChangeFeed], Awaitable[None]]
    detach: Callable[[], Awaitable[None]]
    gave_up: Callable[[TidingsError], None]
    is_busy: Callable[[], bool] = lambda: False
    asks_person: bool = False  # Signing in may need a person.

    def __post_init__(self) -> None:
        self._wakeup = Wakeup()
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self.feed: ChangeFeed | None = None  # The feed of the link.
        self.state = State.DISCONNECTED
        self.error: TidingsError | None = None
        self.link: Link | None = None
        self.tries = 0
        self.next_retry: datetime | None = None
        self._retries = 0  # The number of automatic attempts since the last success.
        self._pause_seconds: float | None = None
        self._was_connected = False
        self._short_lives = 0

    @property
    def connected(self) -> bool:
        return self.state is State.CONNECTED and self.link is not None and not self.link.over

    def check(self) -> None:
        """Raises a `TidingsError` if there is no connection, and will be none until `connect` is called."""
        if self._task is not None and self.state is not State.DISCONNECTING:
            return
        cure = "Use `async with tidings.connect(...)`, or call connect()."
        error = self.error or errors.NotConnected(f"Not connected to {self.name}. {cure}", server=self.name)
        raise copy(error) from error.__cause__  # Each request adds to its own.

    async def ready(self) -> Link:
        """Waits for a link, and returns it. Raises a `TidingsError` as `check` does."""
        while self.link is None or self.link.over:
            self.check()
            await self._wakeup.wait()
        return self.link

    async def answers(self, link: Link, *, is_busy: Callable[[], bool] = lambda: False) -> bool:
        """Returns whether the server still answers on this link, or is alive for all that. If not, the link is lost."""
        if link.over or self.feed is None or self.link is not link:
            return False
        if link.http.somebody_signs_in:
            return True
        ping, heard, why = QueueEntry("ping", "ping", {}, aside=True), link.heard, ""
        token = current_call.set(ping)
        try:
            await self._within_time(self.feed.ping())
        except MCPError as error:
            broken = is_broken_off(error)
            if not broken and ping.http_status not in AWAY:
                return True  # An error is an answer, too.
            if broken:
                with contextlib.suppress(TimeoutError):  # The link, which ends, may say why in a moment.
                    async with asyncio.timeout(1):
                        await link.until_over()
            why = "went away."
        except TimeoutError:
            if ping.held_back or link.heard != heard or is_busy():
                return True  # The silence means nothing: it was not sent, or the server lives.
            why = f"did not answer within {self.config.timeouts.ping:g} s."
        except Exception as error:  # noqa: BLE001 - in any case, there was no answer
            why = f"went away ({type(error).__name__})."
        finally:
            current_call.reset(token)
        if why:
            link.lose(errors.ConnectionLost(f"{self.name} {why}", server=self.name))
        return not link.over

    async def _within_time(self, ping: Coroutine[Any, Any, None]) -> None:
        """Waits for the answer to a ping; once more if this program was busy, so that it may only have to be read."""
        pinging, loop, seconds = asyncio.ensure_future(ping), asyncio.get_running_loop(), self.config.timeouts.ping
        late = loop.time() + seconds + _LAG
        try:
            await asyncio.wait((pinging,), timeout=seconds)
            if loop.time() > late:
                await asyncio.wait((pinging,), timeout=seconds)
            if not pinging.done():
                raise TimeoutError
            await pinging
        finally:
            pinging.cancel()

    async def connect(self) -> None:
        """Connects, and waits until that succeeded. Raises a `TidingsError` if the client gave up."""
        if self._task is None:
            self.error, self.tries, self._retries, self._was_connected = None, 0, 0, False
            self._signal(Signal.CONNECT)
            self._task = asyncio.create_task(self._supervise(), name=f"tidings connection to {self.name}")
        await self.ready()

    async def reconnect(self) -> None:
        self._hurry.set()
        await self.connect()

    async def disconnect(self) -> None:
        if (task := self._task) is None:
            return
        if self.state is not State.DISCONNECTING:
            self.error = self.next_retry = None
            self._signal(Signal.DISCONNECT)
            self._hurry.set()
            if self.link is not None:
                self.link, self.feed, link = None, None, self.link
                self._wakeup()
                try:
                    await self.detach()
                finally:
                    await link.close()
        await asyncio.shield(task)

    async def _supervise(self) -> None:
        try:
            while self.state not in (State.DISCONNECTING, State.DISCONNECTED):
                try:
                    link, feed = await self._open()
                except TidingsError as error:
                    if self.state is State.CONNECTING:
                        self._failed(error)
                else:
                    await self._live(link, feed)
                if self.state is State.ERROR:
                    await self._pause()
        except Exception as error:
            logger.exception("the connection to %s failed unexpectedly", self.name)
            text = f"The connection failed unexpectedly: {error!r}"
            await self._abandon(errors.ConnectionLost(text, server=self.name))
        finally:
            if self._task is asyncio.current_task():
                self._task = None
            if self.state is State.DISCONNECTING:
                self._signal(Signal.CLEANUP_COMPLETE)
            self._wakeup()

    async def _abandon(self, error: TidingsError) -> None:
        if (link := self.link) is not None:
            self.link = self.feed = None
            await link.close(seconds=0)
        if self.state is State.DISCONNECTING:
            return
        self.error, self.next_retry = error, None
        if self.state is not State.ERROR:
            connected = self.state is State.CONNECTED
            self._signal(Signal.CONNECTION_LOST if connected else Signal.TRANSPORT_ERROR)
        self._give_up()

    async def _open(self) -> tuple[Link, ChangeFeed]:
        opening = asyncio.ensure_future(self.open_link(self.config.timeouts.connect))
        while self.state is State.CONNECTING and not opening.done():
            self._hurry.clear()
            hurry = asyncio.ensure_future(self._hurry.wait())
            try:
                await asyncio.wait((opening, hurry), return_when=asyncio.FIRST_COMPLETED)
            finally:
                hurry.cancel()
        if not opening.done():
            opening.cancel()
            await asyncio.wait((opening,))
        if opening.cancelled():
            raise errors.Disconnected("Disconnected while connecting.", server=self.name)
        return opening.result()

    async def _live(self, link: Link, feed: ChangeFeed) -> None:
        if self.state is not State.CONNECTING:
            await link.close()
            return
        self.error, self.next_retry, self.tries, self._retries = None, None, 0, 0
        self.link, self.feed = link, feed
        began = asyncio.get_running_loop().time()
        await self.attach(link, feed)
        self._signal(Signal.HANDSHAKE_COMPLETE)
        while not link.over:
            try:
                async with asyncio.timeout(self.config.timeouts.ping_interval):
                    await link.until_over()
            except TimeoutError:
                # Many servers do one thing at a time. A request that runs has its own time limit.
                await self.answers(link, is_busy=self.is_busy)
        await link.close()
        if self.link is link:  # Otherwise `disconnect` does the rest.
            await self._lost(link, asyncio.get_running_loop().time() - began)

    async def _lost(self, link: Link, lasted: float) -> None:
        self.link = self.feed = None
        await self.detach()
        if self.state is not State.CONNECTED:
            return  # It was disconnected meanwhile.
        self.error = link.gone()
        self._short_lives = 0 if lasted > _SHORT else self._short_lives + 1
        if self.config.backoff.lost_tries != 0:
            self._announce_retry(max(self._short_lives - 1, 0))
        self._signal(Signal.CONNECTION_LOST)

    def _failed(self, error: TidingsError) -> None:
        self.error = error
        self.tries += 1
        backoff = self.config.backoff
        limit = backoff.lost_tries if self._was_connected else backoff.tries
        if self._was_connected:
            # Any other refusal may pass. But a person should not be asked to sign in again and again.
            is_hopeless = self.asks_person and isinstance(error, errors.NotAuthorized)
        else:  # Whoever waits for a first connection does not wait for hours.
            is_hopeless = not error.retryable or (error.retry_after or 0) > self.config.timeouts.connect
        if not is_hopeless and (limit is None or self._retries < limit):
            self._announce_retry(self._retries)
        self._signal(Signal.TIMEOUT if isinstance(error, errors.ConnectTimedOut) else Signal.TRANSPORT_ERROR)

    def _announce_retry(self, attempt: int) -> None:
        pause = self.config.backoff.pause(attempt, first=not self._was_connected)
        if isinstance(self.error, errors.SessionExpired) and attempt == 0 and self._short_lives < 2:
            # The server is there, and only needs a new handshake; but all its clients may do so in this moment.
            pause = min(pause, jittered(_EXPIRED, below=1.0))
        if self.error is not None and self.error.retry_after is not None:
            pause += self.error.retry_after  # Later than asked, so that clients spread out.
        self._pause_seconds = pause
        self.next_retry = datetime.now(UTC) + timedelta(seconds=pause)

    async def _pause(self) -> None:
        if self.next_retry is None:
            self._give_up()
            return
        self._hurry.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pause_seconds):
                await self._hurry.wait()
        self.next_retry = None
        if self.state is State.ERROR:
            self._retries += 1
            self._signal(Signal.RECONNECT)

    def _give_up(self) -> None:
        last = self.error or errors.ConnectionLost(f"{self.name} went away.", server=self.name)
        if isinstance(last, errors.SignInNeeded):
            self.error = last
        elif self._was_connected:
            tries = {0: "", 1: " after 1 try"}.get(self.tries, f" after {self.tries} tries")
            text = f"Gave up on {self.name}{tries}: {last.message} Call reconnect() to try again."
            self.error = errors.GaveUp(text, server=self.name)
            self.error.__cause__ = last
        elif self.tries > 1:
            self.error = copy(last)
            self.error.message = f"{last.message} Tried {self.tries} times: Backoff(tries=...) sets how often."
            self.error.args = (self.error.message,)
        error, self._task, self.tries = self.error or last, None, 0
        self._signal(Signal.GIVE_UP)
        self.gave_up(error)

    def _signal(self, signal: Signal) -> None:
        old, self.state = self.state, TRANSITIONS[self.state, signal]
        if self.state is State.CONNECTED:
            self._was_connected = True
        if State.CONNECTED in (old, self.state) and old is not self.state:
            measure("tidings.client.connections", -1 if old is State.CONNECTED else 1)
        if signal is Signal.RECONNECT:
            measure("tidings.client.reconnects")
        self.events.emit(StateChanged(old, self.state, signal, self.error, self.tries, self.next_retry))
        self._wakeup()
