"""Where a command serves over HTTP: `--http` and `--token`, and the socket.

An address beyond this machine needs a token, which every request then has to bring.
"""

import errno
import ipaddress
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import click
from click.core import ParameterSource

from tidings.cli.exits import Refusal

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
