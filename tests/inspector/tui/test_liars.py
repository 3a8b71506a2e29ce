"""A server that says strange things: every tab shows what it can, and nothing breaks."""

from typing import Any

import pytest

from tests.inspector.tui.inspector import Told, inspector, opened, screen
from tidings.inspector.tui.frame import TABS

pytestmark = pytest.mark.anyio


def deep(levels: int = 5_000) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


async def liar() -> Told:
    told = Told()
    await told.add("liar", url="http://127.0.0.1:1/mcp")
    told.record("liar", "state", state="connected")
    told.record("liar", "hello", transport=7, protocol_version=["x"], server_info="?", capabilities=[])
    tools: list[dict[str, Any]] = [
        {"name": "\x1b[31mred\x07", "description": {"not": "text"}, "inputSchema": "no schema", "annotations": 5},
        {"name": "", "inputSchema": {"type": "object", "properties": [1, 2]}, "title": 9},
        {"name": "deep", "inputSchema": {"type": "object", "properties": {"x": {"default": deep(50)}}}},
        {"name": "self", "inputSchema": {"$ref": "#"}},
    ]
    told.record("liar", "list", list="tools", added=tools, total=-5)
    resources = [
        {"uri": uri, "size": "big", "mimeType": 3} for uri in ("a://", "a:///x", "a:///", "\u202e", "a://x", "a://x/")
    ]
    told.record("liar", "list", list="resources", added=resources)
    told.record("liar", "list", list="templates", added=[{"uriTemplate": "{{{+}}{?}" + "{+x}" * 50}])
    told.record("liar", "list", list="prompts", added=[{"name": "p", "arguments": {"not": "a list"}}])
    told.record("liar", "subscriptions", uris=["a://", "unlisted://x"])
    for contents in (
        [],
        [{"uri": "a://", "blob": "%%%"}],
        {"cut": True, "size": 10**9, "head": "x"},
        [{"text": "\x1b]0;title\x07"}],
    ):
        told.record("liar", "content", uri="a://", hash=repr(contents), contents=contents, size=3)
    told.record("liar", "change", change="no such change", uri=None)
    told.record("liar", "change", change="resource-updated", uri="a://", times={"source": 1e300, "received": 0})
    told.record("liar", "message", incoming=True, body={"id": {}, "method": 5, "params": deep()}, size=-1)
    told.record("liar", "log", level="LOUD", logger=8, data=deep())
    told.record("liar", "stderr", text="\x1b[2J\x1b[H")
    told.record("liar", "notification", method="\r\n", params=deep())
    told.record(
        "liar",
        "request",
        id="r",
        method="tools/call",
        params={"name": 5, "arguments": deep()},
        status="completed",
        result=deep(),
        created_at=1e18,
    )
    told.record("liar", "request", id="s", method="x", status="unheard of", error={"message": deep(3)})
    told.record(
        "liar", "question", id="q", kind="riddle", params={"messages": "none", "requestedSchema": 3}, message="?\x1b[0m"
    )
    return told


async def test_every_row_of_every_tab_can_be_looked_at() -> None:
    async with opened(await liar(), size=(100, 24)) as pilot:
        for tab in "1234567":
            await pilot.press(tab)
            for key in ("j", "j", "j", "j", "j", "enter", "escape", "s", "v", "k"):
                await pilot.press(key)
                inspector(pilot).touch()
                inspector(pilot).tick()
            assert inspector(pilot).tab == TABS[int(tab) - 1]
            assert "\x1b" not in screen(pilot)
            assert "\u202e" not in screen(pilot)


async def test_refusing_a_question_without_a_connection_breaks_nothing() -> None:
    async with opened(await liar()) as pilot:
        await pilot.press("a", "ctrl+x")
        assert "riddle" in screen(pilot)
