"""The live server: `LiveServer` and `attach()`.

A change enters at `notify`, is stored by the bus, comes back to `core`, is matched to subscribers by `hub`, and is
written by the subscriber of its era (`modern`, `legacy`): through the borrowed stream, or through the SDK's session.
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
