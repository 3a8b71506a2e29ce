"""`Hooks`: functions that are called when a resource gets its first subscriber and when it loses its last.

One task for each URI or prefix brings the actual state (the hook that was called last) to the wanted one. So the hooks
of one URI never overlap, always alternate, and do not see a client that comes and goes quickly.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, get_args

from tidings.errors import NotSubscribable, ResourceNotFound, SourceUnavailable
from tidings.server.config import UriPattern, check_hook, takes_uri

logger = logging.getLogger(__name__)

Hook = Callable[..., Awaitable[object] | object]
"""Called with the variables of its template by name, and with the subscription if it has a parameter `uri`."""

HookEvent = Literal["on_first_subscriber", "on_last_subscriber"]

TOLD = (ResourceNotFound, NotSubscribable, SourceUnavailable)
"""The errors of a hook that are shown to the subscriber. For all others it learns only that it may try again."""


class Hooks:
    """The hooks of one server, and their state."""

    def __init__(self) -> None:
        self._hooks: dict[HookEvent, list[tuple[UriPattern, Hook]]] = {event: [] for event in get_args(HookEvent)}
        self._wanted: dict[str, bool] = {}
        self._called: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, Exception] = {}
        self._refused: set[str] = set()

    def add(self, event: HookEvent, text: str, hook: Hook) -> None:
        pattern = UriPattern(text)
        check_hook(event, pattern, hook)
        self._hooks[event].append((pattern, hook))

    async def settled(self, subscriptions: Iterable[str], *, unless: asyncio.Future[None] | None = None) -> bool:
        """Waits until the hooks have run, and raises what one raised. Returns False if `unless` was done before."""
        for subscription in subscriptions:
            if subscription in self._refused and subscription not in self._tasks:
                # Another subscriber keeps it although its hook failed: for the new one it is tried again.
                self._called.discard(subscription)
                self.want(subscription, True)
            while task := self._tasks.get(subscription):
                await asyncio.wait([task] if unless is None else [task, unless], return_when=asyncio.FIRST_COMPLETED)
                if unless is not None and unless.done():
                    return False
            if failure := self._failures.get(subscription):
                self._refused.add(subscription)
                raise failure
        return True

    async def finish(self, seconds: float) -> set[asyncio.Task[None]]:
        """Waits at most `seconds` for the hooks that run, cancels the rest, and returns it."""
        tasks, late = list(self._tasks.values()), set[asyncio.Task[None]]()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
        return late

    def want(self, subscription: str, wanted: bool) -> None:
        if not any(self._matching(event, subscription) for event in self._hooks):
            return
        self._wanted[subscription] = wanted
        if subscription not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._reconcile(subscription))
            if not task.done():  # It may be, where tasks begin at once (Python 3.12).
                self._tasks[subscription] = task

    async def _reconcile(self, subscription: str) -> None:
        try:
            while (wanted := self._wanted[subscription]) != (subscription in self._called):
                if wanted:
                    self._called.add(subscription)
                    self._forget_failure(subscription)
                else:
                    self._called.discard(subscription)
                await self._call("on_first_subscriber" if wanted else "on_last_subscriber", subscription)
            if not self._wanted[subscription]:
                del self._wanted[subscription]
                self._forget_failure(subscription)
        finally:
            self._tasks.pop(subscription, None)

    async def _call(self, event: HookEvent, subscription: str) -> None:
        first = event == "on_first_subscriber"
        for hook, variables in self._matching(event, subscription):
            try:
                result = hook(**variables)
                if inspect.isawaitable(result):
                    await result
            except Exception as error:
                if not (first and isinstance(error, TOLD)):
                    refused = ": the subscription is refused" if first else ""
                    logger.exception("%s failed for %s%s.", event, subscription, refused)
                if first:
                    self._failures[subscription] = error

    def _forget_failure(self, subscription: str) -> None:
        self._failures.pop(subscription, None)
        self._refused.discard(subscription)

    def _matching(self, event: HookEvent, subscription: str) -> list[tuple[Hook, dict[str, Any]]]:
        found = [(hook, pattern.match(subscription)) for pattern, hook in self._hooks[event]]
        return [
            (hook, ({"uri": subscription} if takes_uri(hook) else {}) | variables)
            for hook, variables in found
            if variables is not None
        ]
