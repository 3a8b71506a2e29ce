"""How a client hears of changes: what both eras have in common."""

from typing import Protocol

from mcp_types import LoggingLevel

from tidings.changes import Change, Filter
from tidings.errors import TidingsError


class ChangeListener(Protocol):
    """Who is told what a feed hears. Called in the order of arrival, synchronously."""

    def changed(self, change: Change) -> None:
        """The server says that this changed."""
        ...

    def unknown(self, what: Filter) -> None:
        """From now on changes of this are told. What happened before is not known: read it again."""
        ...

    def refused(self, uri: str, error: TidingsError) -> None:
        """Changes of this are no longer told, though they were."""
        ...

    def moved(self, cursor: str | None) -> None:
        """Everything up to this place in the server's log has been told."""
        ...

    def resumed(self) -> None:
        """Changes are told again, after a time in which they were not. What was unknown by then has been told."""
        ...


class ChangeFeed(Protocol):
    """One era's way to hear of changes, on one connection."""

    supported: bool
    """Whether the server offers subscriptions to resources."""

    @property
    def is_deaf(self) -> bool:
        """Whether changes are not told at present: a stream was lost, and is yet to be opened again."""
        ...

    async def sync(self, wanted: Filter) -> dict[str, TidingsError]:
        """Hear of exactly `wanted` from now on. Returns what was refused, and why."""
        ...

    def hear(self, method: str, params: object) -> bool:
        """Take a notification. True if it was one of changes."""
        ...

    async def ping(self) -> None:
        """Ask the server whether it is there. Any answer will do."""
        ...

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Have log messages of this level and above sent."""
        ...

    async def roots_changed(self) -> None:
        """Tell the server that its roots are others now."""
        ...

    async def aclose(self) -> None:
        """Stop hearing."""
        ...


def without(wanted: Filter, known: Filter) -> Filter:
    """What is in `wanted` and not in `known`."""
    return Filter(
        tools=wanted.tools and not known.tools,
        prompts=wanted.prompts and not known.prompts,
        resources=wanted.resources and not known.resources,
        uris=wanted.uris - known.uris,
        prefixes=wanted.prefixes - known.prefixes,
    )
