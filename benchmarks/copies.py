"""Copies of a server's resources that are to stay fresh: by the live client, and by hand with the SDK's."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from mcp import Client
from mcp.client.subscriptions import ResourceUpdated
from mcp_types import TextResourceContents

from tidings.client import Backoff, ClientConfig, connect

IMPATIENT = ClientConfig(backoff=Backoff(delays=(0.05,), tries=None))
"""Comes back as soon as the server does: what is measured is the client, not its patience."""


class Copies(ABC):
    """The texts that the client has, and how often it got one."""

    def __init__(self, url: str, uris: Sequence[str]) -> None:
        self.url, self.uris = url, uris
        self.texts: dict[str, str] = {}
        self.arrived = 0
        self.ended = ""
        """Why there will be no more, if that is so."""
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        try:
            await self.keep()
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent is to hear of it
            self.ended = _reason(error)
        self._news.set()

    @abstractmethod
    async def keep(self) -> None: ...

    @abstractmethod
    async def settle(self) -> None:
        """Wait until the client itself takes its copies for fresh, if it can tell."""

    def put(self, uri: str, text: str) -> None:
        self.texts[uri] = text
        self.arrived += 1
        self._news.set()

    async def until(self, true: Callable[[], bool]) -> None:
        while not true() and not self.ended:
            self._news.clear()
            await self._news.wait()


class LiveCopies(Copies):
    """`watch`, which is all that there is to write."""

    async def keep(self) -> None:
        async with connect(self.url, config=IMPATIENT) as self.client:
            async for read in self.client.watch(self.uris):
                self.put(read.uri, read.text)

    async def settle(self) -> None:
        await self.client.wait_fresh()


class SdkCopies(Copies):
    """Listen, read everything, and read again what has changed: what one writes by hand."""

    async def keep(self) -> None:
        async with Client(self.url) as client, client.listen(resource_subscriptions=self.uris) as heard:
            for uri in self.uris:
                await self._read(client, uri)
            async for event in heard:
                if isinstance(event, ResourceUpdated):
                    await self._read(client, event.uri)

    async def settle(self) -> None:
        pass

    async def _read(self, client: Client, uri: str) -> None:
        (content,) = (await client.read_resource(uri)).contents
        assert isinstance(content, TextResourceContents)
        self.put(uri, content.text)


COPIES: dict[str, type[Copies]] = {"sdk": SdkCopies, "tidings": LiveCopies}


def _reason(error: BaseException) -> str:
    """The name of the error; of a group, that of the first in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return type(error).__name__
