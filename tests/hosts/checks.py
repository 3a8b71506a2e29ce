"""What must be true of Claude Code and `tidings vault` together, each check on a stage of its own.

A check returns a line for the table in `docs/hosts.md`, with what was measured. It raises `AssertionError` or
`TimeoutError` if it found something else.
"""

import asyncio
import re
import shlex
import signal
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.hosts.model import Asked, Call, Calls
from tests.hosts.programs import SERVER
from tests.hosts.stage import Stage, Transport, uri
from tests.hosts.terminal import Terminal
from tidings._kit.text import counted

TRIES = 7
CALM = 6.0
"""Seconds without a wake-up, after which there will be none: several poll intervals and quiet periods."""
SOON = 30.0
"""Seconds within which a wake-up must come at all, on however busy a machine."""

Run = Callable[[Stage], Awaitable[str]]


@dataclass(frozen=True)
class Check:
    """Something to try, over one or two transports."""

    name: str
    title: str
    transports: tuple[Transport, ...]
    options: tuple[str, ...]
    """For `tidings vault`."""
    run: Run


CHECKS: list[Check] = []


def check(title: str, *transports: Transport, options: tuple[str, ...] = ()) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        name: str = getattr(run, "__name__", title)
        CHECKS.append(Check(name, title, transports or ("stdio", "http"), options, run))
        return run

    return register


def wait(*names: str, **more: object) -> Call:
    """Returns the call with which a model waits for notes."""
    return Call("wait_for_change", {"uris": [uri(name) for name in names], **more})


def cursor(text: str) -> str:
    """Returns the cursor to go on from, as the model reads it in a result."""
    found = re.findall(r'since="([^"]+)"', text)
    assert found, f"no cursor in {text!r}"
    return found[-1]


async def woken(stage: Stage, times: int = 1, seconds: float = SOON) -> Asked:
    """Waits for the wake-up of this number. Returns it."""
    await stage.model.until(lambda: len(stage.model.wakes) >= times, seconds, f"wake-up {times}")
    return stage.model.wakes[times - 1]


async def calm(stage: Stage, wakes: int, seconds: float = CALM) -> None:
    """Checks that there are so many wake-ups, and no further ones."""
    await asyncio.sleep(seconds)
    assert len(stage.model.wakes) == wakes, f"{len(stage.model.wakes)} wake-ups, not {wakes}"


def shows(asked: Asked, line: str) -> None:
    """Checks that the model is told which note has changed, and shown this line of the difference."""
    assert uri("Note 0") in asked.news, asked.news
    assert line in asked.news, asked.news


def sane(stage: Stage) -> None:
    """Checks what holds after every run."""
    assert not stage.model.missing, f"the host does not offer {stage.model.missing}"
    for asked in stage.model.requests:
        assert "outcome unknown" not in asked.news, asked.news
    for request in stage.wire.messages("tasks/get"):
        if request.headers:
            assert request.headers.get("mcp-name") == request.params["taskId"]


@check("an idle chat is woken by a saved note, and the model is shown the difference")
async def wakes_an_idle_chat(stage: Stage) -> str:
    stage.model.plan["watch-it"] = [wait("Note 0")]
    stage.model.on_wake = lambda asked: [wait("Note 0", since=cursor(asked.news))]
    lags: list[float] = []
    async with stage.chat():
        await stage.prompt("watch-it")
        for number in range(TRIES):
            await asyncio.sleep(2.0 + 0.37 * number)  # At another moment between two polls each time.
            saved = stage.vault.append("Note 0", f"Line {number} of the lab.")
            asked = await woken(stage, number + 1)
            lags.append(asked.at - saved)
            assert "<status>completed</status>" in asked.news
            assert uri("Note 0") in asked.news
            shows(asked, f"+Line {number} of the lab.")
        await calm(stage, TRIES)
    median, poll = statistics.median(lags), _poll_interval(stage)
    assert median <= 2.0, f"a median of {median:.1f} s: {lags}"
    return (
        f"woken {TRIES} times of {TRIES}, {median:.1f} s after the save at the median "
        f"({min(lags):.1f} to {max(lags):.1f} s; the host polls every {poll:.1f} s)"
    )


def _poll_interval(stage: Stage) -> float:
    gaps = [later.at - earlier.at for task in stage.wire.tasks() for earlier, later in pairwise(stage.wire.polls(task))]
    return statistics.median(gaps)


@check("a change between a wake-up and the next wait is not lost")
async def loses_nothing_between_two_waits(stage: Stage) -> str:
    saved: list[float] = []

    def change_and_wait(asked: Asked) -> Calls:
        if saved:
            return []
        saved.append(stage.vault.append("Note 0", "Between two waits."))
        return [wait("Note 0", since=cursor(asked.news))]

    stage.model.plan["watch-it"] = [wait("Note 0")]
    stage.model.on_wake = change_and_wait
    async with stage.chat():
        await stage.prompt("watch-it")
        stage.vault.append("Note 0", "While it waits.")
        await woken(stage)
        second = await woken(stage, 2)
        shows(second, "+Between two waits.")
        await calm(stage, 2)
    return f"woken again, {second.at - saved[0]:.1f} s after it"


@check("Claude Code and the server were killed, the note saved meanwhile, and the chat continued with `--continue`")
async def wakes_a_continued_chat(stage: Stage) -> str:
    stage.model.plan["watch-it"] = [wait("Note 0")]
    async with stage.chat() as first:
        await stage.prompt("watch-it")
        await stage.until(lambda: stage.wire.polls(stage.wire.tasks()[0]), SOON, "the host polls the task")
        await asyncio.sleep(1.0)
        await _kill_server(stage, first)
        await first.stop(signal.SIGKILL)
    stage.vault.append("Note 0", "While nobody was there.")
    await asyncio.sleep(1.0)
    if stage.server:
        await stage.server.start()
    async with stage.chat("--continue"):
        asked = await woken(stage)
        shows(asked, "+While nobody was there.")
        await calm(stage, 1)
    listed = max(request.at for request, _ in stage.wire.answers("tools/list"))
    return f"woken {max(asked.at - listed, 0.0):.1f} s after it was connected again"


@check("only the server was killed, the note saved meanwhile, and the server started again")
async def wakes_after_the_server_was_killed(stage: Stage) -> str:
    stage.model.plan["watch-it"] = [wait("Note 0")]
    async with stage.chat() as chat:
        await stage.prompt("watch-it")
        await asyncio.sleep(1.5)
        await _kill_server(stage, chat)
        stage.vault.append("Note 0", "While the server was down.")
        await asyncio.sleep(2.0)
        if stage.server:
            await stage.server.start()
        else:
            await chat.type(f"/mcp reconnect {SERVER}")
        back = time.time()
        asked = await woken(stage, seconds=90)
        shows(asked, "+While the server was down.")
        await calm(stage, 1)
    how = "after the server was back" if stage.server else "after `/mcp reconnect`"
    return f"woken {asked.at - back:.1f} s {how}"


async def _kill_server(stage: Stage, chat: Terminal) -> None:
    if stage.server:
        await stage.server.stop(signal.SIGKILL)
        return
    servers = [each for each in chat.programs if "vault" in each.cmdline()]
    assert servers, "Claude Code has not started the server"
    for server in servers:
        server.kill()


@check("eight waits at once, three changes")
async def wakes_once_for_each_change(stage: Stage) -> str:
    stage.model.plan["watch-all"] = [wait(f"Note {number}") for number in range(8)]
    async with stage.chat():
        await stage.prompt("watch-all")
        await stage.until(lambda: len(stage.wire.tasks()) == 8, SOON, "eight tasks")
        await asyncio.sleep(1.0)
        for number in (1, 4, 6):
            stage.vault.append(f"Note {number}", "Changed.")
        await woken(stage, 3)
        await calm(stage, 3)
        found = sorted(
            number for number in range(8) for asked in stage.model.wakes if uri(f"Note {number}") in asked.news
        )
        assert found == [1, 4, 6], found
        recent = stage.wire.messages()[-1].at - CALM / 2
        working = [task for task in stage.wire.tasks() if stage.wire.polls(task, recent)]
        assert len(working) == 5, f"{len(working)} tasks are still polled, not 5"
    turns = sum(asked.woken for asked in stage.model.requests)
    return f"exactly three notifications, each with its note, in {counted(turns, 'turn')}; the other five go on waiting"


@check("one wait for all notes (`vault://note/*`), three changes within a second")
async def wakes_once_for_several_notes(stage: Stage) -> str:
    stage.model.plan["watch-all"] = [Call("wait_for_change", {"uris": ["vault://note/*"]})]
    stage.model.on_wake = lambda asked: [
        Call("wait_for_change", {"uris": ["vault://note/*"], "since": cursor(asked.news)})
    ]
    async with stage.chat():
        await stage.prompt("watch-all")
        await asyncio.sleep(1.0)
        for number in (1, 4, 6):
            stage.vault.append(f"Note {number}", f"Changed, too: {number}.")
        asked = await woken(stage)
        for number in (1, 4, 6):
            assert uri(f"Note {number}") in asked.news, asked.news
            assert f"+Changed, too: {number}." in asked.news, asked.news
        await calm(stage, 1)
    return "one wake-up, with three differences"


@check("the model stops a wait (TaskStop)")
async def stops(stage: Stage) -> str:
    stage.model.plan["watch-it"] = [wait("Note 0")]
    async with stage.chat():
        await stage.prompt("watch-it")
        started = re.search(r"background as task (\w+)", stage.model.requests[-1].news)
        assert started, stage.model.requests[-1].news
        stage.model.plan["stop-it"] = [Call("TaskStop", {"task_id": started[1]})]
        await stage.prompt("stop-it")
        await stage.until(lambda: list(stage.wire.answers("tasks/cancel")), SOON, "an answered tasks/cancel")
        cancels = list(stage.wire.answers("tasks/cancel"))
        assert all("result" in answer.body for _, answer in cancels), cancels
        await asyncio.sleep(1.0)
        stopped = stage.wire.messages()[-1].at
        stage.vault.append("Note 0", "Too late.")
        await calm(stage, 0)
        assert not stage.wire.polls(stage.wire.tasks()[0], stopped), "it is still polled"
    return f"`tasks/cancel` was sent {counted(len(cancels), 'time')}; no further poll, and a later change wakes nobody"


@check("nothing changes until the wait is over")
async def ends_without_a_change(stage: Stage) -> str:
    stage.model.plan["watch-it"] = [wait("Note 0", until=6)]

    def change_and_wait(asked: Asked) -> Calls:
        if len(stage.model.wakes) > 1:
            return []
        stage.vault.append("Note 0", "Right after the end.")
        return [wait("Note 0", since=cursor(asked.news))]

    stage.model.on_wake = change_and_wait
    async with stage.chat():
        await stage.prompt("watch-it")
        first = await woken(stage)
        assert "<status>completed</status>" in first.news
        assert "No change until" in first.news, first.news
        second = await woken(stage, 2)
        shows(second, "+Right after the end.")
        await calm(stage, 2)
    return "the model is told “no change, call again”, with a cursor; called again with it, it misses nothing"


@check("`claude -p`: one prompt, no terminal")
async def never_gives_a_task_to_print_mode(stage: Stage) -> str:
    return await _answers_within_the_bound(stage, lambda: stage.once("watch-it", MCP_CONNECTION_NONBLOCKING="false"))


@check("a legacy conversation (`MCP_PROTOCOL_NEGOTIATION=legacy`)")
async def never_gives_a_task_to_legacy(stage: Stage) -> str:
    async def chat() -> None:
        async with stage.chat(MCP_PROTOCOL_NEGOTIATION="legacy"):
            await stage.prompt("watch-it")
            assert stage.wire.messages("initialize")

    return await _answers_within_the_bound(stage, chat)


async def _answers_within_the_bound(stage: Stage, run: Callable[[], Awaitable[object]]) -> str:
    stage.model.plan["watch-it"] = [wait("Note 0")]
    running = asyncio.ensure_future(run())
    try:
        await stage.until(lambda: stage.wire.messages("tools/call"), SOON, "the host calls the tool")
        await asyncio.sleep(3.0)
        stage.vault.append("Note 0", "While the call lasts.")
        await asyncio.wait_for(running, 60)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert not stage.wire.tasks(), "a task for a host that did not declare tasks"
    shows(stage.model.requests[-1], "+While the call lasts.")
    cursor(stage.model.requests[-1].news)
    return "never a task; the call itself waits, and returns the change with a cursor"


@check("without tasks: a call that Claude Code moves to the background by itself")
async def wakes_from_a_call_in_the_background(stage: Stage) -> str:
    stage.model.plan["watch-it"] = [wait("Note 0")]
    variables = {"CLAUDE_CODE_DISABLE_MCP_TASKS": "1", "CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS": "5000"}
    async with stage.chat(**variables):
        await stage.prompt("watch-it")
        await asyncio.sleep(2.0)
        saved = stage.vault.append("Note 0", "In the background.")
        asked = await woken(stage)
        assert not stage.wire.tasks()
        shows(asked, "+In the background.")
        await calm(stage, 1)
    return f"woken {asked.at - saved:.1f} s after the save (`CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS=5000`)"


@check("200 saves of one note in quick succession")
async def wakes_once_for_a_burst(stage: Stage) -> str:
    stage.model.plan["watch-it"] = [wait("Note 0")]
    stage.model.on_wake = lambda asked: [wait("Note 0", since=cursor(asked.news))]
    async with stage.chat():
        await stage.prompt("watch-it")
        await asyncio.sleep(1.0)
        began = time.time()
        for number in range(200):
            saved = stage.vault.write("Note 0", f"# Note 0\n\nSave {number + 1} of 200.\n")
            await asyncio.sleep(max(began + number / 200 - time.time(), 0.0))
        asked = await woken(stage)
        shows(asked, "+Save 200 of 200.")
        await calm(stage, 1)
    return f"one wake-up, with the last state (the saves took {saved - began:.1f} s)"


@check("the agent changes the note itself, with a tool of the vault")
async def sleeps_through_its_own_changes(stage: Stage) -> str:
    stage.model.plan["watch-it"] = [wait("Note 0")]
    stage.model.plan["write-it"] = [Call("append", {"path": "Note 0.md", "content": "By the agent."})]
    async with stage.chat():
        await stage.prompt("watch-it")
        await stage.prompt("write-it")
        assert "By the agent." in (stage.vault.folder / "Note 0.md").read_text("utf-8"), stage.model.requests[-1].news
        await calm(stage, 0)
        stage.vault.append("Note 0", "By somebody else.")
        asked = await woken(stage)
        shows(asked, "+By somebody else.")
        await calm(stage, 1)
    return "no wake-up; the next change, by somebody else, wakes it"


@check("`tidings watch --json --diff --count 2` in the background (Bash): it exits at the next change")
async def wakes_from_a_shell_command(stage: Stage) -> str:
    command = f"{_watch(stage)} --count 2"
    stage.model.plan["watch-it"] = [Call("Bash", {"command": command, "run_in_background": True})]
    async with stage.chat():
        await stage.prompt("watch-it")
        found = re.search(r"written to: (\S+\.output)", stage.model.requests[-1].news)
        assert found, stage.model.requests[-1].news
        output = Path(found[1])
        await stage.until(lambda: "First line." in output.read_text("utf-8"), SOON, "the command prints the note")
        saved = stage.vault.append("Note 0", "By hand.")
        asked = await woken(stage)
        assert "<status>completed</status>" in asked.news, asked.news
        assert str(output) in asked.news, asked.news
        assert "+By hand." in output.read_text("utf-8")
        await calm(stage, 1)
    return f"woken {asked.at - saved:.1f} s after the save, with the name of the file that has the difference"


@check("`tidings watch --json --diff` in a monitor (Monitor): each change is a line")
async def wakes_from_a_monitor(stage: Stage) -> str:
    stage.model.plan["watch-it"] = [Call("Monitor", {"command": _watch(stage), "description": "Changes of a note"})]
    async with stage.chat():
        await stage.prompt("watch-it")
        await woken(stage)  # With the note as it is.
        saved = stage.vault.append("Note 0", "By hand.")
        asked = await woken(stage, 2)
        assert "+By hand." in asked.news, asked.news
        await calm(stage, 2)
    return f"woken {asked.at - saved:.1f} s after the save, with the difference"


def _watch(stage: Stage) -> str:
    target = stage.setting.server if isinstance(stage.setting.server, str) else shlex.join(stage.vault.command)
    return f"tidings watch {shlex.quote(target)} {shlex.quote(uri('Note 0'))} --json --diff"


@check("`tidings vault --channel`, and a host started for channels", "stdio", options=("--channel",))
async def says_why_it_takes_no_channel(stage: Stage) -> str:
    start = ("--dangerously-load-development-channels", f"server:{SERVER}")
    notices = {"modern": "no channel delivery path", "legacy": "Channels are not currently available"}
    for era, notice in notices.items():
        async with stage.chat(*start, MCP_PROTOCOL_NEGOTIATION="auto" if era == "modern" else era) as chat:
            await stage.prompt("hello")
            asked, before = len(stage.model.requests), len(stage.wire.messages("notifications/claude/channel"))
            stage.vault.append("Note 0", "By channel.")
            await stage.until(
                lambda sent=before: len(stage.wire.messages("notifications/claude/channel")) > sent, SOON, "a message"
            )
            await stage.until(lambda: notice in " ".join(chat.text.split()), SOON, f"the notice {notice!r}")  # noqa: B023
            await asyncio.sleep(CALM)
            assert len(stage.model.requests) == asked, "it takes channels, after all: describe how"
    return (
        "sent, but no turn. Modern era: “this connection's protocol version has no channel delivery path”; "
        "legacy era, without a login: “Channels are not currently available”"
    )
