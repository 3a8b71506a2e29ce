"""Dates in the formats of moment.js, which Obsidian uses for the names of daily notes. In English, its default.

Tokens such as `YYYY` stand for parts of the date, `[text]` and all other characters for themselves.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

_MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

_SHORT_FORMS = {
    "LTS": "h:mm:ss A",
    "LT": "h:mm A",
    "LLLL": "dddd, MMMM D, YYYY h:mm A",
    "LLL": "MMMM D, YYYY h:mm A",
    "LL": "MMMM D, YYYY",
    "L": "MM/DD/YYYY",
    "llll": "ddd, MMM D, YYYY h:mm A",
    "lll": "MMM D, YYYY h:mm A",
    "ll": "MMM D, YYYY",
    "l": "M/D/YYYY",
}


def _ordinal(number: int) -> str:
    if number % 100 in {11, 12, 13}:
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def _day_of_year(when: date) -> int:
    return when.timetuple().tm_yday


def _week(when: date) -> tuple[int, int]:
    """Returns year and week as in the USA: weeks begin on Sunday, and the first one contains January 1."""
    to_saturday = 6 - when.isoweekday() % 7
    left = date(when.year, 12, 31).toordinal() - when.toordinal()
    if to_saturday > left:
        return when.year + 1, 1
    first = date(when.year, 1, 1)
    return when.year, (when.toordinal() - first.toordinal() + first.isoweekday() % 7) // 7 + 1


_TOKENS: dict[str, Callable[[datetime], object]] = {
    "YYYYYY": lambda t: f"+{t.year:06}",
    "YYYYY": lambda t: f"{t.year:05}",
    "YYYY": lambda t: f"{t.year:04}",
    "YY": lambda t: f"{t.year % 100:02}",
    "Y": lambda t: t.year,
    "y": lambda t: t.year,
    "Qo": lambda t: _ordinal((t.month + 2) // 3),
    "Q": lambda t: (t.month + 2) // 3,
    "MMMM": lambda t: _MONTHS[t.month - 1],
    "MMM": lambda t: _MONTHS[t.month - 1][:3],
    "MM": lambda t: f"{t.month:02}",
    "Mo": lambda t: _ordinal(t.month),
    "M": lambda t: t.month,
    "DDDD": lambda t: f"{_day_of_year(t):03}",
    "DDDo": lambda t: _ordinal(_day_of_year(t)),
    "DDD": _day_of_year,
    "DD": lambda t: f"{t.day:02}",
    "Do": lambda t: _ordinal(t.day),
    "D": lambda t: t.day,
    "dddd": lambda t: _DAYS[t.weekday()],
    "ddd": lambda t: _DAYS[t.weekday()][:3],
    "dd": lambda t: _DAYS[t.weekday()][:2],
    "do": lambda t: _ordinal(t.isoweekday() % 7),
    "d": lambda t: t.isoweekday() % 7,
    "e": lambda t: t.isoweekday() % 7,
    "E": lambda t: t.isoweekday(),
    "gggg": lambda t: f"{_week(t)[0]:04}",
    "gg": lambda t: f"{_week(t)[0] % 100:02}",
    "ww": lambda t: f"{_week(t)[1]:02}",
    "wo": lambda t: _ordinal(_week(t)[1]),
    "w": lambda t: _week(t)[1],
    "GGGG": lambda t: f"{t.isocalendar().year:04}",
    "GG": lambda t: f"{t.isocalendar().year % 100:02}",
    "WW": lambda t: f"{t.isocalendar().week:02}",
    "Wo": lambda t: _ordinal(t.isocalendar().week),
    "W": lambda t: t.isocalendar().week,
    "HH": lambda t: f"{t.hour:02}",
    "H": lambda t: t.hour,
    "hh": lambda t: f"{t.hour % 12 or 12:02}",
    "h": lambda t: t.hour % 12 or 12,
    "kk": lambda t: f"{t.hour or 24:02}",
    "k": lambda t: t.hour or 24,
    "mm": lambda t: f"{t.minute:02}",
    "m": lambda t: t.minute,
    "ss": lambda t: f"{t.second:02}",
    "s": lambda t: t.second,
    "SSS": lambda t: f"{t.microsecond // 1000:03}",
    "SS": lambda t: f"{t.microsecond // 10_000:02}",
    "S": lambda t: t.microsecond // 100_000,
    "A": lambda t: "PM" if t.hour >= 12 else "AM",
    "a": lambda t: "pm" if t.hour >= 12 else "am",
    "ZZ": lambda t: t.astimezone().strftime("%z"),
    "Z": lambda t: f"{t.astimezone():%z}"[:3] + ":" + f"{t.astimezone():%z}"[3:5],
    "X": lambda t: int(t.timestamp()),
    "x": lambda t: int(t.timestamp() * 1000),
}

_WORDS = {
    "MMMM": "|".join(_MONTHS),
    "MMM": "|".join(name[:3] for name in _MONTHS),
    "dddd": "|".join(_DAYS),
    "ddd": "|".join(name[:3] for name in _DAYS),
    "dd": "|".join(name[:2] for name in _DAYS),
    "A": "AM|PM",
    "a": "am|pm",
    "Z": r"[+-]\d\d:\d\d",
    "ZZ": r"[+-]\d{4}",
    "YYYYYY": r"\+\d{6}",
    "YYYYY": r"\d{5}",
    "YYYY": r"\d{4}",
    "gggg": r"\d{4}",
    "GGGG": r"\d{4}",
    "DDDD": r"\d{3}",
    "SSS": r"\d{3}",
}


def moment_format(when: date, fmt: str) -> str:
    """Returns a date in a format; at midnight if it has no time."""
    moment = when if isinstance(when, datetime) else datetime(when.year, when.month, when.day)  # noqa: DTZ001 - local
    return "".join(part if token is None else str(_TOKENS[token](moment)) for token, part in _parts(fmt))


def moment_parse(text: str, fmt: str) -> date | None:
    """Returns the date that `text` says in a format; None if it does not fit, or the format does not name a day."""
    expression, tokens = _expression(fmt)
    match = expression.fullmatch(text)
    if match is None:
        return None
    parts = dict(zip(tokens, match.groups(), strict=True))
    try:
        found = _by_date(parts) or _by_week(parts) or _by_seconds(parts)
    except (ValueError, OverflowError):  # The 30th of February.
        return None
    # The other parts of the text have to say the same date. Their time does not matter.
    if found and all(token[0] in "HhkmsSAaZXx" or moment_format(found, token) == parts[token] for token in parts):
        return found
    return None


@lru_cache(256)
def _parts(fmt: str) -> tuple[tuple[str | None, str], ...]:
    """Splits a format into tokens, and texts (with None) that stand for themselves."""
    found: list[tuple[str | None, str]] = []
    for match in _SPLIT.finditer(_LONG.sub(lambda match: _SHORT_FORMS.get(match[0], match[0]), fmt)):
        text = match[0]
        if text in _TOKENS:
            found.append((text, text))
        else:
            found.append((None, text[1:-1] if match["quoted"] else text.removeprefix("\\")))
    return tuple(found)


_LONG = re.compile(r"\[[^\[\]]*\]|\\?(?:LTS|LT|L{1,4}|l{1,4})")
_SPLIT = re.compile(
    rf"(?P<quoted>\[[^\[\]]*\])|\\?(?:{'|'.join(sorted(_TOKENS, key=len, reverse=True))})|\\?.", re.DOTALL
)


@lru_cache(256)
def _expression(fmt: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    expression = ""
    tokens: list[str] = []
    for token, part in _parts(fmt):
        if token is None:
            expression += re.escape(part)
        elif token in tokens:  # For example the year as a folder and again in the name: both have to agree.
            expression += f"(?:\\{tokens.index(token) + 1})"
        else:
            tokens.append(token)
            expression += f"({_WORDS.get(token) or _digits(token)})"
    return re.compile(expression), tuple(tokens)


def _digits(token: str) -> str:
    if token.endswith("o"):
        return r"\d{1,3}(?:st|nd|rd|th)"
    return r"\d{2}" if len(token) == 2 else r"-?\d{1,16}" if token in {"X", "x"} else r"\d{1,4}"


def _by_date(parts: dict[str, str]) -> date | None:
    year = _number(parts, "YYYYYY", "YYYYY", "YYYY", "Y", "y", "YY")
    if year is None:
        return None
    if "YY" in parts and year < 100:
        year = _century(year, parts, "YYYY")
    day, month = _number(parts, "DD", "D", "Do"), _number(parts, "MM", "M", "Mo")
    for token, letters in (("MMMM", None), ("MMM", 3)):
        if month is None and token in parts:
            month = [name[:letters] for name in _MONTHS].index(parts[token]) + 1
    if month is not None and day is not None:
        return date(year, month, day)
    day_of_year = _number(parts, "DDDD", "DDD", "DDDo")
    return None if day_of_year is None else date(year, 1, 1) + timedelta(day_of_year - 1)


def _by_week(parts: dict[str, str]) -> date | None:
    day = _weekday(parts)
    if day is None:
        return None
    year, week = _number(parts, "GGGG", "GG"), _number(parts, "WW", "W", "Wo")
    if year is not None and week is not None:
        return date.fromisocalendar(_century(year, parts, "GGGG"), week, day)
    year, week = _number(parts, "gggg", "gg"), _number(parts, "ww", "w", "wo")
    if year is not None and week is not None:
        first = date(_century(year, parts, "gggg"), 1, 1)
        return first + timedelta(7 * (week - 1) + day % 7 - first.isoweekday() % 7)
    return None


def _by_seconds(parts: dict[str, str]) -> date | None:
    seconds = _number(parts, "X")
    if seconds is None and (milliseconds := _number(parts, "x")) is not None:
        seconds = milliseconds // 1000
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).astimezone().date()


def _century(year: int, parts: dict[str, str], whole: str) -> int:
    """Expands two digits to 1969 to 2068, as moment.js does."""
    return year if whole in parts else year + (2000 if year <= 68 else 1900)


def _weekday(parts: dict[str, str]) -> int | None:
    """Returns the ISO weekday: Monday is 1, Sunday 7."""
    for token, letters in (("dddd", None), ("ddd", 3), ("dd", 2)):
        if token in parts:
            return [name[:letters] for name in _DAYS].index(parts[token]) + 1
    day = _number(parts, "E", "d", "e", "do")
    return day if day is None or 1 <= day <= 7 else 7 if day == 0 else None


def _number(parts: dict[str, str], *tokens: str) -> int | None:
    for token in tokens:
        if token in parts:
            return int(parts[token].rstrip("stndrh"))
    return None
