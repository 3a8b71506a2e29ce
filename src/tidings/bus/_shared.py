"""What the buses that processes share have in common.

May import: `changes`, `errors`.
"""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Final, Self

import anyio

from tidings.changes import Change, Cursor, change_key
from tidings.errors import InvalidUri

NOWHERE: Final = Cursor("", 0)
"""A place in no log: nothing is known to have happened since."""


class SharedBus(ABC):
    """A bus that is opened for the first who enters it, and closed when the last of them has left."""

    def __init__(self) -> None:
        self._users = 0
        self._turn = anyio.Lock()

    @abstractmethod
    async def _open(self) -> None:
        """Reach for the log, and begin to hear of changes."""

    @abstractmethod
    async def _close(self) -> None:
        """Let go of it, in bounded time. Safe to call where opening failed."""

    async def __aenter__(self) -> Self:
        """Find the log, or create it.

        Raises:
            BusUnavailable: It cannot be reached or used, for the reason that the error names.
            BusMismatch: What is there is not a log, or not one of this version.
        """
        async with self._turn:
            if not self._users:
                await self._open()
            self._users += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Even when cancelled: nothing is to stay behind, and whoever leaves may delete a file next.
        with anyio.CancelScope(shield=True):
            async with self._turn:
                self._users = max(self._users - 1, 0)
                if not self._users:
                    await self._close()


def storable_key(change: Change) -> str:
    """The key of `change`, which any engine can hold.

    Raises:
        InvalidUri: It names a resource by a text that none can.
    """
    key = change_key(change)
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise InvalidUri(f"A URI has no lone surrogates; this one does: {key!a}") from error
    return key
