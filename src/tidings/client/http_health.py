"""The web server's side of a connection: what its answers say of the connection, and the old era's stream.

In the old era notifications come on a stream of their own, which the SDK opens, and opens again when it ends. It tells
nobody when it cannot, so that is seen here: by what the web server answers, and by what never comes.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from tidings.client.failures import AWAY
from tidings.client.queue import QueueEntry
from tidings.errors import ConnectionLost, SessionExpired, TidingsError

_STREAM_AWAY: Final = 60.0
"""Seconds after which the old era's stream of notifications, once it ended, must be open again."""

_TELLING: Final = (401, 403, 429, *AWAY)
"""What explains a failure best: once it was said, what is said to the next attempt explains nothing."""


class Holder(Protocol):
    """Who holds the connection."""

    @property
    def name(self) -> str:
        """The server, as people call it."""
        ...

    @property
    def over(self) -> bool:
        """Whether the connection has ended."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether hands were shaken."""
        ...

    def lose(self, error: TidingsError) -> None:
        """The connection is of no use any more."""
        ...

    def stop_clock(self, *, is_so: bool) -> None:
        """The time to connect stands still, or runs again."""
        ...


class HttpHealth:
    """Hears of each HTTP exchange of one connection, as its `Watch`. With no web server there are none."""

    def __init__(self, holder: Holder, *, has_stream: bool) -> None:
        self._holder = holder
        self._waiting: asyncio.TimerHandle | None = None
        self._signing_in = 0
        self.status: int | None = None
        """What the web server said last, or what of it explains most."""
        self.first_status: int | None = None
        """What it said to the first request."""
        self.broken: Exception | None = None
        """What broke an exchange off."""
        self.stream_opened = asyncio.Event()
        """Set when the old era's stream of notifications is open; over a pipe, at once."""
        self.deaf = False
        """The server offers no stream of notifications."""
        self.stream_ended = False
        """The old era's stream of notifications has ended, and is yet to be opened again."""
        self.on_stream_again: Callable[[], None] = lambda: None
        """Called when the old era's stream of notifications was opened anew: what was sent meanwhile is lost."""
        if has_stream:
            self.stream_opened.set()

    @property
    def somebody_signs_in(self) -> bool:
        """Whether somebody may be signing in: messages wait for that, and their silence means nothing."""
        return self._signing_in > 0

    def close(self) -> None:
        """Wait for nothing any more."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def responded(self, call: object, method: str, status: int, *, has_session: bool) -> None:
        """The web server answered a request."""
        name = self._holder.name
        if self.status not in _TELLING:
            self.status = status
        if self.first_status is None:
            self.first_status = status
        if isinstance(call, QueueEntry):
            call.http_status = status
        if method == "POST" and not has_session and self._holder.is_open and not self.stream_opened.is_set():
            self.deaf = True  # In the old era, who has no session has no stream.
            self.stream_opened.set()
        elif method == "GET" and status >= 300 and not self.stream_opened.is_set():
            # It should be 405. But who has just opened a session and says 404 has no stream either. What may pass
            # (429, 5xx) the SDK tries once more.
            if status < 500 and status != 429:
                self.deaf = True
                self.stream_opened.set()
        elif status == 404 and has_session:
            if isinstance(call, QueueEntry):
                call.may_have_arrived = False
            self._holder.lose(SessionExpired(f"{name} no longer knows this session.", server=name))
        elif method == "GET" and status >= 400:
            self._holder.lose(ConnectionLost(f"{name} offers no stream any more (HTTP {status}).", server=name))

    def failed(self, call: object, method: str, error: Exception, *, sent: bool) -> None:
        """A request got no answer from the web server. `sent` is false if it surely never arrived there."""
        if isinstance(call, QueueEntry) and not sent:
            call.may_have_arrived = False
        self.broken = error
        if method == "GET" and (self.stream_opened.is_set() or not sent):  # Else the SDK tries once more.
            name = self._holder.name
            self._holder.lose(ConnectionLost(f"{name} is away: {type(error).__name__}", server=name))

    def signing_in(self, call: object, *, busy: bool) -> None:
        """Somebody may be asked to sign in: no clock runs meanwhile."""
        self._signing_in += 1 if busy else -1
        if isinstance(call, QueueEntry):
            call.hold() if busy else call.release()
        self._holder.stop_clock(is_so=self.somebody_signs_in)

    def held_back(self, call: object, *, is_so: bool) -> None:
        """A request waits for an `auth` object, or does so no more."""
        if isinstance(call, QueueEntry):
            call.held_back = is_so

    def stream_open(self, call: object, method: str) -> None:
        """A stream of events was opened."""
        if method != "GET":
            return
        self.stream_ended = False
        self.close()
        if self.stream_opened.is_set():
            self.on_stream_again()
        self.stream_opened.set()

    def stream_over(self, call: object, method: str) -> None:
        """A stream of events came to its end."""
        if method == "GET" and not self._holder.over:
            self.stream_ended = True
            self.close()
            self._waiting = asyncio.get_running_loop().call_later(_STREAM_AWAY, self._is_deaf)

    def _is_deaf(self) -> None:
        """The SDK has given up to open the old era's stream again, and tells nobody."""
        name = self._holder.name
        self._holder.lose(ConnectionLost(f"{name} ended its stream of notifications for good.", server=name))
