"""Where a live client stands, as far as is known without asking: its connection, its server, and the server's lists."""

from datetime import datetime
from typing import Literal

from mcp_types import Implementation, Prompt, Resource, ResourceTemplate, ServerCapabilities, Tool

from tidings.client.cache import Cache
from tidings.client.mirrors import Malformed
from tidings.client.parts import Parts
from tidings.client.states import State
from tidings.client.targets import CommandTarget, HttpTarget, ServerTarget
from tidings.errors import TidingsError


class Standing(Parts):
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
