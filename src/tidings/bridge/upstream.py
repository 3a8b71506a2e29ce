"""`Upstream`: one server behind the bridge, with the session that is kept to it, its lists and its state.

The client reconnects by itself once a connection stood. A server that could not be reached at first is tried again
here, for as long as the bridge runs. Meanwhile its items are not listed, and a call for it says why.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import mcp_types as types

from tidings._kit.backoff import Pauses
from tidings._kit.bounded_json import as_dict
from tidings._kit.tasks import Wakeup
from tidings._version import __version__
from tidings.bridge.names import Json, Naming
from tidings.bridge.settings import UpstreamSpec
from tidings.client import ClientConfig, LiveClient, connect, events
from tidings.client.config import CacheLimits, Timeouts
from tidings.client.pending import PendingRequest
from tidings.client.targets import HttpTarget, parse_target
from tidings.errors import TidingsError

logger = logging.getLogger(__name__)

ListName = str
LISTS: Final = ("tools", "resources", "templates", "prompts")
_PAUSES: Final = (0.5, 1.0, 2.0, 5.0, 15.0, 30.0)
_FIRST_TRY: Final = 10.0  # Seconds that the first answers of the bridge wait for a server to connect.
_MOST_ITEMS: Final = 10_000  # Of one list. The rest is left out, which is logged.
_MOST_AT_ONCE: Final = 256  # Requests to one server.


@dataclass(eq=False)
class Upstream:
    """A server, for one principal or for all. `changed` is called with the name of a list that changed."""

    spec: UpstreamSpec
    naming: Naming
    changed: Callable[["Upstream", ListName], None]
    answer: Callable[[PendingRequest], Any]
    authorization: str | None = None
    """The header of the client for which this session is kept, if it passes its own."""

    def __post_init__(self) -> None:
        self.lists: dict[ListName, list[Json]] = {name: [] for name in LISTS}
        self.tools: dict[str, Json] = {}
        self.wakeup = Wakeup()
        self._tried = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        config = ClientConfig(
            timeouts=replace(Timeouts(), request=self.spec.timeout, total=max(self.spec.timeout * 5, 300.0)),
            cache=CacheLimits(entries=0, size=0),
            concurrency=_MOST_AT_ONCE,
            history=0,
            check_output=False,
        )
        target = self.spec.target
        if self.authorization is not None and isinstance(parsed := parse_target(target), HttpTarget):
            target = replace(parsed, headers={**parsed.headers, "Authorization": self.authorization})
        self.client: LiveClient = connect(
            target,
            era=self.spec.era,
            config=config,
            answer=self.answer,
            log_level="debug",
            client_info=types.Implementation(name="tidings-bridge", version=__version__),
        )
        self.client.on(events.ListLoaded, self._list_loaded)
        self.client.on(events.StderrReceived, lambda event: logger.info("%s: %s", self.spec.name, event.line))
        self.client.on(events.StateChanged, lambda _: self.wakeup())

    # Its life.

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_connected(), name=f"tidings bridge to {self.spec.name}")

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.client.aclose()

    async def _keep_connected(self) -> None:
        """Connects for the first time, however long it takes. Afterwards the client reconnects by itself."""
        pauses = Pauses(_PAUSES, below=0.5)
        while True:
            try:
                await self.client.connect()
                await self.client.wait_fresh()
                self._tried.set()
                self.wakeup()
                await self.wakeup.until(lambda: self.client.state in ("error", "disconnected"))
            except TidingsError as error:
                logger.warning("%s cannot be reached: %s", self.spec.name, error)
            self._tried.set()
            self.wakeup()
            await asyncio.sleep(pauses.next())

    async def until_tried(self) -> None:
        """Waits until the server has been connected to, or the first attempt failed, or it takes too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_TRY):
                await self._tried.wait()

    # Its statements about itself.

    @property
    def trouble(self) -> str:
        """The reason why it cannot be used now; empty if it can."""
        if self.client.connected:
            return ""
        error = self.client.error
        return error.message if error is not None else f"It is {self.client.state}."

    def has(self, feature: str) -> bool:
        """Returns whether the server states a capability, such as "tools"."""
        capabilities = self.client.capabilities
        return capabilities is not None and getattr(capabilities, feature, None) is not None

    def is_safe(self, tool: str) -> bool:
        """Returns whether a call may be sent twice: its tool only reads, or says that it makes no difference."""
        return self.only_reads(tool) or self._hints(tool).get("idempotentHint") is True

    def only_reads(self, tool: str) -> bool:
        """Returns whether a tool says that it changes nothing."""
        return self._hints(tool).get("readOnlyHint") is True

    def _hints(self, tool: str) -> Json:
        return as_dict(self.tools.get(tool, {}).get("annotations"))

    def needs_task(self, tool: str) -> bool:
        """Returns whether the server runs a tool as a task only, in the form of 2025-11-25."""
        execution = as_dict(self.tools.get(tool, {}).get("execution"))
        return self.client.era == "legacy" and execution.get("taskSupport") == "required"

    def _list_loaded(self, event: events.ListLoaded) -> None:
        if event.error is not None:
            logger.warning("%s: its %s could not be loaded: %s", self.spec.name, event.name, event.error)
            return
        if len(event.items) > _MOST_ITEMS:
            logger.warning(
                "%s has %d %s: only the first %d are offered.",
                self.spec.name,
                len(event.items),
                event.name,
                _MOST_ITEMS,
            )
        items = [dict(item) for item in event.items[:_MOST_ITEMS]]
        if event.name in ("tools", "prompts"):
            items = list({str(item["name"]): item for item in items if self.spec.offers(str(item["name"]))}.values())
        if event.name == "tools":
            self.tools = {str(item["name"]): item for item in items}
        if items != self.lists[event.name]:
            self.lists[event.name] = items
            self.changed(self, event.name)
