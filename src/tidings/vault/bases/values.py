"""The values of formulas: their kinds, their texts, how they compare, and what the operators make of them.

Texts, booleans, lists and objects are those of Python, and None is an empty value. Numbers are as in JavaScript. What
cannot be computed raises `FormulaFailed`, with a message for the cell.
"""

import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, cast

from tidings._kit.patterns import BadPattern, Pattern, compiled
from tidings.vault.notes.model import key

LONGEST: Final = 100_000  # Characters of a text, and items of a list, that a formula may make.
_DAY: Final = 86_400_000
_DATE: Final = re.compile(
    r"(\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?)\s?(Z|[+-]\d\d:?\d\d)?(?:\.md)?", re.ASCII
)
_LINK: Final = re.compile(r"!?\[\[([^\[\]|]+)(?:\|([^\[\]]*))?\]\]|\[([^\[\]]*)\]\((?!\w+:)([^()\s]+)\)")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_SPAN: Final = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*,?\s*")
_UNITS: Final = {"y": "year", "M": "month", "d": "day", "w": "week", "h": "hour", "m": "minute", "s": "second"}
_MONTHS: Final = {"year": 12, "month": 1}
_MILLISECONDS: Final = {"week": 7 * _DAY, "day": _DAY, "hour": 3_600_000, "minute": 60_000, "second": 1000}


class FormulaFailed(Exception):
    """A formula has no value. The message is shown in its place."""


class FormulaDate(NamedTuple):
    """A date in local time."""

    when: datetime
    timed: bool = True  # False for a day without a time.


class Duration(NamedTuple):
    """A span of time."""

    months: float = 0
    milliseconds: float = 0


class FormulaLink(NamedTuple):
    """A link to a file or a page."""

    target: str
    shown: str | None = None

    def __str__(self) -> str:
        if re.match(r"\w+://", self.target):
            return f"[{self.shown}]({self.target})" if self.shown else self.target
        return f"[[{self.target}|{self.shown}]]" if self.shown else f"[[{self.target}]]"


class Regexp(NamedTuple):
    """A regular expression."""

    pattern: Pattern
    every: bool  # The flag g.


class LooseText(str):
    """A tag with its `#`, or the name of a note with `.md`. It equals the text without."""

    __slots__ = ()


Resolve = Callable[[FormulaLink], str | None]
"""Returns the path of the file that a link leads to."""

_KINDS: Final[dict[type, str]] = (
    {type(None): "null", bool: "boolean", list: "list", dict: "object", Regexp: "regexp"}
    | {FormulaDate: "date", Duration: "duration", FormulaLink: "link"}
    | dict.fromkeys((int, float), "number")
    | dict.fromkeys((str, LooseText), "string")
)


def kind_of(value: object) -> str:
    """Returns the name of a value's type, as `isType` knows it."""
    return _KINDS.get(type(value), "file")


def from_property(value: Any) -> Any:
    """Returns the value of a property: texts that are dates or links become such."""
    if isinstance(value, str):
        first = value[:1]
        found = parse_date(value) if first.isdigit() else parse_link(value) if first in ("[", "!") else None
        return found or value
    if isinstance(value, list):
        return [from_property(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: from_property(item) for name, item in cast("dict[str, Any]", value).items()}
    return value


def parse_date(text: str) -> FormulaDate | None:
    """Parses a date such as `2026-01-31` or `2026-01-31 12:00:00`."""
    if (found := _DATE.fullmatch(text.strip())) is None:
        return None
    timed = len(found[1]) > len("2026-01-31")
    try:
        when = datetime.fromisoformat(found[1] + (found[2] or ""))
        return FormulaDate(when.astimezone().replace(tzinfo=None) if when.tzinfo else when, timed)
    except (ValueError, OverflowError):
        return None


def parse_link(text: str) -> FormulaLink | None:
    """Parses a text that is nothing but one link."""
    wiki, shown, words, place = found.groups() if (found := _LINK.fullmatch(text.strip())) else (None,) * 4
    if place:
        return FormulaLink(place.replace("%20", " "), words)
    return FormulaLink(wiki.strip(), shown) if wiki else None


def parse_regexp(pattern: str, flags: str) -> Regexp:
    """Compiles a regular expression. Raises `BadPattern`."""
    if set(flags) - set("gimsuy"):
        raise BadPattern(f"there are no flags {flags!r}")
    made = compiled(pattern, ignore_case="i" in flags, multiline="m" in flags, dotall="s" in flags)
    return Regexp(made, "g" in flags)


def as_duration(value: Any) -> Duration | None:
    """Returns a duration, milliseconds, or a text such as `1d`, `2 weeks` or `1h 30m` as a duration."""
    if kind_of(value) == "number":
        return Duration(0, value)
    if not isinstance(value, str):
        return value if isinstance(value, Duration) else None
    parts = _SPAN.findall(value)
    units = [_UNITS.get(unit) or unit.lower().removesuffix("s") for _, unit in parts]
    if not parts or _SPAN.sub("", value) or not {*units} <= {*_MONTHS, *_MILLISECONDS}:
        return None
    spans = [(float(count), unit) for (count, _), unit in zip(parts, units, strict=True)]
    return Duration(
        sum(count * _MONTHS.get(unit, 0) for count, unit in spans),
        sum(count * _MILLISECONDS.get(unit, 0) for count, unit in spans),
    )


def text_of(value: Any, depth: int = 0) -> str:
    """Returns a value as text, as in a cell."""
    if text := _TEXTS.get(type(cast("object", value))):
        return text(value)
    if depth > 20:
        return "…"
    if isinstance(value, list):
        return _joined([text_of(item, depth + 1) for item in cast("list[Any]", value)])
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return "{" + _joined([f"{name}: {text_of(item, depth + 1)}" for name, item in items]) + "}"
    return f"[[{value.path.removesuffix('.md')}]]"


def _joined(parts: list[str]) -> str:
    if sum(map(len, parts)) > LONGEST:
        raise FormulaFailed(f"it has more than {LONGEST:,} characters")
    return ", ".join(parts)


def _number_text(number: float) -> str:
    if not math.isfinite(number):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(number, "NaN")
    return str(int(number)) if number == int(number) and abs(number) < 1e21 else repr(float(number))


_TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    type(None): lambda value: "",
    bool: lambda value: str(value).lower(),
    FormulaDate: lambda date: date.when.isoformat(" ", "seconds")[: 19 if date.timed else 10],
    **dict.fromkeys((int, float), _number_text),
    **dict.fromkeys((str, LooseText, FormulaLink), str),
    Duration: lambda span: f"{_number_text(span.months)} months" if span.months else _number_text(span.milliseconds),
    Regexp: lambda regexp: f"/{regexp.pattern.pattern}/",
}


def is_true(value: Any) -> bool:
    """Returns a value as a condition: empty texts, lists and objects, 0 and null are false."""
    return isinstance(value, tuple) or (bool(value) and value == value)  # noqa: PLR0124 - NaN is not itself


def is_empty(value: Any) -> bool:
    """Returns whether there is no value, or nothing in it."""
    return value is None or (isinstance(value, str | list | dict) and not value)


def to_number(value: Any) -> float:
    """Converts a value as `number()` does."""
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, FormulaDate):
        return value.when.timestamp() * 1000
    if isinstance(value, Duration):
        return value.months * 30 * _DAY + value.milliseconds
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value)
    raise FormulaFailed(f"{text_of(value)[:50]!r} is not a number")


def whole(number: float) -> float:
    """Returns an integer for a whole number."""
    return int(number) if type(number) is float and number.is_integer() and abs(number) < 2**53 else number


def bounded(value: Any) -> Any:
    """Refuses texts and lists that are too long."""
    if isinstance(value, str | list) and len(cast("str", value)) > LONGEST:
        raise FormulaFailed(f"it has more than {LONGEST:,} {'characters' if isinstance(value, str) else 'items'}")
    return cast("Any", value)


def equal(a: Any, b: Any, resolve: Resolve) -> bool:
    """Returns whether two values are the same. Links and files are if they lead to the same file."""
    kinds = {kind_of(a), kind_of(b)}
    if "date" in kinds:
        return compare(a, b) == 0
    if kinds & {"link", "file"}:
        return None not in (a, b) and _place(a, resolve) == _place(b, resolve)
    if kinds == {"number", "string"}:
        number, text = (a, b) if isinstance(b, str) else (b, a)
        return _number_text(number) == text.strip()
    if kinds == {"list"}:
        return len(a) == len(b) and all(equal(one, other, resolve) for one, other in zip(a, b, strict=True))
    if kinds == {"string"} and (isinstance(a, LooseText) or isinstance(b, LooseText)):
        a, b = (key(text).lstrip("#").removesuffix(".md") for text in (a, b))
    return len(kinds) == 1 and bool(a == b)


def _place(value: Any, resolve: Resolve) -> str:
    """Returns the path of a file, or the text of a link that leads nowhere."""
    if isinstance(value, str):
        value = parse_link(value) or FormulaLink(value)
    if isinstance(value, FormulaLink):
        return resolve(value) or f"\0{value.target}"
    return value.path if kind_of(value) == "file" else f"\0\0{text_of(value)}"


def _as_date(value: Any) -> FormulaDate | None:
    return value if isinstance(value, FormulaDate) else parse_date(value) if isinstance(value, str) else None


def compare(a: Any, b: Any) -> int | None:
    """Returns -1, 0 or 1; None for values that have no order, such as empty ones."""
    kinds = {kind_of(a), kind_of(b)}
    if "null" in kinds:
        return None
    if "date" in kinds:
        a, b = _as_date(a), _as_date(b)
        return None if a is None or b is None else (a.when > b.when) - (a.when < b.when)
    if kinds & {"number", "duration", "boolean"}:
        try:
            a, b = (to_number(as_duration(each) or each if "duration" in kinds else each) for each in (a, b))
        except FormulaFailed:
            return None
    elif kinds != {"string"}:
        a, b = text_of(a), text_of(b)
    return (a > b) - (a < b) if a == a and b == b else None  # noqa: PLR0124


def plus(a: Any, b: Any, sign: int = 1) -> Any:
    """Adds, or subtracts with a `sign` of -1: numbers, texts, lists, dates and durations."""
    if sign < 0 and isinstance(a, FormulaDate) and (other := _as_date(b)):
        return whole((a.when - other.when) / timedelta(milliseconds=1))
    if sign > 0 and isinstance(b, FormulaDate) and not isinstance(a, FormulaDate):
        a, b = b, a
    if isinstance(a, FormulaDate | Duration) and (span := as_duration(b)) is not None:
        if isinstance(a, FormulaDate):
            return shifted(a, span, sign)
        return Duration(a.months + sign * span.months, a.milliseconds + sign * span.milliseconds)
    if sign > 0 and (isinstance(a, str) or isinstance(b, str)):
        return bounded(text_of(a) + text_of(b))
    if sign > 0 and isinstance(a, list) and isinstance(b, list):
        return bounded(cast("list[Any]", a) + cast("list[Any]", b))
    return calculated("+" if sign > 0 else "-", a, b)


_CALCULATIONS: Final[dict[str, tuple[str, Callable[[float, float], float]]]] = {
    "+": ("add", lambda x, y: x + y),
    "-": ("subtract", lambda x, y: x - y),
    "*": ("multiply", lambda x, y: x * y),
    "/": ("divide", lambda x, y: x / y if y else x * math.inf),
    "%": ("divide", lambda x, y: math.fmod(x, y) if y and math.isfinite(x) else math.nan),
}


def calculated(sign: str, a: Any, b: Any) -> Any:
    """Calculates as JavaScript does: numbers, or a duration times a number. Nothing comes of an empty value."""
    verb, operate = _CALCULATIONS[sign]
    if a is None or b is None:
        return None
    if isinstance(b, int | float):
        if isinstance(a, int | float):
            return whole(operate(float(a), float(b)))
        if isinstance(a, Duration) and sign in "*/" and b:
            return Duration(operate(a.months, b), operate(a.milliseconds, b))
    raise FormulaFailed(f"cannot {verb} {kind_of(a)} and {kind_of(b)}")


def shifted(date: FormulaDate, span: Duration, sign: int = 1) -> FormulaDate:
    """Returns a date some time later, or earlier. The last of a month stays within the next."""
    try:
        year, month = divmod(date.when.year * 12 + date.when.month - 1 + sign * int(span.months), 12)
        first = date.when.replace(year=year, month=month + 1, day=1)
        last = ((first + timedelta(31)).replace(day=1) - first).days if span.months else 31
        when = first.replace(day=min(date.when.day, last)) + timedelta(milliseconds=sign * span.milliseconds)
    except (ValueError, OverflowError):
        raise FormulaFailed("the date is out of range") from None
    return FormulaDate(when, date.timed or bool(span.milliseconds % _DAY))


_AGO: Final = (  # As Moment: up to so many seconds, the words; or a unit, and its seconds.
    *((45, "a few seconds", 1), (90, "a minute", 1), (2700, "minutes", 60), (5400, "an hour", 1)),
    *((79_200, "hours", 3600), (129_600, "a day", 1), (2_246_400, "days", 86_400), (3_888_000, "a month", 1)),
    *((27_648_000, "months", 2_629_746), (47_347_200, "a year", 1), (math.inf, "years", 31_556_952)),
)


def relative(date: FormulaDate, now: datetime) -> str:
    """Returns a date as seen from now: `3 days ago`, `in an hour`."""
    seconds = abs((date.when - now).total_seconds())
    words, size = next((words, size) for most, words, size in _AGO if seconds < most)
    said = words if size == 1 else f"{round(seconds / size)} {words}"
    return f"in {said}" if date.when > now else f"{said} ago"


def order_key(value: Any) -> tuple[int, Any]:
    """Returns a key that sorts values of one kind as people do, and the kinds one after the other."""
    if isinstance(value, int | float | Duration):
        number = to_number(value)
        return (0, number if number == number else -math.inf)  # noqa: PLR0124
    if isinstance(value, FormulaDate):
        return (1, value.when.isoformat())
    return (2, key(value.shown or value.target if isinstance(value, FormulaLink) else text_of(value)))
