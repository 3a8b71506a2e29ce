"""`tidings bridge` as people and clients meet it."""

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner, Result

import tidings
from tests.ports import free_port
from tidings._kit.lazy import install_command
from tidings.cli.main import main
from tidings.client import Backoff, ClientConfig

pytestmark = pytest.mark.anyio

SERVER = """
import sys
from pathlib import Path
from mcp.server.mcpserver import MCPServer
mcp = MCPServer("files")
@mcp.tool(annotations={"readOnlyHint": True})
def read_file(path: str) -> str:
    return Path(path).read_text()
mcp.run()
"""


@pytest.fixture
def server(tmp_path: Path) -> str:
    """The command of a server that reads files, and tells of nothing."""
    program = tmp_path / "files.py"
    program.write_text(SERVER)
    return shlex.join([sys.executable, str(program)])


def bridge(*args: object) -> Result:
    return CliRunner().invoke(main, ["bridge", *map(str, args)], prog_name="tidings", env={"TIDINGS_TOKEN": None})


def refused(*args: object) -> str:
    result = bridge(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr


def command(*args: object) -> list[str]:
    return [sys.executable, "-m", "tidings", "bridge", *map(str, args)]


def test_mistakes_are_explained(tmp_path: Path, server: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {\n"a": {"command": 1},\n"b": {}}}')
    assert "TARGET is missing" in refused()
    lines = refused(file).splitlines()
    assert "line 2" in lines[0]
    assert "line 3" in lines[1]
    assert "no file" in refused(tmp_path / "none.json")
    assert "--interval: 'soon' is not a duration" in refused(server, "--interval", "soon")
    assert "--poll: 'never' is not a duration" in refused(server, "--poll", "file:///*=never")
    for wrong in ("30s", "=30s"):
        assert f"--poll: {wrong!r} is not a pattern with a time" in refused(server, "--poll", wrong)
    assert "not a call to watch" in refused(server, "--watch", "tool:x oops")
    assert "exclude each other" in refused(server, "--http", "--pass-token", "--token", "x")
    assert "Other machines can reach" in refused(server, "--http", "0.0.0.0:8000")


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    assert f"platformdirs): {install_command('bridge')}" in refused(server)


def test_a_snippet_has_every_option_and_absolute_paths(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mcp.json").write_text('{"mcpServers": {"a": {"command": "a"}}}')
    options = ["--watch", "tool:files_read_file path=/a every=1m", "--interval", "10s", "--deny", "write_*", "--hints"]
    result = bridge(server, "mcp.json", *options, "--record", "session.jsonl", "--config", "claude-desktop")
    assert result.exit_code == 0, result.stderr
    (entry,) = json.loads(result.stdout)["mcpServers"].values()
    recording = ["--record", str(tmp_path / "session.jsonl")]
    assert entry["args"] == ["bridge", server, str(tmp_path / "mcp.json"), *options, *recording]


async def test_a_session_is_recorded_for_the_inspector_and_for_a_mock(server: str, tmp_path: Path) -> None:
    note, session = tmp_path / "note.txt", tmp_path / "session.jsonl"
    note.write_text("one")
    with anyio.fail_after(60):
        async with tidings.connect(command(server, "--record", session, "--bus", "memory:")) as client:
            await client.call_tool("read_file", {"path": str(note)})
    note.unlink()
    with anyio.fail_after(60):
        async with tidings.connect([sys.executable, "-m", "tidings", "mock", str(session)]) as client:
            assert "one" in str((await client.call_tool("read_file", {"path": str(note)})).result)
    assert "cannot be written" in refused(server, "--record", tmp_path / "none" / "session.jsonl")


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_silent_server_becomes_watchable_over_stdio(server: str, tmp_path: Path, era: str) -> None:
    file = tmp_path / "note.txt"
    file.write_text("one")
    uri = f"call://files/read_file?path={str(file).replace('/', '%2F')}"
    with anyio.fail_after(60):
        async with tidings.connect(
            command(server, "--watch", f"tool:read_file path={file} every=100ms"), era=era
        ) as client:
            assert uri in [str(each.uri) for each in client.resources]
            async for read in client.watch(uri):
                if "two" in read.text:
                    break
                file.write_text("two")


async def test_a_file_of_servers_is_followed(server: str, tmp_path: Path) -> None:
    words = shlex.split(server)
    entry = {"command": words[0], "args": words[1:]}
    file, port = tmp_path / "mcp.json", free_port()
    file.write_text(json.dumps({"mcpServers": {"one": entry}}))
    process = subprocess.Popen(command(file, "--http", f"127.0.0.1:{port}"), stderr=subprocess.PIPE)  # noqa: ASYNC220
    try:
        with anyio.fail_after(60):
            patient = ClientConfig(backoff=Backoff(tries=None))
            async with tidings.connect(f"http://127.0.0.1:{port}/mcp", config=patient) as client:
                assert "one_read_file" in [tool.name for tool in client.tools]
                file.write_text("{")  # Changes nothing.
                assert process.stderr is not None
                lines = iter(process.stderr.readline, b"")
                await anyio.to_thread.run_sync(lambda: next(line for line in lines if b"stay as they are" in line))
                file.write_text(json.dumps({"mcpServers": {"one": entry, "two": entry}}))
                while "two_read_file" not in [tool.name for tool in client.tools]:  # noqa: ASYNC110 - seen from outside
                    await anyio.sleep(0.05)
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert b"Traceback" not in errors
