"""Subscriptions: what is wanted is heard of, what changed is let go of before that is told, over every connection."""

import asyncio
from typing import Any

import anyio
import pytest

from tests.client.cutting import cable
from tests.client.library import ERAS, SECONDS, Library, connected, eventually, hear, on_the_web
from tidings import ResourceUpdated
from tidings.client import Backoff, ClientConfig, connect
from tidings.client.events import ResourceContentChanged, StateChanged, SubscriptionsChanged
from tidings.errors import InvalidUri, NotConnected, NotSubscribable, ResourceNotFound, ServerError

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

ONE, TWO, FENCE = "note://1", "note://2", "note://fence"
QUICK = ClientConfig(backoff=Backoff(delays=(0.01,), tries=None))


async def _refuse_two(_: Any, uri: str) -> bool:
    return uri != TWO


@ERAS
async def test_one_or_many_are_subscribed_to_and_unsubscribed_from(era: str) -> None:
    library = Library()
    async with connected(library, era) as client:
        told = hear(client, SubscriptionsChanged)
        with anyio.fail_after(SECONDS):
            await client.subscribe(ONE)
            await client.subscribe([TWO, FENCE, ONE])
            assert client.subscriptions == [ONE, TWO, FENCE]
            assert all(map(client.is_subscribed, client.subscriptions))
            assert {uri: library.notify.counts()[uri] for uri in (ONE, TWO, FENCE)} == {ONE: 1, TWO: 1, FENCE: 1}
            await client.unsubscribe([ONE, TWO, "note://never"])
            assert client.subscriptions == [FENCE]
            assert not client.is_subscribed(ONE)
            await eventually(lambda: set(library.notify.counts()) & {ONE, TWO, FENCE} == {FENCE})
            await client.unsubscribe(FENCE)
            await client.unsubscribe(FENCE)
        assert told == [
            SubscriptionsChanged((ONE,)),
            SubscriptionsChanged((ONE, TWO, FENCE)),
            SubscriptionsChanged((FENCE,)),
            SubscriptionsChanged(()),
        ]


@ERAS
async def test_a_refused_subscription_raises_and_leaves_nothing(era: str) -> None:
    library = Library(authorize=_refuse_two)
    async with connected(library, era) as client:
        told = hear(client, SubscriptionsChanged)
        with anyio.fail_after(SECONDS):
            with pytest.raises((NotSubscribable, ResourceNotFound)) as refusal:
                await client.subscribe(TWO)
            assert isinstance(refusal.value, ServerError)
            assert (client.subscriptions, told) == ([], [])
            with pytest.raises((NotSubscribable, ResourceNotFound)):
                await client.subscribe([ONE, TWO])
            assert client.subscriptions == [ONE]
            assert told == [SubscriptionsChanged((ONE,))]
            await library.write(ONE, "new")
            heard = hear(client, ResourceUpdated)
            await library.write(ONE, "newer")
            await eventually(lambda: heard)


@ERAS
async def test_each_of_two_who_ask_at_once_for_what_is_refused_is_told_so(era: str) -> None:
    async with connected(Library(authorize=_refuse_two), era) as client:
        with anyio.fail_after(SECONDS):
            outcomes = await asyncio.gather(client.subscribe(TWO), client.subscribe(TWO), return_exceptions=True)
        assert [isinstance(outcome, ServerError) for outcome in outcomes] == [True, True]
        assert client.subscriptions == []


@ERAS
async def test_one_who_asked_and_gave_up_takes_nothing_from_another(era: str) -> None:
    gate = anyio.Event()

    async def authorize(_: Any, uri: str) -> bool:
        if uri == ONE:
            await gate.wait()
        return True

    library = Library(authorize=authorize)
    async with connected(library, era) as client:
        impatient, patient = (asyncio.create_task(client.subscribe(ONE)) for _ in range(2))
        alone = asyncio.create_task(client.subscribe(TWO))
        await eventually(lambda: client._subscriptions.all == {ONE, TWO})
        assert client.subscriptions == []
        assert not client.is_subscribed(ONE)
        impatient.cancel()
        alone.cancel()
        await asyncio.wait([impatient, alone])
        gate.set()
        with anyio.fail_after(SECONDS):
            await patient
            assert client.subscriptions == [ONE]
            heard = hear(client, ResourceUpdated)
            await library.write(ONE, "new")
            await eventually(lambda: heard)


@ERAS
async def test_what_is_no_uri_is_refused_before_the_server_hears_of_it(era: str) -> None:
    async with connected(Library(), era) as client:
        with anyio.fail_after(SECONDS), pytest.raises(InvalidUri):
            await client.subscribe([ONE, "today"])
        assert client.subscriptions == []


async def test_nothing_is_subscribed_to_before_there_is_a_connection() -> None:
    client = connect(Library().server)
    with pytest.raises(NotConnected):
        await client.subscribe(ONE)
    assert client.subscriptions == []
    assert not client.supports_subscriptions
    await client.aclose()


@ERAS
async def test_an_update_of_what_is_not_subscribed_to_is_ignored(era: str) -> None:
    library = Library()
    async with connected(library, era) as client:
        with anyio.fail_after(SECONDS):
            await client.subscribe(FENCE)
            read = await client.read_resource(ONE)
            heard = hear(client, ResourceUpdated)
            await library.write(ONE, "new")
            if era == "legacy":
                await library.session.send_resource_updated(ONE)  # Though it did not ask.
            await library.write(FENCE, "new")
            await eventually(lambda: heard)
        assert heard == [ResourceUpdated(FENCE)]
        assert client.cache.get_resource(ONE) is read


@ERAS
async def test_an_update_of_a_part_drops_the_whole_and_the_copies_of_templates(era: str) -> None:
    library = Library()
    library.templates.append("book://{name}")
    book = "book://moby"
    async with connected(library, era) as client:
        with anyio.fail_after(SECONDS):
            await client.subscribe(book)
            await client.read_resource_from_template("book://{name}", {"name": "moby"})
            part = await client.read_resource(book + "/1")
            elsewhere = await client.read_resource("book://mob")
            seen: list[Any] = []
            client.on(ResourceUpdated, lambda event: seen.append((event.uri, *map(cached, (book, event.uri)))))

            def cached(uri: str) -> object:
                return client.cache.get_resource(uri) or client.cache.get_resource_template("book://{name}")

            assert cached(book) is not None
            if era == "legacy":
                await library.session.send_resource_updated(book + "/1")
            else:
                client._subscriptions.changed(ResourceUpdated(book + "/1"))  # As a server of others' may say it.
            await eventually(lambda: seen)
        assert seen == [(book + "/1", None, None)]
        assert client.cache.get_resource(book + "/1") is None is not part
        assert client.cache.get_resource("book://mob") is elsewhere


@ERAS
async def test_a_prefix_hears_of_everything_under_it(era: str) -> None:
    library = Library()
    async with connected(library, era) as client:
        with anyio.fail_after(SECONDS):
            await client.subscribe("note://*")
            heard = hear(client, ResourceUpdated)
            await client.read_resource(ONE)
            kept = await client.read_resource("other://1")
            await library.write("other://1", "new")
            await library.write(ONE, "new")
            await eventually(lambda: heard)
        assert heard == [ResourceUpdated(ONE)]
        assert client.cache.get_resource(ONE) is None
        assert client.cache.get_resource("other://1") is kept


@ERAS
async def test_content_that_was_read_before_a_subscription_is_read_again(era: str) -> None:
    library = Library()
    async with connected(library, era) as client:
        with anyio.fail_after(SECONDS):
            await client.read_resource_from_template("a://{x}", {"x": "1"})
            await client.read_resource(ONE)
            library.texts["a://1"] = library.texts[ONE] = "new"
            heard = hear(client, ResourceUpdated, ResourceContentChanged)
            await client.subscribe(["a://1", "note://*"])
            await client.wait_fresh()
        read = client.cache.get_resource("a://1")
        assert read is not None
        assert read.text == "new"
        assert client.cache.get_resource_template("a://{x}") is None
        assert client.cache.get_resource(ONE) is None
        assert heard.count(ResourceUpdated("a://1")) == heard.count(ResourceUpdated(ONE)) == 1
        assert heard.count(ResourceContentChanged("a://1", read)) == 1
        assert heard.index(ResourceUpdated("a://1")) < heard.index(ResourceContentChanged("a://1", read))


@ERAS
async def test_a_lost_connection_keeps_cache_and_subscriptions_and_catches_up(era: str) -> None:
    library = Library()
    async with on_the_web(library) as url, cable(url) as cut:
        client = connect(cut.url, era=era, config=QUICK)
        with anyio.fail_after(SECONDS):
            await client.connect()
            await client.subscribe([ONE, TWO, "a://*"])
            await client.read_resource(ONE)
            same = await client.read_resource(TWO)
            await client.read_resource("a://1")
            await client.read_resource_from_template("b://{x}", {"x": "1"})
            await client.subscribe("b://1")
            states, heard = hear(client, StateChanged), hear(client, ResourceUpdated, SubscriptionsChanged)
            await cut.cut()
            await eventually(lambda: states)
            assert client.subscriptions == [ONE, TWO, "a://*", "b://1"]
            assert client.cache.get_resource(TWO) is same
            assert not client.is_fresh(TWO)
            for uri in (ONE, "a://1", "b://1"):
                await library.write(uri, "written while the cable was cut")
            await cut.mend()
            await eventually(lambda: client.connected)
            await client.wait_fresh()
            await eventually(lambda: ResourceUpdated(ONE) in heard and ResourceUpdated("b://1") in heard)
            await client.wait_fresh()
        for uri in (ONE, TWO, "a://1", "b://1"):
            copies = client._wiring.cache.copies(uri)
            assert {copy.text for copy in copies} <= {library.texts.get(uri, f"the text of {uri}")}, uri
        assert client.cache.get_resource(TWO) is not None
        assert ResourceUpdated(TWO) not in heard
        assert SubscriptionsChanged not in map(type, heard)
        await client.aclose()
