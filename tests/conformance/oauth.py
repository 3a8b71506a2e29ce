"""How the client under test signs in: the SDK's OAuth providers, with a browser that needs nobody in front of it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

METADATA_URL = "https://conformance-test.local/client-metadata.json"
"""The client's id where the authorization server takes URLs for one: the suite names it."""

REDIRECT = AnyUrl("http://localhost:3000/callback")

Given = Mapping[str, Any]
"""What the suite tells the client of a scenario."""


class Memory:
    """Keeps tokens as long as the process lives."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self._tokens: OAuthToken | None = None
        self._client = client

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


class Browser:
    """Opens the page where the user consents. It consents by itself: it redirects to the client at once."""

    def __init__(self) -> None:
        self._landed: httpx2.QueryParams | None = None

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient() as client:
            response = await client.get(url)
        if not response.has_redirect_location:
            raise RuntimeError(f"no redirect from {url}: HTTP {response.status_code}")
        self._landed = httpx2.URL(response.headers["location"]).params

    async def landed(self) -> AuthorizationCodeResult:
        if self._landed is None:
            raise RuntimeError("no page was opened")
        told = self._landed
        return AuthorizationCodeResult(code=told["code"], state=told.get("state"), iss=told.get("iss"))


def by_consent(url: str, given: Given) -> OAuthClientProvider:
    """The user consents, in a browser; a client that is not registered registers itself."""
    browser = Browser()
    known = None
    if "client_id" in given:
        known = OAuthClientInformationFull(
            client_id=given["client_id"],
            client_secret=given.get("client_secret"),
            redirect_uris=[REDIRECT],
            token_endpoint_auth_method="client_secret_basic",
            issuer=given.get("issuer"),
        )
    metadata = OAuthClientMetadata(client_name="tidings", redirect_uris=[REDIRECT])
    return OAuthClientProvider(
        url,
        metadata,
        Memory(known),
        redirect_handler=browser.open,
        callback_handler=browser.landed,
        client_metadata_url=METADATA_URL,
    )


def by_secret(url: str, given: Given) -> ClientCredentialsOAuthProvider:
    """The client signs in for itself, with a secret."""
    return ClientCredentialsOAuthProvider(url, Memory(), given["client_id"], given["client_secret"])


def by_key(url: str, given: Given) -> PrivateKeyJWTOAuthProvider:
    """The client signs in for itself, with what its private key signed."""
    signed = SignedJWTParameters(
        issuer=given["client_id"],
        subject=given["client_id"],
        signing_key=given["private_key_pem"],
        signing_algorithm=given["signing_algorithm"],
    )
    return PrivateKeyJWTOAuthProvider(url, Memory(), given["client_id"], signed.create_assertion_provider())


async def by_enterprise(url: str, given: Given) -> IdentityAssertionOAuthProvider:
    """The enterprise's identity provider vouches for a user who is signed in there."""

    async def vouched(audience: str, resource: str) -> str:
        exchange = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "subject_token": given["idp_id_token"],
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "client_id": given["idp_client_id"],
            "audience": audience,
            "resource": resource,
        }
        async with httpx2.AsyncClient() as client:
            response = await client.post(given["idp_token_endpoint"], data=exchange)
        return response.raise_for_status().json()["access_token"]

    return IdentityAssertionOAuthProvider(
        url,
        Memory(),
        given["client_id"],
        given["client_secret"],
        issuer=await _issuer(url),
        assertion_provider=vouched,
        token_endpoint_auth_method="client_secret_basic",
    )


async def _issuer(url: str) -> str:
    """The authorization server of the MCP server at `url`. An enterprise knows it; the suite does not say it."""
    where = urlsplit(url)
    async with httpx2.AsyncClient() as client:
        response = await client.get(f"{where.scheme}://{where.netloc}/.well-known/oauth-protected-resource{where.path}")
    return response.raise_for_status().json()["authorization_servers"][0]
