"""A program that speaks MCP: messages both ways, what it says besides, how it ends, and that it is gone afterwards."""

import asyncio
import contextlib
import gc
import json
import os
import sys
import time
import tracemalloc
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from tidings.client.events import EventHub, GarbageReceived, StderrReceived
from tidings.client.targets import CommandTarget, parse_target
from tidings.client.transports.stdio import LineSplitter, LineTooLong, RunningCommand
from tidings.errors import CommandFailed, MessageTooLarge

pytestmark = pytest.mark.anyio

LIMIT = 1024 * 1024
READY = '{"jsonrpc": "2.0", "method": "ready", "params": {"pid": %d}}'

HEAD = f"""
import json, os, signal, subprocess, sys, threading
def say(text):
    sys.stdout.write(text + "\\n"); sys.stdout.flush()
def ready(pid=os.getpid()):
    say({READY!r} % pid)
"""
SERVER = """
from mcp.server.mcpserver import MCPServer
mcp = MCPServer("sizes", log_level="WARNING")
@mcp.tool()
def much(size: int) -> str:
    return "x" * size
mcp.run()
"""


def program(code: str, *arguments: str, **options: Any) -> CommandTarget:
    target = parse_target([sys.executable, "-c", HEAD + code, *arguments], **options)
    assert isinstance(target, CommandTarget)
    return target


class Heard:
    """What a program said besides its messages."""

    def __init__(self) -> None:
        self.stderr: list[str] = []
        self.garbage: list[str] = []


@asynccontextmanager
async def running(
    target: CommandTarget, heard: Heard | None = None, limit: int = LIMIT
) -> AsyncGenerator[RunningCommand]:
    heard = heard or Heard()
    with anyio.fail_after(20):
        command = RunningCommand(target, limit, heard.stderr.append, heard.garbage.append)
        async with command.run():
            yield command


async def received(command: RunningCommand) -> Any:
    """The next that the session gets: a message, or an exception."""
    item = await command.streams[0].receive()
    return item.message if isinstance(item, SessionMessage) else item


async def everything(command: RunningCommand) -> list[Any]:
    """All that the session gets, up to the end."""
    return [item.message if isinstance(item, SessionMessage) else item async for item in command.streams[0]]


async def send(command: RunningCommand, method: str, number: int | None = None, **params: Any) -> None:
    message: JSONRPCRequest | JSONRPCNotification
    if number is None:
        message = JSONRPCNotification(jsonrpc="2.0", method=method, params=params)
    else:
        message = JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params)
    await command.streams[1].send(SessionMessage(message))


async def started(command: RunningCommand) -> int:
    """Wait until the program says that it is ready; the process it names."""
    message = await received(command)
    assert isinstance(message, JSONRPCNotification)
    assert message.method == "ready"
    pid: int = (message.params or {})["pid"]
    return pid


def is_gone(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


async def gone(pid: int) -> None:
    """Wait until a process that is not our child is gone: nobody says when."""
    with anyio.fail_after(5):
        while not is_gone(pid):  # noqa: ASYNC110 - see above
            await anyio.sleep(0.005)


# Messages


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_sdk_talks_to_a_real_server_and_one_answer_that_is_too_large_fails_alone(mode: str) -> None:
    @asynccontextmanager
    async def way() -> AsyncGenerator[Any]:
        async with running(program(SERVER)) as command:
            yield command.streams

    async with Client(way(), mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["much"]
        with pytest.raises(MCPError, match=r"^Message too large: 2,[0-9,]+ bytes, the limit is 1,048,576"):
            await client.call_tool("much", {"size": 1024 * 1024})
        assert not (await client.call_tool("much", {"size": 5})).is_error


async def test_messages_go_both_ways_as_they_are() -> None:
    echo = program(
        """
for line in sys.stdin:
    asked = json.loads(line)
    say(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"line": line}}))
"""
    )
    async with running(echo) as command:
        await send(command, "say", 7, text="žluť ☃\n\u2028")
        answer = await received(command)
        assert isinstance(answer, JSONRPCResponse)
        assert answer.id == 7
        line: str = answer.result["line"]
        assert line.endswith("}\n")
        assert json.loads(line) == {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "say",
            "params": {"text": "žluť ☃\n\u2028"},
        }


async def test_what_is_no_message_is_told_and_otherwise_ignored() -> None:
    heard = Heard()
    noisy = program(
        r"""
say("Welcome to the server of tok-3n-s3cr3t!")
say("")
say("   ")
sys.stdout.buffer.write(b'{"jsonrpc": "2.0", "id": 1, "result": {"a": "\xff"}}\n')
say('{"almost": "json-rpc"}')
say("[]")
say("x" * 5000)
say("é" * 199 + "tok-3n-s3cr3t")
ready()
sys.stdout.write(json.dumps({"jsonrpc": "2.0", "method": "last"})); sys.stdout.flush()
""",
        env={"TOKEN": "tok-3n-s3cr3t"},
    )
    async with running(noisy, heard) as command:
        await started(command)
        last = await received(command)
        assert last.method == "last"
    assert heard.garbage == [
        "Welcome to the server of ***!",
        '{"jsonrpc": "2.0", "id": 1, "result": {"a": "\ufffd"}}',
        '{"almost": "json-rpc"}',
        "[]",
        "x" * 200,
        "é" * 199 + "*",
    ]


async def test_a_message_that_cannot_be_written_as_json_fails_alone() -> None:
    echo = program('for line in sys.stdin: say(json.dumps({"jsonrpc": "2.0", "id": 2, "result": {}}))')
    async with running(echo) as command:
        await send(command, "say", 1, text="\ud800")
        refusal = await received(command)
        assert isinstance(refusal, JSONRPCError)
        assert refusal.id == 1
        assert "cannot be sent as JSON" in refusal.error.message
        await send(command, "say", text="\ud800")  # A notification: nobody waits for an answer.
        await send(command, "say", 2)
        assert (await received(command)).id == 2


# Messages that are too large


@pytest.mark.parametrize(
    ("before", "after", "answered"),
    [
        ('{"jsonrpc": "2.0", "id": 5, "result": {"text": "', '"}}', 5),
        ('{"jsonrpc":"2.0","id":"five","error":{"code":1,"message":"', '"}}', "five"),
        ('{"result": {"text": "', '"}, "jsonrpc": "2.0", "id": 5}', 5),
        ('{"result":{"id":3,"text":"\\"id\\":4 {', '"},"jsonrpc":"2.0","id":"five"}', "five"),
        ('{"result": {"id": 3, "text": "', '", "id": 4}}', None),
        ('{"result": {"id": 3}, "text": "', '"}', None),
        ('{"jsonrpc": "2.0", "id": 5, "method": "roots/list", "params": {"text": "', '"}}', None),
        ('{"method": "ping", "params": {"text": "', '"}, "jsonrpc": "2.0", "id": 5}', None),
        ('{"jsonrpc": "2.0", "id": 5, "params": {"text": "', '"}, "method": "ping"}', None),
        ('{"jsonrpc": "2.0", "id": 5.5, "result": {"text": "', '"}}', None),
        ('{"jsonrpc": "2.0", "id": null, "result": {"text": "', '"}}', None),
        ('{"jsonrpc": "2.0", "id": 5', '"}}', None),
        ("no json at all ", '"id": 5}', None),
    ],
)
async def test_a_message_that_is_too_large_fails_only_the_request_that_it_answers(
    before: str, after: str, answered: int | str | None
) -> None:
    large = program("say(sys.argv[1] + '5' * 100_000 + sys.argv[2]); ready()", before, after)
    async with running(large, limit=50_000) as command:
        error = await received(command)
        assert isinstance(error, MessageTooLarge)
        assert "bytes was skipped; the limit is 50,000" in error.message
        if answered is not None:
            refusal = await received(command)
            assert isinstance(refusal, JSONRPCError)
            assert refusal.id == answered
            assert refusal.error.code == -32700
            assert refusal.error.message.startswith("Message too large")
        await started(command)


async def test_a_message_without_end_is_skipped_in_bounded_memory() -> None:
    endless = program("for _ in range(50): sys.stdout.write('x' * 1024 * 1024)\nsay(''); ready()")
    async with running(endless, limit=100_000) as command:
        tracemalloc.start()
        try:
            assert isinstance(await received(command), MessageTooLarge)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 2 * 1024 * 1024
        await started(command)


async def test_a_message_at_the_limit_is_let_through() -> None:
    line = '{"jsonrpc": "2.0", "method": "x", "params": {"text": "' + "x" * 2000 + '"}}'
    async with running(program("for _ in range(2): say(sys.argv[1])", line), limit=len(line)) as command:
        assert [item.method for item in await everything(command)] == ["x", "x"]


@given(
    lines=st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line)), cuts=st.lists(st.integers(0, 400))
)
def test_however_the_bytes_arrive_the_lines_are_the_same(lines: list[bytes], cuts: list[int]) -> None:
    limit = 20
    data = b"".join(line + b"\n" for line in lines)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    cutter = LineSplitter(limit)
    found = [line for start, end in pairwise(places) for line in cutter.feed(data[start:end])]
    assert cutter.rest() == b""
    assert found == [line if len(line) <= limit else LineTooLong(len(line), line, line) for line in lines]


# What it says besides, and how it ends


async def test_how_a_program_ended_and_what_it_said_last_is_known() -> None:
    heard = Heard()
    ailing = program(
        """
for number in range(30):
    print("line", number, file=sys.stderr)
print("The key tok-3n-s3cr3t is wrong", file=sys.stderr)
print("unfinished", end="", file=sys.stderr)
sys.exit(3)
""",
        env={"API_KEY": "tok-3n-s3cr3t"},
    )
    async with running(ailing, heard) as command:
        assert await everything(command) == []
        await command.ended.wait()
        assert command.program.returncode == 3
        assert command.stderr_tail.splitlines() == [
            *(f"line {number}" for number in range(12, 30)),
            "The key *** is wrong",
            "unfinished",
        ]
    assert heard.stderr[0] == "line 0"
    assert len(heard.stderr) == 32
    assert "tok-3n-s3cr3t" not in str(heard.stderr)


async def test_what_is_kept_of_a_chatty_program_is_bounded() -> None:
    chatty = program(
        """
for _ in range(19): print("y" * 1000, file=sys.stderr)
print("z" * 1024 * 1024, file=sys.stderr)
sys.stderr.buffer.write(b"\\xff\\xfe\\n")
"""
    )
    heard = Heard()
    async with running(chatty, heard) as command:
        await command.ended.wait()
        assert len(command.stderr_tail) == 4096
        assert command.stderr_tail.endswith("\n(a line of 1,048,576 bytes)\n\ufffd\ufffd")
    assert max(map(len, heard.stderr)) == 1000


async def test_the_signal_that_ended_a_program_is_known() -> None:
    async with running(program("os.kill(os.getpid(), signal.SIGKILL)")) as command:
        assert await everything(command) == []
        await command.ended.wait()
        assert command.program.returncode == -9


async def test_a_listener_that_fails_does_not_end_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    def fail(text: str) -> None:
        raise RuntimeError(text)

    loud = program("print('heard', file=sys.stderr, flush=True); say('garbage'); ready()")
    hub = EventHub()
    hub.on(StderrReceived, lambda event: fail(event.line))
    hub.on(GarbageReceived, lambda event: fail(event.text))
    command = RunningCommand(
        loud, LIMIT, lambda line: hub.emit(StderrReceived(line)), lambda text: hub.emit(GarbageReceived(text))
    )
    with anyio.fail_after(10):
        async with command.run():
            await started(command)
            await command.ended.wait()
            assert command.stderr_tail == "heard"
    assert [record.exc_info is not None for record in caplog.records] == [True, True]


async def test_the_end_of_its_output_is_the_end_of_the_connection_though_the_program_lives() -> None:
    mute = program("ready(); os.close(1); sys.stdin.read()")
    async with running(mute) as command:
        await started(command)
        assert await everything(command) == []
        with pytest.raises(anyio.BrokenResourceError):
            await send(command, "hello")
        assert command.program.returncode is None


async def test_a_closed_input_is_the_end_of_the_connection_but_last_words_are_heard() -> None:
    deaf = program(
        """
os.close(0)
ready()
say('{"jsonrpc": "2.0", "method": "goodbye"}')
signal.pause()
"""
    )
    async with running(deaf) as command:
        await started(command)
        await send(command, "hello")
        last = await received(command)
        assert last.method == "goodbye"
        with contextlib.suppress(anyio.BrokenResourceError):
            await send(command, "hello")
        assert await everything(command) == []
        assert command.program.returncode is None


async def test_all_that_a_dead_program_wrote_is_passed_on_however_slowly_it_is_taken() -> None:
    brief = program('for n in range(2000): say(json.dumps({"jsonrpc": "2.0", "method": "n", "params": {"n": n}}))')
    async with running(brief) as command:
        await command.ended.wait()
        assert [item.params["n"] for item in await everything(command)] == list(range(2000))


# How it is started


async def test_a_program_gets_its_own_variables_and_few_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OUR_SECRET", "not yours")
    curious = program(
        'say(json.dumps({"jsonrpc": "2.0", "method": "env", "params": {"env": dict(os.environ), "cwd": os.getcwd()}}))',
        env={"GIVEN": "yes"},
        cwd=tmp_path,
    )
    async with running(curious) as command:
        params = (await received(command)).params
    assert params["env"]["GIVEN"] == "yes"
    assert params["env"]["PATH"] == os.environ["PATH"]
    assert "OUR_SECRET" not in params["env"]
    assert Path(params["cwd"]) == tmp_path.resolve()


async def refusal(target: CommandTarget) -> str:
    with pytest.raises(CommandFailed) as caught:
        async with running(target):
            pytest.fail("it started")
    assert caught.value.server == target.name
    return caught.value.message


async def test_a_command_that_cannot_be_started_says_why_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("print()")
    (tmp_path / "headless").write_text("print()")
    (tmp_path / "headless").chmod(0o755)
    (tmp_path / "lost").write_text("#!/nowhere/python\n")
    (tmp_path / "lost").chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/weather-server").touch(0o755)
    path = {"PATH": f"{tmp_path}/bin:{tmp_path}/missing"}

    def command(*words: str, **options: Any) -> CommandTarget:
        return CommandTarget(words[0], words[1:], **options)

    assert "Is it installed, and on the PATH" in await refusal(command("no-such-program-anywhere"))
    assert "Did you mean weather-server?" in await refusal(command("weather-sever", env=path))
    assert "['python', 'server.py']" in await refusal(command("python server.py"))
    assert "A URL is given as a string" in await refusal(command("https://example.com/mcp", "x"))
    assert f"looked for in {tmp_path}" in await refusal(command("./missing.py", cwd=str(tmp_path)))
    assert "Check the path" in await refusal(command(str(tmp_path / "missing.py")))
    assert "is a directory" in await refusal(command(str(tmp_path)))
    assert "chmod +x" in await refusal(command(str(tmp_path / "plain")))
    assert "Name its interpreter" in await refusal(command(str(tmp_path / "headless")))
    assert "names a program that is not there" in await refusal(command(str(tmp_path / "lost")))
    assert "there is no directory" in await refusal(command("python", cwd=str(tmp_path / "missing")))
    assert "embedded null" in await refusal(command("python", "a\0b"))
    assert "in a terminal" in await refusal(command("python", "x" * 200_000))
    assert "***" in await refusal(command("/no/such", "--token", "tok-3n-s3cr3t"))
    assert "tok-3n" not in await refusal(command("/no/tok-3n-s3cr3t", env={"A": "tok-3n-s3cr3t"}))


# How it is ended


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of the way out takes less than a second, where it makes no other difference."""
    monkeypatch.setattr("tidings.client.transports.stdio.GRACE", 0.2)


STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN); ready()\nwhile True: signal.pause()"
WITH_CHILD = """
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
ready(child.pid)
"""


async def test_a_program_that_ends_with_its_input_ends_in_good_order() -> None:
    async with running(program("ready(); sys.stdin.read(); sys.exit(5)")) as command:
        await started(command)
    assert command.program.returncode == 5
    assert command.ended.is_set()


async def test_what_was_sent_before_the_end_still_arrives(tmp_path: Path) -> None:
    writer = program("open(sys.argv[1], 'w').write(sys.stdin.read())", str(tmp_path / "got"))
    async with running(writer) as command:
        await send(command, "first")
        await send(command, "last", text="x" * 100_000)
    lines = (tmp_path / "got").read_text().splitlines()
    assert [json.loads(line)["method"] for line in lines] == ["first", "last"]


async def test_a_program_that_stays_is_asked_to_end() -> None:
    polite = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); ready()\nwhile True: signal.pause()"
    async with running(program(polite)) as command:
        await started(command)
    assert command.program.returncode == 7


async def test_a_program_that_does_not_listen_is_killed_within_seconds() -> None:
    async with running(program(STUBBORN)) as command:
        pid = await started(command)
        began = time.monotonic()
    assert command.program.returncode == -9
    assert time.monotonic() - began < 8
    assert is_gone(pid)


async def test_a_program_that_neither_reads_nor_lets_itself_be_read_is_ended() -> None:
    stuck = program("ready()\nwhile True: sys.stdout.write('x' * 100_000 + chr(10))")
    async with running(stuck) as command:
        pid = await started(command)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send, command, "large")
            with anyio.move_on_after(0):
                await send(command, "larger", text="x" * 1024 * 1024)
            tasks.cancel_scope.cancel()
    assert is_gone(pid)


@pytest.mark.parametrize(
    "then",
    ["sys.stdin.read()", "signal.pause()", "sys.exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"],
    ids=["stays", "hangs", "leaves", "dies"],
)
async def test_what_a_program_started_is_ended_with_it(then: str) -> None:
    async with running(program(WITH_CHILD + then)) as command:
        child = await started(command)
    await gone(child)


async def test_a_dead_program_is_noticed_though_its_child_holds_its_pipes() -> None:
    async with running(program(WITH_CHILD + "print('the end', file=sys.stderr); sys.exit(4)")) as command:
        child = await started(command)
        assert await everything(command) == []
        await command.ended.wait()
        assert command.program.returncode == 4
        assert command.stderr_tail == "the end"
        await gone(child)


@pytest.mark.usefixtures("impatient")
async def test_a_child_that_does_not_listen_is_killed() -> None:
    stubborn = HEAD + "signal.signal(signal.SIGTERM, signal.SIG_IGN); ready()\nwhile True: signal.pause()"
    leaves = f"""
child = subprocess.Popen([sys.executable, "-c", {stubborn!r}], stdout=subprocess.PIPE)
child.stdout.readline()
ready(child.pid)
os._exit(0)
"""
    async with running(program(leaves)) as command:
        child = await started(command)
    await gone(child)


Cancel = Callable[[asyncio.Task[Any], anyio.CancelScope], Any]


def natively(task: asyncio.Task[Any], _: anyio.CancelScope) -> None:
    task.cancel()


def by_scope(_: asyncio.Task[Any], scope: anyio.CancelScope) -> None:
    scope.cancel()


def both(task: asyncio.Task[Any], scope: anyio.CancelScope) -> None:
    scope.cancel()
    task.cancel()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("cancel", [natively, by_scope, both])
@pytest.mark.parametrize("again", [False, True], ids=["once", "again"])
async def test_a_cancelled_connection_leaves_nothing_behind(cancel: Cancel, again: bool) -> None:
    pids: list[int] = []
    begun = asyncio.Event()
    closing = asyncio.Event()
    scope = anyio.CancelScope()
    target = program(WITH_CHILD + STUBBORN.replace("ready();", ""))

    async def hold() -> None:
        with scope:
            async with running(target) as command:
                assert command.program.pid
                pids.extend((command.program.pid, await started(command)))
                begun.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    closing.set()

    task = asyncio.create_task(hold())
    with anyio.fail_after(15):
        await begun.wait()
        cancel(task, scope)
        await closing.wait()
        if again:
            for _ in range(5):
                await asyncio.sleep(0)  # The program is being ended.
            task.cancel()
        await asyncio.wait((task,))
    assert task.cancelled() is (again or cancel is not by_scope)
    for pid in pids:
        await gone(pid)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("cancel", [natively, by_scope])
async def test_a_connection_that_is_cancelled_while_it_starts_leaves_nothing_behind(cancel: Cancel) -> None:
    before = {child.pid for child in psutil.Process().children()}
    scope = anyio.CancelScope()

    async def hold() -> None:
        with scope:
            async with running(program(STUBBORN)):
                await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await asyncio.sleep(0)  # It has begun to start.
    cancel(task, scope)
    with anyio.fail_after(10):
        await asyncio.wait((task,))
    assert {child.pid for child in psutil.Process().children()} <= before


def test_an_event_loop_that_stops_takes_its_programs_with_it() -> None:
    pids: list[int] = []

    async def hold(begun: asyncio.Event) -> None:
        async with running(program(WITH_CHILD + STUBBORN.replace("ready();", ""))) as command:
            assert command.program.pid
            pids.extend((command.program.pid, await started(command)))
            begun.set()
            await asyncio.Event().wait()

    async def main() -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(hold(begun))
        await begun.wait()
        assert not task.done()

    asyncio.run(main())
    asyncio.run(gone(pids[1]))
    assert is_gone(pids[0])


async def test_a_connection_leaves_no_task_pipe_or_process() -> None:
    async def once(code: str) -> None:
        async with running(program(code)) as command:
            await everything(command)

    await once("ready()")  # What is made once for the loop is there now.
    ours = psutil.Process()
    before = (len(asyncio.all_tasks()), ours.num_fds(), len(ours.children()))
    for code in ("ready()", "ready(); os.close(1); sys.stdin.read()", "sys.exit(3)", "say('x' * 2_000_000)"):
        await once(code)
    with pytest.raises(CommandFailed):
        async with running(CommandTarget("/no/such/program")):
            pass
    gc.collect()
    assert (len(asyncio.all_tasks()), ours.num_fds(), len(ours.children())) == before
