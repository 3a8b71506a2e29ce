"""A session that watches one server, for tests."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tidings.inspector.client_link import ConnectionSpec
from tidings.inspector.server import InspectedServer
from tidings.inspector.session import Session


@asynccontextmanager
async def watched(target: object, **options: Any) -> AsyncGenerator[tuple[Session, InspectedServer]]:
    """A session with one server, connected, or tried to be."""
    async with Session() as session:
        server = await session.add(ConnectionSpec("it", target, **options), connect=False)
        await server.connect()
        yield session, server
