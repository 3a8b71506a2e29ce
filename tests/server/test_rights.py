"""A stream lasts as long as the rights of its reader: its token, what `authorize` says, and nothing revoked."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.server.auth.provider import AccessToken

import tidings
from tests.server import wire
from tests.server.serving import eventually, live, notes
from tests.server.test_sessions import ADA, AUTH, EVE, Tokens, world
from tests.server.wire import Era, Subscription, both_eras, changed, subscribe
from tidings import LiveServer
from tidings.bus.memory import MemoryBus
from tidings.changes import Change, Cursor
from tidings.errors import BusUnavailable, InvalidUri, NotAuthorized
from tidings.server import Limits

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

AT_ONCE = Limits(permission=1e-9)
"""Permission is asked for before each notification."""


class ShortTokens:
    """Tokens that expire at `end`, but for those of Eve."""

    def __init__(self) -> None:
        self.end = int(time.time()) + 2

    async def verify_token(self, token: str) -> AccessToken | None:
        end = None if token == "eve" else self.end
        return AccessToken(token=token, client_id="app", scopes=[], subject=token, expires_at=end)


class Permissions:
    """The resources that may be heard of."""

    def __init__(self, *uris: str) -> None:
        self.uris = set(uris)
        self.asked: list[str] = []

    def __call__(self, _: Any, uri: str) -> bool:
        self.asked.append(uri)
        return uri in self.uris


@asynccontextmanager
async def served(**options: Any) -> AsyncGenerator[tuple[LiveServer[Any], int]]:
    mcp = notes(**options)
    async with live(mcp) as port:
        yield mcp, port


async def reason(subscription: Subscription) -> Any:
    """How a stream ended: the code of its last frame, if that is an error."""
    ended = await subscription.over()
    last = subscription.stream.frames[-1:]
    return last[0]["error"]["data"]["code"] if last and "error" in last[0] else ended


ENDED = {"modern": "not-authorized", "legacy": "end"}


@both_eras
async def test_a_stream_ends_with_the_token_that_it_came_with(era: Era) -> None:
    async with served(auth=AUTH, token_verifier=ShortTokens()) as (mcp, port):
        ada = await subscribe(era, port, ["note://a"], headers=ADA)
        eve = await subscribe(era, port, ["note://a"], headers=EVE)
        assert await reason(ada) == ENDED[era]
        await mcp.notify.resource_updated("note://a")
        assert await eve.until("note://a")
        if ada.session is not None:
            with pytest.raises(wire.Refused) as refused:
                await ada.session.stream()
            assert refused.value.response.status == 401


async def test_a_stream_that_was_opened_with_a_new_token_lasts_as_long_as_that() -> None:
    tokens = ShortTokens()
    async with served(auth=AUTH, token_verifier=tokens) as (mcp, port):
        ada = await subscribe("legacy", port, ["note://a"], headers=ADA)
        assert await ada.over() == "end"
        tokens.end += 3600
        assert ada.session is not None
        ada.stream = await ada.session.stream_again()
        assert await ada.until("note://a")  # It may have missed something.
        await mcp.notify.resource_updated("note://a")
        assert await ada.until("note://a")


@both_eras
async def test_a_subscription_that_is_no_longer_permitted_ends_before_it_is_named(era: Era) -> None:
    may = Permissions("note://a", "note://b")
    async with served(authorize=may, limits=AT_ONCE) as (mcp, port):
        reader = await subscribe(era, port, ["note://a", "note://b"])
        await mcp.notify.resource_updated("note://a")
        assert await reader.until("note://a") == ["note://a"]
        may.uris.remove("note://a")
        await mcp.notify.resource_updated("note://b")
        assert await reader.until("note://b") == ["note://b"]
        await mcp.notify.resource_updated("note://a")
        assert await reason(reader) == ENDED[era]
        assert [changed(frame) for frame in reader.news] == ["note://a", "note://b"]
        if reader.session is not None:
            reader.stream = await reader.session.stream_again()
            assert "note://b" in await reader.until("note://b")
            await mcp.notify.resource_updated("note://a")
            await mcp.notify.resource_updated("note://b")
            assert await reader.until("note://b") == ["note://b"]


@both_eras
async def test_an_answer_counts_for_a_while(era: Era) -> None:
    may = Permissions("note://a")
    async with served(authorize=may, limits=Limits(permission=3600)) as (mcp, port):
        reader = await subscribe(era, port, ["note://a"])
        for _ in range(3):
            await mcp.notify.resource_updated("note://a")
            await reader.until("note://a")
        assert may.asked == ["note://a"]


@both_eras
async def test_what_only_a_prefix_matches_is_asked_for_again(era: Era) -> None:
    may = Permissions("note://*", "note://a", "note://b")
    async with served(authorize=may, limits=AT_ONCE) as (mcp, port):
        reader = await subscribe(era, port, ["note://*"])
        await mcp.notify.resource_updated("note://a")
        assert await reader.until("note://a") == ["note://a"]
        may.uris.remove("note://a")
        await mcp.notify.resource_updated("note://a")
        await mcp.notify.resource_updated("note://b")
        assert await reader.until("note://b") == ["note://b"]


@both_eras
async def test_rights_are_revoked_at_once_on_every_replica(era: Era) -> None:
    async with world(auth=AUTH, token_verifier=Tokens()) as all_:
        adas = [await subscribe(era, port, ["note://a"], headers=ADA) for port in all_.ports]
        eve = await subscribe(era, all_.ports[1], ["note://a"], headers=EVE)
        assert {info.principal for info in all_.servers[1].notify.subscribers("note://a")} == {"ada", "eve"}
        await all_.servers[0].notify.revoke("ada")
        for ada in adas:
            assert await reason(ada) == ENDED[era]
        await all_.publish("note://a")
        assert await eve.until("note://a") == ["note://a"]
        await all_.servers[2].notify.revoke()
        assert await reason(eve) == ENDED[era]


@both_eras
async def test_a_client_goes_on_after_its_rights_were_checked_again(era: Era) -> None:
    async with served(auth=AUTH, token_verifier=Tokens()) as (mcp, port):
        url = f"http://127.0.0.1:{port}/mcp"
        chosen = "legacy" if era == "legacy" else wire.MODERN
        async with tidings.connect(url, era=chosen, token="ada") as client:
            await client.subscribe("note://a")
            await client.read_resource("note://a")
            await mcp.notify.revoke("ada")
            with anyio.fail_after(20):
                await eventually(lambda: mcp.notify.subscribers("note://a"))
                await client.wait_fresh()
            assert client.is_subscribed("note://a")
            await mcp.notify.resource_updated("note://a")
            await eventually(lambda: client.cache.get_resource("note://a") is None)


@both_eras
async def test_a_client_whose_token_has_expired_says_so_and_goes_on_when_it_has_another(era: Era) -> None:
    tokens = ShortTokens()
    chosen = "legacy" if era == "legacy" else wire.MODERN
    async with served(auth=AUTH, token_verifier=tokens) as (mcp, port):
        url = f"http://127.0.0.1:{port}/mcp"
        async with tidings.connect(url, era=chosen, token="ada") as client:
            await client.subscribe("note://a")
            await client.read_resource("note://a")
            await eventually(lambda: not client.connected and isinstance(client.error, NotAuthorized))
            tokens.end += 3600
            await client.reconnect()
            await client.wait_fresh()
            await mcp.notify.resource_updated("note://a")
            await eventually(lambda: client.cache.get_resource("note://a") is None)


async def test_revoking_nobody_is_refused() -> None:
    async with served() as (mcp, _):
        with pytest.raises(ValueError, match="None for everybody"):
            await mcp.notify.revoke("")


async def test_revoking_asks_anew_what_was_permitted_a_moment_ago() -> None:
    may = Permissions("note://a", "note://b")
    async with served(authorize=may) as (mcp, port):
        reader = await subscribe("legacy", port, ["note://a", "note://b"])
        may.uris.remove("note://a")
        await mcp.notify.revoke()
        assert await reader.over() == "end"
        assert reader.session is not None
        heard: list[str] = []
        for ends in (True, False):  # The first stream ends with the answer.
            reader.stream = await reader.session.stream_again()
            await (reader.over() if ends else reader.until("note://b"))
            heard += [changed(frame) for frame in reader.news]
        assert "note://a" not in heard


async def test_a_subscription_that_is_granted_again_is_heard_of() -> None:
    may = Permissions("note://a")
    async with served(authorize=may) as (mcp, port):
        reader = await subscribe("legacy", port, ["note://a"])
        may.uris.clear()
        mcp._live._core.heard(mcp._live._core.position, None)  # A lost log: everything is asked for anew.
        assert await reader.over() == "end"
        assert reader.session is not None
        reader.stream = await reader.session.stream_again()
        may.uris.add("note://a")
        assert (await reader.session.subscribe("note://a")).json["result"] == {}
        await mcp.notify.resource_updated("note://a")
        assert await reader.until("note://a")


class AwayBus(MemoryBus):
    """A bus that stores nothing if a test says so."""

    away = False

    async def publish(self, change: Change) -> Cursor:
        if self.away:
            raise BusUnavailable("The bus is away.")
        return await super().publish(change)


@both_eras
async def test_rights_are_revoked_here_although_the_bus_is_away(era: Era) -> None:
    bus = AwayBus()
    async with served(auth=AUTH, token_verifier=Tokens(), bus=bus) as (mcp, port):
        ada = await subscribe(era, port, ["note://a"], headers=ADA)
        bus.away = True
        with pytest.raises(BusUnavailable):
            await mcp.notify.revoke("ada")
        assert await reason(ada) == ENDED[era]
        bus.away = False


async def test_rights_that_are_revoked_while_a_stream_opens_end_it() -> None:
    asked, go_on = anyio.Event(), anyio.Event()

    async def authorize(_: Any, __: str) -> bool:
        asked.set()
        await go_on.wait()
        return True

    checks: Any = {"auth": AUTH, "token_verifier": Tokens(), "authorize": authorize}
    async with served(**checks) as (mcp, port), anyio.create_task_group() as tasks:

        async def listen() -> None:
            with pytest.raises(wire.Refused, match="not-authorized"):
                await subscribe("modern", port, ["note://a"], headers=ADA)

        tasks.start_soon(listen)
        await asked.wait()
        await mcp.notify.revoke("ada")
        go_on.set()


class HeldBack:
    """An answer that comes late: it was decided before what happens meanwhile."""

    def __init__(self) -> None:
        self.allowed, self.is_held = True, False
        self.asked, self.go_on = anyio.Event(), anyio.Event()

    async def __call__(self, _: Any, uri: str) -> bool:
        decided = self.allowed
        if self.is_held:
            self.asked.set()
            await self.go_on.wait()
        return decided


@pytest.mark.parametrize("replica", [1, 2])
async def test_rights_that_are_revoked_while_a_session_moves_to_another_replica_end_its_stream(replica: int) -> None:
    may = HeldBack()
    checks: Any = {"auth": AUTH, "token_verifier": Tokens(), "authorize": may}
    async with world(**checks) as all_, anyio.create_task_group() as tasks:
        ada = await subscribe("legacy", all_.ports[0], ["note://a"], headers=ADA)
        assert ada.session is not None
        ada.session.port, may.is_held = all_.ports[1], True

        async def revoke() -> None:
            await may.asked.wait()
            may.allowed = may.is_held = False
            await all_.servers[replica].notify.revoke("ada")
            may.go_on.set()

        tasks.start_soon(revoke)
        ada.stream = await ada.session.stream()
        await all_.publish("note://a")
        assert await ada.over() == "end"
        assert ada.news == []


async def test_a_token_that_expires_while_a_replay_is_permitted_brings_nothing() -> None:
    may = HeldBack()
    checks: Any = {"auth": AUTH, "token_verifier": ShortTokens(), "authorize": may}
    async with served(**checks) as (mcp, port), anyio.create_task_group() as tasks:
        first = await subscribe("modern", port, ["note://a"], headers=ADA)
        since = {"dev.tidings/since": first.acknowledged["params"]["_meta"]["dev.tidings/cursor"]}
        await mcp.notify.resource_updated("note://a")
        assert await first.until("note://a")
        may.is_held = True

        async def wait_for_the_end() -> None:
            await may.asked.wait()
            assert await reason(first) == "not-authorized"
            may.go_on.set()

        tasks.start_soon(wait_for_the_end)
        stream = await wire.listen(port, wire.wanted(["note://a", "note://b"], []), 7, headers=ADA, **since)
        await stream.over()
        assert [frame for frame in stream.frames if wire.is_change(frame)] == []
        assert stream.frames[-1]["error"]["data"]["code"] == "not-authorized"


async def test_permission_is_asked_for_with_the_request_that_subscribed() -> None:
    class Scoped:
        async def verify_token(self, token: str) -> AccessToken | None:
            return AccessToken(token=token, client_id="app", scopes=[token], subject="ada")

    def authorize(ctx: Any, _: str) -> bool:
        return "wide" in ctx.request.user.access_token.scopes

    async with served(auth=AUTH, token_verifier=Scoped(), authorize=authorize, limits=AT_ONCE) as (mcp, port):
        session = await wire.Session.start(port, headers={"Authorization": "Bearer narrow"})
        session.own_headers = {"Authorization": "Bearer wide"}
        assert (await session.subscribe("note://a")).json["result"] == {}
        stream = await session.stream()
        await mcp.notify.resource_updated("note://a")
        assert changed(await stream.next()) == "note://a"


@both_eras
async def test_permission_is_asked_for_later_without_what_was_there_for_the_request_alone(era: Era) -> None:
    asked: list[Any] = []

    def authorize(ctx: Any, _: str) -> bool:
        asked.append((ctx.request, ctx.session.client_params, ctx.request.headers["authorization"]))
        return True

    async with served(auth=AUTH, token_verifier=Tokens(), authorize=authorize, limits=AT_ONCE) as (mcp, port):
        subscription = await subscribe(era, port, ["note://a"], headers=ADA)
        await mcp.notify.resource_updated("note://a")
        assert await subscription.until("note://a")
    (first, *then), (later, *same) = asked[0], asked[-1]
    assert then == same
    assert first is not later
    with pytest.raises(RuntimeError):
        await later.receive()


async def test_a_slow_answer_is_not_the_fault_of_the_reader() -> None:
    async def authorize(_: Any, __: str) -> bool:
        await anyio.sleep(0.1)
        return True

    limits = Limits(permission=1e-9, write_deadline=0.5)
    async with served(authorize=authorize, limits=limits) as (mcp, port):
        reader = await subscribe("modern", port, [f"note://{number}" for number in range(10)])
        for number in range(10):
            await mcp.notify.resource_updated(f"note://{number}")
        assert await reader.until("note://9")


async def test_no_resource_can_be_named_as_a_revocation_is() -> None:
    async with served() as (mcp, port):
        reader = await subscribe("modern", port, ["note://a"])
        with pytest.raises(InvalidUri, match="reserved for messages between replicas"):
            await mcp.notify.resource_updated("tidings-session:revoked/")
        await mcp.notify.resource_updated("note://a")
        assert await reader.until("note://a") == ["note://a"]
