"""Notifications that are not of changes, as events."""

from collections.abc import Mapping
from typing import Any

from tidings.client.events import CancelledReceived, Event, LogReceived, NotificationReceived
from tidings.client.shapes import as_text


def notice(method: str, params: Mapping[str, Any] | None) -> Event | None:
    """The event that a notification stands for. None for progress, which is told by the request it is of."""
    told: Mapping[str, Any] = params or {}
    match method:
        case "notifications/progress":
            return None
        case "notifications/message":
            return LogReceived(str(told.get("level", "info")), told.get("data"), as_text(told.get("logger")))
        case "notifications/cancelled":
            request_id = told.get("requestId")
            known = request_id if isinstance(request_id, str | int) else None
            return CancelledReceived(known, as_text(told.get("reason")))
        case _:
            return NotificationReceived(method, params)
