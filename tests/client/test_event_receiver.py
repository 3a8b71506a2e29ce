"""The receiver of webhooks: what is not signed, old or known is not handed on; what is, once, also after a restart."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.server.events.eventing import shop
from tests.server.events.hooking import publish, settings, subscribe
from tests.server.serving import eventually, live, serving
from tidings.bus.sqlite import SqliteBus
from tidings.client import EventReceiver, EventsTruncated

pytestmark = pytest.mark.anyio
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
NOW = 1_794_819_600.0
EVENT = {"eventId": "evt_1", "name": "order.created", "timestamp": "2026-11-16T00:00:00Z", "data": {"order": "1"}}


class Sender:
    """Signs by hand, and posts to an app."""

    def __init__(self, app: EventReceiver) -> None:
        self.client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://receiver")

    async def post(
        self,
        body: Any,
        *,
        at: float = NOW,
        key: bytes = b"k" * 32,
        message_id: str = "evt_1",
        other: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        signed = f"{message_id}.{int(at)}.".encode() + raw
        signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        named = {"webhook-id": message_id, "webhook-timestamp": str(int(at)), "webhook-signature": f"v1,{signature}"}
        return await self.client.post("/any/path", content=raw, headers={**named, **(other or {})})


def receiver(handled: list[Any], **options: Any) -> Sender:
    return Sender(EventReceiver(SECRET, handled.append, clock=lambda: NOW, **options))


async def test_an_event_is_handed_on_once_for_its_id() -> None:
    handled: list[Any] = []
    sender = receiver(handled)
    assert [(await sender.post(EVENT)).status_code for _ in range(3)] == [200, 200, 200]
    assert (await sender.post(EVENT, at=NOW - 200, message_id="msg_2")).status_code == 200  # Its id is in the event.
    assert [(each.id, each.data) for each in handled] == [("evt_1", {"order": "1"})]
    await asyncio.gather(*(sender.post({**EVENT, "eventId": "evt_2"}) for _ in range(5)))
    assert [each.id for each in handled] == ["evt_1", "evt_2"]


async def test_what_is_not_signed_or_is_old_is_refused() -> None:
    handled: list[Any] = []
    sender = receiver(handled)
    for refused in (
        await sender.post(EVENT, at=NOW - 301),
        await sender.post(EVENT, at=NOW + 301),
        await sender.post(EVENT, key=b"x" * 32),
        await sender.post(EVENT, other={"webhook-id": "evt_2"}),
        await sender.post(EVENT, other={"webhook-signature": ""}),
        await sender.post({"type": "verification", "challenge": "x"}, key=b"x" * 32),
    ):
        assert refused.status_code == 401
    assert (await sender.post(b"x" * 262_145)).status_code == 413
    wrong: list[Any] = [b"no json", b"[" * 100_000, {"eventId": 1}, [], {"name": "x"}]
    for malformed in wrong:
        assert (await sender.post(malformed)).status_code == 400
    assert (await sender.client.get("/")).status_code == 405
    assert handled == []
    with pytest.raises(ValueError, match="whsec_"):
        EventReceiver("secret", handled.append)


async def test_messages_about_events_are_answered() -> None:
    handled: list[Any] = []
    sender = receiver(handled)
    assert (await sender.post({"type": "verification", "challenge": "abc"})).json() == {"challenge": "abc"}
    for _ in range(2):
        assert (await sender.post({"type": "gap", "cursor": "c1"}, message_id="msg_gap_1")).status_code == 200
    assert (await sender.post({"type": "later", "more": 1}, message_id="msg_later")).status_code == 200
    assert handled == [EventsTruncated("", "c1")]


async def test_an_event_that_could_not_be_handled_comes_again_and_a_restart_forgets_nothing(tmp_path: Path) -> None:
    handled: list[Any] = []

    async def handle(event: Any) -> None:
        handled.append(event)
        if len(handled) == 1:
            raise RuntimeError("not now")

    for status in (500, 200, 200):
        sender = Sender(EventReceiver([SECRET], handle, clock=lambda: NOW, state=tmp_path / "handed.db"))
        assert (await sender.post(EVENT)).status_code == status
    assert len(handled) == 2


async def test_a_live_server_and_the_receiver_understand_each_other(tmp_path: Path) -> None:
    handled: list[Any] = []
    mcp = shop(bus=SqliteBus(tmp_path / "bus.db"), events=settings())
    async with live(mcp) as port, serving(EventReceiver(SECRET, handled.append)) as there:
        await subscribe(port, f"http://127.0.0.1:{there}/hook", SECRET)
        await publish(mcp, "1", "2", "3")
        await eventually(lambda: len(handled) == 3)
    assert [each.data["order"] for each in handled] == ["1", "2", "3"]
