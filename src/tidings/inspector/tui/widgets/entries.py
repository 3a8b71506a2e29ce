"""The data of a list: entries as they arrive, or a table that changes. No widgets."""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, Generic, TypeVar

from tidings.inspector.view.rings import Ring

T = TypeVar("T")

CHUNK: Final = 4000  # The number of entries that one step of a filter checks.


class _Items(Generic[T]):
    """Items with a key, and a text for the filter."""

    def __init__(self, key: Callable[[T], Hashable], text: Callable[[T], str]) -> None:
        self.key, self._text = key, text
        self._all: Sequence[T] | Ring[T] = ()  # Everything the source has; for arriving entries, oldest first.
        self.filtered = ""

    @property
    def total(self) -> int:
        return len(self._all)

    def _matching(self, items: Iterable[T]) -> list[T]:
        """Returns the items whose text contains all words of the filter."""
        words, texts = self.filtered.split(), ((item, self._text(item).casefold()) for item in items)
        return [item for item, text in texts if all(word in text for word in words)]


class ArrivingEntries(_Items[T]):
    """Entries that arrive, newest first. Their numbers, which are their keys, rise.

    While it does not follow, new entries are held back and counted, so that nothing moves under the user's eyes. It
    forgets what its source drops. A filter checks `CHUNK` entries per step, so that a long history blocks nothing.
    """

    def __init__(self, seq: Callable[[T], int], text: Callable[[T], str]) -> None:
        super().__init__(seq, text)
        self._seq = seq
        self.reset()

    def reset(self) -> None:
        self._all = ()
        self._found: list[T] = []  # What the filter lets through, oldest first; unused without one.
        self._unsearched = 0  # Entries before this number have not been checked by the filter.
        self._last = self._shown = -1  # The newest entry, and the newest that is shown.
        self.following = True

    @property
    def _rows(self) -> Sequence[T] | Ring[T]:
        return self._found if self.filtered else self._all

    @property
    def held(self) -> int:
        return len(self._rows) - len(self)

    @property
    def searching(self) -> bool:
        return bool(self.filtered) and self._before(self._all, self._unsearched) > 0

    def __len__(self) -> int:
        return self._before(self._rows, self._shown + 1)

    def __getitem__(self, index: int) -> T:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._rows[len(self) - 1 - index]

    def find(self, key: Hashable) -> int | None:
        if not isinstance(key, int) or key > self._shown:
            return None
        at = self._before(self._rows, key)
        return len(self) - 1 - at if at < len(self) and self._seq(self._rows[at]) == key else None

    def _before(self, rows: Sequence[T] | Ring[T], seq: int) -> int:
        """Returns the number of entries before this one."""
        return bisect_left(rows, seq, key=self._seq)

    def update(self, items: Sequence[T] | Ring[T]) -> None:
        """Takes the source's entries, oldest first."""
        fresh = items[self._before(items, self._last + 1) :]
        self._all = items
        if fresh:
            self._last = self._seq(fresh[-1])
        if self.filtered:
            del self._found[: self._before(self._found, self._seq(items[0])) if items else None]
            self._found += self._matching(fresh)
            self._search()
        self.follow(self.following)

    def follow(self, following: bool) -> None:
        self.following = following
        if following:
            self._shown = self._last

    def filter(self, words: str) -> None:
        self.filtered = words.strip().casefold()
        self._found = []
        self._unsearched, self._shown = self._last + 1, self._last
        self._search()

    def _search(self) -> None:
        """Checks the next entries, newest first."""
        if self.searching:
            end = self._before(self._all, self._unsearched)
            start = max(0, end - CHUNK)
            self._found[:0] = self._matching(self._all[start:end])
            self._unsearched = self._seq(self._all[start])


class Table(_Items[T]):
    """Items in their owner's order."""

    def __init__(self, key: Callable[[T], Hashable], text: Callable[[T], str]) -> None:
        super().__init__(key, text)
        self._rows: list[T] = []
        self._places: dict[Hashable, int] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> T:
        if index < 0:
            raise IndexError(index)
        return self._rows[index]

    def find(self, key: Hashable) -> int | None:
        if self._places is None:
            self._places = {self.key(item): at for at, item in enumerate(self._rows)}
        return self._places.get(key)

    def reset(self) -> None:
        self.update([])

    def update(self, items: Sequence[T] | Ring[T]) -> None:
        self._all = items
        self._places = None
        self._rows = self._matching(items) if self.filtered else list(items)

    def filter(self, words: str) -> None:
        self.filtered = words.strip().casefold()
        self.update(self._all)


RowSource = ArrivingEntries[T] | Table[T]  # The data of the list widget.
