"""The examples that are whole stories, told from beginning to end in processes of their own."""

import re
import signal
import subprocess
import sys

import psutil
import pytest

from tests.examples.programs import EXAMPLES, run


def test_an_agent_is_shown_what_is_so_and_reads_only_what_changed() -> None:
    story = run("fresh_agent.py")
    assert story.returncode == 0, story.stderr
    assert story.stderr == ""
    first, second, third = story.stdout.split("> ")[1:]
    assert "(2 read for it)" in first
    assert "kitchen says: Nothing yet." in second
    assert "(0 read for it)" in second
    assert "kitchen says: There is cake." in third
    assert "(1 read for it)" in third


def test_a_server_that_asks_is_tried_with_nobody_there() -> None:
    tried = run("in_ci.py")
    assert (tried.returncode, tried.stderr) == (0, "")
    assert [line[:2] for line in tried.stdout.splitlines()] == ["ok"] * 7


def test_a_server_that_does_not_do_as_it_should_fails_in_ci(tmp_path) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text('[{"elicitation": "*", "decline": null}]')
    tried = run("in_ci.py", f"{sys.executable} {EXAMPLES / 'asking_server.py'}", str(answers))
    assert tried.returncode == 1
    assert "FAILED accepting the question books seats" in tried.stdout
    assert "The server wrote:" in tried.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("python there_is_none.py",), "not tested: python there_is_none.py ended"),
        ((f"{sys.executable} {EXAMPLES / 'asking_server.py'}", "none.json"), "The script none.json cannot be read"),
    ],
)
def test_a_server_that_cannot_be_tried_is_another_matter_than_one_that_fails(args: tuple[str], words: str) -> None:
    tried = run("in_ci.py", *args)
    assert tried.returncode == 2
    assert words in tried.stderr
    assert "Traceback" not in tried.stderr


def test_nothing_is_stale_when_a_replica_is_killed() -> None:
    story = run("replicas/killing.py", "4")
    assert (story.returncode, story.stderr) == (0, "")
    assert story.stdout.count("received after") == 4
    assert "kill -9 of replica A" in story.stdout
    assert "replica A is back" in story.stdout
    assert "Changes: 4. Kills: 1. Stale: nothing." in story.stdout


def test_a_copy_is_fresh_again_after_its_server_was_killed() -> None:
    story = run("surviving.py", "4")
    assert (story.returncode, story.stderr) == (0, "")
    assert story.stdout.count("received after") == 4
    assert story.stdout.count("kill -9") == 1
    after = story.stdout.partition("kill -9")[2]
    assert after.index("the client: error") < after.index("the client: connected") < after.index("'note 3' received")


def test_users_hear_only_of_what_is_theirs_and_only_as_long_as_they_may() -> None:
    story = run("authentication/private_notes.py")
    assert (story.returncode, story.stderr) == (0, "")
    *told, revoked, last = story.stdout.splitlines()
    assert told == [
        "ada asks for Bob's diary: The server does not announce changes to diary://bob. Use `watch`, which polls.",
        "ada reads Bob's diary: Unknown resource: diary://bob",
        "bob reads 'Rain.'",
        "bob reads 'Sun.'",
    ]
    assert revoked.startswith("ada is revoked: The server refused these credentials (HTTP 401).")
    assert last == "bob reads 'Snow.'"


@pytest.mark.parametrize(
    ("name", "processes"), [("surviving.py", 1), pytest.param("replicas/killing.py", 3, marks=pytest.mark.thorough)]
)
def test_a_story_takes_all_its_processes_with_it_on_ctrl_c(name: str, processes: int) -> None:
    command = [sys.executable, EXAMPLES / name, "1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as story:
        try:
            assert story.stdout is not None
            assert any("received after" in line for line in story.stdout)
            started = psutil.Process(story.pid).children()
            assert len(started) == processes
            story.send_signal(signal.SIGINT)
            _, errors = story.communicate(timeout=30)
        finally:
            story.kill()
    assert errors == ""
    assert not any(process.is_running() for process in started)


def test_the_list_of_examples_is_complete() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    single, folders = EXAMPLES.glob("*.py"), {path.parent for path in EXAMPLES.glob("*/*.py")}
    assert [path.name for path in single if f"]({path.name})" not in listed] == []
    assert [folder.name for folder in folders if f"]({folder.name}/README.md)" not in listed] == []
    assert [path for path in EXAMPLES.rglob("*.py") if not path.read_text().startswith('"""')] == []


def test_each_line_to_type_is_a_line_of_its_own() -> None:
    for path in EXAMPLES.rglob("*.py"):
        opening = path.read_text().split('"""')[1]
        typed = [line for line in opening.splitlines() if re.match(r" *(python|tidings|pip|BUS=\S+) ", line)]
        assert typed, path.name
        assert [line for line in typed if not line.startswith("    ")] == [], path.name
