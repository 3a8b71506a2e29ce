"""The small client: both eras, and servers that do not behave. Nothing hangs, nothing is left behind."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mcp.client.stdio import get_default_environment
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from tests.cli.running import PROGRAM, environment, is_gone, odd, tidings, until
from tidings.cli import wire_client


def test_it_knows_the_versions_that_the_sdk_knows() -> None:
    assert tuple(HANDSHAKE_PROTOCOL_VERSIONS) == wire_client.LEGACY
    assert tuple(MODERN_PROTOCOL_VERSIONS) == wire_client.MODERN


def test_a_command_inherits_what_it_inherits_from_the_sdk() -> None:
    assert wire_client.environment({"A": "1"}) == {**get_default_environment(), "A": "1"}


@pytest.mark.parametrize(
    ("behaviour", "era", "version"),
    [("modern", "modern", "2026-07-28"), ("plain", "legacy", "2025-11-25"), ("mute", "legacy", "2025-11-25")],
)
def test_the_era_is_found_out(behaviour: str, era: str, version: str) -> None:
    said = tidings("info", odd(behaviour), "--json", "--timeout", "9").json
    assert (said["era"], said["protocolVersion"], said["serverInfo"]["name"]) == (era, version, "odd")


def test_a_time_limit_may_be_longer_than_the_system_can_wait() -> None:
    assert tidings("info", odd("modern"), "--json", "--timeout", "1e10").json["era"] == "modern"


def test_the_old_era_can_be_insisted_on() -> None:
    assert tidings("info", odd("modern"), "--json", "--era", "legacy").json["era"] == "legacy"


def test_a_server_of_the_old_era_is_told_from_the_modern_one_that_was_asked_for() -> None:
    done = tidings("info", odd(), "--json", "--era", "2026-07-28")
    assert done.code == 6
    assert "unsupported-version" in done.err


@pytest.mark.parametrize("era", ["modern", "plain"])
def test_lists_are_the_same_as_by_the_live_client(era: str) -> None:
    quickly, at_length = tidings("list", odd(era), "--json"), tidings("list", odd(era), "--json", "--verbose")
    assert quickly.json == at_length.json
    assert quickly.err == ""
    assert '"method": "tools/list"' in at_length.err


def test_all_pages_of_a_list_are_read() -> None:
    said = tidings("list", odd("pages"), "tools", "--json").json
    assert [tool["name"] for tool in said["tools"]] == ["add", "say", "lie", "draw", "break", "die"]


@pytest.mark.parametrize(
    ("behaviour", "code", "kind", "words"),
    [
        ("dies", 4, "command-failed", "ended with exit code 3"),
        ("exits", 4, "command-failed", "ended with exit code 7"),
        ("silent", 5, "request-timed-out", "did not answer tools/list within 1 s"),
        ("floods", 5, "request-timed-out", "did not answer tools/list within 1 s"),
        ("long", 4, "message-too-large", "33,554,432 bytes"),
        ("loops", 6, "malformed-message", "was used before"),
        ("no-list", 6, "malformed-message", "no list 'tools'"),
        ("no-result", 6, "malformed-message", "neither a result nor an error"),
        ("newer", 6, "unsupported-version", "2099-01-01"),
        ("only-newer", 6, "unsupported-version", "2099-01-01"),
        ("no-capabilities", 6, "malformed-message", "capabilities: Field required"),
    ],
)
def test_a_server_that_misbehaves_is_named_within_its_time(behaviour: str, code: int, kind: str, words: str) -> None:
    timeout = "30" if behaviour in ("long", "only-newer") else "1"
    done = tidings("list", odd(behaviour), "tools", "--json", "--timeout", timeout)
    assert (done.code, done.out) == (code, "")
    assert done.error["code"] == kind
    assert done.error["who"] == "the server"
    assert words in done.error["message"]


def test_what_a_server_says_before_it_dies_is_shown_without_its_secrets() -> None:
    done = tidings("list", odd("dies"), "--env", "LICENCE_TOKEN=hush-hush-123")
    assert done.code == 4
    assert "no licence: token=***" in done.err
    assert "hush-hush-123" not in done.err


def test_what_is_no_message_is_passed_over() -> None:
    done = tidings("list", odd("garbage"), "tools", "--json")
    assert (done.code, len(done.json["tools"])) == (0, 6)


def test_a_program_that_is_no_server_is_quoted() -> None:
    done = tidings("list", f"{sys.executable} -c \"print('Usage: serve FILE')\"")
    assert done.code == 4
    assert "Usage: serve FILE" in done.err


@pytest.mark.parametrize("behaviour", [(), ("stubborn",)])
def test_no_process_is_left_behind(behaviour: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "pids"
    done = tidings("list", odd("child", *behaviour), "tools", "--env", f"PID_FILE={file}")
    assert done.code == 0
    until(lambda: all(is_gone(int(pid)) for pid in file.read_text().split()), within=20)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
@pytest.mark.parametrize("verbose", [False, True])
def test_whoever_ends_it_ends_the_server_too(number: int, code: int, verbose: bool, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    args = ["list", odd("child", "silent"), "tools", "--env", f"PID_FILE={file}", *(["-v"] if verbose else [])]
    process = subprocess.Popen([*PROGRAM, *args], stderr=subprocess.PIPE, text=True, env=environment())
    until(lambda: file.exists() and file.read_text())
    if verbose:
        while "tools/list" not in (process.stderr.readline() if process.stderr else ""):
            pass
    else:
        time.sleep(0.2)  # Nothing tells that it waits; when it does not yet, it ends in the same way.
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in said
    until(lambda: all(is_gone(int(pid)) for pid in file.read_text().split()), within=20)


def test_a_question_of_the_server_is_refused_where_nobody_can_be_asked() -> None:
    done = tidings("prompt", odd("asks"), "ask", "city=Oslo")
    assert (done.code, done.out.startswith("I am nobody: Nobody can be asked")) == (0, True)


def test_a_question_of_the_server_is_answered_by_a_script(tmp_path: Path) -> None:
    script = tmp_path / "answers.json"
    script.write_text('[{"elicitation": "Who*", "accept": {"name": "Ada"}}]')
    done = tidings("prompt", odd("asks"), "ask", "city=Oslo", "--answers", str(script))
    assert (done.code, done.out) == (0, "I am Ada.\n")


QUICK = """
    cli.main cli.oneshot cli.conversation cli.wire_client cli.terminal cli.contents cli.exits cli.logs cli.serving
    cli.queries cli.tools cli.vault cli.mock
    cli.client_config cli.doctor client.servers_file client.masking inspector.catalog.catalog errors
"""
"""Modules that import no SDK: commands start with them, and load the rest when they need it."""
SLOW = {"mcp", "mcp_types", "pydantic", "anyio", "asyncio", "httpx", "httpx2", "tidings.client.live"}


def test_the_modules_that_commands_start_with_import_nothing_slow() -> None:
    imports = "\n".join(f"import tidings.{name}" for name in QUICK.split())
    program = f"{imports}\nimport sys\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment())
    assert not set(run.stdout.split()) & SLOW


def test_neither_the_sdk_nor_an_event_loop_is_imported() -> None:
    program = (
        "import sys, atexit\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from tidings.cli.main import main\n"
        "main(sys.argv[1:])"
    )
    for command in (["list"], ["info"], ["ping"], ["read", "note://one"], ["prompt", "talk"], ["call", "say"]):
        words = [sys.executable, "-c", program, command[0], odd(), *command[1:]]
        run = subprocess.run(words, capture_output=True, text=True, check=True, env=environment(), timeout=60)
        assert not set(run.stderr.split()) & SLOW, command


def test_a_variable_is_passed_on_or_set(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    assert tidings("ping", odd("child"), "--env", "PID_FILE", PID_FILE=str(file)).code == 0
    assert file.exists()
    done = tidings("ping", odd(), "--env", "NOT_SET_ANYWHERE")
    assert (done.code, "NOT_SET_ANYWHERE is not set here" in done.err) == (2, True)


def test_the_folder_of_a_command_can_be_chosen() -> None:
    here = Path(__file__).parent
    assert tidings("ping", "--cwd", str(here), "--", sys.executable, "odd.py", cwd=Path(os.sep)).code == 0


def test_an_answer_to_what_nobody_asked_is_told_when_the_right_one_is_missed() -> None:
    done = tidings("list", odd("confused"), "tools", "--timeout", "1")
    assert (done.code, "It answered a request with the id 'not yours', which was never sent." in done.err) == (5, True)


def test_half_a_character_may_be_asked_for() -> None:
    done = tidings("read", odd(), "note://\udcff")
    assert (done.code, "resource-not-found" in done.err) == (2, True)


@pytest.mark.parametrize("says", ["stderr", "stdout"])
def test_a_command_that_serves_http_is_told_with_its_address_at_once(says: str) -> None:
    done = tidings("list", odd("http", says), "--json")
    assert (done.code, done.error["code"]) == (4, "command-failed")
    url = re.search(r"http://127\.0\.0\.1:\d+/mcp", done.error["message"])
    assert url is not None, done.error
    assert "use its address as TARGET" in done.error["message"]


def test_a_server_on_stdio_that_names_an_address_is_not_taken_for_one_on_http() -> None:
    done = tidings("list", odd("dashboard"), "tools", "--json")
    assert (done.code, len(done.json["tools"])) == (0, 6)


def test_what_a_modern_server_asks_is_answered_once_and_the_call_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "calls"
    done = tidings("call", odd("modern"), "greet", "--env", f"CALLS_FILE={file}")
    assert (done.code, "Declined: there is no terminal" in done.err) == (2, True)
    assert file.read_text() == "greet\n"


def test_a_call_that_is_given_up_is_cancelled_at_the_server(tmp_path: Path) -> None:
    file = tmp_path / "calls"
    done = tidings("call", odd(), "wait", "--timeout", "1", "--env", f"CALLS_FILE={file}")
    assert done.code == 5
    assert file.read_text() == "wait\ncancelled\n"
