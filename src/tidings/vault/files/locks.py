"""Who may write, within this process: one at a time in each folder, or one alone in the whole vault."""

import threading
from collections import Counter
from collections.abc import Generator, Hashable
from contextlib import contextmanager


class Locks:
    """Locks that are there as long as somebody holds them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: Counter[Hashable] = Counter()
        self._alone = False
        self._waiting = 0

    @contextmanager
    def one(self, what: Hashable) -> Generator[None]:
        """Hold one thing: others that want it wait, and so does who wants everything."""
        with self._changed:
            # Who wants everything goes first, or it would wait for ever while others come and go.
            self._changed.wait_for(lambda: not self._alone and not self._waiting and not self._held[what])
            self._held[what] += 1
        try:
            yield
        finally:
            with self._changed:
                del self._held[what]
                self._changed.notify_all()

    @contextmanager
    def everything(self) -> Generator[None]:
        """Hold everything: all others wait."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._alone and not +self._held)
            finally:
                self._waiting -= 1
            self._alone = True
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()
