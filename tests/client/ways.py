"""Every way to each of the servers that the contract is tried with: over a transport, in an era."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fastmcp import FastMCP

from tests import forking
from tests.client import everything
from tests.client.peers import BUILD, EVERYTHING, FAST, LIVE, MODERN, STOCK, Peer
from tests.server.serving import ROOT, serving
from tidings import ResourceUpdated
from tidings.client import LiveClient
from tidings.client.events import (
    LogReceived,
    PendingAdded,
    ProgressMade,
    PromptContentChanged,
    ResourceContentChanged,
    ResourcesChanged,
    ResourceTemplateContentChanged,
    StateChanged,
    SubscriptionsChanged,
    ToolCallResultChanged,
)


@dataclass(frozen=True)
class Way:
    """A way to a server: over a transport, in an era."""

    peer: Peer
    transport: str
    era: str

    def __str__(self) -> str:
        return f"{self.peer.name}-{self.transport}-{self.era}"

    @property
    def subscribes(self) -> bool:
        return self.era in self.peer.subscribes

    @property
    def tells_lists(self) -> bool:
        return self.era in self.peer.tells_lists

    @property
    def version(self) -> str:
        return "2025-11-25" if self.era == "legacy" or self.peer is EVERYTHING else MODERN


WAYS = [
    Way(peer, transport, era)
    for peer in (LIVE, STOCK, FAST, EVERYTHING)
    for transport in peer.transports
    for era in peer.eras
]


@asynccontextmanager
async def reached(way: Way) -> AsyncGenerator[Any]:
    """What to give to `connect` to go this way."""
    if way.transport == "stdio":
        yield stdio(way.peer)
    elif way.peer is EVERYTHING:
        async with everything.serving("sse" if way.transport == "sse" else "streamableHttp") as port:
            yield _url(port, way.transport)
    elif way.transport == "memory":
        yield BUILD[way.peer.name]()
    else:
        async with serving(app(BUILD[way.peer.name](), way.transport)) as port:
            yield _url(port, way.transport)


def stdio(peer: Peer) -> list[str]:
    if peer is EVERYTHING:
        return everything.command("stdio")
    return forking.command("-m", "tests.client.peers", peer.name)


def environment() -> dict[str, str]:
    """What a server over stdio needs; and what counts its coverage."""
    return {"PYTHONPATH": str(ROOT), **{name: os.environ[name] for name in os.environ if name.startswith("COV")}}


def app(server: Any, transport: str) -> Any:
    """The web app that serves a server."""
    if isinstance(server, FastMCP):
        return server.http_app(transport="http" if transport == "http" else "sse")
    return server.streamable_http_app() if transport == "http" else server.sse_app()


def _url(port: int, transport: str) -> str:
    return f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"


KINDS: tuple[type[Any], ...] = (
    StateChanged,
    ResourceUpdated,
    ResourceContentChanged,
    ResourceTemplateContentChanged,
    PromptContentChanged,
    ToolCallResultChanged,
    SubscriptionsChanged,
    ResourcesChanged,
    ProgressMade,
    LogReceived,
    PendingAdded,
)
"""What is written down for a test to look at."""


@dataclass
class Met:
    """A client that has come this way, and what it was told."""

    way: Way
    client: LiveClient
    told: list[Any]

    @property
    def peer(self) -> Peer:
        return self.way.peer

    def heard(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.told if isinstance(event, kind)]
