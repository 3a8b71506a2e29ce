"""Nobody learns of what is not theirs in a roundabout way: by a cursor that counts it, or by the work that it costs."""

import itertools
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.bus.buses import BusFactory
from tests.server import wire
from tests.server.serving import eventually, live, notes
from tests.server.test_sessions import ADA, AUTH, ENGINES, EVE, Tokens, world
from tests.server.wire import Connection, Session, changed, subscribe
from tidings import LiveServer
from tidings.bus import Bus
from tidings.bus.memory import MemoryBus
from tidings.bus.sqlite import SqliteBus
from tidings.changes import Cursor

pytestmark = pytest.mark.anyio

MINE, ADAS = "note://eve", "note://ada"
SINCE, RECOVERED = "dev.tidings/since", "dev.tidings/recovered"


def own(ctx: Any, uri: str) -> bool:
    """Everyone may hear of their own note, and subscribe to the prefix of all notes."""
    return uri in ("note://*", f"note://{ctx.request.user.access_token.subject}")


@asynccontextmanager
async def private(bus: Bus | None = None, **options: Any) -> AsyncGenerator[tuple[LiveServer[Any], int]]:
    """A server of private notes."""
    checks: Any = {"auth": AUTH, "token_verifier": Tokens(), "authorize": own, **options}
    mcp = notes(bus=bus, **checks)
    mcp._live._core.times._clock = lambda: 1.0  # Its digits would differ.
    async with live(mcp) as port:
        yield mcp, port


async def listen(port: int, *uris: str, since: Any = None, headers: Any = EVE, number: int = 1) -> Connection:
    meta = {} if since is None else {SINCE: since}
    return await wire.listen(port, wire.wanted(uris or [MINE], []), number, headers=headers, **meta)


async def acknowledged(stream: Connection) -> wire.Json:
    """`_meta` of the acknowledgment."""
    return (await stream.next())["params"]["_meta"]


# Cursors


class Tape:
    """All bytes that a test has received."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = b""
        monkeypatch.setattr(wire, "_numbers", itertools.count(100))  # The ids of requests, which come back.
        receive = Connection.data_received

        def data_received(connection: Connection, data: bytes) -> None:
            self.bytes += data
            receive(connection, data)

        monkeypatch.setattr(Connection, "data_received", data_received)

    @property
    def cursors(self) -> list[bytes]:
        return re.findall(rb'"dev.tidings/cursor":"([^"]*)"', self.bytes)

    @property
    def rest(self) -> bytes:
        """All but what is random, or the time. The lengths of it are in it."""
        shown = re.sub(rb'("dev.tidings/cursor":")([^"]*)', lambda found: found[1] + b"x" * len(found[2]), self.bytes)
        return re.sub(rb"(?i)(date|mcp-session-id): [^\r]*", b"", shown)


class Spied:
    """A server of private notes, with users who change some of them."""

    def __init__(self, mcp: LiveServer[Any], port: int, count: int) -> None:
        self.mcp, self.port, self._count = mcp, port, count

    async def others(self) -> None:
        """Changes what the spy must not hear of."""
        for number in range(self._count):
            await self.mcp.notify.resource_updated(ADAS if number % 2 else f"note://{number}")

    async def change(self) -> None:
        """Changes what the spy may hear of."""
        await self.mcp.notify.resource_updated(MINE)


async def spy_modern(spied: Spied) -> None:
    """Listens, and again with each cursor that came, while others change something, and now and then the spy does."""
    since: Any = None
    for turn in range(4):
        stream = await listen(spied.port, MINE, "note://*", "note://nobody", "nowhere://*", since=since, number=turn)
        seen = [await acknowledged(stream)]
        await spied.others()
        await spied.change()
        seen.append((await stream.next())["params"]["_meta"])
        if turn == 2:
            seen.append((await stream.next())["params"]["_meta"])  # What it had missed was the first.
        stream.abort()
        await spied.others()
        if turn == 1:
            await spied.change()
        since = seen[-1][wire.CURSOR]


async def spy_legacy(spied: Spied) -> None:
    """Does the same with one session, whose stream breaks."""
    session = await Session.start(spied.port, headers=EVE)
    for uri in (MINE, "note://*", "note://nobody", "nowhere://x"):
        await session.subscribe(uri)
    for turn in range(3):
        stream = await session.stream()
        for _ in range(5 if turn else 0):  # Three lists, the note and the prefix.
            await stream.next()
        await spied.others()
        await spied.change()
        assert changed(await stream.next()) == MINE
        await spied.others()
        stream.abort()
        await eventually(lambda: spied.mcp.notify.counts()["unreachable"])


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("spy", [spy_modern, spy_legacy])
async def test_what_a_spy_sees_does_not_depend_on_what_others_change(
    spy: Callable[[Spied], Any], is_stored: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[Tape] = []
    for count in (0, 1, 50):
        bus = SqliteBus(tmp_path / f"bus{count}") if is_stored else None
        with monkeypatch.context() as taping:
            tape = Tape(taping)
            async with private(bus) as (mcp, port):
                before = mcp._live._bus.head.version
                await spy(Spied(mcp, port, count))
                assert mcp._live._bus.head.version - before >= 6 * count  # There was something to be seen.
        seen.append(tape)
    assert seen[0].rest == seen[1].rest == seen[2].rest
    for tape in seen:
        # Not even that nothing has changed is seen.
        assert len(set(tape.cursors)) == len(tape.cursors) > 2


async def test_a_cursor_that_somebody_made_up_or_changed_tells_them_nothing() -> None:
    async with private() as (mcp, port):
        stream = await listen(port)
        sealed = (await acknowledged(stream))[wire.CURSOR]
        for _ in range(9):
            await mcp.notify.resource_updated(ADAS)
        head = mcp._live._bus.head
        plain = [str(Cursor(head.epoch, version, head.term)) for version in range(head.version + 3)]
        altered = [sealed[:-4], sealed + "AAAA", "A" + sealed[1:], sealed.upper(), "", "\n", f"{sealed}\n", "\n" * 5000]
        for since in [*plain, *altered, f"{sealed}\n{head}", [sealed], {"a": sealed}, 7]:
            meta = await acknowledged(await listen(port, since=since))
            assert (meta[RECOVERED], len(meta[wire.CURSOR])) == (False, len(sealed))
        assert (await acknowledged(await listen(port, since=sealed)))[RECOVERED] is True


async def test_a_server_without_private_resources_has_cursors_that_cost_nothing() -> None:
    mcp = notes()
    async with live(mcp) as port:
        reader = await subscribe("modern", port, ["note://a"])
        await mcp.notify.resource_updated("note://a")
        assert wire.cursor(await reader.next()) == mcp._live._bus.head


async def test_one_cursor_is_written_once_for_all_its_readers() -> None:
    async with private(authorize=lambda _, __: True) as (mcp, port):
        readers = [await listen(port, headers=headers) for headers in (ADA, EVE)]
        session = await subscribe("legacy", port, [MINE], headers=EVE)
        first = [await acknowledged(reader) for reader in readers]
        await mcp.notify.resource_updated(MINE)
        frames = [await reader.next() for reader in (*readers, session)]
        assert len({frame["params"]["_meta"][wire.CURSOR] for frame in frames}) == 1
        assert first[0][wire.CURSOR] != first[1][wire.CURSOR]


async def test_a_cursor_of_somebody_else_brings_only_what_its_sender_may_hear_of() -> None:
    async with private() as (mcp, port):
        adas = (await acknowledged(await listen(port, ADAS, headers=ADA)))[wire.CURSOR]
        for uri in (ADAS, MINE):
            await mcp.notify.resource_updated(uri)
        spy = await listen(port, ADAS, "note://*", since=adas)
        assert (await acknowledged(spy))[RECOVERED] is True
        assert changed(await spy.next()) == MINE
        await mcp.notify.resource_updated(MINE)
        assert changed(await spy.next()) == MINE


async def test_of_several_cursors_the_earliest_counts() -> None:
    async with private() as (mcp, port):
        cursors = [(await acknowledged(await listen(port)))[wire.CURSOR]]
        await mcp.notify.resource_updated(MINE)
        cursors += [(await acknowledged(await listen(port)))[wire.CURSOR] for _ in range(2)]
        for since, missed in ((cursors, True), (cursors[::-1], True), (cursors[1:], False)):
            meta = await acknowledged(await listen(port, since="\n".join(since)))
            assert (meta[RECOVERED], meta.get("dev.tidings/behind", False)) == (True, missed)


# The key of the seals


async def resumes(port: int, since: str) -> bool:
    """Whether what was missed since then follows."""
    stream = await listen(port, since=since)
    recovered = (await acknowledged(stream))[RECOVERED]
    if recovered:
        assert changed(await stream.next()) == MINE
    return recovered


@pytest.mark.parametrize("is_lost", [False, True])
async def test_after_a_restart_a_cursor_is_known_unless_the_key_was_lost(is_lost: bool, tmp_path: Path) -> None:
    async with private(SqliteBus(tmp_path / "bus")) as (_, port):
        since = (await acknowledged(await listen(port)))[wire.CURSOR]
    if is_lost:
        async with SqliteBus(tmp_path / "bus") as bus:
            await bus.records.delete("key/seals")
    async with private(SqliteBus(tmp_path / "bus")) as (mcp, port):
        await mcp.notify.resource_updated(MINE)
        assert await resumes(port, since) is not is_lost


@ENGINES
async def test_every_replica_knows_the_cursors_of_the_others(engine: type[BusFactory], tmp_path: Path) -> None:
    checks: Any = {"auth": AUTH, "token_verifier": Tokens(), "authorize": own}
    async with engine.start(tmp_path) as factory, world(factory.open, **checks) as all_:
        for here, port in enumerate(all_.ports):
            since = (await acknowledged(await listen(port)))[wire.CURSOR]
            await all_.publish(MINE, here)
            for other, server in zip(all_.ports, all_.servers, strict=True):
                head = all_.servers[here]._live._bus.head
                await eventually(lambda server=server, head=head: server._live._core.position >= head)
                assert await resumes(other, since)


class NoRecords(MemoryBus):
    """A bus of somebody's own, which keeps nothing but the log."""

    def __init__(self) -> None:
        super().__init__()
        del self.records


async def test_on_a_bus_without_records_each_process_knows_its_own_cursors() -> None:
    bus = NoRecords()
    async with private(bus) as (mcp, port), private(bus) as (_, other):
        since = (await acknowledged(await listen(port)))[wire.CURSOR]
        await mcp.notify.resource_updated(MINE)
        assert await resumes(port, since)
        assert not await resumes(other, since)


# What is missing, and what is refused


class Asked:
    """Notes what it is asked. It permits one note, and has no other that exists."""

    def __init__(self) -> None:
        self.uris: list[str] = []

    async def __call__(self, _: Any, uri: str) -> bool:
        self.uris.append(uri)
        await anyio.lowlevel.checkpoint()
        return uri in ("note://a", "nowhere://permitted")


NAMES = ["note://refused", "nowhere://missing", "nowhere://permitted", "note://refused*", "nowhere://*"]


async def test_permission_is_asked_for_what_is_missing_as_for_what_is_refused_and_neither_is_looked_up() -> None:
    asked = Asked()
    mcp = notes(authorize=asked)
    looked_up: list[list[str]] = []
    missing = mcp._live._core.policy.missing
    mcp._live._core.policy.missing = lambda uris: looked_up.append(list(uris)) or missing(uris)
    async with live(mcp) as port:
        stream = await wire.listen(port, wire.wanted([*NAMES, "note://a"], []))
        assert (await stream.next())["params"]["notifications"] == {"resourceSubscriptions": ["note://a"]}
        assert asked.uris == [*NAMES, "note://a"]
        assert looked_up == [["nowhere://permitted", "note://a"]]
        asked.uris.clear()
        looked_up.clear()
        session = await Session.start(port)
        answers = [(await session.subscribe(uri)).json for uri in NAMES]
        assert asked.uris == NAMES
        assert looked_up == [["nowhere://permitted"]]
        for answer in answers:
            del answer["id"]
        assert len({str(answer).replace(uri, "…") for uri, answer in zip(NAMES, answers, strict=True)}) == 1


async def test_alone_what_is_missing_and_what_is_refused_have_the_same_acknowledgment() -> None:
    async with live(notes(authorize=Asked())) as port:
        frames = []
        for uri in NAMES:
            frame = await (await wire.listen(port, wire.wanted([uri], []), 1)).next()
            frame["params"]["_meta"][wire.CURSOR] = len(frame["params"]["_meta"][wire.CURSOR])
            frames.append(frame)
        assert all(frame == frames[0] for frame in frames)


async def test_a_replica_that_takes_over_a_session_asks_for_what_is_missing_there_too() -> None:
    asked = Asked()
    bus = MemoryBus()
    here, there = notes(bus=bus, authorize=lambda _, __: True), notes(bus=bus, authorize=asked)

    @here.resource("elsewhere://x")
    def elsewhere() -> str:
        return "not there"

    async with live(here) as first, live(there) as second:
        session = await Session.start(first)
        for uri in ("note://refused", "elsewhere://x", "note://a"):
            assert (await session.subscribe(uri)).json["result"] == {}
        session.port = second
        stream = await session.stream()
        await here.notify.resource_updated("note://a")
        assert changed(await stream.next()) == "note://a"
        assert asked.uris == ["note://refused", "elsewhere://x", "note://a"]
