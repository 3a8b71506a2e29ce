"""`Coalescer`: merges changes that follow each other quickly, between the log and the subscribers of this process.

The first change is delivered at once and opens a window. Equal changes while it is open are held back, and delivered as
one at its end, which each further change moves, but never beyond `max_wait`. A notification must not claim more than
its receiver has: its cursor is `position`, below everything that is held back.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tidings.changes import Change, Cursor, ResourceUpdated
from tidings.server.config import Coalesce, CoalesceSetting, UriPattern


@dataclass(slots=True, eq=False)
class _Window:
    rule: Coalesce
    change: Change
    ends: float
    place: Cursor  # Of the newest of the equal changes.
    before: Cursor  # The cursor that was heard before that.
    timer: asyncio.TimerHandle | None = None
    held_since: float | None = None


class Coalescer:
    """Passes changes on to `deliver`, and calls `merged` for each change that was absorbed by a later one."""

    def __init__(
        self,
        deliver: Callable[[Cursor, Change], None],
        setting: CoalesceSetting,
        *,
        start: Cursor,
        clock: Callable[[], asyncio.AbstractEventLoop] = asyncio.get_running_loop,
        merged: Callable[[], None] = lambda: None,
    ) -> None:
        self._deliver = deliver
        self._clock = clock
        self._merged = merged
        self._heard = start
        self._windows: dict[Change, _Window] = {}
        self._held: dict[_Window, None] = {}  # The windows that hold a change back, in order of version.
        one_for_all = isinstance(setting, Coalesce)
        self._default = setting if one_for_all else Coalesce()
        self._rules = [] if one_for_all else [(UriPattern(text), rule) for text, rule in setting.items()]

    @property
    def position(self) -> Cursor:
        """The newest cursor that a receiver may have. What was held back below it has a later equal change above it."""
        return next(iter(self._held)).before if self._held else self._heard

    def hear(self, place: Cursor, change: Change) -> None:
        before, self._heard = self._heard, place
        window = self._windows.get(change)
        if window is None:
            rule = self._rule(change)
            if rule.window > 0:
                clock = self._clock()
                window = _Window(rule, change, clock.time() + rule.window, place, before)
                window.timer = clock.call_at(window.ends, partial(self._on_timer, window))
                self._windows[change] = window
            self._deliver(place, change)
            return
        now = self._clock().time()
        if window.held_since is None:
            window.held_since = now
        else:
            del self._held[window]
            self._merged()
        self._held[window] = None
        window.place, window.before = place, before
        # The timer stays as it is: if it fires too early, it finds the new end.
        window.ends = min(now + window.rule.window, window.held_since + window.rule.max_wait)

    def flush(self) -> None:
        self._close_windows()
        for window in tuple(self._held):
            self._release(window)

    def begin(self, position: Cursor) -> None:
        self._close_windows()
        self._held.clear()
        self._heard = position

    def _close_windows(self) -> None:
        for window in self._windows.values():
            if window.timer is not None:
                window.timer.cancel()
        self._windows.clear()

    def _on_timer(self, window: _Window) -> None:
        if window.held_since is None:
            del self._windows[window.change]
            return
        clock = self._clock()
        now = clock.time()
        is_over = now >= window.ends
        if is_over:
            window.held_since = None
            window.ends = now + window.rule.window
        window.timer = clock.call_at(window.ends, partial(self._on_timer, window))
        if is_over:
            self._release(window)

    def _release(self, window: _Window) -> None:
        del self._held[window]
        self._deliver(window.place, window.change)

    def _rule(self, change: Change) -> Coalesce:
        if isinstance(change, ResourceUpdated):
            for pattern, rule in self._rules:
                if pattern.match(change.uri) is not None:
                    return rule
        return self._default
