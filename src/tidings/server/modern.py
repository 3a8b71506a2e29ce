"""The modern era (2026-07-28): `subscriptions/listen`, whose answer is the stream."""

import asyncio
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol, cast

import anyio
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY, event_to_notification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS, is_version_at_least

from tidings.changes import BEHIND_KEY, CURSOR_KEY, FEATURES, RECOVERED_KEY, SINCE_KEY, Cursor, Filter, ResourceUpdated
from tidings.errors import NotAuthorized, TidingsError
from tidings.server.borrowed_stream import SCOPE_KEY, BorrowedStream
from tidings.server.budget import SDK_STREAM_BYTES, STREAM_BYTES, subscription_bytes
from tidings.server.core import Core, rpc_error, rpc_errors, scope_of
from tidings.server.notify import TASKS
from tidings.server.policy import RequestContext, client_key, client_name, expiry_of, principal_of
from tidings.server.subscriber import FRAME_END, Frame, Subscriber

_TaskNotification = types.Notification[dict[str, Any], str]

_LONGEST_ID: Final = 256
_NO_PLACE: Final = Cursor("", 0)
_TASK_IDS: Final = "taskIds"  # In the filter of a stream: a key of the tasks extension.
# The result of a `subscriptions/listen` that ends in good order, but for its `_meta`.
_RESULT: Final = types.SubscriptionsListenResult(_meta={}).model_dump(mode="json", by_alias=True, exclude_none=True)


def is_modern(protocol_version: str | None) -> bool:
    """Returns whether a client speaks the modern era's protocol."""
    return is_version_at_least(protocol_version or "", MODERN_PROTOCOL_VERSIONS[0])


class TaskFrame(Frame):
    """The state of a task, as `tasks/get` would answer it. It has no place in the log."""

    __slots__ = ("_state",)

    def __init__(self, task_id: str, state: Mapping[str, Any]) -> None:
        super().__init__(_NO_PLACE, ResourceUpdated(TASKS + task_id))
        self._state = state
        fields = json.dumps(state, separators=(",", ":"))[1:-1]
        start = f'data: {{"jsonrpc":"2.0","method":"{self.method}","params":{{{fields},"_meta":{{'
        self.modern = f'{start}"{SUBSCRIPTION_ID_META_KEY}":'.encode()

    @property
    def method(self) -> str:
        return "notifications/tasks"

    def params(self, **meta: Any) -> dict[str, Any]:
        return {**self._state, "_meta": meta}


class TaskSource(Protocol):
    """The tasks of this server."""

    async def known(self, ctx: RequestContext, ids: Sequence[str]) -> dict[str, str]:
        """Returns the keys of those tasks that are the sender's, by their ids. Raises `MCPError` or `LimitReached`."""
        ...

    def follow(
        self, ctx: RequestContext, tasks: Mapping[str, str], deliver: Callable[[Frame], None]
    ) -> Callable[[], None]:
        """Delivers the changes of these tasks. Returns the function that ends this."""
        ...


class ListenStream(Subscriber):
    """One open `subscriptions/listen`. Where it is not written to directly, the request goes on until `ended`."""

    era = "modern"
    __slots__ = ("_behind", "_ctx", "_frame_end", "_last", "_request_id", "_server", "end_feed", "ended")

    def __init__(self, ctx: RequestContext, server: Server[Any], **details: Any) -> None:
        scope = scope_of(ctx)
        super().__init__(
            client=client_name(ctx),
            principal=principal_of(scope),
            transport="stream" if scope is None else "streamable-http",
            **details,
        )
        self.stream = None if scope is None else scope.get(SCOPE_KEY)
        self._ctx = ctx if self.stream is None else None
        self._server = server
        self._request_id = ctx.request_id
        self._behind = False  # Changes that its reader has missed are still to be written.
        self._frame_end = json.dumps(ctx.request_id).encode() + FRAME_END
        self._last = b""  # The event that ends it, if it has to end as soon as it is open.
        self.ended: asyncio.Future[None] | None = None
        self.end_feed: Callable[[], None] | None = None  # Of the tasks that it follows.
        if self.stream is None:
            self.ended = asyncio.get_running_loop().create_future()

    @property
    def _meta(self) -> dict[str, Any]:
        return {SUBSCRIPTION_ID_META_KEY: self._request_id}

    async def acknowledge(
        self, ctx: RequestContext, honoured: types.SubscriptionFilter, cursor: str, *, recovered: bool, behind: bool
    ) -> None:
        meta = {**self._meta, CURSOR_KEY: cursor, RECOVERED_KEY: recovered}
        if behind:
            self._behind = meta[BEHIND_KEY] = True
        if (stream := self.stream) is not None:

            def acknowledged(_: bytes) -> None:
                if self._last:
                    stream.finish(self._last)
                else:
                    stream.hold()
                    self.open()

            stream.after_next_event(acknowledged)
        await ctx.session.send_notification(
            types.SubscriptionsAcknowledgedNotification(
                params=types.SubscriptionsAcknowledgedNotificationParams(notifications=honoured, _meta=meta)
            ),
            related_request_id=ctx.request_id,
        )
        if self.ended is None:
            await anyio.sleep_forever()  # The stream is held without this request, which is cancelled.
        else:
            self.open()
            await self.ended
            await self.drain()

    def _encode(self, frame: Frame) -> bytes:
        return frame.modern + self._frame_end

    def _write(self, frames: Sequence[Frame]) -> asyncio.Future[Any] | None:
        if self._behind and (missed := [frame for frame in frames if not isinstance(frame, TaskFrame)]):
            self._behind = False  # What was missed is in one write.
            last = missed[-1]
            marked = Frame(last.place, last.change, last.cursor, {**(last.meta or {}), BEHIND_KEY: False})
            frames = [marked if frame is last else frame for frame in frames]
        return super()._write(frames)

    def _allowed(self, frame: Frame) -> bool | None:
        return True if isinstance(frame, TaskFrame) else super()._allowed(frame)

    async def _notify(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            params = frame.params(**self._meta)
            notification: Any = (
                _TaskNotification(method=frame.method, params=params)
                if isinstance(frame, TaskFrame)
                else event_to_notification(frame.change, params["_meta"])
            )
            if self._ctx is not None:
                await self._ctx.session.send_notification(notification, related_request_id=self._request_id)

    def gone(self) -> None:
        super().gone()
        if self.end_feed is not None:
            self.end_feed()

    def _cut(self) -> None:
        if self.stream is not None:
            self.stream.abort()
        elif self.ended is not None and not self.ended.done():
            self.ended.set_exception(
                MCPError(types.INTERNAL_ERROR, "This stream was cut off: its reader fell behind. Listen again.")
            )

    def _forbidden(self, subscription: str) -> None:
        self.end(NotAuthorized("A subscription of this stream is no longer permitted. Listen again."))

    def end(self, reason: TidingsError | None = None) -> None:
        if self.stream is not None and not self._last:
            self._last = self._answer(reason)
            if self.stream.held:
                self.close()
                self.stream.finish(self._last)
        elif self.ended is None or self.ended.done():
            return
        elif reason is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(reason)
            self.ended.exception()  # Retrieved, because the request may be over.

    def _answer(self, reason: TidingsError | None) -> bytes:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": self._request_id}
        if reason is None:
            stamp = {types.SERVER_INFO_META_KEY: self._server.server_info_stamp}
            answer["result"] = {**_RESULT, "_meta": {**self._meta, **stamp}}
        else:
            answer["error"] = rpc_error(reason).error.model_dump(exclude_none=True)
        return b"event: message\r\ndata: %b\r\n\r\n" % json.dumps(answer, separators=(",", ":")).encode()


class ModernEra:
    """Serves `subscriptions/listen`. `tasks` are those that it can follow, if the server has any."""

    def __init__(self, core: Core, server: Server[Any], tasks: TaskSource | None = None) -> None:
        self._core = core
        self._server = server
        self._tasks = tasks

    async def listen(
        self, ctx: RequestContext, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        if ctx.request_id is None:
            raise MCPError(types.INVALID_REQUEST, "subscriptions/listen is a request: it needs an id.")
        size = len(ctx.request_id) if isinstance(ctx.request_id, str) else ctx.request_id.bit_length()
        if size > _LONGEST_ID:  # It is a part of each notification.
            text = f"An id of subscriptions/listen has at most {_LONGEST_ID} characters."
            raise MCPError(types.INVALID_REQUEST, text)
        with rpc_errors(ctx), self._place(ctx, params.notifications):
            await self._listen(ctx, params)
        return types.SubscriptionsListenResult(_meta={SUBSCRIPTION_ID_META_KEY: ctx.request_id})

    @contextmanager
    def _place(self, ctx: RequestContext, asked: types.SubscriptionFilter) -> Generator[None]:
        """Holds a place in the budget. From the beginning: whoever asks for permission takes memory, too."""
        scope, subscriptions = scope_of(ctx), set(asked.resource_subscriptions or ())
        stream: BorrowedStream | None = (scope or {}).get(SCOPE_KEY)
        memory = SDK_STREAM_BYTES if stream is None else STREAM_BYTES + stream.header_weight
        tasks = self._tasks_in(asked)
        memory += subscription_bytes(subscriptions) + subscription_bytes(tasks or ())
        place = self._core.admit(client_key(scope), streams=1, memory=memory)
        try:
            if stream is not None:
                stream.place = place  # It leaves it when it is over.
                # Permission and tasks are asked for with the request, again and again. Otherwise it is let go once the
                # stream is open.
                kept = self._core.policy.asks or tasks
                place.keep("rights" if kept else "request", stream.body_weight)
            yield
        finally:
            if stream is None:
                place.release()

    async def _listen(self, ctx: RequestContext, params: types.SubscriptionsListenRequestParams) -> None:
        core = self._core
        if ctx.request is not None and SCOPE_KEY not in ctx.request.scope:
            core.unwrapped()
        began = asyncio.get_running_loop().time()
        core.check_bus()
        ids = self._tasks_in(params.notifications)
        tasks = None if ids is None or self._tasks is None else await self._tasks.known(ctx, ids)
        asked = params.notifications
        # What the sender may not hear of is left out.
        accepted = core.policy.accepted(ctx, asked.resource_subscriptions or ())
        wanted = Filter.of(
            await core.unless_stopping(accepted),
            tools=bool(asked.tools_list_changed),
            prompts=bool(asked.prompts_list_changed),
            resources=bool(asked.resources_list_changed),
        )
        stream = ListenStream(
            ctx,
            self._server,
            features=frozenset(feature for feature in FEATURES if getattr(wanted, feature)),
            subscriptions=set(wanted.subscriptions),
            limits=core.policy.limits,
            screen=core.policy.screen(ctx),
        )
        # Joined before the acknowledgment is sent: what is published from here on is kept until the stream is open.
        async with core.joined(stream, until=stream.stream):
            stream.expire_at(expiry_of(scope_of(ctx)))
            core.check_rights(began)
            position = core.position
            await core.watched(wanted.subscriptions)
            meta: Any = ctx.meta or {}
            since = await core.cursor_from(meta.get(SINCE_KEY))
            cursor, recovered, behind = await self._catch_up(stream, wanted, since, position)
            honoured = types.SubscriptionFilter(
                tools_list_changed=wanted.tools or None,
                prompts_list_changed=wanted.prompts or None,
                resources_list_changed=wanted.resources or None,
                resource_subscriptions=sorted(wanted.subscriptions) or None,
                **({} if tasks is None else {_TASK_IDS: list(tasks)}),
            )
            if tasks and self._tasks is not None:
                stream.end_feed = self._tasks.follow(ctx, tasks, stream.deliver)
            if core.policy.asks and not wanted.bounded:
                behind = False  # What only a prefix matches may never be sent.
            await stream.acknowledge(ctx, honoured, core.cursor_text(cursor), recovered=recovered, behind=behind)

    def _tasks_in(self, asked: types.SubscriptionFilter) -> list[str] | None:
        """Returns the ids of the tasks to follow; None if none are asked for, or this server has no tasks."""
        ids: Any = (asked.model_extra or {}).get(_TASK_IDS)
        if ids is None or self._tasks is None:
            return None
        if not isinstance(ids, list) or not all(isinstance(each, str) for each in cast("list[Any]", ids)):
            raise MCPError(types.INVALID_PARAMS, f"{_TASK_IDS} must be a list of strings.")
        return cast("list[str]", ids)

    async def _catch_up(
        self, stream: ListenStream, wanted: Filter, since: Cursor | None, position: Cursor
    ) -> tuple[Cursor, bool, bool]:
        """Returns the cursor of the listener, whether nothing that it missed is lost, and whether something follows."""
        missed = None if since is None else await self._core.catch_up(stream, since, wanted.wants)
        # With the acknowledgment alone, a listener that missed something knows no more than before.
        return since if since is not None and missed else position, missed is not None, bool(missed)
