"""A session that watches one server, for tests."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tidings.inspector.catalog.entry import ServerEntry
from tidings.inspector.server import ConnectionSpec, InspectedServer
from tidings.inspector.session import Session


@asynccontextmanager
async def watched(target: object, era: str = "auto", **options: Any) -> AsyncGenerator[tuple[Session, InspectedServer]]:
    """A session with one server (a URL, the words of a command, or an object), connected, or tried to be."""
    match target:
        case str():
            target = ServerEntry("it", url=target, literal=True, **options)
        case [str() as command, *words]:
            options |= {"cwd": str(options["cwd"])} if "cwd" in options else {}
            target = ServerEntry("it", command=command, args=tuple(map(str, words)), literal=True, **options)
        case _:
            assert not options
    async with Session() as session:
        server = await session.add(ConnectionSpec("it", target, era=era), connect=False)
        await server.connect()
        yield session, server
