"""The live server: `LiveServer` and `attach()`.

    live.py        Live: what makes a server live, and its beginning and end
    server.py      LiveServer and attach()
    adapters.py    what Tidings knows of the SDK's servers and of FastMCP
    provider.py    resources that are found when they are asked for
    notify.py      server.notify: publishing, and who listens
    coalesce.py    merging changes that follow each other quickly
    core.py        what both eras share: the bus, the hub, who may join
    hub.py         who wants what
    subscriber.py  one subscriber: what waits for it, and when it is cut off
    modern.py      the era of subscriptions/listen
    legacy.py      the era of resources/subscribe
    borrow.py      the borrowed stream
    webserver.py   the web server under it, and the short way past its `send`
    frames.py      a change, encoded once for all
    policy.py      what may be subscribed to, and by whom
    hooks.py       the first subscriber and the last
    patterns.py    URIs, prefixes and templates
    checks.py      what is wrong with options, said where they are given
    background.py  work that is begun and not waited for
    shared.py      something that runs while anybody needs it
    rpc.py         named errors as JSON-RPC errors
    prompt_errors.py   the same of prompts
    tool_errors.py what a call of a tool that is not right is told, for servers that want it
    schemas.py     schemas without what goes without saying
    stdio.py       serving over standard input and output
    stop.py        hearing that the process shall stop
    telemetry.py   spans and metrics
    config.py      the settings, as values

May import: `bus`, `changes`, `errors`. Never `client`.
"""

from tidings.server.config import Coalesce, CoalesceSetting, Limits
from tidings.server.live import Live
from tidings.server.notify import Notifier
from tidings.server.policy import Authorize
from tidings.server.server import LiveServer, ResourceProvider, attach
from tidings.server.subscriber import SubscriberInfo

__all__ = [
    "Authorize",
    "Coalesce",
    "CoalesceSetting",
    "Limits",
    "Live",
    "LiveServer",
    "Notifier",
    "ResourceProvider",
    "SubscriberInfo",
    "attach",
]
