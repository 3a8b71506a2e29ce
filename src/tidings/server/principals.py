"""The sender of a request: its principal if it has signed in, the end of its token, its name in logs and limits."""

import ipaddress
import secrets
from typing import Any, Final

import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context

from tidings._kit.text import shortened
from tidings.server.http_exchange import Scope
from tidings.server.policy import RequestContext

_LONGEST_NAME: Final = 200  # Characters.
_THIS_PROCESS: Final = f"pipe {secrets.token_hex(8)}"  # Each chat has a process of its own.


def _user_of(scope: Scope) -> AuthenticatedUser | None:
    user: Any = scope.get("user")
    return user if isinstance(user, AuthenticatedUser) else None


def owner_of(scope: Scope) -> list[str | None] | None:
    """Returns everything that identifies the principal of a request, if it has signed in."""
    if (user := _user_of(scope)) is None:
        return None
    context = authorization_context(user)
    return [context["client_id"], context["issuer"], context["subject"]]


def principal_of(scope: Scope | None) -> str | None:
    """Returns the name by which rights are revoked: the subject of the token, or its client if it has none."""
    owner = None if scope is None else owner_of(scope)
    return None if owner is None else owner[2] or owner[0]


def expiry_of(scope: Scope | None) -> float | None:
    """Returns when the token of a request expires, in seconds since the epoch, if it does."""
    user = None if scope is None else _user_of(scope)
    end = None if user is None else user.access_token.expires_at
    return None if end is None else end + 1.0  # The SDK accepts it until that second is over.


def holder_of(scope: Scope | None) -> str:
    """Returns the identity to which sealed ids are bound: the signed-in user, with whatever app; '' for others."""
    owner = None if scope is None else owner_of(scope)
    if owner is None:
        return ""
    client_id, issuer, subject = owner
    return repr([issuer, subject or client_id])  # A user may have any number of apps.


def origin_of(scope: Scope | None) -> str:
    """Returns the identity whose own changes are told apart: the signed-in user, the pipe, or everybody else."""
    return _THIS_PROCESS if scope is None else holder_of(scope) or "anonymous"


def client_key(scope: Scope | None) -> str:
    """Returns the identity that limits count: the signed-in user, else the network address. Pipes are one client."""
    if scope is None:
        return "a pipe"
    if holder := holder_of(scope):
        return holder
    return _network_of(scope["client"][0]) if scope.get("client") else "unknown address"


def _network_of(host: str) -> str:
    """Returns an address as limits count it: whoever has an IPv6 address has 2**64 of them."""
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), 64), strict=False))


def client_name(ctx: RequestContext) -> str:
    """Returns the sender of a request for people: its name, its version and its network address."""
    params = ctx.session.client_params
    if params is None and ctx.method == "initialize":
        params = types.InitializeRequestParams.model_validate(ctx.params or {}, by_name=False)
    info = None if params is None else params.client_info
    name = shortened(f"{info.name} {info.version}".strip(), _LONGEST_NAME) if info else "unnamed client"
    address = ctx.request.client if ctx.request is not None else None
    return f"{name} at {address.host}:{address.port}" if address else name
