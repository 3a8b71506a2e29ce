"""The running parts of a web server, made from its settings.

They start from the network up to the watcher, and stop in the reverse order. What takes long is left until needed.
"""

import logging
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

import anyio

from tidings._kit.lazy import install_command
from tidings.web.extract.pool import ExtractionPool
from tidings.web.fetch.fetcher import Fetcher, Secrets
from tidings.web.fetch.request import Proxy
from tidings.web.library import OnChange, WebLibrary
from tidings.web.pages import NoRenderer, Renders
from tidings.web.settings import PROXY, SECRET, BadSetting, Settings
from tidings.web.store.model import StoreError
from tidings.web.store.store import Store
from tidings.web.watch.state import Intervals
from tidings.web.watch.watcher import PageWatcher

logger = logging.getLogger(__name__)

_FIRST_INTERVAL: Final = 5.0  # times the shortest: a short `watch_min` asks for quick news
_LONGEST_REST: Final = 60.0
_SHORTEST_REST: Final = 0.1


@dataclass(frozen=True)
class WebWiring:
    """The parts of a running server, and what they were made from."""

    settings: Settings
    store: Store
    library: WebLibrary
    watcher: PageWatcher


@asynccontextmanager
async def running(settings: Settings, on_change: OnChange) -> AsyncGenerator[WebWiring]:
    """Runs the parts. `on_change` is called with the URIs of changed resources, and whether the list changed."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        store = await enter(
            Store(settings.store, ttl=settings.keep, max_entries=settings.max_entries, max_bytes=settings.max_store)
        )
        fetcher = await enter(Fetcher(settings, secrets=_secrets(settings), proxy=proxy_of(settings)))
        workers = await enter(
            ExtractionPool(count=settings.workers, timeout=settings.read_timeout, memory=settings.read_memory)
        )
        renderer: Renders | None = None
        if settings.render:
            if find_spec("playwright") is None:
                how = f"install it with `{install_command('render')}`, or leave out --render"
                raise NoRenderer(f"Pages cannot be rendered without Playwright: {how}.", url="")
            from tidings.web.browser.render import Browser, Renderer  # noqa: PLC0415 - its package is only for rendering

            renderer = Renderer(fetcher, await enter(Browser()))
        library = WebLibrary(fetcher, workers, store, renderer=renderer, on_change=on_change)
        stack.push_async_callback(library.aclose)
        watcher = await enter(PageWatcher(library, limits=intervals(settings), most=settings.max_watches))
        tasks = await enter(anyio.create_task_group())
        tasks.start_soon(_prune, store, settings.keep, on_change)
        yield WebWiring(settings, store, library, watcher)
        tasks.cancel_scope.cancel()


def _secrets(settings: Settings) -> Secrets:
    """Returns the variables that may be sent, each with its domains and its value."""
    domains: dict[str, list[str]] = {}
    for name, domain in SECRET.findall(settings.secrets):
        domains.setdefault(name, []).append(domain.lower())
    return {name: (to, os.environ.get(name, "")) for name, to in domains.items()}


def proxy_of(settings: Settings) -> Proxy | None:
    """Returns the proxy, with its password. Raises `BadSetting` if that is not set."""
    if (found := PROXY.fullmatch(settings.proxy)) is None:
        return None
    login = None
    if name := found["password"]:
        if not (password := os.environ.get(name)):
            raise BadSetting(f"--proxy: the environment has no {name}. Set it to the password of the proxy.")
        login = (found["user"], password)
    return Proxy(found["host"], int(found["port"]), login)


def intervals(settings: Settings) -> Intervals:
    """Returns how often watched pages are looked at."""
    first = min(_FIRST_INTERVAL * settings.watch_min, settings.watch_max)
    return Intervals(first=first, least=settings.watch_min, most=settings.watch_max)


async def _prune(store: Store, keep: float, on_change: OnChange) -> None:
    """Removes versions soon after they expire, and reports that the list changed."""
    while True:
        rest = min(keep, _LONGEST_REST)  # What comes from now on stays at least as long.
        try:
            if await store.prune():
                await on_change((), True)
            expiry = await store.next_expiry()
            if expiry is not None:
                rest = min(max(expiry - store.clock(), _SHORTEST_REST), rest)
        except StoreError as error:
            logger.warning("expired pages are removed later: %s", error)
        await anyio.sleep(rest)
