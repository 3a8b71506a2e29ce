"""Which client speaks for a one-shot command: the small one where that will do, else the live one.

A command says what it wants to know (`question`) and what to do with it (`then`). What it wants to know is safe to ask
twice; a tool call is not, and goes to the live client from the beginning.
"""

import gc
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from tidings.cli.exits import failed
from tidings.cli.oneshot import Asked
from tidings.errors import TidingsError

T = TypeVar("T")


class Talk(Protocol):
    """A conversation with a server, as both clients have it. What they return is what the server sent."""

    @property
    def name(self) -> str:
        """The server, as people call it."""
        ...

    @property
    def transport(self) -> str:
        """How it is spoken to: stdio, http, sse."""
        ...

    @property
    def protocol_version(self) -> str:
        """The version that both sides agreed on."""
        ...

    @property
    def server_info(self) -> dict[str, Any] | None:
        """Who the server says it is."""
        ...

    @property
    def capabilities(self) -> dict[str, Any]:
        """What it says it can do."""
        ...

    @property
    def instructions(self) -> str | None:
        """What it tells models about its use."""
        ...

    @property
    def took(self) -> float:
        """Seconds until it was connected."""
        ...

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request."""
        ...

    def ping(self) -> float:
        """Seconds that the server takes to answer."""
        ...


def converse(asked: Asked, question: Callable[[Talk], T], then: Callable[[T], object]) -> None:
    """Ask the server, and do something with the answer before the server is let go.

    Raises:
        Failed: There is no answer.
    """
    gc.disable()  # A process that ends in a moment has no garbage worth looking for.
    try:
        if not asked.is_ordinary or not _quickly(asked, question, then):
            _at_length(asked, question, then)
    except TidingsError as error:
        raise failed(error, is_command=asked.chosen.is_command) from error


def _quickly(asked: Asked, question: Callable[[Talk], T], then: Callable[[T], object]) -> bool:
    """False if this is not for the small client after all."""
    from tidings.cli.quick import QuickClient, Unusual

    client = QuickClient(asked.chosen.entry, era=asked.era, timeout=asked.timeout, can_ask=asked.can_ask)
    try:
        client.open()
        answer = question(client)
        then(answer)
    except Unusual:
        return False
    finally:
        client.close()
    return True


def _at_length(asked: Asked, question: Callable[[Talk], T], then: Callable[[T], object]) -> None:
    from tidings.cli.live_talk import LiveTalk

    with LiveTalk(asked) as client:
        then(question(client))
