"""The engines that carry changes between the replicas of a chaos run."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path


class Broker:
    """SQLite needs no broker: its log is a file."""

    can_be_killed = False

    def __init__(self, url: str) -> None:
        self.url = url

    async def start(self) -> None:
        """Start it again, with what it kept."""

    async def kill(self) -> None:
        """Kill it, with -9."""


@asynccontextmanager
async def broker_for(engine: str, folder: Path) -> AsyncGenerator[Broker]:
    yield Broker(f"sqlite://{folder / 'bus.db'}")
