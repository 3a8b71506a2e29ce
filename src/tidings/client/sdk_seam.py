"""Everything of the MCP SDK's that is not public API, in one place. `tests/client/test_private_names.py` pins it.

A missing name is named in the error; only the session's list of tools can be done without, and then their results are
not checked. What the SDK logs for our connections would repeat the named errors that our client raises, with
tracebacks: it goes to the logger `tidings.client.link`, at level DEBUG and with secrets masked.
"""

import copy
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any, Final, cast

from mcp import Client, ClientSession
from mcp.shared.dispatcher import CallOptions, Dispatcher
from mcp.shared.inbound import MCP_NAME_HEADER, encode_header_value
from mcp_types import ListToolsResult, LoggingLevel, Tool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tidings._kit.lazy import install_command

try:
    from mcp.client._input_required import InputRequiredRoundsExceededError
    from mcp.client._memory import InMemoryTransport
    from mcp.client._transport import TransportStreams, WriteStream
    from mcp.shared._context_streams import ContextReceiveStream, ContextSendStream, create_context_streams
    from mcp.shared._httpx_utils import request_within_origin, sse_within_origin
except ImportError as error:
    raise ImportError(
        f"Tidings does not work with version {version('mcp')} of the MCP SDK ({error}). Install a version that Tidings "
        f"allows: {install_command()}"
    ) from error

# fmt: off
__all__ = [  # What others import from here.
    "ContextReceiveStream", "ContextSendStream", "InMemoryTransport", "InputRequiredRoundsExceededError",
    "TransportStreams", "WriteStream", "create_context_streams", "request_within_origin", "sse_within_origin",
]
# fmt: on

_ABOUT_TASKS: Final = ("tasks/get", "tasks/update", "tasks/cancel")


def wrap_connect(client: Client, wrap: Callable[[Dispatcher[Any]], Dispatcher[Any]]) -> None:
    """Passes the dispatcher of each connection of `client` through `wrap`."""
    connect: Any = _member(client, "_connect")

    async def wrapped(*arguments: Any) -> Dispatcher[Any]:
        return wrap(await connect(*arguments))

    cast("Any", client)._connect = wrapped  # noqa: SLF001


def add_capabilities(client: Client, more: Mapping[str, Any], legacy: Mapping[str, Any]) -> None:
    """Makes `client` state further capabilities besides its own; the `legacy` ones in the legacy era only."""
    build: Any = _member(client, "_build_session")

    async def built(*arguments: Any) -> ClientSession:
        session: Any = await build(*arguments)
        own: Any = _member(session, "_build_capabilities")

        def extended(version: str) -> Any:
            stated = own(version)
            extensions: dict[str, Any] = {**(stated.extensions or {}), **more.get("extensions", {})}
            further: Mapping[str, Any] = {} if version in MODERN_PROTOCOL_VERSIONS else legacy
            return stated.model_copy(update={**more, **further, "extensions": extensions or None})

        session._build_capabilities = extended  # noqa: SLF001
        return session

    cast("Any", client)._build_session = built  # noqa: SLF001


def stamp(session: ClientSession, data: dict[str, Any], options: CallOptions) -> None:
    """Adds to a request what the session's version of the protocol demands, as the session does with its own."""
    _member(session, "_stamp")(data, options)
    # The SDK does not know that requests about tasks bear a name, too.
    if data["method"] in _ABOUT_TASKS and isinstance(name := data["params"].get("taskId"), str):
        options.setdefault("headers", {})[MCP_NAME_HEADER] = encode_header_value(name)


def set_log_level(session: ClientSession, level: LoggingLevel) -> None:
    """Makes each request of a modern session ask for log messages of this level."""
    if (discovered := session.discover_result) is not None:
        _member(session, "_log_level")
        cast("Any", session)._log_level = level  # noqa: SLF001
        session.adopt(discovered)


def absorb_tools(session: ClientSession, tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Gives a list of tools to the session, which checks their results. Returns those that it may call."""
    absorb: Any = _member(session, "_absorb_tool_listing", default=None)
    return tuple(tools) if absorb is None else tuple(absorb(ListToolsResult(tools=list(tools)), complete=True).tools)


def output_schemas(session: ClientSession) -> Mapping[str, Any]:
    """Returns the output schemas of the tools that the session knows; None for a tool without one."""
    return _member(session, "_tool_output_schemas", default={})


def _member(owner: object, name: str, **default: Any) -> Any:
    try:
        return getattr(owner, name, *default.values())
    except AttributeError:
        raise RuntimeError(
            f"Tidings does not work with version {version('mcp')} of the MCP SDK: {type(owner).__name__} has no "
            f"{name}. Install a version that Tidings allows: {install_command()}"
        ) from None


# A filter sees only the records of its own logger, not those of its children.
LOGGERS: Final = (
    "client",  # The name of the SDK's session logger.
    "httpx2",
    *(f"httpcore2.{name}" for name in ("connection", "http11", "http2", "proxy", "socks")),
    *(f"mcp.client.{name}" for name in ("auth.oauth2", "caching", "client", "sse", "stdio", "streamable_http")),
    *(f"mcp.shared.{name}" for name in ("dispatcher", "jsonrpc_dispatcher")),
)
_logger = logging.getLogger("tidings.client.link")
_formatter = logging.Formatter()

Clean = Callable[[str], str]
# Set where the SDK works for us: masks the secrets in a text.
_clean: ContextVar[Clean | None] = ContextVar("tidings_client_quiet", default=None)


class quiet:  # noqa: N801 - used as a function
    """Keeps the SDK quiet within a `with` block, and in tasks started there. `clean` masks secrets."""

    # Entered with each message: a class costs a third of a generator.
    __slots__ = ("_clean", "_token")

    def __init__(self, clean: Clean = str) -> None:
        _install()
        self._clean = clean

    def __enter__(self) -> None:
        self._token = _clean.set(self._clean)

    def __exit__(self, *_: object) -> None:
        _clean.reset(self._token)


@functools.cache
def _install() -> None:
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_divert)


def _divert(record: logging.LogRecord) -> bool:
    """Returns whether the record stays where it is."""
    clean = _clean.get()
    if clean is None:
        return True
    if not _logger.isEnabledFor(logging.DEBUG):
        return False
    ours = copy.copy(record)
    ours.name, ours.levelno, ours.levelname = _logger.name, logging.DEBUG, logging.getLevelName(logging.DEBUG)
    ours.msg, ours.args = clean(f"{record.name}: {record.getMessage()}"), None
    if record.exc_info:
        # As text: the exception may quote a URL with a key in it.
        ours.exc_text, ours.exc_info = clean(_formatter.formatException(record.exc_info)), None
    _logger.handle(ours)
    return False
