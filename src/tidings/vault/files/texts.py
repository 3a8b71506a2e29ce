"""What notes said when they were read, so that whoever read one can be shown what has changed since.

Only the last few megabytes are kept: what is older is not known any more.

May import: nothing of Tidings.
"""

from collections import OrderedDict
from threading import Lock
from typing import Final

_MOST: Final = 16_000_000
_LARGEST: Final = 2_000_000
"""Of one text. In a larger one nobody would be shown the differences."""


class Texts:
    """Texts by version. To be used by any thread.

    Args:
        most: How many bytes are kept of all of them.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def keep(self, version: str, text: str) -> None:
        """Remember a text that somebody has been given."""
        data = text.encode(errors="surrogatepass")
        if len(data) > min(_LARGEST, self._most):
            return
        with self._lock:
            self._size += len(data) - len(self._kept.pop(version, b""))
            self._kept[version] = data
            while self._size > self._most:
                self._size -= len(self._kept.popitem(last=False)[1])

    def get(self, version: str) -> str | None:
        """The text of a version; None if it is not known, or not any more."""
        with self._lock:
            data = self._kept.get(version)
        return None if data is None else data.decode(errors="surrogatepass")
