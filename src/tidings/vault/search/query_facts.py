"""What `modified:`, `size:`, `has:`, `kind:` and `in:` are followed by. All raise ValueError: the cause; a cure."""

import re
from datetime import datetime, timedelta

HAS = ("task", "todo", "done", "link", "embed", "attachment", "tag", "property", "alias", "heading", "block", "problem")
KINDS = ("note", "canvas", "base", "attachment")

_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1), "m": timedelta(days=30)}
_UNITS["y"] = timedelta(days=365)
_BYTES = {"": 1, "b": 1, "k": 10**3, "kb": 10**3, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9}


def times(text: str, now: datetime) -> tuple[datetime | None, datetime | None]:
    """From when (included) to when (excluded) a file was modified. Days are those of the zone of `now`."""
    found = re.fullmatch(r"(<=|>=|<|>|)(.+)", text, re.DOTALL)
    operator, value = found.groups() if found else ("", "")
    if span := re.fullmatch(r"([0-9]{1,4})([hdwmy])", value):
        if operator:
            raise ValueError(
                f"{value} is the time until now; leave out {operator}, or put a - in front for what is older"
            )
        return now - int(span[1]) * _UNITS[span[2]], None
    start, end = _period(value, now)
    return {
        "": (start, end),
        "<": (None, start),
        "<=": (None, end),
        ">": (end, None),
        ">=": (start, None),
    }[operator]


def sizes(text: str) -> tuple[str, int]:
    """How to compare with which number of bytes."""
    found = re.fullmatch(r"(<=|>=|<|>)([0-9]{1,12}(?:\.[0-9]{1,6})?)([a-z]*)", text.casefold())
    if found is None or found[3] not in _BYTES:
        raise ValueError(f"{text} is no size; write >10kb, <2mb or >=500")
    return found[1], int(float(found[2]) * _BYTES[found[3]])


def one_of(text: str, names: tuple[str, ...]) -> str:
    """A name that is known; its plural will do."""
    name = text.casefold()
    for known in names:
        if name in {known, f"{known}s"}:
            return known
    raise ValueError(f"{text} is not known here; write one of {', '.join(names)}")


def _period(value: str, now: datetime) -> tuple[datetime, datetime]:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    match value:
        case "today":
            return today, today + timedelta(days=1)
        case "yesterday":
            return today - timedelta(days=1), today
        case _:
            found = re.fullmatch(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?", value)
    if found is None:
        raise ValueError(f"{value} is no date; write 2024-05-01, 2024-05, 2024, today, yesterday or 7d (h, d, w, m, y)")
    year, month, day = (int(part) if part else None for part in found.groups())
    try:
        start = today.replace(year=year or 0, month=month or 1, day=day or 1)
        if day is not None:
            return start, start + timedelta(days=1)
        # So many days later the next month or year has begun, and the one after it has not.
        if month is not None:
            return start, (start + timedelta(days=31)).replace(day=1)
        return start, (start + timedelta(days=366)).replace(month=1, day=1)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"there is no day {value}; check the month and the day") from error
