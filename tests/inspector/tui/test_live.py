"""Live in the terminal: what is different in a list, and what changed while a server was away."""

import pytest

from tests.inspector.tui.inspector import NOW, Told, opened, screen, until

pytestmark = pytest.mark.anyio
NOTE = "note://plan"


async def _told() -> Told:
    told = Told()
    await told.add("vault", command="vault")
    told.record("vault", "state", NOW - 60, state="connected")
    told.record("vault", "subscriptions", NOW - 59, uris=[NOTE])
    told.record("vault", "content", NOW - 58, uri=NOTE, contents=[{"uri": NOTE, "text": "old words"}], hash="1", size=9)
    told.record("vault", "list", NOW - 57, list="tools", added=[{"name": "search"}, {"name": "move"}])
    told.record("vault", "change", NOW - 50, change="tools-list-changed", times={"received": NOW - 50})
    told.record("vault", "list", NOW - 49, list="tools", added=[{"name": "tags"}], removed=["move"])
    return told


async def test_a_list_that_changed_names_what_is_different() -> None:
    async with opened(await _told()) as pilot:
        await until(pilot, lambda: "tools list: tags added; move removed" in screen(pilot))
        assert "+ tags" in screen(pilot)
        assert "- move" in screen(pilot)
        assert "fresh in 1.0 s" in screen(pilot)


async def test_what_changed_while_a_server_was_away_has_its_difference() -> None:
    told = await _told()
    told.record("vault", "state", NOW - 40, state="error", error={})
    told.record("vault", "state", NOW - 30, state="connected")
    told.record("vault", "content", NOW - 29, uri=NOTE, contents=[{"uri": NOTE, "text": "new words"}], hash="2", size=9)
    async with opened(told) as pilot:
        await until(pilot, lambda: "while offline" in screen(pilot))
        assert "changed while the server was away" in screen(pilot)
        assert "- old words" in screen(pilot)
        assert "+ new words" in screen(pilot)
