"""What commands that serve have in common: how they run, who may come in, and what they say at the start.

Where a command serves over HTTP: `--http` and `--token`, and the socket.

An address beyond this machine needs a token, which every request then has to bring.
"""

import errno
import hmac
import ipaddress
import re
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

import click
from click.core import ParameterSource

from tidings.cli.exits import Refusal
from tidings.cli.logs import logger

if TYPE_CHECKING:
    from tidings.server import LiveServer


DEFAULT: Final = "127.0.0.1:8000"
_DEFAULT_PORT: Final = 8000

_ADDRESS = re.compile(r"(?:(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)?:)?(?P<port>[0-9]{1,5})")
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - what users may ask for, if they have a token


def http_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that may serve over HTTP: `--http` and `--token`."""
    for option in (
        click.option("--port", hidden=True, expose_value=False, callback=_no_port, allow_from_autoenv=False),
        click.option(
            "--token",
            metavar="SECRET",
            envvar="TIDINGS_TOKEN",
            show_envvar=True,
            help="What HTTP clients have to send.",
        ),
        click.option(
            "--http", metavar="[HOST:PORT]", is_flag=False, flag_value=DEFAULT, help=f"Serve over HTTP ({DEFAULT})."
        ),
    ):
        command = option(command)
    return command


def _no_port(_ctx: click.Context, _param: click.Parameter, given: str | None) -> None:
    if given is not None:
        raise Refusal(f"There is no --port: it is part of the address, as in --http 127.0.0.1:{given}.")


@dataclass(frozen=True)
class HttpAddress:
    """Where to listen."""

    host: str
    port: int

    @property
    def beyond(self) -> bool:
        """Whether other machines may reach it."""
        return self.host not in _LOOPBACK

    @property
    def url(self) -> str:
        """Where clients find it."""
        host = socket.gethostname() if self.host in _EVERYWHERE else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/mcp"


def parse_address(text: str) -> HttpAddress | None:
    """`HOST:PORT`, `:PORT`, `PORT`, or a host that is no name of a folder; None if it is none of them.

    Raises:
        Refusal: It is, but there is no such port.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None:
        host = text.removeprefix("[").removesuffix("]")
        return HttpAddress(host, _DEFAULT_PORT) if host == "localhost" or _is_ip(host) else None
    if int(found["port"]) > 65535:
        raise Refusal(f"There is no port {found['port']}: they end with 65535.")
    return HttpAddress((found["host"] or "127.0.0.1").strip("[]"), int(found["port"]))


def http_address(text: str) -> HttpAddress:
    """What `--http` says.

    Raises:
        Refusal: It is no address, or there is no such port.
    """
    if (address := parse_address(text)) is None:
        raise Refusal(f"--http takes HOST:PORT, as in {DEFAULT}; {text!r} is no address.")
    return address


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def check_token(address: HttpAddress, token: str | None) -> None:
    """Refuse an address beyond this machine without a token, and a token that a header cannot carry.

    Raises:
        Refusal: It is one of them.
    """
    if token and not re.fullmatch(r"[!-~]+", token):
        raise Refusal("A token consists of visible ASCII characters without spaces.")
    if address.beyond and not token:
        raise Refusal(
            f"{address.host} can be reached from other machines: set TIDINGS_TOKEN (or --token) to a secret that "
            f"clients have to send, or serve this machine alone with --http 127.0.0.1:{address.port}."
        )


def check_token_use(ctx: click.Context, address: HttpAddress | None, token: str | None) -> None:
    """Refuse a token that is asked for where nobody can send it, and what `check_token` refuses.

    Raises:
        Refusal: It is one of them.
    """
    if address is not None:
        check_token(address, token)
    elif ctx.get_parameter_source("token") is ParameterSource.COMMANDLINE:
        raise Refusal("--token is what clients have to send over HTTP: add --http, or leave it out.")


def listen(address: HttpAddress) -> tuple[socket.socket, HttpAddress]:
    """A socket that listens there, and where that is: port 0 is any that is free.

    Raises:
        Refusal: There is no such host, or the port is not to be had.
    """
    place = f"{address.host}:{address.port}"
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((address.host, address.port), family=family, backlog=2048)
    except (socket.gaierror, UnicodeError):  # The latter: a part of its name is empty, or too long.
        raise Refusal(f"There is no host {address.host!r}. 127.0.0.1 is this machine.") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Refusal(
                f"Port {address.port} of {address.host} is in use. Stop what uses it, or choose another, as in "
                f"--http {address.host}:{address.port % 65535 + 1}."
            ) from None
        raise Refusal(f"Cannot listen at {place}: {error.strerror}. Choose another host or port.") from None
    # Python leaves open what protocol it is, and asyncio would let the system hold small answers back (TCP_NODELAY is
    # set where the protocol is known): 40 ms for each request, if the client acknowledges late.
    listening = socket.socket(listening.family, listening.type, socket.IPPROTO_TCP, fileno=listening.detach())
    return listening, replace(address, port=listening.getsockname()[1])


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
