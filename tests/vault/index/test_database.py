"""Where the index is kept: one for each server, found again at the next start, made anew if it is of no use."""

import logging
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.vault.building import build
from tests.vault.contents import contents
from tests.vault.searching import entry
from tidings.vault.files.paths import Vault, VaultUnusable
from tidings.vault.index import index as database
from tidings.vault.index.index import PAGE, Index, IndexBlocked, IndexDamaged
from tidings.vault.index.scan import look


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    root = tmp_path / "vault"
    root.mkdir()
    return Vault([root])


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def opened(vault: Vault, cache: Path) -> Iterator[Callable[[], Index]]:
    indices: list[Index] = []

    def open_one() -> Index:
        indices.append(Index(vault, cache))
        return indices[-1]

    yield open_one
    for index in indices:
        index.close()


Open = Callable[[], Index]
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("inside", ["", "cache", "a/b", "link/b"])
def test_an_index_in_the_vault_is_refused(tmp_path: Path, vault: Vault, inside: str) -> None:
    (tmp_path / "vault/a").mkdir()
    (tmp_path / "vault/link").symlink_to("a")
    (tmp_path / "elsewhere").symlink_to("vault")
    for root in ("vault", "elsewhere"):
        with pytest.raises(VaultUnusable, match=r"lies in the vault.*Choose another folder"):
            Index(vault, tmp_path / root / inside)
    assert {place.name for place in (tmp_path / "vault").iterdir()} == {"a", "link"}


@pytest.mark.parametrize("outside", ["vault 2", "vault/.cache", "vault/Private/x", "vault/out/x"])
def test_an_index_in_what_is_not_served_is_no_matter(tmp_path: Path, vault: Vault, outside: str) -> None:
    (tmp_path / "vault/out").symlink_to("../outside")
    apart = Vault([vault.mounts[0].root], exclude=["Private"])
    assert database.folder_for(apart, tmp_path / outside) == tmp_path / outside


def test_a_usual_cache_in_the_vault_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database.platformdirs, "user_cache_dir", lambda _: str(tmp_path / "Library/Caches"))
    with pytest.raises(VaultUnusable, match="lies in the vault"):
        Index(Vault([tmp_path]))


def test_an_index_is_found_again(opened: Open) -> None:
    first = opened()
    first.apply([entry("a.md", "#text")])
    before = contents(first)
    first.close()
    second = opened()
    assert (second.place, second.notes) == (first.place, ())
    assert contents(second) == before


def test_it_is_in_the_users_cache_and_never_in_the_vault(
    vault: Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "users"))
    monkeypatch.setenv("HOME", str(tmp_path / "users"))
    with closing(Index(vault)) as index:
        assert index.place
        assert index.place.is_relative_to(tmp_path / "users")
        assert index.place.parent == database.cache_folder(vault)
    assert list(vault.mounts[0].root.iterdir()) == []


def test_each_set_of_vaults_has_its_own(tmp_path: Path) -> None:
    for name in ("One", "Two"):
        (tmp_path / name).mkdir()
    sets = [["One"], ["Two"], ["One", "Two"]]
    folders = {database.cache_folder(Vault([tmp_path / name for name in names])) for names in sets}
    assert len(folders) == 3
    assert database.cache_folder(Vault([tmp_path / "One"])) in folders


def test_two_servers_on_one_vault_have_an_index_each_and_find_it_again(opened: Open) -> None:
    one, two = opened(), opened()
    assert one.place != two.place
    one.apply([entry("a.md", "one")])
    two.apply([entry("a.md", "two")])
    one.close()
    two.close()
    one, two = opened(), opened()
    assert (one.queries.text("a.md"), two.queries.text("a.md")) == ("one", "two")


def test_a_server_in_another_process_keeps_its_index_until_it_is_killed(
    vault: Vault, cache: Path, opened: Open
) -> None:
    program = """
import sys, time
from pathlib import Path
from tidings.vault.index.index import Index
from tidings.vault.files.paths import Vault, VaultUnusable
index = Index(Vault([Path(sys.argv[1])]), Path(sys.argv[2]))
print(index.place.name, flush=True)
time.sleep(60)
"""
    command = [sys.executable, "-c", program, str(vault.mounts[0].root), str(cache)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        assert other.stdout.readline() == "index-0.db\n"
        mine = opened()
        assert mine.place == cache / "index-1.db"
        mine.close()
        other.kill()
    assert opened().place == cache / "index-0.db"


def test_when_there_are_too_many_servers_the_index_is_in_memory(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_SLOTS", 1)
    opened()
    second = opened()
    assert second.place is None
    assert "1 servers use this vault already" in second.notes[0]
    second.apply([entry("a.md", "text")])
    with closing(second.reader()) as reader:
        assert reader.text("a.md") == "text"


def test_a_process_that_dies_while_it_writes_leaves_the_index_as_it_was(
    vault: Vault, cache: Path, opened: Open
) -> None:
    program = """
import os, sys
from pathlib import Path
from tests.vault.searching import entry
from tidings.vault.index import index
from tidings.vault.files.paths import Vault, VaultUnusable
writer = index.Index(Vault([Path(sys.argv[1])]), Path(sys.argv[2]))
writer.apply([entry("a.md", "#one"), entry("b.md", "#one")])
index.TagChanges.store = lambda changes: os.kill(os.getpid(), 9)
writer.apply([entry("a.md", "#two" * 10_000), entry("c.md", "#two")], ["b.md"])
"""
    command = [sys.executable, "-c", program, str(vault.mounts[0].root), str(cache)]
    done = subprocess.run(command, cwd=ROOT, check=False, timeout=30)
    assert done.returncode == -9
    index = opened()
    assert sorted(index.stamps()) == ["a.md", "b.md"]
    assert [(tag.key, tag.notes) for tag in index.queries.tags()] == [("one", 2)]
    assert contents(index)


def scribble(place: Path) -> None:
    """Damage the middle of the file."""
    data = bytearray(place.read_bytes())
    for at in range(8192 * 2, len(data), 8192):
        data[at : at + 200] = b"\x07" * 200
    place.write_bytes(data)


def age(place: Path) -> None:
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("PRAGMA user_version = 999")


def foreign(place: Path) -> None:
    place.unlink()
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("CREATE TABLE files (x)")


def lose_a_table(place: Path) -> None:
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("DROP TABLE tag_counts")


@pytest.mark.parametrize(
    "damage",
    [
        scribble,
        age,
        foreign,
        lose_a_table,
        lambda place: place.write_bytes(b"no database at all" * 1000),
        lambda place: place.write_bytes(b""),
        lambda place: place.write_bytes(place.read_bytes()[:5000]),
        lambda place: place.with_name(f"{place.name}-wal").write_bytes(b"nonsense" * 1000),
    ],
)
def test_a_file_that_is_of_no_use_is_made_anew(opened: Open, damage: Callable[[Path], object]) -> None:
    index = opened()
    index.apply([entry(f"{number}.md", f"#text {number}" * 300) for number in range(20)])
    index.close()
    assert index.place
    damage(index.place)
    again = opened()
    assert (again.place, again.notes) == (index.place, ())
    again.apply([entry("new.md", "#text")])
    assert contents(again)["files"]
    assert len(again.stamps()) in (1, 21)


def test_whichever_page_is_damaged_it_is_said_to_be_that(vault: Vault, opened: Open) -> None:
    root = vault.mounts[0].root
    for number in range(60):
        (root / f"{number}.md").write_text(f"# {number}\n#tag{number} [[{number + 1}]]\n" * 10)
    index = opened()
    build(vault, index)
    index.close()
    assert index.place
    whole = index.place.read_bytes()
    damaged = 0
    for page in range(1, len(whole) // PAGE):
        index.place.write_bytes(whole[: page * PAGE] + b"\xa5" * PAGE + whole[(page + 1) * PAGE :])
        again = opened()
        try:
            look(vault, again, ["1.md", ""])
            build(vault, again)
        except IndexDamaged:
            damaged += 1
            again.renew()
            build(vault, again)
        again.close()
    assert damaged


def test_a_file_that_another_program_has_locked_is_left_alone(
    opened: Open, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_TIMEOUT", 0.01)
    first = opened()
    first.apply([entry("a.md", "text")])
    first.close()
    assert first.place
    with closing(sqlite3.connect(first.place, isolation_level=None)) as browser:
        browser.execute("PRAGMA locking_mode = EXCLUSIVE")
        browser.execute("BEGIN EXCLUSIVE")
        second = opened()
        assert second.place == cache / "index-1.db"
        second.close()
    assert opened().queries.text("a.md") == "text"


def test_an_index_that_another_program_locks_later_says_so_and_can_be_used_again(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_TIMEOUT", 0.01)
    index = opened()
    assert index.place
    with closing(sqlite3.connect(index.place, isolation_level=None)) as browser:
        browser.execute("BEGIN IMMEDIATE")
        with pytest.raises(IndexBlocked, match="locked by another process"):
            index.apply([entry("a.md", "text")])
    index.apply([entry("a.md", "text")])
    assert index.queries.text("a.md") == "text"


def test_where_nothing_can_be_written_the_index_is_in_memory(
    vault: Vault, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "a file"
    in_the_way.touch()
    (vault.mounts[0].root / "a.md").write_text("text")
    with closing(Index(vault, in_the_way / "cache")) as index:
        assert index.place is None
        assert "is in memory" in index.notes[0]
        assert build(vault, index) == []
        with closing(index.reader()) as reader:
            assert reader.text("a.md") == "text"
    assert caplog.record_tuples[0][1] == logging.WARNING


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may write everywhere")
def test_a_cache_that_may_not_be_written_is_not_used(vault: Vault, cache: Path, opened: Open) -> None:
    opened().close()
    cache.chmod(0o500)
    program = """
import sys
from pathlib import Path
from tidings.vault.index.index import Index
from tidings.vault.files.paths import Vault, VaultUnusable
print(Index(Vault([Path(sys.argv[1])]), Path(sys.argv[2])).place)
"""
    ordinary = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"] if os.geteuid() == 0 else []
    command = [*ordinary, sys.executable, "-c", program, str(vault.mounts[0].root), str(cache / "deeper")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    cache.chmod(0o700)
    assert done.stdout == "None\n", done.stderr


def test_a_disk_that_fails_while_the_index_is_opened_is_told(
    vault: Vault, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(connection: sqlite3.Connection) -> None:
        if connection.execute("PRAGMA database_list").fetchone()[2].startswith("/tidings"):
            return  # In memory.
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    monkeypatch.setattr(database, "_set_up_writer", failing)
    with closing(Index(vault, cache)) as index:
        assert index.place is None
        assert "disk I/O error" in index.notes[0]


def test_the_log_of_an_index_under_constant_edits_stays_small(opened: Open) -> None:
    index = opened()
    assert index.place is not None
    log = index.place.with_name(f"{index.place.name}-wal")
    for number in range(60):
        with index._database.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('edit', ?)", (f"{number} " * 100_000,))
    assert log.stat().st_size < 12 * 2**20
