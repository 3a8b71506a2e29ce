"""The modern era (2026-07-28): `subscriptions/listen`, whose answer is the stream."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY, event_to_notification
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)

from tidings.changes import CURSOR_KEY, RECOVERED_KEY, SINCE_KEY, UNTIL_KEY, Cursor, Filter
from tidings.errors import ResourceNotFound
from tidings.server.borrowed_stream import SCOPE_KEY
from tidings.server.core import Core, client_key, client_name, rpc_errors
from tidings.server.policy import RequestContext
from tidings.server.subscriber import FRAME_END, Feature, Frame, Subscriber


class ListenStream(Subscriber):
    """One open `subscriptions/listen`: written to directly over HTTP, through the SDK's session elsewhere."""

    era = "modern"
    __slots__ = ("_ctx", "_frame_end", "_meta", "ended")

    def __init__(self, ctx: RequestContext, **details: Any) -> None:
        super().__init__(
            client=client_name(ctx), transport="streamable-http" if ctx.request is not None else "stream", **details
        )
        self._ctx = ctx
        self.stream = None if ctx.request is None else ctx.request.scope.get(SCOPE_KEY)
        self._meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        self._frame_end = json.dumps(ctx.request_id).encode() + FRAME_END
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def acknowledge(
        self, honoured: SubscriptionFilter, cursor: Cursor, *, recovered: bool, until: Cursor | None
    ) -> None:
        """Send the first frame, and let the others follow."""
        meta = {**self._meta, CURSOR_KEY: str(cursor), RECOVERED_KEY: recovered}
        if until is not None and self._screen is None:  # What is screened may never be told.
            meta[UNTIL_KEY] = str(until)
        if self.stream is not None:
            self.stream.after_next_event(lambda event: self.open())
        await self._ctx.session.send_notification(
            SubscriptionsAcknowledgedNotification(
                params=SubscriptionsAcknowledgedNotificationParams(notifications=honoured, _meta=meta)
            ),
            related_request_id=self._ctx.request_id,
        )
        if self.stream is None:
            self.open()

    def _encode(self, frame: Frame) -> bytes:
        return frame.modern + self._frame_end

    async def _notify(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            meta: dict[str, Any] = frame.params(**self._meta)["_meta"]
            await self._ctx.session.send_notification(
                event_to_notification(frame.change, meta), related_request_id=self._ctx.request_id
            )

    def _cut(self) -> None:
        if self.stream is not None:
            self.stream.abort()
        elif not self.ended.done():
            self.ended.set_exception(
                MCPError(INTERNAL_ERROR, "This stream was cut off: its reader fell behind. Listen again.")
            )

    def end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class ModernEra:
    """Serves the modern way of subscribing."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def listen(self, ctx: RequestContext, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """Serve one stream, from its acknowledgment to its result."""
        if ctx.request_id is None:
            raise MCPError(INVALID_REQUEST, "subscriptions/listen is a request: it needs an id")
        with rpc_errors(not_found=INVALID_PARAMS):
            return await self._listen(ctx, params)

    async def _listen(self, ctx: RequestContext, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        core, key = self._core, client_key(ctx)
        if ctx.request is not None and SCOPE_KEY not in ctx.request.scope:
            core.unwrapped()
        core.check_room(key)
        wanted = await self._honoured(ctx, params.notifications)
        stream = ListenStream(
            ctx,
            features=_features(wanted),
            subscriptions=wanted.subscriptions,
            limits=core.policy.limits,
            telemetry=core.telemetry,
            screen=None if wanted.bounded else core.policy.screen(ctx),
        )
        # Joined before the acknowledgment is sent: what is published from here on is kept until the stream is open.
        async with core.joined(stream, key):
            position = core.position
            await core.watched(wanted.subscriptions)
            cursor, recovered, until = await self._catch_up(stream, wanted, _since(ctx), position)
            await stream.acknowledge(_as_filter(wanted), cursor, recovered=recovered, until=until)
            await stream.ended
            await stream.drain()
        return SubscriptionsListenResult(_meta={SUBSCRIPTION_ID_META_KEY: ctx.request_id})

    async def _honoured(self, ctx: RequestContext, asked: SubscriptionFilter) -> Filter:
        """What of `asked` is served: what is refused to the sender is left out."""
        policy = self._core.policy
        subscriptions = policy.check(asked.resource_subscriptions or ())
        missing = policy.missing(subscriptions)
        if missing and not policy.asks:
            raise ResourceNotFound(
                f"Resource not found: {', '.join(missing[:5])}", data={"uri": missing[0], "uris": missing}
            )
        # Where somebody is asked for permission, what is missing and what is refused must look the same.
        there = set(subscriptions).difference(missing)
        allowed = [text for text in subscriptions if text in there and await policy.allows(ctx, text)]
        return Filter.of(
            allowed,
            tools=bool(asked.tools_list_changed),
            prompts=bool(asked.prompts_list_changed),
            resources=bool(asked.resources_list_changed),
        )

    async def _catch_up(
        self, stream: ListenStream, wanted: Filter, since: Cursor | None, position: Cursor
    ) -> tuple[Cursor, bool, Cursor | None]:
        """Put what the listener missed at the front of its stream; say where it stands, whether that is all, and up to
        where it goes.
        """
        missed = None if since is None else await self._core.since(since, wanted.wants)
        if since is None or missed is None:
            return position, False, None
        if len(missed) > max(self._core.policy.limits.backlog, len(wanted.subscriptions)):
            return position, False, None  # To read everything again costs the listener no more, the server far less.
        stream.replay(missed)
        if not missed:
            return position, True, None
        # The listener has heard of nothing new yet when it has the acknowledgment.
        return since, True, max(frame.cursor for frame in missed)


def _since(ctx: RequestContext) -> Cursor | None:
    meta: Any = ctx.meta or {}
    return Cursor.parse(meta.get(SINCE_KEY))


def _features(wanted: Filter) -> Iterable[Feature]:
    if wanted.tools:
        yield "tools"
    if wanted.prompts:
        yield "prompts"
    if wanted.resources:
        yield "resources"


def _as_filter(wanted: Filter) -> SubscriptionFilter:
    """The acknowledgment's filter: what is not honoured is left out."""
    return SubscriptionFilter(
        tools_list_changed=wanted.tools or None,
        prompts_list_changed=wanted.prompts or None,
        resources_list_changed=wanted.resources or None,
        resource_subscriptions=sorted(wanted.subscriptions) or None,
    )
