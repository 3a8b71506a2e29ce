"""Dates in the formats of moment.js, which Obsidian uses for the names of daily notes. In English, its default.

Tokens such as `YYYY` stand for parts of the date, `[text]` and all other characters for themselves.
"""

import re
from calendar import isleap
from collections.abc import Callable
from datetime import date, datetime, time
from functools import lru_cache

_MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

_LONG_FORMS = {
    "LTS": "h:mm:ss A",
    "LT": "h:mm A",
    "LLLL": "dddd, MMMM D, YYYY h:mm A",
    "LLL": "MMMM D, YYYY h:mm A",
    "LL": "MMMM D, YYYY",
    "L": "MM/DD/YYYY",
}
# In small letters, all parts are short.
_SHORT_FORMS = _LONG_FORMS | {
    name.lower(): re.sub("MMMM|dddd|MM|DD", lambda part: part[0][1:], _LONG_FORMS[name])
    for name in ("L", "LL", "LLL", "LLLL")
}


def _week(when: date) -> tuple[int, int]:
    """Returns year and week as in the USA: weeks begin on Sunday, and the first one contains January 1."""
    saturday = when.timetuple().tm_yday + 6 - when.isoweekday() % 7
    return (when.year + 1, 1) if saturday > 365 + isleap(when.year) else (when.year, (saturday + 6) // 7)


_NUMBERS: dict[str, Callable[[datetime], int]] = {
    "Y": lambda t: t.year,
    "y": lambda t: t.year,
    "Q": lambda t: (t.month + 2) // 3,
    "M": lambda t: t.month,
    "DDD": lambda t: t.timetuple().tm_yday,
    "D": lambda t: t.day,
    "d": lambda t: t.isoweekday() % 7,
    "e": lambda t: t.isoweekday() % 7,
    "E": lambda t: t.isoweekday(),
    "w": lambda t: _week(t)[1],
    "W": lambda t: t.isocalendar().week,
    "H": lambda t: t.hour,
    "h": lambda t: t.hour % 12 or 12,
    "k": lambda t: t.hour or 24,
    "m": lambda t: t.minute,
    "s": lambda t: t.second,
    "S": lambda t: t.microsecond // 100_000,
    "X": lambda t: int(t.timestamp()),
    "x": lambda t: int(t.timestamp() * 1000),
}


def _ordinal(value: int) -> str:
    ending = "th" if value % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    return f"{value}{ending}"


_ORDINALS = ("Q", "M", "DDD", "D", "d", "w", "W")
_TOKENS: dict[str, Callable[[datetime], object]] = {
    **_NUMBERS,
    **{2 * token: lambda t, token=token: f"{_NUMBERS[token](t):02}" for token in "MDwWHhkms"},
    **{f"{token}o": lambda t, token=token: _ordinal(_NUMBERS[token](t)) for token in _ORDINALS},
    "YYYYYY": lambda t: f"+{t.year:06}",
    "YYYYY": lambda t: f"{t.year:05}",
    "YYYY": lambda t: f"{t.year:04}",
    "YY": lambda t: f"{t.year % 100:02}",
    "MMMM": lambda t: _MONTHS[t.month - 1],
    "MMM": lambda t: _MONTHS[t.month - 1][:3],
    "DDDD": lambda t: f"{t.timetuple().tm_yday:03}",
    "dddd": lambda t: _DAYS[t.weekday()],
    "ddd": lambda t: _DAYS[t.weekday()][:3],
    "dd": lambda t: _DAYS[t.weekday()][:2],
    "gggg": lambda t: f"{_week(t)[0]:04}",
    "gg": lambda t: f"{_week(t)[0] % 100:02}",
    "GGGG": lambda t: f"{t.isocalendar().year:04}",
    "GG": lambda t: f"{t.isocalendar().year % 100:02}",
    "SSS": lambda t: f"{t.microsecond // 1000:03}",
    "SS": lambda t: f"{t.microsecond // 10_000:02}",
    "A": lambda t: "PM" if t.hour >= 12 else "AM",
    "a": lambda t: "pm" if t.hour >= 12 else "am",
    "ZZ": lambda t: t.astimezone().strftime("%z"),
    "Z": lambda t: f"{t.astimezone():%z}"[:3] + ":" + f"{t.astimezone():%z}"[3:5],
}


def moment_format(when: date, fmt: str) -> str:
    """Returns a date in a format; at midnight if it has no time."""
    moment = when if isinstance(when, datetime) else datetime.combine(when, time())
    return "".join(part if token is None else str(_TOKENS[token](moment)) for token, part in _parts(fmt))


@lru_cache(256)
def _parts(fmt: str) -> tuple[tuple[str | None, str], ...]:
    """Splits a format into tokens, and texts (with None) that stand for themselves."""
    long = _LONG.sub(lambda match: _SHORT_FORMS.get(match[0], match[0]), fmt)
    return tuple(
        (text, text) if text in _TOKENS else (None, text[1:-1] if match["quoted"] else text.removeprefix("\\"))
        for match in _SPLIT.finditer(long)
        for text in [match[0]]
    )


_LONG = re.compile(r"\[[^\[\]]*\]|\\?(?:LTS|LT|L{1,4}|l{1,4})")
_SPLIT = re.compile(
    rf"(?P<quoted>\[[^\[\]]*\])|\\?(?:{'|'.join(sorted(_TOKENS, key=len, reverse=True))})|\\?.", re.DOTALL
)
