"""`SubscriptionPolicy`: what may be subscribed to, and by whom. And the sender of a request: its principal if it has
signed in, the end of its token, its name in logs and limits. The same rules for both eras.
"""

import functools
import inspect
import ipaddress
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.context import ServerRequestContext

from tidings._kit.suggest import did_you_mean, there_are
from tidings._kit.text import shortened
from tidings.changes import check_subscription
from tidings.errors import LimitReached, NotSubscribable, ResourceNotFound
from tidings.server.config import Limits, UriPattern
from tidings.server.http_exchange import Scope

logger = logging.getLogger(__name__)

_LONGEST_NAME: Final = 200  # Characters.
_THIS_PROCESS: Final = f"pipe {secrets.token_hex(8)}"  # Each chat has a process of its own.

RequestContext = ServerRequestContext[Any, Any]

Authorize = Callable[[RequestContext, str], bool | Awaitable[bool]]
"""Decides whether the sender of a request may subscribe to a URI (or a prefix, ending in `*`)."""


class SubscriptionPolicy:
    """Decides which subscriptions are accepted.

    `missing` returns those that name nothing that is served, and `known` the URIs and templates of what is. `lasting`
    returns the part of a request's context that is kept, to ask for permission later.
    """

    def __init__(
        self,
        *,
        limits: Limits,
        authorize: Authorize | None = None,
        subscribable: Sequence[str] | None = None,
        missing: Callable[[Sequence[str]], list[str]] = lambda subscriptions: [],
        known: Callable[[], list[str]] = list,
        lasting: Callable[[RequestContext], RequestContext] = lambda ctx: ctx,
    ) -> None:
        self.limits = limits
        self._authorize = authorize
        self._missing = missing
        self._known = known
        self._lasting = lasting
        self._owns: Callable[[str], bool] = lambda text: False
        self._names: Callable[[], list[str]] = list
        self._subscribable = None if subscribable is None else [UriPattern(text) for text in subscribable]

    @property
    def asks(self) -> bool:
        return self._authorize is not None

    def also_serves(self, owns: Callable[[str], bool], names: Callable[[], list[str]]) -> None:
        """Counts the subscriptions for which `owns` returns true as served; `names` lists their templates."""
        self._owns, self._names = owns, names

    def _owned(self, text: str) -> tuple[bool, str]:
        """Returns whether something is served by others, and why there can be no such resource, if they know."""
        try:
            return self._owns(text), ""
        except ValueError as error:
            return False, str(error)

    @property
    def names(self) -> list[str]:
        """The templates of what others serve, see `also_serves`, and what is known of the rest."""
        return [*self._names(), *self._known()]

    def not_found(self, missing: Sequence[str]) -> ResourceNotFound:
        """Returns the error for subscriptions that name nothing that is served: why, and what there is instead."""
        said = f"Resource not found: {', '.join(missing[:5])}"
        if reasons := [reason for text in missing if (reason := self._owned(text)[1])]:
            said = f"{said}. {reasons[0]}"
        elif names := self.names:
            heads = {name.split("{", 1)[0].rstrip("/"): name for name in names}
            near = did_you_mean(missing[0].rstrip("*"), heads, show=lambda head: heads[head])
            said = f"{said}.{near or there_are(names, most=20)}"
        return ResourceNotFound(said, data={"uri": missing[0], "uris": list(missing)})

    def missing(self, subscriptions: Sequence[str]) -> list[str]:
        missing = set(self._missing(subscriptions))
        return [text for text in subscriptions if text in missing and not self._owned(text)[0]]

    async def honoured(self, subscriptions: Sequence[str], permits: Callable[[str], Awaitable[bool]]) -> list[str]:
        """Returns what is permitted and served. The refused is not looked up: time must not tell if it exists."""
        permitted = [text for text in subscriptions if await permits(text)]
        missing = set(self.missing(permitted)) if permitted else ()
        return [text for text in permitted if text not in missing]

    async def accepted(self, ctx: RequestContext, asked: Iterable[str]) -> list[str]:
        """Returns those that are honoured. Raises if one is not well-formed, or missing and nobody is asked."""
        subscriptions = self.check(asked)
        if self.asks:
            return await self.honoured(subscriptions, functools.partial(self.allows, ctx))
        if missing := self.missing(subscriptions):
            raise self.not_found(missing)
        return subscriptions

    def check(self, subscriptions: Iterable[str], *, held: int = 0) -> list[str]:
        """Returns each subscription once. Raises `LimitReached`, `InvalidUri` or `NotSubscribable`."""
        distinct = list(dict.fromkeys(subscriptions))
        if len(distinct) + held > self.limits.subscriptions:
            raise LimitReached(
                f"{len(distinct) + held} subscriptions for one stream; this server accepts at most "
                f"{self.limits.subscriptions}. Subscribe to a prefix (ending in '*'), or open another stream.",
                data={"limit": "subscriptions", "max": self.limits.subscriptions, "scope": "stream"},
            )
        for text in distinct:
            check_subscription(text)
        patterns = self._subscribable
        if patterns is None:
            return distinct
        if refused := [text for text in distinct if not any(pattern.covers(text) for pattern in patterns)]:
            allowed = [pattern.text for pattern in patterns]
            raise NotSubscribable(
                f"Cannot subscribe to {refused[0]}. This server allows subscriptions to: {', '.join(allowed)}",
                data={"uri": refused[0], "refused": refused, "allowed": allowed},
            )
        return distinct

    async def allows(self, ctx: RequestContext, subscription: str) -> bool:
        """Returns whether the sender of this request may hear of `subscription`. A failure to decide is a refusal."""
        if self._authorize is None:
            return True
        try:
            answer = self._authorize(ctx, subscription)
            return bool(await answer if inspect.isawaitable(answer) else answer)
        except Exception:
            logger.exception("authorize failed for %s: the subscription is refused.", subscription)
            return False

    def screen(self, ctx: RequestContext) -> Callable[[str], Awaitable[bool]] | None:
        """Returns the function that asks whether the sender may be notified of a resource; None if all may."""
        return None if self._authorize is None else functools.partial(self.allows, self._lasting(ctx))

    async def require(self, ctx: RequestContext, subscription: str) -> None:
        """Raises `ResourceNotFound` for what does not exist and, in the same words, for what the sender is refused."""
        if not self.asks and self.missing([subscription]):
            raise self.not_found([subscription])
        if not await self.honoured([subscription], functools.partial(self.allows, ctx)):
            raise ResourceNotFound(f"Resource not found: {subscription}", data={"uri": subscription})


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
