"""A state file in the hands of several processes, and of one that is killed."""

from pathlib import Path

import anyio
import pytest

from tests.bus.processes import Peer, python
from tests.client.keeper import number
from tests.client.states import ask, saved
from tidings.client.cache import ToolCall

pytestmark = pytest.mark.anyio


def keeper(what: str, path: Path, *arguments: str):
    return python("-m", "tests.client.keeper", what, str(path), *arguments)


async def test_a_process_that_is_killed_leaves_an_older_state_and_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    n: int | None = -1
    for lines in (1, 2, 7, 40, 3, 100):
        async with keeper("count", path, str(n + 1)) as process:
            for _ in range(lines):
                sure = int(await process.line())
            process.process.kill()
            sure = int((await process.rest() or [sure])[-1])
        n = number(await saved(path))
        assert n is not None, "a state that never was"
        assert n >= sure, "what was written is lost"


async def test_several_processes_on_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"

    async def end(process: Peer) -> None:
        await process.write_line("go")
        assert await process.line() == "done"

    async with keeper("hammer", path, "ada") as ada, keeper("hammer", path, "bob") as bob:
        for process in (ada, bob):
            assert await process.line() == "ready"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end, ada)
            tasks.start_soon(end, bob)

    assert ask(path, "PRAGMA integrity_check") == [("ok",)]
    for name in ("ada", "bob"):
        found = await saved(path, name)
        assert found.cursor == f"{name}:299"
        assert texts(found.invocations) == [f"{name} {n}" for n in range(260, 300)]
    shared = await saved(path, "all")
    assert shared.cursor in {"ada:299", "bob:299"}
    assert shared.subscriptions == {shared.cursor.replace(":", "://")}
    assert len(shared.invocations) == 40


def texts(invocations: object) -> list[str]:
    assert isinstance(invocations, tuple)
    return [call.result.content[0].text for call in invocations if isinstance(call, ToolCall)]
