"""Signing in to a server from the page: one button, every step, and out again, against a real authorization server."""

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import Browser, expect

from tests.browser.inspecting import Inspector, Look, inspecting, looking
from tests.client.authorizing import Authorization, guarded

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


@pytest.fixture
def authorization() -> Authorization:
    return Authorization()


@pytest.fixture
async def inspector(authorization: Authorization, tmp_path: Path) -> AsyncGenerator[Inspector]:
    async with guarded(authorization) as url:
        servers = {"guarded": {"url": url, "tidings": {"autoConnect": True}}}
        async with inspecting(tmp_path, servers) as one:
            yield one


@pytest.fixture
async def look(browser: Browser, inspector: Inspector) -> AsyncGenerator[Look]:
    async with looking(browser, inspector, "") as one:
        yield one
        # The window in which one signs in belongs to the authorization server.
        one.outside.clear()


async def _sign_in(look: Look) -> None:
    async with look.page.context.expect_page() as opened:
        await look("sign-in").click()
    page = await opened.value
    await expect(page.locator("body")).to_contain_text("You are signed in")
    await page.close()


async def test_one_button_signs_in_and_the_server_is_used(look: Look, authorization: Authorization) -> None:
    await expect(look("sign-in-page")).to_contain_text("Sign in to guarded")
    await expect(look("server").first).to_contain_text("sign in needed")
    await expect(look("tab-tools")).to_have_count(0)
    await _sign_in(look)
    await look.connected("guarded")
    await look.screen("guarded", "tools", "whoami")
    await look("call").click()
    await expect(look("result")).to_contain_text("ada")
    assert authorization.asked == ["registration", "authorization", "token"]


async def test_each_step_shows_what_was_sent_and_answered_without_secrets(look: Look) -> None:
    await look("stepwise").click()
    await _sign_in(look)
    await look.connected("guarded")
    await expect(look("sign-in-step")).to_have_count(7)
    for name, words in (("Registration", "registered as"), ("Token", "scopes: notes"), ("First answer", "accepts")):
        await look("sign-in-step").filter(has=look.page.get_by_text(name, exact=True)).click()
        await expect(look("sign-in-stepwise")).to_contain_text(words)
    await look("sign-in-step").filter(has=look.page.get_by_text("Token", exact=True)).click()
    await expect(look("sign-in-stepwise").get_by_test_id("json")).to_contain_text("…")
    await expect(look("account")).to_contain_text("default")


async def test_who_signs_out_is_led_back_to_the_button(look: Look, authorization: Authorization) -> None:
    await _sign_in(look)
    await look.connected("guarded")
    await look.screen("guarded", "overview", "sign-in")
    await look("sign-out").click()
    await expect(look("account")).to_have_count(0)
    assert authorization.asked[-1] == "revocation"
    await look.go("#/guarded/overview")
    await expect(look("sign-in-page")).to_be_visible()


async def test_a_sign_in_that_was_revoked_leads_back_to_the_button(look: Look, authorization: Authorization) -> None:
    await _sign_in(look)
    await look.connected("guarded")
    authorization.revoke_all()
    await look.screen("guarded", "tools", "whoami")
    await look("call").click()
    await expect(look("error")).to_contain_text("Sign in again")
    await look("sign-in-link").click()
    await _sign_in(look)
    await look.connected("guarded")


async def test_the_address_of_a_browser_elsewhere_can_be_pasted(look: Look) -> None:
    await look.page.evaluate("window.open = () => null")
    await look("sign-in").click()
    address = await look("sign-in-address").get_attribute("href")
    # The browser elsewhere reaches nobody at the end: its address is pasted.
    async with httpx2.AsyncClient() as elsewhere:
        back = (await elsewhere.get(str(address))).headers["location"]
    await look("pasted-address").fill("http://127.0.0.1/callback?code=wrong&state=other")
    await look("pasted-address").press("Enter")
    await expect(look("error").first).to_contain_text("another sign-in")
    await look("pasted-address").fill(back)
    await look("pasted-address").press("Enter")
    await look.connected("guarded")
