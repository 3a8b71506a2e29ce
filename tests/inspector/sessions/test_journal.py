"""What was recorded is kept: over a crash, beside other inspectors, and whatever the file is like."""

import json
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.killing import ROOT
from tests.inspector.recorded import Writer
from tidings.inspector.records import Record
from tidings.inspector.sessions.journal import Journal
from tidings.inspector.sessions.saved import (
    JournalLimits,
    JournalUnusable,
    default_path,
    delete_session,
    list_sessions,
    load_session,
    rename_session,
)


def written(path: Path, records: list[Record], **options: object) -> Journal:
    """A journal that was opened, written to, and closed."""
    journal = Journal(path, **options)  # type: ignore[arg-type]
    journal.open()
    for record in records:
        assert journal.put(record) == 0
    journal.close()
    return journal


def some(number: int = 10, size: int = 10) -> list[Record]:
    writer = Writer()
    writer("server", what="added", entry={})
    for _ in range(number - 1):
        writer("log", level="info", data="x" * size)
    return writer.records


def in_batches(path: Path, *batches: list[Record], **options: object) -> Journal:
    """A journal to which these were written one after the other."""
    journal = Journal(path, **options)  # type: ignore[arg-type]
    journal.open()
    for batch in batches:
        for record in batch:
            assert journal.put(record) == 0
        assert journal.flush()
    journal.close()
    return journal


def noise(size: int) -> str:
    """A text that cannot be compressed by more than a quarter or so."""
    return random.Random(size).randbytes(size // 2).hex()


def test_what_is_put_is_there_and_only_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "state" / "inspector" / "sessions.db"
    records = some()
    journal = written(path, records, title="Crash at 14:02", clock=lambda: 1000.0)
    assert journal.notice is None
    (session,) = list_sessions(path)
    assert load_session(path, session.id) == records
    assert (session.title, session.began, session.ended, session.running) == ("Crash at 14:02", 1000.0, 1000.0, False)
    assert (session.records, session.servers, session.last) == (10, ("vault",), 1010.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_files_of_a_running_journal_are_only_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    journal = Journal(path)
    journal.open()
    journal.put(some()[0])
    assert journal.flush()
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    assert set(modes.values()) == {0o600}
    assert "sessions.db-wal" in modes
    journal.close()


def test_a_killed_inspector_loses_nothing_that_is_a_moment_old(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.inspector.sessions.test_journal import some\n"
        "from tidings.inspector.sessions.journal import Journal\n"
        f"journal = Journal(Path({str(path)!r}))\n"
        "journal.open()\n"
        "for record in some(500): journal.put(record)\n"
        "assert journal.flush()\n"
        "print('written', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        (session,) = list_sessions(path)
        assert session.running
        with pytest.raises(LookupError, match="still running"):
            delete_session(path, session.id)
        os.kill(process.pid, signal.SIGKILL)
    (session,) = list_sessions(path)
    assert (session.running, session.ended, session.records) == (False, None, 500)
    assert load_session(path, session.id) == some(500)


def test_several_write_at_once_each_its_own_session(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    journals = [Journal(path) for _ in range(4)]
    for journal in journals:
        journal.open()
    records = some(300)
    for record in records:
        for journal in journals:
            journal.put(record)
    for journal in journals:
        journal.close()
    sessions = list_sessions(path)
    assert len(sessions) == 4
    assert all(load_session(path, session.id) == records for session in sessions)


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to be one" * 100, b"SQLite format 3\0" * 9]
)
def test_a_broken_file_is_set_aside(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "sessions.db"
    path.write_bytes(content)
    journal = written(path, some())
    assert journal.notice is not None
    assert "set aside as sessions.db.broken-" in journal.notice
    assert next(tmp_path.glob("sessions.db.broken-*")).read_bytes() == content
    assert load_session(path, list_sessions(path)[0].id) == some()


def test_a_database_of_something_else_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(JournalUnusable, match="another application"):
        list_sessions(path)
    journal = written(path, some())
    assert "another application" in (journal.notice or "")
    assert len(list_sessions(path)) == 1


def test_the_file_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    journal = written(path, some())
    assert "was written by a later version of Tidings (format 99; this one knows 2). It is left alone" in (
        journal.notice or ""
    )
    assert path.read_bytes() == before
    assert journal.path == path.with_name(f"{path.stem}.v2{path.suffix}")
    assert len(list_sessions(journal.path)) == 1


def test_where_nothing_can_be_written_the_session_goes_on_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    journal = written(tmp_path / "file" / "sessions.db", some())
    assert journal.session is None
    assert (journal.notice or "").startswith("This session is not saved")


def test_old_sessions_and_too_many_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    for number in range(4):
        written(path, [Record(1, number * 100.0, "a", "server", {})], clock=lambda number=number: number * 100.0)
    written(path, [], clock=lambda: 400.0, limits=JournalLimits(days=250 / 86400))
    assert [session.began for session in list_sessions(path)] == [400.0, 300.0, 200.0]
    written(path, [], clock=lambda: 500.0, limits=JournalLimits(sessions=2))
    assert [session.began for session in list_sessions(path)] == [500.0, 400.0]


def test_a_session_that_is_too_large_is_thinned_and_what_the_rest_rests_on_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.inspector.sessions.saved._STREAM_BYTES", 5_000)
    path = tmp_path / "sessions.db"
    writer = Writer()
    writer("server", what="added", entry={})
    for number in range(200):
        writer("content", uri=f"note://{number % 3}", contents=[], hash=str(number))
        writer("log", level="info", data=noise(500 + number))
    batches = [writer.records[at : at + 10] for at in range(0, 401, 10)]
    journal = in_batches(path, *batches, limits=JournalLimits(session_bytes=20_000))
    (session,) = list_sessions(path)
    kept = load_session(path, session.id)
    assert session.bytes < 20_000
    assert session.servers == ("vault",)
    assert len(kept) < 150
    assert kept == [record for record in writer.records if record in kept]
    assert kept[0] == writer.records[0]
    assert kept[-1] == writer.records[-1]
    assert {record.data["uri"] for record in kept if record.kind == "content"} == {"note://0", "note://1", "note://2"}
    assert journal.notice is None


def test_what_repeats_is_stored_once_and_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    text = noise(5_000)
    servers = [("a" * 7 + "b" * 7)[number % 14] for number in range(100)]
    records = [Record(n + 1, float(n), server, "log", {"data": text, "n": n}) for n, server in enumerate(servers)]
    in_batches(path, *(records[at : at + 10] for at in range(0, 100, 10)))
    (session,) = list_sessions(path)
    assert session.bytes < 20_000 < len(text) * len(records)
    assert session.servers == ("a", "b")
    assert load_session(path, session.id) == records


def test_a_batch_that_was_rolled_back_leaves_the_others_readable(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    journal = Journal(path)
    journal.open()
    real = journal._write
    failing = iter([False, True, False, True])

    def write(connection: sqlite3.Connection, batch: list[Record]) -> int:
        size = real(connection, batch)
        if next(failing, False):
            raise sqlite3.OperationalError("database or disk is full")
        return size

    journal._write = write  # type: ignore[method-assign]
    records = some(30)
    for at in (0, 10, 20):
        for record in records[at : at + 10]:
            journal.put(record)
        assert journal.flush()
    journal.close()
    assert load_session(path, 1) == records


def test_a_journal_of_version_1_is_read_and_continued(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    written(path, [])
    old = some(3)
    with sqlite3.connect(path) as connection:  # As version 1 wrote it: the same tables, and a row for each record.
        rows = [(1, each.seq, each.at, each.server, each.kind, json.dumps(each.data)) for each in old]
        connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", rows)
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    assert load_session(path, 1) == old
    with sqlite3.connect(path) as connection:  # So that version 1 leaves it alone from now on.
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    connection.close()
    journal = written(path, some(5))
    assert journal.notice is None
    assert load_session(path, 1) == old
    assert load_session(path, 2) == some(5)


def test_a_session_is_named_and_deleted(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    assert list_sessions(path) == []
    written(path, some())
    rename_session(path, 1, "Crash")
    assert list_sessions(path)[0].title == "Crash"
    delete_session(path, 1)
    assert list_sessions(path) == []
    for act in (load_session, delete_session):
        with pytest.raises(LookupError, match="no session 1"):
            act(path, 1)
    with pytest.raises(LookupError, match="no session 1"):
        rename_session(path, 1, "x")
    with pytest.raises(JournalUnusable, match="no such file"):
        load_session(tmp_path / "none.db", 1)


@pytest.mark.parametrize("damage", ["x'00000004ff'", "'no json'", "'[1]'", "substr(data, 1, 6)"])
def test_rows_that_cannot_be_read_are_counted_as_missed(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.inspector.sessions.saved._STREAM_BYTES", 400)
    path = tmp_path / "sessions.db"
    records = some(20)
    in_batches(path, *(records[at : at + 4] for at in range(0, 20, 4)))
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE records SET data = {damage} WHERE seq = 5")
    connection.close()
    found = load_session(path, 1)
    assert found[:4] == records[:4]
    assert found[-4:] == records[-4:]
    missed = [each for each in found if each.kind == "missed"]
    assert missed
    if "x" in damage or "substr" in damage:
        assert sum(each.data["count"] for each in missed) + len(found) - len(missed) == 20


def test_a_file_that_breaks_while_it_is_written_to_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    journal = Journal(path)
    journal.open()
    journal.put(some()[0])
    assert journal.flush()
    real = journal._write
    broken = iter([True])

    def write(connection: sqlite3.Connection, batch: list[Record]) -> int:
        if next(broken, False):
            error = sqlite3.DatabaseError("database disk image is malformed")
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
        return real(connection, batch)

    journal._write = write  # type: ignore[method-assign]
    journal.put(some()[1])
    journal.close()
    assert "malformed" in (journal.notice or "")
    assert [record.seq for record in load_session(path, 1)] == [2]


def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    journal = Journal(path)
    journal.open()
    real = journal._write
    full = iter([True, True])

    def write(connection: sqlite3.Connection, batch: list[Record]) -> int:
        if next(full, False):
            raise sqlite3.OperationalError("database or disk is full")
        return real(connection, batch)

    journal._write = write  # type: ignore[method-assign]
    for record in some():
        journal.put(record)
    assert journal.flush()
    journal.close()
    assert load_session(path, 1) == some()


def test_what_cannot_wait_any_more_is_missed_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.inspector.sessions.journal._MOST_WAITING", 5)
    journal = Journal(tmp_path / "sessions.db")
    journal.open()
    journal._write = lambda *_: (_ for _ in ()).throw(sqlite3.OperationalError("full"))  # type: ignore[method-assign]
    records = some()
    assert [journal.put(record) for record in records] == [0] * 10
    del journal._write
    assert journal.flush()
    assert journal.put(records[0]) == 5
    journal.close()


def test_what_is_written_does_not_count_as_waiting_though_more_comes_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.inspector.sessions.journal._MOST_WAITING_BYTES", 1000)
    first, *rest = some(50)

    class Busy(Journal):
        def _write(self, connection: sqlite3.Connection, batch: list[Record]) -> int:
            size = super()._write(connection, batch)
            if rest:  # So that something waits whenever a batch is done.
                assert self.put(rest.pop(0)) == 0
            return size

    journal = Busy(tmp_path / "sessions.db")
    journal.open()
    journal.put(first)
    assert journal.flush()
    journal.close()
    assert load_session(journal.path, 1) == some(50)


def test_the_default_is_in_the_users_folder_for_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_path() == tmp_path / "tidings" / "inspector" / "sessions.db"
