"""Waits with a clock that is set back, with other waits beside them, and for a misspelt prefix."""

import time

import anyio
import pytest

from tests.server.serving import notes, serving
from tests.server.waking.tasking import QUICK, TODAY, call, cursor, get, quick_notes, reaches, text, wait
from tests.server.waking.test_differences import INBOX, Docs

pytestmark = pytest.mark.anyio


async def test_a_wait_ends_in_time_although_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    async with serving(quick_notes().asgi()) as port:
        task = await wait(port, TODAY, until=0.5)
        monkeypatch.setattr(time, "time", lambda: real() - 3600)
        assert "No change until" in text((await reaches(port, task, "completed"))["result"])


async def test_a_change_of_ones_own_is_known_although_other_waits_have_begun_since() -> None:
    docs = Docs()
    async with serving(docs.mcp.asgi()) as port:
        task = await wait(port, INBOX)
        await wait(port, "doc://other")
        await docs.edit("inbox", "theirs")
        done = await reaches(port, task, "completed")
        await call(port, "write", name="inbox", body="mine")
        again = await wait(port, INBOX, since=cursor(done["result"]))
        await anyio.sleep(QUICK.longest_quiet * 2)
        assert (await get(port, again))["status"] == "working"


@pytest.mark.parametrize("declares", [True, False])
async def test_a_prefix_that_nothing_begins_with_is_told_at_once_if_a_similar_one_is_in_use(declares: bool) -> None:
    mcp = notes(waking=QUICK)

    @mcp.resource("doc://{+path}")
    def doc(path: str) -> str:
        return path

    @mcp.resource("doc://projects/garden")
    def garden() -> str:
        return ""

    @mcp.resource("doc://inbox")
    def inbox() -> str:
        return ""

    async with serving(mcp.asgi()) as port:
        with anyio.fail_after(20):
            near = await call(port, "wait_for_change", declares=declares, uris=["doc://projcts/*"])
            said = near["statusMessage"] if declares else text(near)
            assert "No listed resource begins with doc://projcts/ now. Did you mean doc://projects/*?" in said
        for prefix in ("doc://projects/*", "doc://new/*", "note://*"):
            created = await call(port, "wait_for_change", uris=[prefix])
            assert "now" not in created["statusMessage"]
