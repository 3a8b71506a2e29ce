"""The tour: what ticks a step off, and what does not."""

import asyncio
import json
import shlex
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.ports import free_port
from tidings.demo import tour as module
from tidings.demo.sample import StageFailed
from tidings.demo.servers import ServerProcess
from tidings.demo.show import news
from tidings.demo.tour import HopSource, Tour, TourProgress, duration, snippets, steps
from tidings.inspector.records import Record, SessionLimits
from tidings.inspector.view.fold import fold_session
from tidings.inspector.view.view import SessionView

pytestmark = pytest.mark.anyio

PLAN = "vault://note/Plan.md"


class Trip:
    """A tour over records that are made here."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.told: list[TourProgress] = []
        self.now = 1_000.0
        self.seq = 0
        self.view = SessionView(SessionLimits(), lambda: self.now)
        self.tour = Tour(on_seen=self.told.append)
        self.tour.set_steps(steps(Path("Bakery"), "http://page"), snippets("http://vault"))
        for server in ("vault", "web"):
            self.happens("server", server, what="added", entry={})

    def open(self) -> None:
        actions = {name: lambda name=name: self.done.append(name) for name in self.tour.progress}
        self.tour.open("vault", HopSource(PLAN, "file saved", lambda: self.now - 0.01), actions)
        self.tour.open("web", HopSource("web://diff", "page changed"), actions)

    def happens(self, kind: str, server: str = "vault", **data: Any) -> int:
        self.seq += 1
        self.now += 0.001
        record = Record(self.seq, self.now, server, kind, data)
        fold_session(self.view, record)
        self.tour.hear(record, self.view)
        return self.seq

    def reads(self, text: str, change: int | None = None, uri: str = PLAN, server: str = "vault") -> None:
        contents = [{"uri": uri, "text": text}]
        self.happens(
            "content", server, uri=uri, contents=contents, hash=text, size=len(text), took=0.001, change=change
        )

    def changes(self, text: str, uri: str = PLAN, server: str = "vault") -> None:
        change = self.happens("change", server, change="resource-updated", uri=uri, times={"published": self.now})
        self.reads(text, change, uri, server)

    def status(self, name: str) -> str:
        return self.tour.progress[name].status


@pytest.fixture
def trip() -> Trip:
    made = Trip()
    made.happens("subscriptions", uris=[PLAN])
    made.reads("one")
    made.open()
    return made


async def test_before_all_is_connected_nothing_can_be_done_or_seen() -> None:
    trip = Trip()
    assert not trip.tour.do("edit")
    trip.tour.server_ended(trip.now, "words")
    trip.reads("one")
    trip.changes("two")
    assert trip.status("edit") == "ready"
    assert not trip.tour.facts()["steps"][0]["ready"]


async def test_a_step_whose_button_was_pressed_is_seen_only_when_something_came_of_it(trip: Trip) -> None:
    trip.tour.do("edit")
    trip.tour.do("edit")  # Twice: it is under way.
    assert trip.done == ["edit"]
    assert trip.status("edit") == "doing"
    trip.changes("one")  # Read again, and the same.
    trip.changes("else", uri="vault://note/Other.md")
    assert trip.status("edit") == "doing"
    trip.changes("two")
    assert trip.status("edit") == "seen"
    assert [each.step.name for each in trip.told] == ["edit"]
    seen = await trip.tour.wait("edit")
    assert seen is not None
    assert [hop.words for hop in seen.hops] == ["file saved", "notified", "fresh copy"]
    assert seen.lines == ("- one", "+ two")
    assert not trip.tour.complete


async def test_a_tool_that_fails_or_that_the_client_called_does_not_count(trip: Trip) -> None:
    asked: dict[str, Any] = {"method": "tools/call", "params": {"name": "search"}, "created_at": 1.0}
    trip.happens("request", id="1", status="completed", result={"isError": True}, **asked)
    trip.happens("request", id="2", status="error", **asked)
    trip.happens("request", id="3", status="completed", aside=True, **asked)
    trip.happens("request", "web", id="4", status="completed", result={}, **asked)
    assert trip.status("ask") == "ready"
    result = {"structuredContent": {"results": [{"path": "A.md"}]}}
    trip.happens("request", id="5", status="completed", result=result, completed_at=1.004, **asked)
    seen = trip.tour.progress["ask"].seen
    assert seen is not None
    assert (seen.words, seen.lines) == ("search answered in 4 ms: 1 note", ("A.md",))


async def test_an_agent_that_continues_is_seen_with_its_words_and_the_time_since_the_edit(trip: Trip) -> None:
    trip.tour.do("wake")
    trip.changes("two", uri="vault://note/Shop/Flour.md")  # The inspector has heard of it. The agent has not.
    assert trip.status("wake") == "doing"
    trip.tour.woken(1_001.25, 1_000.0, "New in Flour: rye", ("+ rye",))
    seen = await trip.tour.wait("wake")
    assert seen is not None
    assert seen.words == "the agent says: “New in Flour: rye”"
    assert [(hop.words, hop.ms) for hop in seen.hops] == [("file saved", None), ("agent continues", 1250.0)]


@pytest.mark.parametrize("saved", [None, 900.0])
async def test_of_an_edit_whose_time_is_not_known_no_duration_is_told(trip: Trip, saved: float | None) -> None:
    trip.tour.woken(1_000.0, saved, "It is gone", ())
    seen = trip.tour.progress["wake"].seen
    assert seen is not None
    assert [hop.words for hop in seen.hops] == ["agent continues"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["+- Rye", "+", "+* Wheat"], "New in Flour: Rye; Wheat"),
        (["-- Rye"], "No longer in Flour: Rye"),
        (["-- Rye", "+- Oats"], "New in Flour: Oats"),
        ([], "Flour was changed. I should read it again"),
    ],
)
def test_the_agent_says_what_is_new_in_its_note(lines: list[str], words: str) -> None:
    assert news(lines) == words


def test_claude_code_is_offered_to_those_who_have_it_with_a_command_that_changes_no_settings() -> None:
    (offer,) = [text for title, text in snippets("http://vault/mcp", claude=True).items() if "Claude Code" in title]
    words = shlex.split(offer)
    assert words[0] == "claude"
    config = json.loads(words[words.index("--mcp-config") + 1])
    assert config["mcpServers"]["bakery"]["url"] == "http://vault/mcp"
    assert "vault://note/Shop/Flour.md" in words[1]
    assert not any(text.startswith("claude ") for text in snippets("http://vault/mcp").values())


async def test_a_kill_is_seen_when_what_was_written_meanwhile_has_arrived(trip: Trip) -> None:
    trip.happens("state", state="error", old="connected")  # The inspector was quicker than we.
    trip.tour.server_ended(trip.now, "Written")
    assert trip.status("kill") == "doing"
    trip.tour.server_listens(trip.now + 0.0001, 77)
    trip.happens("state", state="connected", old="connecting")
    trip.reads("one")  # Stale: it does not count, and is no edit.
    assert (trip.status("kill"), trip.status("edit")) == ("doing", "ready")
    trip.reads("one Written")
    seen = trip.tour.progress["kill"].seen
    assert seen is not None
    assert [hop.words for hop in seen.hops] == ["killed", "noticed", "started again", "connected", "fresh copy"]
    assert trip.tour.facts()["steps"][4]["place"] == "kill -9 77"


async def test_what_is_not_seen_in_time_is_said_to_be_late(trip: Trip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LATE_SECONDS", 0.01)
    trip.tour.do("page")
    assert await trip.tour.wait("page") is None
    assert trip.status("page") == "late"


async def test_a_server_that_never_serves_is_given_up_with_what_it_said() -> None:
    kept = ServerProcess("sample", ["vault", "/nowhere/at/all", "--http", "127.0.0.1:0"])
    with pytest.raises(StageFailed, match=r"could not be started. Its error output:\n.*no folder") as failure:
        async with asyncio.timeout(60):
            await kept.run()
    assert "/nowhere/at/all" in str(failure.value)
    assert kept.pid is None
    assert not kept.kill()


async def test_what_is_set_for_the_users_own_servers_is_not_for_those_of_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"TOKEN": "secret", "LOG_JSON": "1", "LOG_LEVEL": "error", "VAULT_READ_ONLY": "maybe"}.items():
        monkeypatch.setenv(f"TIDINGS_{name}", value)
    port, notes = free_port(), tmp_path / "notes"
    notes.mkdir()
    kept = ServerProcess(
        "sample", ["vault", str(notes), "--http", f"127.0.0.1:{port}", "--cache", str(tmp_path / "index")]
    )
    running = asyncio.create_task(kept.run())
    try:
        async with asyncio.timeout(60):
            await kept.serving()
            async with httpx2.AsyncClient(trust_env=False) as client:
                answer = await client.post(f"http://127.0.0.1:{port}/mcp", json={})
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert answer.status_code != 401


@pytest.mark.parametrize(("seconds", "words"), [(0.0001, "<1 ms"), (0.0144, "14 ms"), (0.9999, "1.0 s"), (-1, "<1 ms")])
async def test_times_are_written_for_people(seconds: float, words: str) -> None:
    assert duration(seconds) == words
