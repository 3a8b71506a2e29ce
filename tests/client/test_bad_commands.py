"""Programs that are no servers, or bad ones: by name, with what they said, and gone afterwards."""

import stat
import sys
from pathlib import Path

import pytest

from tests.client.bad_servers import ERAS, MODERN, ONCE, QUICK, failure, program, refusal, settings
from tidings.client import State, connect
from tidings.client.events import GarbageReceived, StateChanged, StderrReceived
from tidings.errors import (
    CommandFailed,
    ConnectionLost,
    ConnectTimedOut,
    EffectUnknown,
    MessageTooLarge,
    RequestTimedOut,
    UnsupportedVersion,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("tidy")]

WHEN_READ = """
def odd(method, id, params):
    if method == "resources/read":
        {code}
        return True
"""


def when_read(code: str, era: str = MODERN) -> list[str]:
    """A program that behaves until it is asked for a resource."""
    return program(WHEN_READ.format(code=code), era)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["/no/such/program"], "there is no file /no/such/program"),
        (["no-such-program"], "there is no program 'no-such-program'. Is it installed"),
        (["pyton"], "Did you mean python"),
        ([str(Path(sys.executable).parent)], "is a directory"),
    ],
)
async def test_a_program_that_is_not_there_is_named(command: list[str], says: str) -> None:
    error = await refusal(command, config=QUICK, env={"PATH": str(Path(sys.executable).parent)})
    assert isinstance(error, CommandFailed)  # At once: to try again would not help.
    assert says in error.message


async def test_a_file_that_may_not_be_run_is_named(tmp_path: Path) -> None:
    file = tmp_path / "server"
    file.write_text("print('hello')")
    error = await refusal([str(file)])
    assert isinstance(error, CommandFailed)
    assert f"{file} may not be run. Make it executable (chmod +x)" in error.message
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    error = await refusal([str(file)])
    assert isinstance(error, CommandFailed)
    assert f"{file} is not a program. Name its interpreter" in error.message


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("sys.exit(3)", ("ended with exit code 3 before it answered", "Run the same command in a terminal")),
        ("sys.exit('API_KEY is not set')", ("ended with exit code 1", "It said:\nAPI_KEY is not set")),
        ("import os; os.kill(os.getpid(), 9)", ("ended with signal 9", "Run the same command")),
        ("say('Welcome!'); sys.exit(0)", ("exit code 0", "It printed 'Welcome!': its standard output is for messages")),
        ("import os; os.close(1); time.sleep(60)", ("closed the connection before it answered", "in a terminal")),
        ("raise KeyError('lost')", ("ended with exit code 1", "KeyError: 'lost'")),
    ],
)
async def test_a_program_that_ends_at_once_is_quoted(code: str, says: tuple[str, ...]) -> None:
    error = await refusal(program(code), seconds=60, config=settings(connect=50, total=60))
    assert isinstance(error, CommandFailed)
    for words in says:
        assert words in error.message


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("sys.stdin.read()", "Run the same command in a terminal"),
        ("say('Listening on port 80'); sys.stdin.read()", "It printed 'Listening on port 80'"),
        ("sys.stderr.write('loading a model\\n'); sys.stderr.flush(); sys.stdin.read()", "It said:\nloading a model"),
    ],
)
async def test_a_program_that_never_answers_has_its_time_and_no_more(code: str, says: str) -> None:
    error = await refusal(program(code), seconds=5, config=settings(backoff=ONCE, connect=1))
    assert isinstance(error, ConnectTimedOut)
    assert error.elapsed == 1
    assert "did not answer within 1 s. Give it longer with Timeouts(connect=...)" in error.message
    assert says in error.message


@pytest.mark.parametrize("era", ERAS)
async def test_what_a_program_prints_besides_its_messages_is_told_and_passed_over(era: str) -> None:
    code = "say('Hello'); say('{broken'); say('[1, 2]'); say('{}'); say(''); sys.stderr.write('to you\\n')"
    client = connect(program(code, era), config=QUICK)
    told: list[str] = []
    client.on(GarbageReceived, lambda event: told.append(event.text))
    client.on(StderrReceived, lambda event: told.append(event.line))
    async with client:
        assert client.protocol_version == era
        assert (await client.read_resource("note://a")).text == "content"
    assert sorted(told) == sorted(["Hello", "{broken", "[1, 2]", "{}", "to you"])


async def test_versions_that_nobody_speaks_are_told_though_the_program_ends_then() -> None:
    error = await refusal(program("does['initialize']['protocolVersion'] = '1999-01-01'"))
    assert isinstance(error, UnsupportedVersion)
    assert "1999-01-01" in error.message
    error = await refusal(program("does['server/discover']['supportedVersions'] = ['2099-01-01']", MODERN))
    assert isinstance(error, UnsupportedVersion)
    assert "speaks 2099-01-01; Tidings speaks" in error.message


# Answers that are none.


@pytest.mark.parametrize(
    "code",
    [
        "send(id=999, result={})",
        "send(id=None, error={'code': -32700, 'message': 'Parse error'})",
        "send(id=id, result=[1])",
        "send(id=id, error={'message': 'no code'})",
        "say('{broken')",
        "pass",
    ],
)
async def test_an_answer_that_is_none_costs_its_request_alone(code: str) -> None:
    async with connect(when_read(code), config=QUICK) as client:
        error = await failure(client.read_resource("note://a", timeout=0.3))
        assert isinstance(error, RequestTimedOut)
        assert "No answer to resources/read within 0.3 s; the connection stays open" in error.message
        assert (await client.call_tool("tool")).success
        assert client.state is State.CONNECTED


@pytest.mark.parametrize("era", ERAS)
async def test_a_line_of_fifty_megabytes_is_refused_and_the_next_is_read(era: str) -> None:
    code = """sys.stdout.write('{"jsonrpc": "2.0", "id": %d, "result": {"contents": [{"text": "' % id)
        for _ in range(50): sys.stdout.write("x" * 2**20)
        say('", "uri": "note://a"}]}}')"""
    async with connect(when_read(code, era), config=QUICK) as client:
        error = await failure(client.read_resource("note://a"))
        assert isinstance(error, MessageTooLarge)
        assert "52,428,8" in error.message
        assert "raise ClientConfig.max_message" in error.message
        assert (await client.call_tool("tool")).success


# Programs that end in the middle.


@pytest.mark.parametrize("end", ["sys.exit(3)", "sys.stdout.write('{\"jsonrpc'); sys.stdout.flush(); sys.exit(3)"])
async def test_a_program_that_ends_while_it_reads_is_started_again_a_few_times(end: str) -> None:
    client = connect(when_read(f"sys.stderr.write('oh no\\n'); {end}"), config=QUICK)
    lost: list[str] = []
    client.on(StateChanged, lambda event: lost.append(str(event.error)) if event.new is State.ERROR else None)
    async with client:
        error = await failure(client.read_resource("note://a"))
        assert isinstance(error, ConnectionLost)
        assert (await client.call_tool("tool")).success
    assert len(lost) == 5
    assert all("ended with exit code 3." in text and "It said:\noh no" in text for text in lost)


async def test_a_program_that_ends_while_a_tool_runs_is_not_asked_again() -> None:
    code = WHEN_READ.replace("resources/read", "tools/call").format(code="sys.exit(3)")
    async with connect(program(code), config=QUICK) as client:
        error = await failure(client.call_tool("tool"))
        assert isinstance(error, EffectUnknown)
        assert "It may have taken effect or not: check the server before you repeat it" in error.message
        assert (await client.read_resource("note://a")).text == "content"
