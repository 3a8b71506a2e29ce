"""`tidings inspect` as a process: its address, its end, and what it refuses."""

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import httpx2
import psutil
import pytest

from tidings._kit.process import can_open_browser
from tidings.inspector.http.serve import Assets, delete_redirect, make_redirect

SERVER = """
import json, sys

RESULTS = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "sample", "version": "1"}},
    "tools/list": {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = RESULTS.get(asked["method"])
        answer = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environ = {**os.environ, "XDG_CONFIG_HOME": str(folder), "XDG_STATE_HOME": str(folder), "HOME": str(folder)}
    command = [sys.executable, "-m", "tidings", "inspect", "--no-browser", *arguments]
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def entered(process: subprocess.Popen[str]) -> httpx2.Client:
    assert process.stdout is not None
    base, _, token = process.stdout.readline().strip().partition("/#token=")
    client = httpx2.Client(base_url=base, headers={"X-Tidings": "1"}, timeout=60, trust_env=False)
    client.headers["X-Tidings"] = client.post("/api/enter", json={"token": token}).json()["key"]
    return client


def connected(client: httpx2.Client) -> int:
    """The process of the server, once it is connected."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if client.get("/api/hello").json()["ready"]:
            (server,) = client.get("/api/snapshot").json()["servers"]
            if server["state"] == "connected" and server["pid"]:
                return server["pid"]
        time.sleep(0.05)
    raise AssertionError("not connected")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_prints_one_line_and_ends_with_its_servers(tmp_path: Path, number: int) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    process = start(tmp_path, f"{sys.executable} {script}")
    try:
        with closing(entered(process)) as client:
            pid = connected(client)
            assert client.get("/").status_code in (200, 503)
            command_lines = [" ".join(each.cmdline()) for each in psutil.Process(process.pid).children(recursive=True)]
            assert not any("token" in line for line in command_lines)
            process.send_signal(number)
            output, errors = process.communicate(timeout=30)
        assert process.returncode == 0
        assert output == errors == ""
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    finally:
        process.kill()


def test_a_port_that_is_in_use_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start(tmp_path, "--port", str(port))
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert output == ""
    assert f"Port {port} of 127.0.0.1 is in use" in errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense-that-is-no-program"], "is not a known server or program"),
        (["127.0.0.1:8000"], "Did you mean http://127.0.0.1:8000?"),
        (["--catalog", "/nowhere/at/all.json"], "There is no folder"),
    ],
)
def test_what_cannot_be_inspected_is_told_at_once(tmp_path: Path, arguments: list[str], words: str) -> None:
    process = start(tmp_path, *arguments)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert words in errors


def test_the_redirect_is_for_its_user_alone_and_leads_to_the_page() -> None:
    redirect = make_redirect("http://127.0.0.1:1/#token=a&b")
    try:
        assert stat.S_IMODE(redirect.stat().st_mode) == 0o600
        assert "url=http://127.0.0.1:1/#token=a&amp;b" in redirect.read_text()
    finally:
        delete_redirect(redirect)
    assert not redirect.exists()
    delete_redirect(redirect)


def test_a_browser_is_opened_only_where_there_is_a_screen() -> None:
    assert not can_open_browser({}, "linux")
    assert can_open_browser({"DISPLAY": ":0"}, "linux")
    assert can_open_browser({}, "darwin")


@pytest.mark.anyio
async def test_a_page_that_was_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    from starlette.requests import Request

    response = await Assets(tmp_path).serve(Request({"type": "http", "headers": []}))
    assert response.status_code == 503
    assert b"make ui" in response.body


@pytest.mark.anyio
async def test_the_built_page_is_sent_as_the_browser_likes_it(tmp_path: Path) -> None:
    from starlette.requests import Request

    (tmp_path / "assets").mkdir()
    for name, body in (("index.html", b"page"), ("assets/a-1.js", b"code"), ("assets/a-1.js.br", b"small")):
        (tmp_path / name).write_bytes(body)
    assets = Assets(tmp_path)
    scope = {"type": "http", "headers": [(b"accept-encoding", b"gzip, br")], "path_params": {"name": "a-1.js"}}
    response = await assets.serve(Request(scope))
    assert response.body == b"small"
    assert response.headers["content-encoding"] == "br"
    assert response.headers["content-type"].startswith("text/javascript")
    assert "immutable" in response.headers["cache-control"]
    page = await assets.serve(Request({"type": "http", "headers": []}))
    assert page.body == b"page"
    assert page.headers["cache-control"] == "no-cache"


def test_the_page_is_served_without_the_sdk() -> None:
    heavy = "('mcp', 'mcp_types', 'pydantic')"
    code = f"import sys, tidings.inspector.http.serve; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"
