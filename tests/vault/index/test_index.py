"""The index: what is applied is there wholly or not at all, and replaces all that was known of a file."""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.vault.contents import contents, tagged
from tests.vault.searching import entry
from tidings.vault.files.paths import Vault
from tidings.vault.index.index import INSERTS, Index, IndexBlocked, IndexDamaged
from tidings.vault.index.read_file import make_entry
from tidings.vault.notes.model import Stamp
from tidings.vault.notes.parse import parse

NOTE = """---
tags: [one, two]
aliases: [Other name]
rating: 5
done: true
empty:
list: []
---
# Head
[[Target#Part|shown]] ![[pic.png]] #three #Three
- [x] a task
a block ^b1
"""


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    root = tmp_path / "vault"
    root.mkdir()
    return Vault([root])


@pytest.fixture(params=["file", "memory"])
def index(vault: Vault, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Index]:
    opened = Index(vault, tmp_path / "cache", memory=request.param == "memory")
    yield opened
    opened.close()


def count(index: Index, table: str) -> int:
    return index.queries.connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def test_all_that_is_in_a_note_is_in_its_rows(index: Index) -> None:
    index.apply([entry("Folder/My note.md", NOTE, mtime=7)])
    found = contents(index)
    (file,) = found["files"]
    assert file[:6] == ("Folder/My note.md", "Folder", "my note", "note", len(NOTE), 7)
    assert json.loads(file[-2])["rating"] == 5
    assert [(path, title, body) for path, title, _, body in found["texts"]] == [("Folder/My note.md", "My note", NOTE)]
    assert [row[2:4] for row in found["tags"]] == [
        ("one", "one"),
        ("two", "two"),
        ("three", "three"),
        ("three", "Three"),
    ]
    assert [row[2:6] for row in found["links"]] == [
        ("target", "Target", "#Part", "shown"),
        ("pic.png", "pic.png", "", None),
    ]
    assert [row[2:] for row in found["headings"]] == [(1, "Head", 9)]
    assert [row[2:] for row in found["tasks"]] == [(11, "x", "a task")]
    assert [row[2:] for row in found["blocks"]] == [("b1", 12)]
    assert [row[2:] for row in found["aliases"]] == [("other name", "Other name")]
    assert sorted((row[2:] for row in found["properties"]), key=repr) == [
        ("aliases", "Other name", None),
        ("done", "true", None),
        ("empty", None, None),
        ("list", None, None),
        ("rating", "5", 5.0),
        ("tags", "one", None),
        ("tags", "two", None),
    ]


def test_a_file_that_is_applied_again_leaves_nothing_of_what_it_was(index: Index, vault: Vault) -> None:
    index.apply([entry("a.md", NOTE), entry("b.md", NOTE)])
    index.apply([entry("a.md", "nothing #left")])
    other = Index(vault, memory=True)
    other.apply([entry("b.md", NOTE), entry("a.md", "nothing #left")])
    assert contents(index) == contents(other)
    other.close()


def test_a_file_that_is_gone_leaves_nothing(index: Index) -> None:
    index.apply([entry("a.md", NOTE), entry("p.png", "")])
    index.apply([], ["a.md", "p.png", "never there.md"])
    assert not any(contents(index).values())


def test_a_file_that_goes_and_comes_at_once_is_there(index: Index) -> None:
    index.apply([entry("a.md", "old")])
    index.apply([entry("a.md", "new")], ["a.md"])
    assert index.queries.text("a.md") == "new"


def test_a_file_that_was_merely_touched_keeps_its_rows(index: Index) -> None:
    before = entry("a.md", NOTE, mtime=1)
    index.apply([before])
    written = index.queries.connection.total_changes
    index.apply([entry("a.md", NOTE, mtime=2)])
    assert index.queries.connection.total_changes - written == 1
    assert index.stamps() == {"a.md": Stamp(len(NOTE), 2, 2, 0)}


def test_a_file_that_becomes_something_else_is_replaced(index: Index) -> None:
    index.apply([entry("a.md", "text")])
    index.apply([entry("a.md", "text")._replace(kind="attachment", hash=None, text="", rows={})])
    row = index.queries.file("a.md")
    assert row
    assert (row.kind, row.hash, index.queries.text("a.md")) == ("attachment", None, "")
    index.apply([make_entry("a.md", "note", Stamp(0, 0, 0, 0), why="too large")])
    row = index.queries.file("a.md")
    assert row
    assert (row.title, row.problem) == ("a", "too large")


def test_a_problem_with_the_properties_is_told_beside_one_with_the_bytes(index: Index) -> None:
    note = parse("---\na: [\n---\n", "a")
    index.apply([make_entry("a.md", "note", Stamp(0, 0, 0, 0), note=note, why="No UTF-8.")])
    row = index.queries.file("a.md")
    assert row
    assert note.problem
    assert row.problem == f"No UTF-8. {note.problem}"


def test_properties_of_all_kinds_can_be_kept(index: Index) -> None:
    properties: dict[str, Any] = {
        "nan": float("nan"),
        "huge": 10**400,
        "half": "\ud800",
        "nested": {"a": [1, {"b": None}]},
        "mixed": [1, "x", None, {"a": 1}, [2]],
        "float": 1.5,
    }
    properties["self"] = properties
    properties["list"] = [1]
    properties["list"].append(properties["list"])
    note = parse("text", "a")._replace(properties=properties)
    index.apply([make_entry("a.md", "note", Stamp(0, 0, 0, 0), version="1", text="text", note=note)])
    row = index.queries.file("a.md")
    assert row
    assert row.properties["nested"] == {"a": [1, {"b": None}]}
    assert row.properties["float"] == 1.5
    rows = index.queries.connection.execute("SELECT text, number FROM properties WHERE key = 'mixed' ORDER BY n")
    assert rows.fetchall() == [("1", 1.0), ("x", None), (None, None), ('{"a": 1}', None), ("[2]", None)]


def test_halves_of_characters_are_replaced_everywhere(index: Index) -> None:
    half = tagged("a.md", [("a\ud800b/c", 1), ("d", 2)])._replace(text="\udc00", problem="\ud801")
    index.apply([half])
    index.apply([half._replace(hash="2")])
    assert [(tag.shown, tag.total) for tag in index.queries.tags()] == [("a?b", 1), ("a?b/c", 1), ("d", 1)]
    assert index.queries.text("a.md") == "?"
    index.apply([], ["a.md"])
    assert not any(contents(index).values())


def test_whatever_goes_wrong_in_between_the_index_is_as_it_was(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    index.apply([entry("a.md", NOTE), entry("b.md", NOTE)])
    before = contents(index)
    for table in INSERTS:
        with monkeypatch.context() as patch:
            patch.setitem(INSERTS, table, "INSERT INTO no_such_table VALUES (?)")
            with pytest.raises(IndexDamaged):
                index.apply([entry("a.md", f"{NOTE} changed"), entry("c.md", NOTE)], ["b.md"])
        assert contents(index) == before


def test_an_error_that_is_not_of_the_database_rolls_back_too(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tidings.vault.index.index.TagChanges.store", failing)
    with pytest.raises(KeyboardInterrupt):
        index.apply([entry("a.md", NOTE)])
    assert not any(contents(index).values())


def test_a_full_disk_is_said_and_leaves_the_index_as_it_was(index: Index) -> None:
    index.apply([entry("a.md", NOTE)])
    before = contents(index)
    pages = index.queries.connection.execute("PRAGMA page_count").fetchone()[0]
    index.queries.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(IndexBlocked, match="no room on its disk"):
        index.apply([entry(f"{number}.md", NOTE * 50) for number in range(100)])
    assert contents(index) == before
    index.queries.connection.execute("PRAGMA max_page_count = 1000000")
    index.apply([entry("b.md", NOTE)])
    assert count(index, "files") == 2


def test_a_reader_sees_what_was_applied_and_never_a_part_of_it(index: Index) -> None:
    index.apply([entry("a.md", "one")])
    reader = index.reader()
    with reader.snapshot():
        assert reader.text("a.md") == "one"
        if index.place:  # In memory, who writes waits for who reads.
            index.apply([entry("a.md", "two")])
            assert reader.text("a.md") == "one"
        with reader.snapshot():
            assert reader.text("a.md") == "one"
    index.apply([entry("a.md", "two")])
    assert reader.text("a.md") == "two"
    with pytest.raises(sqlite3.OperationalError):
        reader.connection.execute("DELETE FROM files")
    reader.close()


def test_readers_in_other_threads_are_not_disturbed_by_the_writer(index: Index) -> None:
    index.apply([entry("0.md", "text")])
    wrong: list[object] = []
    done = threading.Event()

    def watch() -> None:
        reader = index.reader()
        try:
            while not done.is_set():
                with reader.snapshot():
                    files = reader.connection.execute("SELECT count(*) FROM files").fetchone()
                    texts = reader.connection.execute("SELECT count(*) FROM texts").fetchone()
                    if files != texts or files[0] % 3 != 1:
                        wrong.append((files, texts))
        except sqlite3.Error as error:
            wrong.append(error)
        finally:
            reader.close()

    threads = [threading.Thread(target=watch) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(1, 60, 3):
        index.apply([entry(f"{number + more}.md", NOTE) for more in range(3)])
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_tidying_up_comes_to_an_end_and_changes_nothing(index: Index) -> None:
    for number in range(40):
        index.apply([entry(f"{number}.md", f"{NOTE} word{number} " * 30)])
    before = contents(index)
    rounds = next(number for number in range(1000) if not index.tidy())
    assert rounds > 0
    assert not index.tidy()
    assert contents(index) == before


def test_an_index_that_cannot_be_read_is_damaged(index: Index) -> None:
    index.queries.connection.execute("DROP TABLE files")
    index.queries.connection.execute("DROP TABLE meta")
    for ask in (index.stamps, index.roots, lambda: index.sharing([1]), lambda: index.apply([])):
        with pytest.raises(IndexDamaged):
            ask()
    index.renew()
    assert index.stamps() == {}


def test_the_roots_are_kept(index: Index) -> None:
    assert index.roots() == {}
    index.keep_roots({"": (1, 2)})
    index.keep_roots({"": (1, 2)})
    assert index.roots() == {"": (1, 2)}


@pytest.mark.parametrize("nonsense", ["", "[1]", '{"a": 1}', '{"a": [1, 2, 3]}', b"\xff"])
def test_roots_that_are_none_are_damage(index: Index, nonsense: str | bytes) -> None:
    index.queries.connection.execute("INSERT INTO meta VALUES ('roots', ?)", (nonsense,))
    with pytest.raises(IndexDamaged):
        index.roots()


def test_an_index_that_is_renewed_is_empty_and_can_be_used(index: Index) -> None:
    index.apply([entry("a.md", NOTE)])
    index.keep_roots({"": (1, 2)})
    index.renew()
    assert (index.stamps(), index.roots()) == ({}, {})
    index.apply([entry("a.md", NOTE)])
    with closing(index.reader()) as reader:
        assert reader.text("a.md") == NOTE


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_BUSY, IndexBlocked),
        (sqlite3.SQLITE_IOERR | (12 << 8), IndexBlocked),
        (sqlite3.SQLITE_CORRUPT, IndexDamaged),
        (sqlite3.SQLITE_NOTADB, IndexDamaged),
        (None, IndexDamaged),
    ],
)
def test_errors_say_whether_to_wait_or_to_begin_anew(index: Index, code: int | None, kind: type[Exception]) -> None:
    error = sqlite3.DatabaseError("trouble")
    if code is not None:
        error.sqlite_errorcode = code
    explained = index.explained(error)
    assert type(explained) is kind
    assert "trouble" in str(explained)
