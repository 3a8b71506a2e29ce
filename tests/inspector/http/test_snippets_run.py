"""What is copied for a shell does what it says, in both eras."""

import asyncio
import shutil
from typing import Any

import anyio
import pytest

from tests.inspector.http.page import PATIENCE, opened
from tests.inspector.http.sample import sample
from tests.server.serving import live

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("curl") is None or shutil.which("bash") is None, reason="There is no curl here."),
]
ASKED: list[tuple[dict[str, Any], str]] = [
    ({"kind": "call", "tool": "add", "arguments": {"a": 40, "b": 2}}, '"total":42'),
    ({"kind": "read", "uri": "note://one"}, '"text":"one\\ntwo\\n"'),
    ({"kind": "prompt", "name": "greet", "arguments": {"name": "Ada O'Hara"}}, "Greet Ada O'Hara."),
    ({"kind": "request", "method": "tools/list", "params": {}}, '"name":"add"'),
]


async def _run(script: str) -> str:
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", script, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    with anyio.fail_after(PATIENCE):
        output, _ = await process.communicate()
    return output.decode()


@pytest.mark.parametrize("era", ["auto", "legacy"], ids=["modern", "legacy"])
async def test_what_is_copied_as_curl_is_answered(era: str) -> None:
    server, _ = sample()
    async with live(server) as port, opened() as page:
        await page.post("/api/catalog", {"name": "s", "url": f"http://127.0.0.1:{port}/mcp", "tidings": {"era": era}})
        view = page.session.servers["s"].view
        await page.post("/api/servers/s/connect")
        await page.until(lambda: view.state == "connected")
        for asked, answer in ASKED:
            script = (await page.post("/api/snippet", {"server": "s", "as": "curl", **asked}))["text"]
            assert answer in (await _run(script)).replace('": ', '":'), asked["kind"]
