"""What an agent is told when something cannot be done: the cause and the cure, never a traceback.

Each error of the vault says both itself. All else is a mistake of ours, which the SDK keeps to itself and logs.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from mcp.server.mcpserver.exceptions import ToolError

from tidings.vault.files.parts import EditRefused
from tidings.vault.files.paths import BadPath
from tidings.vault.files.write_errors import (
    AlreadyThere,
    BadVersion,
    Conflict,
    NotText,
    NotThere,
    ReadOnly,
    TooLarge,
    WriteFailed,
)
from tidings.vault.index.index_errors import IndexBlocked, IndexDamaged
from tidings.vault.resources.shapes import NotFound
from tidings.vault.search.query_reader import BadQuery

_NAMED: Final = (
    BadPath,
    BadQuery,
    EditRefused,
    IndexBlocked,
    IndexDamaged,
    NotFound,
    AlreadyThere,
    BadVersion,
    Conflict,
    NotText,
    NotThere,
    ReadOnly,
    TooLarge,
    WriteFailed,
)


@contextmanager
def refusals_told() -> Generator[None]:
    """Tell whoever called a tool why it could not be done.

    Raises:
        ToolError: It could not, for a reason that has a name.
    """
    try:
        yield
    except _NAMED as error:
        raise ToolError(str(error)) from error
    except OSError as error:
        # Its own text names places of this machine, which are nobody's business.
        raise ToolError(
            f"The disk refused: {error.strerror or type(error).__name__}. Try again, or look at it."
        ) from error
