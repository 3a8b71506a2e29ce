"""The modern era: `subscriptions/listen`, whose answer is the stream of changes.

One stream carries everything, or as few as the server's limits allow. A filter cannot be edited: a new stream is
opened, and the old ones are closed when it is acknowledged, so that no change is missed. Each stream has a cursor of
its own, and all of them are sent back: an older one than need be is safe, because changes are only repeated, but a
newer one would skip some. So a stream that was lost keeps its cursor among them until another has taken its place.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY, event_from_wire
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, REQUEST_TIMEOUT, LoggingLevel

from tidings import errors
from tidings._kit.backoff import Backoff
from tidings._kit.bounded_json import as_dict, as_text, as_texts
from tidings._kit.tasks import Background, retrieve
from tidings.changes import BEHIND_KEY, CURSOR_KEY, FEATURES, RECOVERED_KEY, SINCE_KEY, Filter
from tidings.client import sdk_seam
from tidings.client.http_health import LISTEN
from tidings.client.link import Link
from tidings.client.queue import QueueEntry
from tidings.client.subscriptions import Subscriptions, without
from tidings.client.transports.http import current_call
from tidings.errors import TidingsError

# The delays before a stream is opened again, by how often in a row it ended at once. Not at once: a server that stops
# ends the streams of all its clients in one moment.
_REOPEN: Final = Backoff((0.2, 0.2, 0.5, 1.0, 5.0))
# Attempts with a smaller filter. A server that refuses everything need not be asked about each resource.
_MOST_FAILURES: Final = 64
# As a Tidings server names them. A smaller filter would not help.
_LIMITS_ON_STREAMS: Final = ("streams", "streams_per_client", "stopping")
_FOR_ALL: Final = (errors.NotSupported, errors.ConnectionLost, errors.RequestTimedOut, errors.BusUnavailable)
_LASTED: Final = 5.0  # Seconds. A stream that was open for longer did not end at once.
_ids = count(1)
_LISTS: Final = {"toolsListChanged": "tools", "promptsListChanged": "prompts", "resourcesListChanged": "resources"}


class ListenRequest:
    """Asks for `notifications` at once. `began` gets the acknowledgment; `ended` is not called if it was closed."""

    def __init__(
        self,
        link: Link,
        notifications: Mapping[str, Any],
        meta: Mapping[str, Any],
        *,
        ended: Callable[[], None],
        began: Callable[[Mapping[str, Any]], None] = lambda _: None,
    ) -> None:
        self.id = f"tidings-listen-{next(_ids)}"
        self.is_over = False
        self.agreed: Mapping[str, Any] = {}  # The notifications that the server sends.
        self._link, self._began, self._ended = link, began, ended
        self._acknowledged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        params = {"notifications": dict(notifications), "_meta": dict(meta)}
        self.task = asyncio.create_task(self._run(params), name=self.id)

    async def opened(self, seconds: float) -> None:
        """Waits for the acknowledgment. Raises a `TidingsError` if there is none within so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._acknowledged)
        except BaseException as error:
            self.close()
            if isinstance(error, TimeoutError):
                text = f"{self._link.name} did not acknowledge a subscription within {seconds:g} s."
                cure = "Give it longer with Timeouts(request=...)."
                raise errors.RequestTimedOut(f"{text} {cure}", method=LISTEN, server=self._link.name) from None
            raise

    async def _run(self, params: dict[str, Any]) -> None:
        error: TidingsError | None = None
        try:
            await self._link.send_aside(LISTEN, params, self.id)
        except TidingsError as failure:
            error = None if self._link.over else failure
        self._end(error)

    def _end(self, error: TidingsError | None = None) -> None:
        if self.is_over:
            return
        self.is_over = True
        if self._acknowledged.done():
            self._ended()
        else:
            lost = errors.ConnectionLost(f"{self._link.name} ended a stream before it began.", server=self._link.name)
            self._acknowledged.set_exception(error or lost)
            retrieve(self._acknowledged)

    def hear(self, method: str, params: Mapping[str, Any]) -> bool:
        """Takes a notification. Returns True if it is about the life of this stream."""
        if method == "notifications/cancelled" and params.get("requestId") == self.id:
            self.task.cancel()
            self._end()
            return True
        if method != "notifications/subscriptions/acknowledged" or stream_of(params) != self.id:
            return False
        if not self._acknowledged.done() and isinstance(params.get("notifications"), dict):
            self.agreed = as_dict(params["notifications"])
            self._began(params)
            self._acknowledged.set_result(None)
        return True

    def close(self) -> None:
        self.is_over = True
        self.task.cancel()


def stream_of(params: Mapping[str, Any]) -> str:
    """Returns the id of the stream to which a notification belongs; empty if it names none."""
    return str(as_dict(params.get("_meta")).get(SUBSCRIPTION_ID_META_KEY, ""))


@dataclass(eq=False)
class _FilterPart:
    """A part of the filter, on a stream of its own."""

    wanted: Filter
    since: str | None

    def __post_init__(self) -> None:
        self.cursor = self.since
        self.honoured = Filter()
        self.recovered = self.behind = False  # Behind: missed changes are still to arrive.
        self.is_open = self.closing = False
        self.opened_at = asyncio.get_running_loop().time()
        self.stream: ListenRequest

    def notifications(self) -> dict[str, Any]:
        wanted = self.wanted
        asked = {key: True for key, name in _LISTS.items() if getattr(wanted, name)}
        uris = sorted(wanted.subscriptions)
        return {**asked, "resourceSubscriptions": uris} if uris else asked

    def acknowledge(self, params: Mapping[str, Any]) -> None:
        told, meta, wanted = as_dict(params.get("notifications")), as_dict(params.get("_meta")), self.wanted
        self.honoured = Filter.of(
            wanted.subscriptions.intersection(as_texts(told.get("resourceSubscriptions"))),
            **{name: getattr(wanted, name) and told.get(key) is True for key, name in _LISTS.items()},
        )
        self.cursor = as_text(meta.get(CURSOR_KEY))
        self.recovered = meta.get(RECOVERED_KEY) is True
        self.behind = self.recovered and meta.get(BEHIND_KEY) is True
        self.is_open = True


@dataclass(eq=False, repr=False)
class ModernFeed:
    """The feed of the modern era. `known` is the part of the filter announced without a gap, up to `cursor`."""

    link: Link
    listener: Subscriptions
    seconds: float

    def __post_init__(self) -> None:
        self.known = self.listener.known
        self._parts: dict[str, _FilterPart] = {}
        self._most: int | None = None  # The number of URIs that this server accepts in one stream, once known.
        self._untold = Filter()  # The lists whose changes this server does not announce, though it said that it would.
        self._reopening: set[_FilterPart] = set()
        self._opening: list[str | None] = []  # The cursors of streams that are still to be opened.
        self._background = Background()
        self._quick_ends = 0
        self._is_uninformed = False  # The server refuses streams, because it does not know what changes.
        resources = self.link.client.server_capabilities.resources
        self.supported = bool(resources and resources.subscribe)

    async def sync(self, wanted: Filter) -> dict[str, TidingsError]:
        refused: dict[str, TidingsError] = {}
        old = list(self._parts.values())
        if old and not self._reopening and self._union(old) == wanted:
            return refused
        since = self.cursor
        try:
            opened = await self._open_all(wanted, since, refused)
        except errors.BusUnavailable:
            self._is_uninformed = True
            raise
        self._is_uninformed = False
        # A stream that was lost meanwhile leaves a gap, unless the new ones recovered it. One that seems to be open may
        # be dead: the word of a server that knows the cursor counts for more.
        unbroken = since is None and bool(old) and all(part.stream.id in self._parts for part in old)
        for part in {*old, *self._reopening}.difference(opened):  # One that ended already is reopened elsewhere.
            self._close(part)
        honoured = self._union(opened)
        for uri in wanted.subscriptions - honoured.subscriptions - refused.keys():
            refused[uri] = self._not_subscribable(uri)
        # What is new, or was not recovered, has an unknown past.
        continuous = unbroken or all(part.recovered for part in opened)
        unknown = without(honoured, self.known) if continuous else honoured
        self.known = honoured
        self.listener.unknown(unknown)
        # Lists whose changes the server does not announce are loaded once.
        untold, self._untold = self._untold, without(Filter.of((), **_lists(wanted)), honoured)
        self.listener.unknown(without(self._untold, untold))
        self._tell_cursor()
        return refused

    @staticmethod
    def _union(parts: Sequence[_FilterPart]) -> Filter:
        each = [part.honoured for part in parts]
        return Filter(
            tools=any(one.tools for one in each),
            prompts=any(one.prompts for one in each),
            resources=any(one.resources for one in each),
            uris=frozenset[str]().union(*(one.uris for one in each)),
            prefixes=frozenset[str]().union(*(one.prefixes for one in each)),
        )

    async def _open_all(self, wanted: Filter, since: str | None, refused: dict[str, TidingsError]) -> list[_FilterPart]:
        """Opens as few streams as the server allows, for what it does not refuse."""
        opened: list[_FilterPart] = []
        waiting = self._split(wanted)
        failures = 0
        # The cursor of the first of them must not stand for the others, if the connection is lost meanwhile.
        self._opening.append(since)
        try:
            while waiting:
                part = waiting.pop(0)
                try:
                    opened.append(await self._open(part, since))
                except TidingsError as error:
                    failures += 1
                    most = self._most
                    waiting[:0] = self._smaller(part, error, refused)
                    named = as_dict(as_dict(error.data).get("rpc_data")).get("limit") in _LIMITS_ON_STREAMS
                    is_limit = isinstance(error, errors.LimitReached) and (named or len(part.subscriptions) == 1)
                    if is_limit:  # On the number of streams, not of resources in one.
                        self._most = most if named else None
                    if is_limit or failures >= _MOST_FAILURES:
                        if not opened:
                            raise
                        refused.update((uri, error) for rest in waiting for uri in rest.subscriptions)
                        break
        except BaseException:
            for part in opened:
                self._close(part)
            raise
        finally:
            self._opening.remove(since)
        return opened

    def _split(self, wanted: Filter) -> list[Filter]:
        texts = sorted(wanted.subscriptions)
        size = self._most or len(texts) or 1
        parts = [texts[start : start + size] for start in range(0, len(texts), size)] or [[]]
        first = Filter.of(parts[0], **_lists(wanted))
        return [each for each in (first, *map(Filter.of, parts[1:])) if each]

    def _smaller(self, part: Filter, error: TidingsError, refused: dict[str, TidingsError]) -> list[Filter]:
        """Returns what to try instead of a filter that the server refused, or raises the error."""
        texts = sorted(part.subscriptions)
        lists = _lists(part)
        # Without data, it is HTTP 429, a limit on requests: smaller ones would be more of them.
        is_too_often = isinstance(error, errors.LimitReached) and error.data is None
        if is_too_often or isinstance(error, _FOR_ALL) or not texts:
            raise error
        data = as_dict(as_dict(error.data).get("rpc_data"))
        named = part.subscriptions.intersection(as_texts(data.get("uris")) or as_texts([data.get("uri")]))
        if isinstance(error, errors.LimitReached) and len(texts) > 1:
            self._most = len(texts) // 2
        elif named or len(texts) == 1:
            bad = named or set(texts)
            refused.update(dict.fromkeys(bad, error))
            return [rest for rest in [Filter.of((uri for uri in texts if uri not in bad), **lists)] if rest]
        middle = len(texts) // 2
        return [Filter.of(texts[:middle], **lists), Filter.of(texts[middle:])]

    async def _open(self, wanted: Filter, since: str | None) -> _FilterPart:
        part = _FilterPart(wanted, since)
        meta = {} if since is None else {SINCE_KEY: since}
        part.stream = ListenRequest(
            self.link, part.notifications(), meta, began=part.acknowledge, ended=lambda: self._lost(part)
        )
        self._parts[part.stream.id] = part
        try:
            await part.stream.opened(self.seconds)
        except BaseException:
            self._close(part)
            raise
        return part

    def _lost(self, part: _FilterPart) -> None:
        async def reopen() -> None:
            try:
                await self._reopen(part)
            finally:
                self._reopening.discard(part)
                self.listener.wakeup()

        self._parts.pop(part.stream.id, None)
        if not self.link.over:
            self._reopening.add(part)
            self._background.start(reopen())

    @property
    def is_deaf(self) -> bool:
        catches_up = any(part.behind for part in self._parts.values())
        return bool(self._reopening) or catches_up or self._is_uninformed or self.link.http.is_overdue

    async def _reopen(self, part: _FilterPart) -> None:
        lasted = asyncio.get_running_loop().time() - part.opened_at
        self._quick_ends = 0 if lasted > _LASTED else self._quick_ends + 1
        wanted, wait = part.honoured, 0.0
        call = QueueEntry(part.stream.id, "server/discover", {}, aside=True)  # Gets the HTTP status.
        current_call.set(call)
        while not self.link.over:
            await asyncio.sleep(_REOPEN.pause(self._quick_ends - 1) + wait)
            refused: dict[str, TidingsError] = {}
            try:
                async with asyncio.timeout(self.seconds):
                    await self.ping()
                opened = [] if part.closing else await self._open_all(wanted, part.cursor, refused)
            except (TidingsError, MCPError, TimeoutError) as error:
                reason = self.link.explain(error, call.method, call.http_status)
                if isinstance(reason, errors.NotAuthorized):
                    self.link.lose(reason)  # Its token has expired, or was revoked: nothing can be read, either.
                    return
                self._quick_ends += 1
                wait = self.link.http.retry_after or 0.0
                continue
            if part.closing:  # A change of the filter overtook this.
                for each in opened:
                    self._close(each)
                return
            honoured = self._union(opened)
            dropped = without(wanted, honoured)
            self.known = without(self.known, dropped)
            self.listener.unknown(Filter.of((), **_lists(dropped)))
            for uri in dropped.subscriptions:
                self.listener.refused(uri, refused.get(uri) or self._not_subscribable(uri))
            if honoured and not all(each.recovered for each in opened):
                self.listener.unknown(honoured)
            self._reopening.discard(part)
            self._tell_cursor()
            return

    def _not_subscribable(self, uri: str) -> TidingsError:
        return errors.NotSubscribable(
            f"The server does not announce changes to {uri}. Use `watch`, which polls.", server=self.link.name
        )

    def _close(self, part: _FilterPart) -> None:
        part.closing = True
        self._parts.pop(part.stream.id, None)
        self._reopening.discard(part)
        part.stream.close()

    @property
    def cursor(self) -> str | None:
        """The places in the server's log that the streams have reached, in lines. None if the server has no log."""
        parts = [*(part for part in self._parts.values() if part.is_open), *self._reopening]
        if not parts:
            return self.listener.cursor
        cursors = {*self._opening, *(part.cursor for part in parts)}
        known = [cursor for cursor in cursors if cursor is not None]
        lines = {line for cursor in known for line in cursor.split("\n")}
        return "\n".join(sorted(lines)) if len(known) == len(cursors) else None

    def _tell_cursor(self) -> None:
        if not self.link.over:  # Streams that ended with it are missing in the cursor.
            self.listener.moved(self.cursor)

    def hear(self, method: str, params: Mapping[str, Any]) -> bool:
        stream_id = params.get("requestId") if method == "notifications/cancelled" else stream_of(params)
        part, change = self._parts.get(str(stream_id)), event_from_wire(method, params)
        if part is None or change is None:  # A stream that was closed, or none, was not asked for.
            return change is not None or (part is not None and part.stream.hear(method, params))
        if not part.is_open:
            return False
        self.listener.changed(change)
        meta = as_dict(params.get("_meta"))
        if (cursor := as_text(meta.get(CURSOR_KEY))) is not None:
            part.cursor = cursor
            self._tell_cursor()
        if part.behind and meta.get(BEHIND_KEY) is False:
            part.behind = False
            self.listener.wakeup()
        return True

    async def ping(self) -> None:
        """Asks the server who it is: nothing else tells that another one answers at this address."""
        try:
            # The SDK's method has a time limit of its own.
            self.link.check_server(await self.link.send_raw("server/discover", {}))
        except MCPError as error:
            call = current_call.get()
            status = (call and call.http_status) or 200
            is_vague = status < 400 and error.code in (CONNECTION_CLOSED, INTERNAL_ERROR, REQUEST_TIMEOUT)
            if not is_vague and status < 500 and status not in (401, 403, 429):
                self.link.lose_to_another()  # No server of this era answers like this.
            raise

    async def set_log_level(self, level: LoggingLevel) -> None:
        sdk_seam.set_log_level(self.link.session, level)  # Each request asks for it.

    async def aclose(self) -> None:
        parts = tuple(self._parts.values())
        for part in parts:
            self._close(part)
        self._background.cancel()
        await self._background.finished()
        await asyncio.gather(*(part.stream.task for part in parts), return_exceptions=True)


def _lists(what: Filter) -> dict[str, bool]:
    return {name: getattr(what, name) for name in FEATURES}
