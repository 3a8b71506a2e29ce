"""The events of a server: their types, what happened, and what became of deliveries to a webhook."""

from collections.abc import AsyncGenerator

import anyio
import pytest
from playwright.async_api import Browser, expect

import tidings
from tests.browser.inspecting import Look, inspecting, looking
from tests.browser.test_screens import violations
from tests.server.events.eventing import CREATED, OrderCreated, shop
from tests.server.events.receiving import SECRET, Receiver, receiving
from tests.server.serving import serving
from tidings import LiveServer
from tidings.server import Events, Webhooks

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


@pytest.fixture
def server() -> LiveServer:
    return shop(events=Events(webhooks=Webhooks(local=True, retries=(0.05,))))


@pytest.fixture
async def hook() -> AsyncGenerator[Receiver]:
    async with receiving() as one:
        yield one


@pytest.fixture
async def look(browser: Browser, tmp_path_factory: pytest.TempPathFactory, server: LiveServer) -> AsyncGenerator[Look]:
    async with serving(server.asgi()) as port:
        entry = {"url": f"http://127.0.0.1:{port}/mcp", "tidings": {"autoConnect": True}}
        folder = tmp_path_factory.mktemp("events")
        async with (
            inspecting(folder, {"shop": entry}) as inspector,
            looking(browser, inspector, bypass_csp=True) as one,
        ):
            yield one


async def test_types_happenings_and_deliveries_are_shown_and_delivered_again(
    look: Look, server: LiveServer, hook: Receiver
) -> None:
    await look.connected("shop")
    delivery = {"mode": "webhook", "url": hook.url(), "secret": SECRET}
    async with tidings.connect(server) as client:
        await client.request("events/subscribe", {"name": CREATED, "arguments": {}, "delivery": delivery})
    hook.answering = lambda _path, _body: 422
    await server.notify.event(CREATED, OrderCreated(order="cup"))

    await look.screen("shop", "tasks")
    await look("show-events").click()
    pane = look("events")
    await expect(pane).to_contain_text("An order came in.")
    await expect(pane).to_contain_text(hook.url())
    row = pane.get_by_role("button").filter(has_text="2 of 2")
    while not await row.count():
        await pane.get_by_role("button", name="Read again").click()
        await anyio.lowlevel.checkpoint()
    assert await violations(look) == []

    await row.click()
    await expect(pane).to_contain_text("parked")
    await expect(look("json-answer")).to_contain_text("422")
    hook.answering = lambda _path, _body: 200
    await pane.get_by_role("button", name="Deliver now").click()
    await hook.has(lambda: hook.orders() == ["cup"] and len(hook.posts) > 1)

    await pane.get_by_test_id("event").filter(has_text=CREATED).click()
    await look("poll").click()
    await expect(look("poll-note")).to_contain_text("0 new events")
    await server.notify.event(CREATED, OrderCreated(order="plate"))
    await look("poll").click()
    await expect(look("poll-note")).to_contain_text("1 new event;")
    await look("happened").click()
    await expect(look("happened")).to_contain_text("plate")
