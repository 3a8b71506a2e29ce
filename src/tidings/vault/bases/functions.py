"""The functions and fields of formulas, by the type of the value that they belong to.

They are those of Obsidian's help, "Functions".
"""

# The values of formulas have any type: `called` turns a wrong one into an error of the cell.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

import html
import math
import random
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from itertools import islice
from operator import attrgetter
from typing import Any, Final, NamedTuple

from tidings.vault.bases import values
from tidings.vault.bases.values import LONGEST, FormulaDate, FormulaFailed, FormulaLink, Regexp, kind_of, text_of, whole
from tidings.vault.files.obsidian import moment_format

LAMBDAS: Final = frozenset({"filter", "map", "reduce"})
_DEEPEST: Final = 30
_SECONDS: Final = 0.05  # For a regular expression.
_SLOW_STEPS: Final = 100_000  # The price of one that took too long.

Function = Callable[..., Any]
Scope = Any
"""`rows.RowScope`: the file and the variables for which a formula is evaluated."""


class Scoped(NamedTuple):
    """A function that gets the scope before its values."""

    call: Function


def weight(value: Any) -> int:
    """Returns the size of a value in steps: that of a list or object includes those in it."""
    if not isinstance(value, list | dict):
        return len(value) >> 4 if isinstance(value, str) else 0
    count, depth, level = 0, 0, [value]
    while level:
        items = [item for each in level for item in (each.values() if isinstance(each, dict) else each)]
        count, depth = count + len(items), depth + 1
        if count > LONGEST or depth > _DEEPEST:
            raise FormulaFailed(f"it has more than {LONGEST:,} items, or more than {_DEEPEST} lists in each other")
        level = [item for item in items if isinstance(item, list | dict)]
    return count


def weighed(s: Scope, value: Any) -> Any:
    """Returns a value, for which steps are spent. Raises `FormulaFailed` if it is too large."""
    s.run.spend(weight(value))
    return value


def called(s: Scope, name: str, kind: str, arguments: Sequence[Any]) -> Any:
    """Calls a function of the type of the first argument, or a global one if `kind` is empty."""
    function = METHODS[kind].get(name) or METHODS["any"].get(name)
    if function is None and kind == "link" and name in METHODS["string"]:
        function, arguments = METHODS["string"][name], [text_of(arguments[0]), *arguments[1:]]
    if function is None:
        if kind == "null":
            return None
        raise FormulaFailed(f"a {kind} has no function {name}()")
    s.run.spend(1 + sum(map(weight, arguments)))
    try:
        result = function.call(s, *arguments) if isinstance(function, Scoped) else function(*arguments)
    except TimeoutError:
        with suppress(FormulaFailed):
            s.run.spend(_SLOW_STEPS)
        raise FormulaFailed(f"the regular expression of {name}() takes too long") from None
    except (TypeError, ValueError, AttributeError, OverflowError, ArithmeticError):
        wrong = ", ".join(map(kind_of, arguments[1 if kind else 0 :])) or "no value"
        raise FormulaFailed(f"{name}() cannot use {wrong}") from None
    return weighed(s, values.bounded(result))


def lambda_called(s: Scope, name: str, items: Any, each: Callable[[Scope], Any], *first: Any) -> Any:
    """Evaluates an expression for each item of a list."""
    if items is None:
        return None
    if not isinstance(items, list):
        raise FormulaFailed(f"a {kind_of(items)} has no function {name}()")
    if name == "reduce":
        (result,) = first
        for index, item in enumerate(items):
            result = each(s.within(value=item, index=index, acc=result))
        return result
    found = [(item, each(s.within(value=item, index=index))) for index, item in enumerate(items)]
    made = [item for item, kept in found if values.is_true(kept)] if name == "filter" else [new for _, new in found]
    return weighed(s, made)


def _contains(choose: Function) -> Scoped:
    def contains(s: Scope, items: Any, *wanted: Any) -> bool:
        if isinstance(items, str):
            return choose(text_of(each) in items for each in wanted)
        return choose(any(values.equal(item, each, s.run.resolve) for item in items) for each in wanted)

    return Scoped(contains)


def _fits(size: float) -> None:
    if size > LONGEST:
        raise FormulaFailed(f"the text gets more than {LONGEST:,} characters")


def _replace(text: str, pattern: Any, new: str) -> str:
    if not isinstance(pattern, Regexp):
        _fits(len(text) + text.count(pattern) * len(new))
        return text.replace(pattern, new)
    parts, end, size = list[str](), 0, 0
    for found in islice(pattern.pattern.finditer(text, timeout=_SECONDS), None if pattern.every else 1):
        groups = {"&": found[0], **{str(number): part for number, part in enumerate(found.groups(), 1)}}
        filled = re.sub(r"\$(\d|&)", lambda part, groups=groups: groups.get(part[1]) or "", new)
        parts += [text[end : found.start()], filled]
        end, size = found.end(), size + len(filled)
        _fits(size)
    return "".join([*parts, text[end:]])


def _split(text: str, separator: Any, most: Any = None) -> list[str]:
    if isinstance(separator, Regexp):
        parts = [part or "" for part in separator.pattern.split(text, timeout=_SECONDS)]
    else:
        parts = text.split(separator) if separator else list(text)
    return parts if most is None else parts[: int(most)]


def _join(items: list[Any], separator: str = ", ") -> str:
    parts = [text_of(item) for item in items]
    _fits(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def _repeat(text: str, count: float) -> str:
    _fits(count * len(text))
    return text * int(count)


def _unique(s: Scope, items: list[Any]) -> list[Any]:
    def same(value: Any) -> Any:
        place = s.run.resolve(value) if isinstance(value, FormulaLink) else getattr(value, "path", None)
        return place or (kind_of(value), text_of(value))

    return list({same(item): item for item in reversed(items)}.values())[::-1]


def _fixed(number: float, digits: Any = 0) -> str:
    if not math.isfinite(number):
        return text_of(number)
    return str(Decimal(repr(float(number))).quantize(Decimal(1).scaleb(-min(int(digits), 100)), ROUND_HALF_UP))


def _round(number: float, digits: Any = 0) -> float:
    scale = 10 ** min(int(digits), 15)
    return whole(math.floor(float(number) * scale + 0.5) / scale) if math.isfinite(number) else number


def _to_date(value: Any) -> Any:
    if value is None or isinstance(value, FormulaDate):
        return value
    if isinstance(value, int | float):
        return FormulaDate(datetime.fromtimestamp(value / 1000))  # noqa: DTZ006 - local
    if found := values.parse_date(text_of(value)):
        return found
    raise FormulaFailed(f"{text_of(value)[:50]!r} is not a date")


def _to_duration(value: Any) -> Any:
    if value is not None and values.as_duration(value) is None:
        raise FormulaFailed(f"{text_of(value)[:50]!r} is not a duration such as '2 weeks'")
    return values.as_duration(value)


def _to_link(target: Any, shown: Any = None) -> FormulaLink:
    path = target.path.removesuffix(".md") if kind_of(target) == "file" else text_of(target)
    found = target if isinstance(target, FormulaLink) else values.parse_link(path) or FormulaLink(path)
    return found if shown is None else FormulaLink(found.target, text_of(shown))


def _as_file(s: Scope, value: Any) -> Any:
    return value if value is None or kind_of(value) == "file" else s.run.file(s.run.resolve(_to_link(value)))


def _has_link(s: Scope, link: Any, other: Any) -> bool:
    file = _as_file(s, link)
    if file is None or other is None:
        return False
    path = other.path if kind_of(other) == "file" else s.run.resolve(_to_link(other))
    wanted = _to_link(other).target.casefold()
    return path in file.targets if path else any(link.target.casefold() == wanted for link in file.links + file.embeds)


def _numbers(items: Sequence[Any]) -> list[float]:
    """Returns the numbers among some values; texts such as those of `toFixed` count."""
    numbers: list[float] = []
    for item in items:
        with suppress(FormulaFailed):
            numbers += [values.to_number(item)] if kind_of(item) in ("number", "string") else []
    return numbers


def _extreme(choose: Callable[..., Any]) -> Function:
    def extreme(*items: Any) -> Any:
        known = [item for item in items if item is not None]
        return choose(known, key=values.order_key) if known else None

    return extreme


def _computed(function: Callable[[list[float]], float]) -> Function:
    return lambda items: whole(function(numbers)) if (numbers := _numbers(items)) else None


def _dates(items: Sequence[Any]) -> list[FormulaDate]:
    return [item for item in items if isinstance(item, FormulaDate)]


def _range(items: list[Any]) -> Any:
    known = _dates(items) or _numbers(items)
    return values.plus(max(known), min(known), -1) if known else None


def _day(when: datetime) -> FormulaDate:
    return FormulaDate(when.replace(hour=0, minute=0, second=0, microsecond=0), timed=False)


SUMMARIES: Final[dict[str, Function]] = {
    "Average": _computed(statistics.fmean),
    "Sum": lambda items: whole(math.fsum(_numbers(items))),
    "Min": _computed(min),
    "Max": _computed(max),
    "Median": _computed(statistics.median),
    "Stddev": _computed(statistics.pstdev),
    "Range": _range,
    "Earliest": lambda items: min(_dates(items), default=None),
    "Latest": lambda items: max(_dates(items), default=None),
    "Checked": lambda items: sum(item is True for item in items),
    "Unchecked": lambda items: sum(item is False for item in items),
    "Empty": lambda items: sum(map(values.is_empty, items)),
    "Filled": lambda items: sum(not values.is_empty(item) for item in items),
    "Unique": lambda items: len({(kind_of(item), text_of(item)) for item in items if not values.is_empty(item)}),
}

_HELD: Final[dict[str, Function | Scoped]] = {
    "contains": _contains(all),
    "containsAll": _contains(all),
    "containsAny": _contains(any),
    "slice": lambda items, start=0, end=None: items[int(start) : None if end is None else int(end)],
    "reverse": lambda items: items[::-1],
}
_FILE_OF: Final = Scoped(_as_file)
_LINKS: Final = Scoped(_has_link)

METHODS: Final[Mapping[str, Mapping[str, Function | Scoped]]] = {
    "": {"date": _to_date, "duration": _to_duration, "link": _to_link, "file": _FILE_OF, "random": random.random}
    | {
        "escapeHTML": lambda text: html.escape(text_of(text)),
        "html": text_of,
        "icon": text_of,
        "image": lambda path: f"![]({path if isinstance(path, str) else _to_link(path).target})",
        "list": lambda value: value if isinstance(value, list) else [] if value is None else [value],
        "max": _extreme(max),
        "min": _extreme(min),
        "now": Scoped(lambda s: FormulaDate(s.run.now)),
        "number": lambda value: None if value is None else whole(values.to_number(value)),
        "today": Scoped(lambda s: _day(s.run.now)),
    },
    "any": {"isTruthy": values.is_true, "toString": text_of, "isEmpty": values.is_empty}
    | {"isType": lambda value, kind: kind_of(value) == kind.lower()},
    "string": _HELD
    | {"endsWith": str.endswith, "startsWith": str.startswith, "lower": str.lower, "trim": str.strip}
    | {"replace": _replace, "repeat": _repeat, "split": _split}
    | {"title": lambda text: re.sub(r"\S+", lambda word: word[0][0].upper() + word[0][1:].lower(), text)},
    "number": {
        "abs": lambda number: whole(abs(number)),
        "ceil": lambda number: math.ceil(number) if math.isfinite(number) else number,
        "floor": lambda number: math.floor(number) if math.isfinite(number) else number,
        "round": _round,
        "toFixed": _fixed,
    },
    "date": {
        "date": lambda date: _day(date.when),
        "format": lambda date, form: moment_format(date.when, form[:1000]),
        "relative": Scoped(lambda s, date: values.relative(date, s.run.now)),
        "time": lambda date: f"{date.when:%H:%M:%S}",
    },
    "list": _HELD
    | {name: SUMMARIES[name.title()] for name in ("sum", "median", "stddev", "min", "max")}
    | {"mean": SUMMARIES["Average"], "join": _join, "unique": Scoped(_unique)}
    | {
        "flat": lambda items: [inner for item in items for inner in (item if isinstance(item, list) else [item])],
        "sort": lambda items: sorted(items, key=values.order_key),
    },
    "link": {"asFile": _FILE_OF, "linksTo": _LINKS},
    "file": {"asFile": _FILE_OF, "asLink": _to_link, "hasLink": _LINKS, "linksTo": _LINKS}
    | {
        "hasProperty": lambda file, name: file.has_property(name),
        "hasTag": lambda file, *tags: file.has_tag(tags),
        "inFolder": lambda file, folder: f"{file.folder}/".startswith(f"{folder.strip('/')}/") or not folder.strip("/"),
    },
    "object": {"keys": list, "values": lambda value: list(value.values())},
    "regexp": {"matches": lambda regexp, text: regexp.pattern.search(text_of(text), timeout=_SECONDS) is not None},
} | {kind: {} for kind in ("null", "boolean", "duration")}

_SPANS: Final[dict[str, Callable[[Any], Any]]] = {
    name: (lambda value, size=size: whole(values.to_number(value) / size))
    for name, size in {"weeks": 604_800_000, "days": 86_400_000, "hours": 3_600_000, "minutes": 60_000}.items()
    | {"seconds": 1000, "milliseconds": 1}.items()
}
_FILE: Final = ("name", "basename", "path", "folder", "ext", "size", "ctime", "mtime", "file")
_LISTS: Final = ("properties", "tags", "links", "embeds", "backlinks")
_PARTS: Final = ("year", "month", "day", "hour", "minute", "second")

FIELDS: Final[dict[str, dict[str, Callable[[Any], Any]]]] = {
    "string": {"length": len},
    "list": {"length": len},
    "number": _SPANS,
    "duration": _SPANS,
    "date": {name: attrgetter(f"when.{name}") for name in _PARTS}
    | {"millisecond": lambda date: date.when.microsecond // 1000},
    "file": {name: attrgetter(name) for name in (*_FILE, *_LISTS)},
}
