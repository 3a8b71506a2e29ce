"""What a change looks like on the wire, in both eras, and that the SDK understands it."""

import json
from typing import Any

import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY, event_from_wire
from pydantic import BaseModel

from tests.server.doubles import Reader
from tidings.changes import (
    CURSOR_KEY,
    Change,
    Cursor,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from tidings.server.config import Limits
from tidings.server.subscriber import FEATURES, FRAME_END, Frame

MODELS: dict[type[Change], type[BaseModel]] = {
    ResourceUpdated: mcp_types.ResourceUpdatedNotification,
    ToolsListChanged: mcp_types.ToolListChangedNotification,
    PromptsListChanged: mcp_types.PromptListChangedNotification,
    ResourcesListChanged: mcp_types.ResourceListChangedNotification,
}
CURSOR = Cursor("4f1c", 7)
CHANGES = [ResourceUpdated("note://å/\"'\\🎈"), ResourceUpdated("note://a"), *FEATURES.values()]

every_change = pytest.mark.parametrize("change", CHANGES, ids=repr)
request_ids = st.one_of(st.integers(), st.text())


def framed(change: Change) -> Frame:
    return Frame(CURSOR, change, str(CURSOR))


def modern(frame: Frame, request_id: int | str) -> bytes:
    """A frame as a listen stream writes it."""
    return frame.modern + json.dumps(request_id).encode() + FRAME_END


def data_of(event: bytes) -> Any:
    """The message in one server-sent event, read as the specification of those says."""
    head, end = b"data: ", b"\r\n\r\n"
    assert event.startswith(head)
    assert event.endswith(end)
    data = event[len(head) : -len(end)]
    assert b"\r" not in data
    assert b"\n" not in data
    return json.loads(data)


def test_an_updated_resource_in_the_old_era() -> None:
    assert framed(ResourceUpdated("note://a")).legacy == snapshot(
        b'data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note://a","_meta":{"dev.tidings/cursor":"4f1c:7"}}}\r\n\r\n'
    )


def test_an_updated_resource_in_the_modern_era() -> None:
    frame = framed(ResourceUpdated("note://a"))
    assert modern(frame, 3) == snapshot(
        b'data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note://a","_meta":{"dev.tidings/cursor":"4f1c:7","io.modelcontextprotocol/subscriptionId":3}}}\r\n\r\n'
    )


def test_a_changed_list_in_the_old_era() -> None:
    assert data_of(framed(ToolsListChanged()).legacy) == snapshot(
        {
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
            "params": {"_meta": {"dev.tidings/cursor": "4f1c:7"}},
        }
    )


def test_a_changed_list_in_the_modern_era() -> None:
    assert data_of(modern(framed(PromptsListChanged()), "listen-1")) == snapshot(
        {
            "jsonrpc": "2.0",
            "method": "notifications/prompts/list_changed",
            "params": {"_meta": {"dev.tidings/cursor": "4f1c:7", "io.modelcontextprotocol/subscriptionId": "listen-1"}},
        }
    )


@every_change
def test_the_sdk_reads_an_old_era_frame_as_the_change_that_it_was(change: Change) -> None:
    message = data_of(framed(change).legacy)
    assert_understood(message, change)
    assert message["params"]["_meta"] == {CURSOR_KEY: "4f1c:7"}


@every_change
@pytest.mark.parametrize("request_id", [0, -1, 2**53, "", "1", 'a "quoted" \\ one', "🎈å\u2028\r\n"], ids=ascii)
def test_the_sdk_reads_a_modern_frame_as_the_change_that_it_was(change: Change, request_id: int | str) -> None:
    message = data_of(modern(framed(change), request_id))
    assert_understood(message, change)
    assert message["params"]["_meta"] == {CURSOR_KEY: "4f1c:7", SUBSCRIPTION_ID_META_KEY: request_id}


def assert_understood(message: dict[str, Any], change: Change) -> None:
    mcp_types.JSONRPCNotification.model_validate(message)
    MODELS[type(change)].model_validate({"method": message["method"], "params": message["params"]})
    assert event_from_wire(message["method"], message["params"]) == change


@given(uri=st.text(), request_id=request_ids, epoch=st.text(), version=st.integers(0))
def test_whatever_the_texts_hold_a_frame_is_one_event_with_one_message(
    uri: str, request_id: int | str, epoch: str, version: int
) -> None:
    frame = Frame(CURSOR, ResourceUpdated(uri), str(Cursor(epoch, version)))
    for event in (frame.legacy, modern(frame, request_id)):
        params = data_of(event)["params"]
        assert params["uri"] == uri
        assert params["_meta"][CURSOR_KEY] == f"{epoch}:{version}"
    assert params["_meta"][SUBSCRIPTION_ID_META_KEY] == request_id


def test_a_frame_is_encoded_once_for_all() -> None:
    frame = framed(ResourceUpdated("note://a"))
    assert frame.legacy is frame.legacy
    assert frame.legacy_chunk is frame.legacy_chunk
    assert frame.modern is frame.modern


def test_what_goes_through_the_sdks_session_says_the_same() -> None:
    frame = framed(ResourceUpdated("note://a"))
    assert {"method": frame.method, "params": frame.params()}.items() <= data_of(frame.legacy).items()
    assert frame.params(**{SUBSCRIPTION_ID_META_KEY: 3}) == data_of(modern(frame, 3))["params"]


def frame(place: int, uri: str, cursor: int | None = None) -> Frame:
    return Frame(Cursor("log", place), ResourceUpdated(uri), str(Cursor("log", place if cursor is None else cursor)))


def written(reader: Reader) -> list[tuple[str, int, str | None]]:
    reader.open()
    frames = [frame for batch in reader.batches for frame in batch]
    return [(uri, frame.place.version, frame.cursor) for uri, frame in zip(reader.uris, frames, strict=True)]


def test_a_frame_says_up_to_where_its_reader_has_everything() -> None:
    assert data_of(frame(7, "note://a", cursor=4).legacy)["params"]["_meta"][CURSOR_KEY] == "log:4"


def test_missed_frames_come_before_those_that_have_come_since() -> None:
    reader = Reader("note://a", "note://b", "note://c")
    reader.deliver(frame(9, "note://c"))
    reader.replay([frame(2, "note://a"), frame(3, "note://b")])
    assert written(reader) == [("note://a", 2, "log:2"), ("note://b", 3, "log:3"), ("note://c", 9, "log:9")]


@pytest.mark.parametrize("place", [7, 9])
def test_a_missed_frame_gives_way_to_a_later_one_which_claims_no_more_than_its_own_cursor(place: int) -> None:
    """Something else is held back at 3, so that what is delivered meanwhile claims no more than 2."""
    before, after = Reader("note://a", "note://b"), Reader("note://a", "note://b")
    missed = [frame(5, "note://b"), frame(7, "note://a")]
    before.deliver(frame(place, "note://a", cursor=2))
    before.replay(missed)
    after.replay(missed)
    after.deliver(frame(place, "note://a", cursor=2))
    assert written(before) == written(after) == [("note://b", 5, "log:5"), ("note://a", place, "log:2")]


def test_a_cursor_of_a_lost_log_is_not_claimed() -> None:
    reader = Reader("note://a")
    reader.deliver(frame(7, "note://a"))
    reader.deliver(Frame(Cursor("another", 1), ResourceUpdated("note://a"), "another:1"))
    assert written(reader) == [("note://a", 1, "another:1")]


def test_whoever_is_told_of_everything_because_too_much_waits_has_the_cursor_of_the_last() -> None:
    reader = Reader("note://*", limits=Limits(backlog=2))
    reader.replay([frame(8, "note://a"), frame(9, "note://b")])
    reader.deliver(frame(10, "note://c", cursor=2))
    assert written(reader) == [("note://*", 10, "log:2")]
