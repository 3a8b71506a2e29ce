"""An event loop on virtual time, for many nodes in one thread: the same seed gives the same order of events.

Nothing waits. When no callback is ready, the clock jumps to the next timer. Each callback belongs to the node in whose
context it was made. The callbacks of a paused node wait until it goes on. Those of a dead node never run: like a
process after `kill -9`, it cleans nothing up.

Tasks and futures are hashed by their number, because sets of them are iterated over, and an address differs from one
process to the next.
"""

import asyncio
import contextvars
import itertools
import selectors
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.network import Network

CURRENT: contextvars.ContextVar["Node | None"] = contextvars.ContextVar("CURRENT", default=None)

Waiting = tuple[asyncio.Handle, Callable[..., object], tuple[Any, ...]]


class Stuck(Exception):
    """Every task waits for something that will never happen."""


class Node:
    """A process of the simulation: a server or a client."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.paused_since: float | None = None
        self.dead = False
        self.clock_offset = 0.0  # Seconds by which its wall clock is wrong.
        self.extra_latency = 0.0  # Seconds that each of its packets takes longer.
        self.waiting: list[Waiting] = []

    def __repr__(self) -> str:
        return self.name


class NumberedFuture(asyncio.Future[Any]):
    """A future that is hashed by its number."""

    def __init__(self, *, loop: "VirtualLoop") -> None:
        super().__init__(loop=loop)
        self._number = next(loop.numbers)

    def __hash__(self) -> int:
        return self._number


class NumberedTask(asyncio.Task[Any]):
    """A task that is hashed by its number, and knows its node."""

    def __init__(self, work: Coroutine[Any, Any, Any], *, loop: "VirtualLoop", **options: Any) -> None:
        self._number = next(loop.numbers)
        context = options.get("context")
        self.node = CURRENT.get() if context is None else context.get(CURRENT)
        super().__init__(work, loop=loop, **options)

    def __hash__(self) -> int:
        return self._number


class VirtualSelector(selectors.BaseSelector):
    """Advances the clock instead of waiting."""

    def __init__(self) -> None:
        self.now = 0.0
        self._turns = 0  # Since the clock moved.
        self._keys: dict[int, selectors.SelectorKey] = {}

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Stuck("no callback is ready, and no timer is set")
        self._turns = 0 if timeout > 0 else self._turns + 1
        if self._turns > 100_000:
            raise Stuck("the program is busy, and time does not pass")
        self.now += max(timeout, 0.0)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        self._keys[number] = selectors.SelectorKey(fileobj, number, events, data)
        return self._keys[number]

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def get_map(self) -> dict[int, selectors.SelectorKey]:
        return self._keys


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop of a simulation, and its network: every connection that is made on it is one of `network`."""

    def __init__(self, seed: int, trace: Callable[[str], None] = lambda line: None) -> None:
        self.numbers = itertools.count()
        self.tasks: list[NumberedTask] = []  # All of them: nothing is cleaned up behind a dead node's back.
        self._selector_of_time = VirtualSelector()
        super().__init__(self._selector_of_time)
        self._clock_resolution = 1e-9
        self.set_task_factory(self._new_task)
        self.network = Network(self, seed, trace)

    def time(self) -> float:
        return self._selector_of_time.now

    def create_future(self) -> asyncio.Future[Any]:
        return NumberedFuture(loop=self)

    def _new_task(self, _loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> NumberedTask:
        task = NumberedTask(work, loop=self, **options)
        self.tasks.append(task)
        return task

    def tasks_of(self, node: Node) -> list[NumberedTask]:
        """Returns the tasks of a node that are not done."""
        return [task for task in self.tasks if task.node is node and not task.done()]

    # The node of a callback.

    def call_soon(self, callback: Any, *args: Any, context: contextvars.Context | None = None) -> asyncio.Handle:
        node = CURRENT.get() if context is None else context.get(CURRENT)
        if node is None:
            return super().call_soon(callback, *args, context=context)
        cell: list[asyncio.Handle] = []
        cell.append(super().call_soon(self._run, node, cell, callback, args, context=context))
        return cell[0]

    def call_at(
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        node = CURRENT.get() if context is None else context.get(CURRENT)
        if node is None:
            return super().call_at(when, callback, *args, context=context)
        cell: list[asyncio.Handle] = []
        handle = super().call_at(when, self._run, node, cell, callback, args, context=context)
        cell.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    @staticmethod
    def _run(node: Node, cell: list[asyncio.Handle], callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        if node.dead:
            return
        if node.paused_since is not None:
            node.waiting.append((cell[0], callback, args))
        else:
            callback(*args)

    def pause(self, node: Node) -> None:
        """Stops a node, as SIGSTOP does: nothing of it runs, and its connections stay open."""
        if node.paused_since is None:
            node.paused_since = self.time()

    def resume(self, node: Node) -> None:
        """Lets a paused node go on: all that waited for it comes now, in order."""
        node.paused_since = None
        waiting, node.waiting = node.waiting, []
        for handle, callback, args in waiting:
            if not handle.cancelled():
                super().call_soon(callback, *args, context=handle._context)  # type: ignore[attr-defined]

    def kill(self, node: Node, *, told: bool = True) -> None:
        """Ends a node, as SIGKILL does; if its peers are not `told`, as a power cut does."""
        node.dead = True
        node.waiting.clear()
        self.network.lose(node, told=told)

    def on(self, node: Node, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs `work` on a node."""
        context = contextvars.copy_context()
        context.run(CURRENT.set, node)
        return self.create_task(work, context=context)

    # What would leave the thread or the machine.

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except BaseException as error:  # noqa: BLE001 - the caller gets it, as from a thread
            future.set_exception(error)
        return future

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (str(host), int(port or 0)))]

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return await self.network.connect(protocol_factory, str(host), int(port), CURRENT.get())

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return self.network.listen(protocol_factory, int(port), CURRENT.get())
