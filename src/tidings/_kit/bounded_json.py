"""JSON that nobody has checked: safe access (another type counts as missing), size, cuts, one line for any value."""

import json
import re
import sys
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final, cast

from tidings._kit.text import shortened

HEAD: Final = 16_384  # Characters that are kept of a value that is cut

_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)
_OF_FIXED_SIZE: Final = frozenset((bool, int, float))
_COMMENT_OR_COMMA: Final = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*+[\]}])', re.DOTALL
)


class NotJson(ValueError):
    """A text is not JSON. The message says where and why."""


def as_dict(value: object) -> dict[str, Any]:
    """Returns the object, or an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_dict_or_none(value: object) -> dict[str, Any] | None:
    """Returns the object, or None."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[Any]:
    """Returns the list, or an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_dicts(value: object) -> list[dict[str, Any]]:
    """Returns the objects in a list."""
    return [cast("dict[str, Any]", each) for each in as_list(value) if isinstance(each, dict)]


def as_texts(value: object) -> list[str]:
    """Returns the texts in a list."""
    return [each for each in as_list(value) if isinstance(each, str)]


def as_text(value: object) -> str | None:
    """Returns the text, or None."""
    return value if isinstance(value, str) else None


def as_int(value: object) -> int | None:
    """Returns the integer, or None. True and False are not integers."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_float(value: object) -> float | None:
    """Returns the number as a finite float, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if number - number == 0 else None


def as_size(value: object) -> int:
    """Returns a number of bytes or items: 0 if it is none, and at most 2**53, so that sums stay meaningful."""
    return min(max(value, 0), 2**53) if type(value) is int else 0


def is_number(value: object) -> bool:
    """Returns whether the value is a number for JSON: true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def type_of(value: object) -> str:
    """Returns the type of a JSON value, in words."""
    names: dict[type, str] = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")


def weigh(value: Any, stop: int = 2**62) -> int:
    """Returns about how many bytes a JSON value, or a model, takes. Stops counting soon after `stop`. Never fails."""
    size = 0
    waiting: list[Any] = [value]
    while waiting and size <= stop:
        found = waiting.pop()
        if found is None or type(found) in _OF_FIXED_SIZE:
            size += 8
        elif isinstance(found, str):
            size += 2 + (len(found) if found.isascii() else sys.getsizeof(found))  # Both take constant time.
        elif isinstance(found, dict):
            mapping = cast("dict[Any, Any]", found)
            size += 2 + 4 * len(mapping)
            waiting += mapping.keys()
            waiting += mapping.values()
        elif isinstance(found, list | tuple):
            items = cast("list[Any]", found)
            size += 2 + len(items)
            waiting += items
        elif isinstance(attributes := getattr(found, "__dict__", None), dict):
            waiting += attributes.values()  # All instances share the names.
        else:
            size += 8
    return size


def cut(value: Any, size: int, head: int = HEAD) -> dict[str, Any]:
    """Returns what is kept of a value that is too large: `{"cut": true, "size": …, "head": …}`."""
    return {"cut": True, "size": size, "head": head_of(value, head)}


def is_cut(value: object) -> bool:
    """Returns whether the value was made by `cut`."""
    return isinstance(value, dict) and cast("dict[str, Any]", value).get("cut") is True and "head" in value


def head_of(value: Any, length: int = HEAD) -> str:
    """Returns the first `length` characters of a value as JSON (of a text: of itself), at bounded cost. Never fails."""
    if isinstance(value, str):
        return value[:length]
    pieces: list[str] = []
    left = length
    for piece in json.JSONEncoder(ensure_ascii=False).iterencode(plain(value, length)):
        pieces.append(piece[:left])
        left -= len(piece)
        if left <= 0:
            break
    return "".join(pieces)


def dumps(value: Any) -> str:
    """Returns compact ASCII JSON in one line, whatever the value: `plain` of it where JSON cannot express it."""
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return _ENCODER.encode(plain(value))


def shown(value: Any, limit: int | None = None) -> str:
    """Returns a value as JSON in one line for people, in at most `limit` characters. Never fails."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return "nested too deeply to be shown"
    return text if limit is None else shortened(text, limit)


def plain(value: Any, most: int | None = None, depth: int = 0) -> Any:  # noqa: PLR0911 - one for each kind of value
    """Returns the value as JSON can express it, with the first `most` characters or items of what is in it."""
    if isinstance(value, str):
        return value[:most]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -(10**300) < value < 10**300 else f"a number of {value.bit_length()} bits"
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if depth > 200:
        return "…"
    if isinstance(value, Mapping):
        pairs = islice(cast("Mapping[Any, Any]", value).items(), most)
        return {str(key)[:most]: plain(each, most, depth + 1) for key, each in pairs}
    if isinstance(value, list | tuple):
        return [plain(each, most, depth + 1) for each in cast("list[Any]", value)[:most]]
    return str(value)[:most]


def in_order(value: Any) -> Any:
    """Returns the value with the keys of its objects sorted, so that equal values are written alike."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return {key: in_order(each) for key, each in sorted(pairs, key=lambda pair: str(pair[0]))}
    return [in_order(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Returns the value with `change` applied to all keys, and to everything in it that is not a list or an object."""
    if isinstance(value, dict):
        return {change(key): mapped(each, change) for key, each in cast("dict[Any, Any]", value).items()}
    return [mapped(each, change) for each in cast("list[Any]", value)] if isinstance(value, list) else change(value)


def without_comments(text: str) -> str:
    """Returns JSON with spaces instead of comments and trailing commas: everything else keeps its place."""
    return _COMMENT_OR_COMMA.sub(
        lambda piece: piece[0] if piece[0].startswith('"') else re.sub(r"[^\n]", " ", piece[0]), text
    )


def parse_with_comments(text: str) -> tuple[Any, bool]:
    """Parses JSON with comments and trailing commas. Returns it, and whether it has neither. Raises `NotJson`."""
    bare = without_comments(text)
    try:
        return json.loads(bare), bare == text
    except json.JSONDecodeError as error:
        raise NotJson(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (RecursionError, ValueError):
        raise NotJson("it is nested too deeply, or has a number that is too long") from None
