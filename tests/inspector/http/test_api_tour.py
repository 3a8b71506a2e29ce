"""A tour, where somebody guides one; and what is said where nobody does."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.inspector.http.page import opened, plan_in

pytestmark = pytest.mark.anyio


class Guide:
    """A tour with one step."""

    def __init__(self) -> None:
        self.ready = False
        self.done: list[str] = []
        self._changed: Callable[[], object] = lambda: None

    def begin(self, session: object, changed: Callable[[], object]) -> None:
        self._changed = changed

    def facts(self) -> dict[str, Any]:
        return {"steps": self.done}

    def do(self, step: str) -> bool:
        if step != "edit":
            raise KeyError(step)
        if self.ready:
            self.done.append(step)
            self._changed()
        return self.ready


async def test_without_a_guide_there_is_no_tour(tmp_path: Path) -> None:
    async with opened(plan_in(tmp_path)) as page:
        assert (await page.get("/api/hello"))["tour"] is False
        assert (await page.send("GET", "/api/tour", status=404))["error"]["code"] == "no-tour"
        assert (await page.post("/api/tour/edit", status=404))["error"]["code"] == "no-tour"


async def test_a_step_is_done_and_the_stream_tells_that_the_tour_is_different(tmp_path: Path) -> None:
    guide = Guide()
    async with opened(replace(plan_in(tmp_path), guide=guide)) as page:
        assert (await page.get("/api/hello"))["tour"] is True
        assert (await page.post("/api/tour/edit", status=409))["error"]["message"] == "The servers are starting."
        assert (await page.post("/api/tour/dance", status=404))["error"]["code"] == "no-such-step"
        guide.ready = True
        async with page.stream((await page.get("/api/snapshot"))["seq"]) as events:
            await page.post("/api/tour/edit")
            async for _, batch in events:
                if "stale" in batch:
                    break
        assert batch["stale"] == ["tour"]
        assert await page.get("/api/tour") == {"steps": ["edit"]}
