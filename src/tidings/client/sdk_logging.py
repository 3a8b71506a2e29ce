"""The SDK's log, kept quiet for the connections of a live client.

The SDK logs a server that died, or answered what is no answer, as an error with a traceback. A live client expects such
faults, and tells its caller by name; the traceback would only say it twice. So what the SDK logs during our own
connections goes to the logger `tidings.client.link`, at the level DEBUG and with secrets masked. What it logs for
anyone else's is untouched.
"""

import copy
import functools
import logging
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

LOGGERS: Final = (
    "client",  # The SDK's session: it has this name there.
    "httpcore2.connection",
    "httpcore2.http11",
    "httpcore2.http2",
    "httpcore2.proxy",
    "httpcore2.socks",
    "httpx2",
    "mcp.client.auth.oauth2",
    "mcp.client.caching",
    "mcp.client.client",
    "mcp.client.sse",
    "mcp.client.stdio",
    "mcp.client.streamable_http",
    "mcp.shared.dispatcher",
    "mcp.shared.jsonrpc_dispatcher",
)
"""Who is kept quiet. A logger's filter sees only what is logged under its very name."""

_logger = logging.getLogger("tidings.client.link")
_formatter = logging.Formatter()

Clean = Callable[[str], str]
_clean: ContextVar[Clean | None] = ContextVar("tidings_client_quiet", default=None)
"""Set where the SDK works for us: takes the secrets out of a text."""


class quiet:  # noqa: N801 - used as a function
    """What the SDK logs in here, and in tasks that are started in here, is kept quiet. `clean` masks secrets."""

    # Entered with each message: a class of its own costs a third of a generator.
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
    """Whether the record stays where it is."""
    clean = _clean.get()
    if clean is None:
        return True
    if _logger.isEnabledFor(logging.DEBUG):
        _logger.handle(_as_debug(record, clean))
    return False


def _as_debug(record: logging.LogRecord, clean: Clean) -> logging.LogRecord:
    ours = copy.copy(record)
    ours.name, ours.levelno, ours.levelname = _logger.name, logging.DEBUG, logging.getLevelName(logging.DEBUG)
    ours.msg, ours.args = clean(f"{record.name}: {record.getMessage()}"), None
    if record.exc_info:
        # As a text: the exception itself may quote an address with a key in it.
        ours.exc_text, ours.exc_info = clean(_formatter.formatException(record.exc_info)), None
    return ours
