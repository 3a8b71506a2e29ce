"""Seals: opaque, unforgeable, and shared by all who use the same bus."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.bus import StoredRecord
from tidings.bus.memory import MemoryBus
from tidings.errors import BusUnavailable
from tidings.server import seals as module
from tidings.server.seals import Seals

pytestmark = pytest.mark.anyio


class AwayRecords:
    """Records that can be away, or lose an answer."""

    def __init__(self) -> None:
        self.there = MemoryBus().records
        self.away = False
        self.loses_answers = False
        self.asked = 0

    async def get(self, key: str) -> StoredRecord | None:
        self._ask()
        return await self.there.get(key)

    async def put(self, key: str, value: bytes, *, seconds: float, revision: int | None = None) -> StoredRecord | None:
        self._ask()
        record = await self.there.put(key, value, seconds=seconds, revision=revision)
        if self.loses_answers:
            raise BusUnavailable("The broker did not answer.")
        return record

    async def delete(self, key: str) -> None:
        await self.there.delete(key)

    def _ask(self) -> None:
        self.asked += 1
        if self.away:
            raise BusUnavailable("The broker is away.")


async def shared(records: Any) -> Seals:
    seals = Seals(records)
    await seals.share_key()
    return seals


@given(content=st.text(alphabet=st.characters(exclude_categories=["Cs"])), purpose=st.sampled_from(["cursor", "task"]))
async def test_what_was_sealed_is_opened(content: str, purpose: str) -> None:
    seals = Seals(None)
    assert await seals.open(purpose, seals.seal(purpose, content)) == content


async def test_a_seal_opens_for_its_purpose_only() -> None:
    seals = Seals(None)
    text = seals.seal("task ada", "7")
    assert await seals.open("task eve", text) is None
    assert await seals.open("task ada", text) == "7"


async def test_two_seals_have_the_same_length_and_nothing_else_in_common() -> None:
    seals = Seals(None)
    texts = [seals.seal("cursor", f"epoch:{number // 2:019}") for number in range(400)]
    assert len(set(texts)) == 400
    assert len({len(text) for text in texts}) == 1
    # Each byte of a good seal is as good as random: none is the same in most of them.
    for column in zip(*(base64.urlsafe_b64decode(text + "==") for text in texts), strict=True):
        assert max(column.count(byte) for byte in set(column)) < 40


async def test_a_seal_that_was_changed_anywhere_is_none() -> None:
    seals = Seals(None)
    sealed = base64.urlsafe_b64decode(seals.seal("cursor", "epoch:0000000000000000007") + "==")
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        assert await seals.open("cursor", base64.urlsafe_b64encode(changed).decode()) is None
        assert await seals.open("cursor", base64.urlsafe_b64encode(sealed[:place]).decode()) is None


@pytest.mark.parametrize("text", ["", "a", "=", "epoch:7", "é", "\ud800", "\0", "x" * 100_000, "AAAA" * 30])
async def test_what_is_no_seal_is_none(text: str) -> None:
    assert await Seals(None).open("cursor", text) is None


async def test_all_who_use_the_same_bus_have_one_key_whoever_came_first() -> None:
    records = MemoryBus().records
    first, second = await shared(records), await shared(records)
    assert await second.open("cursor", first.seal("cursor", "a")) == "a"
    assert await first.open("cursor", second.seal("cursor", "b")) == "b"
    assert await Seals(None).open("cursor", first.seal("cursor", "a")) is None


async def test_the_key_outlasts_every_session() -> None:
    now = 0.0
    records = MemoryBus(clock=lambda: now).records
    text = (await shared(records)).seal("cursor", "a")
    now += 20 * 365 * 86_400.0
    assert await (await shared(records)).open("cursor", text) == "a"


async def test_a_key_that_is_lost_takes_its_seals_with_it_and_the_next_is_shared_again() -> None:
    records = MemoryBus().records
    text = (await shared(records)).seal("cursor", "a")
    await records.delete("key/seals")
    later, last = await shared(records), await shared(records)
    assert await later.open("cursor", text) is None
    assert await last.open("cursor", later.seal("cursor", "b")) == "b"


@pytest.mark.parametrize("value", [b"", b"short", b"x" * 33])
async def test_a_record_that_is_no_key_is_left_alone(value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    records = MemoryBus().records
    await records.put("key/seals", value, seconds=60)
    seals = await shared(records)
    assert await seals.open("cursor", seals.seal("cursor", "a")) == "a"
    assert "Other replicas cannot read what this one encrypts" in caplog.text


async def test_while_the_bus_is_away_a_process_reads_its_own_seals_and_later_those_of_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    records = AwayRecords()
    other = await shared(records)
    records.away = True
    seals = await shared(records)
    assert "Other replicas cannot read what this one encrypts" in caplog.text
    assert await seals.open("cursor", seals.seal("cursor", "mine")) == "mine"
    theirs = other.seal("cursor", "theirs")
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.0)
    assert await seals.open("cursor", theirs) is None
    records.away = False
    assert await seals.open("cursor", theirs) == "theirs"
    assert caplog.text.count("Other replicas cannot read") == 1


async def test_texts_that_are_no_seals_do_not_make_it_ask_the_bus_each_time() -> None:
    records = AwayRecords()
    seals = await shared(records)
    asked = records.asked
    for number in range(100):
        assert await seals.open("cursor", f"made up {number}") is None
    assert records.asked == asked


async def test_a_key_whose_answer_was_lost_is_the_key_of_the_others() -> None:
    records = AwayRecords()
    records.loses_answers = True
    first = await shared(records)
    records.loses_answers = False
    assert await (await shared(records)).open("cursor", first.seal("cursor", "a")) == "a"
