"""Watched resources that are not there: for a moment, not yet, or never."""

import asyncio
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from tests.client.library import ERAS, SECONDS, Library, connected, eventually, hear
from tidings import ResourceUpdated
from tidings.client import ClientConfig, LiveClient, Poll
from tidings.client.events import RefreshFailed
from tidings.errors import InvalidUri, RequestFailed, ResourceNotFound

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

ONE, TWO = "note://1", "note://2"
POLLING = ClientConfig(poll=Poll(interval=0.01, longest=0.02))
OLD, MODERN = -32002, -32602
CODES = pytest.mark.parametrize("code", [OLD, MODERN], ids=["old code", "modern code"])


class Watcher:
    """Somebody who watches, and what they have seen."""

    def __init__(self, client: LiveClient, *uris: str, **options: Any) -> None:
        self.seen: list[str] = []
        self._task = asyncio.create_task(self._watch(client, uris, options))

    async def _watch(self, client: LiveClient, uris: Any, options: Any) -> None:
        async with aclosing(client.watch(list(uris), **options)) as reads:
            async for read in reads:
                self.seen.append(read.text)

    async def sees(self, *texts: str) -> None:
        await eventually(lambda: self.seen == list(texts) or self._task.done())
        assert self.seen == list(texts)

    async def leaves(self) -> None:
        assert not self._task.done()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def fails(self) -> BaseException | None:
        await eventually(self._task.done)
        return self._task.exception()


class Shelf(Library):
    """A library from which notes are taken away, and to which they come back."""

    def take(self, uri: str, code: int = MODERN) -> None:
        self.broken[uri] = MCPError(code, "There is no such note", {"uri": uri})

    async def remove(self, client: LiveClient, uri: str, code: int = MODERN) -> None:
        """Take it away, say so, and wait until the client has found that it is gone."""
        asked = self.asked[uri]
        self.take(uri, code)
        await self.notify.resource_updated(uri)
        await eventually(lambda: self.asked[uri] > asked)
        with anyio.fail_after(SECONDS):
            await client.wait_fresh()

    async def put(self, uri: str, text: str) -> None:
        self.broken.pop(uri, None)
        await self.write(uri, text)


@ERAS
@CODES
async def test_a_watch_outlives_a_resource_that_is_gone_for_a_moment(era: str, code: int) -> None:
    shelf = Shelf()
    async with connected(shelf, era) as client:
        watcher = Watcher(client, ONE)
        await watcher.sees("the text of note://1")
        failed = hear(client, RefreshFailed)
        await shelf.remove(client, ONE, code)
        await shelf.remove(client, ONE, code)
        assert [(event.uri, type(event.error)) for event in failed] == [(ONE, ResourceNotFound)]
        assert client.cache.get_resource(ONE) is None
        assert not client.is_fresh(ONE)
        await shelf.put(ONE, "back again")
        await watcher.sees("the text of note://1", "back again")
        assert client.is_fresh(ONE)
        await watcher.leaves()


@ERAS
async def test_what_comes_back_as_it_was_is_not_told(era: str) -> None:
    shelf = Shelf()
    async with connected(shelf, era) as client:
        watcher = Watcher(client, ONE)
        await watcher.sees("the text of note://1")
        await shelf.remove(client, ONE)
        await shelf.put(ONE, "the text of note://1")
        await eventually(lambda: client.is_fresh(ONE))
        await shelf.put(ONE, "another")
        await watcher.sees("the text of note://1", "another")
        await watcher.leaves()


@ERAS
async def test_where_a_watch_polls_it_outlives_a_resource_too(era: str) -> None:
    async def authorize(_: Any, uri: str) -> bool:
        return uri != ONE

    shelf = Shelf(authorize=authorize)
    async with connected(shelf, era, config=POLLING) as client:
        watcher = Watcher(client, ONE)
        await watcher.sees("the text of note://1")
        failed = hear(client, RefreshFailed)
        asked = shelf.asked[ONE]
        shelf.take(ONE)
        await eventually(lambda: shelf.asked[ONE] > asked + 3)
        shelf.broken.clear()
        shelf.texts[ONE] = "back again"
        await watcher.sees("the text of note://1", "back again")
        assert len(failed) == 1
        await watcher.leaves()


@ERAS
@CODES
async def test_a_resource_that_was_never_there_is_an_error_unless_it_is_waited_for(era: str, code: int) -> None:
    shelf = Shelf()
    shelf.take(ONE, code)
    async with connected(shelf, era) as client:
        assert isinstance(await Watcher(client, ONE).fails(), ResourceNotFound)
        patient = Watcher(client, ONE, missing="wait")
        await eventually(lambda: shelf.asked[ONE] >= 2)
        with anyio.fail_after(SECONDS):
            await client.wait_fresh()
        # Whoever asks while another waits is told all the same.
        assert isinstance(await Watcher(client, ONE).fails(), ResourceNotFound)
        await shelf.put(ONE, "here")
        await patient.sees("here")
        await patient.leaves()


@ERAS
async def test_whoever_comes_while_it_is_gone_does_not_get_what_it_was(era: str) -> None:
    shelf = Shelf()
    async with connected(shelf, era) as client:
        first = Watcher(client, ONE)
        await first.sees("the text of note://1")
        await shelf.remove(client, ONE)
        second = Watcher(client, ONE, missing="wait")
        assert isinstance(await Watcher(client, ONE).fails(), ResourceNotFound)
        await shelf.put(ONE, "back again")
        await first.sees("the text of note://1", "back again")
        await second.sees("back again")
        await first.leaves()
        await second.leaves()


@ERAS
async def test_of_several_one_that_is_missing_does_not_end_the_others(era: str) -> None:
    shelf = Shelf()
    shelf.take(TWO)
    async with connected(shelf, era) as client:
        watcher = Watcher(client, TWO, ONE)
        await watcher.sees("the text of note://1")
        await shelf.write(ONE, "new")
        await watcher.sees("the text of note://1", "new")
        await shelf.put(TWO, "here too")
        await watcher.sees("the text of note://1", "new", "here too")
        await watcher.leaves()


@ERAS
async def test_of_several_it_is_an_error_if_none_is_there(era: str) -> None:
    shelf = Shelf()
    shelf.take(ONE)
    shelf.take(TWO)
    async with connected(shelf, era) as client:
        assert isinstance(await Watcher(client, ONE, TWO).fails(), ResourceNotFound)


@ERAS
async def test_a_resource_that_cannot_be_read_ends_the_watch_by_name(era: str) -> None:
    shelf = Shelf()
    async with connected(shelf, era) as client:
        watcher = Watcher(client, ONE)
        await watcher.sees("the text of note://1")
        shelf.broken[ONE] = MCPError(-32000, "Not in this encoding")
        await shelf.notify.resource_updated(ONE)
        assert isinstance(await watcher.fails(), RequestFailed)


async def test_what_stands_for_many_is_refused_with_what_to_do_instead() -> None:
    async with connected(Shelf()) as client:
        for pattern in ("note://*", "*"):
            with pytest.raises(
                InvalidUri, match=r"takes the URIs of single resources.*subscribe\(\['.*\*'\]\) and on\("
            ) as no:
                client.watch([ONE, pattern])
            assert ResourceUpdated.__name__ in str(no.value)
        with pytest.raises(ValueError, match="missing= is 'raise' or 'wait', not 'ignore'"):
            client.watch(ONE, missing="ignore")  # type: ignore[arg-type]
