"""The live client: `connect()` and `LiveClient`.

An update passes through `link`, the feed of its era, `subscriptions` (which drops the cached content), `events`, and
`watching`, which reads it again and passes it on. CONTRIBUTING.md says which file does what.

Names are imported at first use: `servers_file` and `masking` must not cost what the SDK costs.
"""

from typing import TYPE_CHECKING

from tidings._kit.lazy import lazy_names

if TYPE_CHECKING:
    from tidings.client.cache import Cache, CacheInfo, PromptGet, ResourceRead, TemplateRead, ToolCall
    from tidings.client.calls import StartedCall
    from tidings.client.config import Backoff, CacheLimits, ClientConfig, ListChanged, Poll, Signal, State, Timeouts
    from tidings.client.event_receiver import EventReceiver
    from tidings.client.live import LiveClient
    from tidings.client.mirrors import Malformed
    from tidings.client.pending import ASK, Pending, PendingRequest, Responder, refusal
    from tidings.client.queue import QueueEntry, QueueStatus, RequestQueue, Status
    from tidings.client.server_events import EventsTruncated, ServerEvent
    from tidings.client.tasks import RemoteTask
    from tidings.client.transports.tap import Exchange, Message, Tap
    from tidings.client.watching import ChangeBatch, ResourceChange
    from tidings.client.wiring import connect

# fmt: off
__all__ = [
    "ASK", "Backoff", "Cache", "CacheInfo", "CacheLimits", "ChangeBatch", "ClientConfig", "EventReceiver",
    "EventsTruncated", "Exchange", "ListChanged", "LiveClient", "Malformed", "Message", "Pending", "PendingRequest",
    "Poll", "PromptGet", "QueueEntry", "QueueStatus", "RemoteTask", "RequestQueue", "ResourceChange", "ResourceRead",
    "Responder", "ServerEvent", "Signal", "StartedCall", "State", "Status", "Tap", "TemplateRead", "Timeouts",
    "ToolCall", "connect", "refusal",
]
# fmt: on

_NAMES = {
    "cache": ("Cache", "CacheInfo", "PromptGet", "ResourceRead", "TemplateRead", "ToolCall"),
    "calls": ("StartedCall",),
    "config": ("Backoff", "CacheLimits", "ClientConfig", "ListChanged", "Poll", "Signal", "State", "Timeouts"),
    "event_receiver": ("EventReceiver",),
    "live": ("LiveClient",),
    "mirrors": ("Malformed",),
    "pending": ("ASK", "Pending", "PendingRequest", "Responder", "refusal"),
    "queue": ("QueueEntry", "QueueStatus", "RequestQueue", "Status"),
    "server_events": ("EventsTruncated", "ServerEvent"),
    "tasks": ("RemoteTask",),
    "transports.tap": ("Exchange", "Message", "Tap"),
    "watching": ("ChangeBatch", "ResourceChange"),
    "wiring": ("connect",),
}
_HOMES = {name: f"tidings.client.{file}" for file, names in _NAMES.items() for name in names}


if not TYPE_CHECKING:  # A type checker is to find names that are misspelt.
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
