"""Hears through pub/sub that there is news in the log of a `RedisBus`.

It says only that it is time to look. A message that is lost costs nothing but time: the log is looked at every so often
in any case. So is a line that has gone silent: it is asked for a sign of life, and made anew if none comes.

May import: `changes`, `errors`.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from tidings.bus import _redis_errors as errors
from tidings.bus._redis_server import Line, Pause, Server
from tidings.bus._shared import NOWHERE
from tidings.changes import Cursor

logger = logging.getLogger(__name__)


class Wakes:
    """Calls `wake` with the newest place in the log, or NOWHERE if something may have been missed."""

    def __init__(self, server: Server, channel: str, *, timeout: float, wake: Callable[[Cursor], None]) -> None:
        self._server = server
        self._channel = channel
        self._timeout = timeout
        self._wake = wake
        self._line: Line | None = None

    async def open(self) -> Line:
        """Begin to listen.

        Raises:
            BusUnavailable: That is not possible.
        """
        try:
            async with asyncio.timeout(self._timeout):
                self._line = line = await self._server.connect()
                await line.ask("SUBSCRIBE", self._channel)
        except Exception as error:
            await self.close()
            raise errors.explain(error, self._server.place, self._timeout) from error
        except BaseException:
            await self.close()
            raise
        return line

    async def run(self) -> None:
        """Listen for ever; once `open` was called, on the line that it made."""
        pause = Pause()
        while True:
            try:
                await self._listen(self._line or await self.open(), pause)
            except Exception as error:  # noqa: BLE001 - whatever it is, the log is looked at all the same
                logger.debug("not listening to %s for now: %s", self._server.place, error)
            finally:
                await self.close()
            await pause.sleep()

    async def _listen(self, line: Line, pause: Pause) -> None:
        # What was published before may have gone unheard.
        self._wake(NOWHERE)
        asked = False
        while True:
            said = await line.hear(self._timeout / 2)
            if said is not None:
                pause.reset()
                asked = False
                self._wake_by(said)
            elif asked:
                return
            else:
                await line.say("PING")
                asked = True

    def _wake_by(self, said: Any) -> None:
        match said:
            case [b"message", bytes(), bytes(text)]:
                self._wake(_place(text))
            case _:
                pass  # A sign of life.

    async def close(self) -> None:
        """Let go of the line."""
        line, self._line = self._line, None
        if line is not None:
            await line.close()


def _place(text: bytes) -> Cursor:
    epoch, _, version = text.partition(b" ")
    return Cursor(epoch.decode(errors="replace"), int(version)) if version.isdigit() else NOWHERE
