"""Other people's server: npm's `server-everything`, driven from the command line."""

import shlex
from pathlib import Path

import pytest

from tests.cli.running import tidings
from tests.client import everything


@pytest.fixture(scope="module")
def target() -> str:
    return shlex.join(everything.command("stdio"))


def test_it_is_listed_read_prompted_and_called(target: str) -> None:
    said = tidings("list", target, "--json").json
    tools = {tool["name"] for tool in said["tools"]}
    assert len(tools) == 19, tools  # Servers hide tools from clients that cannot be asked, or not as a task.
    assert said["resources"]
    assert said["prompts"]
    done = tidings("call", target, "echo", "message=hello")
    assert (done.code, done.out) == (0, "Echo: hello\n")
    uri = said["resources"][0]["uri"]
    assert tidings("read", target, uri).code == 0
    assert tidings("prompt", target, "simple-prompt").code == 0
    assert tidings("info", target, "--json").json["era"] == "legacy"


def test_its_image_is_saved(target: str, tmp_path: Path) -> None:
    done = tidings("call", target, "get-tiny-image", "--output", str(tmp_path / "tiny.png"))
    assert done.code == 0, done.err
    assert (tmp_path / "tiny.png").read_bytes().startswith(b"\x89PNG")


def test_an_unknown_tool_and_a_wrong_argument_are_named(target: str) -> None:
    done = tidings("call", target, "ecko")
    assert (done.code, "Did you mean 'echo'" in done.err) == (2, True)
    done = tidings("call", target, "echo", "mesage=hello")
    assert (done.code, "Did you mean message?" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trigger-elicitation-request-async"], '"action": "decline"'),
        (["trigger-sampling-request-async", "prompt=the tide"], "It comes in."),
    ],
)
def test_questions_are_answered_as_tasks(target: str, tmp_path: Path, words: list[str], said: str) -> None:
    script = tmp_path / "answers.yaml"
    script.write_text('- elicitation: "*"\n  decline: true\n- sampling: "*"\n  reply: It comes in.\n')
    done = tidings("call", target, *words, "--answers", str(script))
    assert (done.code, said in done.out) == (0, True), done.err
