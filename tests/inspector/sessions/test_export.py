"""A session is the same live, from its journal, and from a file."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings

from tests.inspector.recorded import Writer, export_session, sessions
from tidings.inspector.records import Record
from tidings.inspector.sessions.journal import Journal
from tidings.inspector.sessions.saved import (
    NotASession,
    export_lines,
    import_lines,
    import_session,
    load_session,
)
from tidings.inspector.view.fold import fold_session, replay
from tidings.inspector.view.view import SessionView


@settings(max_examples=20)
@given(sessions())
def test_records_fold_the_same_live_from_a_journal_and_from_a_file(records: list[Record]) -> None:
    # A journal that is given more than it may keep waiting leaves records out, and says so.
    sizes = [record.data.get(name) for record in records for name in ("size", "result_size")]
    assume(not any(isinstance(size, int | float) and size > 100_000 for size in sizes))
    live = SessionView()
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "sessions.db")
        journal.open()
        for record in records:
            fold_session(live, record)
            journal.put(record)
        journal.close()
        assert journal.session is not None
        kept = load_session(journal.path, journal.session)
        export_session(kept, Path(folder) / "session.jsonl")
        imported = import_session(Path(folder) / "session.jsonl")
    assert kept == records == imported.records
    assert imported.problems == []
    assert replay(kept) == replay(imported.records) == live


def test_bad_lines_are_named_by_their_number_and_passed_over() -> None:
    writer = Writer()
    for _ in range(3):
        writer("log", data="x")
    lines = list(export_lines(writer.records, clock=lambda: 1.0))
    lines.insert(2, "{not json")
    lines.insert(3, '{"seq": 2}')
    lines.insert(4, "")
    lines.append(lines[1])
    imported = import_lines(lines)
    assert imported.records == writer.records
    assert imported.passed_over == 3
    assert [problem.partition(": ")[0] for problem in imported.problems] == ["line 3", "line 4", "line 8"]
    assert "not above the previous one, 3" in imported.problems[-1]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "not an exported session"),
        (["[]"], "not an exported session"),
        (["not json"], "not an exported session"),
        (['{"tidings": "session", "version": 2}'], "later version of Tidings"),
    ],
)
def test_what_is_no_session_is_refused(lines: list[str], reason: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(NotASession, match=reason):
        import_session(path)
