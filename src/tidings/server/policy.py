"""`SubscriptionPolicy`: what may be subscribed to, and by whom. The same rules for both eras."""

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from mcp.server.context import ServerRequestContext

from tidings._kit.suggest import did_you_mean, there_are
from tidings.changes import check_subscription
from tidings.errors import LimitReached, NotSubscribable, ResourceNotFound
from tidings.server.config import Limits, UriPattern

logger = logging.getLogger(__name__)

RequestContext = ServerRequestContext[Any, Any]

Authorize = Callable[[RequestContext, str], bool | Awaitable[bool]]
"""Decides whether the sender of a request may subscribe to a URI (or a prefix, ending in `*`)."""


def _owned(owns: Callable[[str], bool], text: str) -> tuple[bool, str]:
    """Returns what `owns` says, and why there can be no such resource, if it raises that."""
    try:
        return owns(text), ""
    except ValueError as error:
        return False, str(error)


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
        self._owners: list[Callable[[str], bool]] = []
        self._names: list[Callable[[], list[str]]] = []
        self._subscribable = None if subscribable is None else [UriPattern(text) for text in subscribable]

    @property
    def asks(self) -> bool:
        return self._authorize is not None

    def also_serves(self, owns: Callable[[str], bool], names: Callable[[], list[str]]) -> None:
        """Counts the subscriptions for which `owns` returns true as served; `names` lists their templates."""
        self._owners.append(owns)
        self._names.append(names)

    @property
    def names(self) -> list[str]:
        """The templates of what others serve, see `also_serves`, and what is known of the rest."""
        return [*(name for names in self._names for name in names()), *self._known()]

    def not_found(self, missing: Sequence[str]) -> ResourceNotFound:
        """Returns the error for subscriptions that name nothing that is served: why, and what there is instead."""
        said = f"Resource not found: {', '.join(missing[:5])}"
        if reasons := [reason for text in missing for owns in self._owners if (reason := _owned(owns, text)[1])]:
            said = f"{said}. {reasons[0]}"
        elif names := self.names:
            heads = {name.split("{", 1)[0].rstrip("/"): name for name in names}
            near = did_you_mean(missing[0].rstrip("*"), heads, show=lambda head: heads[head])
            said = f"{said}.{near or there_are(names, most=20)}"
        return ResourceNotFound(said, data={"uri": missing[0], "uris": list(missing)})

    def missing(self, subscriptions: Sequence[str]) -> list[str]:
        missing = set(self._missing(subscriptions))
        return [
            text
            for text in subscriptions
            if text in missing and not any(_owned(owns, text)[0] for owns in self._owners)
        ]

    async def honoured(self, subscriptions: Sequence[str], permits: Callable[[str], Awaitable[bool]]) -> list[str]:
        """Returns the subscriptions that are permitted, and that name something which is served.

        Permission is asked first, for each. What is refused is not looked up: the time must not tell if it exists.
        """
        permitted = [text for text in subscriptions if await permits(text)]
        missing = set(self.missing(permitted)) if permitted else ()
        return [text for text in permitted if text not in missing]

    def check(self, subscriptions: Iterable[str], *, held: int = 0) -> list[str]:
        """Returns `subscriptions`, each once, if all are well-formed, allowed and, beside those `held`, not too many.

        Raises `LimitReached`, `InvalidUri` or `NotSubscribable` otherwise.
        """
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
