"""What may be subscribed to, and by whom: the same rules for both eras."""

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from mcp.server.context import ServerRequestContext

from tidings.changes import check_subscription
from tidings.errors import LimitReached, NotSubscribable, ResourceNotFound
from tidings.server.config import Limits, uri_pattern

logger = logging.getLogger(__name__)

RequestContext = ServerRequestContext[Any, Any]

Authorize = Callable[[RequestContext, str], bool | Awaitable[bool]]
"""Says whether whoever sent this request may hear of this URI (or prefix, ending in `*`)."""

Missing = Callable[[Sequence[str]], list[str]]
"""Says which of several subscriptions name nothing that is served."""


class SubscriptionPolicy:
    """Decides on subscriptions."""

    def __init__(
        self,
        *,
        limits: Limits,
        authorize: Authorize | None = None,
        subscribable: Sequence[str] | None = None,
        missing: Missing = lambda subscriptions: [],
    ) -> None:
        self.limits = limits
        self._authorize = authorize
        self.missing = missing
        self._subscribable = None if subscribable is None else [uri_pattern(text) for text in subscribable]

    @property
    def asks(self) -> bool:
        """Whether somebody is asked before a resource is named to a subscriber."""
        return self._authorize is not None

    def check(self, subscriptions: Iterable[str], *, held: int = 0) -> list[str]:
        """`subscriptions`, each once, if all are well-formed and within the limits. `held` are there already.

        Raises:
            LimitReached: There are too many.
            InvalidUri: One is not a URI.
            NotSubscribable: One is not among those that this server allows.
        """
        distinct = list(dict.fromkeys(subscriptions))
        if len(distinct) + held > self.limits.subscriptions:
            raise _limit_reached(
                "subscriptions",
                self.limits.subscriptions,
                f"{len(distinct) + held} subscriptions for one stream; this server takes at most "
                f"{self.limits.subscriptions}. Subscribe to a prefix (ending in '*'), or open another stream.",
            )
        for text in distinct:
            check_subscription(text)
        self._check_allowed(distinct)
        return distinct

    def _check_allowed(self, subscriptions: Sequence[str]) -> None:
        if self._subscribable is None:
            return
        refused = [text for text in subscriptions if not any(pattern.covers(text) for pattern in self._subscribable)]
        if refused:
            allowed = [pattern.text for pattern in self._subscribable]
            raise NotSubscribable(
                f"Cannot subscribe to {refused[0]}. This server allows subscriptions to: {', '.join(allowed)}",
                data={"uri": refused[0], "refused": refused, "allowed": allowed},
            )

    async def allows(self, ctx: RequestContext, subscription: str) -> bool:
        """Whether the sender of this request may hear of `subscription`. A failure to decide is a no."""
        if self._authorize is None:
            return True
        try:
            answer = self._authorize(ctx, subscription)
            return bool(await answer if inspect.isawaitable(answer) else answer)
        except Exception:
            logger.exception("authorize failed on %s; the subscription is refused", subscription)
            return False

    def screen(self, ctx: RequestContext) -> Callable[[str], Awaitable[bool]] | None:
        """What asks, for the sender of this request, whether a resource may be named; None if nobody is asked."""
        return None if self._authorize is None else functools.partial(self.allows, ctx)

    async def require(self, ctx: RequestContext, subscription: str) -> None:
        """Refuse what does not exist and what is not for the sender, in words that do not tell the two apart.

        Raises:
            ResourceNotFound: It is one of the two.
        """
        if self.missing([subscription]) or not await self.allows(ctx, subscription):
            raise ResourceNotFound(f"Resource not found: {subscription}", data={"uri": subscription})

    def check_room(self, taken: int, taken_by_client: int = 0) -> None:
        """Whether one more subscriber is taken on.

        Raises:
            LimitReached: Not now.
        """
        if taken >= self.limits.streams:
            raise _limit_reached(
                "streams",
                self.limits.streams,
                f"This server has {taken} subscribers and takes no more at present. Try again later.",
            )
        if taken_by_client >= self.limits.streams_per_client:
            raise _limit_reached(
                "streams_per_client",
                self.limits.streams_per_client,
                f"This client has {taken_by_client} listen streams open, which is the most it can have. "
                "Close one, or put more subscriptions into each.",
            )


def _limit_reached(limit: str, most: int, message: str) -> LimitReached:
    return LimitReached(message, data={"limit": limit, "max": most})
