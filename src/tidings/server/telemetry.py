"""The spans and metrics of a live server. The metrics are declared in `tidings._kit.telemetry`.

| span | attributes, besides `tidings.subscriber_count` |
|---|---|
| `change_notifier.subscribe`, `.unsubscribe` | `tidings.client`, and `mcp.resource.uri` or `tidings.feature` |
| `change_notifier.cleanup_client` | `tidings.client` |
| `change_notifier.notify_list_changed` | `tidings.feature` |
| `change_notifier.notify_resource_updated` | `mcp.resource.uri` |

`tidings.subscriber_count` is the number of subscribers, in this process, of what the span names: its URI or feature, in
a notification also through prefixes. Where it names neither, of everything.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from tidings._kit.telemetry import measure, safely, start_span, trace_of
from tidings.changes import FEATURE_OF, TIMES_KEY, Change, ResourceUpdated

_COUNT: Final = "tidings.subscriber_count"
_NAMES: Final = {"uri": "mcp.resource.uri", "feature": "tidings.feature"}


def record_span(name: str, count: int, *, client: str, **attributes: str) -> None:
    """Records something that has just been done, which leaves `count` subscribers."""
    about = {_NAMES[key]: value for key, value in attributes.items()}
    span = start_span(f"change_notifier.{name}", {"tidings.client": client, **about, _COUNT: count})
    if span is not None:
        safely(name, span.end)


def record_delivery(deliver: Callable[[], int], change: Change, meta: Mapping[str, Any] | None) -> None:
    """Calls `deliver`, which delivers `change` and returns the number of its subscribers, and records it.

    With the `meta` of a change that this process published, its span belongs to the trace of the publisher.
    """
    if isinstance(change, ResourceUpdated):
        name, about = "change_notifier.notify_resource_updated", {_NAMES["uri"]: change.uri}
    else:
        name, about = "change_notifier.notify_list_changed", {_NAMES["feature"]: FEATURE_OF[change]}
    span = start_span(name, about, None if meta is None else trace_of(meta))
    began = time.perf_counter()
    try:
        count = deliver()
        measure("tidings.deliveries", count)
        measure("tidings.delivery.duration", time.perf_counter() - began)
        if count and meta is not None:
            measure("tidings.delivery.lag", max(time.time() - meta[TIMES_KEY]["published"], 0.0))
        if span is not None:
            safely(name, span.set_attribute, _COUNT, count)
    finally:
        if span is not None:
            safely(name, span.end)
