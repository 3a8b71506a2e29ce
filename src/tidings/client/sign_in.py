"""Signing in to servers by OAuth: discovery, registration, authorisation with PKCE, tokens that are kept and renewed.

    signing_in = SigningIn(url, open_browser=webbrowser.open, on_step=print)
    account = await signing_in.run()                  # a person signs in; the account is kept
    connect(url, auth=kept_sign_in(url))              # from now on, in every program

`SignIn` is the `httpx2.Auth` of connections: it renews tokens without a person, and raises `SignInNeeded` where one is
needed. The protocol is that of the SDK's providers. A provider works only while a token is fetched, since it admits one
request at a time.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import anyio
import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, TokenStorage
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared import auth
from pydantic import AnyUrl

from tidings._kit.bounded_json import as_dict
from tidings._kit.text import harmless, one_line
from tidings.client.accounts import Account, Accounts, default_accounts
from tidings.client.masking import shown_url
from tidings.client.sdk_seam import quiet
from tidings.client.transports.tap import BoundedTransport
from tidings.errors import ConnectFailed, NotAuthorized, SignInNeeded

_CALLBACK: Final = "/callback"
_PATIENCE: Final = 300.0  # Seconds for a person to sign in.
_EARLY: Final = 30.0  # Seconds before a token expires in which it is renewed; less if it lives for minutes only.
_LARGEST: Final = 2**20  # Bytes of an answer.
_SHOWN: Final = 2_000  # Characters of an answer that is not JSON.
_SECRETS: Final = {
    *("access_token", "refresh_token", "id_token", "client_secret", "client_assertion", "code", "code_verifier"),
    *("state", "token", "registration_access_token"),
}
_OFFERS: Final = {
    "registration_endpoint": "registration",
    "client_id_metadata_document_supported": "client-id documents",
    "revocation_endpoint": "revocation",
    "code_challenge_methods_supported": "PKCE",
}
_PROBE: Final = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_ACCEPTED: Final = {"accept": "application/json, text/event-stream"}
_PARAMETER: Final = re.compile(r"(\w+)=(?:\"([^\"]*)\"|([^\s,]+))")
_PAGE: Final = "<!doctype html><meta charset=utf-8><title>Tidings</title><body style='font:16px system-ui;margin:4em'>"


class _Kept(TokenStorage):
    """The tokens of one account, for a provider of the SDK; without `accounts`, they live as long as this object."""

    def __init__(self, url: str, accounts: Accounts | None, name: str = "", *, renews: bool = True) -> None:
        self.url = url
        self.accounts = accounts
        self.name = name
        self.secrets: dict[str, Any] = {}
        self.context = OAuthContext(url, _metadata([]), self, None, None)  # That of the provider that works.
        self._expires: float | None = None
        self._renews = renews  # False: a person signs in, whatever is kept.
        self._is_loaded = accounts is None

    @property
    def account(self) -> Account | None:
        return None if self.accounts is None else self.accounts.get(self.url, self.name)

    async def token(self, *, again: bool = False) -> str:
        """Returns the access token; empty without a valid one. `again`: another program may have renewed it."""
        if self.accounts is not None and (again or not self._is_loaded):
            account = await asyncio.to_thread(lambda: self.account)
            self.secrets = {} if account is None else await asyncio.to_thread(self.accounts.secrets, account)
            self.name = self.name if account is None else account.name
            self._expires = None if account is None else account.expires
            self._is_loaded = True
        is_over = self._expires is not None and time.time() > self._expires
        return "" if is_over else as_dict(self.secrets.get("tokens")).get("access_token", "")

    async def get_tokens(self) -> auth.OAuthToken | None:
        """Returns the tokens to renew. Whoever asks has found the access token to be of no use any more."""
        context, secrets = self.context, self.secrets
        if not self._renews or "tokens" not in secrets:
            return None
        if "metadata" in secrets:
            context.oauth_metadata = auth.OAuthMetadata.model_validate(secrets["metadata"])
        if "resource" in secrets:
            context.protected_resource_metadata = auth.ProtectedResourceMetadata.model_validate(secrets["resource"])
        context.auth_server_url = secrets.get("server")
        context.token_expiry_time = 1.0
        return auth.OAuthToken.model_validate(secrets["tokens"])

    async def set_tokens(self, tokens: auth.OAuthToken) -> None:
        context = self.context
        models = {
            "tokens": tokens,
            "client": context.client_info,
            "metadata": context.oauth_metadata,
            "resource": context.protected_resource_metadata,
        }
        dumped = {key: each.model_dump(mode="json", exclude_none=True) for key, each in models.items() if each}
        self.secrets = {**dumped, "server": context.auth_server_url, "given": self.secrets.get("given", False)}
        lasts = tokens.expires_in
        self._expires = None if lasts is None else time.time() + lasts - min(_EARLY, lasts / 10)
        if self.accounts is not None:
            issuer = context.oauth_metadata.issuer if context.oauth_metadata else context.auth_server_url
            facts = {
                "expires": self._expires,
                "scope": tokens.scope or "",
                "issuer": str(issuer or ""),
                "renewable": tokens.refresh_token is not None,
                **({} if self._renews else {"signed_in": time.time()}),
            }
            keep = self.accounts.keep
            await asyncio.to_thread(keep, self.url, self.name, facts, self.secrets, use=not self._renews)

    async def get_client_info(self) -> auth.OAuthClientInformationFull | None:
        """Returns the registration; for a new sign-in only if it was given, since a server may forget others."""
        if "client" not in self.secrets or not (self._renews or self.secrets.get("given")):
            return None
        return auth.OAuthClientInformationFull.model_validate(self.secrets["client"])

    async def set_client_info(self, client_info: auth.OAuthClientInformationFull) -> None:
        """Does nothing: a registration is kept together with the tokens."""


class SignIn(httpx2.Auth):
    """Sends a token with each request and renews it. `alone`: no person is needed for a new one."""

    def __init__(self, kept: _Kept, provider: Callable[[], OAuthClientProvider], *, alone: bool = False) -> None:
        self._kept = kept
        self._provider = provider
        self._alone = alone
        self._lock = anyio.Lock()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        refusal: httpx2.Response | None = None
        if token := await self._kept.token():
            request.headers["Authorization"] = f"Bearer {token}"
            refusal = yield request
            if not _refuses(refusal):
                return
        async with self._lock:
            newer = await self._kept.token(again=True)
            if newer and newer != token:  # Another request has renewed it, or another program.
                request.headers["Authorization"] = f"Bearer {newer}"
                refusal = yield request
                if not _refuses(refusal):
                    return
            request.headers.pop("Authorization", None)
            flow = self._renewal(request, refusal)
            with suppress(StopAsyncIteration):
                outgoing = await anext(flow)
                while True:
                    outgoing = await flow.asend((yield outgoing))

    async def _renewal(
        self, request: httpx2.Request, refusal: httpx2.Response | None
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Gets another token, by the SDK's provider, and sends the request with it."""
        provider = self._provider()
        self._kept.context = provider.context
        flow = provider.async_auth_flow(request)
        async with aclosing(flow):
            outgoing = await anext(flow)
            while outgoing is not request:  # It renews the token.
                outgoing = await flow.asend((yield outgoing))
            if refusal is None or "Authorization" in request.headers:
                refusal = yield request
            with suppress(StopAsyncIteration):
                while _refuses(refusal):
                    if not self._alone:
                        raise await self._needed(refusal)
                    outgoing = await flow.asend(refusal)
                    while outgoing is not request:
                        outgoing = await flow.asend((yield outgoing))
                    refusal = yield request

    async def _needed(self, refusal: httpx2.Response) -> SignInNeeded:
        """Returns the error for a refusal that only a person can end. Scopes that are missing are noted for them."""
        account, accounts = await asyncio.to_thread(lambda: self._kept.account), self._kept.accounts
        where = shown_url(self._kept.url)
        if account is None or accounts is None:
            return SignInNeeded(f"Nobody is signed in to {where} any more. Sign in again.")
        scope = _challenge(refusal).get("scope", "") if refusal.status_code == 403 else ""
        if not scope:
            return SignInNeeded(f"The sign-in to {where} as {account.name} has expired or was revoked. Sign in again.")
        wanted = " ".join(sorted({*account.scope.split(), *scope.split()}))
        await asyncio.to_thread(accounts.note, account, wanted=wanted)
        return SignInNeeded(f"{where} wants more rights than {account.name} has granted ({scope}). Sign in again.")


def kept_sign_in(url: str, name: str = "", accounts: Accounts | None = None) -> SignIn | None:
    """Returns what signs requests to a server with a kept account (by default, the current one); None without one."""
    accounts = accounts or default_accounts()
    if accounts.get(url, name) is None:
        return None
    kept = _Kept(url, accounts, name)
    return SignIn(kept, lambda: OAuthClientProvider(url, _metadata([]), kept))


def sign_in_with_secret(url: str, issuer: str, client_id: str, client_secret: str, scope: str | None) -> SignIn:
    """Returns what signs requests with a token that a program gets by itself, with a secret of its own."""
    kept = _Kept(url, None)

    def provider() -> OAuthClientProvider:
        return ClientCredentialsOAuthProvider(url, kept, client_id, client_secret, scope=scope, issuer=issuer)

    return SignIn(kept, provider, alone=True)


@dataclass(frozen=True)
class SignInStep:
    """One step of a sign-in, with secrets masked. Its status is None while it waits for the person."""

    name: str
    words: str
    status: int | None = None
    ms: float = 0.0
    method: str = ""
    url: str = ""
    request: Any = None
    answer: Any = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(eq=False, repr=False)
class SigningIn(httpx2.Auth):
    """One sign-in by a person, of a new account or of one that has ended.

    It listens on this machine for the browser that comes back. Where that is on another machine, `finish` takes the
    address that it was sent to.

    Args:
        url: The server.
        headers: Sent with each request to the server.
        account: The name of the account; by default that of the current one.
        client_id: The id of a client that is registered already, or the address of a client-id document. Without it,
            the client registers itself.
        client_secret: The secret of a registered client, if it has one.
        port: The port on this machine to which the browser comes back; by default any.
        open_browser: Called with the address to open. `address` has it, too.
        on_step: Called with each step.
        accounts: The place where the account is kept; by default the user's.
    """

    url: str
    _: KW_ONLY
    headers: Mapping[str, str] | None = None
    account: str = ""
    client_id: str = ""
    client_secret: str = ""
    port: int = 0
    open_browser: Callable[[str], object] | None = None
    on_step: Callable[[SignInStep], object] | None = None
    accounts: Accounts = field(default_factory=default_accounts)
    address: str = field(default="", init=False)  # The page where the person signs in, once it is known.
    steps: list[SignInStep] = field(default_factory=list[SignInStep], init=False)

    def __post_init__(self) -> None:
        known = self.accounts.get(self.url, self.account)
        self._wanted = "" if known is None else known.wanted
        name = self.account or (known.name if known else "default")
        self._kept = _Kept(self.url, self.accounts, name, renews=False)
        self._landed: asyncio.Future[dict[str, str]]
        self._asked = 0.0

    async def run(self) -> Account:
        """Signs in, and returns the account. Raises `NotAuthorized`, or `ConnectFailed` if a server is away."""
        where = shown_url(self.url)
        inner = httpx2.AsyncHTTPTransport(verify=httpx2.create_ssl_context())
        self._landed = asyncio.get_running_loop().create_future()
        try:
            with quiet():
                async with (
                    self._listening(),
                    asyncio.timeout(_PATIENCE),
                    httpx2.AsyncClient(transport=BoundedTransport(inner, _LARGEST), timeout=30.0) as client,
                ):
                    headers = {**_ACCEPTED, **(self.headers or {})}
                    async with client.stream("POST", self.url, json=_PROBE, headers=headers, auth=self) as response:
                        refused = _refuses(response)
        except TimeoutError:
            raise NotAuthorized(f"Nobody signed in to {where} within {_PATIENCE / 60:g} minutes. Try again.") from None
        except httpx2.HTTPError as error:
            place = shown_url(str(error.request.url)) if isinstance(error, httpx2.RequestError) else where
            raise ConnectFailed(f"Signing in to {where} failed: {place} cannot be reached ({error}).") from error
        except (OAuthFlowError, ValueError) as error:
            reason = harmless(one_line(str(error))).rstrip(".") + "."
            answers = {each.name: as_dict(each.answer) for each in self.steps}
            if "registration" in answers and not answers.get("authorization server"):
                reason = "It names no authorization server, so it may want a token that you get elsewhere: use --token."
            raise NotAuthorized(f"Signing in to {where} failed. {reason}") from error
        account = await asyncio.to_thread(lambda: self._kept.account)
        if refused or account is None:
            raise NotAuthorized(f"{where} refuses the token that its authorization server has just issued.")
        return account

    def finish(self, pasted: str) -> None:
        """Takes the address to which the browser was sent, or the code in it. Raises `ValueError` if it is neither."""
        text = pasted.strip()
        found = (
            dict(parse_qsl(urlsplit(text).query or text.partition("?")[2] or text)) if "=" in text else {"code": text}
        )
        if not text or not {"code", "error"} & found.keys():
            raise ValueError("This has no code in it. Paste the whole address that the browser shows after signing in.")
        found.setdefault("state", self._state)
        if not self._land(found):
            raise ValueError("This address is of another sign-in. Paste the one of this sign-in.")

    @property
    def _state(self) -> str:
        return dict(parse_qsl(urlsplit(self.address).query)).get("state", "")

    def _land(self, found: dict[str, str]) -> bool:
        """Notes the answer that the browser brought. Returns whether it belongs to this sign-in."""
        if not self.address or found.get("state") != self._state:
            return False
        if not self._landed.done():
            self._landed.set_result(found)
        return True

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        await self._kept.token()
        provider = self._provider()
        began = time.monotonic()
        refusal = yield request
        challenge = _challenge(refusal)
        words = "wants a sign-in" if _refuses(refusal) else "does not ask to sign in by itself"
        self._note(f"challenge: the server {words}", refusal, began, answer=challenge or None)
        async with aclosing(provider.async_auth_flow(request)) as flow:
            await anext(flow)
            if not _refuses(refusal) or self._wanted:
                scope = {"scope": self._wanted} if self._wanted else {}
                shown = ", ".join(f'{key}="{value}"' for key, value in {**challenge, **scope}.items())
                refusal = httpx2.Response(401, headers={"www-authenticate": f"Bearer {shown}"}, request=request)
            outgoing = await flow.asend(refusal)
            while outgoing is not request:
                began = time.monotonic()
                response = yield outgoing
                await response.aread()
                self._note_answer(outgoing, response, began)
                outgoing = await flow.asend(response)
        began = time.monotonic()
        response = yield request
        words = "refuses" if _refuses(response) else "accepts"
        self._note(f"first answer: the server {words} the token", response, began)

    def _provider(self) -> OAuthClientProvider:
        secrets, given = self._kept.secrets, self.client_id
        is_document = given.startswith("https://") and urlsplit(given).path not in ("", "/")
        if given and not is_document:
            method = "client_secret_post" if self.client_secret else "none"
            client = {"client_id": given, "client_secret": self.client_secret or None, "redirect_uris": None}
            secrets |= {"client": {**client, "token_endpoint_auth_method": method}, "given": True}
        provider = OAuthClientProvider(
            self.url,
            _metadata([AnyUrl(f"http://127.0.0.1:{self.port}{_CALLBACK}")]),
            self._kept,
            self._show,
            self._wait,
            client_metadata_url=given if is_document else None,
        )
        self._kept.context = provider.context
        return provider

    async def _show(self, address: str) -> None:
        """Leads the person to the page where they sign in."""
        self.address = address
        asked = dict(parse_qsl(urlsplit(address).query))
        if not any(each.name == "registration" for each in self.steps):
            document = asked["client_id"] == self.client_id and self.client_id.startswith("https://")
            words = f"not needed: {'client-id document' if document else 'known client'} {asked['client_id']}"
            self._add(SignInStep("registration", words))
        self._asked = time.monotonic()
        words = f"waiting for you at {urlsplit(address).hostname}"
        self._add(SignInStep("authorization", words, None, 0.0, "GET", address.partition("?")[0], _shown(asked)))
        if self.open_browser is not None:
            self.open_browser(address)

    async def _wait(self) -> auth.AuthorizationCodeResult:
        found = await self._landed
        asked, waited = self.steps[-1], (time.monotonic() - self._asked) * 1000
        words = "you agreed" if "code" in found else f"refused: {found.get('error')}"
        self._add(SignInStep(asked.name, words, 302, waited, asked.method, asked.url, asked.request, _shown(found)))
        if "code" not in found:
            said = found.get("error_description") or found.get("error") or "it gave no reason"
            raise OAuthFlowError(f"The authorization server did not agree: {said}")
        return auth.AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))

    def _add(self, step: SignInStep) -> None:
        self.steps.append(step)
        if self.on_step is not None:
            self.on_step(step)

    def _note(self, words: str, response: httpx2.Response, began: float, **more: Any) -> None:
        """Adds the step that an answer ended. The words begin with its name."""
        name, _, words = words.partition(": ")
        request, took = response.request, (time.monotonic() - began) * 1000
        words = one_line(harmless(words))
        self._add(SignInStep(name, words, response.status_code, took, request.method, str(request.url), **more))

    def _note_answer(self, request: httpx2.Request, response: httpx2.Response, began: float) -> None:
        """Notes a step between this client and the authorization server, or the metadata of a server."""
        sent, answer = _body(request.content), _body(response.content)
        facts = as_dict(answer) if response.is_success else {}
        refused = as_dict(answer).get("error_description") or as_dict(answer).get("error") or "not found"
        words = f"HTTP {response.status_code}: {refused}"
        if "/.well-known/oauth-protected-resource" in request.url.path:
            name = "metadata"
            words = f"sign in at {', '.join(map(str, facts.get('authorization_servers', ())))}" if facts else words
        elif "/.well-known/" in request.url.path:
            name = "authorization server"
            offers = [word for key, word in _OFFERS.items() if facts.get(key)]
            words = f"{facts.get('issuer')} offers {', '.join(offers) or 'no options'}" if facts else words
        elif "grant_type" in as_dict(sent):
            name = "token"
            words = f"scopes: {facts.get('scope') or 'as asked for'}" if facts else words
        else:
            name = "registration"
            words = f"registered as {facts.get('client_id')}" if facts else words
        self._note(f"{name}: {words}", response, began, request=_shown(sent), answer=_shown(answer))

    @asynccontextmanager
    async def _listening(self) -> AsyncGenerator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, IndexError, TimeoutError):
            async with asyncio.timeout(10.0):
                line = (await reader.readline()).decode("latin-1")
                while (await reader.readline()).strip():
                    pass
                parts = urlsplit(line.split(" ")[1])
                found = dict(parse_qsl(parts.query))
                landed = parts.path == _CALLBACK and self._land(found)
                words = "This page belongs to no sign-in that is going on."
                if landed:
                    did = "You are signed in" if "code" in found else "You did not sign in"
                    words = f"{did}. Close this window, and go back to Tidings."
                body = f"{_PAGE}<p>{words}".encode()
                status = "200 OK" if landed else "404 Not Found"
                head = f"HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\n"
                writer.write(f"{head}cache-control: no-store\r\nconnection: close\r\n\r\n".encode() + body)
                await writer.drain()
        writer.close()


async def sign_out(account: Account, accounts: Accounts | None = None) -> bool:
    """Forgets an account, and revokes its tokens where the server allows it. Returns whether they were revoked."""
    accounts = accounts or default_accounts()
    secrets = await asyncio.to_thread(accounts.secrets, account)
    await asyncio.to_thread(accounts.forget, account)
    address = as_dict(secrets.get("metadata")).get("revocation_endpoint")
    tokens, client = as_dict(secrets.get("tokens")), as_dict(secrets.get("client"))
    if not address or not tokens:
        return False
    kind = "refresh_token" if "refresh_token" in tokens else "access_token"
    data = {"token": tokens[kind], "token_type_hint": kind, "client_id": client.get("client_id", "")}
    context = _Kept(account.url, None).context
    context.client_info = auth.OAuthClientInformationFull.model_validate(client)
    with suppress(httpx2.HTTPError, OAuthFlowError):
        data, headers = context.prepare_token_auth(data, {})
        async with httpx2.AsyncClient(timeout=10.0) as http:
            return (await http.post(address, data=data, headers=headers)).is_success
    return False


def _metadata(redirects: list[AnyUrl]) -> auth.OAuthClientMetadata:
    return auth.OAuthClientMetadata(client_name="Tidings", redirect_uris=redirects or None)


def _refuses(response: httpx2.Response) -> bool:
    """Returns whether an answer asks for a sign-in: for a first one, or for one with more scopes."""
    return response.status_code == 401 or (
        response.status_code == 403 and _challenge(response).get("error") == "insufficient_scope"
    )


def _challenge(response: httpx2.Response) -> dict[str, str]:
    """Returns the parameters of the header with which a server asks for a token."""
    words = response.headers.get("www-authenticate", "")
    return {found[1].lower(): found[2] or found[3] or "" for found in _PARAMETER.finditer(words)}


def _body(content: bytes) -> Any:
    """Returns a body as JSON, as the fields of a form, or as text."""
    text = content.decode(errors="replace")
    try:
        return json.loads(text) if text else None
    except ValueError:
        return dict(parse_qsl(text)) or text[:_SHOWN]


def _shown(value: Any) -> Any:
    """Returns a JSON value with four characters of each secret in it."""
    masked = {key: f"{str(text)[:4]}…" if key in _SECRETS else text for key, text in as_dict(value).items()}
    return masked or value
