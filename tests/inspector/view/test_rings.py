"""A ring keeps the newest, and counts the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.inspector.view.rings import Ring


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3000)), max_size=60), st.integers(1, 20))
def test_a_ring_is_the_end_of_a_list(told: list[tuple[int, int]], most: int) -> None:
    ring: Ring[int] = Ring(most, 5_000)
    seqs: list[int] = []
    sizes: list[int] = []
    seq = 0
    for step, size in told:
        seq += step
        seqs.append(seq)
        sizes.append(size + 200)
        ring.append(seq, seq, size)
        kept = seqs[len(seqs) - len(ring) :]
        assert list(ring) == kept
        assert 1 <= len(ring) <= most
        assert ring.bytes == sum(sizes[len(seqs) - len(ring) :])
        assert ring.bytes <= 5_000 or len(ring) == 1
        assert ring.total == len(seqs)
        assert ring.dropped == len(seqs) - len(kept)
        assert ring.last == seq
        assert list(reversed(ring)) == kept[::-1]
        for asked in {seq - 7, seq - 1, seq, kept[0] - 1}:
            assert ring.since(asked) == [each for each in kept if each > asked]
            assert ring.get(asked) == (asked if asked in kept else None)
        assert ring[0] == kept[0]
        assert ring[-1] == kept[-1]
        assert ring[1:3] == kept[1:3]
        assert ring[::-1] == kept[::-1]


def test_many_are_dropped_without_being_kept_in_the_dark() -> None:
    ring: Ring[int] = Ring(100)
    for seq in range(100_000):
        ring.append(seq, seq)
    assert len(ring._items) < 2_000
    assert ring.dropped == 99_900
    assert ring.get(99_950) == 99_950


def test_an_empty_ring_has_nothing() -> None:
    ring: Ring[int] = Ring(3)
    assert ring.last is None
    assert ring.drop_oldest() == 0
    with pytest.raises(IndexError, match="0 entries"):
        ring[0]
    ring.append(1, 1)
    ring.append(2, 2)
    assert ring.drop_oldest() > 0
    assert list(ring) == [2]
    ring.clear()
    assert (len(ring), ring.total, ring.dropped) == (0, 2, 2)
    assert repr(ring) == "<Ring of 0, 2 dropped>"
    assert ring != [2]


def test_a_ring_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="room for one"):
        Ring(0)
