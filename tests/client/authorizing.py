"""A real authorization server on loopback, and an MCP server that only accepts its tokens."""

import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    ProviderTokenVerifier,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette

from tests.ports import free_port
from tests.server.serving import serving
from tidings import LiveServer


@dataclass
class Authorization(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """An authorization server whose user agrees at once, or never. Codes, tokens and clients are in memory."""

    agrees: bool = True
    lasts: int = 3600
    """Seconds that an access token lives."""
    url: str = ""
    """The address of the MCP server."""
    scopes: list[str] = field(default_factory=lambda: ["notes"])
    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict[str, OAuthClientInformationFull])
    codes: dict[str, AuthorizationCode] = field(default_factory=dict[str, AuthorizationCode])
    tokens: dict[str, AccessToken] = field(default_factory=dict[str, AccessToken])
    renewals: dict[str, RefreshToken] = field(default_factory=dict[str, RefreshToken])
    asked: list[str] = field(default_factory=list[str])
    """Everything that clients wanted, in order."""

    def revoke_all(self) -> None:
        self.tokens.clear()
        self.renewals.clear()

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.asked.append("registration")
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        self.asked.append("authorization")
        if not self.agrees:
            raise AuthorizeError(error="access_denied", error_description="The user said no")
        code = secrets.token_urlsafe(16)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or self.scopes,
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        self.asked.append("token")
        del self.codes[authorization_code.code]
        return self._issue(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.renewals.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.asked.append("renewal")
        del self.renewals[refresh_token.token]
        return self._issue(client.client_id, scopes or refresh_token.scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.tokens.get(token)
        return found if found is not None and (found.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.asked.append("revocation")
        self.revoke_all()

    def _issue(self, client: str, scopes: list[str], resource: str | None) -> OAuthToken:
        access, renewal = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        expires = int(time.time()) + self.lasts
        self.tokens[access] = AccessToken(
            token=access, client_id=client, scopes=scopes, expires_at=expires, resource=resource, subject="ada"
        )
        self.renewals[renewal] = RefreshToken(token=renewal, client_id=client, scopes=scopes, resource=resource)
        return OAuthToken(access_token=access, expires_in=self.lasts, refresh_token=renewal, scope=" ".join(scopes))


@asynccontextmanager
async def guarded(authorization: Authorization) -> AsyncGenerator[str]:
    """An MCP server that wants a token of `authorization`, which is at an address of its own. Yields its URL."""
    port = free_port()
    url = authorization.url = f"http://127.0.0.1:{port}/mcp"
    registration = ClientRegistrationOptions(enabled=True, valid_scopes=["notes", "more"], default_scopes=["notes"])
    issuing = free_port()
    issuer = AnyHttpUrl(f"http://127.0.0.1:{issuing}")
    routes = create_auth_routes(authorization, issuer, None, registration, RevocationOptions(enabled=True))
    settings = AuthSettings(
        issuer_url=issuer,
        resource_server_url=AnyHttpUrl(url),
        required_scopes=authorization.scopes,
        validate_token_resource=True,
    )
    mcp = LiveServer("guarded", auth=settings, token_verifier=ProviderTokenVerifier(authorization), waking=None)

    @mcp.tool()
    def whoami() -> str:
        """Say who is signed in."""
        return "ada"

    @mcp.resource("note://a")
    def note() -> str:
        return "a secret note"

    async with serving(Starlette(routes=routes), port=issuing), serving(mcp.asgi(), port=port):
        yield url


async def agree(address: str, *, visit: bool = True) -> str:
    """Opens the page of a sign-in, and goes back as a browser does. Returns the address it was sent to."""
    async with httpx2.AsyncClient() as browser:
        page = await browser.get(address)
        back = page.headers["location"]
        if visit:
            await browser.get(back)
    return back
