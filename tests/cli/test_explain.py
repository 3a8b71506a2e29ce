"""Errors explained offline, and messages that speak of options."""

import ast
import re
from pathlib import Path

import pytest

import tidings as package
from tests.cli.running import odd, tidings
from tidings.cli.exits import in_the_shell
from tidings.errors import leaves

FOR_PROGRAMS = re.compile(
    r"\b(token|headers|auth|env|cwd|era|timeout|config)=|\b(Timeouts|ClientConfig|Backoff|connect)\(|ClientConfig"
)
OF_PROGRAMS = {"targets.py", "live.py", "__init__.py", "config.py"}  # What only a program can be told


@pytest.mark.parametrize("code", [error.code for error in leaves()])
def test_each_error_has_a_page_that_is_printed_offline(code: str) -> None:
    done = tidings("explain", code)
    assert (done.code, done.out.startswith(code)) == (0, True)
    assert "What to do" in done.out
    assert "](" not in done.out


def test_errors_are_listed_and_a_wrong_code_is_corrected() -> None:
    listed = tidings("explain").out
    assert all(error.code in listed for error in leaves())
    assert tidings("explain", "ConnectFailed").out.startswith("connect-failed")
    done = tidings("explain", "conect-failed")
    assert (done.code, "Did you mean 'connect-failed'" in done.err) == (2, True)


def test_an_error_names_the_command_that_explains_it_and_no_address() -> None:
    done = tidings("list", odd("dies"))
    assert done.err.splitlines()[-1] == "Help: tidings explain command-failed"
    assert "http" not in done.err


def test_messages_on_the_command_line_speak_of_options() -> None:
    folder = Path(package.__file__).parent
    for file in [*folder.glob("client/**/*.py"), folder / "_kit/process.py"]:
        tree = ast.parse(file.read_text("utf-8"))
        texts = [
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        for text in texts:
            if ". " in text and "`" not in text and "\n" not in text and file.name not in OF_PROGRAMS:
                assert not FOR_PROGRAMS.search(in_the_shell(text)), (file.name, text)
