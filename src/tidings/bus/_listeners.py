"""Who listens to a bus: one registry, the same for every bus.

May import: `changes`.
"""

import logging
from collections.abc import Callable

from tidings.bus import Listener
from tidings.changes import Change, Cursor

logger = logging.getLogger(__name__)


class Listeners:
    """The listeners of one bus, told one after the other in the order in which they came."""

    def __init__(self) -> None:
        # By a token of its own: the same function may listen twice, and each time ends by itself.
        self._listeners: dict[object, Listener] = {}

    def add(self, listener: Listener) -> Callable[[], None]:
        """Tell `listener` from now on. The result ends that at once, and may be called twice."""
        token = object()
        self._listeners[token] = listener

        def end() -> None:
            self._listeners.pop(token, None)

        return end

    def tell(self, cursor: Cursor, change: Change | None) -> None:
        """Tell everyone; what one of them raises is logged, and reaches neither the others nor the publisher."""
        for token, listener in tuple(self._listeners.items()):
            # A listener that was ended by one before it must not hear of this any more.
            if token not in self._listeners:
                continue
            try:
                listener(cursor, change)
            except Exception:
                logger.exception("a listener failed on %r at %s; the others go on", change, cursor)

    def clear(self) -> None:
        """End them all."""
        self._listeners.clear()

    def __bool__(self) -> bool:
        return bool(self._listeners)
