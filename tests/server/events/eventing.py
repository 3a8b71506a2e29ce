"""A client of the events extension, by hand, and a server with events."""

import itertools
from typing import Any

from pydantic import BaseModel

from tests.server import wire
from tests.server.serving import notes
from tests.server.wire import Json
from tidings import LiveServer

CREATED = "order.created"
TODAY = "note://today"
_numbers = itertools.count(1)


class OrderCreated(BaseModel):
    """An order came in."""

    order: str
    shop: str = "oslo"


class Orders(BaseModel):
    shop: str | None = None


def shop(**options: Any) -> LiveServer[Any]:
    """A server with resources at `note://…`, and an event of its own."""
    mcp = notes(**options)
    mcp.event(CREATED, arguments=Orders)(OrderCreated)
    return mcp


def bearer(user: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {user}"}


async def ask(port: int, method: str, *, headers: dict[str, str] | None = None, **params: Any) -> wire.Response:
    body = wire.message(method, {**params, "_meta": wire.modern_meta()}, next(_numbers))
    return await wire.once(port, wire.http("POST", {**wire.modern_headers(method), **(headers or {})}, body))


async def get(port: int, method: str, **params: Any) -> Json:
    answer = (await ask(port, method, **params)).json
    assert "result" in answer, answer
    return answer["result"]


async def poll(port: int, name: str = CREATED, cursor: str | None = None, **params: Any) -> Json:
    return await get(port, "events/poll", name=name, cursor=cursor, **params)


async def stream(
    port: int, name: str = CREATED, *, number: Any = "mine", headers: dict[str, str] | None = None, **params: Any
) -> wire.Connection:
    """A stream that is open; no frame has been looked at yet."""
    connection = await wire.Connection.open(port)
    body = wire.message("events/stream", {"name": name, **params, "_meta": wire.modern_meta()}, number)
    named = {**wire.modern_headers("events/stream"), **(headers or {})}
    await connection.stream(wire.http("POST", named, body))
    return connection


async def heard(connection: wire.Connection, what: str = "event") -> Json:
    """The parameters of the next message, which is of this kind."""
    frame = await connection.next()
    assert frame["method"] == f"notifications/events/{what}", frame
    assert frame["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "mine"
    return frame["params"]


def data(events: list[Json]) -> list[Any]:
    return [each["data"] for each in events]


def orders(events: list[Json]) -> list[str]:
    return [each["data"]["order"] for each in events]
