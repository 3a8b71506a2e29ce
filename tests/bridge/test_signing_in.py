"""Whose rights a bridge uses: the clients' own, each in a session of its own, or those that the bridge has itself."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

import anyio
import pytest

from tests.bridge.upstreams import ERAS, until
from tests.client.bad_servers import LEGACY, RESOURCE, behaved
from tests.client.misbehaving import Asked, Site, site
from tests.server.serving import serving
from tidings import LiveClient, ResourceUpdated, connect
from tidings.bridge import BridgeServer, ClientCredentials, UpstreamSpec
from tidings.errors import TidingsError

pytestmark = pytest.mark.anyio


class Mailbox:
    """A server at a URL. Its one resource is another one for each token; nobody else may enter."""

    def __init__(self) -> None:
        self.mail = {"ada": "hello Ada", "eve": "hello Eve"}
        self.seen: dict[str, set[str]] = {}
        """The tokens that each session was used with."""

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Site]:
        does = behaved(LEGACY, {"resources": {}, "tools": {}, "logging": {}})

        async def answer(asked: Asked) -> None:
            token = asked.headers.get("authorization", "").removeprefix("Bearer ")
            if token not in self.mail:
                await self.refuse(asked)
                return
            if asked.method != "POST":
                await asked.answer(405)
                return
            session = asked.headers.get("mcp-session-id") or f"session-of-{token}"
            self.seen.setdefault(session, set()).add(token)
            result = does.get(asked.message["method"])
            if asked.message["method"] == "resources/read":
                result = {"contents": [{**RESOURCE, "text": self.mail[token]}]}
            if "id" not in asked.message:
                await asked.answer(202)
                return
            body = {"jsonrpc": "2.0", "id": asked.message["id"], "result": result}
            await asked.answer(body=json.dumps(body).encode(), mcp_session_id=session)

        async with site(answer) as here:
            yield here

    async def refuse(self, asked: Asked) -> None:
        await asked.answer(401, b"Sign in first.", "text/plain")


@asynccontextmanager
async def client_of(bridge: BridgeServer, *tokens: str, era: str = "auto") -> AsyncGenerator[list[LiveClient]]:
    """Clients of a bridge over HTTP, each with a token."""
    with anyio.fail_after(60):
        async with serving(bridge.asgi()) as port, anyio.create_task_group():
            clients = [connect(f"http://127.0.0.1:{port}/mcp", token=token, era=era) for token in tokens]
            async with clients[0], clients[-1]:
                yield clients


@pytest.mark.parametrize("above", ERAS)
async def test_each_client_reads_and_watches_with_its_own_rights(above: str) -> None:
    box = Mailbox()
    async with box.serving() as here:
        bridge = BridgeServer([UpstreamSpec("mail", here.url, pass_token=True)], interval=0.05)
        async with client_of(bridge, "ada", "eve", era=above) as clients:
            heard = {name: anyio.Event() for name in box.mail}
            for name, client in zip(box.mail, clients, strict=True):
                await client.subscribe("note://a")
                client.on(ResourceUpdated, lambda _, name=name: heard[name].set())
                assert (await client.read_resource("note://a")).text == box.mail[name]
            box.mail["eve"] = "more for Eve"
            await heard["eve"].wait()
            assert (await clients[1].read_resource("note://a")).text == "more for Eve"
            assert (await clients[0].read_resource("note://a")).text == "hello Ada"
    assert box.seen == {f"session-of-{name}": {name} for name in box.mail}


@pytest.mark.parametrize("above", ERAS)
async def test_a_client_that_the_server_refuses_is_told_what_to_do(above: str) -> None:
    async with Mailbox().serving() as here:
        bridge = BridgeServer([UpstreamSpec("mail", here.url, pass_token=True)])
        async with client_of(bridge, "mallory", era=above) as (client, *_):
            with pytest.raises(TidingsError, match=r"mail .*connect to the bridge with a token for this server"):
                await client.call_tool("tool")
            with pytest.raises(TidingsError):
                await client.subscribe("note://a")


async def test_a_bridge_without_credentials_says_where_to_write_them() -> None:
    async with Mailbox().serving() as here:
        bridge = BridgeServer([UpstreamSpec("mail", here.url)])
        async with client_of(bridge, "ada") as (client, *_):
            with pytest.raises(TidingsError, match=r"mail cannot be used: .*HTTP 401.* as headers or as tidings\.auth"):
                await client.call_tool("tool")
            assert "--pass-token" in (await client.read_resource("bridge://status")).text


class Guarded(Mailbox):
    """A mailbox for whoever signs in at the authorization server beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.mail = {"granted": "hello bridge"}
        self.asked: list[dict[str, Any]] = []

    async def refuse(self, asked: Asked) -> None:
        here = f"http://{asked.headers['host']}"
        match asked.path:
            case "/mcp":
                where = f'Bearer resource_metadata="{here}/.well-known/oauth-protected-resource/mcp"'
                await asked.answer(401, www_authenticate=where)
            case "/.well-known/oauth-protected-resource/mcp":
                await self.tell(asked, resource=f"{here}/mcp", authorization_servers=[here])
            case "/.well-known/oauth-authorization-server":
                await self.tell(
                    asked,
                    issuer=here,
                    authorization_endpoint=f"{here}/authorize",
                    token_endpoint=f"{here}/token",
                    response_types_supported=["code"],
                    grant_types_supported=["client_credentials"],
                    token_endpoint_auth_methods_supported=["client_secret_basic"],
                )
            case "/token":
                self.asked.append(parse_qs(asked.body.decode()))
                await self.tell(asked, access_token="granted", token_type="Bearer", expires_in=3600)
            case _:
                await asked.answer(404)

    async def tell(self, asked: Asked, **facts: Any) -> None:
        await asked.answer(body=json.dumps(facts).encode())


async def test_the_bridge_signs_in_by_itself() -> None:
    box = Guarded()
    async with box.serving() as here:
        issuer = here.url.removesuffix("/mcp")
        auth = ClientCredentials(issuer, "tidings", "a secret", "mail")
        async with client_of(BridgeServer([UpstreamSpec("mail", here.url, auth=auth)]), "of the client") as (
            client,
            *_,
        ):
            assert (await client.read_resource("note://a")).text == "hello bridge"
            await until(lambda: len(box.asked) == 1)
    assert box.asked[0]["grant_type"] == ["client_credentials"]
    assert box.seen == {"session-of-granted": {"granted"}}
    assert "a secret" not in repr(auth)
