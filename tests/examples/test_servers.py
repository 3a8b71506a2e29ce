"""The servers among the examples serve, and tell of changes, as their first lines say."""

from pathlib import Path

import anyio
import pytest

import tidings
from tests.examples.programs import PATIENT, served
from tests.examples.programs import tidings as shell


@pytest.mark.anyio
async def test_whoever_reads_a_board_hears_of_each_notice(tmp_path: Path) -> None:
    with anyio.fail_after(100), served("live_server.py", tmp_path / "log") as url:
        async with tidings.connect(url, config=PATIENT) as client:
            seen = client.watch("board://kitchen")
            assert (await anext(seen)).text == "Nothing yet."
            posted = await anyio.to_thread.run_sync(shell, "call", url, "post", "room=kitchen", "text=Cake!")
            assert posted == "posted\n"
            assert (await anext(seen)).text == "Cake!"
        assert await anyio.to_thread.run_sync(shell, "read", url, "board://kitchen") == "Cake!"


@pytest.mark.anyio
@pytest.mark.parametrize("era", ["2026-07-28", "legacy"])
async def test_a_fastmcp_server_is_live_in_both_eras(tmp_path: Path, era: str) -> None:
    with anyio.fail_after(100), served("from_fastmcp.py", tmp_path / "log") as url:
        async with tidings.connect(url, config=PATIENT, era=era) as client:
            seen = client.watch("todo://open")
            assert (await anext(seen)).text == "All done."
            await client.call_tool("add", {"task": "Feed the cat"})
            assert (await anext(seen)).text == "Feed the cat"
            await client.call_tool("done", {"task": "Feed the cat"})
            assert (await anext(seen)).text == "All done."


@pytest.mark.anyio
async def test_a_stock_is_followed_only_while_somebody_listens_and_its_prices_are_merged(tmp_path: Path) -> None:
    with anyio.fail_after(100), served("ticker.py", tmp_path / "log") as url:
        async with tidings.connect(url, config=PATIENT) as client:
            assert (await client.read_resource("exchange://lines")).text == "none"
            updates: list[str] = []
            client.on(tidings.ResourceUpdated, lambda change: updates.append(change.uri))
            seen = client.watch(["stock://ACME", "stock://OMEGA"])
            for _ in range(6):
                assert (await anext(seen)).text.split()[0] in ("ACME", "OMEGA")
            assert (await client.read_resource("exchange://lines")).text == "ACME, OMEGA"
            # A hundred prices a second of each: had they not been merged, far more would have come meanwhile.
            assert set(updates) == {"stock://ACME", "stock://OMEGA"}
            await seen.aclose()
            while (await client.read_resource("exchange://lines")).text != "none":
                await anyio.lowlevel.checkpoint()
