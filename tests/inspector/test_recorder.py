"""The client's events become records."""

from collections.abc import Callable
from typing import Any, cast

from mcp_types import ReadResourceResult, TextResourceContents

from tidings.changes import ResourceUpdated, ToolsListChanged
from tidings.client.cache import ResourceRead
from tidings.client.events import ChangeReceived, ListLoaded, ReadCompleted
from tidings.client.live import LiveClient
from tidings.client.mirrors import Malformed
from tidings.client.queue import QueueEntry
from tidings.inspector.recorder import KnownServer, Recorder
from tidings.inspector.records import Record, SessionLimits
from tidings.inspector.view.view import ServerView


class Announcing:
    """A client that announces what a test tells it, and the records that follow."""

    transport = "http"

    def __init__(self, **limits: int) -> None:
        self.records: list[Record] = []
        self._handlers: dict[type, Callable[[Any], object]] = {}
        view = ServerView("it", limits=SessionLimits(**limits), clock=lambda: 50.0)
        Recorder(cast("LiveClient", self), KnownServer(self._record, view), lambda: "r1", lambda value: value)

    def on(self, kind: type, handler: Callable[[Any], object]) -> None:
        self._handlers[kind] = handler

    def _record(self, kind: str, data: dict[str, Any]) -> Record:
        self.records.append(Record(len(self.records) + 1, 1.0, "it", kind, data))
        return self.records[-1]

    def emit(self, event: Any) -> dict[str, Any]:
        self._handlers[type(event)](event)
        return self.records[-1].data


def read(text: str, change: ChangeReceived | None, changes: int) -> ReadCompleted:
    result = ReadResourceResult(contents=[TextResourceContents(uri="a://1", text=text)])
    entry = cast("QueueEntry", type("Entry", (), {"started_at": 10.0, "completed_at": 10.25}))
    return ReadCompleted(ResourceRead("a://1", result), entry, change, changes)


def test_a_change_has_its_times_and_the_content_that_answers_it_names_it() -> None:
    client = Announcing()
    first = ChangeReceived(ResourceUpdated("a://1"), 50.0, published=49.5, source=49.0, cursor="e:7")
    second = ChangeReceived(ResourceUpdated("a://1"), 50.1, unread=1)
    data = client.emit(first)
    assert (data["change"], data["uri"], data["cursor"]) == ("resource-updated", "a://1", "e:7")
    assert data["times"] == {"source": 49.0, "published": 49.5, "received": 50.0}
    assert client.emit(second)["merged"] == 1
    content = client.emit(read("new", second, 2))
    assert (content["change"], content["changes"], content["took"]) == (2, 2, 0.25)
    assert client.emit(read("new", None, 0))["change"] is None
    listed = client.emit(ChangeReceived(ToolsListChanged(), 51.0))
    assert (listed["change"], "uri" in listed) == ("tools-list-changed", False)


def test_a_list_is_recorded_by_its_differences_exactly_as_it_was_sent() -> None:
    client = Announcing()
    a, b, c = ({"name": name, "unknown": {"x": 1}} for name in "abc")
    assert client.emit(ListLoaded("tools", (a, b, a)))["added"] == [a, b]
    assert client.records[-1].data["duplicates"] == [a]
    data = client.emit(ListLoaded("tools", (c, {**b, "unknown": 2}), (Malformed({"name": 7}, "name: wrong"),)))
    assert (data["added"], data["changed"], data["removed"]) == ([c], [{"name": "b", "unknown": 2}], ["a"])
    assert (data["order"], data["total"], data["duplicates"]) == (["c", "b"], 2, [])
    assert data["malformed"] == [{"item": {"name": 7}, "reason": "name: wrong"}]


def test_an_item_that_is_too_large_is_cut() -> None:
    data = Announcing(record_bytes=100).emit(ListLoaded("tools", ({"name": "a", "description": "x" * 500},)))
    assert (data["added"][0]["name"], data["added"][0]["cut"]) == ("a", True)
