"""Tasks on the command line: `tidings call` follows or leaves them, `tidings task` shows, follows and cancels them."""

import contextlib
import json
import shlex
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.running import line_of, listens, odd, started, terminal, tidings, until
from tests.client import everything
from tests.forking import Forked
from tests.ports import free_port

JOBS = Path(__file__).parents[1] / "inspector" / "jobs.py"


@contextlib.contextmanager
def serving() -> Generator[str]:
    """The server of jobs at a URL."""
    port = free_port()
    process = Forked(str(JOBS), str(port))
    try:
        until(lambda: listens(port) or process.poll() is not None)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.stop()


@pytest.fixture
def url() -> Generator[str]:
    with serving() as one:
        yield one


def begun(url: str, tool: str = "reindex") -> str:
    """The id of a task that goes on."""
    done = tidings("call", url, tool, "--detach")
    assert done.code == 0, done.err
    assert done.err == f"Follow it with: tidings task {url} {done.out.strip()} --wait\n"
    return done.out.strip()


def test_a_task_is_followed_to_its_end_with_its_words_as_progress(url: str) -> None:
    with started("call", url, "reindex", "--progress") as process:
        assert line_of(process, "stderr").startswith("task reindex.")
        while "Reading note 2" not in line_of(process, "stderr"):
            pass
        assert tidings("call", url, "go_on").code == 0
        assert line_of(process) == "3 notes are in the index.\n"
        assert process.wait(10) == 0


def test_a_task_that_is_left_is_shown_waited_for_and_shown_again_with_its_result(url: str) -> None:
    task = begun(url)
    shown = tidings("task", url, task)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("status   working\n")
    assert "Reading note 2" in shown.out
    assert tidings("task", url, task, "--json").json["taskId"] == task
    with started("task", url, task, "--wait", "--progress", "--json") as process:
        while (event := json.loads(line_of(process)))["task"]["status"] != "working":
            pass
        assert event["task"]["taskId"] == task
        assert tidings("call", url, "go_on").code == 0
        while "result" not in (event := json.loads(line_of(process))):
            pass
        assert event["result"]["content"][0]["text"] == "3 notes are in the index."
    shown = tidings("task", url, task)
    assert shown.out.startswith("status   completed\n")
    assert shown.out.endswith("result\n3 notes are in the index.\n")
    assert tidings("task", url, task, "--wait").out == "3 notes are in the index.\n"


def test_a_task_is_cancelled_and_its_end_is_an_error_for_those_who_wait(url: str) -> None:
    task = begun(url)
    assert tidings("task", url, task, "--cancel").code == 0
    until(lambda: tidings("task", url, task, "--json").json["status"] == "cancelled")
    done = tidings("task", url, task, "--wait", "--json")
    assert (done.code, done.error["code"], done.error["data"]["task_id"]) == (7, "task-cancelled", task)


def test_a_task_that_the_server_forgets_as_soon_as_it_is_cancelled_is_cancelled() -> None:
    done = tidings("task", odd("modern", "forgetful"), "gone", "--cancel")
    assert (done.code, done.out, done.err) == (0, "status  cancelled\n", "")
    done = tidings("task", odd("modern", "forgetful"), "gone", "--cancel", "--json")
    assert done.json == {"taskId": "gone", "status": "cancelled"}


def test_a_tool_that_fails_as_a_task_ends_with_1(url: str) -> None:
    done = tidings("call", url, "break_down")
    assert (done.code, done.out, "The disk is full." in done.err) == (1, "", True)


def test_an_unknown_task_is_named_with_the_cure(url: str) -> None:
    for options in ((), ("--cancel",), ("--wait",)):
        done = tidings("task", url, "nonsense", "--json", *options)
        assert (done.code, done.error["code"], done.error["who"]) == (7, "task-lost", "the server"), done.err
    assert tidings("task", url, "nonsense", "--wait", "--cancel").code == 2


def test_a_task_without_news_in_time_goes_on_and_the_command_that_follows_it_is_named(url: str) -> None:
    done = tidings("call", url, "reindex", "--timeout", "1", "--json")
    assert (done.code, done.error["code"]) == (5, "request-timed-out")
    words = shlex.split(done.error["message"].partition("Follow it with: ")[2])
    assert words[:3] == ["tidings", "task", url]
    assert tidings("call", url, "go_on").code == 0
    assert tidings(*words[1:]).out == "3 notes are in the index.\n"


def test_a_tool_that_answers_at_once_cannot_be_left(url: str) -> None:
    done = tidings("call", url, "go_on", "--detach")
    assert (done.code, done.out) == (0, "They go on.\n")
    assert "without a task" in done.err


def test_what_is_left_of_a_command_is_said_and_a_look_needs_no_sdk() -> None:
    target = shlex.join([sys.executable, str(JOBS)])
    done = tidings("call", target, "reindex", "--detach", "--json")
    assert (done.code, done.json["status"]) == (0, "working")
    assert "Only a task that it keeps on disk goes on" in done.err
    done = tidings("task", target, "nonsense", "--json")
    assert (done.code, done.error["code"]) == (7, "task-lost")


def test_ctrl_c_cancels_the_task(url: str) -> None:
    with terminal("call", url, "reindex", columns=200) as shell:
        shell.expect("Reading note 2")
        shell.expect("(Ctrl-C cancels the task)")
        shell.process.send_signal(signal.SIGINT)
        code, seen = shell.end()
    assert (code, "The task was cancelled." in seen) == (130, True)


def test_sigterm_cancels_the_task_too(url: str) -> None:
    with started("call", url, "reindex", "--progress") as process:
        task = line_of(process, "stderr").split()[1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143
    until(lambda: tidings("task", url, task, "--json").json["status"] == "cancelled")


def test_the_question_of_a_task_is_answered_at_the_terminal(url: str) -> None:
    with terminal("call", url, "import_folder") as shell:
        shell.expect("Which one do you want to keep?")
        shell.expect("Keep*: ")
        shell.type("the second\n")
        shell.expect("Send this?")
        shell.type("\n")
        code, seen = shell.end()
    assert (code, "Kept the second." in seen) == (0, True)


def test_the_question_of_a_task_is_answered_by_a_script(url: str, tmp_path: Path) -> None:
    script = tmp_path / "answers.json"
    script.write_text(json.dumps([{"elicitation": "*two copies*", "accept": {"keep": "both"}}]))
    assert tidings("call", url, "import_folder", "--answers", str(script)).out == "Kept both.\n"


def test_a_server_of_the_older_design_is_followed_but_not_left() -> None:
    target = shlex.join(everything.command("stdio"))
    done = tidings("call", target, "simulate-research-query", "topic=tea", "--progress")
    assert (done.code, "Research Report: tea" in done.out) == (0, True)
    assert "working Generating report..." in done.err
    for words in (("call", target, "simulate-research-query", "topic=tea", "--detach"), ("task", target, "x")):
        done = tidings(*words, "--json")
        assert (done.code, done.error["code"]) == (6, "not-supported")
        assert "legacy era" in done.error["message"]


def test_a_long_status_is_shown_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "Inbox.md").write_text("# Inbox\n")
    vault = shlex.join([sys.executable, "-m", "tidings", "vault", str(tmp_path)])
    with terminal("call", vault, "wait_for_change", "uris=vault://note/Inbx.md", columns=80) as shell:
        shell.expect("Did you mean 'Inbox.md'?")
        shell.expect("(Ctrl-C cancels the task)")
        shell.process.send_signal(signal.SIGINT)
        assert shell.end()[0] == 130
