"""What an agent is told when something cannot be done: the cause and the cure, never a traceback.

Each error of the web server says both itself; words of pages and sites in it are made harmless. All else is a mistake
of ours, which the SDK keeps to itself and logs.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from mcp.server.mcpserver.exceptions import ToolError

from tidings.web.extract.model import ExtractionFailed
from tidings.web.net.model import FetchError
from tidings.web.packets.injection import disarm
from tidings.web.resources.addresses import BadAddress
from tidings.web.resources.missing import NotFound
from tidings.web.store.model import StoreError
from tidings.web.tools.arguments import BadArgument
from tidings.web.watch.refreshing import PageUnknown
from tidings.web.watch.watching import TooManyWatches

NAMED: Final = (
    FetchError,
    ExtractionFailed,
    StoreError,
    BadAddress,
    NotFound,
    PageUnknown,
    TooManyWatches,
    BadArgument,
)

_LONGEST: Final = 1000


def kind_of(error: Exception) -> str:
    """A word for programs."""
    match error:
        case FetchError():
            return error.kind
        case ExtractionFailed():
            return "unreadable"
        case NotFound() | PageUnknown():
            return "not-found"
        case BadAddress() | BadArgument():
            return "bad-argument"
        case _:
            return "failed"


def said(error: Exception) -> str:
    """What an error says, made harmless and not too long: it may quote what a site said."""
    plain = " ".join(disarm(str(error)).split())
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}…"


@contextmanager
def refusals_told() -> Generator[None]:
    """Tell whoever called a tool why it could not be done.

    Raises:
        ToolError: It could not, for a reason that has a name.
    """
    try:
        yield
    except NAMED as error:
        raise ToolError(said(error)) from error
