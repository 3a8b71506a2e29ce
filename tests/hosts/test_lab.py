"""The parts of the host lab that need no host, and the page that it writes."""

import asyncio
import json
import re
import sys
from pathlib import Path

import httpx2 as httpx
import pytest

from tests.hosts.checks import CHECKS
from tests.hosts.model import Call, scripted_model
from tests.hosts.page import PAGE, replaced
from tests.hosts.programs import HOSTS
from tests.hosts.wire import Wire, relay, tapped

NOTIFICATION = "<task-notification><status>completed</status></task-notification>"
REQUESTS = {
    "/v1/messages": {"tools": [{"name": "mcp__vault__wait"}], "messages": [{"role": "user", "content": "{}"}]},
    "/v1/responses": {
        "tools": [{"type": "namespace", "name": "mcp__vault", "tools": [{"name": "wait"}]}],
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "{}"}]}],
    },
    "/v1/chat/completions": {
        "tools": [{"type": "function", "function": {"name": "vault_wait"}}],
        "messages": [{"role": "user", "content": "{}"}],
    },
    "/v1beta/models/any:generateContent": {
        "tools": [{"functionDeclarations": [{"name": "vault_wait"}]}],
        "contents": [{"role": "user", "parts": [{"text": "{}"}]}],
    },
}


@pytest.mark.anyio
@pytest.mark.parametrize("path", REQUESTS)
async def test_the_scripted_model_speaks_each_api(path: str) -> None:
    async with scripted_model() as model, httpx.AsyncClient() as client:
        model.plan["watch-it"] = [Call("wait", {"uri": "vault://x"})]

        async def answer(prompt: str) -> str:
            body = json.dumps(REQUESTS[path]).replace("{}", prompt)
            response = await client.post(f"http://127.0.0.1:{model.port}{path}", content=body)
            assert response.status_code == 200
            return response.text

        called = await answer("please watch-it now")
        assert "wait" in called
        assert "vault://x" in called
        assert "All right." in await answer("hello")
        await answer(NOTIFICATION)
        assert [asked.woken for asked in model.requests] == [False, False, True]
        assert [wake.news for wake in model.wakes] == [NOTIFICATION]


ECHO = """import json, sys
for line in sys.stdin:
    answer = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {"resultType": "task", "taskId": "t"}}
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.anyio
async def test_what_is_said_over_stdio_is_passed_on_and_recorded(tmp_path: Path) -> None:
    wire = Wire(tmp_path / "wire.jsonl")
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}})
    tap = await asyncio.create_subprocess_exec(
        *tapped(wire.log, [sys.executable, "-c", ECHO]), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await tap.communicate(f"{request}\n".encode())
    assert json.loads(printed)["id"] == 1
    ((asked, answered),) = wire.answers("tools/call")
    assert (asked.side, answered.side) == ("host", "server")
    assert wire.tasks() == ["t"]


@pytest.mark.anyio
async def test_what_is_said_over_http_is_passed_on_and_recorded(tmp_path: Path) -> None:
    wire = Wire(tmp_path / "wire.jsonl")
    body = {"messages": [], "method": "tasks/get", "params": {"taskId": "t"}}
    async with scripted_model() as model, relay(wire.log, model.port) as port, httpx.AsyncClient() as client:
        url = f"http://127.0.0.1:{port}/v1/messages"
        whole = await client.post(url, json=body, headers={"Mcp-Name": "t"})
        assert whole.json()["type"] == "message"
        await client.post(url, json={**body, "stream": True})
    first, second = wire.polls("t")
    assert first.headers["mcp-name"] == "t"
    answers = [message.body["type"] for message in wire.messages() if message.side == "server"]
    assert answers[0] == "message"
    assert answers[1:] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert second.at > first.at


def test_a_table_is_put_in_place_of_the_old_one() -> None:
    page = "a\n<!-- lab: x -->\nold\n<!-- lab: end of x -->\nb"
    assert replaced(page, "x", "new") == "a\n<!-- lab: x -->\n\nnew\n\n<!-- lab: end of x -->\nb"
    with pytest.raises(ValueError, match="no place for the lab's table of y"):
        replaced(page, "y", "new")


def test_the_page_is_of_the_pinned_versions_and_has_every_check() -> None:
    page = PAGE.read_text("utf-8")
    assert [host.name for host in HOSTS if f"| {host.name} {host.short_version} |" not in page] == []
    assert [check.title for check in CHECKS if f"| {check.title} |" not in page] == []
    assert re.search(r"^Tried on 20\d\d-\d\d-\d\d", page, re.MULTILINE)
