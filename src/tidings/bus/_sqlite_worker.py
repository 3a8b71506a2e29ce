"""The thread of a `SqliteBus`: the only one that touches the file, so that the event loop never waits for a disk.

Each turn takes all requests that wait. Their changes are stored in one transaction, however many they are, and what
came of it goes to the event loop in one call: first what is new in the log, whoever published it, then the answers.
That one way keeps the order of versions for listeners.

May import: `changes`, `errors`.
"""

import asyncio
import copy
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from tidings.bus import Entry
from tidings.bus._sqlite_log import News, SqliteLog
from tidings.changes import Cursor

logger = logging.getLogger(__name__)

T = TypeVar("T")

Reply = Callable[[], None]
"""Gives a request its answer; to be called on the event loop."""


@dataclass(frozen=True, slots=True, eq=False)
class Publish:
    """Store a change, by its key."""

    key: str
    answer: asyncio.Future[Cursor]


@dataclass(frozen=True, slots=True, eq=False)
class Since:
    """Say what changed after `cursor`."""

    cursor: Cursor
    answer: asyncio.Future[Sequence[Entry] | None]


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """See what is new: somebody listens from now on."""


@dataclass(frozen=True, slots=True, eq=False)
class Stop:
    """Finish what was asked before, close the file and end the thread."""

    answer: asyncio.Future[None]


Request = Publish | Since | Look | Stop


class _LoopGone(Exception):
    """The event loop was closed while its bus was still entered: there is nobody left to work for."""


class Worker:
    """Runs the requests on `log`, and looks every `poll` seconds for what others published while somebody listens.

    `settle` is called on `loop`: it has news told to the listeners, and then calls the replies.
    """

    def __init__(
        self,
        log: SqliteLog,
        *,
        poll: float,
        listening: Callable[[], bool],
        loop: asyncio.AbstractEventLoop,
        settle: Callable[[News | None, Sequence[Reply]], None],
    ) -> None:
        self._log = log
        self._poll = poll
        self._listening = listening
        self._loop = loop
        self._settle = settle
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._out_of_reach = False
        # A daemon, because a program that never leaves its bus must still be able to end; nothing is lost then.
        self._thread = threading.Thread(target=self._run, name="tidings-sqlite-bus", daemon=True)
        self._opened: asyncio.Future[Cursor] = loop.create_future()

    def start(self) -> asyncio.Future[Cursor]:
        """Open the log in the thread; its head, or why it cannot be opened. In that case the thread has ended."""
        self._thread.start()
        return self._opened

    def ask(self, request: Request) -> None:
        """Have `request` done in one of the next turns, in the order of asking."""
        self._requests.put(request)

    def join(self) -> None:
        """Wait for the end of the thread, which follows at once on the answer to `Stop`."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self._work()
        except _LoopGone:
            logger.debug("the event loop was closed before its bus was left")
        finally:
            self._log.close()

    def _work(self) -> None:
        try:
            told = self._log.head()
        except Exception as error:  # noqa: BLE001 - whoever waits gets it
            self._post(None, [_refusal(self._opened, error)])
            return
        self._post(None, [_answer(self._opened, told)])
        while True:
            requests = self._take()
            news, replies = self._store(requests, told)
            told = news.head if news else told
            replies += [self._since(request) for request in requests if isinstance(request, Since)]
            self._post(news, replies)
            if stops := [request for request in requests if isinstance(request, Stop)]:
                self._log.close()
                self._post(None, [_answer(stop.answer, None) for stop in stops])
                return

    def _take(self) -> list[Request]:
        """All requests that wait; none if it is time to look."""
        requests: list[Request] = []
        with suppress(queue.Empty):
            requests.append(self._requests.get(timeout=self._poll if self._listening() else None))
            while True:
                requests.append(self._requests.get_nowait())
        return requests

    def _store(self, requests: Sequence[Request], told: Cursor) -> tuple[News | None, list[Reply]]:
        """Store what is to be published, and see what else is new."""
        publishes = [request for request in requests if isinstance(request, Publish)]
        try:
            if not publishes:
                return self._look(told), []
            cursors, news = self._log.append([publish.key for publish in publishes], told)
            return news, [_answer(publish.answer, cursor) for publish, cursor in zip(publishes, cursors, strict=True)]
        except Exception as error:  # noqa: BLE001 - whoever waits gets it
            return None, [_refusal(publish.answer, error) for publish in publishes]

    def _look(self, told: Cursor) -> News | None:
        """What others have published. Nobody waits for the answer, so trouble is logged: once, until it is over."""
        try:
            news = self._log.news(told)
        except Exception as error:  # noqa: BLE001 - it comes again at the next look
            if not self._out_of_reach:
                logger.warning("changes of other processes are not heard for now: %s", error)
            self._out_of_reach = True
            return None
        if self._out_of_reach:
            logger.warning("the bus file is back in reach, and changes of other processes are heard again")
        self._out_of_reach = False
        return news

    def _since(self, request: Since) -> Reply:
        try:
            return _answer(request.answer, self._log.since(request.cursor))
        except Exception as error:  # noqa: BLE001 - whoever waits gets it
            return _refusal(request.answer, error)

    def _post(self, news: News | None, replies: Sequence[Reply]) -> None:
        if news is None and not replies:
            return
        try:
            self._loop.call_soon_threadsafe(self._settle, news, replies)
        except RuntimeError as error:
            raise _LoopGone from error


def _answer(waiting: asyncio.Future[T], value: T) -> Reply:
    def reply() -> None:
        # Whoever asked may have been cancelled meanwhile.
        if not waiting.done():
            waiting.set_result(value)

    return reply


def _refusal(waiting: asyncio.Future[T], error: Exception) -> Reply:
    def reply() -> None:
        if not waiting.done():
            # One for each who waits: an error that several raise collects all their tracebacks.
            own = copy.copy(error)
            own.__cause__ = error.__cause__
            waiting.set_exception(own)

    return reply
