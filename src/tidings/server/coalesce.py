"""`Coalescer`: merges changes that follow each other quickly.

Each distinct change has a window. The first change is published at once and opens the window; equal changes while it is
open are held back, and published as one at its end. A window that ends with nothing held back closes. Each further
change moves the end, but never beyond `max_wait` after the first that was held back: so the last change is always
published, and a steady stream of changes cannot starve it.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from tidings._kit.tasks import Background
from tidings.changes import Change, ResourceUpdated
from tidings.server.config import Coalesce, CoalesceSetting, uri_pattern


class Handle(Protocol):
    """A scheduled call that can be cancelled."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """An event loop, or a clock of a test."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], object], /) -> Handle: ...


@dataclass(slots=True)
class _Window:
    rule: Coalesce
    ends: float
    timer: Handle
    held_since: float | None = None


class Coalescer:
    """Passes merged changes on to `publish`, and calls `merged` for each change that was absorbed by another."""

    def __init__(
        self,
        publish: Callable[[Change], Coroutine[Any, Any, None]],
        setting: CoalesceSetting,
        *,
        clock: Clock,
        merged: Callable[[], None] = lambda: None,
    ) -> None:
        self._publish = publish
        self._clock = clock
        self._merged = merged
        self._windows: dict[Change, _Window] = {}
        self._background = Background()
        one_for_all = isinstance(setting, Coalesce)
        self._default = setting if one_for_all else Coalesce()
        self._rules = [] if one_for_all else [(uri_pattern(text), rule) for text, rule in setting.items()]

    async def submit(self, change: Change) -> None:
        """Publishes `change` now, or holds it back. Returns once the bus has it, or it is held back."""
        now = self._clock.time()
        window = self._windows.get(change)
        if window is None:
            rule = self._rule(change)
            if rule.window > 0:
                ends = now + rule.window
                self._windows[change] = _Window(rule, ends, self._clock.call_at(ends, partial(self._on_timer, change)))
            await self._publish(change)
            return
        if window.held_since is None:
            window.held_since = now
        else:
            self._merged()
        # The timer stays as it is: if it fires too early, it finds the new end.
        window.ends = min(now + window.rule.window, window.held_since + window.rule.max_wait)

    async def flush(self) -> None:
        """Publishes everything that is held back, and closes all windows."""
        windows, self._windows = self._windows, {}
        for change, window in windows.items():
            window.timer.cancel()
            if window.held_since is not None:
                self._background.start(self._publish(change))
        await self._background.finished()

    def _on_timer(self, change: Change) -> None:
        window = self._windows[change]
        if window.held_since is None:
            del self._windows[change]
            return
        now = self._clock.time()
        if now >= window.ends:
            window.held_since = None
            window.ends = now + window.rule.window
            self._background.start(self._publish(change))
        window.timer = self._clock.call_at(window.ends, partial(self._on_timer, change))

    def _rule(self, change: Change) -> Coalesce:
        if isinstance(change, ResourceUpdated):
            for pattern, rule in self._rules:
                if pattern.match(change.uri) is not None:
                    return rule
        return self._default
