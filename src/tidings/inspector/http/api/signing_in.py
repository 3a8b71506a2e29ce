"""Signing in to a server by OAuth: steps that the page shows, and the accounts that are kept."""

import asyncio
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

from starlette.requests import Request

from tidings.client.accounts import default_accounts
from tidings.errors import TidingsError
from tidings.inspector.http.context import Running, running_of, server_of
from tidings.inspector.http.exchange import ApiProblem, Routes, body, error_facts, one_of
from tidings.inspector.server import InspectedServer

ROUTES: Final = Routes("/api/servers/{server}")


def _url(server: InspectedServer) -> str:
    """Returns the address of a server. Raises `ApiProblem` if it is a command."""
    url = getattr(server.parsed_target(), "url", None)
    if not isinstance(url, str):
        raise ApiProblem(409, "not-supported", "Only servers with an address have a sign-in.", "Set a token instead.")
    return url


@ROUTES.add("GET", "/sign-in")
async def facts(request: Request) -> dict[str, Any]:
    """Returns the sign-in that is going on, or was the last; and the accounts of this server."""
    server = server_of(request)
    accounts = await asyncio.to_thread(default_accounts().of, _url(server))
    signing, task = server.signing_in, server.signing_task
    failure = task.exception() if task is not None and task.done() and not task.cancelled() else None
    return {
        "running": task is not None and not task.done(),
        "address": "" if signing is None else signing.address,
        "steps": [] if signing is None else [each.as_json() for each in signing.steps],
        "error": None if failure is None else error_facts(failure),
        "accounts": [asdict(each) for each in accounts],
    }


@ROUTES.add("POST", "/sign-in")
async def begin(request: Request) -> None:
    """Starts a sign-in by the user. The stream tells when there is another step."""
    running, server, given = running_of(request), server_of(request), await body(request)
    url, text = _url(server), given.text
    if server.signing_task is not None:
        server.signing_task.cancel()
    from tidings.client.sign_in import SigningIn  # noqa: PLC0415 - imports the SDK's OAuth, which is slow

    server.signing_in = SigningIn(
        url,
        headers=getattr(server.parsed_target(), "headers", None),
        account=text("account", ""),
        client_id=text("client_id", ""),
        client_secret=text("client_secret", ""),
        on_step=lambda _: running.feed.mark_stale("sign-in"),
    )
    server.signing_task = asyncio.create_task(_sign_in(running, server), name=f"signing in to {server.name}")


async def _sign_in(running: Running, server: InspectedServer) -> None:
    if server.signing_in is not None:
        try:
            await server.signing_in.run()
            await _begin_again(server)
        finally:
            running.feed.mark_stale("sign-in")


async def _begin_again(server: InspectedServer) -> None:
    """Connects with the account that is the current one now."""
    await server.aclose()
    server.start()


@ROUTES.add("POST", "/sign-in/finish")
async def finish(request: Request) -> None:
    """Takes the address to which the browser was sent, if it could not come back by itself."""
    server, given = server_of(request), await body(request)
    try:
        if server.signing_in is not None:
            server.signing_in.finish(given.text("address"))
    except ValueError as error:
        raise ApiProblem(400, "bad-address", str(error), "Paste the address that the browser shows.") from None


@ROUTES.add("POST", "/sign-in/stop")
async def stop(request: Request) -> None:
    """Ends a sign-in that is going on."""
    if (task := server_of(request).signing_task) is not None:
        task.cancel()
        running_of(request).feed.mark_stale("sign-in")


@ROUTES.add("POST", "/accounts")
async def choose(request: Request) -> None:
    """Uses another account of the server from now on."""
    server, name = server_of(request), (await body(request)).text("account")
    url, accounts = _url(server), default_accounts()
    one_of("account", name, [each.name for each in await asyncio.to_thread(accounts.of, url)])
    await asyncio.to_thread(accounts.use, url, name)
    await _begin_again(server)
    running_of(request).feed.mark_stale("sign-in")


@ROUTES.add("POST", "/sign-out")
async def sign_out(request: Request) -> dict[str, bool]:
    """Forgets an account, and revokes its tokens where the server allows it."""
    from tidings.client import sign_in  # noqa: PLC0415 - imports the SDK's OAuth, which is slow

    server, name = server_of(request), (await body(request)).text("account", "")
    account = await asyncio.to_thread(default_accounts().get, _url(server), name)
    if account is None:
        raise ApiProblem(404, "no-such-account", "Nobody is signed in by this name.")
    revoked = False
    with suppress(TidingsError):
        revoked = await sign_in.sign_out(account)
    server.signing_in = server.signing_task = None
    await _begin_again(server)
    running_of(request).feed.mark_stale("sign-in")
    return {"revoked": revoked}
