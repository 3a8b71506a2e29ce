"""`tidings doctor` finds what is broken, says what to do, and breaks on nothing itself."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from anyio import to_thread

from tests.bus.nats_server import api
from tests.bus.nats_server import running as nats_running
from tests.bus.redis_server import redis_server
from tests.cli.running import PROGRAM, Done, environment
from tidings._kit.lazy import install_command
from tidings.cli import doctor as machine
from tidings.cli.doctor import CheckedPath, Finding, examine
from tidings.web.browser.chromium import NAMES


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
    assert re.search(r"\n\n(Nothing wrong|Everything is fine)", done.out)
    assert list(tmp_path.iterdir()) == []  # Nothing was made there.


def test_programs_get_json_and_the_same_exit_code(tmp_path: Path) -> None:
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor/mcp.json").write_text('{"mcpServers": {')
    done = doctor(tmp_path, "--json", TIDINGS_TOKEN="not-to-be-seen")
    assert done.code == 1
    assert done.json["ok"] is False
    [cursor] = about(done, "Cursor")
    assert cursor["verdict"] == "wrong"
    assert re.search(r"line \d+, column \d+", cursor["words"])
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
        yield Finding("Python", "ok", "so far.")
        raise OSError(5, "disk gone")

    monkeypatch.setitem(machine.CHECKS, "Python", breaks)
    found = list(examine(place))
    assert [(each.what, each.verdict) for each in found[:2]] == [("Python", "ok"), ("Python", "wrong")]
    assert "could not be checked (OSError: [Errno 5] disk gone)" in found[1].words
    assert found[-1].what == "AI clients"


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
    assert found["extra vault"].cure == install_command("vault")
    assert "playwright" in found["extra render"].words
    assert "redis 6 or newer (installed: 4.0)" in found["extra redis"].words
    assert found["extra web"].verdict == "ok"
    assert found["tidings"].verdict == "ok"


def test_a_package_that_nothing_works_without_is_wrong_and_none_at_all_is_told(
    place: CheckedPath, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_chromium_is_the_systems_or_playwrights(place: CheckedPath) -> None:
    assert machine._NAMES == NAMES
    [absent] = machine.chromium(having(place, PATH=""))
    assert (absent.verdict, "playwright install chromium" in absent.cure) == ("look", True)
    program = write(place, ".cache/ms-playwright/chromium-1200/chrome-linux/chrome", "")
    [brought] = machine.chromium(having(place, PATH=""))
    assert (brought.verdict, str(program) in brought.words) == ("ok", True)


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


# Files.


def test_the_files_of_ai_clients_are_told_whole_or_broken(place: CheckedPath) -> None:
    write(place, ".claude.json", json.dumps({"projects": {"/srv/x": {"mcpServers": {"web": {"url": "http://h/mcp"}}}}}))
    write(place, ".cursor/mcp.json", '{"mcpServers": {"one": {"command": "sh", "env": {"API_KEY": "hush"}}}}')
    write(place, ".config/Claude/claude_desktop_config.json", "{\n  oops\n}")
    write(place, "project/.vscode/mcp.json", '{"servers": {"own": {"command": "./serve"}}}')
    found = list(machine.clients(having(place, PATH="/bin:/usr/bin")))
    by_client = {(each.what, each.verdict): each for each in found}
    assert re.search(r"line 2, column \d", by_client["Claude Desktop", "wrong"].words)
    assert "1 server: web (~/.claude.json, for /srv/x)" in by_client["Claude Code", "ok"].words
    assert "1 server: one (~/.cursor/mcp.json)" in by_client["Cursor", "ok"].words
    assert "own cannot start: there is no program './serve'" in by_client["VS Code", "look"].words
    assert not any("hush" in f"{each}" for each in found)


# Variables.


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
