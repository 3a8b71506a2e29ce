"""`LiveClient`: a client that stays fresh, as its users see it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from mcp_types import (
    CompleteResult,
    LoggingLevel,
    Prompt,
    PromptReference,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
    Tool,
)

from tidings.client.events import Event, EventT, Handler
from tidings.client.invocations import PromptGet, ResourceRead, TemplateRead, ToolCall
from tidings.client.requests import OnProgress
from tidings.client.responders import roots_responder
from tidings.client.standing import Standing
from tidings.client.watching import check_watched
from tidings.errors import NotSupported, RequestTimedOut


class LiveClient(Standing):
    """A client of one MCP server: connect once, and your copy stays fresh.

    Made by `tidings.connect`. Use it with `async with`, or call `connect` and `aclose`.
    """

    # The connection.

    async def __aenter__(self) -> Self:
        try:
            await self.connect()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def connect(self) -> None:
        """Connect, and load the lists that are mirrored.

        Raises:
            TidingsError: No connection came about within the tries that are set.
        """
        await self._restore()
        self._subscriptions.broken = None
        await self._connection.connect()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._config.timeouts.connect):
                await self._lists.first_loads()

    async def reconnect(self) -> None:
        """Try again now, after it was given up, or before the pause is over."""
        self._subscriptions.broken = None
        await self._connection.reconnect()

    async def disconnect(self) -> None:
        """End the connection on purpose: what waits is rejected, and nothing is kept: no content, no subscription."""
        await self._end()
        self._lists.clear()
        self._subscriptions.clear()
        self._cache.clear_all()
        if self._store is not None:
            await self._store.clear()

    async def aclose(self) -> None:
        """End the connection and let everything go. What `state` keeps is kept for the next process."""
        await self._end()
        await self._events.aclose()
        if self._store is not None:
            await self._store.aclose()

    # Events.

    def on(self, kind: type[EventT], handler: Handler[EventT]) -> Callable[[], None]:
        """Call `handler` with each event of this kind, until the function that is returned is called.

        A handler may be a coroutine function. One that fails is logged, and reaches nobody else.
        """
        return self._events.on(kind, handler)

    def events(self, *, limit: int = 10_000) -> AsyncIterator[Event]:
        """Every event from when the loop begins until the client is closed. A reader who falls behind by more than
        `limit` is told so.
        """
        return self._events.stream(limit)

    # The lists.

    async def list_tools(self) -> list[Tool]:
        """Load the server's tools, all pages."""
        return list(await self._lists.tools.load())

    async def list_resources(self) -> list[Resource]:
        """Load the server's resources, all pages."""
        return list(await self._lists.resources.load())

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        """Load the server's resource templates, all pages."""
        return list(await self._lists.templates.load())

    async def list_prompts(self) -> list[Prompt]:
        """Load the server's prompts, all pages."""
        return list(await self._lists.prompts.load())

    # Requests.

    async def read_resource(
        self,
        uri: str,
        metadata: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> ResourceRead:
        """Read a resource. Always asks the server; `cache.get_resource` has what was read last."""
        return await self._calls.read(uri, metadata, timeout=timeout)

    async def read_resource_from_template(
        self, uri_template: str, params: Mapping[str, str], metadata: Mapping[str, Any] | None = None
    ) -> TemplateRead:
        """Read the resource that one of `resource_templates` stands for, filled in with `params`."""
        return await self._calls.read_from_template(uri_template, params, metadata)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, Any] | None = None, metadata: Mapping[str, Any] | None = None
    ) -> PromptGet:
        """Get a prompt, filled in by the server. Arguments that are not texts are sent as JSON."""
        return await self._calls.get_prompt(name, arguments, metadata)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - a limit that progress moves
        on_progress: OnProgress | None = None,
        idempotent: bool = False,
    ) -> ToolCall:
        """Call a tool. A failure that the tool reports is in `result.is_error`; others are raised, and cached too.

        With `idempotent` it is called again if the connection was lost meanwhile, though the server does not say that
        this does no harm.

        Raises:
            EffectUnknown: The connection was lost meanwhile, and the tool is not marked as safe to call twice.
            TidingsError: What else went wrong, by its name.
        """
        return await self._calls.call_tool(
            name, arguments, metadata, timeout=timeout, on_progress=on_progress, idempotent=idempotent
        )

    async def complete(
        self,
        ref: ResourceTemplateReference | PromptReference,
        argument: Mapping[str, str],
        context: Mapping[str, str] | None = None,
    ) -> CompleteResult:
        """Ask the server to complete an argument of a prompt or a resource template."""
        return await self._calls.complete(ref, argument, context)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - a limit that progress moves
        safe: bool = False,
    ) -> dict[str, Any]:
        """Send any request, in its turn, and return its result as it is: nothing is checked or cached.

        With `safe` it is sent again if the connection was lost meanwhile.

        Raises:
            EffectUnknown: The connection was lost meanwhile, and it was not said to be safe to send twice.
            TidingsError: What else went wrong, by its name.
            ValueError: It cannot be sent: `params` is no JSON, or `method` is that of a notification.
        """
        return await self._calls.request(method, params, timeout=timeout, safe=safe)

    async def ping(self) -> float:
        """Ask the server whether it is there, past the queue; how many seconds it took to answer.

        Raises:
            RequestTimedOut: It did not within `Timeouts.ping`.
            TidingsError: What else went wrong, by its name.
        """
        return await self._calls.ping(lambda: self._require_feed().ping())

    def cancel(self, request_id: str) -> bool:
        """Cancel a request that waits or runs, by its id in `queue`. False if there is none any more."""
        return self.queue.cancel(request_id)

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Have the server send log messages of this level and above: now, and on later connections."""
        self._log_level = level
        await self._ask_for_logs(level)

    async def set_roots(self, roots: Sequence[str | Path]) -> None:
        """Give the server other roots. It must have been connected with `roots=...` or `answer=...`."""
        self.pending.set_roots(roots_responder(roots))
        await self._requests.run(
            "notifications/roots/list_changed",
            {},
            lambda _link, _entry: self._require_feed().roots_changed(),
            safe=True,
            aside=True,
        )

    # Subscriptions.

    async def subscribe(self, uris: str | Sequence[str]) -> None:
        """Subscribe to a resource or several, or to all whose URI begins with what stands before a `*`.

        Kept over lost connections, until `unsubscribe` or `disconnect`. An update drops the cached content, and is
        told as `ResourceUpdated`.

        Raises:
            NotSupported: The server offers no subscriptions. (`watch` polls then.)
            RequestTimedOut: No connection lasted long enough to establish them.
            TidingsError: The server refused one of them; the others are subscribed to.
        """
        seconds = self._config.timeouts.total
        try:
            async with asyncio.timeout(seconds):
                await self._subscribe([uris] if isinstance(uris, str) else uris)
        except TimeoutError:
            raise RequestTimedOut(
                f"{self.name} took no subscription within {seconds:g} s. Give it longer with Timeouts(total=...).",
                server=self.name,
                method="resources/subscribe",
                elapsed=seconds,
            ) from None

    async def _subscribe(self, uris: Sequence[str]) -> None:
        await self._connection.ready()
        if not self._subscriptions.supported:
            raise NotSupported(
                f"{self.name} offers no subscriptions to resources. `watch` works all the same: it polls.",
                server=self.name,
                method="resources/subscribe",
            )
        await self._subscriptions.add(uris)

    async def unsubscribe(self, uris: str | Sequence[str]) -> None:
        """Undo `subscribe`. What is not subscribed to is passed over."""
        await self._subscriptions.remove([uris] if isinstance(uris, str) else uris)

    def watch(
        self, uris: str | Sequence[str], *, missing: Literal["raise", "wait"] = "raise"
    ) -> AsyncGenerator[ResourceRead]:
        """The content of a resource now, and again whenever it is different; of several, each.

        A resource that goes away ends nothing: its content comes when it is there again, if it is different then.

        Args:
            uris: One URI or several.
            missing: What to do if none of them is there at the beginning: "wait" for one to appear, or "raise".

        Raises:
            InvalidUri: One of them is no URI.
            ResourceNotFound: None of them is there at the beginning.
            TidingsError: There will be no more: one of them cannot be read, or the connection was given up.
        """
        if missing not in ("raise", "wait"):
            raise ValueError(f"missing= is 'raise' or 'wait', not {missing!r}")
        texts = [uris] if isinstance(uris, str) else list(uris)
        return self._watch([check_watched(uri) for uri in texts], patient=missing == "wait")

    async def _watch(self, uris: Sequence[str], *, patient: bool) -> AsyncGenerator[ResourceRead]:
        self._connection.check()
        async with contextlib.aclosing(self._subscriptions.watches.watch(uris, patient=patient)) as reads:
            async for read in reads:
                yield read

    async def wait_fresh(self) -> None:
        """Wait until everything that is subscribed to, watched or mirrored is known to be current. The server is asked
        whether it is there: one that died a moment ago would not have told of a change.

        Raises:
            TidingsError: It will not be: the connection was given up, or ended on purpose.
        """
        while True:
            while not self._all_fresh():
                self._connection.check()
                await self._pulse.wait()
            link = self._connection.link
            # Whatever comes meanwhile came after: to wait for a moment without news might take for ever.
            if link is not None and await self._connection.answers(link):
                return
            await asyncio.sleep(0)  # Let whoever sees the connection end say so.
