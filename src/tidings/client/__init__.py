"""The live client: `connect()` and `LiveClient`.

| room | what is in it |
|---|---|
| `connecting`, `live`, `standing`, `parts` | `connect()`; the client as its users see it; its parts, put together |
| `config`, `states`, `events`, `invocations` | settings, states, what happens and what calls return, as values |
| `targets`, `addresses`, `servers_file`, `masking` | what to connect to, and the secrets that are never shown |
| `transports`, `bodies`, `sockets`, `sse`, `quiet` | the ways there over HTTP; the SDK's log kept quiet |
| `stdio`, `process`, `lines`, `launching` | the way to a command |
| `wire`, `tapping`, `tapped_http`, `tapped_memory` | what goes over the wire, for whoever listens in |
| `link`, `sdk`, `web_side` | one connection, held by a task of its own; what its web server's answers say |
| `connection` | the state machine that opens one link after another |
| `queue`, `requests`, `calls`, `shapes` | requests in their turn and time |
| `failures`, `connect_failures` | what went wrong, by its name |
| `feed`, `legacy`, `modern` | how a client hears of changes, one file for each era |
| `subscriptions`, `wanted`, `watching`, `refresh` | what is wanted, known to be current, and read again |
| `output`, `validation`, `patterns` | what tools return, held against their schemas within bounds |
| `lists`, `mirrors`, `cache`, `store` | the server's lists and content as last heard; what outlives the process |
| `pending`, `questions`, `answers`, `forms`, `responders`, `script` | what the server asks, and who answers |

One update's way through it: `link` hears it in order of arrival, the era's feed knows it for a change,
`subscriptions` lets go of the cached content, `events` tells it, `refresh` reads it again, `watching` passes it on.

May import: `bus`, `changes`, `errors`, `lazy`. Never `server`.

The names below are imported when they are first used: `servers_file` and `masking` serve those who never connect, and
must not cost what the SDK costs.
"""

from typing import TYPE_CHECKING

from tidings._kit.lazy import lazy_names

if TYPE_CHECKING:
    from tidings.client.cache import Cache, PromptGet, ResourceRead, TemplateRead, ToolCall
    from tidings.client.config import Backoff, CacheLimits, ClientConfig, ListChanged, Poll, Timeouts
    from tidings.client.live import LiveClient, connect
    from tidings.client.mirrors import Malformed
    from tidings.client.pending import Pending
    from tidings.client.questions import ASK, PendingRequest, Responder, refusal
    from tidings.client.queue import QueueEntry, QueueStatus, RequestQueue, Status
    from tidings.client.states import Signal, State

__all__ = [
    "ASK",
    "Backoff",
    "Cache",
    "CacheLimits",
    "ClientConfig",
    "ListChanged",
    "LiveClient",
    "Malformed",
    "Pending",
    "PendingRequest",
    "Poll",
    "PromptGet",
    "QueueEntry",
    "QueueStatus",
    "RequestQueue",
    "ResourceRead",
    "Responder",
    "Signal",
    "State",
    "Status",
    "TemplateRead",
    "Timeouts",
    "ToolCall",
    "connect",
    "refusal",
]

_HOMES = {
    "ASK": "tidings.client.questions",
    "Backoff": "tidings.client.config",
    "Cache": "tidings.client.cache",
    "CacheLimits": "tidings.client.config",
    "ClientConfig": "tidings.client.config",
    "ListChanged": "tidings.client.config",
    "LiveClient": "tidings.client.live",
    "Malformed": "tidings.client.mirrors",
    "Pending": "tidings.client.pending",
    "PendingRequest": "tidings.client.questions",
    "Poll": "tidings.client.config",
    "PromptGet": "tidings.client.cache",
    "QueueEntry": "tidings.client.queue",
    "QueueStatus": "tidings.client.queue",
    "RequestQueue": "tidings.client.queue",
    "ResourceRead": "tidings.client.cache",
    "Responder": "tidings.client.questions",
    "Signal": "tidings.client.states",
    "State": "tidings.client.states",
    "Status": "tidings.client.queue",
    "TemplateRead": "tidings.client.cache",
    "Timeouts": "tidings.client.config",
    "ToolCall": "tidings.client.cache",
    "connect": "tidings.client.live",
    "refusal": "tidings.client.questions",
}


if not TYPE_CHECKING:  # A type checker is to find names that are misspelt.
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
