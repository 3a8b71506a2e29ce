"""The live server: `LiveServer` and `attach()`.

A change enters at `notify`, is stored by the bus, comes back to `core`, is matched to subscribers by `hub`, and is
written by the subscriber of its era: through the borrowed stream, or through the SDK's session.

    server.py           LiveServer, attach(), ResourceProvider
    live.py             Live: one server's wiring and life, from its start until it is drained
    modern.py           the modern era: subscriptions/listen
    legacy.py           the legacy era: resources/subscribe
    wrapper.py          the ASGI wrappers: borrowing streams, and finding the session of each request
    sessions.py         legacy sessions that all replicas share
    session_records.py  the shared part of these sessions, on the bus
    core.py             the part that both eras share: the log, the hub, joining, JSON-RPC errors
    notify.py           Notifier: publishes a change, with the time at its source
    coalesce.py         Coalescer: merges changes that follow each other quickly
    hub.py              Hub: the subscribers of each URI, prefix and list
    subscriber.py       Subscriber: its backlog and deadline; Frame: a change as bytes
    borrowed_stream.py  frames written straight through the web server's `send`
    http_exchange.py    HttpExchange: a request, what it weighs, and how HTTP says that it is refused
    policy.py           SubscriptionPolicy: what may be subscribed to, and by whom
    budget.py           Budget: how streams, sessions and memory are shared among clients
    hooks.py            the first subscriber of a resource, and the last
    families.py         ResourceFamily: resources described as a table
    exact_calls.py      ExactServer: tools and prompts that check their arguments exactly
    adapters.py         the SDK seam: lowlevel Server, MCPServer, FastMCP
    stdio.py, stop.py   standard input and output; stop signals
    waking/             tasks, and the tool wait_for_change
    events/             MCP Events: poll, stream, webhooks
    config.py           Coalesce, Limits, Waking, Events, Webhooks, and the checks of options
    telemetry.py        spans and metrics
"""

from tidings.server.config import Coalesce, CoalesceSetting, Events, Limits, Waking, Webhooks
from tidings.server.live import Live
from tidings.server.notify import Notifier
from tidings.server.policy import Authorize
from tidings.server.server import LiveServer, ResourceProvider, attach
from tidings.server.subscriber import SubscriberInfo

__all__ = [
    "Authorize",
    "Coalesce",
    "CoalesceSetting",
    "Events",
    "Limits",
    "Live",
    "LiveServer",
    "Notifier",
    "ResourceProvider",
    "SubscriberInfo",
    "Waking",
    "Webhooks",
    "attach",
]
