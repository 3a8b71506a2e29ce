"""Signing in by OAuth, by a person: once, kept, renewed, and asked for again when it has ended."""

import asyncio
import json
import stat
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import httpx2
import keyring
import keyring.backend
import keyring.errors
import pytest

from tests.client.authorizing import Authorization, agree, guarded
from tests.client.misbehaving import site
from tidings import connect
from tidings.client.accounts import Accounts
from tidings.client.config import Backoff, ClientConfig
from tidings.client.sign_in import SigningIn, SignInStep, kept_sign_in, sign_out
from tidings.errors import NotAuthorized, SignInNeeded

pytestmark = pytest.mark.anyio

ONCE = ClientConfig(backoff=Backoff(tries=0, lost_tries=0))


@pytest.fixture
async def authorization() -> AsyncGenerator[Authorization]:
    authorization = Authorization()
    with anyio.fail_after(60):
        async with guarded(authorization):
            yield authorization


@pytest.fixture
def accounts(tmp_path: Path) -> Accounts:
    return Accounts(tmp_path / "accounts.json")


async def signed_in(url: str, accounts: Accounts, account: str = "") -> SigningIn:
    """Signs in with a browser on this machine."""
    tasks: list[asyncio.Task[str]] = []
    signing_in = SigningIn(
        url,
        account=account,
        accounts=accounts,
        open_browser=lambda address: tasks.append(asyncio.create_task(agree(address))),
    )
    await signing_in.run()
    await asyncio.gather(*tasks)
    return signing_in


async def secret(url: str, accounts: Accounts, account: str = "") -> str:
    async with connect(url, auth=kept_sign_in(url, account, accounts), config=ONCE) as client:
        return (await client.read_resource("note://a")).text


async def test_a_server_that_wants_a_sign_in_says_so_by_name(authorization: Authorization) -> None:
    with pytest.raises(SignInNeeded) as error:
        await connect(authorization.url, config=ONCE).connect()
    assert error.value.code == "sign-in-needed"


async def test_one_sign_in_serves_all_connections(authorization: Authorization, accounts: Accounts) -> None:
    signing_in = await signed_in(authorization.url, accounts)
    assert [step.name for step in signing_in.steps] == [
        "challenge",
        "metadata",
        "authorization server",
        "registration",
        "authorization",
        "authorization",
        "token",
        "first answer",
    ]
    assert [step.status for step in signing_in.steps] == [401, 200, 200, 201, None, 302, 200, 400]
    for _ in range(2):
        assert await secret(authorization.url, accounts) == "a secret note"
    assert authorization.asked == ["registration", "authorization", "token"]
    (account,) = accounts.of(authorization.url)
    assert (account.name, account.scope, account.renewable) == ("default", "notes", True)
    assert stat.S_IMODE(accounts.path.stat().st_mode) == 0o600


async def test_no_step_shows_a_secret(authorization: Authorization, accounts: Accounts) -> None:
    signing_in = await signed_in(authorization.url, accounts)
    shown = json.dumps([step.as_json() for step in signing_in.steps])
    client = next(iter(authorization.clients.values()))
    for secret in (*authorization.tokens, *authorization.renewals, client.client_secret or "none"):
        assert secret not in shown


async def test_where_there_is_no_browser_the_address_is_pasted(
    authorization: Authorization, accounts: Accounts
) -> None:
    waiting = anyio.Event()
    signing_in = SigningIn(authorization.url, accounts=accounts, open_browser=lambda _: waiting.set())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(signing_in.run)
        await waiting.wait()
        async with httpx2.AsyncClient() as elsewhere:
            landed = (await elsewhere.get(signing_in.address)).headers["location"]
        for wrong in ("", "http://127.0.0.1/callback?nothing=1", landed.replace("state=", "state=other")):
            with pytest.raises(ValueError, match="Paste"):
                signing_in.finish(wrong)
        signing_in.finish(f"  {landed}\n")
    assert await secret(authorization.url, accounts) == "a secret note"


async def test_the_code_alone_can_be_pasted(authorization: Authorization, accounts: Accounts) -> None:
    waiting = anyio.Event()
    signing_in = SigningIn(authorization.url, accounts=accounts, open_browser=lambda _: waiting.set())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(signing_in.run)
        await waiting.wait()
        async with httpx2.AsyncClient() as elsewhere:
            landed = httpx2.URL((await elsewhere.get(signing_in.address)).headers["location"])
        signing_in.finish(landed.params["code"])
    assert await secret(authorization.url, accounts) == "a secret note"


async def test_who_says_no_is_not_signed_in(authorization: Authorization, accounts: Accounts) -> None:
    authorization.agrees = False
    with pytest.raises(NotAuthorized, match="The user said no"):
        await signed_in(authorization.url, accounts)
    assert accounts.all() == []


async def test_an_expired_token_is_renewed_without_a_person(authorization: Authorization, accounts: Accounts) -> None:
    await signed_in(authorization.url, accounts)
    account = accounts.get(authorization.url)
    assert account is not None
    accounts.note(account, expires=1.0)
    assert await secret(authorization.url, accounts) == "a secret note"
    assert authorization.asked == ["registration", "authorization", "token", "renewal"]
    assert await secret(authorization.url, accounts) == "a secret note"
    assert authorization.asked[-1] == "renewal"
    assert authorization.asked.count("renewal") == 1


async def test_a_token_that_is_revoked_early_is_renewed_too(authorization: Authorization, accounts: Accounts) -> None:
    await signed_in(authorization.url, accounts)
    async with connect(authorization.url, auth=kept_sign_in(authorization.url, "", accounts), config=ONCE) as client:
        authorization.tokens.clear()
        results = await asyncio.gather(*(client.call_tool("whoami") for _ in range(3)))
        assert all(result.success for result in results)
    assert authorization.asked.count("renewal") == 1


async def test_two_programs_renew_a_token_once_each_at_most(authorization: Authorization, accounts: Accounts) -> None:
    await signed_in(authorization.url, accounts)
    ways = [kept_sign_in(authorization.url, "", accounts) for _ in range(2)]
    async with (
        connect(authorization.url, auth=ways[0], config=ONCE) as one,
        connect(authorization.url, auth=ways[1], config=ONCE) as other,
    ):
        authorization.tokens.clear()
        assert (await one.call_tool("whoami")).success
        assert (await other.call_tool("whoami")).success
    assert authorization.asked.count("renewal") == 1


async def test_a_revoked_sign_in_leads_back_to_one_sign_in(authorization: Authorization, accounts: Accounts) -> None:
    await signed_in(authorization.url, accounts)
    authorization.revoke_all()
    before = list(authorization.asked)
    with pytest.raises(SignInNeeded, match="Sign in again"):
        await secret(authorization.url, accounts)
    assert authorization.asked == before
    await signed_in(authorization.url, accounts)
    assert await secret(authorization.url, accounts) == "a secret note"
    assert len(accounts.all()) == 1


async def test_a_connection_whose_sign_in_is_revoked_ends_with_that_reason(
    authorization: Authorization, accounts: Accounts
) -> None:
    await signed_in(authorization.url, accounts)
    async with connect(authorization.url, auth=kept_sign_in(authorization.url, "", accounts)) as client:
        authorization.revoke_all()
        with pytest.raises(SignInNeeded):
            await client.call_tool("whoami")


async def test_several_accounts_are_kept_and_the_last_one_is_used(
    authorization: Authorization, accounts: Accounts
) -> None:
    for name in ("work", "home"):
        await signed_in(authorization.url, accounts, name)
    assert [account.name for account in accounts.of(authorization.url)] == ["home", "work"]
    accounts.use(authorization.url, "work")
    assert [account.name for account in accounts.of(authorization.url)] == ["work", "home"]
    assert await secret(authorization.url, accounts, "home") == "a secret note"
    work = accounts.get(authorization.url)
    assert work is not None
    assert await sign_out(work, accounts)
    assert authorization.asked[-1] == "revocation"
    assert [account.name for account in accounts.of(authorization.url)] == ["home"]


async def test_a_scope_that_is_missing_is_asked_for_at_the_next_sign_in(
    authorization: Authorization, accounts: Accounts
) -> None:
    await signed_in(authorization.url, accounts)
    account = accounts.get(authorization.url)
    assert account is not None
    accounts.note(account, wanted="more notes")
    await signed_in(authorization.url, accounts)
    assert {token.scopes[0] for token in authorization.tokens.values()} == {"notes", "more"}


async def test_a_server_that_offers_no_sign_in_says_what_it_wants(accounts: Accounts) -> None:
    async with site(lambda asked: asked.answer(401 if asked.path == "/mcp" else 404)) as here:
        steps: list[SignInStep] = []
        with pytest.raises(NotAuthorized, match="--token"):
            await SigningIn(here.url, accounts=accounts, on_step=steps.append).run()
        assert steps[0].status == 401


class Keychain(keyring.backend.KeyringBackend):
    """A keychain that takes short secrets only, as some do."""

    priority = 5  # pyright: ignore[reportAssignmentType]

    def __init__(self, longest: int) -> None:
        super().__init__()
        self.kept: dict[str, str] = {}
        self._longest = longest

    def set_password(self, service: str, username: str, password: str) -> None:
        if len(password) > self._longest:
            raise keyring.errors.PasswordSetError("too long")
        self.kept[username] = password

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get(username)

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[username]


@pytest.mark.parametrize("longest", [100_000, 10])
async def test_tokens_are_in_the_keychain_where_they_fit(
    authorization: Authorization, accounts: Accounts, longest: int
) -> None:
    before, keychain = keyring.get_keyring(), Keychain(longest)
    keyring.set_keyring(keychain)
    try:
        await signed_in(authorization.url, accounts)
        (account,) = accounts.all()
        assert account.in_keychain == bool(keychain.kept) == (longest > 10)
        (token,) = authorization.tokens
        assert (token in accounts.path.read_text()) == (longest == 10)
        assert await secret(authorization.url, accounts) == "a secret note"
        await sign_out(account, accounts)
        assert not keychain.kept
        assert accounts.all() == []
    finally:
        keyring.set_keyring(before)
