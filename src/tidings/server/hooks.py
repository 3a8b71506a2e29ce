"""`Hooks`: functions that are called when a resource gets its first subscriber and when it loses its last.

For each URI or prefix there is a wanted state (it has subscribers or not) and an actual one (the hook that was called
last). One task for each brings the actual state to the wanted one. So the hooks of one URI never overlap, always
alternate, and do not see a client that comes and goes quickly.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from tidings._kit.uri_templates import UriPattern
from tidings.errors import NotSubscribable, ResourceNotFound, SourceUnavailable
from tidings.server.config import check_hook, takes_uri, uri_pattern

logger = logging.getLogger(__name__)

Hook = Callable[..., Awaitable[object] | object]
"""Called with the variables of its template by name, and with the subscription if it has a parameter `uri`."""

TOLD = (ResourceNotFound, NotSubscribable, SourceUnavailable)
"""The errors of a hook that are shown to the subscriber. For all others it learns only that it may try again."""


class Hooks:
    """The hooks of one server, and their state."""

    def __init__(self) -> None:
        self._first: list[tuple[UriPattern, Hook]] = []
        self._last: list[tuple[UriPattern, Hook]] = []
        self._wanted: dict[str, bool] = {}
        self._called: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, Exception] = {}
        self._refused: set[str] = set()

    def on_first(self, pattern: str, hook: Hook) -> None:
        self._first.append(_fitting("on_first_subscriber", pattern, hook))

    def on_last(self, pattern: str, hook: Hook) -> None:
        self._last.append(_fitting("on_last_subscriber", pattern, hook))

    def first(self, subscription: str) -> None:
        """Notes that `subscription` got its first subscriber."""
        self._want(subscription, True)

    def last(self, subscription: str) -> None:
        """Notes that `subscription` lost its last subscriber."""
        self._want(subscription, False)

    async def settled(self, subscriptions: Iterable[str], *, unless: asyncio.Future[None] | None = None) -> bool:
        """Waits until the hooks for `subscriptions` have run. Returns False if `unless` was done before.

        Raises:
            Exception: A hook raised it, so that its source is not watched.
        """
        for subscription in subscriptions:
            if subscription in self._refused and subscription not in self._tasks:
                # Another subscriber keeps it although its hook failed: for the new one it is tried again.
                self._called.discard(subscription)
                self._want(subscription, True)
            while task := self._tasks.get(subscription):
                await asyncio.wait([task] if unless is None else [task, unless], return_when=asyncio.FIRST_COMPLETED)
                if unless is not None and unless.done():
                    return False
            if failure := self._failures.get(subscription):
                self._refused.add(subscription)
                raise failure
        return True

    async def finish(self, seconds: float) -> None:
        """Waits at most `seconds` for the hooks that run, and cancels the rest."""
        tasks = list(self._tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()

    def _want(self, subscription: str, wanted: bool) -> None:
        if not self._matching(self._first + self._last, subscription):
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
                    await self._call_first(subscription)
                else:
                    self._called.discard(subscription)
                    await self._call_last(subscription)
            if not self._wanted[subscription]:
                del self._wanted[subscription]
                self._forget_failure(subscription)
        finally:
            self._tasks.pop(subscription, None)

    async def _call_first(self, subscription: str) -> None:
        self._forget_failure(subscription)
        for hook, variables in self._matching(self._first, subscription):
            try:
                await _call(hook, variables)
            except TOLD as error:
                self._failures[subscription] = error
            except Exception as error:
                logger.exception("on_first_subscriber failed for %s: the subscription is refused.", subscription)
                self._failures[subscription] = error

    def _forget_failure(self, subscription: str) -> None:
        self._failures.pop(subscription, None)
        self._refused.discard(subscription)

    async def _call_last(self, subscription: str) -> None:
        for hook, variables in self._matching(self._last, subscription):
            try:
                await _call(hook, variables)
            except Exception:
                logger.exception("on_last_subscriber failed for %s.", subscription)

    @staticmethod
    def _matching(hooks: Iterable[tuple[UriPattern, Hook]], subscription: str) -> list[tuple[Hook, dict[str, Any]]]:
        found = [(hook, pattern.match(subscription)) for pattern, hook in hooks]
        return [
            (hook, ({"uri": subscription} if takes_uri(hook) else {}) | variables)
            for hook, variables in found
            if variables is not None
        ]


def _fitting(name: str, text: str, hook: Hook) -> tuple[UriPattern, Hook]:
    pattern = uri_pattern(text)
    check_hook(name, pattern, hook)
    return pattern, hook


async def _call(hook: Hook, variables: dict[str, Any]) -> None:
    result = hook(**variables)
    if inspect.isawaitable(result):
        await result
