"""Dates as feeds and documents write them, as ISO 8601. What cannot be read without guessing is None."""

import re
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

from tidings.web.extract.metadata import iso_date

_PDF = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+\-Z])(?:(\d\d)'?(\d\d)?'?)?)?")
_SPACED = re.compile(r"(\d{4}-\d\d-\d\d)\s+(\d\d:\d\d(?::\d\d)?)\s*(Z|UTC|GMT|[+-]\d\d:?\d\d)?")
_LONGEST = 100


def moment(text: str | None) -> str | None:
    """A date of a feed: RFC 822 as RSS has it, ISO 8601 as Atom has it, and what lies between."""
    text = " ".join((text or "")[:_LONGEST].split())
    if not text:
        return None
    if text[:4].isdigit():
        spaced = _SPACED.fullmatch(text)
        if spaced:
            zone = "+00:00" if spaced[3] in {"Z", "UTC", "GMT"} else spaced[3] or ""
            text = f"{spaced[1]}T{spaced[2]}{zone}"
        return iso_date(text)
    try:
        found = parsedate_to_datetime(text)
        # `-0000` and names of zones that nobody knows: RFC 2822 says to take them as universal time.
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def pdf_moment(text: str) -> str | None:
    """A date of a PDF: `D:20240131120000+01'00'`."""
    found = _PDF.fullmatch(text.strip())
    if found is None:
        return iso_date(text)
    year, month, day, *time = (int(one) if one else None for one in found.groups()[:6])
    try:
        if time[0] is None:
            return datetime(year or 1, month or 1, day or 1, tzinfo=UTC).date().isoformat() if day else None
        whole = datetime(year or 1, month or 1, day or 1, time[0], time[1] or 0, time[2] or 0, tzinfo=_zone(found))
    except ValueError:
        return None
    return whole.isoformat()


def _zone(found: re.Match[str]) -> timezone | None:
    sign = found[7]
    if sign is None:
        return None
    ahead = timedelta(hours=int(found[8] or 0), minutes=int(found[9] or 0))
    return timezone(-ahead if sign == "-" else ahead) if ahead else UTC
