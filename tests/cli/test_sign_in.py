"""Signing in from the command line, to a real authorization server on loopback, with a browser that agrees at once."""

import stat
import sys
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.cli.running import Done, terminal, tidings
from tests.client.authorizing import Authorization, agree, guarded

pytestmark = pytest.mark.anyio

BROWSER = (
    "import sys, urllib.request\n"
    "urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=20).read()\n"
)


@pytest.fixture
async def authorization() -> AsyncGenerator[Authorization]:
    authorization = Authorization()
    with anyio.fail_after(120):
        async with guarded(authorization):
            yield authorization


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The settings of a user, and their browser."""
    browser = tmp_path / "browser.py"
    browser.write_text(BROWSER)
    return {
        "XDG_CONFIG_HOME": str(tmp_path),
        "BROWSER": f"{sys.executable} {browser} %s",
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
    }


async def run(*args: str, **env: str) -> Done:
    return await anyio.to_thread.run_sync(partial(tidings, *args, **env))


async def test_who_has_signed_in_can_use_every_command(authorization: Authorization, home: dict[str, str]) -> None:
    url = authorization.url
    refused = await run("list", url, "--json", **home)
    assert (refused.code, refused.error["code"]) == (4, "sign-in-needed")
    assert f"Run `tidings sign-in {url}`, or give a token" in refused.error["message"]
    done = await run("sign-in", url, "--steps", **home)
    assert (done.code, "Signed in to" in done.err) == (0, True), done.err
    for step in ("challenge", "metadata", "authorization server", "registration", "authorization", "token"):
        assert step in done.err
    assert not any(token in done.err for token in authorization.tokens)
    assert (await run("call", url, "whoami", **home)).out == "ada\n"
    assert (await run("read", url, "note://a", **home)).out == "a secret note"
    kept = Path(home["XDG_CONFIG_HOME"], "tidings/accounts.json")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


async def test_a_token_that_has_expired_is_renewed_and_one_that_was_revoked_leads_back(
    authorization: Authorization, home: dict[str, str]
) -> None:
    assert (await run("sign-in", authorization.url, **home)).code == 0
    authorization.tokens.clear()
    assert (await run("call", authorization.url, "whoami", **home)).out == "ada\n"
    assert "renewal" in authorization.asked
    authorization.revoke_all()
    done = await run("call", authorization.url, "whoami", **home)
    assert (done.code, "has expired or was revoked" in done.err) == (4, True)
    assert (await run("sign-in", authorization.url, **home)).code == 0
    assert (await run("call", authorization.url, "whoami", **home)).out == "ada\n"


async def test_at_a_terminal_a_command_leads_to_the_sign_in_and_then_goes_on(
    authorization: Authorization, home: dict[str, str]
) -> None:
    def call() -> str:
        with terminal("call", authorization.url, "whoami", **home) as screen:
            said = screen.expect("Signed in to ")
            screen.expect("\nada")
            return said

    said = await anyio.to_thread.run_sync(call)
    assert "Your browser opens" in said
    assert "connect(" not in said
    authorization.revoke_all()
    await anyio.to_thread.run_sync(call)


async def test_where_there_is_no_browser_the_address_is_pasted(
    authorization: Authorization, home: dict[str, str]
) -> None:
    def sign_in() -> None:
        with terminal("sign-in", authorization.url, "--no-browser", **home) as screen:
            address = screen.expect("paste the address").split("\r\n  http", 1)[1].split("\r\n")[0]
            back = anyio.from_thread.run(partial(agree, f"http{address}", visit=False))
            screen.type("http://127.0.0.1/callback?code=x&state=y\n")
            screen.expect("of another sign-in")
            screen.type(f"{back}\n")
            screen.expect("Signed in to ")

    await anyio.to_thread.run_sync(sign_in)
    assert (await run("call", authorization.url, "whoami", **home)).out == "ada\n"


async def test_accounts_are_listed_chosen_and_signed_out(authorization: Authorization, home: dict[str, str]) -> None:
    url = authorization.url
    assert "No account is signed in" in (await run("accounts", **home)).err
    for name in ("work", "home"):
        assert (await run("sign-in", url, "--account", name, **home)).code == 0
    said = (await run("accounts", "--json", **home)).json["accounts"]
    assert {each["name"]: each["current"] for each in said} == {"home": True, "work": False}
    assert "* home" in (await run("accounts", **home)).out
    assert (await run("call", url, "whoami", "--account", "work", **home)).out == "ada\n"
    done = await run("sign-out", url, "--account", "work", **home)
    assert (done.code, "revoked" in done.out, "revocation" in authorization.asked) == (0, True, True)
    assert (await run("sign-out", url, **home)).code == 0
    assert (await run("accounts", "--json", **home)).json == {"accounts": []}
    done = await run("sign-out", url, **home)
    assert (done.code, "Nobody is signed in" in done.err) == (2, True)


async def test_who_does_not_agree_is_told_so(authorization: Authorization, home: dict[str, str]) -> None:
    authorization.agrees = False
    done = await run("sign-in", authorization.url, **home)
    assert (done.code, "The user said no" in done.err) == (4, True)


async def test_a_token_comes_from_a_variable_of_any_name(authorization: Authorization, home: dict[str, str]) -> None:
    assert (await run("sign-in", authorization.url, **home)).code == 0
    token = next(iter(authorization.tokens))
    Path(home["XDG_CONFIG_HOME"], "tidings/accounts.json").unlink()
    done = await run("call", authorization.url, "whoami", "--token-env", "MINE", MINE=token, **home)
    assert done.out == "ada\n"
    done = await run("call", authorization.url, "whoami", "--token-env", "MINE", **home)
    assert (done.code, "the variable MINE is not set" in done.err) == (2, True)


async def test_a_command_has_no_sign_in(home: dict[str, str]) -> None:
    done = await run("sign-in", "python server.py", **home)
    assert (done.code, "only servers at a URL have a sign-in" in done.err) == (2, True)
