"""Notifications that are not of changes, as events."""

from collections.abc import Mapping
from typing import Any, cast

from tidings.client.events import CancelledReceived, Event, LogReceived, NotificationReceived


def notice(method: str, params: Mapping[str, Any] | None) -> Event | None:
    """The event that a notification stands for. None for progress, which is told by the request it is of."""
    told: Mapping[str, Any] = params or {}
    match method:
        case "notifications/progress":
            return None
        case "notifications/message":
            return LogReceived(str(told.get("level", "info")), told.get("data"), _text(told.get("logger")))
        case "notifications/cancelled":
            request_id = told.get("requestId")
            known = request_id if isinstance(request_id, str | int) else None
            return CancelledReceived(known, _text(told.get("reason")))
        case _:
            return NotificationReceived(method, cast("Mapping[str, Any] | None", params))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
