"""`tidings mock`: a recorded session is a server like any other."""

import os
import re
import shlex
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.running import environment, line_of, started, tidings
from tests.forking import PIPE, Forked
from tests.inspector.recorded import Writer, export_session
from tidings.inspector.sessions.journal import Journal
from tidings.inspector.sessions.saved import import_session


@pytest.fixture
def session(tmp_path: Path) -> Path:
    tell = Writer("weather")
    tell("server", what="added", entry={})
    info = {"name": "weather", "version": "1.2"}
    tell("hello", protocol_version="2026-07-28", server_info=info, capabilities={"tools": {}, "resources": {}})
    tell("list", list="tools", added=[{"name": "add", "inputSchema": {"type": "object"}}], total=1)
    tell("list", list="resources", added=[{"name": "Oslo", "uri": "weather://oslo"}], total=1)
    tell("content", uri="weather://oslo", contents=[{"uri": "weather://oslo", "text": "cold"}], hash="x", size=4)
    tell("request", id="r1", method="tools/call", params={"name": "add", "arguments": {"a": 1}}, status="pending")
    tell("request", id="r1", status="completed", result={"content": [{"type": "text", "text": "one"}]})
    export_session(tell.records, tmp_path / "session.jsonl")
    return tmp_path / "session.jsonl"


def test_it_is_a_target_like_any_other(session: Path) -> None:
    target = f"{sys.executable} -m tidings mock {session}"
    assert tidings("list", target, "tools", "--era", "legacy").out == "add\n"
    assert tidings("call", target, "add", "--args", '{"a": 1}').out == "one\n"


def test_it_is_served_over_http(session: Path) -> None:
    with started("mock", str(session), "--http", "127.0.0.1:0") as serving:
        found = re.search(r"at (http://\S+)", line_of(serving, "stderr"))
        assert found
        for era in ("auto", "legacy"):
            assert tidings("read", found[1], "weather://oslo", "--era", era).out == "cold"
        serving.send_signal(signal.SIGINT)
        serving.wait(20)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_over_stdio_it_ends_when_it_is_asked_to_while_its_input_is_open(number: int, session: Path) -> None:
    reading, writing = os.pipe()
    with open(reading), open(writing, "w") as client:  # noqa: PTH123 - not files
        process = Forked("-m", "tidings", "mock", str(session), stdin=reading, stdout=PIPE, env=environment())
        try:
            client.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            client.flush()
            line_of(process)
            process.send_signal(number)
            assert process.wait(20) == 0
        finally:
            process.stop()


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "There is no file"), ("hello", "not an exported session"), ("", "not an exported session")],
)
def test_what_is_no_session_is_refused(text: str | None, words: str, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    if text is not None:
        file.write_text(text)
    done = tidings("mock", str(file))
    assert (done.code, words in done.err) == (2, True)


def test_options_that_do_not_fit_are_refused(session: Path) -> None:
    assert "no server" in tidings("mock", str(session), "--server", "vault").err.lower()
    assert tidings("mock", str(session), "--http", "no such place").code == 2
    assert tidings("mock", str(session), "--http", "0.0.0.0:0").code == 2


def test_a_session_that_the_inspector_keeps_is_served_by_its_number_or_name(session: Path, tmp_path: Path) -> None:
    kept = {"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    none = tidings("mock", "--list", **kept)
    assert (none.code, none.out, "no recorded sessions" in none.err) == (0, "", True)
    journal = Journal(tmp_path / "tidings/inspector/sessions.db", title="a rainy day")
    journal.open()
    for record in import_session(session).records:
        journal.put(record)
    journal.close()
    listed = tidings("mock", "--list", **kept).out
    assert re.fullmatch(r"1  [-\d]+ [:\d]+  7 records  a rainy day  weather\n", listed)
    for name in ("1", "a rainy day"):
        target = shlex.join([sys.executable, "-m", "tidings", "mock", name])
        done = tidings("list", target, "tools", "--env", f"XDG_STATE_HOME={tmp_path}", **kept)
        assert (done.code, done.out) == (0, "add\n"), done.err
    assert "There is no file or recorded session 2" in tidings("mock", "2", **kept).err
    assert "SESSION is missing" in tidings("mock", **kept).err
