"""The measurements are only worth something if they notice what is lost."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import fanout, wire
from benchmarks.lab import DeliveryLost, Lab, Size
from benchmarks.report import Row, Target, all_met, table

URI = "bench://shared"


def stream_of(*messages: dict[str, object], newline: bytes = b"\r\n") -> bytes:
    """An event stream, each message a chunk of its own, with a ping at the end."""
    events = [b"event: message%sdata: %s%s" % (newline, json.dumps(m).encode(), newline * 2) for m in messages]
    return b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in [*events, b": ping" + newline * 2])


@given(st.lists(st.integers(min_value=0, max_value=400), max_size=8), st.sampled_from([b"\n", b"\r\n"]))
def test_messages_are_read_however_the_network_cuts_them(cuts: list[int], newline: bytes) -> None:
    messages: list[dict[str, object]] = [{"method": "a", "params": {"n": 1}}, {"method": "b"}, {"result": {}}]
    data = stream_of(*messages, newline=newline) + b"0\r\n\r\n"
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    chunks, frames = wire.Chunks(), wire.Frames()
    read = [
        message
        for start, end in itertools.pairwise(edges)
        for payload in chunks.feed(data[start:end])
        for message in frames.feed(payload)
    ]
    assert read == messages
    assert chunks.ended


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_every_delivery_is_counted_on_every_stream(era: str) -> None:
    with Lab(Size()) as lab, lab.serve("floor") as subject:
        subject.open(era, [[URI], [URI], [URI, "bench://other"]])
        subject.publish_one(URI, 3)
        subject.publish_one("bench://other", 1)
        subject.check()


def test_a_delivery_that_nobody_expected_fails_the_run() -> None:
    with Lab(Size()) as lab, lab.serve("floor") as subject:
        subject.open("modern", [[URI]])
        subject.publish_one(URI, 1)
        subject.server.ask("publish", uris=[URI])
        lab.reader.ask("settle", group=subject.name, quiet=0.2)
        with pytest.raises(DeliveryLost):
            subject.check()


def test_a_subscription_that_missed_the_last_change_is_stale() -> None:
    with Lab(Size()) as lab, lab.serve("floor") as subject:
        subject.open("modern", [[URI]])
        changed = subject.server.ask("publish", uris=[URI])["changed"]
        subject.expected = 1
        lab.reader.ask("reach", group=subject.name, goal=1)
        assert lab.reader.ask("freshness", group=subject.name, published=changed)["stale"] == 0
        missed = {URI: changed[URI] + 3600}
        assert lab.reader.ask("freshness", group=subject.name, published=missed)["stale"] == 1


def test_a_missed_target_is_shown_and_fails_the_run() -> None:
    good = Row("part", "good", value=8.0, target=Target(7, "least"))
    bad = Row("part", "bad", value=1.3, target=Target(1.2, "most"))
    assert all_met([good, Row("part", "no target")])
    assert not all_met([good, bad])
    assert "MISSED" in table([good, bad])


@pytest.mark.thorough
def test_a_part_runs_from_the_command_line(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.json"
    code = fanout.main(["--quick", "--only", "deliveries", "--streams", "5", "--events", "1", "--json", str(file)])
    rows = json.loads(file.read_text())
    assert code in {0, 1}
    assert {row["part"] for row in rows} == {"deliveries"}
    assert "modern era, 5 streams" in capsys.readouterr().out
