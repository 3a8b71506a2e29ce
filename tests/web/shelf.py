"""A library of pages with a site on loopback, a clock that a test moves, and a listener."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from tests.web.fetch.servers import ROOMY, Ask, Page, Site, fetcher, site
from tidings.web.extract.model import Extracted, ExtractOptions
from tidings.web.extract.pool import extract
from tidings.web.library import WebLibrary
from tidings.web.store.store import Store
from tidings.web.watch.state import DIFF, PAGE, Intervals, WatchState
from tidings.web.watch.watcher import PageWatcher

BEGINNING = 1_767_225_600.0
"""The first second of 2026."""

PACE = Intervals(first=100.0, least=10.0, most=1000.0, jitter=0.0)


class Clock:
    """Stands still until a test moves it."""

    def __init__(self, now: float = BEGINNING) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class InThread:
    """Reads pages as workers do, without their processes."""

    def __init__(self) -> None:
        self.read = 0

    async def extract(
        self, body: bytes, content_type: str, url: str, options: ExtractOptions | None = None
    ) -> Extracted:
        self.read += 1
        return await to_thread.run_sync(extract, body, content_type, url, options)


class Shelf:
    """A library on a site, and what was told of it."""

    def __init__(self, library: WebLibrary, watcher: PageWatcher, store: Store, here: Site, clock: Clock) -> None:
        self.library = library
        self.watcher = watcher
        self.store = store
        self.site = here
        self.clock = clock
        self.told: list[str] = []
        self.lists = 0
        self.deaf = False
        library.on_change = self._hear

    async def _hear(self, uris: Sequence[str], listed: bool) -> None:
        if self.deaf:
            raise OSError("nobody listens")
        self.told += uris
        self.lists += listed

    def heard(self) -> tuple[list[str], int]:
        """What was told since this was asked last: URIs, and how many changes of the list."""
        heard, self.told, lists, self.lists = self.told, [], self.lists, 0
        return heard, lists

    def requests(self) -> list[Ask]:
        """The requests since this was asked last, without those for robots.txt."""
        asked, self.site.asked = [ask for ask in self.site.asked if ask.path != "/robots.txt"], []
        return asked

    async def fetch(self, path: str = "/", **options: Any) -> str:
        """Fetch a page of the site; its page_id."""
        return (await self.library.fetch(self.site.url(path), **options)).entry.page_id

    async def watch(self, path: str = "/", cause: str = "subscription", **how: Any) -> str:
        """Fetch a page of the site and watch it; its page_id."""
        page_id = await self.fetch(path)
        await self.watcher.begin(page_id, cause, **how)
        self.heard()
        self.requests()
        return page_id

    async def announced(self, page_id: str) -> None:
        """Waits until the watcher has announced the page's newest content, and has written that down."""
        with anyio.fail_after(20):
            while True:
                page, watch = await self.store.page_of(page_id), await self.store.watch_of(page_id)
                seen = WatchState.from_json(watch.state).seen if watch else None
                if self.told and page and seen and seen.content_hash == page.content_hash:
                    return
                await anyio.sleep(0.01)

    async def later(self, seconds: float = PACE.most) -> int:
        """Look at what is due then; how many pages that are."""
        self.clock.now += seconds
        return await self.look_at_all_due()

    async def look_at_all_due(self) -> int:
        """Look at every page that is due now; how many they were."""
        looked = 0
        while claimed := await self.store.due(self.watcher.at_once, self.watcher.lease):
            looked += len(claimed)
            async with anyio.create_task_group() as tasks:
                for watch in claimed:
                    tasks.start_soon(self.watcher._look, watch, "")
        return looked


def both(page_id: str) -> list[str]:
    """What is told when a page has changed."""
    return [PAGE + page_id, DIFF + page_id]


class Changing:
    """A page whose text a test changes; it knows its own version, and says so with 304."""

    def __init__(self, body: str, content_type: str = "text/plain", validators: bool = True, **headers: str) -> None:
        self.body = body
        self.headers = {"Content_Type": content_type, **headers}
        self.validators = validators
        self.status = 200
        self.not_modified = 0

    async def __call__(self, ask: Ask) -> None:
        etag = f'"{abs(hash(self.body))}"'
        headers = {**self.headers, **({"ETag": etag} if self.validators else {})}
        if self.validators and self.status == 200 and ask.headers.get("if-none-match") == etag:
            self.not_modified += 1
            await ask.reply(b"", 304, **headers)
        else:
            await ask.reply(self.body.encode(), self.status, **headers)


@asynccontextmanager
async def shelf(
    pages: dict[str, Page] | None = None,
    *,
    here: Site | None = None,
    clock: Clock | None = None,
    path: Path | None = None,
    workers: Any | None = None,
    limits: Any = None,
    watching: dict[str, Any] | None = None,
    storing: dict[str, Any] | None = None,
    **options: Any,
) -> AsyncGenerator[Shelf]:
    """A library on a site with these pages, or on one that is there."""
    clock = clock or Clock()
    room = {"ttl": 86400.0, "max_entries": 5000, "max_bytes": 2**28, **(storing or {})}
    async with AsyncExitStack() as stack:
        if here is None:
            here = await stack.enter_async_context(site(pages))
        settings = {name: options.pop(name) for name in ("cache_ttl", "pdf") if name in options}
        fetch = await stack.enter_async_context(fetcher(replace(limits or ROOMY, **settings)))
        store = await stack.enter_async_context(Store(path, clock=clock, **room))
        library = WebLibrary(fetch, workers or InThread(), store, **options)
        stack.push_async_callback(library.aclose)
        how = {"limits": PACE, "random": lambda: 0.0, **(watching or {})}
        yield Shelf(library, PageWatcher(library, **how), store, here, clock)
