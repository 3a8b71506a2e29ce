"""Something that runs while anybody needs it: begun for the first, ended after the last."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio


class Shared:
    """A context that several use at once, in tasks of their own.

    It is entered and left in one task, which it has to itself, so that whoever comes first may go first.
    """

    def __init__(self, context: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        self._context = context
        self._users = 0
        self._turn = anyio.Lock()
        self._task: asyncio.Task[None]
        self._enough: asyncio.Event

    @asynccontextmanager
    async def use(self) -> AsyncGenerator[None]:
        """Use it.

        Raises:
            Exception: What entering it raised.
        """
        async with self._turn:
            if self._users == 0:
                await self._begin()
            self._users += 1
        try:
            yield
        finally:
            # Shielded: whoever leaves because it was cancelled still has to leave everything in order.
            with anyio.CancelScope(shield=True):
                async with self._turn:
                    self._users -= 1
                    if self._users == 0:
                        self._enough.set()
                        await self._task

    async def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[None] = loop.create_future()
        self._enough = asyncio.Event()
        self._task = loop.create_task(self._run(begun, self._enough))
        await asyncio.wait([begun, self._task], return_when=asyncio.FIRST_COMPLETED)
        if not begun.done():
            await self._task

    async def _run(self, begun: "asyncio.Future[None]", enough: asyncio.Event) -> None:
        async with self._context():
            begun.set_result(None)
            await enough.wait()
