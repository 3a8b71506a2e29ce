"""The sender of a request: its principal if it has signed in, the end of its token, its name in logs and limits."""

from typing import Any

import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context

from tidings.server.borrowed_stream import Scope
from tidings.server.policy import RequestContext


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


def client_key(ctx: RequestContext) -> str:
    """Returns the identity that limits count: the signed-in user, else the network address. Pipes are one client."""
    if ctx.request is None:
        return "a pipe"
    if (owner := owner_of(ctx.request.scope)) is not None:
        return repr(owner)
    return ctx.request.client.host if ctx.request.client else "unknown address"


def client_name(ctx: RequestContext) -> str:
    """Returns the sender of a request for people: its name, its version and its network address."""
    params = ctx.session.client_params
    if params is None and ctx.method == "initialize":
        params = types.InitializeRequestParams.model_validate(ctx.params or {}, by_name=False)
    name = f"{params.client_info.name} {params.client_info.version}".strip() if params else "unnamed client"
    address = ctx.request.client if ctx.request is not None else None
    return f"{name} at {address.host}:{address.port}" if address else name
