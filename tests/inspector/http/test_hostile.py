"""What others wrote, in files and names: it is taken as it is, or refused, and never at the cost of anything else."""

import ast
import asyncio
import difflib
import json
import math
import shlex
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest

from tests.inspector.http.page import PATIENCE, Page, finished, opened, plan_in
from tidings.inspector.http.api.saved_sessions import imported
from tidings.inspector.http.context import ApiProblem, SavedCalls, unknown
from tidings.inspector.http.serve import ServePlan
from tidings.inspector.records import Record
from tidings.inspector.sessions.journal import Journal
from tidings.inspector.sessions.saved import list_sessions, load_session

pytestmark = pytest.mark.anyio

HEADER = '{"tidings":"session","version":1}'
GOOD: dict[str, Any] = {"seq": 7, "at": 1.0, "server": "a", "kind": "server", "data": {}}


@pytest.fixture(scope="module")
async def page(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Page]:
    async with opened(plan_in(tmp_path_factory.mktemp("inspector"))) as page:
        yield page


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({**GOOD, "at": float("nan")}),
        json.dumps({**GOOD, "at": float("inf")}),
        json.dumps({**GOOD, "at": 10**400}),
        json.dumps({**GOOD, "seq": 2**70}),
        json.dumps({**GOOD, "server": "\ud800"}),
        json.dumps({**GOOD, "kind": "x\udfff"}),
        '{"seq": 1, "at": 1, "server": "a", "kind": "x", "data": {"a": ' + "[" * 100_000 + "]" * 100_000 + "}}",
        '{"seq": 1, "at": 1, "server": "a", "kind": "x", "data": {"a": ' + "9" * 5_000 + "}}",
    ],
    ids=["nan", "inf", "late", "high", "half-name", "half-kind", "deep", "long-number"],
)
def test_a_line_that_no_journal_can_keep_is_passed_over_and_the_journal_stays(tmp_path: Path, line: str) -> None:
    path = tmp_path / "sessions.db"
    assert Journal(path, title="mine").keep([Record(1, time.time(), "a", "server", {})]) == 1
    taken = imported(path, "\n".join((HEADER, line, json.dumps({**GOOD, "seq": 8}))), None)
    assert (taken["records"], taken["passed_over"], taken["notice"]) == (1, 1, None)
    assert taken["problems"][0].startswith("line 2: ")
    assert {each.title: (each.records, each.running) for each in list_sessions(path)} == {
        "mine": (1, False),
        "imported": (1, False),
    }
    assert not list(tmp_path.glob("*.broken*"))


# The larger number is more than may wait to be written.
@pytest.mark.parametrize("count", [12_000, pytest.param(210_000, marks=pytest.mark.thorough)])
def test_an_imported_session_is_kept_whole_however_long_it_is(tmp_path: Path, count: int) -> None:
    path = tmp_path / "sessions.db"
    # Each says that it is huge.
    lines = (json.dumps({**GOOD, "seq": number, "data": {"size": 2**40}}) for number in range(1, count + 1))
    taken = imported(path, "\n".join((HEADER, *lines)), "long")
    assert (taken["records"], taken["passed_over"]) == (count, 0)
    (session,) = list_sessions(path)
    assert (session.title, session.records, session.running) == ("long", count, False)


def test_an_imported_session_is_as_old_as_its_import(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    imported(path, f"{HEADER}\n{json.dumps(GOOD)}", "of 1970")
    Journal(path, title="later").keep([])
    assert {each.title for each in list_sessions(path)} == {"of 1970", "later"}
    assert len(load_session(path, 1)) == 1


def test_a_journal_that_somebody_is_busy_with_is_left_where_it_is(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "sessions.db"
    Journal(path, title="mine").keep([Record(1, time.time(), "a", "server", {})])
    monkeypatch.setattr("tidings.inspector.sessions.saved._TIMEOUT", 0.05)
    busy = sqlite3.connect(path, isolation_level=None)
    busy.execute("BEGIN EXCLUSIVE")
    journal = Journal(path)
    journal.open()
    assert journal.session is None
    assert "stayed locked by another process" in (journal.notice or "")
    journal.close()
    busy.execute("ROLLBACK")
    busy.close()
    assert [each.title for each in list_sessions(path)] == ["mine"]
    assert not list(tmp_path.glob("*.broken*"))


def test_a_record_that_cannot_be_written_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    records = [Record(number, float(number), "a", "log", {}) for number in range(1, 20)]
    records[4] = Record(5, float("nan"), "a", "log", {})
    records[9] = Record(10, 10.0, "\ud800", "log", {})
    records[10] = Record(2**70, 11.0, "a", "log", {})  # The first of its batch, after the one that cannot be written.
    journal = Journal(path)
    journal.open()
    for record in records:
        journal.put(record)
    journal.close()
    assert journal.notice is None
    found = load_session(path, 1)
    assert [record.seq for record in found] == [each for each in range(1, 20) if each not in (10, 11)]
    assert math.isnan(found[4].at)


SAVER = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tidings.inspector.http.context import SavedCalls
saved, name = SavedCalls(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()

def save(number):
    call = saved.add(f"{name}{number}", "s", "read", {})
    assert number % 3 or saved.remove(call["id"])

with ThreadPoolExecutor(4) as pool:
    list(pool.map(save, range(30)))
"""


def test_two_inspectors_that_save_and_delete_calls_at_the_same_time_lose_none(tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    savers = [subprocess.Popen([sys.executable, "-c", SAVER, str(path), name], **pipes) for name in "ab"]
    try:
        for saver in savers:
            assert saver.stdout is not None
            assert saver.stdout.readline() == "ready\n"
        for saver in savers:
            assert saver.stdin is not None
            saver.stdin.write("go\n")
            saver.stdin.flush()
        assert [saver.wait(PATIENCE) for saver in savers] == [0, 0]
    finally:
        for saver in savers:
            saver.kill()
            saver.communicate()
    names = sorted(each["name"] for each in SavedCalls(path).all())
    assert names == sorted(f"{name}{number}" for name in "ab" for number in range(30) if number % 3)


def test_saved_calls_that_cannot_be_written_last_until_the_end_and_deleting_says_so(tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    saved = SavedCalls(path)
    kept = saved.add("kept", "s", "read", {})
    path.unlink()
    path.mkdir()
    with pytest.raises(ApiProblem, match="saved until the inspector ends"):
        saved.add("for now", "s", "read", {})
    assert [each["name"] for each in saved.all()] == ["for now"]
    with pytest.raises(ApiProblem, match="It is not deleted"):
        saved.remove(kept["id"])
    path.rmdir()
    saved.add("later", "s", "read", {})
    assert [each["name"] for each in SavedCalls(path).all()] == ["for now", "later"]


@pytest.mark.parametrize("content", ['{"saved": ["x", 1, null, {}]}', '{"saved": 7}', "[]", "{", "\ufeff{}"])
def test_saved_calls_that_are_none_are_passed_over(tmp_path: Path, content: str) -> None:
    path = tmp_path / "saved.json"
    path.write_text(content, encoding="utf-8")
    saved = SavedCalls(path)
    assert saved.all() == []
    saved.add("n", "s", "read", {})
    assert [each["name"] for each in SavedCalls(path).all()] == ["n"]
    # What is not JSON was perhaps edited by hand, and is not lost.
    assert path.with_name("saved.json.broken").exists() == (
        content not in ('{"saved": 7}', "[]") and "x" not in content
    )


def test_two_inspectors_save_calls_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    one, two = SavedCalls(path), SavedCalls(path)
    first = one.add("of one", "s", "read", {})
    two.add("of two", "s", "read", {})
    assert [each["name"] for each in SavedCalls(path).all()] == ["of one", "of two"]
    assert two.remove(first["id"])
    one.add("again", "s", "read", {})
    assert [each["name"] for each in SavedCalls(path).all()] == ["of two", "again"]
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "name",
    [
        "@scope/server",
        "a/b/c",
        "a%2Fb",
        "%41",
        "?x#y",
        "a\\b",
        '"><script>',
        "__proto__",
        "constructor",
        "~",
        ".",
        "..",
    ],
)
async def test_a_server_of_any_name_is_connected_to_changed_and_removed(page: Page, name: str) -> None:
    await page.post("/api/catalog", {"name": name, "command": "false"})
    part = f"{name}%00" if name in (".", "..") else quote(name, safe="")
    here, entry = f"/api/servers/{part}", f"/api/catalog/{part}"
    assert (await page.get(f"{here}/list/tools"))["items"] == []
    await page.post(f"{here}/disconnect")
    changed = await page.send("PUT", entry, {"name": name, "command": "true"})
    assert (changed["name"], changed["command"]) == (name, "true")
    await page.send("DELETE", entry)
    assert name not in page.session.servers


async def test_half_a_character_in_an_entry_does_not_spoil_the_catalog(tmp_path: Path) -> None:
    async with opened(plan_in(tmp_path)) as page:
        text = '{"mcpServers": {"half": {"command": "false", "args": ["\\ud800"]}}}'
        assert (await page.post("/api/catalog/import", {"text": text}))["added"] == ["half"]
        await page.post("/api/catalog", {"name": "whole", "command": "false", "args": ["ü"]})
        listing = await page.get("/api/catalog")
        assert listing["problems"] == []
        assert {each["name"]: each["args"] for each in listing["entries"]} == {"half": ["\ud800"], "whole": ["ü"]}


async def test_a_session_is_named_with_half_a_character(tmp_path: Path) -> None:
    async with opened(plan_in(tmp_path)) as page:
        content, kind = b'{"name": "a\\ud800"}', {"Content-Type": "application/json"}
        response = await page.http.post("/api/sessions/save", content=content, headers=kind)
        assert response.json()["name"] == "a?"
        await page.send("DELETE", f"/api/sessions/{2**80}", status=404)


def test_names_that_are_close_are_looked_for_only_among_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real = difflib.get_close_matches

    def look(word: str, names: list[str], **options: Any) -> list[str]:
        seen.extend((word, *names))
        return real(word, names, **options)

    monkeypatch.setattr(difflib, "get_close_matches", look)
    names = ["ab" * 50_000, *(f"tool_{number}" for number in range(100_000))]
    assert unknown("tool", "tool_1x", names).facts["payload"]["close"]
    assert unknown("tool", "tool_1x" + "y" * 100_000, names).status == 404
    assert len(seen) < 5_000
    assert max(map(len, seen)) <= 200


async def test_where_no_session_can_be_kept_the_page_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "state").write_text("a file")
    async with opened(ServePlan(journal=tmp_path / "state" / "sessions.db")) as page:
        told = await page.get("/api/sessions")
        assert told["sessions"] == []
        assert told["notice"].startswith("This session is not saved: ")
        assert told["notice"] in caplog.text


async def test_a_disk_that_cannot_be_written_is_told_once_and_until_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path / "sessions.db")
    journal.open()
    real, tries = journal._write, iter(range(3))

    def write(connection: sqlite3.Connection, batch: list[Record]) -> int:
        if next(tries, None) is not None:
            raise sqlite3.OperationalError("database or disk is full")
        assert journal.trouble is not None
        assert "disk is full" in journal.trouble
        return real(connection, batch)

    journal._write = write  # type: ignore[method-assign]
    journal.put(Record(1, 1.0, "a", "log", {}))
    assert journal.flush()
    assert journal.trouble is None
    journal.close()
    assert caplog.text.count("disk is full") == 1


async def test_headers_without_end_are_not_listened_to(tmp_path: Path) -> None:
    async with opened(plan_in(tmp_path)) as page:
        reader, writer = await asyncio.open_connection("127.0.0.1", page.key.port)
        writer.write(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{page.key.port}\r\nX-Long: ".encode())
        with anyio.fail_after(PATIENCE), suppress(ConnectionError):
            for _ in range(64):
                writer.write(b"a" * 2**20)
                await writer.drain()
            assert not await reader.read()
        assert writer.is_closing() or reader.at_eof() or reader.exception() is not None
        writer.close()


@pytest.mark.parametrize("half", ["", "GET / HTTP/1.1\r\nHo", "POST /api/enter HTTP/1.1\r\nContent-Length: 9\r\n"])
async def test_whoever_sends_half_a_request_is_hung_up_on(tmp_path: Path, half: str) -> None:
    async with opened(plan_in(tmp_path), patience=0.5) as page:
        reader, writer = await asyncio.open_connection("127.0.0.1", page.key.port)
        if "POST" in half:
            half += f"Host: 127.0.0.1:{page.key.port}\r\nContent-Type: application/json\r\nX-Tidings: 1\r\n\r\n"
        writer.write(half.encode())
        with anyio.fail_after(PATIENCE), suppress(ConnectionError):
            assert not await reader.read()
        writer.close()


@pytest.mark.parametrize("shape", ["curl", "json", "python"])
async def test_what_is_copied_has_nothing_in_it_that_a_terminal_obeys(page: Page, shape: str) -> None:
    name = "ü'; touch x; '$(touch x)`touch x`\x1b[201~\x9b201~\n\u202etouch x\x00\ud800"
    await page.post("/api/catalog", {"name": shape, "command": "cat"})
    asked = {"server": shape, "kind": "call", "as": shape, "tool": name, "arguments": {name: name}}
    content, kind = json.dumps(asked).encode(), {"Content-Type": "application/json"}
    text = (await page.http.post("/api/snippet", content=content, headers=kind)).json()["text"]
    assert all(each.isprintable() or each == "\n" for each in text)
    assert not any(line.startswith("touch") for line in text.splitlines())
    assert "ü" in text
    if shape == "python":
        calls = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call) and len(each.args) == 2]
        assert [ast.literal_eval(each) for each in calls[0].args] == [name, {name: name}]
    else:
        body = text if shape == "json" else next(each for each in shlex.split(text) if '"tools/call"' in each)
        assert json.loads(body.removesuffix(";"))["params"] == {"name": name, "arguments": {name: name}}


async def test_a_schema_that_takes_longer_than_a_life_halts_nobody(tmp_path: Path) -> None:
    program = tmp_path / "slow.py"
    program.write_text(SLOW)
    async with opened(plan_in(tmp_path)) as page:
        await page.post("/api/catalog", {"name": "slow", "command": sys.executable, "args": [str(program)]})
        await page.until(lambda: "slow" in page.session.servers and bool(page.session.servers["slow"].view.tools))
        for tool in ("pattern", "keys", "ways"):
            started = await page.post("/api/servers/slow/call", {"tool": tool})
            facts = await finished(page, "slow", started["id"])
            assert facts["status"] == "completed"
            assert "structuredContent" in facts["result"]


SLOW = """
import json, sys

def schema(keywords):
    return {"type": "object", "properties": {"a": keywords}}

bomb = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)} | {"d40": {"type": "integer"}}
OUTPUTS = {
    "pattern": (schema({"pattern": "^(a+)+$"}), "a" * 5000 + "!"),
    "keys": (schema({"patternProperties": {"a*a*a*b": {}}, "additionalProperties": False}), {"a" * 5000: 1}),
    "ways": ({"type": "object", "$defs": bomb, "properties": {"a": {"$ref": "#/$defs/d0"}}}, "x"),
}
TOOLS = [{"name": k, "inputSchema": {"type": "object"}, "outputSchema": v[0]} for k, v in OUTPUTS.items()]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    params = asked.get("params") or {}
    result = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "slow", "version": "1"}},
        "tools/list": {"tools": TOOLS},
        "tools/call": {"content": [], "structuredContent": {"a": OUTPUTS.get(params.get("name"), [0, 0])[1]}},
    }.get(asked["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
