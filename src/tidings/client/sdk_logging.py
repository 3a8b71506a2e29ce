"""Keeps the SDK's log quiet for our connections.

The SDK logs a server that died, or sent an invalid answer, as an error with a traceback. Our client expects such
faults, and raises a named error; a traceback would repeat it. So what the SDK logs for our connections goes to the
logger `tidings.client.link`, at level DEBUG and with secrets masked. Other users' log records are untouched.
"""

import copy
import functools
import logging
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

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
