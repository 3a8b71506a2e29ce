"""`ObsidianSettings`: the app's settings for a vault, read from `.obsidian/`, never written.

A missing setting or a broken file means Obsidian's default. Dates have the formats of moment.js, in English: `YYYY` and
other tokens stand for parts of the date, `[text]` and all other characters for themselves.
"""

import re
from calendar import isleap
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidings._kit.bounded_json import as_dict, as_dicts, as_text, as_texts
from tidings._kit.files import read_json
from tidings._kit.patterns import BadPattern, Pattern, compiled
from tidings.vault.notes.model import key

_LARGEST_FILE = 1_000_000
_PATTERN_SECONDS = 0.05  # For one path and one regular expression of the user.
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NEAR = {"yesterday": -1, "tomorrow": 1}
_UNITS = {"d": "days", "w": "weeks", "h": "hours"}
_VARIABLE = re.compile(
    rf"\{{\{{\s*(?:(?P<name>date|time|{'|'.join((*_NEAR, *_WEEKDAYS))})\s*(?:(?P<count>[+-]\d{{1,4}})(?P<unit>[dwh]))?"
    r"\s*(?::\s*(?P<format>[^{}]*?))?|(?P<title>title))\s*\}\}",
    re.IGNORECASE,
)


PERIODS: Final = {
    "daily": "YYYY-MM-DD",
    "weekly": "gggg-[W]ww",
    "monthly": "YYYY-MM",
    "quarterly": "YYYY-[Q]Q",
    "yearly": "YYYY",
}
"""The periods that have a note, and the format of its name."""


class PeriodicNotes(NamedTuple):
    """The place of the notes of a period, and the content of a new one."""

    format: str
    folder: str = ""
    template: str = ""  # The path of a note, or empty.


@dataclass(frozen=True)
class ObsidianSettings:
    """The app's settings that matter to writing and finding. All paths are relative to the vault's folder."""

    periods: Mapping[str, PeriodicNotes] = field(
        default_factory=lambda: {name: PeriodicNotes(f) for name, f in PERIODS.items()}
    )
    date_format: str = "YYYY-MM-DD"
    time_format: str = "HH:mm"  # The formats of dates and times in templates.
    ignored: tuple[str, ...] = ()  # Paths hidden from search: prefixes, or regular expressions between slashes.

    @classmethod
    def read(cls, root: Path) -> "ObsidianSettings":
        folder = root / ".obsidian"
        files = ("app", "daily-notes", "templates", "plugins/periodic-notes/data")
        app, daily, templates, plugin = (read_json(folder / f"{name}.json", _LARGEST_FILE) for name in files)
        # Its newer version has sets of settings, and other names in them.
        sets = as_dicts(plugin.get("calendarSets"))
        plugin = next(
            (each for each in sets if each.get("id") == plugin.get("activeCalendarSet")), *sets[:1] or [plugin]
        )
        return cls(
            periods={name: _periodic(name, plugin, daily) for name in PERIODS},
            date_format=_text(templates, "dateFormat") or cls.date_format,
            time_format=_text(templates, "timeFormat") or cls.time_format,
            ignored=tuple(as_texts(app.get("userIgnoreFilters"))),
        )

    def ignores(self, inner: str) -> bool:
        prefixes, expressions = self._ignored
        for expression in expressions:
            with suppress(TimeoutError):
                if expression.search(inner, timeout=_PATTERN_SECONDS):
                    return True
        return key(inner).startswith(prefixes)

    @cached_property
    def _ignored(self) -> tuple[tuple[str, ...], list[Pattern]]:
        prefixes: list[str] = []
        expressions: list[Pattern] = []
        for text in self.ignored:
            if len(text) > 2 and text.startswith("/") and text.endswith("/"):
                with suppress(BadPattern):  # As in the app, a broken one hides nothing.
                    expressions.append(compiled(text[1:-1], ignore_case=True, multiline=True))
            elif text.strip("/"):
                prefixes.append(key(text))
        return tuple(prefixes), expressions


def periodic_path(settings: ObsidianSettings, day: date, period: str = "daily") -> str:
    """Returns the path of the note of the period that a day is in, within its vault."""
    form, folder, _ = settings.periods[period]
    return f"{folder}/{moment_format(day, _inner(form))}.md".removeprefix("/")


def first_day(settings: ObsidianSettings, day: date, period: str) -> date:
    """Returns the first day of the period that a day is in. Weeks of ISO begin on Monday, others on Sunday."""
    if period == "weekly":
        tokens = re.sub(r"\[.*?\]", "", settings.periods[period].format)
        return day - timedelta(day.weekday() if "W" in tokens else day.isoweekday() % 7)
    months = {"monthly": 1, "quarterly": 3, "yearly": 12}.get(period)
    return day.replace(month=(day.month - 1) // months * months + 1, day=1) if months else day


def fill_template(text: str, settings: ObsidianSettings, *, title: str, when: datetime) -> str:
    """Fills `{{title}}`, `{{date:YYYY}}`, `{{time}}`, `{{monday}}`, `{{date+7d}}` and the like into a template."""
    formats = {"date": settings.date_format, "time": settings.time_format}

    def value(match: re.Match[str]) -> str:
        if match["title"]:
            return title
        name = match["name"].lower()
        days = _WEEKDAYS.index(name) - when.weekday() if name in _WEEKDAYS else _NEAR.get(name, 0)
        moved = when + timedelta(days)
        if match["count"]:
            moved += timedelta(**{_UNITS[match["unit"].lower()]: int(match["count"])})
        return moment_format(moved, match["format"] or formats.get(name, settings.date_format))

    return _VARIABLE.sub(value, text)


def _periodic(name: str, plugin: dict[str, Any], core: dict[str, Any]) -> PeriodicNotes:
    """Returns the settings of a period: those of the plugin "Periodic Notes" if it is turned on there."""
    own = as_dict(plugin.get(name) or plugin.get("day" if name == "daily" else name.removesuffix("ly")))
    if name == "daily" and not own.get("enabled"):
        own = core
    template = _inner(_text(own, "template") or _text(own, "templatePath"))
    template = template if not template or template.endswith(".md") else f"{template}.md"
    return PeriodicNotes(_text(own, "format") or PERIODS[name], _inner(_text(own, "folder")), template)


def _text(settings: dict[str, Any], name: str) -> str:
    return (as_text(settings.get(name)) or "").strip()


def _inner(path: str) -> str:
    """Returns a path without the slashes at its ends: the app writes `/` for the vault itself."""
    return "/".join(filter(None, path.split("/")))


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
    return f"{value}{'th' if value % 100 in {11, 12, 13} else {1: 'st', 2: 'nd', 3: 'rd'}.get(value % 10, 'th')}"


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
