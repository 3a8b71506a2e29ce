"""A session that is recorded into a file is one that the inspector can import, without secrets."""

import stat
from pathlib import Path

import anyio
import pytest

from tests.client.bad_servers import LEGACY, behaved, web
from tidings import connect
from tidings.client.targets import parse_target
from tidings.inspector import session_file
from tidings.inspector.session_file import SessionFile
from tidings.inspector.sessions.saved import import_session
from tidings.inspector.view.fold import replay

pytestmark = pytest.mark.anyio


async def test_a_session_is_recorded_as_the_inspector_would(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    file = SessionFile(path)
    with anyio.fail_after(30):
        async with web(behaved(LEGACY)) as site:
            for _ in range(2):
                target = parse_target(site.url, token="hush-hush")
                tap, seen = file.observe("site", target)
                client = connect(site.url, token="hush-hush", tap=tap)
                seen(client)
                async with client:
                    await client.call_tool("tool", {"text": "hush-hush"})
    file.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "hush-hush" not in path.read_text()
    imported = import_session(path)
    assert not imported.problems
    servers = replay(imported.records).servers
    assert list(servers) == ["site", "site (2)"]
    for view in servers.values():
        assert "tools/call" in [request.method for request in view.requests.values()]


async def test_a_file_that_is_full_grows_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_file, "_MOST_BYTES", 2_000)
    file = SessionFile(tmp_path / "session.jsonl")
    with anyio.fail_after(30):
        async with web(behaved(LEGACY)) as site:
            tap, seen = file.observe("site", parse_target(site.url))
            client = connect(site.url, tap=tap)
            seen(client)
            async with client:
                await client.call_tool("tool")
    file.close()
    assert (tmp_path / "session.jsonl").stat().st_size <= 2_000
    assert not import_session(tmp_path / "session.jsonl").problems
