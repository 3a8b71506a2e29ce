"""What commands that serve have in common: how they run, who may come in, and what they say at the start."""

import hmac
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from tidings.cli.addresses import HttpAddress, listen
from tidings.cli.exits import Refusal
from tidings.cli.logs import logger

if TYPE_CHECKING:
    from tidings.server import LiveServer

_SHUTDOWN_SECONDS = 1

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]


class BearerToken:
    """Lets in only those requests that bring the token."""

    def __init__(self, app: _App, token: str) -> None:
        self._app = app
        self._expected = f"bearer {token}".encode()

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Answer one request as ASGI has it."""
        if scope["type"] != "http" or self._admits(scope):
            await self._app(scope, receive, send)
            return
        body = b'{"error":"Send the header Authorization: Bearer TOKEN, with the token this server was started with."}'
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"www-authenticate", b"Bearer"),
        ]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _admits(self, scope: _Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1:
            return False
        scheme, _, token = given[0].partition(b" ")
        # In a time that does not depend on how much of it is right.
        return hmac.compare_digest(scheme.lower() + b" " + token.strip(), self._expected)


@dataclass(frozen=True)
class Http:
    """Where to serve, and who may come in."""

    address: HttpAddress
    listening: socket.socket
    token: str | None = field(repr=False)


def begin(what: str, address: HttpAddress | None, token: str | None, *, for_clients: bool = True) -> Http | None:
    """Listen, if there is an address, and say what is served where, to whom that is news.

    Args:
        what: What is served, as in "Serving …".
        address: Where; None for standard input and output.
        token: What clients have to send.
        for_clients: Whether `--config` has something for clients.

    Raises:
        Refusal: The port is not to be had.
    """
    if address is not None:
        listening, address = listen(address)
        logger.info("Serving %s at %s (Ctrl-C ends it)", what, address.url)
        if for_clients:
            logger.info("For a client: the same command with --config claude-code, vscode or cursor.")
        return Http(address, listening, token)
    if sys.stdin.isatty():
        logger.info("Serving %s (Ctrl-C ends it).", what)
        logger.info("This speaks MCP on standard input: for a client to start, not to type into.")
        if for_clients:
            logger.info("For Claude: the same command with --config claude-desktop or claude-code.")
        logger.info("To try it over HTTP: --http.")
    return None


def run(
    server: "LiveServer[Any]", http: Http | None, beside: Callable[[], Coroutine[Any, Any, None]] | None = None
) -> None:
    """Serve until the process is asked to stop, over standard input and output or over HTTP; do `beside` meanwhile.

    Raises:
        Refusal: It cannot, for a reason that has a name.
    """
    import anyio

    async def serve() -> None:
        async with anyio.create_task_group() as tasks:
            if beside is not None:
                tasks.start_soon(beside)
            if http is None:
                await server.run_stdio_async()
            else:
                await serve_app(_welcoming(server.asgi(host=http.address.host)), http)
            tasks.cancel_scope.cancel()

    until_stopped(serve)


def until_stopped(serve: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `serve` until it ends or the process is asked to stop, which is no failure.

    Raises:
        Refusal: It cannot, for a reason that has a name.
    """
    import anyio

    from tidings.errors import TidingsError

    try:
        with _stopped_as_by_ctrl_c(), suppress(KeyboardInterrupt):
            anyio.run(serve)
    except BaseExceptionGroup as failures:
        # What the tasks ended with. An error that explains itself is all that a user needs.
        named, others = failures.split((TidingsError, Refusal))
        if named is None or others is not None:
            raise
        error: BaseException = named
        while isinstance(error, BaseExceptionGroup):
            error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        raise Refusal(str(error)) from None


@contextmanager
def _stopped_as_by_ctrl_c() -> Generator[None]:
    """SIGTERM is another Ctrl-C."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


async def serve_app(app: _App, http: Http) -> None:
    """Serve an app over HTTP, to those who bring the token, until the process is asked to stop.

    Raises:
        Refusal: It could not start.
    """
    import uvicorn

    guarded = BearerToken(app, http.token) if http.token else app
    # Its loggers are left as they are: they have the level of the log.
    config = uvicorn.Config(guarded, log_config=None, log_level=None, timeout_graceful_shutdown=_SHUTDOWN_SECONDS)
    try:
        # When it has ended in good order it raises the signal again that asked for it.
        with suppress(KeyboardInterrupt):
            await uvicorn.Server(config).serve(sockets=[http.listening])
    except SystemExit:
        raise Refusal("The server could not start, for the reason above.") from None


def _welcoming(app: Any) -> _App:
    """The app, with some words for browsers."""
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def welcome(_: object) -> PlainTextResponse:
        return PlainTextResponse("MCP is served at /mcp, for MCP clients; there is nothing to see here.\n")

    app.router.routes.append(Route("/", welcome))
    return app
