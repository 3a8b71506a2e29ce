"""A database in a file, under each policy for damage, and in every kind of trouble."""

import logging
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tidings._kit import sqlite
from tidings._kit.files import locked
from tidings._kit.sqlite import Database, OnDamage, Schema
from tidings._kit.sqlite_errors import DatabaseUnreadable, Trouble, Wording

APPLICATION = 0x54455354
SCHEMA = Schema(
    APPLICATION,
    2,
    ("CREATE TABLE things (name TEXT NOT NULL)", "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)"),
    fill=lambda connection: connection.execute("INSERT INTO meta VALUES ('made', 'here')"),
    checked=("things", "meta"),
)
WORDING = Wording("thing file", "Delete it and start over.", texts={Trouble.NEWER: "is too new ({found} > {known})."})
EVERY = [OnDamage.REFUSE, OnDamage.SET_ASIDE, OnDamage.REBUILD]

Make = Callable[..., Database]


class ThingsUnusable(Exception):
    def __init__(self, trouble: Trouble, text: str) -> None:
        super().__init__(text)
        self.trouble = trouble


def add(name: str) -> Callable[[sqlite3.Connection], None]:
    return lambda connection: connection.execute("INSERT INTO things VALUES (:name)", {"name": name}) and None


def names(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM things ORDER BY rowid")]


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "things.db"


@pytest.fixture
def make(path: Path) -> Iterator[Make]:
    made: list[Database] = []

    def one(on_damage: OnDamage = OnDamage.REFUSE, at: Path | None = path, **more: Any) -> Database:
        given: dict[str, Any] = {"schema": SCHEMA, "wording": WORDING, "error": ThingsUnusable, "timeout": 2.0, **more}
        made.append(Database(at, on_damage=on_damage, **given))
        return made[-1]

    yield one
    for each in made:
        each.close()


@pytest.mark.parametrize("on_damage", EVERY)
def test_what_was_written_is_found_again(make: Make, on_damage: OnDamage) -> None:
    first = make(on_damage)
    first.write(add("a"))
    assert first.read(names) == ["a"]
    first.close()
    assert make(on_damage).read(names) == ["a"]
    assert make(on_damage).read(lambda connection: connection.execute("SELECT * FROM meta").fetchall()) == [
        ("made", "here")
    ]


def test_a_database_in_memory_is_gone_when_it_is_closed(make: Make) -> None:
    database = make(at=None)
    database.write(add("a"))
    assert database.read(names) == ["a"]
    with pytest.raises(RuntimeError, match="exclusive"):
        database.reader()
    database.close()
    assert database.read(names) == []


def test_work_that_fails_leaves_nothing_behind(make: Make) -> None:
    database = make()

    def half(connection: sqlite3.Connection) -> None:
        add("a")(connection)
        raise ValueError("the other half")

    with pytest.raises(ValueError, match="the other half"):
        database.write(half)
    with pytest.raises(ValueError, match="the other half"):
        database.use(lambda connection: (connection.execute("BEGIN"), half(connection)))
    assert database.read(names) == []
    database.write(add("b"))
    assert database.read(names) == ["b"]


def test_a_read_sees_one_moment(make: Make) -> None:
    reader, writer = make(), make()
    writer.write(add("a"))

    def twice(connection: sqlite3.Connection) -> list[list[str]]:
        before = names(connection)
        writer.write(add("b"))
        return [before, names(connection)]

    assert reader.read(twice) == [["a"], ["a"]]
    assert reader.read(names) == ["a", "b"]


@pytest.mark.skipif(os.name == "nt", reason="of POSIX")
@pytest.mark.parametrize("private", [True, False])
def test_a_private_file_is_for_its_owner_alone(make: Make, path: Path, private: bool) -> None:
    old = os.umask(0o022)
    try:
        make(private=private).write(add("a"))
        assert {oct(file.stat().st_mode & 0o777) for file in path.parent.iterdir()} == {"0o600" if private else "0o644"}
    finally:
        os.umask(old)


def test_each_connection_is_prepared_before_its_first_use(make: Make) -> None:
    seen: list[int] = []

    def opened(connection: sqlite3.Connection) -> None:
        seen.append(connection.execute("PRAGMA cache_size").fetchone()[0])

    schema = Schema(APPLICATION, 2, SCHEMA.tables, pragmas=("PRAGMA cache_size = -777",))
    database = make(schema=schema, opened=opened)
    database.write(add("a"))
    prepared = len(seen)
    database.write(add("b"))
    assert len(seen) == prepared
    assert set(seen) == {-777}
    with closing(database.reader()) as reader:
        assert reader.execute("PRAGMA cache_size").fetchone()[0] == -777


# Files of others.


def is_text(path: Path) -> None:
    path.write_text("Dear diary, today I learnt about databases. " * 100)


def is_another_database(path: Path) -> None:
    change(path, "CREATE TABLE letters (text)")


def is_of_another_application(path: Path) -> None:
    change(path, "PRAGMA application_id = 7")


def is_newer(path: Path) -> None:
    change(path, f"PRAGMA application_id = {APPLICATION}", "PRAGMA user_version = 99", "CREATE TABLE mine (x)")


@pytest.mark.parametrize("on_damage", [OnDamage.REFUSE, OnDamage.SET_ASIDE])
@pytest.mark.parametrize(
    "case",
    [
        (
            is_text,
            Trouble.NOT_A_DATABASE,
            "The thing file .*things.db is not a database .* left as it is. Choose another path.",
        ),
        (is_another_database, Trouble.OTHER_APPLICATION, "database of another application"),
        (is_of_another_application, Trouble.OTHER_APPLICATION, "left as it is"),
        (is_newer, Trouble.NEWER, r"is too new \(99 > 2\)\."),
    ],
)
def test_a_file_that_is_not_ours_is_refused_and_left_as_it_is(
    make: Make, path: Path, on_damage: OnDamage, case: tuple[Callable[[Path], None], Trouble, str]
) -> None:
    spoil, trouble, words = case
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(ThingsUnusable, match=words) as caught:
        make(on_damage).open()
    assert caught.value.trouble is trouble
    assert isinstance(caught.value.__cause__, sqlite3.Error)
    assert path.read_bytes() == before
    assert not path.with_name("things.db.damaged").exists()


def test_an_empty_file_becomes_a_database(make: Make, path: Path) -> None:
    path.touch()
    make().write(add("a"))
    assert make().read(names) == ["a"]


def test_a_file_that_may_not_be_created_is_not(make: Make, path: Path) -> None:
    with pytest.raises(ThingsUnusable):
        make(create=False).open()
    assert not path.exists()
    path.touch()
    with pytest.raises(ThingsUnusable):
        make(create=False).open()
    assert path.read_bytes() == b""
    make().write(add("a"))
    assert make(create=False).read(names) == ["a"]


def test_without_an_application_id_the_version_says_whose_a_file_is(make: Make, path: Path) -> None:
    schema = Schema(None, 1, SCHEMA.tables)
    first = make(schema=schema)
    first.write(add("a"))
    first.close()
    assert make(schema=schema).read(names) == ["a"]
    change(path, "PRAGMA user_version = 2")
    with pytest.raises(ThingsUnusable) as caught:
        make(schema=schema).open()
    assert caught.value.trouble is Trouble.NEWER
    change(path, "PRAGMA user_version = 0")
    with pytest.raises(ThingsUnusable) as caught:
        make(schema=schema).open()
    assert caught.value.trouble is Trouble.OTHER_APPLICATION


# Damage.


def truncate(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(4096 + 100)


def overwrite(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"\xff" * (len(data) - 100))


def lose_a_table(path: Path) -> None:
    change(path, "DROP TABLE things")


def age(path: Path) -> None:
    change(path, "PRAGMA user_version = 1")


def garble(path: Path) -> None:
    """Leaves a file about which SQLite's own words cannot be decoded, because they quote it."""
    change(path, "PRAGMA writable_schema = 1", "UPDATE sqlite_master SET sql = CAST(x'4352abab' AS TEXT)")


DAMAGE = [truncate, overwrite, lose_a_table, age, garble]


def damaged(make: Make, path: Path, damage: Callable[[Path], None]) -> bytes:
    first = make()
    first.write(lambda connection: [add("a" * 500)(connection) for _ in range(50)])
    first.close()
    damage(path)
    return path.read_bytes()


@pytest.mark.parametrize("damage", DAMAGE)
def test_refused_damage_says_what_to_do_and_changes_nothing(
    make: Make, path: Path, damage: Callable[[Path], None]
) -> None:
    before = damaged(make, path, damage)
    with pytest.raises(ThingsUnusable, match="Delete it and start over") as caught:
        make().open()
    assert caught.value.trouble in {Trouble.DAMAGED, Trouble.OLDER}
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_set_aside_at_opening(
    make: Make, path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    before = damaged(make, path, damage)
    database = make(OnDamage.SET_ASIDE)
    database.write(add("new"))
    assert database.read(names) == ["new"]
    assert path.with_name("things.db.damaged").read_bytes() == before
    assert caplog.text.count("the old one is kept as things.db.damaged") == 1


@pytest.mark.parametrize("damage", [*DAMAGE, is_text, is_newer, is_another_database])
def test_damage_is_rebuilt_at_opening_whatever_the_file_was(
    make: Make, path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    if damage in DAMAGE:
        damaged(make, path, damage)
    else:
        damage(path)
    caplog.set_level(logging.INFO)
    database = make(OnDamage.REBUILD, exclusive=True)
    assert database.read(names) == []
    assert "rebuilding the" in caplog.text
    assert sorted(file.name.partition(".db")[2] for file in path.parent.iterdir()) == ["", "-shm", "-wal"]


def nonsense(connection: sqlite3.Connection) -> list[str]:
    if "odd" in (found := names(connection)):
        raise DatabaseUnreadable("a row is odd")
    return found


def test_damage_that_shows_later_follows_the_same_policy(make: Make) -> None:
    told: list[tuple[str, str, str]] = []
    refusing = make()
    refusing.write(add("odd"))
    with pytest.raises(ThingsUnusable, match=r"is damaged \(a row is odd\)"):
        refusing.read(nonsense)
    moving = make(
        OnDamage.SET_ASIDE,
        aside=lambda path: path.with_name("old"),
        on_set_aside=lambda path, to, reason: told.append((path.name, to.name, str(reason))),
    )
    assert moving.read(nonsense) == []
    assert told == [("things.db", "old", "a row is odd")]
    # The other connection uses the new file, too.
    assert refusing.read(nonsense) == []
    moving.write(add("fine"))
    assert refusing.read(nonsense) == ["fine"]


def test_a_text_that_cannot_be_decoded_is_damage(make: Make, path: Path) -> None:
    database = make()
    database.write(add("a"))
    change(path, "UPDATE things SET name = CAST(x'61ff' AS TEXT)")
    with pytest.raises(ThingsUnusable, match="is damaged") as caught:
        database.read(names)
    assert caught.value.trouble is Trouble.DAMAGED


def test_work_that_always_finds_damage_sets_only_one_file_aside(make: Make) -> None:
    told: list[Path] = []

    def broken(_: sqlite3.Connection) -> None:
        raise DatabaseUnreadable("always")

    database = make(OnDamage.SET_ASIDE, on_set_aside=lambda _, to, __: told.append(to))
    database.write(add("a"))
    with pytest.raises(ThingsUnusable, match="always"):
        database.read(broken)
    assert len(told) == 1


def test_a_rebuilt_database_fails_in_use_until_it_is_renewed(make: Make) -> None:
    database = make(OnDamage.REBUILD, exclusive=True)
    database.write(add("odd"))
    for _ in range(2):
        with pytest.raises(ThingsUnusable) as caught:
            database.read(nonsense)
        assert caught.value.trouble is Trouble.DAMAGED
    database.renew()
    assert database.read(nonsense) == []


def test_the_owner_can_set_a_file_aside_with_what_lies_beside_it(make: Make, path: Path) -> None:
    first, second = make(), make()
    first.write(add("a"))
    second.write(add("b"))
    first.set_aside(ValueError("no good"))
    assert first.read(names) == []
    second.close()
    with closing(sqlite3.connect(path.with_name("things.db.damaged"))) as old:
        assert names(old) == ["a", "b"]


def test_only_one_of_those_who_find_the_damage_sets_the_file_aside(make: Make) -> None:
    one, other = make(OnDamage.SET_ASIDE), make(OnDamage.SET_ASIDE)
    one.write(add("odd"))
    other.write(add("odd"))
    identity = other._find()
    assert one.read(nonsense) == []
    one.write(add("new"))
    other._move_aside(identity, ValueError("late"))
    assert one.read(nonsense) == ["new"]


# Trouble that says nothing about the file.


@pytest.mark.parametrize("on_damage", EVERY)
def test_a_locked_file_is_waited_for_and_then_told(make: Make, path: Path, on_damage: OnDamage) -> None:
    database = make(on_damage, timeout=0.1)
    database.write(add("a"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        before = time.monotonic()
        with pytest.raises(ThingsUnusable, match="stayed locked by another process") as caught:
            database.write(add("b"))
        assert 0.05 < time.monotonic() - before < 5
        assert caught.value.trouble is Trouble.LOCKED
        assert database.read(names) == ["a"]
        other.execute("ROLLBACK")
    database.write(add("b"))
    assert database.read(names) == ["a", "b"]


@pytest.mark.parametrize("on_damage", EVERY)
def test_a_file_that_is_locked_at_opening_is_left_as_it_is(make: Make, path: Path, on_damage: OnDamage) -> None:
    first = make(on_damage)
    first.write(add("a"))
    first.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ThingsUnusable) as caught:
            make(on_damage, timeout=0.05).open()
        assert caught.value.trouble is Trouble.LOCKED
    assert make(on_damage).read(names) == ["a"]


def test_a_file_that_another_process_is_opening_for_too_long_is_told(make: Make, path: Path) -> None:
    with locked(path.with_name("things.db-lock"), 0), pytest.raises(ThingsUnusable, match="stayed locked") as caught:
        make(OnDamage.SET_ASIDE, timeout=0.05).open()
    assert caught.value.trouble is Trouble.LOCKED


def test_a_full_disk_is_told_and_what_is_there_can_still_be_read(make: Make) -> None:
    database = make()
    database.write(add("a"))
    connection = database._connection
    assert connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(ThingsUnusable, match=r"has no room on its disk .*Free some space"):
        database.write(add("b" * 10_000))
    assert database.read(names) == ["a"]
    connection.execute("PRAGMA max_page_count = 1000000")
    database.write(add("b"))


def test_a_failure_in_memory_is_told_as_such(make: Make) -> None:
    with pytest.raises(ThingsUnusable, match="The thing file in memory is damaged"):
        make(at=None).read(lambda connection: connection.execute("SELECT * FROM nothing"))


def test_any_other_failure_of_sqlite_is_told_and_nothing_is_lost(make: Make) -> None:
    database = make(OnDamage.SET_ASIDE)
    database.write(add("a"))
    with pytest.raises(ThingsUnusable) as caught:
        database.write(lambda connection: connection.execute("INSERT INTO things VALUES (NULL)"))
    assert isinstance(caught.value.__cause__, sqlite3.IntegrityError)
    assert caught.value.trouble is Trouble.UNKNOWN
    assert database.read(names) == ["a"]


def no_folder(path: Path) -> Path:
    return path / "missing" / "things.db"


def folder_is_a_file(path: Path) -> Path:
    path.parent.joinpath("file").touch()
    return path.parent / "file" / "things.db"


def is_a_folder(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.parametrize("on_damage", EVERY)
@pytest.mark.parametrize(
    ("place", "words"),
    [
        (no_folder, "there is no folder .*Create it"),
        (folder_is_a_file, "is not a folder"),
        (is_a_folder, "Name a file in it"),
        (lambda path: path.with_name("x" * 300), "cannot be used"),
    ],
)
def test_a_path_that_cannot_be_a_file_is_explained(
    make: Make, path: Path, on_damage: OnDamage, place: Callable[[Path], Path], words: str
) -> None:
    with pytest.raises(ThingsUnusable, match=words) as caught:
        make(on_damage, at=place(path)).open()
    assert caught.value.trouble is Trouble.NO_ACCESS


def test_a_file_system_without_shared_memory_is_told(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    class Without(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            return super().execute(statement.replace("journal_mode = WAL", "journal_mode"), *values)

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **given: real(*args, factory=Without, **given))
    with pytest.raises(ThingsUnusable, match="no shared memory") as caught:
        make().open()
    assert caught.value.trouble is Trouble.NO_SHARED_MEMORY


# A file that is deleted or replaced.


@pytest.mark.parametrize("suffixes", [("", "-wal", "-shm"), ("",), ("", "-wal"), ("", "-shm")])
def test_a_deleted_file_is_made_anew_whatever_is_left_of_it(make: Make, path: Path, suffixes: tuple[str, ...]) -> None:
    one, other = make(), make()
    one.write(add("a"))
    assert other.read(names) == ["a"]
    for suffix in suffixes:
        Path(f"{path}{suffix}").unlink()
    one.write(add("b"))
    other.write(add("c"))
    assert one.read(names) == other.read(names) == ["b", "c"]


def test_a_file_that_takes_the_place_of_another_is_noticed(make: Make, path: Path) -> None:
    database, elsewhere = make(), make(at=path.with_name("other.db"))
    database.write(add("a"))
    elsewhere.write(add("b"))
    elsewhere.close()
    path.with_name("other.db").replace(path)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    assert database.read(names) == ["b"]


def test_work_on_a_file_that_is_deleted_meanwhile_is_done_again(make: Make, path: Path) -> None:
    database = make()
    database.open()
    runs: list[int] = []

    def work(connection: sqlite3.Connection) -> None:
        runs.append(1)
        add("a")(connection)
        if len(runs) == 1:
            path.unlink()

    database.write(work)
    assert len(runs) == 2
    assert make().read(names) == ["a"]


def test_a_file_that_is_deleted_all_the_time_is_given_up(make: Make, path: Path) -> None:
    with pytest.raises(ThingsUnusable, match="replaced again and again") as caught:
        make().write(lambda _: path.unlink())
    assert caught.value.trouble is Trouble.REPLACED


def test_a_link_stays_a_link(make: Make, path: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    path.symlink_to(tmp_path / "real/file.db")
    database = make(OnDamage.SET_ASIDE)
    database.write(add("odd"))
    assert database.read(nonsense) == []
    assert path.is_symlink()
    assert (tmp_path / "real/file.db.damaged").exists()


# Several at once.


def test_threads_that_create_it_at_once_agree(make: Make) -> None:
    databases = [make() for _ in range(8)]
    problems: list[BaseException] = []

    def work(database: Database) -> None:
        try:
            for _ in range(5):
                database.write(add("a"))
        except BaseException as error:  # noqa: BLE001 - shown below
            problems.append(error)

    threads = [threading.Thread(target=work, args=(database,)) for database in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert databases[0].read(names) == ["a"] * 40


WRITE = """
import sys
from pathlib import Path
from tidings._kit.sqlite import Database, OnDamage, Schema
from tidings._kit.sqlite_errors import Wording
schema = Schema(7, 1, ("CREATE TABLE things (name TEXT)",))
database = Database(
    Path(sys.argv[1]), schema, wording=Wording("x", ""), error=lambda trouble, text: OSError(text), timeout=30,
    on_damage=OnDamage[sys.argv[2]],
)
for number in range(20):
    database.write(lambda connection: connection.execute("INSERT INTO things VALUES ('a')"))
"""


@pytest.mark.parametrize("on_damage", ["REFUSE", "SET_ASIDE"])
def test_processes_that_create_it_at_once_agree(path: Path, on_damage: str) -> None:
    command = [sys.executable, "-c", WRITE, str(path), on_damage]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    with closing(sqlite3.connect(path)) as connection:
        assert len(names(connection)) == 60


def test_the_log_is_moved_into_the_file_from_time_to_time(make: Make, path: Path) -> None:
    database = make()
    for _ in range(30):
        database.write(add("x" * 500_000), 500_000)
    assert Path(f"{path}-wal").stat().st_size < 10 * 2**20
    assert path.stat().st_size > 8 * 2**20


def test_much_that_is_unused_is_given_back_to_the_disk(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_FREED_PAGES", 10)
    schema = Schema(APPLICATION, 2, SCHEMA.tables, pragmas=("PRAGMA auto_vacuum = INCREMENTAL",))
    database = make(schema=schema)
    database.write(add("x" * 200_000))
    database.write(lambda connection: connection.execute("DELETE FROM things"))
    pages = "PRAGMA page_count"
    before = database.use(lambda connection: connection.execute(pages).fetchone()[0])
    database.free()
    assert database.use(lambda connection: connection.execute(pages).fetchone()[0]) < before - 40


# The owner is alone.


@pytest.mark.parametrize("in_memory", [True, False])
def test_an_exclusive_database_has_readers_and_transactions(make: Make, path: Path, in_memory: bool) -> None:
    database = make(OnDamage.REBUILD, at=None if in_memory else path, exclusive=True)
    with database.transaction() as connection:
        add("a")(connection)
    with closing(database.reader()) as reader:
        assert names(reader) == ["a"]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            add("b")(reader)
    with pytest.raises(ThingsUnusable, match="NOT NULL"), database.transaction() as connection:
        connection.executemany("INSERT INTO things VALUES (?)", [("c",), (None,)])
    assert names(database.connection) == ["a"]
    database.renew()
    assert names(database.connection) == []


def test_a_shared_database_gives_no_connection_away(make: Make) -> None:
    with pytest.raises(RuntimeError, match="another process may replace the file"):
        make().connection  # noqa: B018 - it is the property that raises


@pytest.mark.parametrize("exclusive", [True, False])
def test_the_log_of_writes_is_small_again_once_its_reader_has_moved_on(make: Make, path: Path, exclusive: bool) -> None:
    database, wal = make(exclusive=exclusive), Path(f"{path}-wal")
    database.write(add("first"))
    with closing(database.reader()) as reader:
        reader.execute("BEGIN")
        names(reader)
        for _ in range(16):
            database.write(add("x" * 2**20), size=2**20)
        assert wal.stat().st_size > 12 * 2**20
        reader.execute("COMMIT")
        for _ in range(8):
            database.write(add("x" * 2**20), size=2**20)
    assert wal.stat().st_size < 8 * 2**20
