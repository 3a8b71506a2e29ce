"""Signs in to a server at a URL with credentials of the bridge's own, by the SDK's client."""

import httpx2
from mcp.client.auth import TokenStorage
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from tidings.bridge.settings import ClientCredentials


def signing_in(url: str, auth: httpx2.Auth | ClientCredentials) -> httpx2.Auth:
    """Returns what signs in one session to the server at `url`."""
    if not isinstance(auth, ClientCredentials):
        return auth
    return ClientCredentialsOAuthProvider(
        url, _Memory(), auth.client_id, auth.client_secret, scope=auth.scope, issuer=auth.issuer
    )


class _Memory(TokenStorage):
    """Keeps tokens for as long as the session: with these credentials, new ones cost one request."""

    def __init__(self) -> None:
        self._tokens: OAuthToken | None = None
        self._client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info
