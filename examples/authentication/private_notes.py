"""Resources that belong to users: tokens, `authorize` and revocation, with a server and two users.

    python examples/authentication/private_notes.py

Ada asks for Bob's diary, and is told that there is none. Bob follows his own. Then Ada's rights are revoked: her stream
ends at once, her client is refused, and Bob's goes on.
"""

import asyncio
import socket
import time

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver.exceptions import ResourceNotFoundError

import tidings
from tidings.client.events import StateChanged
from tidings.errors import ResourceNotFound

USERS = {"token-of-ada": "ada", "token-of-bob": "bob"}  # In production: a database, or your identity provider.
DIARIES = {"ada": "Monday.", "bob": "Rain."}


class Tokens:
    """Checks each request's token. The SDK calls this, and answers 401 if it returns None."""

    async def verify_token(self, token: str) -> AccessToken | None:
        if (user := USERS.get(token)) is None:
            return None
        # A stream ends when the token that it came with expires.
        return AccessToken(
            token=token, client_id="example", subject=user, scopes=[], expires_at=int(time.time()) + 3600
        )


def authorize(ctx, uri: str) -> bool:
    """Decides who may subscribe to what. It is asked again before later notifications."""
    return uri == f"diary://{ctx.request.user.access_token.subject}"


def make_server(url: str) -> tidings.LiveServer:
    mcp = tidings.LiveServer(
        "diaries",
        token_verifier=Tokens(),
        auth=AuthSettings(issuer_url=url, resource_server_url=f"{url}/mcp", validate_token_resource=False),
        authorize=authorize,
        log_level="CRITICAL",
    )

    @mcp.resource("diary://{user}")
    def diary(user: str) -> str:
        token = get_access_token()
        if token is None or token.subject != user:
            raise ResourceNotFoundError(f"Unknown resource: diary://{user}")  # Reads are checked as well.
        return DIARIES[user]

    return mcp


async def follow(url: str, token: str, user: str, copies: "asyncio.Queue[str]") -> None:
    async with tidings.connect(f"{url}/mcp", token=token) as client:
        async for diary in client.watch(f"diary://{user}"):
            copies.put_nowait(f"{user} reads {diary.text!r}")


async def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    mcp = make_server(url)
    copies: asyncio.Queue[str] = asyncio.Queue()
    server = asyncio.create_task(mcp.run_streamable_http_async(port=port))
    try:
        async with tidings.connect(f"{url}/mcp", token="token-of-ada") as ada:
            try:
                await ada.subscribe("diary://bob")
            except tidings.TidingsError as error:
                print(f"ada asks for Bob's diary: {error.message}", flush=True)
            try:
                await ada.read_resource("diary://bob")
            except ResourceNotFound as error:
                print(f"ada reads Bob's diary: {error.message}", flush=True)
            bob = asyncio.create_task(follow(url, "token-of-bob", "bob", copies))
            print(await copies.get(), flush=True)
            await ada.subscribe("diary://ada")

            DIARIES["bob"] = "Sun."
            await mcp.notify.resource_updated("diary://bob")
            print(await copies.get(), flush=True)

            events = ada.events()
            del USERS["token-of-ada"]
            await mcp.notify.revoke("ada")
            async for event in events:
                if isinstance(event, StateChanged) and event.new == "error":
                    break
            print(f"ada is revoked: {ada.error.message}", flush=True)

            DIARIES["bob"] = "Snow."
            await mcp.notify.resource_updated("diary://bob")
            print(await copies.get(), flush=True)
            bob.cancel()
            await asyncio.wait([bob])
    finally:
        await mcp.aclose()
        server.cancel()
        await asyncio.wait([server])


if __name__ == "__main__":
    asyncio.run(main())
