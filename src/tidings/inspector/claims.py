"""Whose a request is: said by whoever is about to make it, seen by who observes it."""

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Claim:
    """The id under which a request that is about to be made is known. The first of the client's entries takes it."""

    id: str
    aside: bool = False
    """Whether the inspector makes it by itself."""
    taken: bool = False


current_claim: ContextVar[Claim | None] = ContextVar("current_claim", default=None)
