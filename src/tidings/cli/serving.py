"""Parts of commands that serve. An address that other machines can reach needs a token, which requests must send."""

import errno
import gc
import hmac
import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from tidings._kit.suggest import did_you_mean
from tidings._kit.text import is_ip
from tidings.cli.exits import FEW, Refusal, reader_gone
from tidings.cli.logs import logger
from tidings.cli.terminal import all_of, option
from tidings.errors import TidingsError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from tidings.server import LiveServer

DEFAULT: Final = "127.0.0.1:8000"

_ADDRESS = re.compile(r"(?:(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)?:)?(?P<port>[0-9]{1,5})")
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - allowed, with a token


class ListOption(click.types.StringParamType):
    """A text that may be given several times; a variable separates several by commas."""

    def split_envvar_value(self, rv: str) -> list[str]:
        return [word.strip() for word in rv.split(",") if word.strip()]


class Configured(click.Command):
    """A command whose options, but for those with `allow_from_autoenv=False`, are variables: `TIDINGS_VAULT_BUS`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._options = [each for each in self.params if isinstance(each, click.Option)]
        self.prefix = f"TIDINGS_{(self.name or '').upper()}_"
        for each in self._options:
            if each.envvar is None and each.allow_from_autoenv:
                each.envvar = f"{self.prefix}{max(each.opts, key=len)[2:].replace('-', '_').upper()}"
        variable, first = next(iter(self.variables.items()))
        example = f"{variable} for {max(first.opts, key=len)}"
        self.epilog = f"Options can also be set with environment variables, for example {example}.\n\n{FEW}"

    @property
    def variables(self) -> dict[str, click.Option]:
        return {str(each.envvar): each for each in self._options if str(each.envvar).startswith(self.prefix)}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            option = error.param
            if option is None or ctx.get_parameter_source(option.name or "") is not ParameterSource.ENVIRONMENT:
                raise
            raise Refusal(f"{option.envvar}: {error.message}") from None

    def invoke(self, ctx: click.Context) -> Any:
        for name in sorted(os.environ):  # Most likely misspelled.
            if name.startswith(self.prefix) and name not in self.variables:
                cure = did_you_mean(name, self.variables, show=str) or f" See tidings {self.name} --help."
                logger.warning("The variable %s is ignored: there is no such setting.%s", name, cure)
        return super().invoke(ctx)


def _no_port(_ctx: click.Context, _param: click.Parameter, given: str | None) -> None:
    if given is not None:
        raise Refusal(f"There is no option --port. Give the port with --http, for example --http 127.0.0.1:{given}.")


http_options: Final = all_of(
    [
        option(
            "--http=[HOST:PORT]",
            f"Serve over HTTP instead of stdio, by default at {DEFAULT}.",
            is_flag=False,
            flag_value=DEFAULT,
        ),
        option(
            "--token=SECRET", "Require this bearer token from HTTP clients.", envvar="TIDINGS_TOKEN", show_envvar=True
        ),
        click.option("--port", hidden=True, expose_value=False, callback=_no_port, allow_from_autoenv=False),
    ]
)
waking_options: Final = all_of(
    [
        option("--hints", "Append to tool results which resources have changed since the client read them."),
        option("--channel", "Send changes to a host with channels (Claude Code); over stdio only."),
    ]
)


@dataclass(frozen=True)
class HttpAddress:
    """A host and a port to listen on."""

    host: str
    port: int
    path: str = "/mcp"

    @property
    def beyond(self) -> bool:
        """True if other machines can reach it."""
        return self.host not in _LOOPBACK

    @property
    def url(self) -> str:
        host = socket.gethostname() if self.host in _EVERYWHERE else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}{self.path}"


def parse_address(text: str) -> HttpAddress | None:
    """Reads `HOST:PORT`, `:PORT`, `PORT`, `localhost` or an IP address. Returns None for anything else."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        host = text.removeprefix("[").removesuffix("]")
        return HttpAddress(host, 8000) if host == "localhost" or is_ip(host) else None
    if int(found["port"]) > 65535:
        raise Refusal(f"{found['port']} is not a valid port. Choose one up to 65535.")
    return HttpAddress((found["host"] or "127.0.0.1").strip("[]"), int(found["port"]))


def http_address(text: str) -> HttpAddress:
    """Reads the value of `--http`."""
    if (address := parse_address(text)) is None:
        raise Refusal(f"--http takes HOST:PORT, for example {DEFAULT}; {text!r} is not an address.")
    return address


def check_token(address: HttpAddress, token: str | None) -> None:
    """Checks that an address beyond this machine has a token, and that a header can carry it."""
    if token and not re.fullmatch(r"[!-~]+", token):
        raise Refusal("The token contains characters that cannot be sent. Use visible ASCII characters without spaces.")
    if address.beyond and not token:
        raise Refusal(
            f"Other machines can reach {address.host}. Set TIDINGS_TOKEN (or --token) to a secret that clients must "
            f"send, or serve only this machine with --http 127.0.0.1:{address.port}."
        )


def check_token_use(address: HttpAddress | None, token: str | None) -> None:
    """Checks the token as `check_token` does, and refuses `--token` without `--http`."""
    if address is not None:
        check_token(address, token)
    elif click.get_current_context().get_parameter_source("token") is ParameterSource.COMMANDLINE:
        raise Refusal("--token needs --http: it is the token that HTTP clients must send. Add --http or omit --token.")


class PortInUse(Refusal):
    """Another program listens on the port."""


def listen(address: HttpAddress) -> tuple[socket.socket, HttpAddress]:
    """Opens a listening socket. Returns it with its address, in which port 0 is replaced by the port it got."""
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((address.host, address.port), family=family, backlog=2048)
    except (socket.gaierror, UnicodeError):  # UnicodeError: a part of the name is empty or too long.
        raise Refusal(f"There is no host {address.host!r}. Use 127.0.0.1 for this machine.") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(
                f"Port {address.port} of {address.host} is in use. Stop the program that uses it, or choose another "
                f"port, for example --http {address.host}:{address.port % 65535 + 1}."
            ) from None
        place = f"{address.host}:{address.port}"
        raise Refusal(f"Cannot listen on {place}: {error.strerror}. Choose another host or port.") from None
    # Python does not name the protocol of the socket, and asyncio sets TCP_NODELAY only where it is named. Without it,
    # small answers can be held back for 40 ms.
    listening = socket.socket(listening.family, listening.type, socket.IPPROTO_TCP, fileno=listening.detach())
    return listening, replace(address, port=listening.getsockname()[1])


class BearerToken:
    """ASGI middleware that refuses requests without the token."""

    def __init__(self, app: "ASGIApp", token: str) -> None:
        self._app = app
        self._expected = f"bearer {token}".encode()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        given = [value.partition(b" ") for name, value in scope.get("headers", ()) if name == b"authorization"]
        tokens = [scheme.lower() + b" " + token.strip() for scheme, _, token in given]
        if scope["type"] != "http" or (len(tokens) == 1 and hmac.compare_digest(tokens[0], self._expected)):
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


@dataclass(frozen=True)
class Http:
    """An open socket, its address, and the token that clients must send."""

    address: HttpAddress
    listening: socket.socket
    token: str | None = field(repr=False)


def begin(what: str, address: HttpAddress | None, token: str | None, *, for_clients: bool = True) -> Http | None:
    """Opens the socket, if there is an address, and logs what is served. `for_clients`: the command has `--config`."""
    if address is not None:
        listening, address = listen(address)
        logger.info("Serving %s at %s (press Ctrl-C to stop)", what, address.url)
        if for_clients:
            logger.info("To set up a client, add --config claude-code, vscode or cursor to the command.")
        return Http(address, listening, token)
    if sys.stdin.isatty():
        logger.info("Serving %s over stdio (press Ctrl-C to stop).", what)
        logger.info("It expects MCP messages on standard input: a client should start it.")
        if for_clients:
            logger.info("To set up Claude, add --config claude-desktop or claude-code to the command.")
        logger.info("To serve over HTTP, add --http.")
    return None


def check_channel(address: HttpAddress | None, channel: bool) -> None:
    """Refuses `--channel` with `--http`."""
    if channel and address is not None:
        raise Refusal("--channel needs a client that starts the server itself. Omit --http, or omit --channel.")


def run(
    server: "LiveServer[Any]",
    http: Http | None,
    beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
    stdio: Callable[[], Coroutine[Any, Any, None]] | None = None,
    *,
    uvloop: bool = False,
) -> None:
    """Serves over HTTP or stdio until the process is asked to stop. `beside` runs meanwhile.

    With `uvloop`, the event loop is uvloop's if it is installed: it takes less time for each message.
    """
    import anyio

    async def serve() -> None:
        async with anyio.create_task_group() as tasks:
            if beside is not None:
                tasks.start_soon(beside)
            if http is None:
                await (stdio or server.run_stdio_async)()
            else:
                from starlette.responses import PlainTextResponse
                from starlette.routing import Route

                async def welcome(_: object) -> PlainTextResponse:
                    return PlainTextResponse("This is an MCP server. Its endpoint for MCP clients is /mcp.\n")

                app: Any = server.asgi(host=http.address.host)
                app.router.routes.append(Route("/", welcome))
                await serve_app(app, http)
            tasks.cancel_scope.cancel()

    gc.freeze()  # The collector need not look again and again at all that is loaded by now, which stays.
    until_stopped(serve, uvloop=uvloop and find_spec("uvloop") is not None)


def until_stopped(serve: Callable[[], Coroutine[Any, Any, None]], *, uvloop: bool = False) -> None:
    """Runs `serve` until it ends or a signal asks the process to stop, which is not a failure."""
    import anyio

    def stop(*given: Any) -> None:
        # While the loop runs, it handles an interrupt between two steps: raised within one, a task would report it.
        handler = signal.getsignal(signal.SIGINT)
        (handler if callable(handler) else signal.default_int_handler)(*given)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        with suppress(KeyboardInterrupt):
            anyio.run(serve, backend_options={"use_uvloop": uvloop})
        if reader_gone.is_set():
            raise BrokenPipeError
    except BaseExceptionGroup as failures:
        from tidings._kit.tasks import causes

        if not all(isinstance(each, TidingsError | Refusal) for each in causes(failures)):
            raise
        raise Refusal(str(next(causes(failures)))) from None
    finally:
        signal.signal(signal.SIGTERM, before)


async def serve_app(app: "ASGIApp", http: Http) -> None:
    """Serves an app over HTTP until the process is asked to stop, with the token if there is one."""
    from tidings._kit.uvicorn_seam import HttpServer

    guarded = BearerToken(app, http.token) if http.token else app
    # Without a configuration of its own, uvicorn's loggers follow the level of the log.
    server = HttpServer(guarded, handle_signals=True, log_config=None, log_level=None)
    try:
        with suppress(KeyboardInterrupt):  # Raised again by uvicorn after it has stopped.
            await server.serve(http.listening)
    except SystemExit:
        raise Refusal("The server could not start: see the log above.") from None
