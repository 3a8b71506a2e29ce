"""The searches that somebody listens to: compared after each change, behind everything else and at a pace of their own.

A search can take long, and any change may change what it finds. So they hold up neither the index nor the news of
other resources: they are compared in the threads of the readers, all of them after a change, and the longer that takes
the longer it is until the next time. The last change is always followed by a comparison.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio

from tidings.vault.index.index_errors import IndexBlocked, IndexDamaged

logger = logging.getLogger(__name__)

PREFIX: Final = "vault://search/"

_REST: Final = 2
"""How many times as long as a comparison took it is rested after it…"""
_LONGEST_REST: Final = 10.0
"""…but not longer than this many seconds."""


class Searches:
    """Compares searches.

    Args:
        fingerprint: A text that is equal as long as what is found is.
        remembered: The URIs of which somebody wants to know.
        publish: Told the URIs of which more or less is found now.
    """

    def __init__(
        self,
        fingerprint: Callable[[str], Awaitable[str]],
        remembered: Callable[[], Sequence[str]],
        publish: Callable[[Sequence[str]], Awaitable[None]],
    ) -> None:
        self._fingerprint = fingerprint
        self._remembered = remembered
        self._publish = publish
        self._last: dict[str, str] = {}
        self._changed = asyncio.Event()

    async def begin(self, uri: str) -> None:
        """Somebody listens to a search: what it finds now is what is compared with."""
        if uri not in self._last:
            self._last[uri] = await self._fingerprint(uri)

    def changed(self) -> None:
        """Something may be found that was not, or not any more."""
        if self._last:
            self._changed.set()

    async def follow(self) -> None:
        """Compare whenever something changed, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await self._changed.wait()
            self._changed.clear()
            began = loop.time()
            await self._compare()
            await anyio.sleep(min(_REST * (loop.time() - began), _LONGEST_REST))

    async def _compare(self) -> None:
        remembered = set(self._remembered())
        self._last = {uri: last for uri, last in self._last.items() if uri in remembered}
        for uri, last in list(self._last.items()):
            try:
                now = await self._fingerprint(uri)
            except (IndexBlocked, IndexDamaged) as error:
                logger.info("Searches are not compared at present: %s", error)
                self._changed.set()
                return
            if now != last:
                self._last[uri] = now
                await self._publish([uri])
