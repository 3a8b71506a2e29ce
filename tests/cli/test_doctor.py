"""`tidings doctor` finds what is broken, says what to do, and breaks on nothing itself."""

import importlib.metadata
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nats
import pytest
from anyio import to_thread

from tests.bus.nats_server import api
from tests.bus.nats_server import running as nats_running
from tests.bus.redis_server import redis_server
from tests.cli.running import PROGRAM, Done, environment
from tidings.cli.doctor import command as command_module
from tidings.cli.doctor import files as files_module
from tidings.cli.doctor import machine
from tidings.cli.doctor.command import CheckedPath, Finding, examine, not_writable
from tidings.inspector.sessions.journal import Journal
from tidings.web.browser.chromium import NAMES

SOURCES = Path(command_module.__file__).parents[1]


@pytest.fixture
def place(tmp_path: Path) -> CheckedPath:
    """A user who has nothing."""
    (tmp_path / "home/project").mkdir(parents=True)
    return CheckedPath(tmp_path / "home", tmp_path / "home/project", {}, "linux")


def having(place: CheckedPath, **variables: str) -> CheckedPath:
    return CheckedPath(place.home, place.cwd, variables, place.platform)


def write(place: CheckedPath, path: str, text: str) -> Path:
    file = place.home / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o600)
    return file


def doctor(home: Path, *args: str, **env: str) -> Done:
    """The command, for a user with this folder."""
    cleared = {name: value for name, value in environment().items() if not name.startswith("XDG_")}
    run = subprocess.run(
        [*PROGRAM, "doctor", *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=home,
        env={**cleared, "HOME": str(home), **env},
    )
    return Done(run.returncode, run.stdout, run.stderr)


def about(done: Done, what: str) -> list[dict[str, Any]]:
    return [each for each in done.json["findings"] if each["what"] == what]


def test_a_machine_on_which_all_is_well_is_told_so(tmp_path: Path) -> None:
    done = doctor(tmp_path)
    assert (done.code, done.err) == (0, "")
    verdicts = {line.split()[0] for line in done.out.splitlines()[:-2] if not line.startswith("       ")}
    assert verdicts <= {"ok", "look"}
    assert "ok     Python: 3." in done.out
    assert re.search(r"\n\n(Nothing wrong|Everything is as it should be)", done.out)
    assert list(tmp_path.iterdir()) == []  # Nothing was made there.


def test_programs_get_json_and_the_same_exit_code(tmp_path: Path) -> None:
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor/mcp.json").write_text('{"mcpServers": {')
    done = doctor(tmp_path, "--json", TIDINGS_TOKEN="not-to-be-seen", TIDINGS_WEB_MAXBYTES="1")
    assert done.code == 1
    assert done.json["ok"] is False
    [cursor] = about(done, "Cursor")
    assert cursor["verdict"] == "wrong"
    assert re.search(r"line \d+, column \d+", cursor["words"])
    [misspelt] = about(done, "TIDINGS_WEB_MAXBYTES")
    assert misspelt["cure"] == "Did you mean TIDINGS_WEB_MAX_BYTES?"
    assert "not-to-be-seen" not in done.out


def test_what_cannot_be_written_as_text_is_shown_all_the_same(tmp_path: Path) -> None:
    home = os.fsdecode(os.fsencode(tmp_path) + b"/h\xffme")
    Path(home, ".cursor").mkdir(parents=True)
    Path(home, ".cursor/mcp.json").write_text("{")
    for options in ({}, {"PYTHONIOENCODING": "ascii"}):
        done = doctor(Path(home), **options)
        assert (done.code, done.err) == (1, "")
    assert doctor(Path(home), "--json").json["ok"] is False


@pytest.mark.parametrize(
    "broken",
    [
        {"HOME": "/dev/null/nowhere"},
        {"HOME": ""},
        {"PATH": ""},
        {"TMPDIR": "/dev/null/nowhere", "XDG_CONFIG_HOME": "x"},
    ],
)
def test_a_strange_environment_makes_no_traceback(tmp_path: Path, broken: dict[str, str]) -> None:
    env = {**environment(), "HOME": str(tmp_path), **broken}
    run = subprocess.run(
        [*PROGRAM, "doctor"], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path, env=env
    )
    assert run.stderr == ""
    assert run.returncode in (0, 1)
    assert "could not be looked at" not in run.stdout


def test_it_does_without_the_sdk(tmp_path: Path) -> None:
    program = """
import sys
from tidings.cli.main import main
main(["doctor", "--json"], standalone_mode=False)
heavy = ("mcp", "mcp_types", "pydantic", "httpx2", "textual", "lxml", "playwright")
print([name for name in heavy if name in sys.modules])
"""
    env = {**environment(), "HOME": str(tmp_path)}
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path, env=env)
    assert run.stdout.splitlines()[-1] == "[]", run.stderr


def test_a_check_that_breaks_is_a_finding_and_hides_no_other(
    place: CheckedPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(_: CheckedPath) -> Iterator[Finding]:
        yield Finding("SQLite", "ok", "so far.")
        raise OSError(5, "disk gone")

    monkeypatch.setattr(machine, "sqlite", breaks)
    monkeypatch.setattr(command_module, "CHECKS", (("gone", "no_such_file", "x"), *command_module.CHECKS))
    found = list(examine(place))
    assert (found[0].what, found[0].verdict) == ("gone", "wrong")
    assert "could not be checked (ModuleNotFoundError" in found[0].words
    assert any("disk gone" in each.words for each in found)
    assert found[-1].what == "variables"


# What is installed.


def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    place: CheckedPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = importlib.metadata.version

    def version(name: str) -> str:
        if name in ("watchfiles", "playwright"):
            raise importlib.metadata.PackageNotFoundError(name)
        return "4.0" if name == "redis" else installed(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    found = {each.what: each for each in machine.packages(place)}
    assert found["extra vault"].verdict == "look"
    assert "watchfiles" in found["extra vault"].words
    assert found["extra vault"].cure == f"{sys.executable} -m pip install -e '{machine._ROOT}[vault]'"
    assert "playwright" in found["extra render"].words
    assert "redis 6 or newer (installed: 4.0)" in found["extra redis"].words
    assert found["extra web"].verdict == "ok"
    assert found["tidings"].verdict == "ok"


def test_a_package_that_nothing_works_without_is_wrong_and_none_at_all_is_told(
    place: CheckedPath, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine, "_ROOT", tmp_path)
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: ["no-such-package>=1", "?"])
    [core, *_] = machine.packages(place)
    assert (core.verdict, core.cure.startswith(f"{sys.executable} -m pip install ")) == ("wrong", True)

    def requires(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", requires)
    [alone] = machine.packages(place)
    assert (alone.verdict, "not installed" in alone.words) == ("look", True)


def test_every_extra_has_a_purpose() -> None:
    extras = importlib.metadata.metadata("tidings").get_all("Provides-Extra") or []
    assert set(machine.PURPOSES) == set(extras) - {"all"}


def test_the_command_is_looked_for_where_a_shell_does(place: CheckedPath, tmp_path: Path) -> None:
    [absent] = machine.on_the_path(place)
    assert (absent.verdict, absent.cure[:12]) == ("look", "export PATH=")
    other = tmp_path / "bin/tidings"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    [another] = machine.on_the_path(having(place, PATH=str(other.parent)))
    assert another.verdict == "look"
    assert str(other) in another.words


def test_chromium_is_the_systems_or_playwrights(place: CheckedPath) -> None:
    assert machine._NAMES == NAMES
    [absent] = machine.chromium(having(place, PATH=""))
    assert (absent.verdict, "playwright install chromium" in absent.cure) == ("look", True)
    program = write(place, ".cache/ms-playwright/chromium-1200/chrome-linux/chrome", "")
    [brought] = machine.chromium(having(place, PATH=""))
    assert (brought.verdict, str(program) in brought.words) == ("ok", True)


def test_a_page_that_was_not_built_is_told(place: CheckedPath, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine.tidings, "__file__", str(tmp_path / "__init__.py"))
    [page] = machine.page(place)
    assert (page.verdict, page.cure[:7]) == ("look", "make ui")


# The system.


def test_full_text_search_is_tried(place: CheckedPath, monkeypatch: pytest.MonkeyPatch) -> None:
    [found] = machine.sqlite(place)
    assert found.verdict == "ok"

    class Without:
        def execute(self, _: str) -> None:
            raise sqlite3.OperationalError("no such module: fts5")

        def close(self) -> None:
            pass

    monkeypatch.setattr(sqlite3, "connect", lambda _: Without())
    [lacking] = machine.sqlite(place)
    assert (lacking.verdict, "FTS5" in lacking.words) == ("wrong", True)


def test_a_port_in_use_is_told_with_another(place: CheckedPath, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(machine, "PORTS", {port: ("where something serves", "Choose another")})
        [busy] = machine.ports(place)
    assert (busy.verdict, busy.cure) == ("look", "Choose another")
    [free] = machine.ports(place)
    assert free.verdict == "ok"


def test_low_limits_of_watching_come_with_the_line_that_raises_them(
    place: CheckedPath, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine, "INOTIFY", tmp_path)
    [unknown] = machine.watch_limits(place)
    assert unknown.verdict == "look"
    (tmp_path / "max_user_watches").write_text("8192\n")
    (tmp_path / "max_user_instances").write_text("128\n")
    [low] = machine.watch_limits(place)
    assert low.verdict == "look"
    assert low.cure.splitlines()[0] == "sudo sysctl fs.inotify.max_user_watches=524288"
    assert "max_user_instances" not in low.cure
    monkeypatch.setattr(machine, "_can_watch", lambda: False)
    [full] = machine.watch_limits(place)
    assert (full.verdict, "sudo sysctl fs.inotify.max_user_instances=512" in full.cure) == ("wrong", True)
    assert list(machine.watch_limits(CheckedPath(place.home, place.cwd, {}, "darwin"))) == []


def test_few_open_files_are_told(place: CheckedPath, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    for limits, verdict, cure in (
        ((256, 1_000_000), "look", "ulimit -n 4096"),
        ((256, 256), "look", "Ask the administrator for a higher limit."),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), "ok", ""),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limits=limits: limits)
        [found] = machine.open_files(place)
        assert (found.verdict, found.cure) == (verdict, cure)


def test_a_clock_that_cannot_be_right_is_wrong(place: CheckedPath, monkeypatch: pytest.MonkeyPatch) -> None:
    [right] = machine.clock(place)
    assert right.verdict == "ok"
    monkeypatch.setattr(machine.time, "time", lambda: 0.0)
    [wrong] = machine.clock(place)
    assert (wrong.verdict, "1970-01-01" in wrong.words) == ("wrong", True)
    monkeypatch.undo()
    ahead = machine.time.time() + 3600
    monkeypatch.setattr(machine.time, "time", lambda: ahead)
    [apart] = machine.clock(place)
    assert apart.verdict == "look"


def test_a_file_where_a_folder_has_to_be_is_wrong(place: CheckedPath) -> None:
    write(place, ".cache", "")
    temporary, cache = machine.folders(place)
    assert temporary.verdict == "ok"
    assert (cache.verdict, "~/.cache is not a folder" in cache.words) == ("wrong", True)


def test_a_folder_that_cannot_be_written_and_a_full_disk_are_told(
    place: CheckedPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = os.statvfs_result((4096, 4096, 10, 0, 0, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    assert [each.verdict for each in machine.folders(place)] == ["look", "look"]
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = list(machine.folders(place))
    assert [each.verdict for each in found] == ["wrong", "wrong"]
    assert found[1].cure.splitlines() == [
        f"chmod u+rwX {place.home}",
        "Or use another folder: export XDG_CACHE_HOME=DIR, or tidings vault PATH --cache DIR",
    ]


def test_what_is_not_mine_is_asked_for_and_what_is_read_only_is_told_so(
    place: CheckedPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(os, "getuid", lambda: place.home.stat().st_uid + 1)
    assert not_writable(place.home / "a/b", place) == (
        "you have no permission to write ~",
        f'sudo chown "$(id -un)" {place.home}',
    )
    frozen = os.statvfs_result((4096, 4096, 10, 10, 10, 0, 0, 0, os.ST_RDONLY, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: frozen)
    assert not_writable(place.home, place) == ("~ is on a read-only file system", "")


def test_files_that_cannot_be_made_or_written_are_told_with_a_cure_that_helps(
    place: CheckedPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place.home / "state/sessions.db"
    monkeypatch.setattr("tidings.inspector.sessions.saved.default_path", lambda: path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        for [found] in (files_module.catalog(place), files_module.journal(place)):
            assert found.verdict == "look"
            assert "cannot be created: you have no permission to write ~" in found.words
            assert found.cure == f"chmod u+rwX {place.home}"
    Journal(path).keep([])
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        [journal] = files_module.journal(place)
    assert (journal.verdict, journal.cure) == ("wrong", f"chmod u+rwX {path.parent}\nchmod u+rwX {path}")


@pytest.mark.parametrize("there", [True, False])
def test_what_was_installed_from_a_file_is_installed_from_there_again(
    place: CheckedPath, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, there: bool
) -> None:
    wheel = tmp_path / "my wheels" / "tidings-0.1.0-py3-none-any.whl"
    if there:
        wheel.parent.mkdir()
        wheel.touch()
    installed = SimpleNamespace(version="1", read_text=lambda _: json.dumps({"url": wheel.as_uri()}))
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: installed)
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: ["package>=2"])
    monkeypatch.setattr(machine, "_ROOT", tmp_path)
    [core, *_] = machine.packages(place)
    assert core.cure == f"{sys.executable} -m pip install " + (f"'{wheel}'" if there else "tidings")
    monkeypatch.setattr(machine, "find_spec", lambda _: None)
    [core, *_] = machine.packages(place)
    assert core.cure.startswith(f"uv pip install --python {sys.executable} ")


# Files.


def test_a_catalog_is_told_with_its_servers_and_what_is_wrong_with_it(place: CheckedPath) -> None:
    [none] = files_module.catalog(place)
    assert (none.verdict, "none yet" in none.words) == ("ok", True)

    servers = {"good": {"command": "sh"}, "gone": {"command": "no-such-program"}, "bad": {"command": 1}}
    file = write(place, ".config/tidings/servers.json", json.dumps({"mcpServers": servers}))
    file.chmod(0o644)
    found = list(files_module.catalog(having(place, PATH="/bin:/usr/bin")))
    assert [each.verdict for each in found] == ["look", "wrong", "ok", "look"]
    assert found[0].cure == f"chmod 600 {file}"
    assert "bad" in found[1].words
    assert "2 servers: good, gone" in found[2].words
    assert "gone cannot start: there is no program 'no-such-program'" in found[3].words

    file.write_text('{\n  "mcpServers": oops\n}')
    [broken] = files_module.catalog(place)
    assert (broken.verdict, "line 2" in broken.words) == ("wrong", True)
    file.unlink()
    file.mkdir()
    [folder] = files_module.catalog(place)
    assert (folder.verdict, "is a folder" in folder.words) == ("wrong", True)


def test_a_journal_is_told_with_its_size_and_what_is_wrong_with_it(
    place: CheckedPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place.home / "my state/sessions.db"
    monkeypatch.setattr("tidings.inspector.sessions.saved.default_path", lambda: path)
    [none] = files_module.journal(place)
    assert (none.verdict, "none yet" in none.words) == ("ok", True)

    Journal(path).keep([])
    [good] = files_module.journal(place)
    assert (good.verdict, good.words.startswith("1 session, ")) == ("ok", True)

    monkeypatch.setattr(files_module, "_LARGE", 10)
    path.chmod(0o644)
    opened, large = files_module.journal(place)
    assert (opened.verdict, opened.cure, large.verdict) == ("look", f"chmod 600 '{path}'", "look")
    path.chmod(0o600)

    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    [newer] = files_module.journal(place)
    assert newer.verdict == "wrong"
    path.write_bytes(b"this is no database at all, however long one looks at it" * 100)
    [broken] = files_module.journal(place)
    assert (broken.verdict, broken.cure) == ("wrong", f"mv '{path}' '{path}.broken'")


def test_the_files_of_ai_clients_are_told_whole_or_broken(place: CheckedPath) -> None:
    write(place, ".claude.json", json.dumps({"projects": {"/srv/x": {"mcpServers": {"web": {"url": "http://h/mcp"}}}}}))
    write(place, ".cursor/mcp.json", '{"mcpServers": {"one": {"command": "sh", "env": {"API_KEY": "hush"}}}}')
    write(place, ".config/Claude/claude_desktop_config.json", "{\n  oops\n}")
    write(place, "project/.vscode/mcp.json", '{"servers": {"own": {"command": "./serve"}}}')
    found = list(files_module.clients(having(place, PATH="/bin:/usr/bin")))
    by_client = {(each.what, each.verdict): each for each in found}
    assert re.search(r"line 2, column \d", by_client["Claude Desktop", "wrong"].words)
    assert "1 server: web (~/.claude.json, for /srv/x)" in by_client["Claude Code", "ok"].words
    assert "1 server: one (~/.cursor/mcp.json)" in by_client["Cursor", "ok"].words
    assert "own cannot start: there is no program './serve'" in by_client["VS Code", "look"].words
    assert not any("hush" in f"{each}" for each in found)


# Variables.


def test_variables_are_told_with_their_values_but_for_secrets(place: CheckedPath) -> None:
    found = {
        each.what: each
        for each in files_module.variables(
            having(
                place,
                TIDINGS_TOKEN="a-secret-of-mine",
                TIDINGS_BEARER_TOKEN="two words",
                TIDINGS_WEB_MAX_BYTES="1M",
                TIDINGS_WEB_TIMEOUT="soon",
                TIDINGS_LOG_LEVEL="DEBUG",
                TIDINGS_LOG_JSON="maybe",
                TIDINGS_VAULT_CACHE="/var/cache",
                TIDINGS_VAULT_HTTP="nonsense",
                TIDINGS_WEB_HTTP="127.0.0.1:70000",
                TIDINGS_MOCK_HTTP=":8000",
                TIDINGS_VAULT_BUS="redis://:hush@host",
                TIDINGS_WEB_ALLOW_DOMAIN="example.org,example.com",
                TIDINGS_INSPECT_PORT="many",
                TIDINGS_URI="x://y",
                TIDINGS_TOKN="hush",
                TIDINGS_XYZZY="hush",
                HOME="/",
            )
        )
    }
    assert found["TIDINGS_TOKEN"].verdict == "ok"
    assert "16 characters, not shown" in found["TIDINGS_TOKEN"].words
    assert found["TIDINGS_BEARER_TOKEN"].verdict == "wrong"
    assert "'1M'" in found["TIDINGS_WEB_MAX_BYTES"].words
    assert found["TIDINGS_WEB_TIMEOUT"].verdict == "wrong"
    assert found["TIDINGS_URI"].verdict == "ok"
    assert found["TIDINGS_TOKN"].cure == "Did you mean TIDINGS_TOKEN?"
    assert found["TIDINGS_XYZZY"].verdict == "wrong"
    assert found["TIDINGS_LOG_LEVEL"].verdict == "ok"
    assert found["TIDINGS_LOG_JSON"].verdict == "wrong"
    assert found["TIDINGS_VAULT_CACHE"].words == "'/var/cache'; it sets `tidings vault --cache`."
    assert found["TIDINGS_VAULT_BUS"].verdict == "ok"
    assert found["TIDINGS_WEB_ALLOW_DOMAIN"].verdict == "ok"
    assert found["TIDINGS_INSPECT_PORT"].verdict == "wrong"
    assert (found["TIDINGS_VAULT_HTTP"].verdict, found["TIDINGS_WEB_HTTP"].verdict) == ("wrong", "wrong")
    assert "'nonsense' is not an address" in found["TIDINGS_VAULT_HTTP"].words
    assert found["TIDINGS_MOCK_HTTP"].words == "':8000'; it sets `tidings mock --http`."
    assert len(found) == 16
    said = " ".join(f"{each}" for each in found.values())
    assert not any(secret in said for secret in ("a-secret", "two words", "hush"))


def test_an_empty_token_is_worth_a_look(place: CheckedPath) -> None:
    [found] = files_module.variables(having(place, TIDINGS_TOKEN=""))
    assert found.verdict == "look"


def test_every_variable_that_is_read_is_known() -> None:
    known = {*files_module.option_variables(), *files_module.TOKENS, *files_module.OTHERS}
    files = [path for path in SOURCES.rglob("*.py") if not path.name.startswith("doctor")]
    read = {name for path in files for name in re.findall(r"\bTIDINGS_[A-Z_]+[A-Z]\b", path.read_text())}
    assert {"TIDINGS_LOG_LEVEL", "TIDINGS_VAULT_READ_ONLY", "TIDINGS_WEB_TIMEOUT"} < known
    assert read - known == set()


# The bus


def test_a_bus_that_stores_changes(tmp_path: Path) -> None:
    assert machine.bus(f"sqlite://{tmp_path}/bus.db").verdict == "ok"
    assert machine.bus("memory:").verdict == "ok"


def test_a_bus_whose_url_is_not_valid() -> None:
    found = machine.bus("pigeon://coop")
    assert found.verdict == "wrong"
    assert "pigeon" in found.words


def test_a_bus_that_is_away(tmp_path: Path) -> None:
    for url, cure in (
        ("nats://127.0.0.1:1", "Start nats-server"),
        ("redis://127.0.0.1:1", "Look whether it runs"),
        (f"sqlite://{tmp_path}/missing/bus.db", "Create it."),
    ):
        found = machine.bus(url)
        assert found.verdict == "wrong"
        assert cure in found.words
        assert found.cure.endswith("bus-unavailable")


@pytest.mark.anyio
async def test_a_nats_bus_whose_disk_is_full(tmp_path: Path) -> None:
    limited = f'jetstream {{ store_dir: "{tmp_path}/store", max_file_store: 1MB }}'
    with nats_running(tmp_path / "nats", limited, jetstream=False) as server:
        assert (await to_thread.run_sync(machine.bus, server.url)).verdict == "ok"
        await api(server.url, "STREAM.CREATE.big", {"name": "big", "subjects": ["big.>"], "storage": "file"})
        client = await nats.connect(server.url)
        while b"error" not in (await client.request("big.x", bytes(100_000))).data:
            pass
        await client.close()
        found = await to_thread.run_sync(machine.bus, f"{server.url}?timeout=0.5")
    assert found.verdict == "wrong"
    assert "no room left for JetStream. Give it more, or delete what is not used." in found.words


@pytest.mark.anyio
async def test_a_redis_bus_that_is_out_of_memory(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as server:
        assert (await to_thread.run_sync(machine.bus, server.url)).verdict == "ok"
        server.ask("CONFIG", "SET", "maxmemory", "1")
        found = await to_thread.run_sync(machine.bus, server.url)
    assert found.verdict == "wrong"
    assert "has no memory left" in found.words
