"""`ChangeFeed`: the common interface of both eras for changes that the server announces."""

from typing import Protocol

from mcp_types import LoggingLevel

from tidings.changes import Filter
from tidings.errors import TidingsError


class ChangeFeed(Protocol):
    """The changes that the server announces on one connection, in one era."""

    supported: bool  # True if the server offers subscriptions to resources.

    @property
    def is_deaf(self) -> bool:
        """True if changes may be missed at present: a stream is overdue, or was lost and is not open again yet."""
        ...

    async def sync(self, wanted: Filter) -> dict[str, TidingsError]:
        """Subscribes to exactly `wanted`. Returns what was refused, and why."""
        ...

    def hear(self, method: str, params: object) -> bool:
        """Takes a notification. Returns True if it announced a change."""
        ...

    async def ping(self) -> None:
        """Asks the server for any answer."""

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Asks for log messages of this level and above."""

    async def aclose(self) -> None: ...


def without(wanted: Filter, known: Filter) -> Filter:
    """Returns what is in `wanted` and not in `known`."""
    return Filter(
        tools=wanted.tools and not known.tools,
        prompts=wanted.prompts and not known.prompts,
        resources=wanted.resources and not known.resources,
        uris=wanted.uris - known.uris,
        prefixes=wanted.prefixes - known.prefixes,
    )
