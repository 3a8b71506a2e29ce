"""Webhooks, subscribed to by hand."""

from collections.abc import Callable
from typing import Any

import anyio
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings

from tests.server.events.eventing import CREATED, OrderCreated, ask, bearer, get, shop
from tests.server.events.receiving import SECRET
from tests.server.wire import Json
from tidings import LiveServer
from tidings.bus.streams import Retention
from tidings.server import Events, Webhooks


def settings(**options: Any) -> Events:
    given: dict[str, Any] = {"retries": (0.01, 0.01, 0.01), "lease": 1.0, "timeout": 2.0, "local": True, **options}
    return Events(retention=Retention(count=50), webhooks=Webhooks(**given))


def wanted(url: str, secret: str = SECRET, **more: Any) -> Json:
    given: Json = {"name": CREATED, "arguments": {}, "cursor": None, **more}
    return {"delivery": {"mode": "webhook", "url": url, "secret": secret}, **given}


async def subscribe(port: int, url: str, secret: str = SECRET, **more: Any) -> Json:
    return await get(port, "events/subscribe", **wanted(url, secret, **more))


async def publish(mcp: LiveServer, *names: str, shop: str = "oslo") -> None:
    for name in names:
        await mcp.notify.event(CREATED, OrderCreated(order=name, shop=shop))


async def told(port: int) -> Json:
    return await get(port, "dev.tidings/events/deliveries")


class Tokens:
    async def verify_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id="app", subject=token, scopes=[])


def guarded(**options: Any) -> LiveServer[Any]:
    url = "https://login.example.com"
    auth = AuthSettings(issuer_url=url, resource_server_url=url, validate_token_resource=False)  # type: ignore[arg-type]
    return shop(auth=auth, token_verifier=Tokens(), **options)


async def as_(user: str, port: int, method: str, **params: Any) -> Json:
    return (await ask(port, method, headers=bearer(user), **params)).json


async def when(port: int, condition: Callable[[Json], Any], user: str = "ada") -> Any:
    """Returns what `condition` says of the deliveries, once it is true."""
    with anyio.fail_after(20):
        while True:
            if found := condition((await as_(user, port, "dev.tidings/events/deliveries"))["result"]):
                return found
            await anyio.sleep(0.02)
