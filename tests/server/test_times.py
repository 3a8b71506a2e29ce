"""When a change happened and was published is told with it, by the process that published it."""

import json
from typing import Any

import pytest

from tidings.changes import TIMES_KEY, Cursor, ResourceUpdated, ToolsListChanged
from tidings.server import LiveServer
from tidings.server.notify import Times
from tidings.server.subscriber import FRAME_END, Frame

NOTE = ResourceUpdated("note://a")
pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_change_is_told_with_when_it_was_published_and_when_it_happened() -> None:
    times = Times(Clock())

    times.happened(NOTE, 99.5)
    times.publishing(NOTE)

    assert times.take(NOTE) == {TIMES_KEY: {"published": 100.0, "source": 99.5}}
    assert times.take(NOTE) is None


def test_of_changes_that_are_merged_the_first_is_told() -> None:
    times = Times(Clock())

    times.happened(NOTE, 98.0)
    times.happened(NOTE, 99.0)
    times.publishing(NOTE)

    assert times.take(NOTE) == {TIMES_KEY: {"published": 100.0, "source": 98.0}}


def test_a_change_from_another_replica_has_no_times() -> None:
    assert Times(Clock()).take(ToolsListChanged()) is None


def test_what_never_comes_back_takes_no_memory() -> None:
    times = Times(Clock())

    for number in range(30_000):
        change = ResourceUpdated(f"note://{number}")
        times.happened(change, 1.0)
        times.publishing(change)

    assert times.take(ResourceUpdated("note://0")) is None
    assert times.take(ResourceUpdated("note://29999")) is not None


@pytest.mark.parametrize("cursor", [None, "log:7"])
def test_a_frame_carries_the_times_in_both_eras(cursor: str | None) -> None:
    frame = Frame(Cursor("log", 7), NOTE, cursor, {TIMES_KEY: {"published": 2.5, "source": 1.25}})

    messages: list[dict[str, Any]] = [
        json.loads(frame.legacy.removeprefix(b"data: ")),
        json.loads((frame.modern + b"1" + FRAME_END).removeprefix(b"data: ")),
    ]
    for message in messages:
        assert message["params"]["_meta"][TIMES_KEY] == {"published": 2.5, "source": 1.25}
    assert frame.params()["_meta"][TIMES_KEY] == {"published": 2.5, "source": 1.25}


async def test_a_server_tells_when_its_source_changed() -> None:
    server: LiveServer[None] = LiveServer("clock")
    frames: list[Frame] = []
    async with server._live.running():
        server._live._core.hub.deliver = lambda frame: frames.append(frame) or 0
        await server.notify.resource_updated("note://a", changed_at=42.0)

    [frame] = frames
    assert frame.params()["_meta"][TIMES_KEY]["source"] == 42.0
    assert frame.params()["_meta"][TIMES_KEY]["published"] > 42.0
