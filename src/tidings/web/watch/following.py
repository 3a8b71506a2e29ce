"""Telling the clients of one process of changes, whoever found them, where no bus connects the processes.

Each process then knows for itself which version of a watched page its clients have heard of, and compares when there is
a cause: its own look, somebody's fetch, or what the store says that others did. So each tells its own clients, once.
"""

import anyio

from tidings.web.library import WebLibrary
from tidings.web.pages import newest_of
from tidings.web.store.model import StoredWatch
from tidings.web.watch.state import SeenVersion, WatchState, Wish, uris_of


class Follower:
    """What the clients of this process know of the pages that are watched."""

    def __init__(self, library: WebLibrary) -> None:
        self._library = library
        self._store = library.store
        self._seen: dict[str, SeenVersion] = {}
        self._mark = 0
        self._turn = anyio.Lock()

    async def start(self) -> None:
        """Take what is watched already as it was told of last, and what others did until now as known.

        Raises:
            StoreError: That cannot be read.
        """
        self._mark = (await self._store.news()).mark
        for watch in await self._store.watches():
            self.begun(watch)

    def begun(self, watch: StoredWatch) -> None:
        """A page is watched from now on; what its clients know is what was there when that began."""
        seen = WatchState.from_json(watch.state).seen or Wish.from_json(watch.options, watch.url).since
        if seen is not None:
            self._seen.setdefault(watch.page_id, seen)

    async def catch_up(self) -> None:
        """Tell of what others did.

        Raises:
            StoreError: That cannot be read.
        """
        news = await self._store.news(self._mark)
        for page_id in news.pages:
            await self.compare(page_id, changed=True)
        if news.listed:
            await self._library.on_change((), True)
        self._mark = news.mark

    async def compare(self, page_id: str, *, changed: bool) -> None:
        """Tell of a page if it is watched and says something else than its clients know.

        One that nobody watches is told of if it is known to have `changed`: whoever watched it may have been cut off,
        and will ask for what they missed.

        Raises:
            StoreError: That cannot be read.
        """
        async with self._turn:
            watch, page = await self._store.watch_of(page_id), await self._store.page_of(page_id)
            if watch is None or page is None:
                self._seen.pop(page_id, None)
                if changed:
                    await self._library.on_change(uris_of(page_id), False)
                return
            wish, before = Wish.from_json(watch.options, watch.url), self._seen.get(page_id)
            newest = newest_of(page, wish.options.variant(wish.url), before and before.source_id)
            if newest is None:
                return
            if before is not None and before.content_hash != newest.content_hash:
                same = await self._library.refresher.same(before.source_id, newest.source_id, wish.ignore)
                if not same:
                    await self._library.on_change(uris_of(page_id), False)
            # After it was told: what could not be is told the next time.
            self._seen[page_id] = SeenVersion(newest.source_id, newest.content_hash)
