"""Agents of three frameworks, woken by changes; their models are scripted, and everything else is real."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.bus.processes import Peer, python
from tests.examples.programs import PATIENT, served
from tests.examples.woken import MODELS
from tidings import connect

pytestmark = pytest.mark.anyio
AGENTS = pytest.mark.parametrize("agent", MODELS)


async def asked(agent: Peer) -> dict[str, Any]:
    """What its model is asked next."""
    while not (line := await agent.line()).startswith("{"):
        pass
    return json.loads(line)


async def both_boards(agent: Peer) -> None:
    """Its first turn, or turns: both boards are new to it."""
    shown = (await asked(agent))["last"]
    while not ("board://kitchen" in shown and "board://office" in shown):
        await agent.write_line("noted")
        shown += (await asked(agent))["last"]
    assert shown.count("+Nothing yet.") == 2


async def post(url: str, room: str, text: str) -> None:
    async with connect(url, config=PATIENT) as client:
        await client.call_tool("post", {"room": room, "text": text})


@AGENTS
async def test_an_agent_is_shown_each_change_once_and_again_if_it_could_not_handle_it(
    agent: str, tmp_path: Path
) -> None:
    words = ("-m", "tests.examples.woken", agent)
    with served("live_server.py", tmp_path / "log") as url, anyio.fail_after(90):
        async with connect(url, config=PATIENT):
            pass  # It is there.
        async with python(*words, url, str(tmp_path)) as first:
            await both_boards(first)
            await first.write_line("nothing new")
            assert await first.line() == "nothing new"
            await post(url, "kitchen", "There is cake.")
            question = await asked(first)
            assert "board://kitchen changed:" in question["last"]
            assert "-Nothing yet.\n+There is cake." in question["last"]
            assert "office" not in question["last"]
            assert question["number"] >= 2  # It remembers the turns before.
            await first.write_line("cake")
            assert await first.line() == "cake"
            await post(url, "office", "It is closed.")
            assert "+It is closed." in (await asked(first))["last"]
            first.process.kill()  # In the middle of a turn.
            await first.process.wait()
        await post(url, "kitchen", "The cake is gone.")
        async with python(*words, url, str(tmp_path)) as second:
            shown = (await asked(second))["last"]
            while "+The cake is gone." not in shown or "+It is closed." not in shown:
                await second.write_line("noted")
                shown += (await asked(second))["last"]
            assert shown.count("-There is cake.") == 1
            assert shown.count("+It is closed.") == 1
