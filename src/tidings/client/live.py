"""`LiveClient`: a client that stays fresh, as its users see it.

Where a live client stands, as far as is known without asking: its connection, its server, and the server's lists.

`connect()`: from what a user has (a URL, a command, a file, a server object) to a live client.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import httpx2
from mcp_types import (
    CompleteResult,
    Implementation,
    LoggingLevel,
    Prompt,
    PromptReference,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
    ServerCapabilities,
    Tool,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from tidings.client.cache import Cache, PromptGet, ResourceRead, TemplateRead, ToolCall
from tidings.client.config import ClientConfig
from tidings.client.events import Event, EventT, Handler
from tidings.client.mirrors import Malformed
from tidings.client.questions import ASK, Responder
from tidings.client.requests import OnProgress
from tidings.client.responders import roots_responder, script_responder
from tidings.client.states import State
from tidings.client.targets import CommandTarget, HttpTarget, ServerTarget, parse_target
from tidings.client.transports.tap import Tap
from tidings.client.watching import check_watched
from tidings.client.wiring import ClientWiring
from tidings.errors import NotSupported, RequestTimedOut, TidingsError


class Standing(ClientWiring):
    """What can be said of a client at once."""

    @property
    def state(self) -> State:
        """Where the connection stands."""
        return self._connection.state

    @property
    def connected(self) -> bool:
        """Whether the server answers, as far as is known."""
        link = self._connection.link
        return self._connection.state is State.CONNECTED and link is not None and not link.over

    @property
    def error(self) -> TidingsError | None:
        """What went wrong last, until it is mended."""
        return self._connection.error

    @property
    def tries(self) -> int:
        """How many attempts to connect have failed in a row."""
        return self._connection.tries

    @property
    def next_retry(self) -> datetime | None:
        """When the next attempt to connect begins by itself, if there is to be one."""
        return self._connection.next_retry

    @property
    def transport(self) -> Literal["stdio", "http", "sse", "memory", "custom"]:
        """The way to the server: of one at a URL the one that was found last; "custom" is a transport of the SDK's."""
        match self._target:
            case HttpTarget(kind=kind):
                return "sse" if self._sse else kind or "http"
            case CommandTarget():
                return "stdio"
            case ServerTarget():
                return "memory"
            case _:
                return "custom"

    @property
    def pid(self) -> int | None:
        """The number of the server's process, while it is connected and a command."""
        link = self._connection.link
        return None if link is None else link.pid

    @property
    def protocol_version(self) -> str | None:
        """The version of the protocol that the two sides agreed on, last."""
        return self._last_server and self._last_server[0]

    @property
    def server_info(self) -> Implementation | None:
        """Who the server says it is."""
        return self._last_server and self._last_server[1]

    @property
    def capabilities(self) -> ServerCapabilities | None:
        """What the server says it can do."""
        return self._last_server and self._last_server[2]

    @property
    def instructions(self) -> str | None:
        """What the server tells a model about its use."""
        return self._last_server and self._last_server[3]

    # The lists.

    @property
    def tools(self) -> list[Tool]:
        """The server's tools, as last loaded."""
        return list(self._lists.tools.items)

    @property
    def resources(self) -> list[Resource]:
        """The server's resources, as last loaded."""
        return list(self._lists.resources.items)

    @property
    def resource_templates(self) -> list[ResourceTemplate]:
        """The server's resource templates, as last loaded."""
        return list(self._lists.templates.items)

    @property
    def prompts(self) -> list[Prompt]:
        """The server's prompts, as last loaded."""
        return list(self._lists.prompts.items)

    @property
    def malformed(self) -> list[Malformed]:
        """Items of the lists that are not what the protocol says, with the reason."""
        return [each for mirror in self._lists for each in mirror.malformed]

    # Content.

    @property
    def cache(self) -> Cache:
        """The latest result of each read, prompt and tool call: the same objects that the calls returned."""
        return self._cache

    @property
    def supports_subscriptions(self) -> bool:
        """Whether the server that is connected offers subscriptions to resources."""
        return self._subscriptions.supported

    @property
    def subscriptions(self) -> list[str]:
        """What is subscribed to."""
        return list(self._subscriptions)

    def is_subscribed(self, uri: str) -> bool:
        """Whether this is subscribed to."""
        return uri in self._subscriptions

    def is_fresh(self, uri: str) -> bool:
        """Whether the copy in the cache is known to be what the server has now."""
        return self.connected and self._subscriptions.is_fresh(uri)

    def _all_fresh(self) -> bool:
        return (
            self.connected
            and self._subscriptions.settled
            and self._subscriptions.refresher.idle
            and self._subscriptions.watches.handed_over
            and not self._lists.busy
        )


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


def connect(
    target: object,
    *,
    era: str = "auto",
    config: ClientConfig | None = None,
    state: str | Path | None = None,
    headers: Mapping[str, str] | None = None,
    token: str | None = None,
    auth: httpx2.Auth | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    answer: Responder | str | Path | None = None,
    roots: Sequence[str | Path] | None = None,
    log_level: LoggingLevel | None = None,
    tap: Tap | None = None,
) -> LiveClient:
    """A client of the server that `target` names, to be used with `async with`.

    Args:
        target: A URL (`"https://host/mcp"`; streamable HTTP, or SSE where the server has only that), a command
            (`["python", "server.py"]`, or one text), a JSON file of servers (`"mcp.json#name"`), or a server object.
        era: `"auto"` takes the newest that both sides speak; `"legacy"` the old handshake; or a modern version.
        config: Timeouts, limits, backoff.
        state: A file that keeps content, subscriptions and the place in the server's log for the next process.
        headers: Sent with each HTTP request.
        token: Sent as `Authorization: Bearer …`.
        auth: An `httpx2.Auth`, such as the SDK's `OAuthClientProvider`.
        env: Added to the environment of a command.
        cwd: The folder in which a command runs.
        environ: Where a file's `${VARIABLES}` are looked up: pass `os.environ`.
        answer: Who answers what the server asks of the user: `"ask"` puts it into `client.pending`; a function; or
            the path of a script in YAML or JSON. Without it the server is told that nobody can be asked.
        roots: The folders or URIs that the server may work in.
        log_level: The least level of log messages that the server should send.
        tap: Hears of each message and HTTP exchange, secrets masked: see `tidings.client.transports.tap`.

    Raises:
        BadTarget: `target` was not understood, or an option does not fit it.
        ValueError: `era` or `answer` is none of the above.
    """
    if era not in ("auto", "legacy", *MODERN_PROTOCOL_VERSIONS):
        hint = " (for this version use era='legacy')" if era in HANDSHAKE_PROTOCOL_VERSIONS else ""
        raise ValueError(f"era is 'auto', 'legacy' or one of {', '.join(MODERN_PROTOCOL_VERSIONS)}, not {era!r}{hint}")
    return LiveClient(
        parse_target(target, headers=headers, token=token, auth=auth, env=env, cwd=cwd, environ=environ or {}),
        era=era,
        config=config,
        state=None if state is None else Path(state),
        answer=_responder(answer),
        roots=None if roots is None else roots_responder(roots),
        log_level=log_level,
        tap=tap,
    )


def _responder(answer: Any) -> Responder | None:
    if answer is None or callable(answer):
        return answer
    if answer == "ask":
        return lambda _: ASK
    if isinstance(answer, str | Path):
        return script_responder(answer)
    raise ValueError(f"answer is 'ask', a function or the path of a script, not {type(answer).__name__}")
