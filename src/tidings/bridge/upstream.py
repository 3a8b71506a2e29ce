"""`Upstream`: one server behind the bridge, with the session that is kept to it, its lists and its state.

The client reconnects by itself. A server that could not be reached at first is tried again for as long as it takes.
"""

import asyncio
import logging
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import mcp_types as types

from tidings._kit.backoff import Backoff, Pauses
from tidings._kit.bounded_json import as_dict, as_list
from tidings._kit.suggest import did_you_mean
from tidings._kit.tasks import Wakeup
from tidings._version import __version__
from tidings.bridge.settings import ClientCredentials, Json, UpstreamSpec
from tidings.client import ClientConfig, LiveClient, Tap, connect, events
from tidings.client.config import CacheLimits, Timeouts
from tidings.client.pending import PendingRequest
from tidings.client.targets import HttpTarget, Target, parse_target
from tidings.errors import NotAuthorized, TidingsError

logger = logging.getLogger(__name__)

ListName = str
Observe = Callable[[str, Target], tuple[Tap, Callable[[LiveClient], object]]]
# The lists of a server, and the feature that announces changes of each.
LISTS: Final = {"tools": "tools", "resources": "resources", "templates": "resources", "prompts": "prompts"}
_LOADED_BY: Final = {"templates": "resource_templates"}
_SOON: Final = 0.05  # Seconds between a call that may have changed something and the next load of the lists.
_LONGEST: Final = 12.0  # The pause between two loads grows up to this many intervals while nothing changes.
_PAUSES: Final = (0.5, 1.0, 2.0, 5.0, 15.0, 30.0)
_FIRST_TRY: Final = 10.0  # Seconds that the first answers of the bridge wait for a server to connect.
_TIME_LIMIT: Final = re.compile(r"Give it longer with Timeouts\(connect=...\)[^.]*\.")  # Advice for programs
_MOST_ITEMS: Final = 10_000  # Of one list. The rest is left out, which is logged.
_MOST_AT_ONCE: Final = 256  # Requests to one server.


class Naming:
    """The names of one server's items: `out` for clients, `back` for the server. `prefix` is empty for the only one.

    With several servers, `list_issues` of "github" is `github_list_issues`, and its `repo://a/b` is
    `github+repo://a/b`.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def name_out(self, name: str) -> str:
        return f"{self.prefix}_{name}" if self.prefix else name

    def name_back(self, name: str) -> str:
        return name.removeprefix(f"{self.prefix}_") if self.prefix else name

    def uri_out(self, uri: str) -> str:
        return f"{self.prefix}+{uri}" if self.prefix else uri

    def uri_back(self, uri: str) -> str:
        return uri.removeprefix(f"{self.prefix}+") if self.prefix else uri

    def item_out(self, kind: str, item: Mapping[str, Any]) -> Json:
        """Returns an item of a list as clients see it."""
        key = {"resources": "uri", "templates": "uriTemplate"}.get(kind, "name")
        return {**item, key: (self.name_out if key == "name" else self.uri_out)(str(item[key]))}

    def result_out(self, result: Json) -> Json:
        """Returns a result in which the URIs of resources are those that clients use."""
        if not self.prefix:
            return result
        changes = {"content": self._block_out, "contents": self._with_uri, "messages": self._message_out}
        found = {key: result[key] for key in changes if isinstance(result.get(key), list)}
        return {**result, **{key: [changes[key](each) for each in as_list(value)] for key, value in found.items()}}

    def _message_out(self, message: Any) -> Any:
        known = as_dict(message)
        return {**known, "content": self._block_out(known["content"])} if "content" in known else message

    def _block_out(self, block: Any) -> Any:
        known = as_dict(block)
        if known.get("type") == "resource_link":
            return self._with_uri(block)
        if known.get("type") == "resource":
            return {**known, "resource": self._with_uri(known.get("resource"))}
        return block

    def _with_uri(self, holder: Any) -> Any:
        known = as_dict(holder)
        return {**known, "uri": self.uri_out(known["uri"])} if isinstance(known.get("uri"), str) else holder


@dataclass(eq=False)
class Upstream:
    """A server, for one principal or for all. `changed` is called with the name of a list that changed."""

    spec: UpstreamSpec
    naming: Naming
    changed: Callable[["Upstream", ListName], None]
    answer: Callable[[PendingRequest], Any]
    is_awaited: Callable[[str], bool]
    """Returns whether somebody listens for changes of "tools", "resources" or "prompts"."""
    interval: float
    authorization: str | None = None  # The header of the client for which this session is kept, if it passes its own.
    observe: Observe | None = None

    def __post_init__(self) -> None:
        self.lists: dict[ListName, list[Json]] = {name: [] for name in LISTS}
        self.tools: dict[str, Json] = {}
        self.notices: dict[ListName, str] = {}  # The reasons why a list is not as the server has it.
        self.notifies = False  # The server has notified of the change of a resource.
        self.wakeup = Wakeup()
        self._failure: TidingsError | None = None
        self.tried = asyncio.Event()  # It has connected, or failed once, or is not waited for any more.
        self._tasks: list[asyncio.Task[None]] = []
        self._soon = Wakeup()
        self._changes = 0  # Of its lists.
        self._silent: set[str] = set()  # The features whose lists it has, and does not announce changes of.
        config = ClientConfig(
            timeouts=replace(Timeouts(), request=self.spec.timeout, total=max(self.spec.timeout * 5, 300.0)),
            backoff=Backoff(tries=0),  # It is tried again here, and each reason is logged.
            cache=CacheLimits(entries=0, size=0),
            concurrency=_MOST_AT_ONCE,
            history=0,
            check_output=False,
            max_items=_MOST_ITEMS + 1,
        )
        target = self._target()
        tap, seen = (None, None) if self.observe is None else self.observe(self.spec.name, parse_target(target))
        self.client: LiveClient = connect(
            target,
            era=self.spec.era,
            config=config,
            answer=self.answer,
            log_level="debug",
            client_info=types.Implementation(name="tidings-bridge", version=__version__),
            tap=tap,
        )
        if seen is not None:
            seen(self.client)
        self.client.on(events.ListLoaded, self._list_loaded)
        self.client.on(events.StderrReceived, lambda event: logger.info("%s: %s", self.spec.name, event.line))
        self.client.on(events.StateChanged, self._state_changed)

    def _target(self) -> object:
        """Returns the target with the credentials for it: those of the client, or those of the bridge."""
        target, auth = self.spec.target, self.spec.auth
        parsed = parse_target(target)
        if not isinstance(parsed, HttpTarget) or parsed.has_credentials:
            return target
        if auth is None and self.spec.pass_token:
            passed = {"Authorization": self.authorization} if self.authorization else {}
            return replace(parsed, headers={**parsed.headers, **passed})
        from tidings.client.sign_in import kept_sign_in, sign_in_with_secret  # noqa: PLC0415 - takes 3 MB of memory

        if isinstance(auth, ClientCredentials):
            auth = sign_in_with_secret(parsed.url, auth.issuer, auth.client_id, auth.client_secret, auth.scope)
        return replace(parsed, auth=auth or kept_sign_in(parsed.url))

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._keep_connected(), name=f"tidings bridge to {self.spec.name}"),
            asyncio.create_task(self._poll_lists(), name=f"tidings bridge lists of {self.spec.name}"),
        ]

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.client.aclose()

    async def _keep_connected(self) -> None:
        """Connects for the first time, however long it takes. Afterwards the client reconnects by itself."""
        pauses = Pauses(_PAUSES, below=0.5)
        while True:
            try:
                await self.client.connect()
                self._failure = None
                await self.client.wait_fresh()
                self.tried.set()
                self.wakeup()
                await self.wakeup.until(lambda: self.client.state in ("error", "disconnected"))
            except TidingsError as error:
                new, self._failure = str(error) != str(self._failure), error
                if new:
                    logger.warning("%s cannot be reached: %s", self.spec.name, self.trouble)
            self.tried.set()
            self.wakeup()
            await asyncio.sleep(pauses.next())

    async def _poll_lists(self) -> None:
        """Loads lists again whose changes the server does not announce, while somebody listens for these."""
        pause = self.interval
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause * random.uniform(0.9, 1.1)):  # noqa: S311 - guards nothing
                    await self._soon.wait()
                    await asyncio.sleep(_SOON)
            silent = [name for name, feature in LISTS.items() if feature in self._silent and self.is_awaited(feature)]
            before = self._changes
            for name in silent:
                with suppress(TidingsError):
                    await getattr(self.client, f"list_{_LOADED_BY.get(name, name)}")()
            pause = min(pause * 1.5, self.interval * _LONGEST) if before == self._changes and silent else self.interval

    def _state_changed(self, _: events.StateChanged) -> None:
        capabilities = self.client.capabilities if self.client.connected else None
        stated = {feature: getattr(capabilities, feature, None) for feature in LISTS.values()}
        self._silent = {feature for feature, each in stated.items() if each is not None and not each.list_changed}
        self.wakeup()

    def hurry(self) -> None:
        """Loads such lists soon: something may have changed."""
        if self._silent:
            self._soon()

    async def until_tried(self) -> None:
        """Waits until the server has been connected to, or the first attempt failed, or it takes too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_TRY):
                await self.tried.wait()
        self.tried.set()

    @property
    def trouble(self) -> str:
        """The reason why it cannot be used now; empty if it can."""
        if self.client.connected:
            return ""
        error = self.client.error or self._failure  # The latter while it is tried again.
        if error is None:
            return "It has not answered yet." if self.client.era is None else f"It is {self.client.state}."
        message = _TIME_LIMIT.sub("It is tried again; check that it is an MCP server.", error.message)
        return f"{message} {self.cure}" if isinstance(error, NotAuthorized) else message

    @property
    def cure(self) -> str:
        """The advice to somebody whose credentials the server refuses."""
        if self.spec.pass_token:
            return "The bridge passes the token of its client on: connect to the bridge with a token for this server."
        if self.spec.has_credentials:
            return f"Check the credentials of {self.spec.name!r} in the file of servers."
        how = "as headers or as tidings.auth, or let clients send theirs with --pass-token"
        return f"Write the credentials of {self.spec.name!r} into a file of servers, {how}."

    def is_safe(self, tool: str) -> bool:
        """Returns whether a call may be sent twice: its tool only reads, or says that it makes no difference."""
        return self.only_reads(tool) or self._hints(tool).get("idempotentHint") is True

    def only_reads(self, tool: str) -> bool:
        """Returns whether a tool says that it changes nothing."""
        return self._hints(tool).get("readOnlyHint") is True

    def _hints(self, tool: str) -> Json:
        return as_dict(self.tools.get(tool, {}).get("annotations"))

    def needs_task(self, tool: str) -> bool:
        """Returns whether the server runs a tool as a task only, in the form of 2025-11-25."""
        execution = as_dict(self.tools.get(tool, {}).get("execution"))
        return self.client.era == "legacy" and execution.get("taskSupport") == "required"

    def _list_loaded(self, event: events.ListLoaded) -> None:
        self.notices[event.name] = self._notice(event)
        if event.error is not None:
            return
        items = [dict(item) for item in event.items[:_MOST_ITEMS]]
        if event.name in ("tools", "prompts"):
            items = list({str(item["name"]): item for item in items if self.spec.offers(str(item["name"]))}.values())
        if event.name == "tools":
            self.tools = {str(item["name"]): item for item in items}
        if items != self.lists[event.name]:
            self.lists[event.name] = items
            self._changes += 1
            self.changed(self, event.name)

    def _notice(self, event: events.ListLoaded) -> str:
        """Returns what is wrong with a list, if anything is, and logs it."""
        names = Counter(str(item.get("name")) for item in event.items if event.name in ("tools", "prompts"))
        twice = [name for name, number in names.items() if number > 1]
        missing = [watch.tool for watch in self.spec.watches if event.name == "tools" and watch.tool not in names]
        text = ""
        if event.error is not None:
            text = f"Its {event.name} could not be loaded: {event.error}"
        elif len(event.items) > _MOST_ITEMS:
            text = f"It has more than {_MOST_ITEMS:,} {event.name}: only the first of them are offered."
        elif twice:
            text = f"It has several {event.name} of the name {twice[0]!r}: only the last of them is offered."
        elif missing:
            text = f"It has no tool {missing[0]!r}, which is to be watched.{did_you_mean(missing[0], names)}"
        if text and text != self.notices.get(event.name):
            logger.warning("%s: %s", self.spec.name, text)
        return text
