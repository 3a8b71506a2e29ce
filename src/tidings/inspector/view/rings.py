"""Rings: the newest of many entries, bounded in number and in bytes. Dropped ones are counted.

Each entry has the `seq` of the record it came from, in rising order, so that a reader finds the newer ones quickly.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar, overload

T = TypeVar("T")

_ENTRY_BYTES = 200  #: The cost of an entry besides its content.


class Ring(Generic[T]):
    """The newest entries, oldest first, as a sequence. `since` and `get` find entries by their `seq`."""

    __slots__ = ("_items", "_seqs", "_sizes", "_start", "bytes", "max_bytes", "max_entries", "total")

    def __init__(self, max_entries: int, max_bytes: int = 64 * 2**20) -> None:
        if max_entries < 1 or max_bytes < 1:
            raise ValueError(f"A ring needs room for one entry, not for {max_entries} entries and {max_bytes} bytes")
        self.max_entries, self.max_bytes = max_entries, max_bytes
        self.total = 0  #: The number of entries ever added.
        self.bytes = 0  #: The approximate size of the kept entries.
        # Three parallel lists and their start: dropping the oldest is one step, and bisection finds an entry in the
        # middle, which a deque cannot do.
        self._items: list[T | None] = []
        self._seqs: list[int] = []
        self._sizes: list[int] = []
        self._start = 0

    def append(self, item: T, seq: int, size: int = 0) -> None:
        """Adds an entry, and drops the oldest ones if there is no room. The newest is always kept."""
        size += _ENTRY_BYTES
        self._items.append(item)
        self._seqs.append(seq)
        self._sizes.append(size)
        self.total += 1
        self.bytes += size
        kept = len(self._items) - self._start
        while kept > self.max_entries or (self.bytes > self.max_bytes and kept > 1):
            self.drop_oldest()
            kept -= 1

    def drop_oldest(self) -> int:
        """Drops the oldest entry, if there is one. Returns the bytes that this freed."""
        start = self._start
        if start == len(self._items):
            return 0
        freed = self._sizes[start]
        self.bytes -= freed
        self._items[start] = None
        self._start = start = start + 1
        if start > 512 and start * 2 > len(self._items):
            del self._items[:start], self._seqs[:start], self._sizes[:start]
            self._start = 0
        return freed

    def resize(self, seq: int, size: int) -> None:
        """Notes that an entry takes another number of bytes."""
        at = bisect_left(self._seqs, seq, self._start)
        self.bytes += size + _ENTRY_BYTES - self._sizes[at]
        self._sizes[at] = size + _ENTRY_BYTES

    def clear(self) -> None:
        self._items, self._seqs, self._sizes, self._start, self.bytes = [], [], [], 0, 0

    @property
    def dropped(self) -> int:
        return self.total - len(self)

    @property
    def last(self) -> T | None:
        return self[-1] if len(self) else None

    def get(self, seq: int) -> T | None:
        """Returns the entry of this record, if it is kept."""
        at = bisect_left(self._seqs, seq, self._start)
        return self._items[at] if at < len(self._seqs) and self._seqs[at] == seq else None

    def since(self, seq: int) -> list[T]:
        """Returns the entries after this record, oldest first. Takes time proportional to their number."""
        return self._items[bisect_right(self._seqs, seq, self._start) :]  # type: ignore[return-value]

    def __len__(self) -> int:
        return len(self._items) - self._start

    def __iter__(self) -> Iterator[T]:
        return iter(self._items[self._start :])  # type: ignore[arg-type]

    def __reversed__(self) -> Iterator[T]:
        for at in range(len(self._items) - 1, self._start - 1, -1):
            yield self._items[at]  # type: ignore[misc]

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:  # The usual page of a list: do not copy the rest.
                return self._items[self._start + start : self._start + max(start, stop)]  # type: ignore[return-value]
            return list(self)[index]
        if not -len(self) <= index < len(self):
            raise IndexError(f"There are {len(self)} entries; {index} is out of range")
        return self._items[index + (self._start if index >= 0 else len(self._items))]  # type: ignore[return-value]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ring):
            return NotImplemented
        return self.total == other.total and self.bytes == other.bytes and list(self) == list(other)  # pyright: ignore[reportUnknownArgumentType]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Ring of {len(self)}, {self.dropped} dropped>"
