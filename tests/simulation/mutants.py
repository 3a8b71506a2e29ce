"""Faults that are put into the product on purpose: the simulation must find each within some seeds.

python -m tests.simulation.mutants [--seeds N] [NAME …]
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final
from unittest import mock

from tests.simulation.faults import draw
from tests.simulation.run import quiet, run
from tidings.changes import ToolsListChanged
from tidings.client import modern as client_modern
from tidings.client.cache import ContentCache
from tidings.client.http_health import StreamSilence
from tidings.client.legacy import LegacyFeed
from tidings.client.subscriptions import Subscriptions
from tidings.client.watching import Refresher
from tidings.server.core import Core
from tidings.server.hub import Coalescer
from tidings.server.modern import ModernEra
from tidings.server.policy import SubscriptionPolicy
from tidings.server.sessions import SharedSessions
from tidings.server.subscriber import Subscriber

Mutant = Callable[[], AbstractContextManager[Any]]


def _instead(owner: Any, name: str) -> Callable[[Callable[..., Any]], Mutant]:
    """Makes a mutant that calls a function in place of a method, with the method as its first argument."""

    def make(function: Callable[..., Any]) -> Mutant:
        original = getattr(owner, name)
        return lambda: mock.patch.object(owner, name, lambda *args, **options: function(original, *args, **options))

    return make


@_instead(ContentCache, "clear_resource_and_resource_template")
def keep_cached_copy(original: Any, self: Any, uri: str) -> None:
    """A copy stays in the cache when its resource changed."""


@_instead(client_modern._FilterPart, "acknowledge")
def ignore_recovered_false(original: Any, self: Any, params: Any) -> None:
    """The client believes that nothing is missing, although the server says that it does not know."""
    original(self, {**params, "_meta": {**params["_meta"], client_modern.RECOVERED_KEY: True}})


@_instead(Subscriptions, "attach")
def no_resubscribe(original: Any, self: Any, link: Any, feed: Any) -> None:
    """Nothing is subscribed to again on a new connection."""
    if self.__dict__.setdefault("attached_by_mutant", False):
        self._feed, self._synced = feed, self._version
    else:
        self.attached_by_mutant = True
        original(self, link, feed)


@_instead(Coalescer, "_on_timer")
def drop_trailing_change(original: Any, self: Any, window: Any) -> None:
    """A change that is held back is forgotten at the end of its window."""
    window.held_since = None
    self._held.pop(window, None)
    original(self, window)


@_instead(Core, "_look_at_bus")
def go_on_without_bus(original: Any, self: Any) -> None:
    """A replica that is cut off from its bus keeps its subscribers."""


@_instead(Core, "heard")
def lose_list_changed(original: Any, self: Any, cursor: Any, change: Any) -> None:
    """Changes of the list of tools are not passed on."""
    if change != ToolsListChanged():
        original(self, cursor, change)


@_instead(Core, "heard")
def ignore_lost_log(original: Any, self: Any, cursor: Any, change: Any) -> None:
    """Nobody is told that the bus does not know what changed."""
    if change is not None:
        original(self, cursor, change)


@_instead(SubscriptionPolicy, "screen")
def authorise_once(original: Any, self: Any, ctx: Any) -> None:
    """Permission for a prefix is permission for all that it matches."""


@_instead(Refresher, "want")
def miss_change_while_reading(original: Any, self: Any, uri: str) -> None:
    """A resource that changes while it is being read is not read once more."""
    if uri not in self._reading:
        original(self, uri)


@_instead(Subscriber, "replay")
def no_replay(original: Any, self: Any, frames: Any) -> None:
    """What a listener missed is not sent, although the server says so."""


@_instead(client_modern.ModernFeed, "_lost")
def lost_stream_stays_lost(original: Any, self: Any, stream: Any) -> None:
    """A stream that ended is not opened again."""


@_instead(LegacyFeed, "sync")
async def read_before_subscribe(original: Any, self: Any, wanted: Any) -> Any:
    """What is subscribed to is read before that, and not after it."""
    self.listener.unknown(wanted)
    with mock.patch.object(self.listener, "unknown"):
        return await original(self, wanted)


@_instead(ModernEra, "_catch_up")
async def early_cursor(original: Any, self: Any, *listening: Any) -> Any:
    """The acknowledgment claims the changes that are about to follow it."""
    _, recovered, until = await original(self, *listening)
    return listening[-1], recovered, until


@_instead(Core, "cursor_from")
async def begin_at_the_latest(original: Any, self: Any, text: Any) -> Any:
    """Of the cursors of several streams, the latest counts."""
    found = [await original(self, line) for line in text.split("\n")] if isinstance(text, str) else [None]
    return None if None in found else max(found)


def forget_lost_streams() -> AbstractContextManager[Any]:
    """While one of several streams is lost, only the others count for how far the client has got."""
    original = client_modern.ModernFeed.cursor.fget

    def cursor(self: Any) -> Any:
        reopening = self._reopening
        self._reopening = set()
        try:
            return original(self)
        finally:
            self._reopening = reopening

    return mock.patch.object(client_modern.ModernFeed, "cursor", property(cursor))


@_instead(Core, "cursor_from")
async def believe_unread_cursors(original: Any, self: Any, text: Any) -> Any:
    """Whoever sends a cursor that this replica cannot read is taken to have everything."""
    return await original(self, text) or (self.position if text else None)


@_instead(Subscriptions, "until_read")
async def fresh_too_early(original: Any, self: Any, given_up: Any) -> None:
    """A client is called fresh before it has read what was announced."""


def claim_what_is_held_back() -> AbstractContextManager[Any]:
    """The cursor of a notification includes changes that are held back to be merged."""
    return mock.patch.object(Coalescer, "position", property(lambda self: self._heard))


@_instead(StreamSilence, "_look")
def no_silence_check(original: Any, self: Any) -> None:
    """Nobody looks whether a stream has been silent for too long."""


@_instead(SharedSessions, "_tell_writer")
async def tell_no_other_replica(original: Any, self: Any, record: Any, session_id: str) -> None:
    """The replica that writes to a session's stream does not hear of subscriptions that reach another one."""


@_instead(SharedSessions, "opening_stream")
async def follow_no_record(original: Any, self: Any, session: Any) -> None:
    """A replica opens a session's stream without the subscriptions that were made elsewhere."""


MUTANTS: Final[dict[str, Mutant]] = {
    "keep_cached_copy": keep_cached_copy,
    "ignore_recovered_false": ignore_recovered_false,
    "no_resubscribe": no_resubscribe,
    "drop_trailing_change": drop_trailing_change,
    "go_on_without_bus": go_on_without_bus,
    "lose_list_changed": lose_list_changed,
    "ignore_lost_log": ignore_lost_log,
    "authorise_once": authorise_once,
    "miss_change_while_reading": miss_change_while_reading,
    "no_replay": no_replay,
    "lost_stream_stays_lost": lost_stream_stays_lost,
    "no_silence_check": no_silence_check,
    "read_before_subscribe": read_before_subscribe,
    "early_cursor": early_cursor,
    "begin_at_the_latest": begin_at_the_latest,
    "forget_lost_streams": forget_lost_streams,
    "believe_unread_cursors": believe_unread_cursors,
    "fresh_too_early": fresh_too_early,
    "claim_what_is_held_back": claim_what_is_held_back,
    "tell_no_other_replica": tell_no_other_replica,
    "follow_no_record": follow_no_record,
}


ONLY: Final = {"forget_lost_streams": "lose_one_of_several"}
"""The fault that shows a mutant which hardly any other shows."""


def seeds_until_found(mutant: Mutant, most: int, first: int = 1, only: str | None = None) -> tuple[int, str] | None:
    """Returns the number of seeds after which a mutant is found and what was wrong; None if it is not found."""
    with mutant():
        for count in range(most):
            if wrong := run(draw(first + count, only=only)).wrong:
                return count + 1, wrong[0]
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("tests.simulation.mutants", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("names", nargs="*", default=list(MUTANTS))
    chosen = parser.parse_args(arguments)
    quiet()
    survived = 0
    for name in chosen.names:
        found = seeds_until_found(MUTANTS[name], chosen.seeds, only=ONLY.get(name))
        survived += found is None
        told = f"not found in {chosen.seeds} seeds" if found is None else f"found after {found[0]} seeds ({found[1]})"
        sys.stdout.write(f"{name}: {told}\n")
        sys.stdout.flush()
    return 1 if survived else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        command = [sys.executable, "-m", "tests.simulation.mutants", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
