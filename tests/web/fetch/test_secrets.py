"""Secrets by name, and POST requests: sent where they may go, and shown nowhere."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

import pytest

from tests.web.agent import at
from tests.web.fetch.servers import Ask, Page, fetcher, leads_to, site, text
from tests.web.shelf import both, shelf
from tidings.web.fetch.request import BadRequest, Request, TooManyRedirects
from tidings.web.page_options import FetchOptions
from tidings.web.watch.watcher import TOOL

pytestmark = pytest.mark.anyio

KEY = 's3cret&key"of/the shop'
SECRETS = {"TOKEN": (["127.0.0.1"], KEY), "EMPTY": (["127.0.0.1"], "")}
LOGIN = {"Authorization": "Bearer $TOKEN"}


async def echo(ask: Ask) -> None:
    """A site that tells everybody what it was sent."""
    sent = " ".join(ask.headers.values())
    forms = f"You sent {sent} or {escape(sent)} or {quote(sent)} or {json.dumps(sent)} to us, and we keep it."
    await ask.reply(forms.encode(), Content_Type="text/plain", X_Sent=sent, ETag=f'"{quote(sent, safe="")}"')


async def test_a_secret_is_sent_by_its_name_and_hidden_where_the_site_shows_it() -> None:
    async with site({"/": echo}) as here, fetcher(secrets=SECRETS) as fetch:
        response = await fetch.fetch(Request(here.url(), headers=LOGIN))

        assert here.asked[-1].headers["authorization"] == f"Bearer {KEY}"
        assert b"Bearer $TOKEN" in response.body
        shown = repr(response)
        assert all(form not in shown for form in (KEY, escape(KEY), quote(KEY), quote(KEY, safe=""), json.dumps(KEY)))


async def test_an_error_does_not_show_a_secret_that_the_site_put_into_an_address() -> None:
    async with site() as here, fetcher(secrets=SECRETS) as fetch:
        here.pages["/"] = leads_to(here.url(f"/?key={quote(KEY)}"), 302)
        here.pages[f"/?key={quote(KEY)}"] = leads_to(here.url("/"), 302)
        with pytest.raises(TooManyRedirects) as raised:
            await fetch.fetch(Request(here.url("/"), headers=LOGIN, respect_robots=False, max_redirects=0))
        assert "$TOKEN" in str(raised.value)
        assert quote(KEY) not in str(raised.value)


@pytest.mark.parametrize("header", ["User-Agent", "Accept"])
async def test_a_secret_is_not_sent_in_a_header_that_every_host_gets(header: str) -> None:
    async with site({"/": echo}) as here, fetcher(secrets=SECRETS) as fetch:
        with pytest.raises(BadRequest, match=f"header {header} cannot have a secret"):
            await fetch.fetch(Request(here.url(), headers={header: "$TOKEN"}))
        assert here.asked == []


@pytest.mark.parametrize("header", ["$OTHER", "$EMPTY", "$PATH"])
async def test_only_what_the_operator_allows_is_sent(header: str) -> None:
    async with site({"/": echo}) as here, fetcher(secrets=SECRETS) as fetch:
        with pytest.raises(BadRequest, match="--secrets") as raised:
            await fetch.fetch(Request(here.url(), headers={"X-Key": header}))
        with pytest.raises(BadRequest, match="may not be sent to localhost"):
            await fetch.fetch(Request(here.url("/", "localhost"), headers=LOGIN))
        assert here.asked == []
        assert KEY not in str(raised.value)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_secret_and_a_body_never_follow_a_redirect_to_another_origin(status: int) -> None:
    async with site({"/": echo}) as other, site() as here, fetcher(secrets=SECRETS) as fetch:
        here.pages["/"] = leads_to(other.url("/"), status)
        request = Request(here.url("/"), headers=LOGIN, body='{"key": "$TOKEN"}', respect_robots=False)
        await fetch.fetch(request)

        (asked,) = other.asked
        assert KEY not in str(asked.headers)
        assert "content-length" not in asked.headers


@dataclass
class Answers:
    """A GraphQL endpoint: it takes a body, and answers with the state."""

    state: str = "packed"
    bodies: tuple[str, ...] = ()

    async def __call__(self, ask: Ask) -> None:
        self.bodies += (ask.body.decode(),)
        await ask.reply(json.dumps({"data": {"state": self.state}}).encode(), Content_Type="application/json")


async def test_a_post_request_can_be_watched_in_a_part() -> None:
    orders = Answers()
    async with shelf({"/graphql": orders}) as here:
        asked = FetchOptions(body='{"query": "{ state }"}', part="json:$.data.state")
        fetched = await here.library.fetch(here.site.url("/graphql"), asked)
        page_id = fetched.entry.page_id
        assert fetched.entry.packet["content"].strip() == "packed"
        await here.watcher.begin(page_id, TOOL)
        here.heard()
        for state, told in (("packed", []), ("sent", both(page_id))):
            orders.state = state
            await here.later()
            assert here.heard()[0] == told
        assert set(orders.bodies) == {'{"query": "{ state }"}'}
        assert here.requests()[-1].headers["content-type"] == "application/json"
        other = await here.library.fetch(here.site.url("/graphql"), FetchOptions(body="{}"))
        assert other.entry.page_id != page_id


async def test_a_watch_keeps_the_names_of_secrets_and_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", KEY)
    pages: Mapping[str, Page] = {"/": echo, "/robots.txt": text("", 404)}
    async with at(dict(pages), secrets="SHOP_TOKEN@127.0.0.1") as agent:
        url = agent.site.url()
        await agent.call("watch", page=url, headers={"Authorization": "Bearer $SHOP_TOKEN"})
        assert any(KEY in str(ask.headers) for ask in agent.site.asked)
        stored = str([await agent.server.store.page_of(url), await agent.server.store.watches()])
        (watched,) = (await agent.call("watch"))["watched"]
        shown = await agent.call("fetch", urls=[watched["page_uri"]])
        assert KEY not in stored + json.dumps(shown)
        assert "$SHOP_TOKEN" in stored
        assert "would be stored" in await agent.refused("watch", page=url, headers={"Authorization": f"Bearer {KEY}"})
        assert "would be stored" in await agent.refused("watch", page=url, headers={"Cookie": "session=4$"})
        assert "--secrets" in await agent.refused("watch", page=f"{url}other", headers={"X-Key": "$HOME"})
