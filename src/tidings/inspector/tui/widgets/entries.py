"""The data of a list: entries as they arrive, or a table that changes. No widgets."""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

from tidings.inspector.view.rings import Ring

T = TypeVar("T")

CHUNK: Final = 4000  # The number of entries that one step of a filter checks.


class _Items(Generic[T]):
    """Items with a key, and a text for the filter."""

    def __init__(self, key: Callable[[T], Hashable], text: Callable[[T], str]) -> None:
        self.key, self._text = key, text
        self._all: list[T] = []  # Everything the source has; for arriving entries, oldest first.
        self.filtered = ""

    @property
    def total(self) -> int:
        return len(self._all)

    def _matches(self, item: T) -> bool:
        """Returns whether the text of an item contains all words of the filter."""
        folded = self._text(item).casefold()
        return all(word in folded for word in self.filtered.split())


class ArrivingEntries(_Items[T]):
    """Entries that arrive, newest first. Their numbers, which are their keys, rise.

    While it does not follow, new entries are held back and counted, so that nothing moves under the user's eyes. It
    forgets what its source drops. A filter checks `CHUNK` entries per step, so that a long history blocks nothing.
    """

    def __init__(self, seq: Callable[[T], int], text: Callable[[T], str]) -> None:
        super().__init__(seq, text)
        self._seq = seq
        self._matching: list[T] = []  # What the filter lets through, oldest first; unused without one.
        self._unsearched = 0  # Of `_all`, so many of the oldest have not been looked at.
        self._shown = 0  # Of the matching ones, so many of the oldest are shown.
        self._last: int | None = None
        self.following = True

    @property
    def _rows(self) -> list[T]:
        return self._matching if self.filtered else self._all

    @property
    def held(self) -> int:
        return len(self._rows) - self._shown

    @property
    def searching(self) -> bool:
        return bool(self.filtered) and self._unsearched > 0

    def __len__(self) -> int:
        return self._shown

    def __getitem__(self, index: int) -> T:
        if not 0 <= index < self._shown:
            raise IndexError(index)
        return self._rows[self._shown - 1 - index]

    def find(self, key: Hashable) -> int | None:
        rows = self._rows
        if not isinstance(key, int):
            return None
        at = bisect_left(rows, key, 0, self._shown, key=self._seq)
        return self._shown - 1 - at if at < self._shown and self._seq(rows[at]) == key else None

    def reset(self) -> None:
        self._all, self._matching, self._unsearched, self._shown, self._last = [], [], 0, 0, None
        self.following = True

    def update(self, items: Sequence[T] | Ring[T]) -> bool:
        """Takes the source's entries, oldest first. Returns whether anything that is shown or counted changed."""
        changed = self._drop(self._seq(items[0]) if items else None)
        fresh = items if self._last is None else items[bisect_left(items, self._last + 1, key=self._seq) :]
        if fresh:
            changed = True
            self._last = self._seq(fresh[-1])
            self._all.extend(fresh)
            if self.filtered:
                self._matching.extend(entry for entry in fresh if self._matches(entry))
        if self.searching:
            changed = True
            self._search()
        if self.following:
            self._shown = len(self._rows)
        return changed

    def follow(self, following: bool) -> None:
        self.following = following
        if following:
            self._shown = len(self._rows)

    def filter(self, words: str) -> None:
        self.filtered = words.strip().casefold()
        self._matching = []
        self._unsearched = len(self._all)
        if self.filtered:
            self._search()
        self._shown = len(self._rows)

    def _search(self) -> None:
        start = max(0, self._unsearched - CHUNK)
        found = [entry for entry in self._all[start : self._unsearched] if self._matches(entry)]
        self._unsearched = start
        self._matching[:0] = found
        self._shown += len(found)

    def _drop(self, oldest: int | None) -> bool:
        if not self._all or (oldest is not None and self._seq(self._all[0]) >= oldest):
            return False
        for rows in (self._all, self._matching):
            gone = len(rows) if oldest is None else bisect_left(rows, oldest, key=self._seq)
            del rows[:gone]
            if rows is self._rows:
                self._shown = max(0, self._shown - gone)
            if rows is self._all:
                self._unsearched = max(0, self._unsearched - gone)
        return True


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
        self._all = list(items)
        self._places = None
        self._rows = [item for item in self._all if self._matches(item)] if self.filtered else self._all

    def filter(self, words: str) -> None:
        self.filtered = words.strip().casefold()
        self.update(self._all)


RowSource = ArrivingEntries[T] | Table[T]  # The data of the list widget.
