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
    assert Frame(CURSOR, ResourceUpdated("note://a")).legacy == snapshot(
        b'data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note://a","_meta":{"dev.tidings/cursor":"4f1c:7"}}}\r\n\r\n'
    )


def test_an_updated_resource_in_the_modern_era() -> None:
    frame = Frame(CURSOR, ResourceUpdated("note://a"))
    assert modern(frame, 3) == snapshot(
        b'data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note://a","_meta":{"dev.tidings/cursor":"4f1c:7","io.modelcontextprotocol/subscriptionId":3}}}\r\n\r\n'
    )


def test_a_changed_list_in_the_old_era() -> None:
    assert data_of(Frame(CURSOR, ToolsListChanged()).legacy) == snapshot(
        {
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
            "params": {"_meta": {"dev.tidings/cursor": "4f1c:7"}},
        }
    )


def test_a_changed_list_in_the_modern_era() -> None:
    assert data_of(modern(Frame(CURSOR, PromptsListChanged()), "listen-1")) == snapshot(
        {
            "jsonrpc": "2.0",
            "method": "notifications/prompts/list_changed",
            "params": {"_meta": {"dev.tidings/cursor": "4f1c:7", "io.modelcontextprotocol/subscriptionId": "listen-1"}},
        }
    )


@every_change
def test_the_sdk_reads_an_old_era_frame_as_the_change_that_it_was(change: Change) -> None:
    message = data_of(Frame(CURSOR, change).legacy)
    assert_understood(message, change)
    assert message["params"]["_meta"] == {CURSOR_KEY: "4f1c:7"}


@every_change
@pytest.mark.parametrize("request_id", [0, -1, 2**53, "", "1", 'a "quoted" \\ one', "🎈å\u2028\r\n"], ids=ascii)
def test_the_sdk_reads_a_modern_frame_as_the_change_that_it_was(change: Change, request_id: int | str) -> None:
    message = data_of(modern(Frame(CURSOR, change), request_id))
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
    frame = Frame(Cursor(epoch, version), ResourceUpdated(uri))
    for event in (frame.legacy, modern(frame, request_id)):
        params = data_of(event)["params"]
        assert params["uri"] == uri
        assert params["_meta"][CURSOR_KEY] == f"{epoch}:{version}"
    assert params["_meta"][SUBSCRIPTION_ID_META_KEY] == request_id


def test_a_frame_is_encoded_once_for_all() -> None:
    frame = Frame(CURSOR, ResourceUpdated("note://a"))
    assert frame.legacy is frame.legacy
    assert frame.legacy_chunk is frame.legacy_chunk
    assert frame.modern is frame.modern


def test_what_goes_through_the_sdks_session_says_the_same() -> None:
    frame = Frame(CURSOR, ResourceUpdated("note://a"))
    assert {"method": frame.method, "params": frame.params()}.items() <= data_of(frame.legacy).items()
    assert frame.params(**{SUBSCRIPTION_ID_META_KEY: 3}) == data_of(modern(frame, 3))["params"]


@given(st.lists(st.integers(0), unique=True))
def test_missed_frames_are_written_by_rising_version(versions: list[int]) -> None:
    reader = Reader()
    reader.replay(Frame(Cursor("log", version), ResourceUpdated(f"note://{version}")) for version in versions)
    reader.open()
    assert [frame.cursor.version for batch in reader.batches for frame in batch] == sorted(versions)
