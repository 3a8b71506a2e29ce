"""The connection to one server of a session: made, ended, made anew, and where it stands told as records.

The client and the SDK are imported when the first server is connected to, in a thread: a session is there before them.
"""

import asyncio
import contextlib
import gc
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tidings.client.states import Signal, State
from tidings.errors import NotConnected, TidingsError
from tidings.inspector.errors_seen import seen
from tidings.inspector.limits import SessionLimits
from tidings.inspector.masks import Mask
from tidings.inspector.opening import Opening
from tidings.inspector.record_data import ErrorData
from tidings.inspector.views import Clock, ServerView
from tidings.inspector.watches import Watches

if TYPE_CHECKING:
    from tidings.client.events import StateChanged
    from tidings.client.live import LiveClient
    from tidings.inspector.observer import Observer
    from tidings.inspector.observer_wire import Tell

_GIVING_WAY: Final = 0.0005
"""Seconds after which the thread that imports lets others have their turn: somebody is looking at the page by then."""
_importing: Final = threading.Lock()


class ServerLink:
    """One server's client, whichever it is at the moment, and the observer that tells what it does."""

    def __init__(
        self,
        opening: Opening,
        view: ServerView,
        tell: "Tell",
        next_id: Callable[[], str],
        reread: Callable[[str], Awaitable[object]],
        *,
        limits: SessionLimits,
        clock: Clock,
    ) -> None:
        """Not connected yet.

        Args:
            opening: How to connect.
            view: What is known about the server: read only.
            tell: Takes records.
            next_id: An id for one more request.
            reread: Reads a resource once, and tells if it could not be.
            limits: How much is kept of what is seen.
            clock: What time it is.
        """
        self.opening = opening
        self.mask = Mask()
        self.watches = Watches(self.client_now, reread)
        self.client: LiveClient | None = None
        self.observer: Observer | None = None
        self._view = view
        self._tell = tell
        self._next_id = next_id
        self._limits = limits
        self._clock = clock
        self._connecting: asyncio.Task[None] | None = None
        self._made = asyncio.Event()
        self._settled = asyncio.Event()

    def client_now(self) -> "LiveClient":
        """The client.

        Raises:
            NotConnected: There is none.
        """
        if self.client is None:
            raise NotConnected(f"Not connected to {self.opening.name}.", server=self.opening.name)
        return self.client

    async def client_soon(self) -> "LiveClient":
        """The client; if it is about to be made, as soon as it is.

        Raises:
            NotConnected: There is none, and nobody makes one.
        """
        if self._connecting is not None and not self._connecting.done():
            await self._made.wait()
        return self.client_now()

    def seen(self, error: BaseException, method: str | None = None) -> ErrorData:
        """An error as records keep it."""
        is_command = self.observer is not None and self.observer.is_command
        return seen(error, is_command=is_command, method=method)

    def start(self) -> None:
        """Connect in the background."""
        if self._connecting is None or self._connecting.done():
            self._settled.clear()
            if self.client is None:
                self._made.clear()
                self._tell("state", {"state": State.CONNECTING.value, "signal": Signal.CONNECT.value})
            self._go(self._connect())

    async def settle(self) -> None:
        """Wait for the first outcome: it is connected and its lists are there, or it is known why not."""
        await self._settled.wait()

    async def disconnect(self) -> None:
        """End the connection. Subscriptions end with it."""
        await self._stop_connecting()
        await self.watches.aclose()
        if self.client is not None:
            await self.client.disconnect()

    async def hurry(self) -> None:
        """Try again now what waits to be tried again, or was given up."""
        await self._stop_connecting()
        if self.client is None:
            self.start()
        else:
            self._settled.clear()
            self._go(self._reconnect(self.client))
        await self._settled.wait()

    async def aclose(self) -> None:
        """End the connection for good. The next is made by another client."""
        await self._stop_connecting()
        await self.watches.aclose()
        if self.client is not None:
            await self.client.aclose()
        self.client = None

    def _go(self, connecting: Coroutine[Any, Any, None]) -> None:
        task = self._connecting = asyncio.create_task(connecting, name=f"connecting to {self.opening.name}")
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Connecting has ended, perhaps before it began."""
        if task.cancelled() and self.client is None:  # There is none to say it.
            self._tell("state", {"state": State.DISCONNECTED.value, "signal": Signal.DISCONNECT.value})
        self._made.set()
        self._settled.set()

    async def _connect(self) -> None:
        try:
            try:
                client = self.client or await self._make_client()
            finally:
                self._made.set()
            await client.connect()
        except Exception as error:  # noqa: BLE001 - whatever it is, the view says it
            if self._view.error is None:
                failed = {"state": State.DISCONNECTED.value, "signal": Signal.GIVE_UP.value, "error": self.seen(error)}
                self._tell("state", failed)

    async def _reconnect(self, client: "LiveClient") -> None:
        with contextlib.suppress(TidingsError):  # The view says it.
            await client.reconnect()

    async def _make_client(self) -> "LiveClient":
        await asyncio.to_thread(_import_client)
        from tidings.changes import ResourceUpdated  # noqa: PLC0415 - imports the SDK
        from tidings.client.events import StateChanged  # noqa: PLC0415 - likewise
        from tidings.inspector.observer import Observer  # noqa: PLC0415 - likewise

        target = self.opening.parsed()
        self.mask.hide(target.secrets, target.clean)
        if self.observer is None:
            limits, clock = self._limits, self._clock
            self.observer = Observer(self._tell, self._next_id, limits=limits, clock=clock, mask=self.mask)
        self.client = client = self.opening.client(target, self.observer.wire)
        self.observer.attach(client)
        client.on(StateChanged, self._state_changed)
        client.on(ResourceUpdated, self.watches.updated)
        return client

    def _state_changed(self, event: "StateChanged") -> None:
        if event.new in (State.ERROR, State.DISCONNECTED):
            self._settled.set()  # Connected, it is settled when the lists are there.
        if event.new is State.CONNECTED and self.client is not None:
            for uri in self.client.subscriptions:
                self.watches.watch(uri)

    async def _stop_connecting(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)


def _import_client() -> None:
    """Import what every connection needs: most of a second the first time, nothing from then on."""
    with _importing:
        if "tidings.inspector.observer" in sys.modules:
            return
        collects, interval = gc.isenabled(), sys.getswitchinterval()
        gc.disable()  # Nothing of what is imported is garbage; looking for some takes an eighth of the time.
        sys.setswitchinterval(_GIVING_WAY)
        try:
            import_module("tidings.client.live")
            import_module("tidings.inspector.observer")
        finally:
            sys.setswitchinterval(interval)
            if collects:
                gc.enable()
